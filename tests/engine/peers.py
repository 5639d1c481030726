"""A peer on a real socket that answers scripts with whatever it is told to say: what a server never would."""

import socket
import threading


class Peer:
    """Answers +OK to what sets a connection up, +PONG to a PING, and `says` to each script and each ECHO.

    While it `hangs_up` it closes the connection after that.
    """

    def __init__(self) -> None:
        self.says, self.hangs_up = b"", False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._server.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            while data := _received(peer):
                asked = data.count(b"\nEVALSHA\r") + data.count(b"\nECHO\r") + data.count(b"\nSMEMBERS\r")
                if not asked:
                    peer.sendall(b"+PONG\r\n" if b"PING" in data else b"+OK\r\n" * data.count(b"*"))
                    continue
                peer.sendall(b"$1\r\nx\r\n" * data.count(b"\nLOAD\r") + self.says * asked)
                if self.hangs_up:
                    return

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()


def _received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(1 << 20)
    except OSError:
        return b""
