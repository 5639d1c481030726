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
from tenantlimits.domain.limits import Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Cap, Plan, Stamps, State, Subject, Term
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
    LaneCount,
    Lease,
    Member,
    Move,
    Peek,
    Pending,
    Release,
    Renew,
    Report,
    Reports,
    Settle,
    Status,
    Tally,
    Told,
    ttl_ms,
)
from tenantlimits.engine.keys import SHARDS, Identity, Keys, keys_of, member_keys
from tenantlimits.engine.ledger import Ledger, Missed, missed

R = TypeVar("R")
_SWEEP_EVERY = 10_000


@dataclass(slots=True)
class _Subject:
    """State of one subject, by state id."""

    states: dict[bytes, Kept] = field(default_factory=dict)
    stamp: bytes | None = None
    expires_us: float = 0.0


class MemoryEngine:
    """A store in this process. `clock` gives microseconds since the epoch.

    It keeps `most` subjects: callers who come with ever new addresses make it forget those whose state ends soonest.
    """

    def __init__(self, *, clock: Callable[[], float], prefix: str = "tl", most: int = 100_000) -> None:
        self._clock, self._prefix, self._most = clock, prefix, most
        self._lock = threading.Lock()
        self._subjects: dict[str, _Subject] = {}
        self._ledger = Ledger(f"process:{os.getpid()}:{uuid.uuid4().hex[:8]}")
        self._shards: dict[int, bytes] = {}
        self._processes: dict[bytes, tuple[float, bytes]] = {}
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

    def post(self, command: Command[Any]) -> None:
        """The same: nothing here ever waits."""
        self.run(command)

    async def arun(self, command: Command[R]) -> R:
        """The same from an event loop: nothing here ever waits."""
        return self.run(command)

    def _sweep(self) -> None:
        """Forget what no longer matters, now and then; and what matters least, where there is too much."""
        self._calls += 1
        if self._calls % _SWEEP_EVERY and len(self._subjects) <= self._most:
            return
        self._subjects = {key: one for key, one in self._subjects.items() if one.expires_us > self._now_us}
        self._ledger.sweep(self._now_us)
        if len(self._subjects) > self._most:
            # A tenth more than has to go, so that a flood of new subjects does not pay for this with every call.
            latest = sorted(self._subjects.items(), key=lambda item: item[1].expires_us)
            self._subjects = dict(latest[len(latest) - self._most * 9 // 10 :])

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
            if (state := self._state(keys, term)) is not None and states.ahead(term, state, now_us, plan.lease_us)
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
            self._add(plan, keys, LaneCount(cost=command.delta), {})
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
        self._add(plan, keys, count, missed(plan, answer.fits, 1))

    def _add(self, plan: Plan, keys: Keys, count: LaneCount, refusals: Missed) -> None:
        self._ledger.add(Member(keys.shard, keys.member), plan, self._now_us, count, refusals)
        subject = self._subjects.setdefault(keys.tenant, _Subject())
        subject.expires_us = max(subject.expires_us, self._now_us + USAGE_TTL_MS * 1000)

    def _pending(self, _: Pending) -> tuple[Member, ...]:
        return self._ledger.pending()

    def _collect(self, command: Collect) -> Counted:
        return self._ledger.collected(command.member, self._now_us)

    def _acknowledge(self, command: Acknowledge) -> bool:
        return self._ledger.acknowledge(command.member, command.counted)

    def _deposit(self, command: Deposit) -> None:
        self._ledger.deposit(command.member, command.hours)

    def _tally(self, command: Tally) -> None:
        keys, times = keys_of(self._prefix, command.identity), command.times
        self._add(command.plan, keys, LaneCount(refused=times), missed(command.plan, command.fits, times))

    def _announce(self, command: Announce) -> int:
        self._processes[command.process] = (self._now_us, command.held)
        self._processes = self._alive()
        return len(self._processes)

    def _reports(self, _: Reports) -> Told:
        alive, now_s = self._alive(), self._now_us // US
        reports = (
            Report(process, int(max(0, now_s - at // US)), held) for process, (at, held) in alive.items() if held
        )
        return Told(len(alive), tuple(reports))

    def _alive(self) -> dict[bytes, tuple[float, bytes]]:
        oldest = self._now_us - PRESENCE_MS * 1000
        return {process: one for process, one in self._processes.items() if one[0] > oldest}


def _key(keys: Keys, subject: Subject) -> str:
    key = keys.subjects[subject]
    assert key is not None, f"a plan asks a {subject.name.lower()} limit of a caller who is none"
    return key


def _written(plan: Plan) -> set[Subject]:
    """Whose state an admission writes: everybody who is asked, and the tenant with the usage."""
    return {term.subject for term in plan.asked} | ({Subject.TENANT} if plan.counts_usage else set())


def _all_keys(prefix: str, tenant: str) -> list[Keys]:
    if tenant:
        return [keys_of(prefix, Identity(tenant=tenant))]
    return [member_keys(prefix, shard, "") for shard in range(SHARDS)]
