"""A server of our own that answers whatever it is asked with one error, as real ones do for a while."""

from __future__ import annotations

import re
import socket

from tests.listening import Listener

_COMMAND = re.compile(rb"(?:^|\r\n)\*\d+\r\n")


class Refuser(Listener):
    """Listens from the start; `close` ends it."""

    def __init__(self, error: str) -> None:
        self._answer = f"-{error}\r\n".encode()
        self.listen()

    def serve(self, client: socket.socket) -> None:
        """Answer until it goes."""
        while data := client.recv(65536):
            client.sendall(self._answer * len(_COMMAND.findall(data)))
