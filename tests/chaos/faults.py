"""What may happen to a store, and what is promised for it. docs/faults.md has the same rows for readers."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos import troubles
from tests.chaos.fleet import LIMIT
from tests.chaos.proxy import Habit
from tests.chaos.troubles import Trouble, configured, proxy_that

UNBOUNDED = 10
"""So often no flood here uses up a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and for how many seconds. `around` is what it needs to stand on, which the flood does not see.

    `degrades`: lanes do what they declare meanwhile. `forgets`: so often everybody begins anew. So many reads of acme's
    are used up `beside` the flood.
    """

    name: str
    promised: str
    trouble: Trouble
    around: Trouble = troubles.none
    seconds: float = 1.0
    degrades: bool = True
    forgets: int = 0
    beside: int = 0


BY_LANE = "each lane does what it declares; "

FAULTS = (
    Fault(name="killed", promised=BY_LANE + "nothing is forgotten", trouble=troubles.killed),
    Fault(name="stopped", promised=BY_LANE + "nothing is forgotten", trouble=troubles.stopped),
    Fault(
        name="restarted with its data",
        promised=BY_LANE + "limits go on where the snapshot was",
        trouble=troubles.restarted_from_a_snapshot,
        around=troubles.logging_again,
    ),
    Fault(
        name="restarted empty",
        promised=BY_LANE + "everybody begins anew, once",
        trouble=troubles.restarted_empty,
        forgets=1,
    ),
    Fault(
        name="failed over, promoted",
        promised=BY_LANE + "connections to the replica are dropped",
        trouble=troubles.failed_over,
        around=troubles.with_a_replica,
    ),
    Fault(
        name="FLUSHALL",
        promised="everybody begins anew, once; held slots come back",
        trouble=troubles.flushed,
        degrades=False,
        forgets=1,
    ),
    Fault(
        name="cache.clear()",
        promised="everybody begins anew, once; held slots come back",
        trouble=troubles.cleared,
        degrades=False,
        forgets=1,
    ),
    Fault(
        name="SCRIPT FLUSH",
        promised="nobody notices, and each request is counted once",
        trouble=troubles.scripts_flushed,
        seconds=0,
        degrades=False,
    ),
    Fault(
        name="takes no writes",
        promised=BY_LANE + "nothing is half done",
        trouble=configured(**{"min-replicas-to-write": (1, 0)}),
    ),
    Fault(name="memory is full", promised=BY_LANE + "nothing is half done", trouble=configured(maxmemory=(1, 0))),
    Fault(
        name="memory is full, keys go",
        promised="all are served; whose key goes begins anew",
        trouble=troubles.crowded,
        degrades=False,
        forgets=UNBOUNDED,
    ),
    Fault(name="somebody's slow script", promised=BY_LANE + "nothing is forgotten", trouble=troubles.busy, seconds=1.5),
    Fault(
        name="half-open connections",
        promised=BY_LANE + "nobody waits for them twice",
        trouble=proxy_that(Habit.SWALLOW),
        around=troubles.behind_a_proxy,
    ),
    Fault(
        name="replies are lost",
        promised=BY_LANE + "what was charged is charged once",
        trouble=proxy_that(Habit.LOSE),
        around=troubles.behind_a_proxy,
    ),
    Fault(
        name="replies break off",
        promised=BY_LANE + "what was charged is charged once",
        trouble=proxy_that(Habit.RESET),
        around=troubles.behind_a_proxy,
    ),
    Fault(
        name="wrong types",
        promised="they are replaced: that tenant begins anew",
        trouble=troubles.mistyped,
        degrades=False,
        forgets=1,
    ),
    Fault(
        name="its clock steps back",
        promised="what was used counts, and nothing freezes",
        trouble=troubles.none,
        around=troubles.used_in_the_future,
        degrades=False,
        beside=LIMIT // 2,
    ),
    Fault(
        name="no more connections",
        promised=BY_LANE + "nothing is forgotten",
        trouble=configured(cuts_off=True, maxclients=(1, 10_000)),
    ),
    Fault(
        name="another password",
        promised=BY_LANE + "nothing is forgotten",
        trouble=configured(cuts_off=True, requirepass=("other", "")),
    ),
)
