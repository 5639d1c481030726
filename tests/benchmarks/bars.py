"""Panels of bars as SVG, by hand.

Readable on a light and on a dark page, and for who cannot see it: title and description say it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tests.benchmarks.report import number

WIDTH, LABELS, VALUES, UNIT, BAR, GAP, HEADING = 760, 250, 60, 24, 18, 8, 40
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.head { font-weight: 600; font-size: 14px }
.ours { fill: #0a7d53 }
.others { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ours { fill: #3fb983 } .others { fill: #6e7681 } }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled length; `unit` "" is a ratio."""

    label: str
    value: float
    is_ours: bool = False
    unit: str = ""

    @property
    def told(self) -> str:
        """The value with its unit."""
        return f"{number(self.value, self.unit)} {self.unit}".rstrip()

    @property
    def text(self) -> str:
        """Label and value in words."""
        return f"{self.label} {self.told}"


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


def drawn(title: str, panels: Sequence[Panel]) -> str:
    """The panels below each other; those without bars are left out."""
    panels = [panel for panel in panels if panel.bars]
    height = 12 + sum(panel.height for panel in panels)
    told = ". ".join(f"{panel.heading}: {', '.join(bar.text for bar in panel.bars)}" for panel in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(told)}.</desc>',
        f"<style>{STYLE}</style>",
    ]
    top = 0
    for panel in panels:
        lines += _drawn(panel, top)
        top += panel.height
    return "\n".join([*lines, "</svg>", ""])


def _drawn(panel: Panel, top: int) -> Iterator[str]:
    most = max(panel.whole, *(bar.value for bar in panel.bars))
    room = WIDTH - LABELS - VALUES - (UNIT if any(bar.unit for bar in panel.bars) else 0)
    yield f'<text class="head" x="8" y="{top + 26}">{escape(panel.heading)}</text>'
    for row, bar in enumerate(panel.bars):
        y = top + HEADING + row * (BAR + GAP)
        length = max(2.0, room * bar.value / most)
        kind = "ours" if bar.is_ours else "others"
        yield f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>'
        yield f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text x="{LABELS + length + 6:.1f}" y="{y + 14}">{escape(bar.told)}</text>'
