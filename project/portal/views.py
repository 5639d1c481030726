"""The portal's pages, for members in a browser."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from project.portal import costs, work
from project.portal.forms import NameForm, UploadForm
from project.portal.models import ApiKey, Export, Membership, Upload
from project.portal.organisations import choose, membership_of
from tenantlimits.decorators import exempt, limited

P = ParamSpec("P")


def member_required(
    view: Callable[Concatenate[HttpRequest, Membership, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Call the view with the membership that the login works under; who has none is told so."""

    @wraps(view)
    def asked(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        membership = membership_of(request)
        if membership is None:
            return render(request, "portal/no_organisation.html", status=403)
        return view(request, membership, *args, **kwargs)

    return login_required(asked)


def owner_required(
    view: Callable[Concatenate[HttpRequest, Membership, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Call the view with the membership of an owner; others may not."""

    @wraps(view)
    def asked(request: HttpRequest, membership: Membership, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not membership.is_owner:
            raise PermissionDenied("Only owners make and revoke API keys.")
        return view(request, membership, *args, **kwargs)

    return member_required(asked)


@exempt
@require_GET
def healthz(_request: HttpRequest) -> HttpResponse:
    """Whether this process serves. Asks no database and no store, and is never refused."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_GET
def landing(request: HttpRequest) -> HttpResponse:
    """What the portal is, for strangers."""
    return redirect("portal:home") if request.user.is_authenticated else render(request, "portal/landing.html")


@limited(lane="reads")
@require_GET
@member_required
def home(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Projects, uploads and exports of the organisation."""
    work.read()
    organisation = membership.organisation
    context = {
        "membership": membership,
        "memberships": Membership.objects.filter(user=membership.user_id).select_related("organisation"),
        "members": organisation.memberships.select_related("user").order_by("user__username"),
        "projects": organisation.projects.all(),
        "uploads": organisation.uploads.all()[:10],
        "exports": organisation.exports.all()[:10],
        "name_form": NameForm(),
        "upload_form": UploadForm(),
    }
    return render(request, "portal/home.html", context)


@require_POST
@login_required
def choose_organisation(request: HttpRequest, slug: str) -> HttpResponse:
    """Work for another organisation that the login is a member of; 403 for any other."""
    if choose(request, slug) is None:
        raise PermissionDenied("You are no member of that organisation.")
    return redirect("portal:home")


@require_POST
@member_required
def add_project(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Begin a project."""
    form = NameForm(request.POST)
    if form.is_valid():
        membership.organisation.projects.create(name=form.cleaned_data["name"])
    else:
        messages.error(request, "A project needs a name of at most 100 characters.")
    return redirect("portal:home")


@limited(lane="uploads", cost=costs.declared)
@require_POST
@member_required
def upload(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Keep a file."""
    form = UploadForm(request.POST, request.FILES)
    if form.is_valid():
        file = form.cleaned_data["file"]
        Upload.objects.create(organisation=membership.organisation, name=file.name[:255], size=file.size)
        messages.success(request, f"{file.name} is kept, at a cost of {costs.declared(request)}.")
    else:
        messages.error(request, "Choose a file that is not empty.")
    return redirect("portal:home")


@limited(lane="exports")
@require_POST
@member_required
def export(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Make a report, which takes its time."""
    work.export()
    Export.objects.create(organisation=membership.organisation, rows=membership.organisation.projects.count())
    messages.success(request, "The export is done.")
    return redirect("portal:home")


@require_GET
@member_required
def keys(request: HttpRequest, membership: Membership) -> HttpResponse:
    """The organisation's API keys."""
    return render(request, "portal/keys.html", _keys_context(membership))


@require_POST
@owner_required
def add_key(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Make a key, and show its token: now, and never again."""
    form = NameForm(request.POST)
    if not form.is_valid():
        messages.error(request, "A key needs a name of at most 100 characters.")
        return redirect("portal:keys")
    _key, token = ApiKey.objects.issue(membership.organisation, form.cleaned_data["name"])
    response = render(request, "portal/keys.html", _keys_context(membership) | {"token": token})
    response.headers["Cache-Control"] = "no-store"
    return response


@require_POST
@owner_required
def revoke_key(_request: HttpRequest, membership: Membership, pk: int) -> HttpResponse:
    """End a key of the own organisation."""
    get_object_or_404(ApiKey, pk=pk, organisation=membership.organisation).revoke()
    return redirect("portal:keys")


def _keys_context(membership: Membership) -> dict[str, object]:
    keys = membership.organisation.api_keys.filter(revoked_at=None)
    return {"membership": membership, "keys": keys, "name_form": NameForm()}
