"""Which processes decide by a store, and what their pools hold, over every store."""

from tenantlimits.engine.base import PRESENCE_MS, Announce, Report, Reports, Told
from tenantlimits.engine.keys import reports_key
from tests.engine.builders import redis_engine


def test_processes_that_announce_themselves_are_counted_until_they_fall_silent(engine, clock):
    """C105: by how many a limit is divided while the store is away."""
    assert [engine.run(Announce(process)) for process in (b"a", b"b", b"a")] == [1, 2, 2]

    clock.step(PRESENCE_MS / 1000 - 1)
    assert engine.run(Announce(b"b")) == 2
    clock.step(2)
    assert engine.run(Announce(b"c")) == 2


def test_what_the_pools_of_processes_hold_is_told_until_they_hold_nothing_or_fall_silent(engine, clock):
    """V4: the others see it, with how old it is; a process that went takes it along."""
    assert engine.run(Reports()) == Told(0, ())
    engine.run(Announce(b"a", b"six of acme"))
    engine.run(Announce(b"b"))
    clock.step(2)
    engine.run(Announce(b"c", b"one of bolt \xff"))

    told = engine.run(Reports())
    assert (told.processes, sorted(told.reports, key=lambda one: one.process)) == (
        3,
        [Report(b"a", 2, b"six of acme"), Report(b"c", 0, b"one of bolt \xff")],
    )

    engine.run(Announce(b"c"))
    assert engine.run(Reports()) == Told(3, (Report(b"a", 2, b"six of acme"),))
    clock.step(PRESENCE_MS / 1000 - 1)
    assert engine.run(Reports()) == Told(1, ())
    assert engine.run(Announce(b"d")) == 2
    engine.run(Announce(b"a"))
    assert engine.run(Reports()) == Told(3, ())


def test_the_store_keeps_nothing_of_a_process_that_fell_silent(redis_url, key_prefix, redis_client, clock):
    """C8: and nothing at all where all of them did."""
    engine = redis_engine(redis_url, key_prefix, clock)
    for number in range(20):
        engine.run(Announce(b"gone-%d" % number, b"six of acme"))
    clock.step(PRESENCE_MS / 1000 + 1)

    engine.run(Announce(b"here", b"one of bolt"))

    key = reports_key(key_prefix)
    assert redis_client.hgetall(key) == {b"here": b"one of bolt"}
    assert 0 < redis_client.pttl(key) <= 4 * PRESENCE_MS
    engine.close()
