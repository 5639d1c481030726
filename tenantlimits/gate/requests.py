"""One request is admitted once, whichever surfaces it passes: the first that knows tenant and lane asks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.lanes import milli
from tenantlimits.engine.base import LEASE_BYTES
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.admissions import Admission
from tenantlimits.gate.asking import Ask, Outcome
from tenantlimits.gate.console import CONSOLE_LANE, console_plan
from tenantlimits.gate.deciding import admitting
from tenantlimits.gate.door import door
from tenantlimits.gate.steps import adrive, drive
from tenantlimits.gate.store import stores
from tenantlimits.tenancy import Scope, address, identify

_ATTRIBUTE = "_tenantlimits"


@dataclass(slots=True, eq=False)
class Record(Scope):
    """What is known of one request. `decision` is None until it was asked; `exempt` requests never are.

    `lane` is the lane in which it was asked. `at_door` was decided on its address, for its credential is known to fail.
    """

    decision: Decision | None = None
    at_door: Decision | None = None
    lane: str = ""
    exempt: bool = False
    is_console: bool = False
    _held: list[Admission] = field(default_factory=list)

    @property
    def holds_slots(self) -> bool:
        """Whether something has to be given back when the request ends."""
        return bool(self._held)

    def hold(self, admission: Admission) -> None:
        """Give the admission's slots back when the request ends."""
        if admission.holds_slot:
            self._held.append(admission)
            self.pools |= admission.pools

    def close(self) -> None:
        """The response has been sent, or the work has ended without one: give all slots back."""
        while self._held:
            self._held.pop().release()


def open_record(request: HttpRequest) -> Record:
    """Begin a request."""
    record = Record()
    setattr(request, _ATTRIBUTE, record)
    return record


def record_of(request: HttpRequest) -> Record:
    """The record that the middleware opened. Takes DRF's Request, too."""
    record = getattr(request, _ATTRIBUTE, None)
    if record is None:
        raise ImproperlyConfigured(
            "This request did not pass 'tenantlimits.middleware.TenantLimitsMiddleware': add it to MIDDLEWARE, after "
            "AuthenticationMiddleware. Without it nobody would give slots back."
        )
    assert isinstance(record, Record)
    return record


def is_preflight(request: HttpRequest) -> bool:
    """Whether a browser asks if it may ask (Fetch, CORS-preflight request): free, and never refused."""
    return (
        request.method == "OPTIONS"
        and "Origin" in request.headers
        and ("Access-Control-Request-Method" in request.headers)
    )


def is_exempt(request: HttpRequest) -> bool:
    """Whether the request is free, whatever its view: a preflight, or the host's EXEMPT says so."""
    return is_preflight(request) or bool(conf.EXEMPT is not None and conf.EXEMPT(request))


def admit_request(request: HttpRequest, record: Record, *, lane: str, cost: float | None = None) -> Decision:
    """The decision on a request; its slot is kept until the record is closed.

    Who asks in the lane of an earlier decision reads that one. Who asks in another lane adds an operation inside the
    first, which lane `all` does not count again. `cost` is units, the lane's own where it is None. Errors:
    UnknownLane, InvalidCost, InvalidTenant.
    """
    if record.decision is not None and record.lane == lane:
        return record.decision
    identified(request, record)
    ask = _ask(request, record, lane, cost, lease=os.urandom(LEASE_BYTES))
    return _noted(record, ask, drive(admitting(ask), stores.engine))


async def aadmit_request(request: HttpRequest, record: Record, *, lane: str, cost: float | None = None) -> Decision:
    """`admit_request` from an event loop."""
    if record.decision is not None and record.lane == lane:
        return record.decision
    await aidentified(request, record)
    ask = _ask(request, record, lane, cost, lease=os.urandom(LEASE_BYTES))
    return _noted(record, ask, await adrive(admitting(ask), stores.engine))


def admit_console(request: HttpRequest, record: Record) -> Decision:
    """The decision on a page of the admin or of this app: a constant limit for each user, nothing of the tenant's."""
    ask = _console_ask(request, record)
    return _noted(record, ask, drive(admitting(ask), stores.engine))


def ask_at_door(request: HttpRequest, record: Record) -> Decision | None:
    """The refusal of a caller whose credential is known to fail and whose address is spent; None for all others.

    Where the address has room, the caller has paid as the stranger it is, and is let in: it may have become valid.
    """
    if not door.knows(request):
        return None
    ask = _ask_of_stranger(request)
    return _noted_at_door(record, ask, drive(admitting(ask), stores.engine))


async def aask_at_door(request: HttpRequest, record: Record) -> Decision | None:
    """`ask_at_door` from an event loop."""
    if not door.knows(request):
        return None
    ask = _ask_of_stranger(request)
    return _noted_at_door(record, ask, await adrive(admitting(ask), stores.engine))


def charge_afterwards(request: HttpRequest, record: Record) -> Decision:
    """Charge a request that has ended without being asked: to its tenant where it is known, else to its address."""
    identity = identified(request, record)
    if record.at_door is not None and not identity.tenant:
        record.decision, record.lane = record.at_door, conf.DEFAULT_LANE
        return record.at_door
    ask = _ask(request, record, conf.DEFAULT_LANE, None)
    return _noted(record, ask, drive(admitting(ask), stores.engine))


def note_failure(request: HttpRequest, record: Record) -> None:
    """A request that was charged afterwards was denied: where nobody is behind it, remember that its credential fails.

    Only where its address has spent what it may, or had at the last time: until then nobody is refused at the door.
    """
    assert record.identity is not None, "who was charged is identified"
    assert record.decision is not None, "who was charged was asked for"
    was_spent = record.at_door is not None or is_spent(record.decision)
    if was_spent and not record.identity.tenant and not _is_logged_in(request):
        door.remember(request)


def is_spent(decision: Decision) -> bool:
    """Whether it was refused for having been too often; a block says nothing of how often."""
    return decision.refused and not decision.never


def identified(request: HttpRequest, record: Record) -> Identity:
    """Who sends the request, asked of the host's resolvers once."""
    if record.identity is None:
        record.identity = identify(request)
        if record.at_door is not None and record.identity.tenant:
            door.forget(request)
    return record.identity


async def aidentified(request: HttpRequest, record: Record) -> Identity:
    """`identified` from an event loop: in a thread, for the host's resolvers may ask the database."""
    return record.identity or await sync_to_async(identified)(request, record)


def _ask(request: HttpRequest, record: Record, lane: str, cost: float | None, lease: bytes | None = None) -> Ask:
    assert record.identity is not None, "whoever asks is identified first"
    known = conf.lane(lane)
    return Ask(
        identity=record.identity,
        lane=known,
        cost=milli(known.cost if cost is None else cost),
        lease=lease,
        inside=record.decision is not None,
        pools=record.pools,
        first_tier=lambda: conf.TIER_RESOLVER(request) if conf.TIER_RESOLVER else None,
    )


def _ask_of_stranger(request: HttpRequest) -> Ask:
    lane = conf.lane(conf.DEFAULT_LANE)
    return Ask(identity=Identity(tenant="", user=address(request)), lane=lane, cost=milli(lane.cost))


def _console_ask(request: HttpRequest, record: Record) -> Ask:
    record.is_console = True
    who = f"user:{request.user.pk}" if _is_logged_in(request) else f"address:{address(request)}"
    identity = Identity(tenant="", user=f"console:{who}")
    return Ask(identity=identity, lane=CONSOLE_LANE, cost=milli(1), plan=console_plan())


def _is_logged_in(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and bool(user.is_authenticated)


def _noted_at_door(record: Record, ask: Ask, outcome: Outcome) -> Decision | None:
    record.at_door = outcome.decision
    if not is_spent(record.at_door):
        return None
    record.identity, record.decision, record.lane = ask.identity, record.at_door, ask.lane.name
    return record.decision


def _noted(record: Record, ask: Ask, outcome: Outcome) -> Decision:
    """Keep what was decided: the first decision is the request's, and each admission is under way until it ends."""
    decision = outcome.decision
    admission = Admission.of(ask, outcome) if decision.allowed else None
    if record.decision is None or decision.refused:
        record.decision, record.lane = decision, ask.lane.name
    if admission is not None:
        record.admission = record.admission or admission
        record.hold(admission)
    return decision
