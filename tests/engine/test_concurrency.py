"""Many processes and threads at once on one server: exact counts."""

import time

from tenantlimits.domain.limits import DAY, HOUR, MINUTE
from tenantlimits.domain.plans import lane_tag
from tenantlimits.engine.base import Collect, Pending
from tenantlimits.engine.keys import keys_of
from tests.engine import workers
from tests.engine.builders import ACME, Caller, bucket, cap, limits_part, log, quota, redis_engine


def test_eight_processes_on_fifty_per_hour_are_admitted_exactly_fifty_times(redis_url, key_prefix):
    """R5, C02: for every rate kind. The bucket is of 50 a day, so that none comes back meanwhile."""
    limits = [bucket(50, DAY, lane="a"), log(50, HOUR, lane="b"), quota(50, lane="c")]

    admitted = workers.in_processes(8, workers.admitted, workers.Place(redis_url, key_prefix), limits, 1, 25)

    assert [sum(counts) for counts in zip(*admitted, strict=True)] == [50, 50, 50]


def test_two_hundred_calls_from_processes_and_threads_are_admitted_exactly_fifty_times(
    redis_url, key_prefix, redis_client
):
    """C01, V3: four processes of five threads; the refused ones changed nothing, and every call was counted."""
    limit = log(50, 10 * MINUTE)

    admitted = workers.in_processes(4, workers.admitted, workers.Place(redis_url, key_prefix), [limit], 5, 10)

    engine = redis_engine(redis_url, key_prefix)
    acme = Caller(engine, lambda: time.time() * 1e6, [limit])
    counted = engine.run(Collect(engine.run(Pending())[0]))
    hours = [hour.lanes[lane_tag("reads")] for hour in (counted.running, *counted.closed)]
    assert sum(count for (count,) in admitted) == 50
    assert acme.used("sliding_log") == 50
    assert len(limits_part(redis_client.get(keys_of(key_prefix, ACME).tenant))) == 10 + 4 + 4 + 50 * 16
    assert (sum(hour.allowed for hour in hours), sum(hour.refused for hour in hours)) == (50, 150)
    engine.close()


def test_two_slots_are_never_three_over_processes(redis_url, key_prefix):
    """R7, C7, C70: four processes take and give back; in flight, by the store's own word, is never above two."""
    results = workers.in_processes(4, workers.most_at_once, workers.Place(redis_url, key_prefix), cap(2), 80)

    in_flight = [number for _, seen in results for number in seen]
    engine = redis_engine(redis_url, key_prefix)
    assert sum(taken for taken, _ in results) > 80
    assert max(in_flight) <= 2
    assert Caller(engine, lambda: time.time() * 1e6, [cap(2)]).used("concurrency") == 0
    engine.close()
