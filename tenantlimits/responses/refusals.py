"""A refusal as a response, for programs and for people, and the fields of every other response."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from tenantlimits import wording
from tenantlimits.domain.decisions import Decision
from tenantlimits.responses.answers import answer_to, reset_at
from tenantlimits.responses.fields import limit_fields, retry_after_fields
from tenantlimits.responses.problems import problem, status_of

_PROBLEM = "application/problem+json"
_OFFERED = [_PROBLEM, "application/json", "text/html"]
"""In the order in which we choose where the client has no preference."""
_BUSY = (429, 503)
_FRESHNESS = ("ETag", "Expires", "Last-Modified", "Age")


def refusal(decision: Decision, request: HttpRequest) -> HttpResponse:
    """The response to a refused request: a page for who prefers one, problem+json for everybody else."""
    body = problem(decision, request)
    response: HttpResponse
    if request.get_preferred_type(_OFFERED) == "text/html":
        page = {"problem": body, **_words(decision)}
        response = render(request, "tenantlimits/refused.html", page, status=body["status"])
    else:
        response = JsonResponse(body, status=body["status"], content_type=_PROBLEM)
    patch_vary_headers(response, ["Accept"])
    add_fields(response, decision)
    return response


def add_fields(response: HttpResponseBase, decision: Decision) -> None:
    """Tell the client its limits, in fields that nobody has set before.

    Left out where a shared cache may keep the response, since it would tell one caller's use to another, and on a
    view's own 429 or 503, which is not about our limits. A refusal of ours is never cached.
    """
    is_ours = decision.refused and response.status_code == status_of(decision)
    if is_ours:
        _forbid_caching(response)
        if response.get("Content-Type") == "application/json":
            response["Content-Type"] = _PROBLEM  # DRF's renderers know no other name for the same body
        _set_missing(response, retry_after_fields(decision))
    elif response.status_code in _BUSY or _is_shared(response):
        return
    fields = limit_fields(decision)
    if not any(response.has_header(name) for name in fields):
        _set_missing(response, fields)


def _words(decision: Decision) -> dict[str, object]:
    """What the page says in words and the body in numbers."""
    one, wait = decision.binding, answer_to(decision).wait
    return {
        "decision_id": answer_to(decision).id,
        "detail": wording.refusal_detail(decision, wait),
        "tier_name": decision.plan.tier_name,
        "promise": wording.promise(one.limit) if one else "",
        "used": wording.used_words(one) if one else "",
        "override": wording.source_words(one.in_force) if one and one.in_force.override else "",
        "wait_words": "" if wait is None else wording.wait_words(wait),
        "reset_at": reset_at(decision),
    }


def _forbid_caching(response: HttpResponseBase) -> None:
    # A decorator of the view may have declared its answers public; a refusal among them would outlive its reason.
    response["Cache-Control"] = "no-store"
    for name in _FRESHNESS:
        del response[name]


def _is_shared(response: HttpResponseBase) -> bool:
    """Whether a cache that serves many clients may keep the response (RFC 9111, 3)."""
    if not response.has_header("Cache-Control"):
        return False
    control = str(response["Cache-Control"]).lower()
    if re.search(r"\b(private|no-store)\b", control):
        return False
    return re.search(r"\bpublic\b|\bs-maxage\b|\bmax-age\s*=\s*\"?0*[1-9]", control) is not None


def _set_missing(response: HttpResponseBase, fields: dict[str, str]) -> None:
    for name, value in fields.items():
        if not response.has_header(name):
            response[name] = value
