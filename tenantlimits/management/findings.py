"""What a look of the doctor's answers: how it looks, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How it looks."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at, and what to do about it."""

    health: Health
    words: str
    remedy: str = ""


Findings = Iterator[Finding]
