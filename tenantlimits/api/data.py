"""What is in force and what was used, as the JSON of the API. Fields may be added within a version, none taken out.

Times are RFC 3339 in UTC, durations whole seconds, ratios 0 to 1 (above 1 where a limit was lowered below its use).
Nothing is null but what has no number: no limit, no period, nobody knows.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Reading
from tenantlimits.domain.limits import Counts, Guarantee, Kind, Layer, LimitInForce, Mode, OverrideInForce
from tenantlimits.domain.pools import ShareInForce
from tenantlimits.domain.snapshots import Held
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.overview import Overview
from tenantlimits.pools.words import share_state
from tenantlimits.usage import Former, History, Resolution, Span, Total, former_amounts, lent_tier
from tenantlimits.wording import LimitState, promise, share_promise, state_of

Json = dict[str, Any]
_SEVERITY = (LimitState.OK, LimitState.NEAR, LimitState.LIMITED, LimitState.BLOCKED)
_FIGURES = ("requests", "allowed", "refused", "cost", "waited_ms", "peak_in_flight", "refused_by", "observed_by")


def limits_data(seen: Overview, identity: Identity) -> Json:
    """What the caller may do and does now. Without the store the limits are there, and their use is unknown."""
    policy = seen.policy
    if seen.stale:
        limits = [_unknown(one, identity) for one in policy.limits if _subject(one, identity) is not None]
    else:
        limits = [_limit(one, identity) for one in seen.readings]
    former = former_amounts(policy, seen.as_of)
    for limit in limits:
        limit["changed"] = _changed(former.get(limit["name"]))
    shares = [_share(one, identity, seen) for one in policy.shares.values()]
    return {
        "as_of": _instant(seen.as_of),
        "stale": seen.stale,
        "status": LimitState.UNKNOWN if seen.stale else _worst(seen),
        "tenant": {"key": policy.tenant, "name": policy.tenant_name},
        "tier": _tier(seen) if policy.tier else None,
        "limits": limits + shares,
        "lanes": [{"name": lane.name, "cost": _number(lane.cost), "unit": "cost"} for lane in conf.LANES.values()],
    }


def _tier(seen: Overview) -> Json:
    lent = lent_tier(seen.policy, seen.as_of)
    return {"slug": seen.policy.tier, "name": seen.policy.tier_name, "override": lent and _override(lent)}


def _changed(former: Former | None) -> Json | None:
    """What a limit was until it changed within its own period, so that its use was counted against that, too."""
    if former is None:
        return None
    return {"at": _instant(former.until), "from_amount": _number(former.amount)}


def _worst(seen: Overview) -> LimitState:
    """The worst of what is known."""
    held = [
        share_state(seen.policy.shares[name], held) for name, held in seen.held.items() if name in seen.policy.shares
    ]
    return max([*map(state_of, seen.readings), *held], key=_SEVERITY.index, default=LimitState.OK)


def _limit(one: Reading, identity: Identity) -> Json:
    limited = 0 < one.limit.capacity < math.inf
    return _described(one.in_force, identity) | {
        "used": _number(one.used),
        "remaining": _number(one.remaining),
        "utilization": round(one.used / one.limit.capacity, 4) if limited else None,
        "available_after_seconds": _seconds(one.next_unit),
        "full_after_seconds": _seconds(one.full),
        "state": state_of(one),
    }


def _unknown(one: LimitInForce, identity: Identity) -> Json:
    unknown = ("used", "remaining", "utilization", "available_after_seconds", "full_after_seconds")
    return _described(one, identity) | dict.fromkeys(unknown) | {"state": LimitState.UNKNOWN}


def _described(one: LimitInForce, identity: Identity) -> Json:
    """A limit and where its numbers come from. Of an override that is its public reason, never the note."""
    limit, override = one.limit, one.override
    return {
        "name": limit.name,
        "kind": limit.kind,
        "lane": limit.lane,
        "layer": limit.layer,
        "subject": _subject(one, identity),
        "unit": _unit(limit.kind, limit.counts),
        "period_seconds": limit.period_seconds,
        "amount": _number(limit.amount),
        "unlimited": limit.amount == math.inf,
        "burst": _number(limit.capacity) if limit.kind is Kind.TOKEN_BUCKET else None,
        "guarantee": limit.guarantee,
        "promise": promise(limit),
        "mode": limit.mode,
        "source": one.source,
        "tier_amount": _number(one.tier_limit.amount),
        "override": override and _override(override) | {"amount": _number(limit.amount)},
    }


def _share(one: ShareInForce, identity: Identity, seen: Overview) -> Json:
    """A share of a pool, among the limits; `lane` is the lane that takes its slots, where just one does."""
    lanes = [lane.name for lane in conf.LANES.values() if lane.pool == one.pool.name]
    slots, override = one.share.slots, one.override
    return {
        "name": one.name,
        "kind": "share",
        "pool": one.pool.name,
        "scope": one.pool.scope,
        "lane": lanes[0] if len(lanes) == 1 else None,
        "lanes": lanes,
        "layer": Layer.TENANT,
        "subject": identity.tenant,
        "unit": _unit(Kind.CONCURRENCY, Counts.REQUESTS),
        "period_seconds": None,
        "amount": slots,
        "unlimited": False,
        "burst": None,
        "guarantee": Guarantee.CONTRACT,
        "promise": share_promise(slots, one.pool),
        "mode": Mode.ENFORCE,
        "source": one.source,
        "tier_amount": one.tier_slots,
        "override": override and _override(override) | {"amount": slots},
        "changed": None,
    } | _live(one, seen.held.get(one.pool.name))


def _live(one: ShareInForce, held: Held | None) -> Json:
    """What runs and waits now. Of a pool that each process has, what is used is that of the process where most runs."""
    state, slots = share_state(one, held), one.share.slots
    if held is None:
        unknown = ("used", "borrowed", "remaining", "utilization", "available_after_seconds", "full_after_seconds")
        queue = {"length": None, "max": one.queue, "oldest_wait_seconds": None, "estimated_wait_seconds": None}
        return dict.fromkeys(unknown) | {"queue": queue, "share_too_small": None, "state": state}
    used, oldest = held.busiest.running, held.oldest_wait
    return {
        "used": used,
        "borrowed": max(0, used - slots),
        "remaining": max(0, slots - used),
        "utilization": round(used / slots, 4) if slots else None,
        "available_after_seconds": 0 if used < slots and not held.waiting else None,
        "full_after_seconds": None if used else 0,
        "queue": {
            "length": held.waiting,
            "max": one.queue,
            "oldest_wait_seconds": None if oldest is None else round(oldest, 1),
            "estimated_wait_seconds": _seconds(held.estimate) if held.waiting else 0,
        },
        "share_too_small": held.is_share_too_small,
        "state": state,
    }


def _override(override: OverrideInForce) -> Json:
    return {
        "id": override.id,
        "reason": override.reason,
        "starts_at": _instant(override.starts_at),
        "expires_at": _instant(override.expires_at),
    }


def _subject(one: LimitInForce, identity: Identity) -> str | None:
    """Whose use a limit counts: the tenant's, or that of the caller's own login or key, where there is one."""
    subjects = {Layer.TENANT: identity.tenant, Layer.USER: identity.user, Layer.CREDENTIAL: identity.credential}
    return subjects[one.limit.layer]


def _unit(kind: Kind, counts: Counts) -> str:
    return "concurrent_requests" if kind is Kind.CONCURRENCY else counts.value


def usage_data(history: History, *, zone: ZoneInfo, resolution: Resolution, lane: str | None, by_lane: bool) -> Json:
    """Hours or days with their results: one for each lane, or one for all of them, or for the lane that is asked."""
    return {
        "as_of": _instant(history.as_of),
        "stale": history.stale,
        "time_zone": zone.key,
        "bucket": resolution,
        "lane": lane,
        "group_by": ["lane"] if by_lane else [],
        "buckets": [_bucket(span, lane, by_lane) for span in history.spans],
    }


def usage_columns(data: Json) -> list[str]:
    """The columns of the same as a table."""
    lane = ["lane"] if data["group_by"] else []
    return ["start", "end", "partial", "complete_until", *lane, *_FIGURES]


def _bucket(span: Span, lane: str | None, by_lane: bool) -> Json:
    lanes = span.lanes if lane is None else {lane: span.lanes.get(lane, Total())}
    if by_lane:
        results = [{"lane": name} | _figures(figures) for name, figures in lanes.items()]
    else:
        results = [_figures(span.total if lane is None else lanes[lane])]
    return {
        "start": _instant(span.start),
        "end": _instant(span.end),
        "partial": span.partial,
        "complete_until": span.complete_until and _instant(span.complete_until),
        "results": results,
    }


def _figures(figures: Total) -> Json:
    return {name: getattr(figures, name) for name in _FIGURES} | {"cost": _number(figures.cost)}


def _instant(instant: datetime) -> str:
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return text.removesuffix("+00:00") + "Z"


def _number(value: float | Decimal) -> float | int | None:
    """A number to a thousandth, whole where it is; None where it is infinite."""
    if not math.isfinite(value):
        return None
    rounded = round(float(value), 3)
    return int(rounded) if rounded == int(rounded) else rounded


def _seconds(value: float | None) -> int | None:
    """Whole seconds, rounded up as in Retry-After; None where nobody knows, or never."""
    return None if value is None or value == math.inf else math.ceil(value)
