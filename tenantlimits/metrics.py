"""Metrics for Prometheus, where prometheus_client is installed: what was decided, and how the store does.

A process that is alone is read when it is scraped, from the default registry. Where several serve, which
PROMETHEUS_MULTIPROC_DIR says, each writes what it counted there once a second, and prometheus_client adds them up.

Labels are lanes, outcomes and classes of errors: the settings and the code bound them, and no request names one.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import mark_process_dead
from prometheus_client.registry import Collector

from tenantlimits.conf import conf
from tenantlimits.gate import keeper
from tenantlimits.gate.leases import heartbeat
from tenantlimits.gate.outcomes import Outcomes
from tenantlimits.gate.reporting import OnceAMinute
from tenantlimits.gate.store import stores

logger = logging.getLogger(__name__)

Values = Mapping[tuple[str, ...], float]
"""By the values of the labels."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric. A gauge's `together` says how the values of several processes become one; counters add up."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[], Values]
    together: Literal["livesum", "livemax"] | None = None

    def collected(self, values: Values) -> Metric:
        """The metric with these values."""
        kind = GaugeMetricFamily if self.together else CounterMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family


def _in_flight() -> Values:
    held = Tally(one.lane for one in heartbeat.held())
    return {(lane,): held[lane] for lane in conf.LANES}


FAMILIES = (
    Family(
        "tenantlimits_decisions", "Decisions, by lane and outcome: allowed, or the code of the refusal.",
        ("lane", "outcome"), lambda: dict(stores.outcomes.decisions),
    ),
    Family(
        "tenantlimits_degraded_decisions", "Decisions that were made without the shared store, by lane.",
        ("lane",), lambda: dict(stores.outcomes.degraded),
    ),
    Family(
        "tenantlimits_decisions_without_tier", "Decisions without limits, since a tier of the settings has no row.",
        ("lane",), lambda: dict(stores.outcomes.without_tier),
    ),
    Family(
        "tenantlimits_in_flight", "Operations under way that hold a slot of a concurrency limit, by lane.",
        ("lane",), _in_flight, "livesum",
    ),
    Family(
        "tenantlimits_store_errors", "Decisions that the store did not make, by the class of what went wrong.",
        ("error",), lambda: {(name,): times for name, times in dict(stores.health.errors).items()},
    ),
    Family(
        "tenantlimits_store_openings", "How often a server of the store was left alone because it failed.",
        (), lambda: {(): stores.health.openings},
    ),
    Family(
        "tenantlimits_store_degraded", "1 while a server of the store is left alone, in any process.",
        (), lambda: {(): stores.health.is_degraded}, "livemax",
    ),
)  # fmt: skip


class ThisProcess(Collector):
    """Reads this process when it is scraped."""

    def describe(self) -> Iterator[Metric]:
        """The names, for the registry, before there is anything to read."""
        return (family.collected({}) for family in FAMILIES)

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        return (family.collected(family.read()) for family in FAMILIES)


class Written:
    """Writes this process's part of the metrics where PROMETHEUS_MULTIPROC_DIR says."""

    def __init__(self) -> None:
        # No process is forked in the middle of it, or the child would find locks that nobody gives back.
        self.lock = threading.Lock()
        self._metrics: dict[str, Counter | Gauge] = {}
        self._of: Outcomes | None = None
        self._written: dict[tuple[str, Sequence[str]], float] = {}
        self._reported = OnceAMinute()

    def end(self) -> None:
        """This process ends: nothing of it is in flight then, and its store is not away."""
        self.write()  # what would be written later for the first time would stay
        mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]  # prometheus_client types it not yet

    def write(self) -> None:
        """What has changed since the last time. Nothing for a process that never decides, such as a command."""
        if not stores.outcomes.decisions and not stores.health.openings:
            return
        with self.lock:
            if self._of is not stores.outcomes:
                # Forked, or built anew: all counts have begun at zero.
                self._of, self._written = stores.outcomes, {}
            try:
                for family in FAMILIES:
                    self._write(family)
            except OSError as error:
                if self._reported.is_due():
                    logger.error("Metrics cannot be written into PROMETHEUS_MULTIPROC_DIR (%s).", error)  # noqa: TRY400

    def _write(self, family: Family) -> None:
        metric = self._metrics.get(family.name) or self._metrics.setdefault(family.name, _made(family))
        for labels, value in family.read().items():
            before = self._written.get((family.name, labels))
            if value == before:
                continue
            one = metric.labels(*labels) if labels else metric
            if isinstance(one, Gauge):
                one.set(value)
            else:
                one.inc(value - (before or 0))
            self._written[family.name, labels] = value


def _made(family: Family) -> Counter | Gauge:
    if family.together:
        return Gauge(family.name, family.help, family.labels, registry=None, multiprocess_mode=family.together)
    return Counter(family.name, family.help, family.labels, registry=None)


_is_connected = False


def connect() -> None:
    """Be there for whoever scrapes, from now on. The app calls it when it is ready; a second time changes nothing."""
    global _is_connected  # noqa: PLW0603 - the registry and the hooks are the process's, too
    if _is_connected:
        return
    _is_connected = True
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        REGISTRY.register(ThisProcess())
        return
    written = Written()
    keeper.at_each_tick.append(written.write)
    lock = written.lock
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    atexit.register(written.end)
