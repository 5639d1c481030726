"""The rules of a pool: own share first, what is idle is lent, and nobody is forgotten."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tenantlimits.domain.shares import Entry, Grant, Pool, PoolRules, Share

TENANTS = ("acme", "bolt", "cedar", "dune")


class Table:
    """A pool at which a test sits; operations are numbers."""

    def __init__(self, **rules) -> None:
        self.pool = Pool(PoolRules(**{"capacity": 10, "queue": 100, **rules}))
        self.running: dict[int, Grant] = {}
        self.number = 0

    def enter(self, tenant, share, times=1, **options) -> list[Grant | Entry]:
        """So many operations want a slot."""
        entered = []
        for _ in range(times):
            self.number += 1
            one = self.pool.enter(tenant, Share(share), self.number, float(self.number), **options)
            if isinstance(one, Grant):
                self.running[self.number] = one
            entered.append(one)
        return entered

    def leave(self, tenant, times=1, seconds=1.0) -> list[str]:
        """So many of its operations end; answers whose turn it was."""
        turns = []
        for _ in range(times):
            number = next(n for n, grant in self.running.items() if grant.tenant == tenant)
            grants = self.pool.leave(tenant, self.running.pop(number).charged, seconds)
            self.running |= {grant.waiter: grant for grant in grants}
            turns += [grant.tenant for grant in grants]
        return turns

    def runs(self, tenant) -> int:
        return sum(grant.tenant == tenant for grant in self.running.values())


def test_idle_shares_are_lent_and_come_back_as_operations_end():
    """C75: A has 6, B 4, C none. A alone runs 10; then B wants 4 and C 1."""
    table = Table()
    table.enter("acme", 6, 20)
    assert table.runs("acme") == 10

    table.enter("cedar", 0)
    table.enter("bolt", 4, 4)
    assert table.leave("acme", 4) == ["bolt"] * 4
    assert table.leave("bolt", 4) != []

    assert table.runs("cedar") == 0


def test_who_has_no_share_runs_while_nobody_with_one_waits():
    """C75."""
    table = Table(capacity=2)
    table.enter("acme", 1, 3)
    table.enter("cedar", 0, 1)

    assert table.leave("acme") == ["acme"]
    assert table.leave("acme") == ["cedar"]


def test_nothing_is_lent_above_what_the_pool_lends():
    assert sum(isinstance(one, Grant) for one in Table(lendable=0).enter("acme", 4, 20)) == 4
    assert sum(isinstance(one, Grant) for one in Table(lendable=0.3).enter("acme", 4, 20)) == 7
    assert sum(isinstance(one, Grant) for one in Table(lendable=1).enter("acme", 4, 20)) == 10


def test_a_tenant_within_its_share_borrows_from_nobody():
    table = Table(lendable=0)
    table.enter("acme", 4, 4)

    assert isinstance(table.enter("bolt", 4)[0], Grant)


@pytest.mark.parametrize(
    ("before", "expected"), [((4, 4), Entry.SHARE_FULL), ((12, 10), Entry.CAPACITY_FULL)], ids=["share", "capacity"]
)
def test_what_may_not_wait_is_told_what_is_in_use(before, expected):
    """C4."""
    table = Table(lendable=0)
    share, times = before
    table.enter("bolt", share, times)
    table.enter("acme", 4, 4 if expected is Entry.SHARE_FULL else 0)

    assert table.enter("acme", 4, may_wait=False) == [expected]


def test_queues_are_bounded_for_all_and_for_each():
    """C4."""
    table = Table(capacity=1, queue=5)

    assert table.enter("acme", 1, 8)[1:] == [Entry.WAITS] * 5 + [Entry.QUEUE_FULL] * 2
    own = Table(capacity=1)
    entered = [own.pool.enter("acme", Share(1, queue=2), n, 0.0) for n in range(5)]
    assert entered[1:] == [Entry.WAITS, Entry.WAITS, Entry.QUEUE_FULL, Entry.QUEUE_FULL]


def test_a_lowered_share_stops_nothing_and_a_raised_one_is_used_at_once():
    table = Table(lendable=0)
    table.enter("acme", 6, 8)

    assert table.pool.change_share("acme", Share(2)) == []
    assert table.runs("acme") == 6
    assert table.leave("acme", 4) == []
    grants = table.pool.change_share("acme", Share(4))
    assert [grant.tenant for grant in grants] == ["acme", "acme"]


def test_a_raised_capacity_is_used_at_once():
    table = Table(capacity=1)
    table.enter("acme", 1, 5)

    assert len(table.pool.change_rules(PoolRules(capacity=4))) == 3


def test_a_waiter_that_gives_up_leaves_its_place_to_the_next():
    """C72."""
    table = Table(capacity=1)
    table.enter("acme", 1, 4)

    assert table.pool.withdraw("acme", 2)
    assert not table.pool.withdraw("acme", 2)
    table.leave("acme")

    assert list(table.running) == [3]
    left = table.pool.standings()["acme"]
    assert (left.share, left.running, left.waiting, left.since) == (1, 1, 1, 4.0)


def test_within_a_tenant_the_first_to_come_is_the_first_to_run():
    table = Table(capacity=1)
    table.enter("acme", 1, 5)
    order = [next(iter(table.running))]
    for _ in range(4):
        table.leave("acme")
        order.append(next(iter(table.running)))

    assert order == [1, 2, 3, 4, 5]


def test_nothing_is_kept_of_tenants_that_came_once():
    """C8."""
    table = Table()

    for n in range(10_000):
        table.enter(f"t{n}", 1)
        table.leave(f"t{n}", seconds=0.01)

    assert not table.pool._tenants
    assert not table.pool._resting


def test_nothing_is_kept_of_them_either_while_others_wait():
    """C8: only those that have had more than their turn are remembered, until the others have had theirs."""
    table = Table(capacity=4)
    table.enter("noisy", 1, 100)

    for n in range(2000):
        table.enter(f"t{n}", 1)
        table.leave("noisy")
        if table.runs(f"t{n}"):
            table.leave(f"t{n}")
        table.enter("noisy", 1)

    assert len(table.pool._tenants) < 50


def test_a_slot_that_is_taken_at_once_is_like_one_that_was_entered_for():
    """Whoever waits goes first, shares hold, and it is charged; where there is none, nothing is kept."""
    taken, entered = Table(capacity=3, lendable=0), Table(capacity=3, lendable=0)
    for table in (taken, entered):
        table.enter("bolt", 2, 3)

    charged = [taken.pool.take("acme", Share(1)), taken.pool.take("bolt", Share(2)), taken.pool.take("cedar", Share(1))]
    (grant,) = entered.enter("acme", 1)

    assert charged == [grant.charged, None, None]
    assert taken.pool.standings() == entered.pool.standings()
    assert "cedar" not in taken.pool._tenants


def test_nothing_more_is_kept_of_a_tenant_that_is_refused_again_and_again():
    """C8: while others wait, and it has had more than its turn."""
    table = Table(capacity=3, lendable=0)
    table.enter("noisy", 1, 20)
    table.enter("acme", 1)
    table.leave("acme", seconds=1000.0)
    table.enter("bolt", 2, 2)

    for _ in range(100):
        table.enter("acme", 1, may_wait=False)

    assert len(table.pool._resting) == 1


def test_a_tenant_that_has_had_more_than_its_turn_is_remembered_until_the_others_have_had_theirs():
    """Though it was to be forgotten sooner before it ran once more."""
    table = Table(capacity=1)
    table.enter("acme", 1)
    table.enter("noisy", 1, 20)
    table.leave("acme", seconds=3.0)
    table.enter("acme", 1)
    while "acme" not in table.leave("noisy", seconds=1.0):
        pass
    table.leave("acme", seconds=100.0)

    table.leave("noisy", 5, seconds=1.0)

    assert "acme" in table.pool._tenants


@pytest.mark.parametrize("tenants", [2, 5, 20])
def test_equal_tenants_get_equal_time_though_their_operations_do_not_take_the_same(tenants):
    """Jain's index of served time, (sum x)^2 / (n sum x^2), at least 0.99 with costs from 1 to 32."""
    table = Table(capacity=4, queue=100_000)
    served = dict.fromkeys((f"t{n}" for n in range(tenants)), 0.0)
    lasts = {name: 2.0 ** (n % 6) for n, name in enumerate(served)}
    for name in served:
        table.enter(name, 1, 20)
    ends = {number: lasts[grant.tenant] for number, grant in table.running.items()}
    now = 0.0
    while now < 4000 * tenants / 4:
        number = min(ends, key=ends.__getitem__)
        now = ends.pop(number)
        grant = table.running.pop(number)
        served[grant.tenant] += lasts[grant.tenant]
        for granted in table.pool.leave(grant.tenant, grant.charged, lasts[grant.tenant]):
            table.running[granted.waiter] = granted
            ends[granted.waiter] = now + lasts[granted.tenant]
        table.enter(grant.tenant, 1)
        ends |= {n: now + lasts[one.tenant] for n, one in table.running.items() if n not in ends}

    times = list(served.values())
    assert sum(times) ** 2 / (len(times) * sum(one * one for one in times)) >= 0.99


class PoolMachine(RuleBasedStateMachine):
    """Tenants come, run, give up and leave in any order, while shares and capacity change."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = PoolRules(capacity=3, lendable=1.0, queue=8)
        self.pool: Pool[int] = Pool(self.rules)
        self.shares = {tenant: Share(n) for n, tenant in enumerate(TENANTS)}
        self.running: dict[int, Grant[int]] = {}
        self.waiting: dict[int, str] = {}
        self.turns: dict[int, int] = {}
        self.most = 3
        self.number = 0

    def grant(self, grants: list[Grant[int]]) -> None:
        for grant in grants:
            assert self.waiting.pop(grant.waiter) == grant.tenant
            self.turns.pop(grant.waiter)
            self.running[grant.waiter] = grant
            for waiter in self.turns:
                self.turns[waiter] += 1

    @rule(tenant=st.sampled_from(TENANTS), may_wait=st.booleans())
    def enter(self, tenant: str, may_wait: bool) -> None:
        self.number += 1
        free = self.rules.capacity - self.pool.running
        mine = sum(grant.tenant == tenant for grant in self.running.values())
        entered = self.pool.enter(tenant, self.shares[tenant], self.number, 0.0, may_wait=may_wait)
        if isinstance(entered, Grant):
            self.running[self.number] = entered
        elif entered is Entry.WAITS:
            self.waiting[self.number], self.turns[self.number] = tenant, 0
        # Never refused within its share while there is a slot.
        assert isinstance(entered, Grant) or free <= 0 or mine >= self.shares[tenant].slots

    @precondition(lambda self: self.running)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    def leave(self, data: st.DataObject, seconds: float) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        grant = self.running.pop(number)
        self.grant(self.pool.leave(grant.tenant, grant.charged, seconds))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.pool.withdraw(self.waiting.pop(number), number)
        del self.turns[number]

    @rule(tenant=st.sampled_from(TENANTS), slots=st.integers(0, 5))
    def change_share(self, tenant: str, slots: int) -> None:
        self.shares[tenant] = Share(slots)
        self.grant(self.pool.change_share(tenant, self.shares[tenant]))

    @rule(capacity=st.integers(1, 6), lendable=st.sampled_from([0.0, 0.5, 1.0]))
    def change_rules(self, capacity: int, lendable: float) -> None:
        self.rules = PoolRules(capacity=capacity, lendable=lendable, queue=8)
        self.most = max(capacity, len(self.running))
        self.grant(self.pool.change_rules(self.rules))

    @invariant()
    def never_above_capacity(self) -> None:
        assert self.pool.running == len(self.running)
        assert len(self.running) <= max(self.rules.capacity, self.most)
        if len(self.running) <= self.rules.capacity:
            self.most = self.rules.capacity

    @invariant()
    def nobody_waits_within_its_share_while_a_slot_is_free(self) -> None:
        """So nobody borrows a slot that somebody within its share waits for."""
        if len(self.running) < self.rules.capacity:
            for tenant in set(self.waiting.values()):
                mine = sum(grant.tenant == tenant for grant in self.running.values())
                assert mine >= self.shares[tenant].slots

    @invariant()
    def what_is_counted_is_what_there_is(self) -> None:
        standings = self.pool.standings()
        assert sum(one.running for one in standings.values()) == len(self.running)
        assert sum(one.waiting for one in standings.values()) == len(self.waiting) == self.pool.waiting
        assert self.pool._borrowed == sum(one.borrowed for one in standings.values())

    def teardown(self) -> None:
        """Slots return to zero, and nothing is kept."""
        for number, tenant in list(self.waiting.items()):
            self.pool.withdraw(tenant, number)
        for grant in list(self.running.values()):
            self.pool.leave(grant.tenant, grant.charged, 1.0)
        assert (self.pool.running, self.pool.waiting, self.pool._borrowed) == (0, 0, 0)
        assert not self.pool._tenants


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestPool = PoolMachine.TestCase


@pytest.mark.parametrize("tenants", [2, 5, 12])
def test_everybody_who_waits_has_its_turn_within_two_rounds_of_those_who_wait(tenants):
    """With operations that take the same; the others' backlogs change nothing."""
    table = Table(capacity=1, queue=1000)
    for n in range(tenants):
        table.enter(f"t{n}", 1, 30)
    turns = []
    for _ in range(tenants * 20):
        turns += table.leave(next(iter(table.running.values())).tenant)

    for n in range(tenants):
        at = [i for i, name in enumerate(turns) if name == f"t{n}"]
        assert all(later - earlier < 2 * tenants for earlier, later in itertools.pairwise(at))
