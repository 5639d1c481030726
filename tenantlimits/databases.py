"""Bulkheads for databases: while a tenant's query or transaction runs on an alias, it has a slot of a pool.

    limit_database("reports", pool="reports-db")     # in the ready() of an app

So no tenant has more than its share of that database's connections at work, and a flood of slow queries waits in its
own line. Work that is nobody's (commands, the admin) takes no slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from tenantlimits.conf import conf, suggestion
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.pools import slot
from tenantlimits.pools.holding import WAIT_SECONDS
from tenantlimits.pools.registry import AnySlot
from tenantlimits.tenancy import current_scope

Execute = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Limit:
    """The pool of an alias, and for how long a query waits for a slot of it (seconds)."""

    pool: str
    wait: float


_limits: dict[str, _Limit] = {}


def limit_database(alias: str, *, pool: str, wait: float = WAIT_SECONDS) -> None:
    """Have every query on an alias take a slot of the pool, and every transaction one for all of its queries.

    A query that waited `wait` seconds raises QueueTimeout. Errors: UnknownPool, TenantLimitsError for an alias that is
    not in DATABASES.
    """
    conf.pool(pool)
    if alias not in settings.DATABASES:
        known = ", ".join(settings.DATABASES)
        raise TenantLimitsError(
            f"Database {alias!r} is not in DATABASES: there are {known}.{suggestion(alias, settings.DATABASES)}"
        )
    _limits[alias] = _Limit(pool, wait)
    connection_created.connect(_limit, dispatch_uid="tenantlimits.databases")
    _limit(connection=connections[alias])


def _limit(*, connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    """Watch a connection, once; each thread has connections of its own."""
    if connection.alias in _limits and not any(isinstance(one, _Bulkhead) for one in connection.execute_wrappers):
        connection.execute_wrappers.append(_Bulkhead(connection))


class _Bulkhead:
    """Takes a slot around each query of one connection; in a transaction around all of them."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._of_transaction: AnySlot | None = None
        self._is_taking = False
        # Django tells nobody when a transaction ends: it goes back to autocommit, or its connection is closed.
        connection.set_autocommit = self._ending(connection.set_autocommit, lambda: not connection.in_atomic_block)  # type: ignore[method-assign]
        connection.close = self._ending(connection.close, lambda: True)  # type: ignore[method-assign]

    def __call__(self, execute: Execute, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Run the query in a slot."""
        taken = None if self._of_transaction is not None else self._taken()
        if taken is None:
            return execute(sql, params, many, context)
        if self._connection.in_atomic_block:
            self._of_transaction = taken
            return execute(sql, params, many, context)
        try:
            return execute(sql, params, many, context)
        finally:
            taken.release()

    def _taken(self) -> AnySlot | None:
        limit, scope = _limits.get(self._connection.alias), current_scope()
        # What a slot needs to know of the tenant may be asked of this very database.
        if limit is None or self._is_taking or scope is None or scope.identity is None:
            return None
        self._is_taking = True
        try:
            return slot(limit.pool, wait=limit.wait).take()
        finally:
            self._is_taking = False

    def _ending(self, method: Callable[..., Any], has_ended: Callable[[], bool]) -> Callable[..., Any]:
        """The method, after which the slot of a transaction that has ended is given back."""

        @wraps(method)
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            finally:
                if self._of_transaction is not None and has_ended():
                    self._of_transaction.release()
                    self._of_transaction = None

        return called
