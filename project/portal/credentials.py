"""Who calls the API: an API key, or the signature of a third party. Neither can be forged by who does not have it."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.db.models.signals import post_delete, post_save
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed

from project.portal.models import ApiKey, Organisation, digest

if TYPE_CHECKING:
    from rest_framework.request import Request

SIGNATURE_FIELD = "X-Portal-Signature"


class Machine(AnonymousUser):
    """The user of a request that no person sends: it is let in, and has no name and no permissions."""

    @property
    def is_authenticated(self) -> bool:  # type: ignore[override] # django-stubs pins the anonymous user's to False
        return True

    @property
    def is_anonymous(self) -> bool:  # type: ignore[override] # as above
        return False


@dataclass(frozen=True, slots=True)
class Sender:
    """A third party that signs with an organisation's webhook secret."""

    organisation: Organisation


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <prefix>.<secret>`."""

    def authenticate(self, request: Request) -> tuple[Machine, ApiKey] | None:
        """The key; None where the request carries none, AuthenticationFailed where it is not one of ours."""
        scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        key = key_of(token.strip())
        if key is None:
            raise AuthenticationFailed("No such API key, or it was revoked.")
        return Machine(), key

    def authenticate_header(self, _request: Request) -> str:
        """What a 401 asks for."""
        return "Bearer"


class SignatureAuthentication(BaseAuthentication):
    """`X-Portal-Signature: sha256=<hex>`: the HMAC of the body by the webhook secret of the path's organisation."""

    def authenticate(self, request: Request) -> tuple[Machine, Sender]:
        """The sender, or AuthenticationFailed."""
        organisation = Organisation.objects.filter(slug=request.parser_context["kwargs"]["slug"]).first()
        secret = organisation.webhook_secret if organisation else ""
        matches = constant_time_compare(request.headers.get(SIGNATURE_FIELD, ""), signature(secret, request.body))
        if organisation is None or not matches:
            raise AuthenticationFailed(f"{SIGNATURE_FIELD} is not the signature of this body.")
        return Machine(), Sender(organisation)

    def authenticate_header(self, _request: Request) -> str:
        """What a 401 asks for."""
        return "Signature"


def key_of(token: str) -> ApiKey | None:
    """The key in force of a token, or None."""
    prefix, _dot, secret = token.partition(".")
    key = _kept_keys.find(prefix)
    # Compared even where there is no such key, lest the time it takes tells which prefixes exist.
    matches = constant_time_compare(digest(secret), key.digest if key else digest(""))
    return key if key and matches else None


class _KeptKeys:
    """The keys used last: a flood of requests with one key must not become a flood of queries.

    Another process that has used a key in the last KEPT_SECONDS lets it in for so long after it was revoked here.
    """

    KEPT_SECONDS = 1.0
    MOST = 1000

    def __init__(self) -> None:
        self._kept: dict[str, tuple[ApiKey, float]] = {}

    def find(self, prefix: str) -> ApiKey | None:
        """The key of that prefix, asked of the database at most once in KEPT_SECONDS."""
        kept = self._kept.get(prefix)
        if kept is not None and time.monotonic() - kept[1] < self.KEPT_SECONDS:
            return kept[0]
        key = ApiKey.objects.in_force(prefix)
        if key is None:
            self._kept.pop(prefix, None)
            return None
        if len(self._kept) >= self.MOST:
            self._kept.clear()
        self._kept[prefix] = key, time.monotonic()
        return key

    def forget(self, *, instance: ApiKey, **_kwargs: object) -> None:
        """Ask for that key anew: it was changed or deleted in this process."""
        self._kept.pop(instance.prefix, None)


_kept_keys = _KeptKeys()
post_save.connect(_kept_keys.forget, sender=ApiKey, dispatch_uid="portal.kept_keys")
post_delete.connect(_kept_keys.forget, sender=ApiKey, dispatch_uid="portal.kept_keys")


def signature(secret: str, body: bytes) -> str:
    """What the third party has to send beside the body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
