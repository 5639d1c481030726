"""The body of a refusal: problem details of RFC 9457, with everything that a client needs to do the right thing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from tenantlimits import wording
from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Code, Decision, PoolRefusal, Reading
from tenantlimits.domain.limits import Counts, Kind, Layer, Limit
from tenantlimits.responses.answers import answer_to, reset_at
from tenantlimits.responses.fields import policy_name

_STATUSES = {
    Code.RATE_LIMITED: 429,
    Code.CONCURRENCY_LIMITED: 429,
    Code.QUEUE_FULL: 429,
    Code.QUEUE_TIMEOUT: 429,
    Code.CAPACITY_FULL: 503,
    Code.FUSE: 429,
    Code.STORE_UNAVAILABLE: 503,
    Code.COST_EXCEEDS_LIMIT: 422,
    Code.BLOCKED: 403,
}
# Of draft-ietf-httpapi-ratelimit-headers-11; not registered yet, so what stands before them is a setting.
_DRAFT_TYPES = {
    Code.RATE_LIMITED: "quota-exceeded",
    Code.CONCURRENCY_LIMITED: "quota-exceeded",
    Code.QUEUE_FULL: "quota-exceeded",
    Code.QUEUE_TIMEOUT: "quota-exceeded",
    Code.CAPACITY_FULL: "temporary-reduced-capacity",
    Code.FUSE: "abnormal-usage-detected",
    Code.STORE_UNAVAILABLE: "temporary-reduced-capacity",
}
_OWN_TYPES = {
    Code.COST_EXCEEDS_LIMIT: "urn:tenantlimits:problem:cost-exceeds-limit",
    Code.BLOCKED: "urn:tenantlimits:problem:blocked",
}
_LEFT_OUT_WHERE_UNKNOWN = {"limit", "reset_at", "max_cost", "usage_url", "increase_url", "docs_url"}


def status_of(decision: Decision) -> int:
    """The status of a refused decision."""
    return _STATUSES[_code(decision)]


_KEPT = "_problems"
_MOST_KEPT = 8
"""Bodies of one decision: it is repeated while a flood lasts, in few languages and to few of the site's own names."""


def problem(decision: Decision, request: HttpRequest) -> dict[str, Any]:
    """The body for a refused decision. Texts are in the active language, times in RFC 3339, durations in seconds."""
    kept: dict[object, dict[str, Any]] = vars(decision).setdefault(_KEPT, {})
    # Whatever makes the addresses in it another one; a host that is not allowed is asked for only where one is needed.
    names = (request.META.get(name) for name in ("HTTP_HOST", "HTTP_X_FORWARDED_HOST", "SCRIPT_NAME"))
    key = (get_language(), request.scheme, *names, conf.RESPONSES)
    body = kept.get(key)
    if body is None:
        body = _problem(decision, request)
        if len(kept) < _MOST_KEPT:
            kept[key] = body
    return dict(body)


def _problem(decision: Decision, request: HttpRequest) -> dict[str, Any]:
    code, answer = _code(decision), answer_to(decision)
    usage_url = _usage_url(decision, request)
    body = {
        "type": _type(code),
        "title": wording.refusal_title(code),
        "status": status_of(decision),
        "detail": _detail(decision, usage_url),
        "instance": f"urn:tenantlimits:decision:{answer.id}",
        "violated-policies": _violated(decision),
        "code": str(code),
        "lane": decision.lane,
        "limit": _binding(decision),
        "tier": decision.tier or None,
        "retry_after_seconds": answer.wait,
        "retryable": not decision.never,
        "reset_at": _rfc3339(reset_at(decision)),
        "max_cost": _max_cost(decision) if code is Code.COST_EXCEEDS_LIMIT else None,
        "usage_url": usage_url,
        "increase_url": _absolute(conf.RESPONSES.upgrade_url, request),
        "docs_url": _absolute(conf.RESPONSES.docs_url, request),
    }
    return {name: value for name, value in body.items() if value is not None or name not in _LEFT_OUT_WHERE_UNKNOWN}


def unit_of(limit: Limit) -> str:
    """What the limit counts, in the words of the API: requests, cost or concurrent_requests."""
    return "concurrent_requests" if limit.kind is Kind.CONCURRENCY else str(limit.counts)


def _code(decision: Decision) -> Code:
    code = decision.code
    if code is None:
        raise ValueError("An allowed decision has no refusal to tell: ask decision.refused first.")
    return code


def _type(code: Code) -> str:
    return _OWN_TYPES.get(code) or conf.RESPONSES.problem_base + _DRAFT_TYPES[code]


def _usage_url(decision: Decision, request: HttpRequest) -> str | None:
    """Where the tenant sees its limits and usage; None for an anonymous caller, or where the host has no such page."""
    if not decision.tenant:
        return None
    try:
        return request.build_absolute_uri(reverse("tenantlimits:usage"))
    except NoReverseMatch:
        return None


def _detail(decision: Decision, usage_url: str | None) -> str:
    detail = wording.refusal_detail(decision, answer_to(decision).wait)
    return _("%(detail)s See %(url)s") % {"detail": detail, "url": usage_url} if usage_url else detail


def _violated(decision: Decision) -> list[str]:
    if decision.by_pool is not None:
        return [decision.by_pool.name]
    return [policy_name(one.limit) for one in decision.refusals]


def _binding(decision: Decision) -> dict[str, Any] | None:
    """What was in the way: a share of a pool, or the limit with the longest wait."""
    if decision.by_pool is not None:
        return _share(decision.by_pool, decision.lane)
    return _limit(decision.binding) if decision.binding else None


def _share(one: PoolRefusal, lane: str) -> dict[str, Any]:
    return {
        "name": one.name,
        "pool": one.pool,
        "lane": lane,
        "layer": str(Layer.TENANT),
        "unit": "concurrent_requests",
        "amount": one.share,
        "period_seconds": None,
        "burst": None,
        "used": one.running,
        "requested": 1,
        "source": one.source,
    }


def _limit(one: Reading) -> dict[str, Any]:
    limit = one.limit
    return {
        "name": limit.name,
        "lane": limit.lane,
        "layer": str(limit.layer),
        "unit": unit_of(limit),
        "amount": _number(limit.amount),
        "period_seconds": limit.period_seconds,
        "burst": _number(limit.capacity) if limit.kind is Kind.TOKEN_BUCKET else None,
        "used": _number(one.used),
        "requested": _number(one.requested),
        "source": one.in_force.source,
    }


def _max_cost(decision: Decision) -> float:
    """The largest cost that no limit refuses for good."""
    by_cost = [one.limit for one in decision.refusals if one.limit.counts is Counts.COST and one.never]
    return _number(min(limit.capacity for limit in by_cost))


def _number(value: float) -> float:
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded


def _absolute(url: str | None, request: HttpRequest) -> str | None:
    return None if url is None else request.build_absolute_uri(url)


def _rfc3339(instant: datetime | None) -> str | None:
    return None if instant is None else f"{instant:%Y-%m-%dT%H:%M:%SZ}"
