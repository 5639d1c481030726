"""The organisation that a request is for, by its credential or by its login's membership; never by what it says."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest

from project.portal.credentials import Sender
from project.portal.models import ApiKey, Membership, Organisation

_SESSION = "organisation"
_KEPT = "_portal_membership"


def organisation_of(request: HttpRequest) -> Organisation | None:
    """The organisation; None for strangers, and for logins that are no members."""
    auth = getattr(request, "auth", None)  # DRF writes it through to Django's request
    if isinstance(auth, ApiKey | Sender):
        return auth.organisation
    membership = membership_of(request)
    return membership.organisation if membership else None


def membership_of(request: HttpRequest) -> Membership | None:
    """The membership that the login works under: the chosen one while it stands, else the first. Asked once."""
    if not hasattr(request, _KEPT):
        setattr(request, _KEPT, _membership(request))
    return cast(Membership | None, getattr(request, _KEPT))


def _membership(request: HttpRequest) -> Membership | None:
    if not request.user.is_authenticated or request.user.pk is None:
        return None
    mine = Membership.objects.filter(user=request.user).select_related("organisation")
    chosen = request.session.get(_SESSION)
    return (mine.filter(organisation=chosen).first() if chosen else None) or mine.first()


def choose(request: HttpRequest, slug: str) -> Membership | None:
    """Work for that organisation from now on, if the login is a member; None, and no change, if not."""
    if not request.user.is_authenticated:
        return None
    membership = Membership.objects.filter(user=request.user, organisation__slug=slug).first()
    if membership is not None:
        request.session[_SESSION] = membership.organisation_id
    return membership
