"""One figure: what was published, what the rules give in virtual time, and what was measured; and all of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

SCHEMA = 1
WITHIN = 1.3
"""So many times the figure in virtual time, or a part so small of it, may be measured in real time."""

SOURCES = {
    "C1": "Per-Tenant Rate Limits in Async Services",
    "C2": "Per-Tenant Rate Limits in Async Services",
    "C3": "Isolating Tenants with Bulkheads",
    "R4": "Enforcing Multiple Rate Limits at Once",
}
"""Where the experiments were published; docs/credits.md has them all."""


class Verdict(StrEnum):
    """How a measured figure stands to the one in virtual time."""

    AGREES = "agrees"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of an experiment, by one way of doing it."""

    id: str
    way: str
    what: str
    unit: str
    published: float
    virtual: float
    measured: float
    is_ours: bool = False

    @property
    def verdict(self) -> Verdict:
        """Times within 1.3 of each other, operations alike; of windows that held too many some, or none.

        What is published as a bound may take 1.3 of that.
        """
        if self.unit == "windows":
            # How many depends on how long each round trip took.
            agrees = bool(self.measured) == bool(self.virtual)
        elif self.unit == "operations":
            agrees = self.measured == self.virtual
        elif self.unit == "ms at most":
            agrees = self.measured <= self.published * WITHIN
        else:
            agrees = self.virtual / WITHIN <= self.measured <= self.virtual * WITHIN
        return Verdict.AGREES if agrees else Verdict.DIFFERS


@dataclass(frozen=True, slots=True)
class Run:
    """All figures of a run: when, and on what."""

    month: str
    machine: Mapping[str, str]
    figures: Sequence[Figure]

    def as_json(self) -> str:
        """The run as text that `read` understands."""
        figures = [asdict(one) | {"source": SOURCES[one.id], "verdict": one.verdict} for one in self.figures]
        whole = {"schema": SCHEMA, "month": self.month, "machine": dict(self.machine), "figures": figures}
        return json.dumps(whole, indent=1) + "\n"


def read(text: str) -> Run:
    """A run from its JSON."""
    whole: dict[str, Any] = json.loads(text)
    if whole["schema"] != SCHEMA:
        raise ValueError(f"schema {whole['schema']} is not {SCHEMA}: run make figures again")
    derived = {"source", "verdict"}
    figures = [
        Figure(**{name: value for name, value in one.items() if name not in derived}) for one in whole["figures"]
    ]
    return Run(whole["month"], whole["machine"], figures)
