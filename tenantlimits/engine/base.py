"""What every store answers: commands in, replies out. One conformance suite holds all stores to it.

A command is a plain value, so that the same command runs on a store from a thread (`run`) and from an event loop
(`arun`), and so that everything that is decided before and after it is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, Protocol, TypeVar

from tenantlimits.domain import counters
from tenantlimits.domain.counters import Counter
from tenantlimits.domain.limits import Mode
from tenantlimits.domain.plans import Cap, Plan, Spec, Stamps, State, Subject, horizon_us
from tenantlimits.domain.windows import Log, Quota, QuotaState
from tenantlimits.engine.keys import Identity

R = TypeVar("R")

LEASE_BYTES = 8
PRESENCE_MS = 15_000
"""A process that has not announced itself for so long is gone."""
USAGE_TTL_MS = 48 * 3600 * 1000
"""Usage is kept so long for a flush that is late."""


class Command(Generic[R]):
    """Something to run on a store, which replies with an R."""

    __slots__ = ()


class Status(IntEnum):
    """How a store answered an operation. STALE and OUTSIDE decide nothing and change nothing."""

    REFUSED = 0
    ALLOWED = 1
    STALE = 2
    OUTSIDE = 3


# These two are made for every request, and nobody changes them; frozen, each would take twice as long to make.
@dataclass(slots=True)
class Answer:
    """A store's answer: for every asked limit whether it let the operation in, and its state afterwards."""

    status: Status
    now_us: float
    fits: tuple[bool, ...] = ()
    states: Sequence[State] = ()

    @property
    def decided(self) -> bool:
        """Whether the plan was good enough to decide by."""
        return self.status <= Status.ALLOWED


@dataclass(slots=True, kw_only=True)
class Admit(Command[Answer]):
    """Ask all limits of the plan for `cost` milli-units; record in all of them only if every enforced one fits.

    With a `lease` (8 random bytes) an admitted operation takes a slot of every cap until it is released.
    """

    plan: Plan
    identity: Identity
    cost: int
    lease: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek(Command[Answer]):
    """The answer that Admit would give, without recording or counting anything."""

    plan: Plan
    identity: Identity
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Command[Status]):
    """Charge or give back `delta` milli-units in the limits that were charged; see `witnesses`."""

    plan: Plan
    identity: Identity
    delta: int
    witnesses: Mapping[bytes, float]


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one subject that a lease counts in (state id, amount), and how long that state lives."""

    subject: Subject
    amounts: tuple[tuple[bytes, float], ...]
    ttl_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A slot of every cap of an operation, until released or `length_us` after the last renewal."""

    id: bytes
    identity: Identity
    caps: tuple[Caps, ...]
    length_us: int


@dataclass(frozen=True, slots=True)
class Release(Command[bool]):
    """Give a lease back. True where it was held; a second time, or a stranger's, frees nothing and is False."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Renew(Command[tuple[bool, ...]]):
    """Move the deadlines of leases, all in one round trip; for each whether it is held now.

    `again[i]`: lease i may be taken anew where the store has lost it and a slot is free.
    """

    leases: tuple[Lease, ...]
    again: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """Stamps to build a policy on, and the store's clock."""

    stamps: Stamps
    now_us: float


@dataclass(frozen=True, slots=True)
class Begin(Command[Begun]):
    """The stamps of now, made where there are none. Read them first, then the rows."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class Move(Command[None]):
    """Make every policy of these tenants stale, in every process; None means of all tenants."""

    tenants: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class LaneCount:
    """What happened in one lane in one hour. `cost` is in milli-units."""

    allowed: int = 0
    refused: int = 0
    peak: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """How often one limit refused in one lane and hour, or would have in observe mode."""

    refused: int = 0
    observed: int = 0


@dataclass(frozen=True, slots=True)
class HourCount:
    """One tenant's counted hour. Absolute values: they only grow, so counting them twice changes nothing.

    `source` tells apart two counts of one hour, before and after a store lost its memory. `token` is for
    acknowledging exactly this count. Lanes and limits are named by their tags (see domain.plans).
    """

    start_s: int
    source: str
    lanes: Mapping[bytes, LaneCount]
    refusals: Mapping[tuple[bytes, bytes], RefusalCount]
    token: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a store has counted for a tenant: the running hour, if any, and closed hours that were not flushed."""

    now_us: float
    running: HourCount | None
    closed: tuple[HourCount, ...]


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A tenant in its shard; the tenant "" is the shard's anonymous one."""

    shard: int
    tenant: str


@dataclass(frozen=True, slots=True)
class Pending(Command[tuple[Member, ...]]):
    """The tenants with usage that is not flushed."""


@dataclass(frozen=True, slots=True)
class Collect(Command[Counted]):
    """Read what was counted for a tenant. Changes nothing."""

    member: Member


@dataclass(frozen=True, slots=True)
class Acknowledge(Command[bool]):
    """Forget what was flushed, and only that. True where nothing unflushed is left."""

    member: Member
    counted: Counted


@dataclass(frozen=True, slots=True)
class Deposit(Command[None]):
    """Take over hours that another store has counted, each by its source: once more with more in them is the same."""

    member: Member
    hours: tuple[HourCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Command[None]):
    """Count refusals that a process repeated from memory: `times` as many as the one that `fits` under `plan`."""

    plan: Plan
    identity: Identity
    fits: tuple[bool, ...]
    times: int


@dataclass(frozen=True, slots=True)
class Announce(Command[int]):
    """Say that this process decides by the store, and what its pools hold, in bytes of its own.

    It answers how many processes have said so in the last PRESENCE_MS.
    """

    process: bytes
    held: bytes = b""


@dataclass(frozen=True, slots=True)
class Report:
    """What the pools of a process held so many seconds ago, in its own bytes."""

    process: bytes
    age: int
    held: bytes


@dataclass(frozen=True, slots=True)
class Told:
    """How many processes decide by the store, and the reports of those whose pools hold anything."""

    processes: int
    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class Reports(Command[Told]):
    """What the processes that decide by the store hold in their pools. A process that fell silent holds nothing."""


class Transport(Protocol):
    """What takes packed commands to a store and brings their replies; an error that the store answers is a reply."""

    def exchange(self, commands: Sequence[bytes]) -> list[Any]:
        """A reply for each command; redis.RedisError where the store cannot be reached or serves nobody."""

    async def aexchange(self, commands: Sequence[bytes]) -> list[Any]:
        """The same from an event loop."""

    def connect(self) -> Any:
        """A new connection of the caller's own, as redis-py makes it; to any node of a cluster."""

    def post(self, packed: bytes, again: Callable[[], object]) -> None:
        """Send a command whose reply nobody waits for; `again` where the server turns out not to know its script."""

    def close(self) -> None:
        """Close the connections that nobody is using."""


class Engine(Protocol):
    """A store. `redis.RedisError` is its only trouble."""

    def run(self, command: Command[R]) -> R:
        """Run a command from a thread."""

    def post(self, command: Command[Any]) -> None:
        """The same, where nobody needs the reply: it is not waited for."""

    async def arun(self, command: Command[R]) -> R:
        """Run a command from an event loop."""


def witnesses(plan: Plan, answer: Answer) -> dict[bytes, float]:
    """What an admitted operation was charged in, by state id, so that settling finds just that.

    A number by kind: the end of a calendar quota's period, the instant of a log's entry, the start of a sliding
    counter's window, 1 for a bucket.
    """
    return {
        term.id: _witness(term.spec, state, answer.now_us)
        for term, state, fits in zip(plan.asked, answer.states, answer.fits, strict=True)
        if fits and term.by_cost and term.mode is not Mode.OFF and not isinstance(term.spec, Cap)
    }


def _witness(spec: Spec, state: State, now_us: float) -> float:
    if isinstance(spec, Quota) and isinstance(state, QuotaState):
        return state.end_us
    if isinstance(spec, Counter):
        return counters.start_us(spec, now_us)
    return now_us if isinstance(spec, Log) else 1.0


def lease_caps(plan: Plan) -> tuple[Caps, ...]:
    """The caps that a lease of this plan counts in, by subject."""
    found: tuple[Caps, ...] | None = plan.derived.get("caps")
    if found is None:
        found = plan.derived["caps"] = _lease_caps(plan)
    return found


def _lease_caps(plan: Plan) -> tuple[Caps, ...]:
    caps = [term for term in plan.asked if isinstance(term.spec, Cap) and term.mode is not Mode.OFF]
    return tuple(
        Caps(
            subject,
            tuple(
                (term.id, term.spec.amount) for term in caps if term.subject is subject and isinstance(term.spec, Cap)
            ),
            ttl_ms(plan, subject),
        )
        for subject in Subject
        if any(term.subject is subject for term in caps)
    )


def ttl_ms(plan: Plan, subject: Subject) -> int:
    """How long a subject's state can matter, so how long it is kept."""
    horizon = max((horizon_us(term, plan.lease_us) for term in plan.terms if term.subject is subject), default=0)
    usage = USAGE_TTL_MS if subject is Subject.TENANT and plan.counts_usage else 0
    return max(usage, int(horizon / 1000) + 1000)
