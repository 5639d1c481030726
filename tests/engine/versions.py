"""What the processes of two versions of the package run in the test of a deploy; see `test_deploy.py`."""

import json
import sys
import time

from tenantlimits.domain.limits import DAY, HOUR, Counts, Limit
from tenantlimits.domain.periods import US
from tenantlimits.engine import scripts
from tests.engine.builders import Caller, bucket, cap, counter, log, plan_of, quota, redis_engine

SHARED = 300
"""What both versions' tiers promise, by the same limit."""
SLOTS = 2


def tier(version: str) -> list[Limit]:
    """The limits of a version: some are the same, and none stands in the same place."""
    day, slots = quota(SHARED, name="day"), cap(SLOTS, name="slots")
    if version == "old":
        return [bucket(10**6, name="rate"), day, log(128, 1, name="second", counts=Counts.REQUESTS), slots]
    return [slots, counter(10**6, HOUR, name="hour"), bucket(10**5, DAY, name="rate"), day]


def main(url: str, prefix: str, version: str, calls: int) -> None:
    """Take slots and give them back; print what was seen."""
    engine = redis_engine(url, prefix)
    acme = Caller(engine, lambda: time.time() * US, tier(version))
    shape = scripts.shape_of(plan_of(tier(version), now_us=time.time() * US))
    seen = {"allowed": 0, "in_flight": 0, "used": 0.0, "sha": scripts.admit(shape, caller_clock=False).sha}
    print("ready", flush=True)  # noqa: T201 - whoever started us reads it
    sys.stdin.readline()
    for _ in range(calls):
        decision, lease = acme.hold()
        if decision.allowed:
            seen["allowed"] += 1
            seen["in_flight"] = max(seen["in_flight"], acme.used("slots"))
            assert acme.release(lease)
    seen["used"] = acme.used("day")
    print(json.dumps(seen), flush=True)  # noqa: T201 - as above
    engine.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
