"""Three customers on three plans. Doing it again changes nothing, except that passwords and keys are new."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import transaction

from project.portal.models import ApiKey, Membership, Organisation, Role
from tenantlimits.changes import acting
from tenantlimits.domain.limits import ALL_LANE, parse_amount
from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.models.choices import Counts, Guarantee, Kind, Mode

KEY_NAME = "Demo"


@dataclass(frozen=True, slots=True)
class Row:
    """A limit of every tier: amounts of free, pro and enterprise as the admin takes them, and bursts of buckets."""

    name: str
    lane: str
    amounts: tuple[str, str, str]
    bursts: tuple[int, int, int] | None = None
    counts: Counts = Counts.COST
    guarantee: Guarantee = Guarantee.CONTRACT


TIERS = {"free": "Free", "pro": "Pro", "enterprise": "Enterprise"}
# By design.md: lane `all` as R1 says; the lanes as K1 says for enterprise, a fifth of it for pro, a fiftieth for free.
LIMITS = (
    Row("all-rate", ALL_LANE, ("2/s", "20/s", "100/s"), (10, 60, 300), Counts.REQUESTS),
    Row("all-running", ALL_LANE, ("2", "6", "20")),
    Row("reads-rate", "reads", ("8/5s", "16/s", "80/s"), (100, 1000, 5000)),
    Row("uploads-rate", "uploads", ("1/25s", "2/5s", "2/s"), (4, 40, 200)),
    # A fiftieth of a burst of 20 would be less than one export.
    Row("exports-rate", "exports", ("18/5h", "3/5min", "3/min"), (1, 4, 20)),
    Row("exports-running", "exports", ("1", "2", "10")),
    # What third parties send is not the tenant's doing: this only shields the site from them.
    Row("webhooks-rate", "webhooks", ("5/s", "20/s", "50/s"), (50, 200, 500), Counts.REQUESTS, Guarantee.FUSE),
)


@dataclass(frozen=True, slots=True)
class Customer:
    """An organisation, its plan, and who of it has a login."""

    slug: str
    name: str
    tier: str
    members: Mapping[str, Role]


# Ada works for two organisations. Nobody of cedar, and nothing of it, may ever show up anywhere else.
CUSTOMERS = (
    Customer("acme", "Acme", "pro", {"ada": Role.OWNER, "amir": Role.MEMBER}),
    Customer("bolt", "Bolt", "enterprise", {"bea": Role.OWNER, "ada": Role.MEMBER}),
    Customer("cedar", "Cedar", "free", {"cleo": Role.OWNER}),
)
STAFF = "staff"


@dataclass(frozen=True, slots=True)
class Seeded:
    """What only now can be told: the password of all demo logins, and the token of each organisation's demo key."""

    password: str
    tokens: Mapping[str, str]

    def lines(self) -> list[str]:
        """Who can log in, with what, for a terminal."""
        logins = [f"{STAFF} (admin)", *(f"{', '.join(one.members)} ({one.name}, {one.tier})" for one in CUSTOMERS)]
        return [
            f"Logins     {'; '.join(logins)}",
            f"Password   {self.password}   (for all of them)",
            *(f"Key {slug:6} Authorization: Bearer {token}" for slug, token in self.tokens.items()),
        ]


def seed() -> Seeded:
    """Write the tiers, customers, logins and keys that are missing, and put back those that were changed."""
    password = secrets.token_urlsafe(9)
    hashed = make_password(password)  # once: it is slow on purpose
    with transaction.atomic(), acting(None, "Demo"):
        for slug, name in TIERS.items():
            _write_tier(slug, name)
        Tier.objects.filter(slug="anonymous").update(mode=Mode.ENFORCE)
        _write_login(STAFF, hashed, is_staff=True)
        tokens = {customer.slug: _write_customer(customer, hashed) for customer in CUSTOMERS}
    return Seeded(password, tokens)


def _write_tier(slug: str, name: str) -> None:
    tier = Tier.objects.get_or_create(slug=slug, defaults={"name": name})[0]
    number = list(TIERS).index(slug)
    for row in LIMITS:
        amount, period = parse_amount(row.amounts[number])
        values = {
            "lane": row.lane,
            "kind": Kind.CONCURRENCY if row.bursts is None else Kind.TOKEN_BUCKET,
            "amount": int(amount),
            "period_seconds": period,
            "burst": None if row.bursts is None else row.bursts[number],
            "counts": row.counts,
            "guarantee": row.guarantee,
        }
        Limit.objects.update_or_create(tier=tier, name=row.name, defaults=values)


def _write_customer(customer: Customer, password: str) -> str:
    """Answers the token of its demo key, which takes the place of the one before."""
    organisation = Organisation.objects.get_or_create(slug=customer.slug, defaults={"name": customer.name})[0]
    tier = Tier.objects.get(slug=customer.tier)
    Tenant.objects.update_or_create(key=customer.slug, defaults={"name": customer.name, "tier": tier})
    for username, role in customer.members.items():
        user = _write_login(username, password, is_staff=False)
        Membership.objects.update_or_create(organisation=organisation, user=user, defaults={"role": role})
    for name in ("Website", "Annual report"):
        organisation.projects.get_or_create(name=name)
    ApiKey.objects.filter(organisation=organisation, name=KEY_NAME).delete()
    return ApiKey.objects.issue(organisation, KEY_NAME)[1]


def _write_login(username: str, password: str, *, is_staff: bool) -> User:
    values = {"password": password, "is_staff": is_staff, "is_superuser": is_staff, "is_active": True}
    return User.objects.update_or_create(username=username, defaults=values)[0]
