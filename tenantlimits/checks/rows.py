"""What tiers and limits lack. Each check asks the databases that it is given."""

from __future__ import annotations

from collections.abc import Sequence

from django.core import checks
from django.core.checks import CheckMessage
from django.db import connections, router

from tenantlimits.checks.installation import Messages, check_names, check_values
from tenantlimits.conf import NAME, conf, suggestion
from tenantlimits.domain.limits import ALL_LANE
from tenantlimits.models import Limit, Override, Share, Tenant, Tier, UsageHour


def check_lanes_of_limits(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W060: a limit whose lane no setting names is never asked."""
    return [
        checks.Warning(
            f"Limit {name} of tier {tier} is in lane {lane!r}, which is not in {NAME}['LANES']: it limits nothing.",
            f"Add the lane there, or move the limit.{suggestion(lane, conf.LANES)}",
            id="tenantlimits.W060",
        )
        for alias in ready(databases)
        for tier, name, lane in Limit.objects.using(alias)
        .exclude(lane__in=[ALL_LANE, *conf.LANES])
        .values_list("tier__slug", "name", "lane")
    ]


def check_default_tier_has_a_row(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W061: until it has, its tenants are counted but not limited."""
    return [
        _missing_tier(conf.DEFAULT_TIER, "DEFAULT_TIER: its tenants", "W061")
        for alias in ready(databases)
        if not Tier.objects.using(alias).filter(slug=conf.DEFAULT_TIER).exists()
    ]


def check_anonymous_tier_has_a_row(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W062: until it has, callers without a tenant are counted but not limited."""
    return [
        _missing_tier(conf.ANONYMOUS_TIER, "ANONYMOUS_TIER: callers without a tenant", "W062")
        for alias in ready(databases)
        if conf.ANONYMOUS_TIER and not Tier.objects.using(alias).filter(slug=conf.ANONYMOUS_TIER).exists()
    ]


def _missing_tier(slug: str | None, whose: str, number: str) -> CheckMessage:
    return checks.Warning(
        f"There is no tier {slug!r}, which is {whose} are counted but not limited.",
        f"Make it in the admin, under Tiers; or in a shell by Tier.objects.create(slug={slug!r}), and its limits.",
        id=f"tenantlimits.{number}",
    )


def check_tiers_in_use_have_limits(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W063: the tenants of a tier without limits are unlimited."""
    return [
        checks.Warning(
            f"Tier {tier.slug} has no limits, so that its tenants are unlimited.",
            "Give it limits; where its tenants shall be unlimited, one that says so.",
            id="tenantlimits.W063",
        )
        for alias in ready(databases)
        for tier in Tier.objects.using(alias).filter(limits=None)
        if tier.is_in_use()
    ]


def ready(databases: Sequence[str] | None) -> list[str]:
    """Those of the databases that keep our tables, and have them by now: `migrate` checks before it makes them.

    None while a setting is wrong, which its own check says.
    """
    if check_names() or check_values():
        return []
    ours = [alias for alias in databases or () if router.allow_migrate_model(alias, Tier)]
    tables = {model._meta.db_table for model in (Tier, Limit, Share, Tenant, Override, UsageHour)}
    return [alias for alias in ours if tables <= set(connections[alias].introspection.table_names())]
