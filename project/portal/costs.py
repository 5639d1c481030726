"""What an upload costs: its megabytes, and at least one for each file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

if TYPE_CHECKING:
    from rest_framework.request import Request

MEGABYTE = 1_000_000


def megabytes(size: int) -> int:
    """Whole megabytes, at least 1, of that many bytes."""
    return max(1, math.ceil(size / MEGABYTE))


def declared(request: HttpRequest | Request, _view: object = None) -> int:
    """What the length of the body says, before anybody has read it. The server reads no more than that."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return megabytes(int(length) if length.isdigit() else 0)


def pictures(request: Request, _view: object = None) -> int:
    """The sum over every picture of a batch: n small ones cost n, however few requests bring them (OWASP API4:2023).

    It reads the body first, so that a batch which does not fit is refused whole, rather than settled into debt.
    """
    files: list[Any] = request.FILES.getlist("pictures")
    return sum(megabytes(file.size) for file in files)
