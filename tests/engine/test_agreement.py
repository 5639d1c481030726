"""The store in Redis and the one in memory give the same answers, whatever happens and however the clock steps."""

import itertools
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tenantlimits.engine.base import Acknowledge, Collect, Move, Peek, Pending, Renew
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import ACME, NOBODY, Caller, Clock, redis_engine
from tests.engine.limit_strategies import COSTS, LANES, TIERS

IDENTITIES = {"acme": ACME, "": NOBODY}
TENANTS = st.sampled_from(list(IDENTITIES))


class Agreement(RuleBasedStateMachine):
    """Two stores that are told the same. What both answered last is kept to go on with."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__()
        self.clock = Clock()
        self.redis = redis_engine(url, prefix, self.clock)
        self.engines = MemoryEngine(clock=self.clock), self.redis
        self.callers = {
            tenant: [Caller(engine, self.clock, (), identity=identity) for engine in self.engines]
            for tenant, identity in IDENTITIES.items()
        }
        self.admissions: list[tuple[str, list[Any]]] = []
        self.leases: list[Any] = []
        self.counted: list[tuple[Any, list[Any]]] = []

    def teardown(self) -> None:
        self.redis.close()

    def both(self, ask: Callable[[Any], Any]) -> Any:
        """What both engines answer."""
        in_memory, in_redis = (ask(engine) for engine in self.engines)
        assert in_memory == in_redis
        return in_redis

    @initialize(acme=TIERS, anonymous=TIERS)
    def start(self, acme: list[Any], anonymous: list[Any]) -> None:
        self.change("acme", acme, 0)
        self.change("", anonymous, 0)

    @rule(tenant=TENANTS, limits=TIERS, half_hours=st.integers(0, 1))
    def change(self, tenant: str, limits: list[Any], half_hours: int) -> None:
        for caller in self.callers[tenant]:
            caller.options = {"hour_offset_us": half_hours * 1800 * 1e6}
            caller.change(*limits)
            caller.engine.run(Move(frozenset({tenant})))

    @rule(seconds=st.sampled_from([1e-6, 1e-3, 0.1, 0.4, 1, 3, 20, 60, 3600, 90_000]))
    def time_passes(self, seconds: float) -> None:
        self.clock.step(seconds)

    @rule(seconds=st.sampled_from([1e-6, 1e-3, 1, 16, 60, 3600]))
    def the_clock_steps_back(self, seconds: float) -> None:
        self.clock.step(-seconds)

    @rule()
    def the_switch_is_thrown(self) -> None:
        for engine in self.engines:
            engine.run(Move(None))

    @rule(tenant=TENANTS, lane=st.sampled_from(LANES), cost=COSTS, held=st.booleans())
    def admit(self, tenant: str, lane: str, cost: float, held: bool) -> None:
        self.same_status(tenant, lane)
        lease = os.urandom(8) if held else None
        decisions = [caller.admit(cost, lane, lease=lease) for caller in self.callers[tenant]]
        self.same(decisions)
        if decisions[0].allowed:
            self.admissions.append((tenant, decisions))
            if held:
                self.leases.append(self.callers[tenant][0].lease(lease, lane))

    @rule(tenant=TENANTS, lane=st.sampled_from(LANES), cost=COSTS, held=st.booleans(), times=st.integers(2, 6))
    def admit_often(self, tenant: str, lane: str, cost: float, held: bool, times: int) -> None:
        for _ in range(times):
            self.admit(tenant, lane, cost, held)

    @rule(tenant=TENANTS, lane=st.sampled_from(LANES), cost=COSTS)
    def peek(self, tenant: str, lane: str, cost: float) -> None:
        self.same_status(tenant, lane)
        self.same([caller.peek(cost, lane) for caller in self.callers[tenant]])

    def same_status(self, tenant: str, lane: str) -> None:
        """Both call a plan good, or both stale, or both outside its time."""
        statuses = [
            caller.engine.run(Peek(plan=caller.plan(lane), identity=caller.identity, cost=0)).decided
            for caller in self.callers[tenant]
        ]
        assert statuses[0] == statuses[1]

    def same(self, decisions: list[Any]) -> None:
        facts = [(one.allowed, one.now_us, one.fits, one.states) for one in decisions]
        assert facts[0] == facts[1], [one.plan.asked for one in decisions]

    @precondition(lambda self: self.admissions)
    @rule(which=st.integers(0, 10**6), delta=COSTS, sign=st.sampled_from([-1, 1]))
    def settle(self, which: int, delta: float, sign: int) -> None:
        tenant, decisions = self.admissions[which % len(self.admissions)]
        for caller, decision in zip(self.callers[tenant], decisions, strict=True):
            caller.peek(0, decision.lane)  # makes its plan good again
            assert caller.settle(decision, sign * delta) == 1

    @precondition(lambda self: self.leases)
    @rule(which=st.integers(0, 10**6))
    def release(self, which: int) -> None:
        lease = self.leases[which % len(self.leases)]
        assert self.callers["acme"][0].release(lease) == self.callers["acme"][1].release(lease)

    @precondition(lambda self: self.leases)
    @rule(which=st.lists(st.integers(0, 10**6), max_size=4), again=st.booleans())
    def renew(self, which: list[int], again: bool) -> None:
        leases = tuple(self.leases[one % len(self.leases)] for one in which)
        self.both(lambda engine: engine.run(Renew(leases, tuple(again ^ (n % 3 == 2) for n in range(len(leases))))))

    @rule(acknowledged=st.booleans())
    def flush(self, acknowledged: bool) -> None:
        for member in self.both(lambda engine: engine.run(Pending())):
            counted = [engine.run(Collect(member)) for engine in self.engines]
            assert _figures(counted[0]) == _figures(counted[1])
            self.counted.append((member, counted))
            if acknowledged:
                self.acknowledge(len(self.counted) - 1)

    @precondition(lambda self: self.counted)
    @rule(which=st.integers(0, 10**6))
    def acknowledge(self, which: int) -> None:
        member, counted = self.counted[which % len(self.counted)]
        done = [engine.run(Acknowledge(member, one)) for engine, one in zip(self.engines, counted, strict=True)]
        assert done[0] == done[1]
        self.both(lambda engine: engine.run(Pending()))


def _figures(counted: Any) -> Any:
    """Everything but what each store has of its own: sources, tokens and the order of hours."""
    hours = sorted(counted.closed, key=lambda hour: hour.start_s)
    return counted.now_us, [
        hour and (hour.start_s, dict(hour.lanes), dict(hour.refusals)) for hour in (counted.running, *hours)
    ]


def test_both_stores_answer_the_same_whatever_happens(redis_url, key_prefix):
    """C52, C10, C11, C26 to C33, C132 to C134: random limits, costs, leases, stamps, flushes and steps of the clock."""
    number = itertools.count()

    run_state_machine_as_test(
        lambda: Agreement(redis_url, f"{key_prefix}-{next(number)}"),
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
