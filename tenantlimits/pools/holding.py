"""`slot` and `aslot`: one slot of a pool for as long as a block runs."""

from __future__ import annotations

from contextvars import Token
from types import TracebackType

from tenantlimits.domain.errors import SlotRefused, TenantLimitsError
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.lookup import policy_in_force
from tenantlimits.gate.steps import Steps, adrive, drive
from tenantlimits.gate.store import stores
from tenantlimits.pools.fleet import FleetSlot
from tenantlimits.pools.registry import AnySlot, pools
from tenantlimits.pools.wanted import Wanted
from tenantlimits.tenancy import Scope, checked, current_scope, enter, leave

WAIT_SECONDS = 10.0


class slot:  # noqa: N801 - reads as the noun that it is: with slot("reports-db"):
    """One slot of a pool until the block ends, for the tenant of the work under way, or the `tenant` that is named.

    It waits at most `wait` seconds; 0 does not wait. A block inside another one of the same pool and tenant, or inside
    an operation whose lane has that pool, runs in the slot that is held already. Errors: SlotRefused, QueueFull,
    QueueTimeout, UnknownPool, InvalidTenant, ValueError for a negative wait.
    """

    def __init__(self, pool: str, *, tenant: str | None = None, wait: float = WAIT_SECONDS) -> None:
        if not wait >= 0:
            raise ValueError(f"slot({pool!r}, wait={wait!r}): wait at least 0 seconds; 0 does not wait.")
        self._pool, self._tenant, self._wait = pool, tenant, wait
        self._slot: AnySlot | None = None
        self._token: Token[Scope | None] | None = None

    def take(self) -> AnySlot | None:
        """The slot, to be given back by its `release`; None inside a block or operation that has one."""
        return drive(self._taking(), stores.engine)

    def __enter__(self) -> AnySlot | None:
        return self._begin(drive(self._taking(), stores.engine))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if self._slot is not None:
            self._slot.release()

    def _taking(self) -> Steps[AnySlot | None]:
        scope = self._scope()
        assert scope.identity is not None, "a scope without a caller has been refused"
        pool = pools.of(self._pool)
        if self._pool in scope.pools:
            return None
        policy = yield from policy_in_force(scope.identity, lambda: None)
        share = policy.share_of(self._pool)
        answer: AnySlot | SlotRefused = yield Wanted(pool, scope.identity.tenant, share, self._wait)
        if isinstance(answer, SlotRefused):
            raise answer
        return answer

    def _begin(self, taken: AnySlot | None) -> AnySlot | None:
        self._slot = taken
        if taken is not None:
            scope = self._scope()
            self._token = enter(Scope(scope.identity, scope.admission, scope.pools | {self._pool}))
        return taken

    def _leave(self) -> None:
        if self._token is not None:
            leave(self._token)

    def _scope(self) -> Scope:
        """The work under way; anew where it is another tenant's."""
        scope = current_scope()
        if self._tenant is not None and (scope is None or not scope.identity or scope.identity.tenant != self._tenant):
            return Scope(Identity(tenant=checked(self._tenant, "The caller")))
        if scope is None or scope.identity is None:
            raise TenantLimitsError(
                f"Nobody asks for a slot of {self._pool}: outside a request pass tenant=..., or work inside "
                "tenant_context(...)."
            )
        return scope


class aslot(slot):  # noqa: N801 - as slot
    """`slot` from an event loop: async with aslot("reports-db")."""

    async def __aenter__(self) -> AnySlot | None:
        return self._begin(await adrive(self._taking(), stores.engine))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if isinstance(self._slot, FleetSlot):
            await self._slot.arelease()
        elif self._slot is not None:
            self._slot.release()
