"""From what a settings file says to checked values: a parser answers the value, or ValueError with what to write."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.utils.module_loading import import_string

from tenantlimits.domain.errors import InvalidCost
from tenantlimits.domain.lanes import MILLI, Excess, Lane, OnStoreFailure, milli
from tenantlimits.domain.limits import ALL_LANE
from tenantlimits.domain.pools import MAX_SLOTS, PoolSpec, Scope

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Function = Callable[..., Any]
"""A host's resolver: takes the HttpRequest. What it answers is judged where it is called."""


class Store(StrEnum):
    """Where state lives: in Redis, or in this process (for tests; every process would count for itself)."""

    REDIS = "redis"
    MEMORY = "memory"


class HeaderStyle(StrEnum):
    """The fields that tell a client its limits."""

    RATELIMIT = "ratelimit"
    X_RATELIMIT = "x-ratelimit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """How refusals are worded. `jitter` is the most that is added to Retry-After, in seconds."""

    headers: HeaderStyle | None = HeaderStyle.RATELIMIT
    problem_base: str = "https://iana.org/assignments/http-problem-types#"
    upgrade_url: str | None = None
    docs_url: str | None = None
    jitter: float = 0.0


def suggestion(word: object, known: Iterable[str]) -> str:
    """` Did you mean 'exports'?`, or nothing where no known word is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def zone_named(name: object) -> ZoneInfo:
    """The time zone, or ValueError with what to write."""
    try:
        # ZoneInfo itself would take a tuple for the arguments of a look-up, and answer what stands in it.
        return ZoneInfo(name if isinstance(name, str) else "")
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError(f"{name!r} is not a time zone: write an IANA name, such as Europe/Paris or UTC.") from None


def function(raw: object) -> Function:
    if isinstance(raw, str):
        try:
            raw = import_string(raw)
        except ImportError as error:
            raise ValueError(f"it cannot be imported ({error}): write the dotted path of a function.") from error
    if not callable(raw):
        raise ValueError("write the dotted path of a function, such as 'portal.tenancy.tenant_of', or it.")  # noqa: TRY004 - one error for whatever is wrong
    return raw


def word(raw: object) -> str:
    if not isinstance(raw, str) or not re.fullmatch(r"[-a-zA-Z0-9_.]{1,50}", raw):
        raise ValueError("write a name of 1 to 50 letters, digits, '-', '_' or '.'.")
    return raw


def prefix(raw: object) -> str:
    # Braces would move the hash tag that keeps a script's keys on one node.
    if not isinstance(raw, str) or not re.fullmatch(r"[^{}\s]{1,40}", raw):
        raise ValueError("write 1 to 40 characters without braces and spaces, such as 'tl'.")
    return raw


def flag(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError("write True or False.")  # noqa: TRY004 - one error for whatever is wrong
    return raw


def url(raw: object) -> str:
    if not isinstance(raw, str) or not re.fullmatch(r"(https?://|urn:|/)\S+", raw):
        raise ValueError("write a URL that starts with https://, or a path that starts with /.")
    return raw


def zone(raw: object) -> ZoneInfo:
    return zone_named(settings.TIME_ZONE if raw is None else raw)


def whole(low: int, high: int) -> Callable[[object], int]:
    def parse(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not low <= raw <= high:
            raise ValueError(f"write a whole number from {low:,} to {high:,}.")
        return raw

    return parse


def seconds(low: float, high: float) -> Callable[[object], float]:
    def parse(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not low <= raw <= high:
            raise ValueError(f"write a number of seconds from {low:g} to {high:,g}.")
        return float(raw)

    return parse


def part(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
        raise ValueError("write a part from 0 (none) to 1 (all), such as 0.5.")
    return float(raw)


def choice(enum: type[E]) -> Callable[[object], E]:
    words = [member.value for member in enum]

    def parse(raw: object) -> E:
        if raw not in words:
            raise ValueError(f"write one of {', '.join(map(repr, words))}.{suggestion(raw, words)}")
        return enum(raw)

    return parse


def optional(parse: Callable[[object], T]) -> Callable[[object], T | None]:
    return lambda raw: None if raw is None else parse(raw)


def cost(raw: object) -> float:
    try:
        return milli(raw) / MILLI
    except InvalidCost as error:
        raise ValueError(str(error)) from None


def options(raw: object, parsers: Mapping[str, Callable[[object], Any]]) -> dict[str, Any]:
    """The parsed values of a dict, each by the parser of its key."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"{raw!r} is no dict: write one with any of {', '.join(parsers)}.")  # noqa: TRY004 - as above
    parsed = {}
    for key, value in raw.items():
        if key not in parsers:
            raise ValueError(
                f"{key!r} is not known: take it out; there are {', '.join(parsers)}.{suggestion(key, parsers)}"
            )
        try:
            parsed[key] = parsers[key](value)
        except ValueError as error:
            raise ValueError(f"{key!r} is {value!r}: {error}") from error
    return parsed


_RESPONSES: Mapping[str, Callable[[object], Any]] = {
    "headers": optional(choice(HeaderStyle)),
    "problem_base": url,
    "upgrade_url": optional(url),
    "docs_url": optional(url),
    "jitter": seconds(0, 3600),
}
_LANE: Mapping[str, Callable[[object], Any]] = {
    "cost": cost,
    "counts_in_all": flag,
    "on_store_failure": choice(OnStoreFailure),
    "max_hold_seconds": optional(seconds(0.001, 86_400)),
    "pool": optional(word),
    "excess": choice(Excess),
    "wait_seconds": optional(seconds(0.001, 3600)),
    "queue": optional(whole(0, MAX_SLOTS)),
}
_POOL: Mapping[str, Callable[[object], Any]] = {
    "scope": choice(Scope),
    "capacity": whole(1, MAX_SLOTS),
    "lendable": part,
    "queue": whole(0, MAX_SLOTS),
    "lease_seconds": optional(seconds(1, 3600)),
}


def responses(raw: object) -> Responses:
    return Responses(**options(raw, _RESPONSES))


def lanes(raw: object, pools: Collection[str]) -> dict[str, Lane]:
    if not isinstance(raw, Mapping):
        raise ValueError("write a dict of lanes, such as {'exports': {'cost': 50}}.")  # noqa: TRY004 - as above
    return {name: lane(name, spec, pools) for name, spec in raw.items()}


def lane(name: object, spec: object, pools: Collection[str]) -> Lane:
    try:
        found = Lane(name=lane_name(name), **options(spec, _LANE))
        _check_excess(found, pools)
    except ValueError as error:
        raise ValueError(f"lane {name!r}: {error}") from error
    return found


def _check_excess(lane: Lane, pools: Collection[str]) -> None:
    """ValueError where what is said of waiting has nothing to act on."""
    if lane.pool is not None and lane.pool not in pools:
        there = f"there are {', '.join(pools)}" if pools else "there are none"
        raise ValueError(
            f"'pool' is {lane.pool!r}, which is not in POOLS: {there}; add it there.{suggestion(lane.pool, pools)}"
        )
    if lane.pool is None and lane.excess is Excess.WAIT:
        raise ValueError("'excess' is 'wait', but the lane has no 'pool' of which a slot could be waited for.")
    if lane.excess is Excess.WAIT and lane.wait_seconds is None:
        raise ValueError("'excess' is 'wait': write for how long at most, such as 'wait_seconds': 10.")
    for key, value in (("wait_seconds", lane.wait_seconds), ("queue", lane.queue)):
        if lane.excess is not Excess.WAIT and value is not None:
            raise ValueError(f"{key!r} is {value!r}, but nothing waits: take it out, or write 'excess': 'wait'.")


def lane_name(raw: object) -> str:
    if raw == ALL_LANE:
        raise ValueError(f"{ALL_LANE!r} is reserved, since it counts every request: write another name.")
    return word(raw)


def pools(raw: object, lease_seconds: float) -> dict[str, PoolSpec]:
    if not isinstance(raw, Mapping):
        raise ValueError("write a dict of pools, such as {'exports': {'capacity': 10}}.")  # noqa: TRY004 - as above
    return {name: pool(name, spec, lease_seconds) for name, spec in raw.items()}


def pool(name: object, spec: object, lease_seconds: float) -> PoolSpec:
    """A pool; `lease_seconds` is what a fleet's pool has that says nothing of it."""
    try:
        parsed = options(spec, _POOL)
        if "capacity" not in parsed:
            raise ValueError("'capacity' is missing: write how many slots it has for everyone, such as 10.")  # noqa: TRY301 - one place words whatever is wrong
        found = PoolSpec(name=word(name), **parsed)
        if found.scope is Scope.PROCESS and found.lease_seconds is not None:
            raise ValueError("'lease_seconds' is for a pool of scope 'fleet': take it out.")  # noqa: TRY301 - as above
    except ValueError as error:
        raise ValueError(f"pool {name!r}: {error}") from error
    if found.scope is Scope.FLEET and found.lease_seconds is None:
        return replace(found, lease_seconds=lease_seconds)
    return found
