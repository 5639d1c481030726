"""Just enough HTTP/1.1 on bytes to send a request and to tell where its answer ends: whoever floods has to be cheap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HEAD_END = b"\r\n\r\n"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BODILESS = frozenset({204, 304})


class MalformedAnswer(ValueError):
    """What came back is no HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `closes`: the server ends the connection after it."""

    status: int
    head: bytes
    closes: bool

    def field(self, name: str) -> str:
        """The value of a header field, or an empty text."""
        return _field(self.head, name.encode()).decode("latin-1")


def encoded(method: str, path: str, fields: Mapping[str, str], body: bytes) -> bytes:
    """A request. ValueError where a part of it would not stay in its place."""
    names = {name.lower() for name in fields}
    every = dict(fields) | ({"Content-Length": str(len(body))} if body and "content-length" not in names else {})
    if not _TOKEN.fullmatch(method) or not re.fullmatch(r"/[!-~]*", path):
        raise ValueError(f"{method!r} {path!r} is no request: write a method, and a path from / on, percent-encoded.")
    for name, value in every.items():
        if not _TOKEN.fullmatch(name) or re.search(r"[\r\n\0]", value):
            raise ValueError(f"{name!r} is no header field that can be sent: leave out spaces and line ends.")
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in every.items())]
    return "\r\n".join(lines).encode("latin-1") + HEAD_END + body


def parsed(received: bytes | bytearray, *, bodiless: bool, ended: bool) -> Answer | None:
    """The answer that was received, or None while some of it is missing. MalformedAnswer where it is none.

    `bodiless`: the request was a HEAD. `ended`: the server has closed the connection, so that no more will come.
    """
    split = received.find(HEAD_END)
    if split < 0:
        return None
    head = bytes(received[: split + 2])
    if not re.match(rb"HTTP/1\.[01] [1-5]\d\d[ \r]", head):
        raise MalformedAnswer(f"The answer begins with {head[:40]!r}.")
    status, start = int(head[9:12]), split + len(HEAD_END)
    if status < 200:
        return parsed(received[start:], bodiless=bodiless, ended=ended)
    closes = head[:8] == b"HTTP/1.0" or b"close" in _field(head, b"connection").lower()
    if bodiless or status in _BODILESS or _has_whole_body(head, received, start):
        return Answer(status, head, closes)
    framed = _field(head, b"content-length") or _is_chunked(head)
    return Answer(status, head, closes=True) if ended and not framed else None


def _has_whole_body(head: bytes, received: bytes | bytearray, start: int) -> bool:
    if _is_chunked(head):
        return _last_chunk_is_there(received, start)
    length = _field(head, b"content-length")
    if length and not length.isdigit():
        raise MalformedAnswer(f"Content-Length is {length!r}.")
    return bool(length) and len(received) - start >= int(length)


def _last_chunk_is_there(received: bytes | bytearray, start: int) -> bool:
    while (line_end := received.find(b"\r\n", start)) >= 0:
        try:
            size = int(bytes(received[start:line_end]).partition(b";")[0], 16)
        except ValueError:
            raise MalformedAnswer(f"A chunk begins with {bytes(received[start:line_end])[:40]!r}.") from None
        if size == 0:
            # Trailers end as a head does; without any, the line end of the size is already the first half of it.
            return received.find(HEAD_END, line_end) >= 0
        start = line_end + 2 + size + 2
    return False


def _is_chunked(head: bytes) -> bool:
    return b"chunked" in _field(head, b"transfer-encoding").lower()


def _field(head: bytes, name: bytes) -> bytes:
    match = re.search(rb"\r\n" + re.escape(name) + rb":[ \t]*([^\r\n]*)", head, re.IGNORECASE)
    return match[1].strip() if match else b""
