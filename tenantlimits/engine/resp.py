"""The protocol between us and a server, RESP2: arguments to bytes, and bytes to replies.

By hand, because a decision is one small command whose bytes hardly change and one small reply: packing and reading it
with redis-py takes longer than the server needs to decide. https://redis.io/docs/latest/develop/reference/protocol-spec
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.connection import DefaultParser
from redis.exceptions import InvalidResponse

Reply = Any
"""What a server answers: bytes, int, None, a redis.RedisError or a list of these."""


class Incomplete(Exception):
    """The rest of the reply has not arrived yet."""


def bulk(argument: bytes | str | int) -> bytes:
    """One argument of a command."""
    if not isinstance(argument, bytes):
        argument = str(argument).encode()
    return b"$%d\r\n%b\r\n" % (len(argument), argument)


def count(arguments: int) -> bytes:
    """How a command of so many arguments begins."""
    return b"*%d\r\n" % arguments


def command(arguments: Sequence[bytes]) -> bytes:
    """A command from its arguments, each packed by `bulk`."""
    return count(len(arguments)) + b"".join(arguments)


def read(data: bytes, replies: list[Reply], count: int) -> bytes:
    """Add the replies in the data until there are `count`; answers what is left, the beginning of the next."""
    at = 0
    try:
        while len(replies) < count:
            one, at = reply(data, at)
            replies.append(one)
    except Incomplete:
        pass
    return data[at:]


def reply(data: bytes, at: int) -> tuple[Reply, int]:
    """The reply that begins at `at`, and where the next one will begin. Error replies are answered, not raised."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"$":
        end = at + int(line)
        if end < at:
            return None, at
        if len(data) < end + 2:
            raise Incomplete
        return data[at:end], end + 2
    if kind == b":":
        return int(line), at
    if kind == b"*":
        return _array(data, at, int(line))
    if kind == b"-":
        return DefaultParser.parse_error(line.decode(errors="replace")), at  # type: ignore[no-untyped-call]  # redis-py has no types for it
    if kind == b"+":
        return line, at
    raise InvalidResponse(f"{kind + line!r} is no reply in RESP2.")


def _array(data: bytes, at: int, length: int) -> tuple[Reply, int]:
    if length < 0:
        return None, at
    items = []
    for _ in range(length):
        item, at = reply(data, at)
        items.append(item)
    return items, at
