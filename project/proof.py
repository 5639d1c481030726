"""The proof: one tenant floods the portal, and the others do not notice; without limits, they do.

Three rounds of three phases, interleaved so that a slow minute of the machine meets all of them alike: the others
alone, a flood with limits, and the same flood with the site's switch off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from django.conf import settings

from project.web import PROCESSES, THREADS, Web
from tenantlimits.models import Limit, Switch
from tenantlimits.models.choices import Mode
from tenantlimits.testing.flood import Flood, Traffic, flood

PATH = "/api/projects/"
NOISY = "acme"
OTHERS = {"bolt": 10.0, "cedar": 1.0}
"""Requests per second, well within their limits."""
TIMES = 10
"""The flooder offers so many times what it may."""
WORST_SHARE_OF_A_CORE = 0.3

Say = Callable[[str], None]


class Phase(StrEnum):
    """Who is there, and whether limits are enforced."""

    QUIET = "others alone"
    LIMITED = "flood, limits on"
    UNLIMITED = "flood, limits off"


SECONDS = {Phase.QUIET: 2.5, Phase.LIMITED: 45.0, Phase.UNLIMITED: 6.0}
# A burst is the flooder's right. Where it fills all slots, others feel it, for about a second until what has queued
# meanwhile is answered: a flood is longer than thirty times that.
WARM_SECONDS, WARM_RATE = 1.0, 8.0
"""Before each phase everybody is at work within limits, so that no phase pays for what a process does only once."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the flooder may: requests per second, and at once."""

    rate: float
    burst: float

    # Both to the whole request: an arrival is noted a few milliseconds before the store decides.

    def most(self, seconds: float) -> int:
        """Admissions that a full bucket allows in that time."""
        return math.ceil(self.burst + self.rate * seconds)

    def least(self, seconds: float) -> int:
        """Admissions that it owes, but for one that is just about to be allowed."""
        return math.floor(self.rate * seconds - 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase of one round."""

    phase: Phase
    noisy: Flood | None
    others: tuple[Flood, ...]

    @property
    def p95(self) -> float:
        """The latency in seconds that 95 of 100 requests of all others stayed within."""
        together = tuple(one for flood in self.others for one in flood.exchanges)
        return Flood(traffic=self.others[0].traffic, seconds=0, client_cpu=0, exchanges=together).percentile(95)

    @property
    def errors(self) -> float:
        """The part of the others' requests that were not served."""
        return sum(one.error_rate * one.offered for one in self.others) / sum(one.offered for one in self.others)

    @property
    def client_cpu(self) -> float:
        """The part of a core that the client took."""
        return self.others[0].client_cpu

    @property
    def served_per_second(self) -> float:
        """Answers to everybody, by the time that the last one took."""
        floods = [*self.others, *([self.noisy] if self.noisy else [])]
        answered = [one for each in floods for one in each.exchanges if one.admitted]
        return len(answered) / max(one.due + one.latency for one in answered) if answered else 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that had to hold, and whether it did, in figures."""

    holds: bool
    words: str


def run(web: Web, tokens: Mapping[str, str], rounds: int, say: Say) -> list[Claim]:
    """Measure, print the table, and answer what it shows."""
    allowance = _allowance()
    wait = f"{settings.PORTAL_READ_SECONDS * 1000:.0f} ms"
    say(f"{NOISY} may {allowance.rate:.0f} requests/s (burst {allowance.burst:.0f}) and offers {TIMES} times as many.")
    say(f"{PROCESSES} processes of {THREADS} threads serve views that wait {wait}.")
    measured: list[Measured] = []
    for number in range(1, rounds + 1):
        measured += _round(web, tokens, allowance, number, say)
    for row in table(measured, rounds):
        say(row)
    return claims(measured, allowance)


def _allowance() -> Allowance:
    bucket = Limit.objects.get(tier__slug="pro", name="all-rate").as_domain()
    return Allowance(bucket.rate, bucket.capacity)


def _round(web: Web, tokens: Mapping[str, str], allowance: Allowance, number: int, say: Say) -> list[Measured]:
    results = []
    for phase in Phase:
        _switch(Mode.OFF if phase is Phase.UNLIMITED else Mode.ENFORCE)
        _measure(web, tokens, phase, WARM_RATE, seconds=WARM_SECONDS)
        noisy = None if phase is Phase.QUIET else allowance.rate * TIMES
        results.append(_measure(web, tokens, phase, noisy, seconds=SECONDS[phase]))
        say(f"round {number}  {line(results[-1])}")
    _switch(Mode.ENFORCE)
    return results


def _measure(web: Web, tokens: Mapping[str, str], phase: Phase, noisy: float | None, *, seconds: float) -> Measured:
    rates = OTHERS | ({} if noisy is None else {NOISY: noisy})
    traffic = [
        Traffic(name=name, path=PATH, rate=rate, headers={"Authorization": f"Bearer {tokens[name]}"})
        for name, rate in rates.items()
    ]
    found = {one.traffic.name: one for one in flood(web.url, *traffic, seconds=seconds)}
    return Measured(phase, found.get(NOISY), tuple(found[name] for name in OTHERS))


def _switch(mode: Mode) -> None:
    row = Switch.current()
    if row.mode != mode:
        row.mode, row.reason = mode, "Demo: what the others feel with and without limits."
        row.save()


def line(measured: Measured) -> str:
    """What a phase found, while the next one runs."""
    words = f"{measured.phase:17}  others' p95 {_ms(measured.p95):>8}, errors {measured.errors:.0%}"
    noisy = measured.noisy
    if noisy is None:
        return words
    return f"{words}; {NOISY} offered {noisy.offered}, served {noisy.admitted}, refused {noisy.refused}{_by(noisy)}"


def _by(noisy: Flood) -> str:
    names = ", ".join(f"{name or 'no limit named'}: {count}" for name, count in noisy.refused_by.most_common())
    return f" ({names})" if names else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _of_noisy(value: Callable[[Flood], float]) -> Callable[[Measured], float | None]:
    return lambda measured: None if measured.noisy is None else value(measured.noisy)


def _of_other(name: str, percent: float) -> Callable[[Measured], float]:
    return lambda measured: next(one for one in measured.others if one.traffic.name == name).percentile(percent)


ROWS: tuple[tuple[str, Callable[[Measured], float | None], Callable[[float], str]], ...] = (
    ("others' p95", lambda measured: measured.p95, _ms),
    *((f"  {name} p{percent}", _of_other(name, percent), _ms) for name in OTHERS for percent in (50, 95)),
    ("others' errors", lambda measured: measured.errors, "{:.1%}".format),
    (f"{NOISY} offered", _of_noisy(lambda noisy: noisy.offered), "{:,.0f}".format),
    (f"{NOISY} served", _of_noisy(lambda noisy: noisy.admitted), "{:,.0f}".format),
    (f"{NOISY} refused", _of_noisy(lambda noisy: noisy.refused), "{:,.0f}".format),
    ("served per second", lambda measured: measured.served_per_second, "{:,.0f}".format),
    ("client, of a core", lambda measured: measured.client_cpu, "{:.0%}".format),
)


def table(measured: Sequence[Measured], rounds: int) -> list[str]:
    """The medians of all rounds, a column for each phase."""
    head = "one round" if rounds == 1 else f"median of {rounds} rounds"
    lines = [f"{head:18}" + "".join(f"{phase:>19}" for phase in Phase)]
    for label, value, shown in ROWS:
        cells = [_median(measured, phase, value) for phase in Phase]
        lines.append(f"{label:18}" + "".join(f"{'-' if cell is None else shown(cell):>19}" for cell in cells))
    return lines


def _median(measured: Sequence[Measured], phase: Phase, value: Callable[[Measured], float | None]) -> float | None:
    values = [found for one in measured if one.phase is phase and (found := value(one)) is not None]
    return median(values) if values else None


def claims(measured: Sequence[Measured], allowance: Allowance) -> list[Claim]:
    """What has to hold, with the figures that it is judged by."""
    quiet, limited, unlimited = (_median(measured, phase, lambda one: one.p95) or 0.0 for phase in Phase)
    budget = max(1.5 * quiet, quiet + 0.025)
    errors = _median([one for one in measured if one.phase is Phase.LIMITED], Phase.LIMITED, lambda one: one.errors)
    cpu = max(one.client_cpu for one in measured)
    return [
        Claim(limited <= budget, f"with limits the others' p95 is {_ms(limited)}, within {_ms(budget)}"),
        Claim(errors == 0, f"with limits {errors:.1%} of the others' requests fail"),
        *(_refusals(one.noisy) for one in measured if one.phase is Phase.LIMITED and one.noisy),
        *(_admissions(one.noisy, allowance) for one in measured if one.phase is Phase.LIMITED and one.noisy),
        Claim(
            unlimited >= 5 * limited,
            f"without limits their p95 is {_ms(unlimited)}, {unlimited / limited:.1f} times as long",
        ),
        _overload(measured, allowance),
        Claim(cpu < WORST_SHARE_OF_A_CORE, f"the client takes {cpu:.0%} of a core at most"),
    ]


def _refusals(noisy: Flood) -> Claim:
    return Claim(noisy.refused > 0, f"{NOISY} gets {noisy.refused} refusals{_by(noisy)}")


def _admissions(noisy: Flood, allowance: Allowance) -> Claim:
    """On the server's clock, from first to last arrival: which a bucket that was full may exceed by nothing."""
    if noisy.arrivals is None:
        return Claim(False, "the server does not say when requests arrive")
    seconds = noisy.arrivals[1] - noisy.arrivals[0]
    least, most = allowance.least(seconds), allowance.most(seconds)
    words = f"{NOISY} has {noisy.admitted} admissions in {seconds:.2f} s, of {least} to {most}"
    return Claim(least <= noisy.admitted <= most, words)


def _overload(measured: Sequence[Measured], allowance: Allowance) -> Claim:
    """The flood is more than the workers can serve; else it would harm nobody, with or without limits."""
    offered = allowance.rate * TIMES + sum(OTHERS.values())
    served = _median(measured, Phase.UNLIMITED, lambda one: one.served_per_second) or 0.0
    return Claim(served < offered, f"{offered:.0f} requests/s are offered, of which the workers can serve {served:.0f}")
