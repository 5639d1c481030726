"""The protocol between us and a server, RESP2: arguments to bytes, and bytes to replies.

By hand, because a decision is one small command whose bytes hardly change and one small reply: packing and reading it
with redis-py takes longer than the server needs to decide. https://redis.io/docs/latest/develop/reference/protocol-spec
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.connection import DefaultParser
from redis.exceptions import InvalidResponse, ResponseError

Reply = Any
"""What a server answers: bytes, int, None, a redis.RedisError or a list of these."""
_DEEPEST = 16
"""Lists in lists that are read; scripts and CLUSTER SLOTS answer four."""


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
    """Add the replies in the data until there are `count`; answers what is left, the beginning of the next.

    InvalidResponse where the data are no replies in RESP2: then nobody knows what the next bytes would mean.
    """
    at = 0
    try:
        while len(replies) < count:
            one, at = reply(data, at, _DEEPEST)
            replies.append(one)
    except Incomplete:
        pass
    except ValueError as error:
        raise InvalidResponse(f"what it says is no reply in RESP2: {error}") from error
    return data[at:]


def reply(data: bytes, at: int, depth: int) -> tuple[Reply, int]:
    """The reply that begins at `at`, and where the next one will begin. Error replies are answered, not raised.

    ValueError where there is none. A list may have lists in it, `depth` of them one in another.
    """
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
        return _array(data, at, int(line), depth)
    if kind == b"-":
        return _error(line.decode(errors="replace")), at
    if kind == b"+":
        return line, at
    raise ValueError(f"nothing begins with {kind!r}")


def _array(data: bytes, at: int, length: int, depth: int) -> tuple[Reply, int]:
    if length < 0:
        return None, at
    if not depth:
        raise ValueError(f"more than {_DEEPEST} lists stand one in another")
    items = []
    for _ in range(length):
        item, at = reply(data, at, depth - 1)
        items.append(item)
    return items, at


def _error(text: str) -> redis.RedisError:
    try:
        error: redis.RedisError = DefaultParser.parse_error(text)  # type: ignore[no-untyped-call]  # redis-py has no types for it
    except ValueError:  # a redirection without an address
        return ResponseError(text)
    return error
