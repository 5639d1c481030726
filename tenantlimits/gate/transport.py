"""The connections to the store, as the alias in CACHES and the settings describe them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.cache import InvalidCacheBackendError
from django.core.exceptions import ImproperlyConfigured
from redis.connection import parse_url

from tenantlimits.conf import conf
from tenantlimits.engine.base import Transport
from tenantlimits.engine.breaker import Watch
from tenantlimits.engine.cluster import Address, ClusterConnections
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.dialling import Dial, UnknownConnections
from tenantlimits.engine.keys import probe_key
from tenantlimits.engine.plain import PlainConnections
from tenantlimits.engine.resp import bulk, command


def transport(watch: Watch) -> Transport:
    """Connections to the server or the cluster of the settings; ImproperlyConfigured where they name none."""
    dial, prefix = _dial(), conf.KEY_PREFIX
    if conf.CLUSTER:
        return ClusterConnections(dial, _start_nodes(), probe=lambda shard: _probe(prefix, shard), watch=watch)
    if conf.HELD_CONNECTIONS:
        return Connections(dial, recover=lambda one: one.ask_once(_probe(prefix, 0)), watch=watch)
    return PlainConnections(dial, recover=lambda one: one.ask_once(_probe(prefix, 0)), watch=watch)


def _probe(prefix: str, shard: int) -> bytes:
    """A write, which a server that is read-only or full answers with an error."""
    return command([bulk(part) for part in ("SET", probe_key(prefix, shard), 1, "PX", 1000)])


def _dial() -> Dial:
    from django_redis import get_redis_connection  # noqa: PLC0415 - a memory store needs no Redis installed

    try:
        return Dial(
            get_redis_connection(conf.CACHE_ALIAS).connection_pool,
            connect_seconds=conf.CONNECT_TIMEOUT_SECONDS,
            answer_seconds=conf.STORE_TIMEOUT_SECONDS,
        )
    except (NotImplementedError, InvalidCacheBackendError) as error:
        raise ImproperlyConfigured(
            f"CACHES[{conf.CACHE_ALIAS!r}] is not a django-redis cache: set its BACKEND to "
            "'django_redis.cache.RedisCache', or name another alias in TENANTLIMITS['CACHE_ALIAS']."
        ) from error
    except (UnknownConnections, ImproperlyConfigured, ValueError) as error:
        raise ImproperlyConfigured(f"CACHES[{conf.CACHE_ALIAS!r}]: {error}") from error


def _start_nodes() -> list[Address]:
    """Where to ask for the nodes of the cluster: all that the alias's LOCATION names."""
    location: Any = settings.CACHES[conf.CACHE_ALIAS]["LOCATION"]  # a text or a list of texts
    urls: list[str] = location.split(",") if isinstance(location, str) else list(location)
    found = [dict(parse_url(url)) for url in urls]  # type: ignore[no-untyped-call]  # redis-py has no types for it
    for options in found:
        if options.get("path") or options.get("db"):
            raise ImproperlyConfigured(
                f"CACHES[{conf.CACHE_ALIAS!r}] names a Unix socket or another database than 0: the nodes of a cluster "
                "have a host, a port and database 0."
            )
    return [(options.get("host", "localhost"), options.get("port", 6379)) for options in found]
