"""Credentials that failed a moment ago, so that their senders can be refused before anybody looks them up again.

Each process remembers what it saw fail. What is remembered decides nothing by itself: who presents it again is asked
for as an anonymous caller of its address, and the limits of that address say whether there is room to try once more.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from django.conf import settings
from django.core.signals import setting_changed
from django.http import HttpRequest

from tenantlimits.tenancy import address

MOST_REMEMBERED = 10_000
"""About 1.5 MB. Whoever brings ever new credentials makes us forget the oldest, which costs a look-up, no more."""
REMEMBERED_SECONDS = 10.0
"""So long after its last failure a credential that has become valid is served at the latest."""

_SAYS_WHO = re.compile(
    r"HTTP_(?!X_CSRF|IDEMPOTENCY).*(AUTH|CERT|CREDENTIAL|JWT|KEY|PASSWORD|REMOTE_USER|SECRET|SIGNATURE|TOKEN)"
)
"""Fields by which a site may find out who asks. One too many, and a credential is looked up once more than needed; one
too few, and two callers are taken for one."""


class Door:
    """What failed in this process, by digest: no address and no credential is kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._secret = os.urandom(32)
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def remember(self, request: HttpRequest) -> None:
        """What the request presents has failed. Nothing to remember where it presents nothing, or met no view."""
        digest = self._digest(request)
        if digest is None:
            return
        with self._lock:
            self._until[digest] = self._clock() + REMEMBERED_SECONDS
            self._until.move_to_end(digest)
            if len(self._until) > MOST_REMEMBERED:
                self._until.popitem(last=False)

    def knows(self, request: HttpRequest) -> bool:
        """Whether what the request presents failed from its address, in this view, within REMEMBERED_SECONDS."""
        if not self._until:
            return False
        digest = self._digest(request)
        return digest is not None and self._until.get(digest, 0.0) > self._clock()

    def forget(self, request: HttpRequest) -> None:
        """What the request presents is valid."""
        digest = self._digest(request)
        if digest is not None:
            with self._lock:
                self._until.pop(digest, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._until.clear()

    def _digest(self, request: HttpRequest) -> bytes | None:
        presented = _presented(request)
        if not presented or request.resolver_match is None:
            return None
        # Views authenticate in ways of their own, and some let anybody read: what fails here may be served there.
        where = (address(request), request.method or "", request.resolver_match.route)
        session = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        digest = blake2b(digest_size=16, key=self._secret)
        for part in (*where, session, *presented):
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(4, "big") + raw)
        return digest.digest()


def _presented(request: HttpRequest) -> list[str]:
    """Names and values of the fields that say who asks, in one order; none where nothing but a cookie may.

    A valid session fails for want of a CSRF token, too, so by its cookie alone nobody is known to fail.
    """
    fields = sorted((name, str(value)) for name, value in request.META.items() if _SAYS_WHO.match(name))
    return [text for field in fields for text in field]


door = Door()


def _clear(*, setting: str, **kwargs: object) -> None:
    if setting == "TENANTLIMITS":
        door.clear()


setting_changed.connect(_clear, dispatch_uid="tenantlimits.gate.door")
