"""What staff should do next: what is not limited, not counted or not seen, with the page where it is mended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, PermissionsMixin
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from tenantlimits.conf import conf
from tenantlimits.models import Switch, Tenant, Tier, UsageHour
from tenantlimits.models.choices import Mode
from tenantlimits.wording import number_words

OBSERVED = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do. `level` is a message's tag; `view` a page of ours, and `permission` what it takes to open it."""

    text: str
    action: str = ""
    level: str = "warning"
    view: str = ""
    args: tuple[object, ...] = ()
    query: str = ""
    permission: str = ""

    def url(self, site_name: str) -> str:
        """The address of the page on the admin site of that name; empty where there is none."""
        if not self.view:
            return ""
        return reverse(f"admin:tenantlimits_{self.view}", args=self.args, current_app=site_name) + self.query


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step as a page shows it: a link only for a user who may follow it."""

    text: str
    level: str
    action: str
    url: str


def shown(steps: list[Step], user: AbstractBaseUser | AnonymousUser, site_name: str) -> list[ShownStep]:
    """The steps with links to where this user may take them."""
    permissions = user if isinstance(user, PermissionsMixin) else AnonymousUser()
    return [
        ShownStep(
            step.text,
            step.level,
            step.action,
            step.url(site_name) if permissions.has_perm(f"tenantlimits.{step.permission}") else "",
        )
        for step in steps
    ]


def tier_steps() -> list[Step]:
    """What is wrong with the tiers, and what tier `anonymous` would have refused."""
    try:
        default, anonymous = conf.DEFAULT_TIER, conf.ANONYMOUS_TIER
    except ImproperlyConfigured as error:
        return [Step(text=str(error), level="error")]
    steps = _missing(default, _("every tenant without a tier of its own"))
    if anonymous:
        steps += _missing(anonymous, _("every caller without a tenant"))
    return [*steps, *_empty_tiers(), *_observing(anonymous, timezone.now())]


def site_steps() -> list[Step]:
    """All of that, and what a fresh install has not seen yet."""
    return [*_switched(), *tier_steps(), *_unseen()]


def _missing(slug: str, whose: str) -> list[Step]:
    if Tier.objects.filter(slug=slug).exists():
        return []
    text = _("There is no tier %(slug)s, which the settings name: %(whose)s is counted, but NOT limited.")
    return [
        Step(
            text=text % {"slug": slug, "whose": whose},
            action=_("Add tier %(slug)s now, with its limits") % {"slug": slug},
            level="error",
            view="tier_add",
            query="?" + urlencode({"slug": slug, "name": slug.replace("-", " ").replace("_", " ").capitalize()}),
            permission="add_tier",
        )
    ]


def _empty_tiers() -> list[Step]:
    return [
        Step(
            text=_("Tier %(slug)s is in use and has no limits: its tenants are NOT limited.") % {"slug": tier.slug},
            action=_("Give tier %(slug)s its limits") % {"slug": tier.slug},
            level="error",
            view="tier_change",
            args=(tier.pk,),
            permission="change_tier",
        )
        for tier in Tier.objects.filter(limits=None)
        if tier.is_in_use()
    ]


def _observing(slug: str | None, now: datetime) -> list[Step]:
    tier = Tier.objects.filter(slug=slug, mode=Mode.OBSERVE).first()
    if tier is None:
        return []
    return [
        Step(
            text=_("Tier %(slug)s only observes: callers without a tenant are not limited. %(counted)s %(when)s")
            % {"slug": tier.slug, "counted": _would_have_refused(now), "when": _when_to_enforce()},
            action=_("Set tier %(slug)s to enforce") % {"slug": tier.slug},
            view="tier_change",
            args=(tier.pk,),
            permission="change_tier",
        )
    ]


def _would_have_refused(now: datetime) -> str:
    requests, refused = 0, Counter[str]()
    hours = UsageHour.objects.filter(tenant__key="", start__gt=now - OBSERVED)
    for counted, observed_by in hours.values_list("requests", "observed_by"):
        requests += counted
        refused.update(observed_by)
    if not requests:
        return _("In the last 24 hours no request without a tenant was counted (or the flush has not run).")
    words = {"requests": number_words(requests)}
    if not refused:
        return _("In the last 24 hours it would have refused none of %(requests)s requests.") % words
    words["refused"] = ", ".join(f"{number_words(times)} ({limit})" for limit, times in refused.most_common())
    return _("In the last 24 hours it would have refused %(refused)s of %(requests)s requests.") % words


def _when_to_enforce() -> str:
    return _(
        "Enforce it once it would have refused none or only strangers over a usual week; many people may sit behind "
        "one address: raise the limit first where they do."
    )


def _switched() -> list[Step]:
    switch = Switch.current()
    if switch.mode == Mode.ENFORCE:
        return []
    text = _("The switch of the whole site is at %(mode)s: no tenant is refused anything. Reason: %(reason)s")
    return [
        Step(
            text=text % {"mode": switch.get_mode_display(), "reason": switch.reason},
            action=_("Open the switch"),
            level="error",
            view="switch_changelist",
            permission="view_switch",
        )
    ]


def _unseen() -> list[Step]:
    steps = []
    if not Tenant.objects.exclude(key="").exists():
        text = _(
            "No tenant has been seen yet: a tenant gets its row at its first request. Where requests come in already, "
            "run manage.py tenantlimits_doctor, which looks at TENANT_RESOLVER and the middleware."
        )
        steps.append(
            Step(text=text, action=_("Or add a tenant by hand"), level="info", view="tenant_add",
                 permission="add_tenant")
        )  # fmt: skip
    if not UsageHour.objects.exists():
        text = _(
            "No usage has been written yet: run manage.py tenantlimits_flush every minute, or its Celery task. Limits "
            "hold without it; charts and numbers of the past need it."
        )
        steps.append(Step(text=text, level="info"))
    return steps
