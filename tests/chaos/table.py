"""A table that grows by a row at a time, in columns of fixed width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTHS = (24, 40, 46, 4, 30)
HEAD = ("fault", "promised", "seen", "lost", "verdict")


def row(cells: Sequence[str]) -> str:
    """As many lines as the longest cell needs."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS, strict=True)]
    lines = max(map(len, wrapped))
    padded = [cell + [""] * (lines - len(cell)) for cell in wrapped]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, WIDTHS, strict=True)).rstrip()
        for line in zip(*padded, strict=True)
    )


def rule() -> str:
    """A line between head and rows."""
    return "  ".join("-" * width for width in WIDTHS)
