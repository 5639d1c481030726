"""Servers of our own that behave as real ones seldom do: each connection is served by a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod

from tests.ports import HOST


class Listener(ABC):
    """Listens on a port, by itself on a free one, from `listen` until `close`."""

    def listen(self, port: int = 0) -> None:
        """Begin."""
        self._listener = socket.create_server((HOST, port), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """For clients."""
        return f"redis://{HOST}:{self.port}/0"

    @abstractmethod
    def serve(self, client: socket.socket) -> None:
        """Talk to one client; an OSError ends it."""

    def close(self) -> None:
        """Listen no more. Connections end with their clients."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # a close alone would leave the thread waiting in `accept`
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            self.serve(client)
