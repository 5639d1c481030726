"""A flood of bad credentials over four processes, and valid ones from the same address meanwhile.

How many are looked up has a tolerance: each process learns by itself that a token fails, from whatever its threads have
under way just then, and forgets it after a while.
"""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tenantlimits.gate.door import REMEMBERED_SECONDS
from tenantlimits.models import Limit, Tenant, Tier
from tests.scenarios.client import Connection
from tests.scenarios.conftest import Site
from tests.scenarios.servers import WORKERS
from tests.scenarios.site.middleware import FAILED_LOGIN

BURST, THREADS, REQUESTS, THREADS_OF_A_PROCESS = 20, 8, 100, 4


def test_most_bad_tokens_are_refused_unseen_and_valid_ones_behind_the_address_are_all_served(site: Site):
    """C93, T3."""
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    strict = {"amount": 1, "period_seconds": 3600, "burst": BURST, "counts": "requests"}
    Limit.objects.update_or_create(tier=Tier.objects.get(slug="anonymous"), name="anonymous-rate", defaults=strict)
    Tenant.objects.create(key="bolt", tier=Tier.objects.create(slug="pro", name="Pro"))

    with site.gunicorn() as server, ThreadPoolExecutor(2 * THREADS) as pool:

        def ask(token_of: str) -> list[tuple[int, int]]:
            connection = Connection(server, token_of)
            answers = [connection.get("/reads/") for _ in range(REQUESTS)]
            connection.close()
            return [(answer.status, answer.pid) for answer in answers]

        began = time.monotonic()
        flood = [pool.submit(ask, "nobody") for _ in range(THREADS)]
        valid = [pool.submit(ask, "bolt") for _ in range(THREADS)]
        bad = [one for thread in flood for one in thread.result()]
        good = [one for thread in valid for one in thread.result()]
        rounds = 1 + (time.monotonic() - began) // REMEMBERED_SECONDS

    looked_up = [work for work in site.journal.works() if work.label == FAILED_LOGIN]
    assert Counter(status for status, _ in bad) == {401: BURST, 429: THREADS * REQUESTS - BURST}
    assert {status for status, _ in good} == {200}
    assert len({pid for _, pid in bad + good}) > 1
    assert BURST < len(looked_up) <= BURST + rounds * WORKERS * THREADS_OF_A_PROCESS
