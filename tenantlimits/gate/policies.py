"""Policies in memory: no decision waits for the database unless something changed.

The script compares stamps, so a policy that is out of date is never decided by. A saved change moves the stamp when
it is committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import redis
from django.core.signals import setting_changed
from django.db import connections, router, transaction

from tenantlimits.conf import conf
from tenantlimits.engine.base import Begun, Move
from tenantlimits.engine.keys import Identity, shard_of
from tenantlimits.gate.reporting import OnceAMinute
from tenantlimits.gate.store import stores
from tenantlimits.models import Tenant
from tenantlimits.policy.loading import Policy, load
from tenantlimits.signals import policy_changed

logger = logging.getLogger(__name__)

MOST_POLICIES = 10_000
"""Policies kept by a process; those of the tenants that were idle longest are read anew when they come back."""


Owner = str | int
"""Whose policy: a tenant, by its key, or the anonymous tenant of a shard, whose stamps are its own."""


def _owner(identity: Identity) -> Owner:
    return identity.tenant or shard_of(identity)


class _Policies:
    """The policies of the tenants seen last, with when they were read (seconds, monotonic)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Owner, tuple[Policy, float]] = OrderedDict()

    def get(self, identity: Identity) -> Policy | None:
        """The policy kept for the caller's tenant, unless it is older than POLICY_BACKSTOP_SECONDS.

        None also where this transaction has changed policies: it sees its own changes, and nobody else does.
        """
        if sees_uncommitted_changes():
            return None
        owner = _owner(identity)
        kept = self._kept.get(owner)
        if kept is None or kept[0].stamps is None or self._is_old(kept[1]):
            return None
        if len(self._kept) > MOST_POLICIES // 2:
            # Only then does it matter who came last.
            self._used(owner)
        return kept[0]

    def _used(self, owner: Owner) -> None:
        with self._lock, suppress(KeyError):
            self._kept.move_to_end(owner)

    def latest(self, identity: Identity, now_us: float) -> Policy | None:
        """The policy kept for the tenant while its overrides hold: for when there is no store to say that it is stale.

        None where it is older than POLICY_BACKSTOP_SECONDS: a change made meanwhile is in force after that.
        """
        with self._lock:
            kept = self._kept.get(_owner(identity))
        if kept is None or self._is_old(kept[1]):
            return None
        return kept[0] if kept[0].valid_from_us <= now_us < kept[0].valid_until_us else None

    def _is_old(self, read_at: float) -> bool:
        return time.monotonic() - read_at > conf.POLICY_BACKSTOP_SECONDS

    def keep(self, identity: Identity, policy: Policy) -> None:
        """Decide by this policy until it is stale."""
        owner = _owner(identity)
        with self._lock:
            self._kept[owner] = (policy, time.monotonic())
            self._kept.move_to_end(owner)
            if len(self._kept) > MOST_POLICIES:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Read every policy anew."""
        with self._lock:
            self._kept.clear()


policies = _Policies()


def load_and_keep(
    identity: Identity, begun: Begun | None, now_us: float, first_tier: Callable[[], str | None]
) -> Policy:
    """Read the policy of the caller's tenant for an instant.

    `begun` None: the store is away, and no decision of it may go by this policy.
    """
    stamps = begun.stamps if begun else None
    policy = load(identity.tenant, stamps=stamps, now_us=now_us, tier_at_first_sight=first_tier)
    if not policy.tier:
        _report_missing_tier(identity.tenant)
    if not sees_uncommitted_changes():
        policies.keep(identity, policy)
    return policy


@dataclass(frozen=True, slots=True)
class Load:
    """Read a policy from the database."""

    identity: Identity
    begun: Begun | None
    now_us: float
    first_tier: Callable[[], str | None]

    def __call__(self) -> Policy:
        return load_and_keep(self.identity, self.begun, self.now_us, self.first_tier)


_reported = OnceAMinute()


def _report_missing_tier(tenant: str) -> None:
    """Once a minute, for nothing is limited meanwhile."""
    if _reported.is_due():
        logger.error(
            "Tier %r has no row, so its tenants are counted but not limited: make it in the admin, under Tiers.",
            conf.DEFAULT_TIER if tenant else conf.ANONYMOUS_TIER,
        )


class _MoveStamps:
    """Moves the stamps of changed policies, when the change is committed."""

    def __init__(self, tenants: frozenset[str] | None) -> None:
        self.tenants = tenants

    def __call__(self) -> None:
        stores.refusals.forget()
        try:
            stores.engine.run(Move(self.tenants))
        except redis.RedisError as error:
            failed_moves.note()
            logger.warning(
                "The store cannot be told of a changed policy (%s): it is in force after at most %s s.",
                error, conf.POLICY_BACKSTOP_SECONDS,
            )  # fmt: skip


class _FailedMoves(threading.local):
    """Whether the store could not be told of a change that this thread made, for the admin to say so."""

    count = 0

    def note(self) -> None:
        """Remember a change that the store does not know of."""
        self.count += 1


failed_moves = _FailedMoves()


def sees_uncommitted_changes() -> bool:
    """Whether this transaction has changed policies itself; what it reads may yet be rolled back."""
    if not _changes.may_be_uncommitted:
        return False
    connection = connections[router.db_for_write(Tenant)]
    found = any(isinstance(hook[1], _MoveStamps) for hook in connection.run_on_commit)
    # Where nothing is open, nothing is left of what this thread has changed.
    _changes.may_be_uncommitted = found or connection.in_atomic_block
    return found


class _Changes(threading.local):
    """Whether this thread may be in a transaction that has changed policies: one look at each request, not ten."""

    may_be_uncommitted = False


_changes = _Changes()


def _when_committed(*, tenants: frozenset[str] | None, using: str, **kwargs: object) -> None:
    _changes.may_be_uncommitted = True
    transaction.on_commit(_MoveStamps(tenants), using=using)


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting == "TENANTLIMITS":
        policies.forget()


def connect() -> None:
    """Hear of changes of rows and settings."""
    policy_changed.connect(_when_committed, dispatch_uid="tenantlimits.gate.policies")
    setting_changed.connect(_forget, dispatch_uid="tenantlimits.gate.policies")
