"""What a process hears when others give their slots on to it: messages on a channel of its own.

They only spare it the wait for its next sign of life, so that one that is lost costs no more than that.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.exceptions import InvalidResponse

from tenantlimits.engine import resp
from tenantlimits.engine.resp import Reply, bulk, command

_CHUNK = 65536
_ALL = 1 << 30


class Wakeups:
    """The messages on a channel, over a connection that serves nothing else. redis.RedisError when it has broken."""

    def __init__(self, connection: Any, channel: bytes) -> None:
        self._connection, self._socket, self._rest = connection, connection._sock, b""
        self._send(command([bulk("SUBSCRIBE"), bulk(channel)]))
        self.read(connection.socket_timeout)

    def read(self, seconds: float) -> list[bytes]:
        """What has come, as soon as something has, or nothing after so long."""
        self._socket.settimeout(seconds)
        replies: list[Reply] = []
        try:
            data = self._socket.recv(_CHUNK)
            self._rest = resp.read(self._rest + data, replies, _ALL)
        except TimeoutError:
            return []
        except (OSError, InvalidResponse) as error:
            raise redis.ConnectionError(f"The connection for messages broke: {error}.") from error
        if not data:
            raise redis.ConnectionError("The server closed the connection for messages.")
        return [message for message in map(_message, replies) if message is not None]

    def close(self) -> None:
        """Hear no more."""
        self._connection.disconnect()

    def _send(self, packed: bytes) -> None:
        try:
            self._socket.sendall(packed)
        except OSError as error:
            raise redis.ConnectionError(f"The connection for messages broke: {error}.") from error


def _message(reply: Reply) -> bytes | None:
    """What was published; None for the server's word that we are subscribed. An error is raised."""
    if isinstance(reply, redis.RedisError):
        raise reply
    match reply:
        case [b"message", bytes(), bytes(message)]:
            return message
        case [b"subscribe", *_]:
            return None
    raise InvalidResponse(f"{str(reply)[:200]} is no message.")
