"""Words for people about what a tenant holds of a pool now, in the language that is active."""

from __future__ import annotations

import math

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits.domain.pools import ShareInForce
from tenantlimits.domain.snapshots import Held, Why
from tenantlimits.wording import NEAR, LimitState, number_words, wait_words

_REASONS: dict[Why, Promise] = {
    Why.SHARE_TOO_SMALL: gettext_lazy("its share is too small: it waits while slots are idle"),
    Why.SHARE_USED: gettext_lazy("its share is in use, and there is nothing to borrow"),
    Why.CAPACITY: gettext_lazy("all slots are in use, though its share is not"),
    Why.OPENS_SOON: gettext_lazy("the store began anew, and has to learn first who has a slot"),
    Why.NEXT: gettext_lazy("it is next"),
}


def share_state(one: ShareInForce, held: Held | None) -> LimitState:
    """How close a share is: limited where operations wait or not one more may run, near from 80 % of it on."""
    slots, lends = one.share.slots, one.pool.rules.lent_at_most > 0
    if slots == 0 and not lends:
        return LimitState.BLOCKED
    if held is None:
        return LimitState.UNKNOWN
    used = held.busiest.running
    if held.waiting or (used >= slots and not lends):
        return LimitState.LIMITED
    return LimitState.NEAR if used >= NEAR * slots > 0 else LimitState.OK


def running_words(held: Held, share: int) -> str:
    """What runs where most of it does: "6 running (2 borrowed)"."""
    used = held.busiest.running
    words = {"running": number_words(used), "borrowed": number_words(max(0, used - share))}
    if used < held.running:
        if used <= share:
            return _("%(running)s running in the busiest process") % words
        return _("%(running)s running in the busiest process (%(borrowed)s borrowed)") % words
    return (_("%(running)s running") if used <= share else _("%(running)s running (%(borrowed)s borrowed)")) % words


def held_words(held: Held, share: int) -> str:
    """What runs and waits: "6 running (2 borrowed), 12 waiting (oldest 8 s)"."""
    running = running_words(held, share)
    if not held.waiting:
        return running
    return _("%(running)s, %(waiting)s waiting (oldest %(oldest)s)") % {
        "running": running,
        "waiting": number_words(held.waiting),
        "oldest": oldest_words(held),
    }


def oldest_words(held: Held) -> str:
    """For how long the first has waited: "8 s"; empty where nobody waits."""
    oldest = held.oldest_wait
    return "" if oldest is None else _("%(seconds)s s") % {"seconds": number_words(math.floor(oldest))}


def more_words(one: ShareInForce, held: Held) -> str:
    """When one more may run: "now", "in about 21 seconds", "while nobody else waits", "when one ends"."""
    lends = one.pool.rules.lent_at_most > 0
    if one.share.slots == 0 and not lends:
        return ""
    if held.waiting:
        return _("in about %(wait)s") % {"wait": wait_words(held.estimate)}
    if held.busiest.running < one.share.slots:
        return _("now")
    return _("while nobody else waits") if lends else _("when one ends")


def advice_words(one: ShareInForce, held: Held) -> str:
    """What to know about a share while its tenant waits: how large it is, or that it is too small."""
    slots = number_words(one.share.slots)
    if held.is_share_too_small:
        return _("Your share of %(slots)s is too small: operations wait while slots are idle.") % {"slots": slots}
    return _("Your share is %(slots)s.") % {"slots": slots} if held.waiting else ""


def why_words(why: Why) -> str:
    """Why a tenant waits, for staff."""
    return str(_REASONS[why])
