"""What only the store in memory has to do: forget, be one step for threads, and read its clock once."""

from concurrent.futures import ThreadPoolExecutor

from tenantlimits.domain.limits import Layer
from tenantlimits.domain.periods import US
from tenantlimits.engine.base import Begin, Collect, Member, Pending
from tenantlimits.engine.keys import Identity
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import NOON, Caller, Clock, bucket, cap, quota


def test_tenants_that_went_quiet_are_forgotten(clock):
    """C8: after their state and the time for a late flush."""
    engine = MemoryEngine(clock=clock)
    for n in range(500):
        acme = Caller(engine, clock, [bucket(5), quota(9)], identity=Identity(tenant=f"t{n}", user="u"))
        acme.begin()
        acme.admit()
    assert len(engine.run(Pending())) == 500

    clock.step(4 * 24 * 3600)
    for _ in range(10_000):
        engine.run(Collect(Member(0, "cedar")))

    assert engine.run(Pending()) == ()
    assert engine._subjects == {}


def test_nothing_that_still_matters_is_forgotten(clock):
    engine = MemoryEngine(clock=clock)
    acme = Caller(engine, clock, [bucket(5, 86_400), cap(2)])
    acme.admit(5)
    acme.hold()

    clock.step(14)
    for _ in range(10_000):
        engine.run(Collect(Member(0, "cedar")))

    assert acme.admit().refused
    assert len(engine.run(Pending())) == 1


def test_a_command_reads_the_clock_once(clock):
    """C04: else a policy could be in force at its check and have ended at its decision."""
    reads = []

    def clock_that_counts():
        reads.append(clock())
        return clock()

    engine = MemoryEngine(clock=clock_that_counts)
    acme = Caller(engine, clock, [bucket(1), cap(1)], options={"valid_until_us": clock() + 10 * US})
    engine.run(Begin(acme.identity))
    acme.hold()
    acme.hold()

    assert len(reads) == 3


def test_threads_share_the_store_exactly():
    """C01, C02."""
    clock = Clock(NOON)
    engine = MemoryEngine(clock=clock)
    acme = Caller(engine, clock, [bucket(50, 3600)])
    acme.plan()

    with ThreadPoolExecutor(8) as pool:
        admitted = sum(pool.map(lambda _: acme.admit().allowed, range(400)))

    assert admitted == 50


def test_a_flood_of_new_subjects_makes_it_forget_those_whose_state_ends_soonest(clock):
    """C8, C105: memory is bounded, and whoever was here last is not let in anew."""
    engine = MemoryEngine(clock=clock, most=100)

    def user(n):
        return Caller(engine, clock, [bucket(1, layer=Layer.USER)], identity=Identity(tenant="acme", user=f"u{n}"))

    for n in range(250):
        clock.step(1)
        assert user(n).admit().allowed

    assert len(engine._subjects) <= 102  # and the two of the last call
    assert user(249).admit().refused
