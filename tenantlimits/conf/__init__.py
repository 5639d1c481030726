"""The settings: one dict, TENANTLIMITS, read when used.

`conf.LEASE_SECONDS` is the value, checked and in its own type, or ImproperlyConfigured with what to write instead.
A value is parsed once, and kept until the dict is another one or Django says that a setting changed.
"""
# ruff: noqa: N802 - a property is named as its setting

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from tenantlimits.conf import parsing, threads
from tenantlimits.conf.parsing import Function, HeaderStyle, Responses, Store, suggestion, zone_named
from tenantlimits.domain.errors import UnknownLane, UnknownPool
from tenantlimits.domain.lanes import Lane
from tenantlimits.domain.pools import PoolSpec

__all__ = ["NAME", "SETTINGS", "Function", "HeaderStyle", "Responses", "Store", "conf", "suggestion", "zone_named"]

NAME = "TENANTLIMITS"

T = TypeVar("T")

_OPTIONAL_FUNCTION = parsing.optional(parsing.function)
_OPTIONAL_WORD = parsing.optional(parsing.word)
_STORE = parsing.choice(Store)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The dict that the settings had, and the values parsed from it."""

    raw: object = None
    values: dict[str, Any] = field(default_factory=dict)  # Any: each in the type of its own property


class Conf:
    """One property per setting."""

    def __init__(self) -> None:
        self._kept = _Kept()

    @property
    def TENANT_RESOLVER(self) -> Function:
        """HttpRequest -> tenant key or None. Required."""
        return self._required("TENANT_RESOLVER", parsing.function)

    @property
    def DEFAULT_TIER(self) -> str:
        """Slug of the tier of tenants that have none of their own. Required."""
        return self._required("DEFAULT_TIER", parsing.word)

    @property
    def TIER_RESOLVER(self) -> Function | None:
        """HttpRequest -> slug of the tier in which a tenant that is seen for the first time begins, or None."""
        return self._get("TIER_RESOLVER", _OPTIONAL_FUNCTION)

    @property
    def USER_RESOLVER(self) -> Function | None:
        """HttpRequest -> id of the user, for limits of layer user, or None."""
        return self._get("USER_RESOLVER", _OPTIONAL_FUNCTION)

    @property
    def CREDENTIAL_RESOLVER(self) -> Function | None:
        """HttpRequest -> id of the credential, for limits of layer credential, or None."""
        return self._get("CREDENTIAL_RESOLVER", _OPTIONAL_FUNCTION)

    @property
    def EXEMPT(self) -> Function | None:
        """HttpRequest -> whether it is never limited."""
        return self._get("EXEMPT", _OPTIONAL_FUNCTION)

    @property
    def ANONYMOUS_TIER(self) -> str | None:
        """Slug of the tier of callers without a tenant; None refuses them."""
        return self._get("ANONYMOUS_TIER", _OPTIONAL_WORD, "anonymous")

    @property
    def TRUSTED_PROXIES(self) -> int:
        """How many of the last entries of X-Forwarded-For our own proxies wrote."""
        return self._get("TRUSTED_PROXIES", parsing.whole(0, 20), 0)

    @property
    def CACHE_ALIAS(self) -> str:
        """The alias in CACHES whose Redis keeps the state."""
        return self._get("CACHE_ALIAS", parsing.word, "default")

    @property
    def CLUSTER(self) -> bool:
        """Whether the alias's LOCATION names nodes of a Redis Cluster."""
        return self._get("CLUSTER", parsing.flag, False)

    @property
    def HELD_CONNECTIONS(self) -> bool:
        """Whether we hold connections of our own; else each call goes through redis-py's pool and parser."""
        return self._get("HELD_CONNECTIONS", parsing.flag, True)

    @property
    def STORE(self) -> Store:
        """Where state lives."""
        return self._get("STORE", _STORE, Store.REDIS)

    @property
    def KEY_PREFIX(self) -> str:
        """What every key in Redis begins with."""
        return self._get("KEY_PREFIX", parsing.prefix, "tl")

    @property
    def LANES(self) -> dict[str, Lane]:
        """Every lane that an operation may be in, DEFAULT_LANE always among them. `all` is none of them."""
        return self._get("LANES", self._lanes, {})

    @property
    def DEFAULT_LANE(self) -> str:
        """The lane of views that name none."""
        return self._get("DEFAULT_LANE", parsing.lane_name, "default")

    @property
    def POOLS(self) -> dict[str, PoolSpec]:
        """Every pool of which tenants have shares."""
        return self._get("POOLS", self._pools, {})

    @property
    def CONNECT_TIMEOUT_SECONDS(self) -> float:
        """The longest that connecting to the store may take."""
        return self._get("CONNECT_TIMEOUT_SECONDS", parsing.seconds(0.001, 60), 0.25)

    @property
    def STORE_TIMEOUT_SECONDS(self) -> float:
        """The longest that the store may take to answer."""
        return self._get("STORE_TIMEOUT_SECONDS", parsing.seconds(0.001, 60), 0.1)

    @property
    def LEASE_SECONDS(self) -> float:
        """How long a slot stays taken after its holder's last sign of life."""
        return self._get("LEASE_SECONDS", parsing.seconds(1, 3600), 15)

    @property
    def POLICY_BACKSTOP_SECONDS(self) -> float:
        """After how long a policy is read again though nobody said that it changed."""
        return self._get("POLICY_BACKSTOP_SECONDS", parsing.seconds(1, 86_400), 60)

    @property
    def REFUSAL_CACHE_SECONDS(self) -> float:
        """How long a refusal may be repeated from memory at the longest; 0 asks the store each time."""
        return self._get("REFUSAL_CACHE_SECONDS", parsing.seconds(0, 5), 0.25)

    @property
    def RESPONSES(self) -> Responses:
        """How refusals are worded."""
        return self._get("RESPONSES", parsing.responses, {})

    @property
    def TIME_ZONE(self) -> ZoneInfo:
        """The zone of tenants that have none of their own: Django's TIME_ZONE unless set."""
        return self._get("TIME_ZONE", parsing.zone)

    @property
    def MAX_OVERRIDE_DAYS(self) -> int:
        """How many days from now an override may end at the latest."""
        return self._get("MAX_OVERRIDE_DAYS", parsing.whole(1, 3660), 90)

    def lane(self, name: str) -> Lane:
        """The lane of that name, or UnknownLane with those there are."""
        try:
            return self.LANES[name]
        except KeyError:
            known = self.LANES
            raise UnknownLane(
                f"Lane {name!r} is not in {NAME}['LANES']: known are {', '.join(known)}.{suggestion(name, known)}"
            ) from None

    def pool(self, name: str) -> PoolSpec:
        """The pool of that name, or UnknownPool with those there are."""
        known = self.POOLS
        if name not in known:
            there = f"known are {', '.join(known)}" if known else "there are none"
            raise UnknownPool(f"Pool {name!r} is not in {NAME}['POOLS']: {there}.{suggestion(name, known)}")
        return known[name]

    def refuse_unknown_names(self) -> None:
        """ImproperlyConfigured where TENANTLIMITS is no dict, or has a key that is no setting."""
        for name in self._raw():
            if name not in SETTINGS:
                raise ImproperlyConfigured(
                    f"{NAME}[{name!r}] is not a setting: take it out.{suggestion(name, SETTINGS)} "
                    f"There are {', '.join(SETTINGS)}."
                )

    def validate(self) -> None:
        """ImproperlyConfigured for the first thing that is wrong; for servers, which run no system checks."""
        threads.refuse_missing()
        self.refuse_unknown_names()
        for name in SETTINGS:
            getattr(self, name)

    def forget(self) -> None:
        """Parse every value anew."""
        self._kept = _Kept()

    def _lanes(self, raw: object) -> dict[str, Lane]:
        return {self.DEFAULT_LANE: Lane(name=self.DEFAULT_LANE)} | parsing.lanes(raw, self.POOLS)

    def _pools(self, raw: object) -> dict[str, PoolSpec]:
        return parsing.pools(raw, self.LEASE_SECONDS)

    def _raw(self) -> Mapping[str, object]:
        raw = getattr(settings, NAME, {})
        if not isinstance(raw, Mapping):
            raise ImproperlyConfigured(f"{NAME} is a {type(raw).__name__}: write a dict of settings.")
        return raw

    def _get(self, name: str, parse: Callable[[object], T], default: object = None) -> T:
        raw = getattr(settings, NAME, None)
        kept = self._kept
        # A dict that was replaced without Django's signal is noticed by its identity; a dict changed in place is not.
        if kept.raw is not raw:
            kept = self._kept = _Kept(raw)
        if name not in kept.values:
            kept.values[name] = self._parsed(name, parse, default)
        value: T = kept.values[name]
        return value

    def _required(self, name: str, parse: Callable[[object], T]) -> T:
        return self._get(name, parse, _MISSING)

    def _parsed(self, name: str, parse: Callable[[object], T], default: object) -> T:
        raw = self._raw().get(name, default)
        if raw is _MISSING:
            raise ImproperlyConfigured(f"{NAME}[{name!r}] is missing. {_EXAMPLES[name]}")
        try:
            return parse(raw)
        except ValueError as error:
            # A dict's own error names the key; the rest of the dict would only bury it.
            shown = "" if isinstance(raw, Mapping) else f" is {raw!r}"
            raise ImproperlyConfigured(f"{NAME}[{name!r}]{shown}: {error}") from error


_MISSING = object()
_EXAMPLES = {
    "TENANT_RESOLVER": "Write the dotted path of a function that takes a request and answers the key of its tenant.",
    "DEFAULT_TIER": "Write the slug of the tier that a tenant begins in, such as 'free'.",
}

SETTINGS = tuple(name for name in vars(Conf) if name.isupper())
"""The names of all settings, in the order of their properties."""

conf = Conf()


def _forget(**_kwargs: object) -> None:
    conf.forget()


setting_changed.connect(_forget, dispatch_uid="tenantlimits.conf")
