"""A peer on a real socket that answers scripts with whatever it is told to say: what a server never would."""

import socket

from tests.listening import Listener


class Peer(Listener):
    """Answers +OK to what sets a connection up, +PONG to a PING, and `says` to each script and each ECHO.

    While it `hangs_up` it closes the connection after that.
    """

    def __init__(self) -> None:
        self.says, self.hangs_up = b"", False
        self.listen()

    def serve(self, client: socket.socket) -> None:
        """Answer until it goes."""
        while data := client.recv(1 << 20):
            asked = data.count(b"\nEVALSHA\r") + data.count(b"\nECHO\r") + data.count(b"\nSMEMBERS\r")
            if not asked:
                client.sendall(b"+PONG\r\n" if b"PING" in data else b"+OK\r\n" * data.count(b"*"))
                continue
            client.sendall(b"$1\r\nx\r\n" * data.count(b"\nLOAD\r") + self.says * asked)
            if self.hangs_up:
                return
