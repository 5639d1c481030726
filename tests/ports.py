"""Ports of this machine on which nobody listens.

Below the ones that outgoing connections are given, by chance, so that processes seldom meet, and none twice.
"""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
LOWEST, HIGHEST = 11_000, 21_999
BUS = 10_000
"""So much higher is the port on which a node of a cluster talks to the others."""

_chance = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port where nobody listens now, nor on that of its bus."""
    for _ in range(1000):
        port = _chance.randint(LOWEST, HIGHEST)
        if port not in _given and _is_free(port) and _is_free(port + BUS):
            _given.add(port)
            return port
    raise RuntimeError(f"No free port from {LOWEST} to {HIGHEST}: look what listens there.")


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
