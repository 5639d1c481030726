"""Usage as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from rest_framework.renderers import BaseRenderer

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_TIMES = ("refused_by", "observed_by")


class CSVRenderer(BaseRenderer):
    """A line for each result of each bucket. No cell is a formula to a spreadsheet."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *_args: Any, **_kwargs: Any) -> str:  # Any: as BaseRenderer types them
        """The text, with a line of names first; `data` is that of the JSON answer."""
        lines = [_line(bucket, result) for bucket in data["buckets"] for result in bucket["results"]]
        text = io.StringIO()
        writer = csv.DictWriter(text, data["columns"])
        writer.writeheader()
        writer.writerows(lines)
        return text.getvalue()


def _line(bucket: dict[str, Any], result: dict[str, Any]) -> dict[str, object]:
    cells = {name: value for name, value in bucket.items() if name != "results"} | result
    for name in _TIMES:
        cells[name] = "; ".join(f"{limit}={times}" for limit, times in cells[name].items())
    return {name: neutralised(value) for name, value in cells.items()}


def neutralised(cell: object) -> object:
    """The cell, with an apostrophe before text that a spreadsheet would take for a formula (OWASP, CSV injection)."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
