"""A host, its clock, and a refusal of every kind."""

import pytest

from tenantlimits.domain.decisions import Code, Decision, PoolRefusal
from tenantlimits.domain.limits import MINUTE, Guarantee
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import Caller, Clock, bucket, cap, log, quota
from tests.responses.builders import without_limit


@pytest.fixture(autouse=True)
def host(settings):
    """A host with a usage page, and none of its own templates."""
    settings.ROOT_URLCONF = "tests.responses.builders"
    settings.ALLOWED_HOSTS = ["app.example.com"]
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": []}]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def caller(clock):
    return lambda *limits, **options: Caller(MemoryEngine(clock=clock), clock, limits, **options)


@pytest.fixture
def refused(caller, clock):
    """`refused("bucket")`: a decision of each kind of refusal, by its name."""

    def spent(limit, cost=1) -> Decision:
        acme = caller(limit)
        acme.admit(limit.amount)
        clock.step(0.5)
        return acme.admit(cost)

    def full() -> Decision:
        acme = caller(cap(1, name="exports-cap"))
        acme.hold()
        return acme.admit()

    def by_pool(code: Code) -> Decision:
        pool = PoolRefusal(
            code=code, pool="exports", name="exports-share", share=4, running=4, waiting=12, source="tier"
        )
        return without_limit(clock, by_pool=pool, busy_seconds=7.2)

    kinds = {
        "bucket": lambda: spent(bucket(3, MINUTE)),
        "log": lambda: spent(log(3, MINUTE)),
        "quota": lambda: spent(quota(3)),
        "cap": full,
        "fuse": lambda: spent(bucket(3, MINUTE, guarantee=Guarantee.FUSE)),
        "never": lambda: spent(bucket(3, MINUTE), cost=4),
        "block": lambda: caller(bucket(0, MINUTE)).admit(),
        "store": lambda: without_limit(clock, degraded=True, unavailable=True),
        "nobody": lambda: without_limit(clock),
        "share": lambda: by_pool(Code.CONCURRENCY_LIMITED),
        "queue": lambda: by_pool(Code.QUEUE_FULL),
        "waited": lambda: by_pool(Code.QUEUE_TIMEOUT),
        "capacity": lambda: by_pool(Code.CAPACITY_FULL),
    }
    return lambda kind: kinds[kind]()
