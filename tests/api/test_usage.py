"""GET api/limits/usage/: hours and days of one tenant, in pages, as JSON and CSV; and what is wrong in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from tenantlimits.api.renderers import neutralised
from tenantlimits.engine.base import Engine
from tenantlimits.gate import admit
from tenantlimits.models import Tenant, UsageHour
from tenantlimits.usage import flush
from tests.engine.builders import Clock

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
USAGE = "/api/limits/usage/"


def used(calls: int, *, tenant: str = "acme", lane: str = "reads", cost: float = 1) -> None:
    for _ in range(calls):
        admit(lane=lane, cost=cost, tenant=tenant)


def written(hours_ago: float, requests: int, *, tenant: str = "acme", lane: str = "reads") -> None:
    """An hour that was flushed long ago."""
    start = NOON - timedelta(hours=hours_ago)
    row = Tenant.objects.get(key=tenant)
    UsageHour.objects.create(tenant=row, lane=lane, start=start, source="s", requests=requests, allowed=requests)


def requests(answer: Any) -> list[int]:
    return [bucket["results"][0]["requests"] for bucket in answer.json()["buckets"]]


def test_the_last_day_by_the_hour_is_what_is_answered_without_parameters(
    store: Engine, client_of: Callable[[str], Client]
) -> None:
    used(9, lane="uploads", cost=5)
    flush()
    used(1, cost=2.5)

    answer = client_of("ann").get(USAGE)

    body = answer.json()
    assert {name: value for name, value in body.items() if name != "buckets"} == {
        "as_of": "2026-11-30T12:00:00Z",
        "stale": False,
        "time_zone": "UTC",
        "bucket": "hour",
        "lane": None,
        "group_by": [],
        "next": None,
    }
    assert len(body["buckets"]) == 24
    assert body["buckets"][-1] == {
        "start": "2026-11-30T12:00:00Z",
        "end": "2026-11-30T13:00:00Z",
        "partial": True,
        "complete_until": "2026-11-30T12:00:00Z",
        "results": [
            {
                "requests": 10,
                "allowed": 9,
                "refused": 1,
                "cost": 42.5,
                "waited_ms": 0,
                "peak_in_flight": 0,
                "refused_by": {"uploads-rate": 1},
                "observed_by": {},
            }
        ],
    }
    assert body["buckets"][0]["results"][0]["requests"] == 0
    assert not body["buckets"][0]["partial"]


def test_each_lane_has_its_own_figures_on_demand(store: Engine, client_of: Callable[[str], Client]) -> None:
    used(2, lane="uploads", cost=5)
    used(3)

    answer = client_of("ann").get(USAGE, {"group_by": "lane", "start": "2026-11-30T12:00:00Z"})

    [bucket] = answer.json()["buckets"]
    found = {one["lane"]: (one["requests"], one["cost"]) for one in bucket["results"]}
    assert found == {"default": (0, 0), "reads": (3, 3), "uploads": (2, 10), "exports": (0, 0)}


def test_one_lane_on_demand_also_one_that_is_no_longer_in_the_settings(
    store: Engine, client_of: Callable[[str], Client]
) -> None:
    written(1, 7, lane="imports")
    used(3)

    reads, imports = (client_of("ann").get(USAGE, {"lane": lane}) for lane in ("reads", "imports"))

    assert requests(reads)[-2:] == [0, 3]
    assert requests(imports)[-2:] == [7, 0]


def test_a_range_is_answered_in_whole_hours(store: Engine, client_of: Callable[[str], Client]) -> None:
    for hours_ago in (3, 2, 1):
        written(hours_ago, hours_ago)

    answer = client_of("ann").get(USAGE, {"start": "2026-11-30T09:30:00Z", "end": "2026-11-30T11:00:00+00:00"})

    assert [bucket["start"][11:16] for bucket in answer.json()["buckets"]] == ["09:00", "10:00"]
    assert requests(answer) == [3, 2]


def test_days_are_those_of_the_tenants_zone(store: Engine, client_of: Callable[[str], Client], clock: Clock) -> None:
    """C138."""
    Tenant.objects.filter(key="acme").update(time_zone="Europe/Budapest")
    clock.now_us = datetime(2024, 12, 31, 23, 30, tzinfo=UTC).timestamp() * 1e6
    used(2)

    answer = client_of("ann").get(USAGE, {"bucket": "day"})

    *_, last_year, this_year = answer.json()["buckets"]
    assert answer.json()["time_zone"] == "Europe/Budapest"
    assert (this_year["start"], this_year["results"][0]["requests"]) == ("2024-12-31T23:00:00Z", 2)
    assert (last_year["end"], last_year["results"][0]["requests"]) == ("2024-12-31T23:00:00Z", 0)


def test_the_future_is_not_answered(store: Engine, client_of: Callable[[str], Client]) -> None:
    answer = client_of("ann").get(USAGE, {"start": "2026-11-30T11:00:00Z", "end": "2026-12-01T00:00:00Z"})

    assert [bucket["partial"] for bucket in answer.json()["buckets"]] == [False, True]


def test_a_long_range_comes_in_pages_that_leave_nothing_out(
    store: Engine, client_of: Callable[[str], Client], clock: Clock
) -> None:
    for hours_ago in range(1, 480):
        written(hours_ago, 1)
    client = client_of("ann")
    parameters = {"start": "2026-11-10T12:00:00Z", "end": "2026-11-30T12:00:00Z", "lane": "reads"}

    answers = [client.get(USAGE, parameters)]
    while answers[-1].json()["next"]:
        assert answers[-1]["Link"] == f'<{answers[-1].json()["next"]}>; rel="next"'
        clock.step(3600)  # the end stays where it was
        answers.append(client.get(answers[-1].json()["next"]))

    starts = [bucket["start"] for answer in answers for bucket in answer.json()["buckets"]]
    assert [len(answer.json()["buckets"]) for answer in answers] == [200, 200, 80]
    assert len(set(starts)) == 480
    assert sum(sum(requests(answer)) for answer in answers) == 479


def test_what_is_missing_while_the_store_is_away_is_said(away: None, client_of: Callable[[str], Client]) -> None:
    answer = client_of("ann").get(USAGE)

    assert answer.status_code == 200
    assert answer.json()["stale"]
    assert {bucket["complete_until"] for bucket in answer.json()["buckets"]} == {None}


@pytest.mark.parametrize(
    ("parameters", "name", "words"),
    [
        ({"tenant": "cedar"}, "tenant", "There is no parameter 'tenant'"),
        ({"lanes": "reads"}, "lanes", "Did you mean 'lane'?"),
        ({"bucket": "week"}, "bucket", "write hour or day"),
        ({"group_by": "layer"}, "group_by", "not by layer"),
        ({"group_by": "colour"}, "group_by", "group_by=lane"),
        ({"lane": "all"}, "lane", "leave lane out"),
        ({"lane": "read"}, "lane", "Did you mean 'reads'?"),
        ({"lane": "</td>"}, "lane", "There is no lane '</td>'"),
        ({"lane": ["reads", "exports"]}, "lane", "once, not 2 times"),
        ({"start": "yesterday"}, "start", "as 2026-11-29T00:00:00Z"),
        ({"start": "2026-11-29T00:00:00"}, "start", "with its time zone"),
        ({"start": "2026-11-29T00:00:00 02:00"}, "start", "+ is written %2B"),
        ({"start": "2026-13-29T00:00:00Z"}, "start", "is no instant"),
        ({"start": "0001-01-01T00:00:00Z"}, "start", "no time that a tenant"),
        ({"end": "9999-12-31T23:59:59Z"}, "end", "no time that a tenant"),
        ({"start": "2026-12-24T00:00:00Z", "end": "2026-12-25T00:00:00Z"}, "start", "in the future"),
        ({"start": "2026-11-29T00:00:00Z", "end": "2026-11-28T00:00:00Z"}, "start", "is not before end"),
        ({"start": "2026-01-01T00:00:00Z"}, "start", "more than 92 days"),
        ({"start": "2024-01-01T00:00:00Z", "bucket": "day"}, "start", "more than 400 days"),
        ({"cursor": "abc"}, "cursor", "This is no cursor"),
        ({"cursor": "é"}, "cursor", "This is no cursor"),
        ({"cursor": "A" * 22}, "cursor", "This is no cursor"),
        ({"cursor": "abc", "start": "2026-11-29T00:00:00Z"}, "start", "leave start out"),
    ],
)
def test_what_is_wrong_is_a_problem_that_says_what_to_write(
    store: Engine, client_of: Callable[[str], Client], parameters: dict[str, Any], name: str, words: str
) -> None:
    answer = client_of("ann").get(USAGE, parameters)

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["title"], problem["status"], problem["parameter"]) == ("Bad Request", 400, name)
    assert words in problem["detail"]


# CSV


def table(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


@pytest.mark.parametrize("how", [{"headers": {"Accept": "text/csv"}}, {"query_params": {"format": "csv"}}])
def test_a_spreadsheet_gets_a_table(store: Engine, client_of: Callable[[str], Client], how: dict[str, Any]) -> None:
    used(9, lane="uploads", cost=5)

    answer = client_of("ann").get(USAGE, **how)

    lines = table(answer)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert len(lines) == 24
    assert lines[-1] == {
        "start": "2026-11-30T12:00:00Z",
        "end": "2026-11-30T13:00:00Z",
        "partial": "True",
        "complete_until": "2026-11-30T12:00:00Z",
        "requests": "9",
        "allowed": "8",
        "refused": "1",
        "cost": "40",
        "waited_ms": "0",
        "peak_in_flight": "0",
        "refused_by": "uploads-rate=1",
        "observed_by": "",
    }


def test_no_cell_is_a_formula(store: Engine, client_of: Callable[[str], Client]) -> None:
    """C185."""
    acme = Tenant.objects.get(key="acme")
    UsageHour.objects.create(
        tenant=acme, lane="=1+1", start=NOON, source="s", requests=1, refused=1, refused_by={"-cmd|'/C calc'!A1": 1}
    )

    answer = client_of("ann").get(USAGE, {"group_by": "lane", "format": "csv"})

    cells = [cell for line in table(answer) for cell in line.values()]
    assert "'=1+1" in cells
    assert "'-cmd|'/C calc'!A1=1" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\tx", "\rx"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(text: str) -> None:
    assert neutralised(text) == f"'{text}"


def test_numbers_stay_numbers() -> None:
    assert [neutralised(value) for value in (-2.5, 7, None, "plain")] == [-2.5, 7, None, "plain"]


def test_a_problem_is_no_table(store: Engine, client_of: Callable[[str], Client]) -> None:
    answer = client_of("ann").get(USAGE, {"bucket": "week"}, headers={"Accept": "text/csv"})

    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["parameter"] == "bucket"


def test_a_form_that_there_is_none_of_is_a_problem(store: Engine, client_of: Callable[[str], Client]) -> None:
    answer = client_of("ann").get(USAGE, headers={"Accept": "application/xml"})

    assert (answer.status_code, answer["Content-Type"]) == (406, "application/problem+json")


# Whose data it is


def test_nobody_sees_another_tenant(store: Engine, client_of: Callable[[str], Client]) -> None:
    """V2, C186: cedar never appears in anyone else's answer."""
    written(1, 77, tenant="cedar")
    used(9, tenant="cedar", lane="exports")

    for name in ("ann", "bob"):
        for how in ({}, {"format": "csv"}, {"group_by": "lane"}):
            answer = client_of(name).get(USAGE, how, headers={"X-Tenant": "cedar"})
            assert answer.status_code == 200
            assert "77" not in answer.content.decode()
            assert "cedar" not in answer.content.decode()
    assert sum(requests(client_of("cy").get(USAGE))) == 86


def test_a_cursor_of_another_tenant_shows_ones_own(store: Engine, client_of: Callable[[str], Client]) -> None:
    parameters = {"start": "2026-11-10T12:00:00Z", "end": "2026-11-30T12:00:00Z"}
    written(100, 77, tenant="cedar")
    written(100, 1)
    address = client_of("cy").get(USAGE, parameters).json()["next"]

    answer = client_of("ann").get(address)

    assert sum(requests(answer)) == 1


def test_the_lane_of_another_tenant_is_unknown(store: Engine, client_of: Callable[[str], Client]) -> None:
    written(1, 7, tenant="cedar", lane="imports")

    assert client_of("ann").get(USAGE, {"lane": "imports"}).status_code == 400


def test_nobody_without_a_tenant_sees_anything(store: Engine, client_of: Callable[[str], Client]) -> None:
    answers = [Client().get(USAGE), client_of("nora").get(USAGE)]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert [answer["Cache-Control"] for answer in answers] == ["private, no-store"] * 2
