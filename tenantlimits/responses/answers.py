"""What a refusal is told once, whichever surfaces write it: its id, and how long to wait."""

from __future__ import annotations

import logging
import math
import os
import random
from dataclasses import dataclass
from datetime import datetime

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.periods import US, from_us
from tenantlimits.engine.keys import Identity
from tenantlimits.tenancy import Scope, enter, leave

logger = logging.getLogger("tenantlimits.responses")

# Module-level names, so that tests can put known values in their place.
chance = random.random
entropy = os.urandom

_KEPT = "_answer"
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal as it is told: `id` of the decision, and `wait` in whole seconds, None where waiting is of no use."""

    id: str
    wait: int | None


def answer_to(decision: Decision) -> Answer:
    """The answer to a refused decision. The first asking makes and logs it, so that every surface tells the same."""
    # Beside the decision's cached properties: it lives as long as the decision, which is repeated to many while a flood
    # lasts. Of two threads that make one at the same time, one has made it.
    kept: Answer | None = vars(decision).get(_KEPT)
    if kept is None:
        made = Answer(decision_id(decision.now_us, entropy(10)), _wait(decision))
        kept = vars(decision).setdefault(_KEPT, made)
        if kept is made:
            _log(decision, kept)
    return kept


def decision_id(now_us: float, random_bytes: bytes) -> str:
    """A ULID: 48 bits of milliseconds, 80 random bits, in Crockford's base 32. Its text sorts by time."""
    number = (int(now_us // 1000) & (1 << 48) - 1) << 80 | int.from_bytes(random_bytes)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def reset_at(decision: Decision) -> datetime | None:
    """When a repeated operation is admitted if nobody else spends, to the second, rounded up.

    None where nobody can say: it never is, it waits for another operation to end, or for the store to come back.
    """
    one = decision.binding
    if one is None or one.wait is None or decision.retry_after is None:
        return None
    try:
        return from_us(math.ceil((decision.now_us + decision.retry_after * US) / US) * US)
    except OverflowError:  # a wait beyond the year 9999
        return None


def _wait(decision: Decision) -> int | None:
    exact = decision.retry_after
    if exact is None:
        return None
    return max(1, math.ceil(exact + conf.RESPONSES.jitter * chance()))


def _log(decision: Decision, answer: Answer) -> None:
    one = decision.binding
    known = {
        "decision": answer.id,
        "lane": decision.lane,
        "limit": one.limit.name if one else "",
        "code": str(decision.code),
    }
    # A record takes its `tenant` from the scope it is written in (see tenancy); an extra of that name is an error.
    token = enter(Scope(Identity(tenant=decision.tenant)))
    try:
        logger.info("Refused: %s, decision %s", known["code"], answer.id, extra=known)
    finally:
        leave(token)
