"""The servers that the tests talk to: a Valkey of their own, or those that the environment names.

`start_valkey` gives a URL and what stops the server, which also ends with this process, however that ends.
`require_service("postgres")` skips the test where that service is missing, or fails it when CI=true.
"""

import os
import socket
from urllib.parse import urlsplit

import pytest
import redis

from project.valkey import start_valkey

__all__ = ["EMBEDDED_VARIABLE", "answers", "is_embedded", "require_service", "start_valkey"]

# Service -> the variable that names it. Valkey is always there; "redis" means the server that REDIS_URL named.
SERVICES = {"postgres": "DATABASE_URL", "redis": "REDIS_URL", "rabbitmq": "BROKER_URL"}
DEFAULT_PORTS = {"postgres": 5432, "redis": 6379, "rabbitmq": 5672}
EMBEDDED_VARIABLE = "EMBEDDED_VALKEY_URL"


def is_embedded() -> bool:
    """Whether REDIS_URL is our own Valkey, not a server that the environment named."""
    return os.environ.get("REDIS_URL") == os.environ.get(EMBEDDED_VARIABLE)


def answers(url: str) -> bool:
    """Whether a Redis or Valkey answers at the URL."""
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
            return client.ping()
    except redis.RedisError:
        return False


def require_service(name: str) -> None:
    """Go on where the service is named and listening; else skip the test with the reason, or fail it when CI=true."""
    reason = missing_reason(name)
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def missing_reason(name: str) -> str:
    """Why the service cannot be used; empty when it can."""
    variable = SERVICES[name]
    url = os.environ.get(variable)
    if not url or (name == "redis" and is_embedded()):
        return f"needs {name}: set {variable}, or run make test-services"
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or DEFAULT_PORTS[name])
    try:
        socket.create_connection(address, timeout=2).close()
    except OSError as error:
        return f"needs {name}: nothing listens at {address[0]}:{address[1]} ({error})"
    return ""
