"""Who is asking: tenant, user and credential of a request, carried to whatever is done for it.

The tenant comes from the host's resolver, which sees what the caller cannot forge. `current_tenant()` answers it in
views, in code they call, in threads and tasks of the same context, and every log record has it as `record.tenant`.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from tenantlimits.conf import conf
from tenantlimits.domain.errors import InvalidTenant
from tenantlimits.engine.keys import Identity

MAX_TENANT_LENGTH = 255
IPV6_PREFIX = 64
"""A caller with one IPv6 address has its whole /64, so that is what counts as one address."""


@dataclass(slots=True)
class Scope:
    """What is known of the work under way. It is filled in while the work goes on, for all who share the context.

    `identity` is None until the caller is known; `admission` is what the gate admitted the work by; `pools` are those
    in which the work has a slot already.
    """

    identity: Identity | None = None
    admission: object = None
    pools: frozenset[str] = frozenset()


_scope: ContextVar[Scope | None] = ContextVar("tenantlimits_scope", default=None)


def current_scope() -> Scope | None:
    """The scope of the work under way."""
    return _scope.get()


def enter(scope: Scope) -> Token[Scope | None]:
    """Begin work; `leave` with the token in the same context."""
    return _scope.set(scope)


def leave(token: Token[Scope | None]) -> None:
    """End work."""
    _scope.reset(token)


def current_tenant() -> str | None:
    """The key of the tenant that the work under way is for; None where there is none or it is anonymous."""
    scope = _scope.get()
    return (scope.identity.tenant or None) if scope and scope.identity else None


@contextmanager
def tenant_context(tenant: str) -> Iterator[None]:
    """Work for a tenant outside its requests: a script, a job, staff on its behalf."""
    token = enter(Scope(Identity(tenant=checked(tenant, "tenant_context"))))
    try:
        yield
    finally:
        leave(token)


def identify(request: HttpRequest) -> Identity:
    """Who sends the request. InvalidTenant where the host's resolver answers what cannot be a tenant's key."""
    tenant = conf.TENANT_RESOLVER(request)
    if tenant is None:
        return Identity(tenant="", user=address(request))
    return Identity(
        tenant=checked(tenant, "TENANT_RESOLVER"),
        user=_user(request),
        credential=_text(conf.CREDENTIAL_RESOLVER(request) if conf.CREDENTIAL_RESOLVER else None),
    )


def checked(tenant: object, source: str) -> str:
    """The tenant's key; InvalidTenant where it is none."""
    if not isinstance(tenant, str):
        raise InvalidTenant(
            f"{source} answered a {type(tenant).__name__}: a tenant's key is a text, such as str(organisation.pk), or "
            "None for an anonymous caller."
        )
    if not 1 <= len(tenant) <= MAX_TENANT_LENGTH:
        raise InvalidTenant(
            f"{source} answered a key of {len(tenant):,} characters: a tenant's key has 1 to {MAX_TENANT_LENGTH}; "
            "None is an anonymous caller."
        )
    if "\x00" in tenant or not _encodes(tenant):
        raise InvalidTenant(f"{source} answered {tenant!r}, which no database can keep: leave out NUL and surrogates.")
    return tenant


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _user(request: HttpRequest) -> str | None:
    if conf.USER_RESOLVER:
        return _text(conf.USER_RESOLVER(request))
    user = getattr(request, "user", None)
    return str(user.pk) if user is not None and user.is_authenticated else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def address(request: HttpRequest) -> str:
    """The caller's network address: what the last trusted proxy saw, never what the caller says it is.

    IPv6 counts by its /64, and an IPv4 address written as IPv6 is the IPv4 address.
    """
    seen: str = request.META.get("REMOTE_ADDR", "")
    if conf.TRUSTED_PROXIES:
        forwarded = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
        seen = forwarded[-conf.TRUSTED_PROXIES] if len(forwarded) >= conf.TRUSTED_PROXIES else seen
    try:
        ip = ipaddress.ip_address(_without_port(seen))
    except ValueError:
        return seen[:MAX_TENANT_LENGTH]
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return str(ip.ipv4_mapped)
        return str(ipaddress.IPv6Network((ip, IPV6_PREFIX), strict=False))
    return str(ip)


def _without_port(seen: str) -> str:
    """Some proxies write a port, which is another one for each connection: 192.0.2.1:4711, [2001:db8::1]:4711."""
    if seen.startswith("["):
        return seen[1:].partition("]")[0]
    return seen.partition(":")[0] if seen.count(":") == 1 else seen


class _TenantAtCreation:
    """`record.tenant`: whom the work was for when the record was made, unless the record brings one of its own."""

    def __get__(self, record: logging.LogRecord | None, owner: type | None = None) -> str:
        return getattr(record, "_tenant", "")


class TenantRecord(logging.LogRecord):
    """A log record that knows its tenant, though `extra` may name another."""

    tenant = _TenantAtCreation()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: the arguments of LogRecord, handed on
        super().__init__(*args, **kwargs)
        self._tenant = current_tenant() or ""


def tag_log_records() -> None:
    """Give every log record the attribute `tenant`: the current tenant's key, or an empty text.

    A host that makes its log records by a factory of its own keeps it; `TenantRecord` is there to build on.
    """
    if logging.getLogRecordFactory() is logging.LogRecord:
        logging.setLogRecordFactory(TenantRecord)
