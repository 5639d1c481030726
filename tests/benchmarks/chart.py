"""The chart of a run: what others cost in decisions of ours, and what limiters leave of a site's throughput.

Plain SVG by hand, readable on a light and on a dark page, and for who cannot see it: title and description say it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tests.benchmarks.report import Report, number
from tests.benchmarks.rows import AT_ONCE, IN_TURN, Row

WIDTH, LABELS, VALUES, BAR, GAP, HEADING = 760, 250, 60, 18, 8, 40
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.head { font-weight: 600; font-size: 14px }
.ours { fill: #0a7d53 }
.others { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ours { fill: #3fb983 } .others { fill: #6e7681 } }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled length."""

    label: str
    value: float
    is_ours: bool = False

    @property
    def text(self) -> str:
        """Label and value in words."""
        return f"{self.label} {number(self.value)}"


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars under a heading, all to one scale: the longest is as wide as there is room, or `whole` would be."""

    heading: str
    bars: Sequence[Bar]
    whole: float = 0.0

    @property
    def height(self) -> int:
        """In pixels."""
        return HEADING + len(self.bars) * (BAR + GAP)


def chart(report: Report) -> str:
    """The chart of a run; panels without figures are left out."""
    panels = [panel for panel in (_peers(report.rows), _kept(report.rows)) if panel.bars]
    height = 12 + sum(panel.height for panel in panels)
    told = ". ".join(f"{panel.heading}: {', '.join(bar.text for bar in panel.bars)}" for panel in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        'role="img" aria-labelledby="title description">',
        '<title id="title">What limits cost: tenantlimits beside other packages</title>',
        f'<desc id="description">{escape(told)}.</desc>',
        f"<style>{STYLE}</style>",
    ]
    top = 0
    for panel in panels:
        lines += _drawn(panel, top)
        top += panel.height
    return "\n".join([*lines, "</svg>", ""])


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


def _drawn(panel: Panel, top: int) -> Iterator[str]:
    most = max(panel.whole, *(bar.value for bar in panel.bars))
    yield f'<text class="head" x="8" y="{top + 26}">{escape(panel.heading)}</text>'
    for row, bar in enumerate(panel.bars):
        y = top + HEADING + row * (BAR + GAP)
        length = max(2.0, (WIDTH - LABELS - VALUES) * bar.value / most)
        kind = "ours" if bar.is_ours else "others"
        yield f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>'
        yield f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text x="{LABELS + length + 6:.1f}" y="{y + 14}">{number(bar.value)}</text>'
