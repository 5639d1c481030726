"""The chart of a run: what others cost in decisions of ours, and what limiters leave of a site's throughput."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.bars import Bar, Panel, drawn
from tests.benchmarks.report import Report
from tests.benchmarks.rows import AT_ONCE, IN_TURN, Row


def chart(report: Report) -> str:
    """The chart of a run; panels without figures are left out."""
    return drawn("What limits cost: tenantlimits beside other packages", [_peers(report.rows), _kept(report.rows)])


def _peers(rows: Sequence[Row]) -> Panel:
    others = [
        row for row in rows if row.id == "P2" and row.what.endswith((IN_TURN, AT_ONCE)) and row.measured is not None
    ]
    bars = sorted((Bar(_peer(row), row.measured or 0) for row in others), key=lambda bar: bar.value)
    ours = [Bar("tenantlimits: with slot, usage, policy", 1, is_ours=True)] if bars else []
    return Panel("Four limits of one caller: time, in decisions of tenantlimits (less is better)", [*ours, *bars])


def _peer(row: Row) -> str:
    return row.what.replace(IN_TURN, "").replace(AT_ONCE, " (in one call)")


def _kept(rows: Sequence[Row]) -> Panel:
    kept = [row for row in rows if row.id == "P7" and row.measured is not None]
    bars = [Bar(_place(row.what), row.measured or 0, is_ours="DRF throttle" not in row.what) for row in kept]
    return Panel(
        "Throughput of a trivial view, as a part of what it has without a limiter (more is better)", bars, whole=1
    )


def _place(what: str) -> str:
    """Server and limiter of a row."""
    server = "gunicorn" if "gunicorn" in what else "uvicorn"
    is_async = ", async view" if "async" in what else ""
    limiter = next((words for words in ("one DRF throttle", "four DRF throttles") if words in what), "tenantlimits")
    return f"{server}{is_async}: {limiter}"
