"""A proxy of our own between clients and a server: it swallows bytes, loses replies, and breaks off in the middle."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass
from enum import Enum, auto

from tests.listening import Listener
from tests.ports import HOST

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: a close is a reset."""


class Habit(Enum):
    """What the proxy does with what it is given."""

    PASS = auto()
    SWALLOW = auto()
    """Take everything and hand on nothing, as a half-open connection does."""
    LOSE = auto()
    """Hand on what is asked, and not the reply to a script."""
    RESET = auto()
    """Hand on what is asked, and break off in the middle of the reply to a script."""


class Proxy(Listener):
    """Listens on a port for the server on another. Threads of its own do the work; `close` ends them."""

    def __init__(self, port: int, server_port: int) -> None:
        self.habit = Habit.PASS
        self.spoiled = 0
        """Replies to scripts that were lost or broken off."""
        self._server_port, self._open = server_port, set[socket.socket]()
        self.listen(port)

    def close(self) -> None:
        """Listen no more, and end all connections."""
        super().close()
        for one in list(self._open):
            _end(one)

    def serve(self, client: socket.socket) -> None:
        """Hand on what both say, as its habit is."""
        server = socket.create_connection((HOST, self._server_port))
        pair = _Pair(client, server)
        self._open |= {client, server}
        back = threading.Thread(target=self._replies, args=(pair,), daemon=True)
        back.start()
        self._requests(pair)
        back.join()
        self._open -= {client, server}
        server.close()

    def _requests(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.client.recv(65536):
                pair.is_script = b"EVALSHA" in data
                if self.habit is not Habit.SWALLOW:
                    pair.server.sendall(data)
        _end(pair.server)

    def _replies(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.server.recv(65536):
                if self.habit is Habit.PASS or not (pair.is_script or self.habit is Habit.SWALLOW):
                    pair.client.sendall(data)
                    continue
                self.spoiled += self.habit is not Habit.SWALLOW
                if self.habit is Habit.RESET:
                    _break_off(pair.client, data[:2])
                    return
        _end(pair.client)


@dataclass(slots=True, eq=False)
class _Pair:
    """A client's connection and the server's, and whether a script was asked last."""

    client: socket.socket
    server: socket.socket
    is_script: bool = False


def _break_off(client: socket.socket, beginning: bytes) -> None:
    client.sendall(beginning)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    # Wakes the thread that reads from it and says nothing to the client: that does the close, by a reset.
    client.shutdown(socket.SHUT_RD)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
