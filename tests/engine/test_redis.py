"""What only the store in Redis has to do: bytes that stay, keys that end, and the server's own clock."""

import time
from dataclasses import replace

import pytest
import time_machine

from tenantlimits.domain.limits import DAY, HOUR, MINUTE, Layer
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Subject
from tenantlimits.engine.base import USAGE_TTL_MS, Acknowledge, Collect, Move, Pending
from tenantlimits.engine.keys import Identity, keys_of
from tests.engine.builders import (
    ACME,
    BOLT,
    CEDAR,
    LEASE_SECONDS,
    NOBODY,
    Caller,
    bucket,
    cap,
    limits_part,
    log,
    quota,
    redis_engine,
)

ALL_KINDS = (
    bucket(50, HOUR), log(50, HOUR), quota(50), cap(3),
    bucket(50, HOUR, name="user-rate", layer=Layer.USER), cap(3, name="user-cap", layer=Layer.USER),
    log(50, HOUR, name="key-log", layer=Layer.CREDENTIAL),
)  # fmt: skip


@pytest.fixture
def stepped(redis_url, key_prefix, clock):
    store = redis_engine(redis_url, key_prefix, clock)
    yield store
    store.close()


@pytest.fixture
def live(redis_url, key_prefix):
    store = redis_engine(redis_url, key_prefix)
    yield store
    store.close()


@pytest.fixture
def acme(stepped, clock):
    return Caller(stepped, clock, ALL_KINDS)


def server_clock(client):
    def now_us():
        seconds, micros = client.time()
        return seconds * US + micros

    return now_us


def raw_states(client, prefix, identity=ACME):
    """The bytes of all states of limits and leases, without the usage behind them."""
    return [limits_part(raw) for name in keys_of(prefix, identity).subjects if name and (raw := client.get(name))]


@pytest.mark.parametrize("tight", ALL_KINDS, ids=lambda one: one.name)
def test_a_refusal_leaves_every_byte_of_limit_and_lease_state_as_it_was(acme, clock, redis_client, key_prefix, tight):
    """R4: whichever limit refuses, and also when time has passed since."""
    acme.change(*(one for one in ALL_KINDS if one is not tight), replace(tight, amount=2))
    acme.hold(1)
    acme.hold(1)
    clock.step(3)
    before = raw_states(redis_client, key_prefix)
    others = sorted(redis_client.scan_iter(match=f"{key_prefix}*", count=1000))

    for _ in range(5):
        assert acme.hold(1)[0].refused
        assert acme.peek(2).refused
        assert acme.admit(51).refused
        clock.step(0.5)

    assert len(before) == 3
    assert raw_states(redis_client, key_prefix) == before
    assert sorted(redis_client.scan_iter(match=f"{key_prefix}*", count=1000)) == others


def test_a_peek_writes_nothing_at_all(acme, redis_client, key_prefix):
    acme.peek(3)

    assert list(redis_client.scan_iter(match=f"{key_prefix}*", count=1000)) == []


def test_a_cost_of_nothing_writes_nothing_at_all(acme, redis_client, key_prefix):
    """C55."""
    acme.admit(0)

    assert list(redis_client.scan_iter(match=f"{key_prefix}*", count=1000)) == []


def test_every_key_ends(stepped, clock, redis_client, key_prefix):
    """C03: no exceptions; the longest lives for the longest window and its margin."""
    callers = [Caller(stepped, clock, ALL_KINDS, identity=who) for who in (ACME, BOLT, CEDAR, NOBODY)]
    for one in callers:
        one.begin()
    leases = []
    for n in range(100):
        for one in callers:
            decision, lease = one.hold(1 + n % 3)
            leases.append((one, lease))
            if decision.allowed and n % 2:
                one.settle(decision, 0.5)
        clock.step(40)
        if n % 5 == 0:
            one, lease = leases[n // 2]
            one.renew(lease, again=True)
            one.release(lease)
        if n == 50:
            member = stepped.run(Pending())[0]
            stepped.run(Acknowledge(member, stepped.run(Collect(member))))

    left = {key: redis_client.pttl(key) for key in redis_client.scan_iter(match=f"{key_prefix}*", count=1000)}
    assert len(left) > 12
    assert [key for key, ttl in left.items() if ttl < 0] == []
    assert max(left.values()) <= USAGE_TTL_MS + HOUR * 1000


def test_the_set_of_pending_tenants_outlives_their_usage(stepped, clock, redis_client, key_prefix):
    """C03, C132: also where a flush is two days late and the tenant never stops."""
    acme = Caller(stepped, clock, [bucket(50)])
    acme.admit()
    keys = keys_of(key_prefix, ACME)
    redis_client.pexpire(keys.pending, 5)

    clock.step(HOUR)
    acme.admit()

    assert redis_client.pttl(keys.pending) > redis_client.pttl(keys.tenant)
    assert redis_client.pttl(keys.pending) > redis_client.pttl(keys.closed)


@pytest.mark.parametrize(
    "limits",
    [
        [bucket(5, 10)],
        [bucket(5, 10, burst=50)],
        [bucket(1, HOUR)],
        [log(5, 10)],
        [cap(2)],
        [bucket(5, 10), log(5, MINUTE), cap(9)],
        [quota(5, HOUR)],
    ],
    ids=str,
)
def test_nothing_in_a_state_matters_any_more_when_its_key_ends(stepped, clock, redis_client, key_prefix, limits):
    """C04, C03: a user's key, which no usage keeps; also after a debt."""
    limits = [replace(one, layer=Layer.USER) for one in limits]
    ann = Caller(stepped, clock, limits)
    decision, _ = ann.hold(1)
    ann.settle(decision, +100)
    key = keys_of(key_prefix, ACME).subjects[Subject.USER]

    clock.step(redis_client.pttl(key) / 1000 - 0.005)
    kept = ann.peek(1)
    redis_client.delete(key)

    assert [one.used for one in kept.readings] == [0] * len(limits)
    assert ann.peek(1).allowed
    assert ann.admit(1).allowed


def test_around_the_end_of_a_key_no_more_than_the_limit_is_admitted(live, redis_client, key_prefix):
    """C04: two thousand calls while the key of a one-second log comes and goes, on the server's clock."""
    now = server_clock(redis_client)
    ann = Caller(live, now, [log(5, 1, layer=Layer.USER)])
    key = keys_of(key_prefix, ACME).subjects[Subject.USER]
    admitted_us = []

    for call in range(2000):
        decision = ann.admit()
        if decision.allowed:
            admitted_us.append(decision.now_us)
        else:
            assert 0 < decision.retry_after <= 1
        if call % 400 == 0:
            redis_client.pexpireat(key, int(now() / 1000) + 1001)

    assert all(sum(start <= at < start + US for at in admitted_us) <= 5 for start in admitted_us)


def test_a_users_key_ends_soon_and_a_tenants_with_its_usage(acme, redis_client, key_prefix):
    """C8."""
    acme.change(
        bucket(5, 10, layer=Layer.USER, name="u"), cap(3, layer=Layer.CREDENTIAL, name="c"), bucket(5, DAY, name="t")
    )
    acme.hold()
    tenant, user, credential = (redis_client.pttl(name) / 1000 for name in keys_of(key_prefix, ACME).subjects)

    assert tenant == pytest.approx(2 * DAY, abs=20)
    assert user == pytest.approx(20 + 1, abs=1)
    assert credential == pytest.approx(LEASE_SECONDS + 1, abs=1)


def test_what_only_touches_a_state_leaves_its_time_to_live(acme, stepped, redis_client, key_prefix):
    """C03: a new stamp, a release or a flush neither ends a state before its time nor keeps it for ever."""
    _, lease = acme.hold()
    tenant = keys_of(key_prefix, ACME).tenant
    redis_client.pexpire(tenant, 1_000_000)

    acme.begin()
    stepped.run(Move(frozenset({"acme"})))
    member = stepped.run(Pending())[0]
    stepped.run(Acknowledge(member, stepped.run(Collect(member))))
    acme.release(lease)

    assert 900_000 < redis_client.pttl(tenant) <= 1_000_000


def test_a_state_is_as_large_for_a_million_as_for_one(stepped, clock, redis_client, key_prefix):
    """C58: neither the limit nor the cost shows in memory."""
    sizes = []
    for tenant, amount, cost in (("small", 10, 1), ("large", 1_000_000, 10_000)):
        one = Caller(stepped, clock, [bucket(amount, DAY), quota(amount)], identity=Identity(tenant=tenant))
        for _ in range(10):
            one.admit(cost)
        sizes.append(redis_client.strlen(keys_of(key_prefix, Identity(tenant=tenant)).tenant))

    assert sizes[0] == sizes[1]


def test_a_busy_tenants_state_stays_small(acme, redis_client, key_prefix):
    """P4."""
    acme.change(*(bucket(50, HOUR, name=f"l{n}") for n in range(4)), cap(3))
    acme.hold()

    assert redis_client.memory_usage(keys_of(key_prefix, ACME).tenant) <= 320


def test_no_process_clock_matters(redis_url, redis_client, key_prefix):
    """C10, R5: two processes, one of them ten seconds behind; 4 at once and 2 a second, five calls each."""
    now = server_clock(redis_client)
    on_time, behind = (Caller(redis_engine(redis_url, key_prefix), now, [bucket(2, 1, burst=4)]) for _ in range(2))
    started, admitted = time.monotonic(), 0

    for _ in range(5):
        admitted += on_time.admit().allowed
        with time_machine.travel(time.time() - 10):
            admitted += behind.admit().allowed

    assert admitted <= 4 + 2 * (time.monotonic() - started) + 1e-3
    assert admitted >= 4


def test_the_servers_clock_is_told_and_whole_microseconds(live, redis_client):
    """K8, R5."""
    now = server_clock(redis_client)
    acme = Caller(live, now, [bucket(5)])

    before, decision, after = now(), acme.admit(), now()

    assert before <= decision.now_us <= after
    assert decision.now_us == int(decision.now_us)
