"""Whether what was seen is what was promised, of every fault."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.fleet import LIMIT, TIMEOUT_SECONDS, Usage
from tests.chaos.trial import Course, untold_of
from tests.scenarios.servers import WORKERS

SHARED_AGAIN_SECONDS = 2.0
MOST_TOUCHES = 5 + WORKERS
"""Requests that may find out for themselves, each time that a process leaves its store alone."""
MOST_STORE_SECONDS = 2 * TIMEOUT_SECONDS + 0.25
"""Inside store calls, of one request: two timeouts, and a turn on a machine that is busy with something else."""


def problems(course: Course) -> Iterator[str]:
    """What was promised and not seen."""
    if course.failed:
        yield f"{course.failed} requests lost"
    yield from _of_the_rule(course)
    yield from _of_time(course)
    yield from _of_limits(course)
    yield from _of_counts(course)


def _of_the_rule(course: Course) -> Iterator[str]:
    fault = course.fault
    degraded = any(one.degraded for one in course.seen)
    if degraded != fault.degrades:
        yield "nothing was decided without the store" if fault.degrades else "some was decided without the store"
    if any(one.status == 429 for one in course.seen if one.tenant != course.acme):
        yield "a quiet tenant was refused"


def _of_time(course: Course) -> Iterator[str]:
    if course.longest > MOST_STORE_SECONDS:
        yield f"a request was {course.longest:.2f} s inside store calls"
    if course.shared_again > SHARED_AGAIN_SECONDS:
        yield f"shared again only after {course.shared_again:.1f} s"
    if any(touched > MOST_TOUCHES * max(1, openings) for touched, openings in course.touches.values()):
        yield "too many requests found out for themselves"


def _of_limits(course: Course) -> Iterator[str]:
    if course.shared > LIMIT * (1 + course.fault.forgets):
        yield f"the store let in {course.shared}"
    if course.local > LIMIT + WORKERS:
        yield f"without the store {course.local} were let in"
    if course.still_held:
        yield f"{course.still_held:.0f} slots are held by nobody"


def _of_counts(course: Course) -> Iterator[str]:
    yield from problems_of_counts(
        course.missing, course.surplus, untold=untold_of(course.seen), unanswered=course.unanswered
    )


def problems_of_counts(missing: Usage, surplus: int, *, untold: int, unanswered: int) -> Iterator[str]:
    """What the usage lacks, or has too much. See `untold_of` and `Course.unanswered`."""
    admitted = sum(number for (_, _, what), number in missing.items() if what == "allowed")
    if admitted:
        yield f"{admitted} admitted requests are missing in the usage"
    if missing.total() - admitted > untold:
        yield f"{missing.total() - admitted} refused requests are missing in the usage"
    if surplus > unanswered:
        yield f"{surplus} requests are in the usage twice"


def summary(course: Course) -> str:
    """What was seen, in figures."""
    touches = course.touches.values()
    touched, openings = (sum(numbers) for numbers in zip(*touches, strict=True))
    parts = [f"{course.shared} shared"]
    if course.local or openings:
        parts += [f"{course.local} local", f"{touched} touched it in {openings} openings"]
    parts += [f"longest {course.longest:.2f} s"]
    if course.fault.degrades:
        parts += [f"shared again after {course.shared_again:.1f} s"]
    parts += [usage_in_words(course.missing, course.surplus)]
    return ", ".join(parts)


def usage_in_words(missing: Usage, surplus: int) -> str:
    """How far the usage is from what the callers saw."""
    figures = [f"{number:+d}" for number in (-missing.total(), surplus) if number]
    return f"usage {' '.join(figures) or 'exact'}"
