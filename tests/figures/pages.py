"""What README and docs say of the published experiments: written from a run, as the bench's pages are.

`python -m tests.figures.pages` writes them once more from the run that was published last.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.bars import Bar, Panel, drawn
from tests.benchmarks.pages import FIGURES, REPOSITORY, written_into
from tests.benchmarks.report import number
from tests.figures.figure import SOURCES, Figure, Run, read

BEGIN = "<!-- written by make figures PUBLISH=1 -->"
HEAD = f"{'id':4}{'way':36}{'what':30}{'published':>11}{'virtual':>11}{'measured':>11}  {'unit':12}"
MEDIAN, BATCH = "quiet tenant: median", "noisy tenant: all done after"
FIRST = ("C1", "C2")
"""They are of the same flood."""
TITLE = "One tenant floods a pool: what another one feels, and what the flood pays"


def line(figure: Figure) -> str:
    """A row of the table for a terminal."""
    numbers = "".join(f"{_number(value, figure.unit):>11}" for value in _values(figure))
    return f"{figure.id:4}{figure.way:36}{figure.what:30}{numbers}  {figure.unit:12}{figure.verdict}"


def told_sources() -> str:
    """Where the published figures are from, for a terminal."""
    return "\n".join(f'{id}: published in "{source}"' for id, source in SOURCES.items())


def chart(run: Run) -> str:
    """The quiet tenant's wait and the noisy one's, by each way."""
    panels = (
        _panel(run, FIRST, MEDIAN, "10 slots, a flood of 500: median time of another tenant's 10 operations"),
        _panel(run, FIRST, BATCH, "The same: until the flood is over"),
        _panel(run, ("C3",), MEDIAN, "20 slots, a flood of 200 long ones: median time of another tenant's 50"),
    )
    return drawn(TITLE, panels)


def _panel(run: Run, ids: Sequence[str], what: str, heading: str) -> Panel:
    chosen = [one for one in run.figures if one.id in ids and one.what == what]
    return Panel(heading, [Bar(one.way, one.measured, one.is_ours, one.unit) for one in chosen])


def summary(run: Run) -> str:
    """The sentence of the README."""
    alone, lent = _figures_of(run, "one queue for all"), _figures_of(run, "tenantlimits: 6 and 4, all lent")
    queue, shares = (_number(one[MEDIAN], "ms") for one in (alone, lent))
    longer = number(lent[BATCH] / alone[BATCH])
    return "\n".join(line.format(SOURCES["C1"], queue=queue, shares=shares, longer=longer) for line in _SENTENCE)


_SENTENCE = (
    'In the experiment of "{0}", 500 operations of one tenant fill ten slots, and ten of',
    "another one follow. Their median is {queue} ms in one queue for all, and {shares} ms with shares of 6 and 4",
    "that are lent while idle; the flood then takes {longer} times as long. `make figures` runs this and other",
    "published experiments on your machine, beside the plain ways to do it.",
)


def table(run: Run) -> str:
    """All figures, for docs/performance.md."""
    on = run.machine
    lines = [
        f"Measured in {run.month} on {on['processors']}: {on['server']}, {on['python']}.",
        "",
        "| Row | Way | What | Published | Virtual | Measured | |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in run.figures:
        cells = [_number(value, one.unit) for value in _values(one)]
        lines.append("| " + " | ".join([one.id, one.way, f"{one.what} ({one.unit})", *cells, one.verdict]) + " |")
    return "\n".join(lines)


def _figures_of(run: Run, way: str) -> dict[str, float]:
    """The first experiment's figures of a way, by what they are of."""
    return {one.what: one.measured for one in run.figures if one.way == way and one.id in FIRST}


def _values(figure: Figure) -> Sequence[float]:
    return figure.published, figure.virtual, figure.measured


def _number(value: float, unit: str) -> str:
    # What was published is told as it was, so nothing is rounded to thousands here.
    return f"{value:,.0f}" if unit in ("operations", "windows") or value >= 1000 else number(value, unit)


def save(run: Run, folder: Path) -> None:
    """Write shares.json and shares.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shares.json").write_text(run.as_json(), "utf-8")
    (folder / "shares.svg").write_text(chart(run), "utf-8")


def publish(run: Run) -> None:
    """Write the run into the figures, README and docs."""
    save(run, FIGURES)
    for name, write in PAGES.items():
        page = REPOSITORY / name
        page.write_text(written_into(page.read_text("utf-8"), write(run), begin=BEGIN), "utf-8")


PAGES = {"README.md": summary, "docs/performance.md": table}

if __name__ == "__main__":
    publish(read((FIGURES / "shares.json").read_text("utf-8")))
