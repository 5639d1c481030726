"""A server of our own that answers whatever it is asked with one error, as real ones do for a while."""

from __future__ import annotations

import contextlib
import re
import socket
import threading

_COMMAND = re.compile(rb"(?:^|\r\n)\*\d+\r\n")


class Refuser:
    """Listens from the start; `close` ends it."""

    def __init__(self, error: str) -> None:
        self._answer = f"-{error}\r\n".encode()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no more. Connections end with their clients."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while data := client.recv(65536):
                client.sendall(self._answer * len(_COMMAND.findall(data)))
