"""A row of the table: what was measured, and what it must and should be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

IN_TURN, AT_ONCE = ": four limits in turn, in decisions", ": four limits in one call, in decisions"
"""What the row of a peer says after its name."""


class Verdict(StrEnum):
    """How a measured figure stands to its must and goal."""

    BEYOND = "beyond"
    PASS = "pass"
    SHORT = "short"
    SHOWN = "shown"
    """It has no target: it is there to compare with."""
    MISSING = "missing"
    """It could not be measured here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `unit` "" is a ratio; `note` says why there is none, or what to read it by."""

    id: str
    what: str
    must: float | None = None
    goal: float | None = None
    measured: float | None = None
    more_is_better: bool = False
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Beyond: at least the goal. Pass: at least the must. Short: neither."""
        if self.measured is None:
            return Verdict.MISSING
        if self.must is None or self.goal is None:
            return Verdict.SHOWN
        sign = -1 if self.more_is_better else 1
        if sign * self.measured <= sign * self.goal:
            return Verdict.BEYOND
        return Verdict.PASS if sign * self.measured <= sign * self.must else Verdict.SHORT

    @property
    def told(self) -> str:
        """The verdict, with the note."""
        return f"{self.verdict}: {self.note}" if self.note else str(self.verdict)


def missing(id: str, what: str, why: str) -> Row:
    """The row of what cannot be measured here."""
    return Row(id, what, note=why)
