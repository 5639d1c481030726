"""What a limit is: so many units per period, in a lane and a layer, with a kind."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from tenantlimits.domain.errors import InvalidLimit

ALL_LANE = "all"
MAX_AMOUNT = 10**12
MAX_LOG_AMOUNT = 128
"""A sliding log keeps one entry per operation, so its amount is small on purpose."""
MAX_LIMITS_PER_TIER = 24
UNLIMITED = math.inf

SECOND, MINUTE, HOUR, DAY, WEEK, MONTH = 1, 60, 3600, 86_400, 604_800, 2_592_000
"""Periods in seconds. A month is only ever a calendar month; 30 days stand for it where a number is needed."""
MAX_PERIOD = 366 * DAY
CALENDAR_PERIODS = {HOUR: "hour", DAY: "day", WEEK: "week", MONTH: "month"}


class Kind(StrEnum):
    """How a limit counts. See the glossary for what each of them promises."""

    TOKEN_BUCKET = "token_bucket"
    SLIDING_LOG = "sliding_log"
    CALENDAR_QUOTA = "calendar_quota"
    SLIDING_COUNTER = "sliding_counter"
    CONCURRENCY = "concurrency"


class Layer(StrEnum):
    """Who is counted."""

    TENANT = "tenant"
    USER = "user"
    CREDENTIAL = "credential"


class Counts(StrEnum):
    """What is counted: every operation as one, or its cost."""

    REQUESTS = "requests"
    COST = "cost"


class Guarantee(StrEnum):
    """An exact limit that a customer was promised, or an approximate safety limit."""

    CONTRACT = "contract"
    FUSE = "fuse"


class Mode(StrEnum):
    """Refuse, count only, or do not ask at all."""

    ENFORCE = "enforce"
    OBSERVE = "observe"
    OFF = "off"


_STRICTNESS = (Mode.OFF, Mode.OBSERVE, Mode.ENFORCE)


def mildest(*modes: Mode) -> Mode:
    """The mode in force where several places have a say: whoever is mildest wins."""
    return min(modes, key=_STRICTNESS.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """So many units per period, in a lane and a layer.

    `amount` and `burst` are units, math.inf is unlimited and 0 blocks; `period_seconds` is None for a
    concurrency cap; `burst` belongs to a token bucket alone and is `amount` unless given.
    """

    name: str
    lane: str
    kind: Kind
    amount: float
    period_seconds: int | None = None
    burst: float | None = None
    layer: Layer = Layer.TENANT
    counts: Counts = Counts.COST
    guarantee: Guarantee = Guarantee.CONTRACT
    anchor_day: int = 1
    mode: Mode = Mode.ENFORCE

    @property
    def capacity(self) -> float:
        """The most units that fit at one instant: the burst of a bucket, the amount of everything else."""
        return self.amount if self.burst is None or self.amount in (0, UNLIMITED) else self.burst

    @property
    def rate(self) -> float:
        """Units per second, over the long run."""
        return self.amount / self.period_seconds if self.period_seconds else math.inf

    @property
    def window_seconds(self) -> float:
        """The time that the capacity is for: a bucket of it drains so long, of everything else it is the period."""
        if self.kind is Kind.TOKEN_BUCKET and 0 < self.amount < UNLIMITED and self.period_seconds:
            return self.capacity * self.period_seconds / self.amount
        return float(self.period_seconds or 0)

    @property
    def full_period_seconds(self) -> float:
        """The longest that a tenant without debt waits for everything to be free again."""
        # Of a sliding counter, use counts to the end of the window after its own.
        return self.window_seconds * (2 if self.kind is Kind.SLIDING_COUNTER else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideInForce:
    """A temporary change of one limit, as the tenant may see it."""

    id: int
    reason: str
    starts_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInForce:
    """A limit with its numbers of this moment, and where they come from."""

    limit: Limit
    tier_limit: Limit
    override: OverrideInForce | None = None

    @property
    def source(self) -> str:
        """`tier` or `override`, the words of the API."""
        return "tier" if self.override is None else "override"


def validated(limit: Limit) -> Limit:
    """The limit itself, or InvalidLimit with what to write instead."""
    _check_amount(limit.amount, "amount", limit.name)
    if limit.kind is not Kind.TOKEN_BUCKET and limit.burst is not None:
        raise InvalidLimit(f"Limit {limit.name}: only a token bucket has a burst; leave it empty.")
    if limit.kind is Kind.CONCURRENCY:
        _check_no_period(limit)
    else:
        _check_period(limit)
    if limit.kind is Kind.TOKEN_BUCKET and limit.burst is not None:
        _check_burst(limit)
    if limit.kind is Kind.SLIDING_COUNTER and limit.guarantee is not Guarantee.FUSE:
        raise InvalidLimit(
            f"Limit {limit.name}: a sliding counter is approximate, so it can only be a fuse; "
            "for a contract choose a sliding log, a calendar quota or a token bucket."
        )
    if limit.kind is Kind.SLIDING_LOG and MAX_LOG_AMOUNT < limit.amount < UNLIMITED:
        raise InvalidLimit(
            f"Limit {limit.name}: a sliding log holds at most {MAX_LOG_AMOUNT} units; "
            f"for {limit.amount:,.0f} choose a token bucket or a calendar quota."
        )
    if not 1 <= limit.anchor_day <= 31:
        raise InvalidLimit(
            f"Limit {limit.name}: the anchor day is a day of the month, 1 to 31, not {limit.anchor_day}."
        )
    return limit


def _check_amount(amount: float, what: str, name: str) -> None:
    if amount == UNLIMITED:
        return
    if not 0 <= amount <= MAX_AMOUNT or amount != int(amount):
        raise InvalidLimit(
            f"Limit {name}: the {what} is a whole number from 0 (blocks) to {MAX_AMOUNT:,}, or unlimited; not {amount}."
        )


def _check_period(limit: Limit) -> None:
    seconds = limit.period_seconds
    if seconds is None and limit.amount == UNLIMITED:
        return
    if seconds is None or not 1 <= seconds <= MAX_PERIOD:
        raise InvalidLimit(f"Limit {limit.name}: give a period of 1 second to a year, such as 500/min; not {seconds}.")
    if limit.kind is Kind.CALENDAR_QUOTA and seconds not in CALENDAR_PERIODS:
        raise InvalidLimit(
            f"Limit {limit.name}: a calendar quota runs per hour, day, week or month, such as 10000/day; "
            f"for {seconds} seconds choose a token bucket or a sliding log."
        )


def _check_no_period(limit: Limit) -> None:
    if limit.period_seconds is not None:
        raise InvalidLimit(f"Limit {limit.name}: a concurrency cap has no period; write the number at once, such as 6.")


def _check_burst(limit: Limit) -> None:
    assert limit.burst is not None
    _check_amount(limit.burst, "burst", limit.name)
    if limit.burst == 0 < limit.amount:
        raise InvalidLimit(f"Limit {limit.name}: a burst of 0 lets nothing through; write amount 0 to block.")
    if limit.burst == UNLIMITED > limit.amount:
        raise InvalidLimit(f"Limit {limit.name}: an unlimited burst never refuses; make the amount unlimited instead.")


_UNITS = {
    "s": SECOND, "sec": SECOND, "second": SECOND, "seconds": SECOND,
    "min": MINUTE, "minute": MINUTE, "minutes": MINUTE,
    "h": HOUR, "hour": HOUR, "hours": HOUR,
    "d": DAY, "day": DAY, "days": DAY,
    "week": WEEK, "weeks": WEEK,
    "month": MONTH, "months": MONTH,
}  # fmt: skip
_RATE = re.compile(r"\s*([\d.,_ ]+?)\s*(?:/|per)\s*(\d{0,9})\s*([a-z]+)\s*", re.IGNORECASE)
_AT_ONCE = re.compile(r"\s*([\d.,_ ]+?)\s*(?:at once)?\s*", re.IGNORECASE)


def parse_amount(text: str) -> tuple[float, int | None]:
    """`(amount, period_seconds)` of "500/min", "12/3s", "6" (at once) or "unlimited".

    InvalidLimit says what to write instead; a fraction such as 0.05/s is answered with 3/min.
    """
    if text.strip().lower() == "unlimited":
        return UNLIMITED, None
    if match := _AT_ONCE.fullmatch(text):
        return _whole(match[1], text, None), None
    match = _RATE.fullmatch(text)
    if match is None or match[3].lower() not in _UNITS:
        raise InvalidLimit(
            f"{text!r} is not a limit: write amount/period, such as 500/min, 10/s, 12/3s or 10000/day "
            "(periods: s, min, h, day, week, month), a plain number for a cap, or unlimited."
        )
    period = int(match[2] or 1) * _UNITS[match[3].lower()]
    if period == 0:
        raise InvalidLimit(f"{text!r} has no time in it: write a period of at least 1 second, such as 12/3s.")
    return _whole(match[1], text, period), period


def _whole(digits: str, text: str, period: int | None) -> int:
    plain = re.sub(r"[,_ ]", "", digits)
    try:
        amount = Fraction(plain)
    except ValueError:
        raise InvalidLimit(f"{text!r} is not a limit: {digits!r} is not a number.") from None
    if amount > MAX_AMOUNT:
        raise InvalidLimit(
            f"{text!r} is more than {MAX_AMOUNT:,}, the largest amount; write unlimited to lift the limit."
        )
    if "." in plain and amount.denominator == 1:
        raise InvalidLimit(f"{text!r} can be read in two ways: write the number without a point, such as 1000.")
    if amount.denominator == 1:
        return amount.numerator
    raise InvalidLimit(f"{text!r} is a fraction: amounts are whole units.{_same_rate(amount, period)}")


def _same_rate(amount: Fraction, period: int | None) -> str:
    """The same rate in whole units, where a usual period makes it whole."""
    for seconds in (MINUTE, HOUR, DAY):
        if period and (amount * seconds / period).denominator == 1:
            return f" Write {format_amount(float(amount * seconds / period), seconds)}, which is the same rate."
    return ""


_SHORT = {SECOND: "s", MINUTE: "min", HOUR: "h", DAY: "day", WEEK: "week", MONTH: "month"}


def format_amount(amount: float, period_seconds: int | None) -> str:
    """The text that `parse_amount` reads: "500/min", "12/3s", "6" or "unlimited"."""
    if amount == UNLIMITED:
        return "unlimited"
    if period_seconds is None:
        return f"{amount:.0f}"
    for seconds in sorted(_SHORT, reverse=True):
        if period_seconds % seconds == 0 and (period_seconds == seconds or seconds < WEEK):
            count = period_seconds // seconds
            return f"{amount:.0f}/{'' if count == 1 else count}{_SHORT[seconds]}"
    raise AssertionError("every whole number of seconds is a multiple of 1")
