"""The store in plain Python: the same contract over `domain`, in one process.

It is the oracle of the property tests, the store of users' tests, and what a lane falls back to without Redis.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tenantlimits.domain import leases, states
from tenantlimits.domain.limits import HOUR, Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Cap, Plan, Stamps, State, Subject, Term, lane_tag
from tenantlimits.domain.states import Kept
from tenantlimits.engine.base import (
    PRESENCE_MS,
    USAGE_TTL_MS,
    Acknowledge,
    Admit,
    Announce,
    Answer,
    Begin,
    Begun,
    Caps,
    Collect,
    Command,
    Counted,
    Deposit,
    HourCount,
    LaneCount,
    Lease,
    Member,
    Move,
    Peek,
    Pending,
    RefusalCount,
    Release,
    Renew,
    Settle,
    Status,
    Tally,
    ttl_ms,
)
from tenantlimits.engine.keys import SHARDS, Identity, Keys, keys_of, member_keys

R = TypeVar("R")
_SWEEP_EVERY = 10_000


@dataclass(slots=True)
class _Subject:
    """State of one subject, by state id."""

    states: dict[bytes, Kept] = field(default_factory=dict)
    stamp: bytes | None = None
    expires_us: float = 0.0


@dataclass(slots=True)
class _Usage:
    """Counted hours of one tenant; the running one is last."""

    hours: dict[int, HourCount] = field(default_factory=dict)
    deposits: dict[tuple[int, str], HourCount] = field(default_factory=dict)
    running: int | None = None
    flushed: bool = False


class MemoryEngine:
    """A store in this process. `clock` gives microseconds since the epoch."""

    def __init__(self, *, clock: Callable[[], float], prefix: str = "tl") -> None:
        self._clock, self._prefix = clock, prefix
        self._lock = threading.Lock()
        self._source = f"process:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._subjects: dict[str, _Subject] = {}
        self._usage: dict[Member, _Usage] = {}
        self._shards: dict[int, bytes] = {}
        self._processes: dict[bytes, float] = {}
        self._calls = 0
        self._now_us = 0.0

    def run(self, command: Command[R]) -> R:
        """Run a command; the whole of it is one step for every thread."""
        handler: Callable[[Any], Any] = getattr(self, f"_{type(command).__name__.lower()}")
        with self._lock:
            self._now_us = self._clock()
            self._sweep()
            result: R = handler(command)
            return result

    async def arun(self, command: Command[R]) -> R:
        """The same from an event loop: nothing here ever waits."""
        return self.run(command)

    def _sweep(self) -> None:
        """Forget what no longer matters, now and then."""
        self._calls += 1
        if self._calls % _SWEEP_EVERY:
            return
        now_us = self._now_us
        self._subjects = {key: one for key, one in self._subjects.items() if one.expires_us > now_us}
        oldest = now_us / US - USAGE_TTL_MS / 1000
        self._usage = {
            member: one
            for member, one in self._usage.items()
            if max([one.running or 0, *(start for start, _ in one.deposits)]) > oldest
        }

    # Decisions

    def _admit(self, command: Admit) -> Answer:
        keys = keys_of(self._prefix, command.identity)
        stale = self._unfit(command.plan, keys)
        if stale is not None:
            return stale
        answer, current = self._ask(command.plan, keys, command.cost)
        operation = command.cost > 0 or command.lease is not None
        if not operation:
            return answer
        if answer.status is Status.ALLOWED:
            answer = replace(answer, states=self._record(command, keys, answer, current))
        else:
            self._restart_time(command.plan, keys, current)
        if command.plan.counts_usage:
            self._count(command.plan, keys, answer, command.cost)
        return answer

    def _peek(self, command: Peek) -> Answer:
        keys = keys_of(self._prefix, command.identity)
        return self._unfit(command.plan, keys) or self._ask(command.plan, keys, command.cost)[0]

    def _unfit(self, plan: Plan, keys: Keys) -> Answer | None:
        """The answer to a plan that may not decide any more."""
        now_us = self._now_us
        if plan.stamps is not None:
            subject = self._subjects.get(keys.tenant)
            if subject is None or Stamps(subject.stamp or b"", self._shards.get(keys.shard, b"")) != plan.stamps:
                return Answer(Status.STALE, now_us)
        if not plan.valid_from_us <= now_us < plan.valid_until_us:
            return Answer(Status.OUTSIDE, now_us)
        return None

    def _ask(self, plan: Plan, keys: Keys, cost: int) -> tuple[Answer, list[Kept]]:
        now_us = self._now_us
        current = [states.current(term, self._state(keys, term), now_us, plan.lease_us) for term in plan.asked]
        fits = tuple(states.fits(term, state, cost) for term, state in zip(plan.asked, current, strict=True))
        refused = any(not fit and term.mode is Mode.ENFORCE for term, fit in zip(plan.asked, fits, strict=True))
        status = Status.REFUSED if refused else Status.ALLOWED
        return Answer(status, now_us, fits, tuple(states.shown(state) for state in current)), current

    def _record(self, command: Admit, keys: Keys, answer: Answer, current: list[Kept]) -> tuple[State, ...]:
        plan = command.plan
        lease = None if command.lease is None else (command.lease, answer.now_us + plan.lease_us)
        recorded = [
            states.charged(term, state, cost=command.cost, now_us=answer.now_us, lease=lease)
            if fits or isinstance(term.spec, Cap)
            else state
            for term, state, fits in zip(plan.asked, current, answer.fits, strict=True)
        ]
        for term, state in zip(plan.asked, recorded, strict=True):
            self._store(keys, term, state)
        self._reshape(plan, keys, _written(plan), answer.now_us)
        return tuple(states.shown(state) for state in recorded)

    def _restart_time(self, plan: Plan, keys: Keys, current: list[Kept]) -> None:
        """Where the clock stepped back, time starts again here, or a state would stay frozen until it catches up."""
        now_us = self._now_us
        stepped_back = {
            term.subject
            for term in plan.asked
            if (state := self._state(keys, term)) is not None and states.ahead(state, now_us, plan.lease_us)
        }
        for term, state in zip(plan.asked, current, strict=True):
            if term.subject in stepped_back:
                self._store(keys, term, state)
        self._reshape(plan, keys, stepped_back, now_us)

    def _state(self, keys: Keys, term: Term) -> Kept | None:
        subject = self._subjects.get(_key(keys, term.subject))
        return subject.states.get(term.id) if subject else None

    def _store(self, keys: Keys, term: Term, state: Kept) -> None:
        self._subjects.setdefault(_key(keys, term.subject), _Subject()).states[term.id] = state

    def _reshape(self, plan: Plan, keys: Keys, written: set[Subject], now_us: float) -> None:
        """Whoever is written keeps the state of the plan's limits and of no others."""
        for kind in written:
            subject = self._subjects.setdefault(_key(keys, kind), _Subject())
            known = {term.id: term for term in plan.terms if term.subject is kind}
            caps: dict[bytes, Kept] = {id: {} for id, term in known.items() if isinstance(term.spec, Cap)}
            subject.states = caps | {id: state for id, state in subject.states.items() if id in known}
            subject.expires_us = now_us + ttl_ms(plan, kind) * 1000

    def _settle(self, command: Settle) -> Status:
        plan, keys = command.plan, keys_of(self._prefix, command.identity)
        stale = self._unfit(plan, keys)
        if stale is not None:
            return stale.status
        now_us = self._now_us
        for term in plan.asked:
            witness = command.witnesses.get(term.id, 0.0)
            if witness and term.by_cost:
                state = states.current(term, self._state(keys, term), now_us, plan.lease_us)
                self._store(keys, term, states.settled(term, state, command.delta, witness))
        self._reshape(plan, keys, _written(plan), now_us)
        if plan.counts_usage:
            self._add(plan, keys, now_us, LaneCount(cost=command.delta), {})
        return Status.ALLOWED

    # Leases

    def _release(self, command: Release) -> bool:
        lease = command.lease
        keys, freed = keys_of(self._prefix, lease.identity), False
        for caps in lease.caps:
            subject = self._subjects.get(_key(keys, caps.subject))
            for state in subject.states.values() if subject else ():
                freed |= isinstance(state, dict) and state.pop(lease.id, None) is not None
        return freed

    def _renew(self, command: Renew) -> tuple[bool, ...]:
        pairs = zip(command.leases, command.again, strict=True)
        return tuple(self._renew_one(lease, again) for lease, again in pairs)

    def _renew_one(self, lease: Lease, again: bool) -> bool:
        """Renew a lease in every cap that it counts in, also where one of them has lost it."""
        alive = [self._renew_in(lease, caps, again) for caps in lease.caps]
        return all(alive)

    def _renew_in(self, lease: Lease, caps: Caps, again: bool) -> bool:
        """Renew a lease in one subject's caps."""
        key, now_us = _key(keys_of(self._prefix, lease.identity), caps.subject), self._now_us
        subject = self._subjects.get(key)
        if subject is None and not again:
            return False
        subject = subject or self._subjects.setdefault(key, _Subject())
        subject.expires_us = now_us + caps.ttl_ms * 1000
        alive = True
        for id, amount in caps.amounts:
            # A store that lost its memory may have begun a state without the cap since.
            state = subject.states.get(id, {} if again else None)
            if not isinstance(state, dict):
                alive = False
                continue
            subject.states[id], is_held = leases.renewed(
                state,
                lease.id,
                deadline=now_us + lease.length_us,
                again_below=amount if again else None,
                now_us=now_us,
            )
            alive &= is_held
        return alive

    # Stamps

    def _begin(self, command: Begin) -> Begun:
        keys, now_us = keys_of(self._prefix, command.identity), self._now_us
        shard = self._shards.setdefault(keys.shard, os.urandom(8))
        subject = self._subjects.setdefault(keys.tenant, _Subject(expires_us=now_us + 60 * US))
        subject.stamp = subject.stamp or os.urandom(8)
        return Begun(Stamps(subject.stamp, shard), now_us)

    def _move(self, command: Move) -> None:
        if command.tenants is None:
            self._shards = {shard: os.urandom(8) for shard in range(SHARDS)}
            return
        for tenant in command.tenants:
            for keys in _all_keys(self._prefix, tenant):
                if subject := self._subjects.get(keys.tenant):
                    subject.stamp = os.urandom(8)

    # Usage

    def _count(self, plan: Plan, keys: Keys, answer: Answer, cost: int) -> None:
        allowed = answer.status is Status.ALLOWED
        in_flight = max((state for state in answer.states if isinstance(state, int)), default=0)
        count = LaneCount(allowed=int(allowed), refused=int(not allowed), peak=in_flight, cost=cost if allowed else 0)
        self._add(plan, keys, answer.now_us, count, _missed(plan, answer.fits, 1))

    def _add(
        self, plan: Plan, keys: Keys, now_us: float, count: LaneCount, missed: dict[tuple[bytes, bytes], RefusalCount]
    ) -> None:
        usage = self._usage.setdefault(Member(keys.shard, keys.member), _Usage())
        hour = self._hour(usage, now_us, plan.hour_offset_us)
        tag = lane_tag(plan.lane)
        lanes = {**hour.lanes, tag: _sum(hour.lanes.get(tag, LaneCount()), count)}
        refusals = dict(hour.refusals)
        for key, one in missed.items():
            before = refusals.get(key, RefusalCount())
            refusals[key] = RefusalCount(before.refused + one.refused, before.observed + one.observed)
        usage.hours[hour.start_s] = replace(hour, lanes=lanes, refusals=refusals)
        usage.flushed = False
        subject = self._subjects.setdefault(keys.tenant, _Subject())
        subject.expires_us = max(subject.expires_us, now_us + USAGE_TTL_MS * 1000)

    def _hour(self, usage: _Usage, now_us: float, offset_us: float) -> HourCount:
        """The running hour, begun where the clock has reached a new one. It never goes back to a closed one."""
        seconds, offset = int(now_us // US), int(offset_us // US)
        start = seconds - (seconds + offset) % HOUR
        if usage.running is not None and start <= usage.running:
            return usage.hours[usage.running]
        if usage.flushed and usage.running is not None:
            del usage.hours[usage.running]
        usage.running = start
        return usage.hours.setdefault(start, HourCount(start, self._source, {}, {}))

    def _pending(self, _: Pending) -> tuple[Member, ...]:
        return tuple(sorted(member for member, usage in self._usage.items() if not usage.flushed))

    def _collect(self, command: Collect) -> Counted:
        usage = self._usage.get(command.member)
        if usage is None or usage.running is None:
            return Counted(self._now_us, None, tuple(usage.deposits.values()) if usage else ())
        closed = tuple(hour for start, hour in usage.hours.items() if start != usage.running)
        return Counted(self._now_us, usage.hours[usage.running], (*closed, *usage.deposits.values()))

    def _acknowledge(self, command: Acknowledge) -> bool:
        usage = self._usage.get(command.member)
        if usage is None:
            return True
        for hour in command.counted.closed:
            if usage.deposits.get((hour.start_s, hour.source)) == hour:
                del usage.deposits[hour.start_s, hour.source]
            elif usage.hours.get(hour.start_s) == hour and hour.start_s != usage.running:
                del usage.hours[hour.start_s]
        running = usage.hours.get(usage.running) if usage.running is not None else None
        is_known = usage.flushed or running == command.counted.running
        usage.flushed = is_known and len(usage.hours) <= 1 and not usage.deposits
        return usage.flushed

    def _deposit(self, command: Deposit) -> None:
        usage = self._usage.setdefault(command.member, _Usage())
        usage.deposits |= {(hour.start_s, hour.source): hour for hour in command.hours}
        usage.flushed = False

    def _tally(self, command: Tally) -> None:
        missed = _missed(command.plan, command.fits, command.times)
        keys = keys_of(self._prefix, command.identity)
        self._add(command.plan, keys, self._now_us, LaneCount(refused=command.times), missed)

    def _announce(self, command: Announce) -> int:
        self._processes[command.process] = self._now_us
        oldest = self._now_us - PRESENCE_MS * 1000
        self._processes = {process: at for process, at in self._processes.items() if at > oldest}
        return len(self._processes)


def _key(keys: Keys, subject: Subject) -> str:
    key = keys.subjects[subject]
    assert key is not None, f"a plan asks a {subject.name.lower()} limit of a caller who is none"
    return key


def _missed(plan: Plan, fits: tuple[bool, ...], times: int) -> dict[tuple[bytes, bytes], RefusalCount]:
    """What the limits that did not fit are to be counted."""
    return {
        (lane_tag(plan.lane), term.id): RefusalCount(
            refused=times * (term.mode is Mode.ENFORCE), observed=times * (term.mode is Mode.OBSERVE)
        )
        for term, fit in zip(plan.asked, fits, strict=True)
        if not fit and term.mode is not Mode.OFF
    }


def _written(plan: Plan) -> set[Subject]:
    """Whose state an admission writes: everybody who is asked, and the tenant with the usage."""
    return {term.subject for term in plan.asked} | ({Subject.TENANT} if plan.counts_usage else set())


def _all_keys(prefix: str, tenant: str) -> list[Keys]:
    if tenant:
        return [keys_of(prefix, Identity(tenant=tenant))]
    return [member_keys(prefix, shard, "") for shard in range(SHARDS)]


def _sum(before: LaneCount, more: LaneCount) -> LaneCount:
    return LaneCount(
        before.allowed + more.allowed,
        before.refused + more.refused,
        max(before.peak, more.peak),
        before.cost + more.cost,
    )
