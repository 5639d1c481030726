"""Who sends a request, for tenantlimits: only from what the caller cannot forge."""

from __future__ import annotations

from django.http import HttpRequest

from project.portal.models import ApiKey
from project.portal.organisations import organisation_of


def tenant_of(request: HttpRequest) -> str | None:
    """The organisation of the API key, of the signature, or of the login; None for strangers."""
    organisation = organisation_of(request)
    return organisation.slug if organisation else None


def user_of(request: HttpRequest) -> str | None:
    """The login; None where a machine calls."""
    user = getattr(request, "user", None)
    return str(user.pk) if user is not None and user.pk is not None else None


def credential_of(request: HttpRequest) -> str | None:
    """The API key; None for logins."""
    auth = getattr(request, "auth", None)
    return auth.prefix if isinstance(auth, ApiKey) else None
