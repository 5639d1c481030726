"""Which address a caller has: that of the connection, or what the trusted proxies saw."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory

from tenantlimits.tenancy import address

HOST_WRITES = ("X_REAL_IP", "CF_CONNECTING_IP", "TRUE_CLIENT_IP", "FORWARDED", "X_TENANT_ID")


@pytest.fixture
def behind(settings: Any) -> Any:
    """Sets the number of trusted proxies."""

    def set_proxies(count: int) -> None:
        settings.TENANTLIMITS = {"TENANT_RESOLVER": len, "DEFAULT_TIER": "free", "TRUSTED_PROXIES": count}

    set_proxies(0)
    return set_proxies


def seen(connection: str, forwarded: str = "", **headers: str) -> str:
    """The address of a request over such a connection."""
    headers |= {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}
    return address(RequestFactory().get("/", REMOTE_ADDR=connection, **headers))


def test_without_trusted_proxies_only_the_connection_counts(behind: Any) -> None:
    """C82."""
    found = {
        seen("192.0.2.1", f"198.51.100.{n}", **{f"HTTP_{name}": f"198.51.100.{n}" for name in HOST_WRITES})
        for n in range(200)
    }

    assert found == {"192.0.2.1"}


def test_behind_one_proxy_what_the_caller_wrote_before_its_entry_counts_for_nothing(behind: Any) -> None:
    """C82."""
    behind(1)

    found = {
        seen("10.0.0.1", f"198.51.100.{n}, 192.0.2.1", HTTP_X_REAL_IP=f"198.51.100.{n}", HTTP_FORWARDED=f"for={n}")
        for n in range(200)
    }

    assert found == {"192.0.2.1"}


def test_the_way_through_the_proxies_makes_no_other_address(behind: Any) -> None:
    """C83: client, CDN, load balancer, server."""
    behind(3)

    found = {seen("10.0.0.1", f"spoof, 192.0.2.1, 203.0.113.{cdn}, 10.1.0.{n}") for n in range(6) for cdn in range(3)}

    assert found == {"192.0.2.1"}


def test_a_caller_who_goes_around_the_proxies_has_the_address_of_its_connection(behind: Any) -> None:
    """C82: too few entries cannot be the proxies'."""
    behind(2)

    assert seen("192.0.2.7", "198.51.100.1") == "192.0.2.7"


def test_an_ipv6_network_is_one_address_and_its_neighbour_another(behind: Any) -> None:
    """C85: what the store keeps is bounded by networks, not by addresses."""
    assert {seen(f"2001:db8:0:1::{n:x}") for n in range(10_000)} == {"2001:db8:0:1::/64"}
    assert seen("2001:db8:0:2::1") == "2001:db8:0:2::/64"


@pytest.mark.parametrize("written", ["1.2.3.4", "::ffff:1.2.3.4", "1.2.3.4:4711", "[::ffff:1.2.3.4]:4711"])
def test_one_ipv4_address_is_one_however_it_is_written(behind: Any, written: str) -> None:
    """C85; a proxy that writes the port would make each connection a caller of its own."""
    behind(1)

    assert seen("10.0.0.1", written) == "1.2.3.4"


@pytest.mark.parametrize("written", ["2001:db8::1", "[2001:db8::2]:4711", "[2001:db8::3]", "2001:DB8:0:0::4"])
def test_one_ipv6_network_is_one_however_it_is_written(behind: Any, written: str) -> None:
    """C85."""
    behind(1)

    assert seen("10.0.0.1", written) == "2001:db8::/64"


@pytest.mark.parametrize("written", ["", "unix:", "fe80::1%eth0", "not an address", "a:b", "x" * 10_000])
def test_what_is_no_address_is_still_a_bounded_name(behind: Any, written: str) -> None:
    assert len(seen(written)) <= 255
