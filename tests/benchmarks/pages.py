"""What README and docs say of speed: written from a run, so that every figure in them is one of its rows.

`python -m tests.benchmarks.pages` writes them once more from the run that was published last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.benchmarks.chart import chart
from tests.benchmarks.report import Report, measured, number, read, row_of
from tests.benchmarks.rows import Row

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURES = REPOSITORY / "docs" / "figures"
BEGIN, END = "<!-- written by make bench PUBLISH=1 -->", "<!-- end of what it writes -->"


def table(report: Report) -> str:
    """All rows, for docs/performance.md."""
    return f"{described(report)}\n\n{_rows(report.rows)}"


def summary(report: Report) -> str:
    """The few that a reader of the README wants to know."""
    say = {name: measured(row_of(report.rows, what)) for name, what in _SUMMARY.items()}
    return "\n".join(line.format(**say) for line in _SENTENCES)


_SUMMARY = {
    "decision": "a decision over redis-py's no-op: tenant",
    "cheapest": "in decisions, four limits of the cheapest in turn",
    "throttles": "in decisions, four DRF throttles",
    "kept": "a trivial DRF view behind gunicorn keeps",
    "left": "behind gunicorn with four DRF throttles",
    "bytes": "memory of a tenant among 1,000,000",
    "million": "a decision among 1,000,000 tenants",
}
_SENTENCES = (
    "- A decision over four limits, with a slot and usage, takes {decision} of the time of a script that does nothing,",
    "  as redis-py calls it.",
    "- Four limits with the cheapest other package that asks them in turn take {cheapest} times as long as all of a",
    "  decision, and four of DRF's throttles {throttles} times.",
    "- A trivial DRF view behind gunicorn keeps {kept} of its throughput; with four of DRF's throttles, {left}.",
    "- Among a million tenants a decision takes {million} times as long as among a thousand, and a tenant {bytes}.",
)


def described(report: Report) -> str:
    """On what it was measured, as a sentence."""
    on = report.machine
    return (
        f"Measured in {report.month} on {on['processors']}: {on['server']}, {on['python']}, redis-py {on['redis']}\n"
        f"with hiredis {on['hiredis']}, Django {on['Django']}, Django REST framework {on['djangorestframework']}."
    )


def _rows(rows: Iterable[Row]) -> str:
    lines = ["| Row | What | Must | Goal | Measured | |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row.id, row.what, number(row.must, row.unit), number(row.goal, row.unit), measured(row)]
        lines.append("| " + " | ".join([*cells, row.told]) + " |")
    return "\n".join(lines)


def written_into(page: str, text: str, *, begin: str = BEGIN) -> str:
    """The page with the text between its marks."""
    new = f"{begin}\n{text}\n{END}"
    return re.sub(re.escape(begin) + ".*?" + re.escape(END), lambda _: new, page, count=1, flags=re.DOTALL)


def save(report: Report, folder: Path) -> None:
    """Write bench.json and bench.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(report.as_json(), "utf-8")
    (folder / "bench.svg").write_text(chart(report), "utf-8")


def publish(report: Report) -> None:
    """Write the run into the figures, README and docs."""
    save(report, FIGURES)
    for name, write in PAGES.items():
        page = REPOSITORY / name
        page.write_text(written_into(page.read_text("utf-8"), write(report)), "utf-8")


PAGES = {"README.md": summary, "docs/performance.md": table}

if __name__ == "__main__":
    publish(read((FIGURES / "bench.json").read_text("utf-8")))
