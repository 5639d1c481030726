"""One limit, four processes: what is admitted is exact, whichever of them is asked. No tolerance."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tenantlimits.models import Limit, Tenant, Tier
from tests.scenarios.client import Connection
from tests.scenarios.conftest import Site

THREADS, REQUESTS = 20, 10


def test_of_200_requests_to_four_processes_exactly_50_are_served(site: Site):
    """C01, C02, R5."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    log = {"kind": "sliding_log", "period_seconds": 600}
    Limit.objects.create(tier=tier, name="reads-rate", lane="reads", amount=50, **log)
    Tenant.objects.create(key="acme", tier=tier)

    with site.gunicorn() as server, ThreadPoolExecutor(THREADS) as pool:

        def ask(_: int) -> list[tuple[int, int]]:
            connection = Connection(server, "acme")
            answers = [connection.get("/reads/") for _ in range(REQUESTS)]
            connection.close()
            return [(answer.status, answer.pid) for answer in answers]

        answers = [one for thread in pool.map(ask, range(THREADS)) for one in thread]

    assert Counter(status for status, _ in answers) == {200: 50, 429: 150}
    assert len({pid for _, pid in answers}) > 1
