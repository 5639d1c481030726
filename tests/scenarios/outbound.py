"""A worker that calls somebody's API, as often as that allows: run by test_outbound.py, several at once.

    python -m tests.scenarios.outbound requests|httpx URL CALLS

Each call waits to be admitted in lane `outbound` and is sent at once. Prints how many were answered 200.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import django
import httpx
import requests

django.setup()

from tenantlimits.gate import ahold, hold  # noqa: E402 - only after the set-up

WAIT_SECONDS = 60


def by_threads(url: str, calls: int) -> int:
    """With requests, four at once."""

    def call(session: requests.Session) -> bool:
        with hold(lane="outbound", tenant="acme", wait=WAIT_SECONDS):
            return session.get(url, timeout=30).status_code == 200

    with requests.Session() as session, ThreadPoolExecutor(4) as pool:
        session.get(url + "hello", timeout=30)  # so that connecting is over before the first call
        return sum(pool.map(lambda _: call(session), range(calls)))


async def by_tasks(url: str, calls: int) -> int:
    """With httpx, all at once."""

    async def call(client: httpx.AsyncClient) -> bool:
        async with ahold(lane="outbound", tenant="acme", wait=WAIT_SECONDS):
            return (await client.get(url)).status_code == 200

    async with httpx.AsyncClient(timeout=30) as client:
        await client.get(url + "hello")
        return sum(await asyncio.gather(*(call(client) for _ in range(calls))))


if __name__ == "__main__":
    kind, url, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
    served = by_threads(url, calls) if kind == "requests" else asyncio.run(by_tasks(url, calls))
    sys.stdout.write(f"{served}\n")
