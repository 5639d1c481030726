"""What staff's browsers send."""

from typing import Any

from django.test import Client

from tenantlimits.models import Limit, Tenant, Tier

BASE = "/admin/tenantlimits"


def limit(**values: Any) -> dict[str, Any]:
    """The fields of one limit as typed: 500 a minute of everything, unless the test types something else."""
    typed = {
        "name": "all-minute", "rate": "500/min", "kind": "token_bucket", "burst": "", "lane": "all", "layer": "tenant",
        "counts": "cost", "guarantee": "contract", "anchor_day": "1", "mode": "enforce",
    }  # fmt: skip
    return typed | values


def tier(*limits: dict[str, Any], initial: int = 0, **values: Any) -> dict[str, Any]:
    """The form of a tier with these limits, the first `initial` of which have rows already."""
    form = {"slug": "free", "name": "Free", "description": "", "mode": "enforce", "why": ""} | values
    form |= {"limits-TOTAL_FORMS": len(limits), "limits-INITIAL_FORMS": initial}
    for number, typed in enumerate(limits):
        form |= {f"limits-{number}-{name}": value for name, value in typed.items()}
    return form


def stored(row: Limit, **values: Any) -> dict[str, Any]:
    """The fields of a limit that has a row, as its page sends them."""
    typed = limit(
        id=row.pk, tier=row.tier_id, name=row.name, kind=row.kind, lane=row.lane, layer=row.layer,
        burst="" if row.burst is None else row.burst,
    )  # fmt: skip
    return typed | values


def override(tenant: Tenant | None, **values: Any) -> dict[str, Any]:
    """The form of an override: the rate to 40 for a week."""
    typed = {
        "tenant": "" if tenant is None else tenant.pk, "target": "all-rate", "value": "40", "burst": "",
        "ends_in": "7", "expires_at_0": "", "expires_at_1": "", "starts_at_0": "", "starts_at_1": "",
        "reason": "Black Friday import", "note": "",
    }  # fmt: skip
    return typed | values


def errors(response: Any) -> str:
    """Every error of the form that came back, in one text."""
    context = response.context
    found = [str(context["errors"])] if "errors" in context else []
    return " ".join(found)


def text(client: Client, path: str) -> str:
    """The page, as HTML."""
    response = client.get(BASE + path)
    assert response.status_code == 200, path
    return response.content.decode()


def change(row: Tier | Tenant | Any) -> str:
    """The address of a row's page."""
    return f"{BASE}/{row._meta.model_name}/{row.pk}/change/"
