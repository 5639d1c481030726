"""What the portal keeps. An organisation is a tenant, and its slug the tenant's key."""

from __future__ import annotations

import hashlib
import secrets

from django.conf import settings
from django.db import models
from django.utils import timezone


def new_secret() -> str:
    """256 bits that nobody can guess, so that a plain SHA-256 of them gives nothing away."""
    return secrets.token_urlsafe(32)


def new_prefix() -> str:
    """What a key is found by. It is no secret."""
    return secrets.token_hex(5)


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Organisation(models.Model):
    """A customer. Its webhook secret is kept as it is, since the signatures of its webhooks are computed with it."""

    slug = models.SlugField(max_length=50, unique=True)
    name = models.CharField(max_length=100)
    webhook_secret = models.CharField(max_length=100, default=new_secret)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member may do: owners also make and revoke API keys."""

    OWNER = "owner"
    MEMBER = "member"


class Membership(models.Model):
    """A login of an organisation. One login may have several."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)

    class Meta:
        ordering = ["organisation__name"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "user"], name="portal_membership_once"),
            models.CheckConstraint(name="portal_membership_role_known", condition=models.Q(role__in=Role.values)),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.organisation}"

    @property
    def is_owner(self) -> bool:
        """Whether they may make and revoke keys."""
        return self.role == Role.OWNER


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    """API keys, made and found."""

    def issue(self, organisation: Organisation, name: str) -> tuple[ApiKey, str]:
        """A new key, and its token: the only time that anybody sees it."""
        secret = new_secret()
        key = self.create(organisation=organisation, name=name, digest=digest(secret))
        return key, f"{key.prefix}.{secret}"

    def in_force(self, prefix: str) -> ApiKey | None:
        """The key of that prefix, with its organisation, unless it was revoked."""
        return self.select_related("organisation").filter(prefix=prefix, revoked_at=None).order_by().first()


class ApiKey(models.Model):
    """A credential of an organisation: it acts for all of it, and outlives the member who made it."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=20, unique=True, default=new_prefix, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"

    def revoke(self) -> None:
        """End it, from the next request on."""
        self.revoked_at = timezone.now()
        self.save(update_fields=["revoked_at"])


class Project(models.Model):
    """What customers work on."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="projects")
    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Upload(models.Model):
    """A file that was sent; the demo remembers it, and throws its bytes away."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="uploads")
    name = models.CharField(max_length=255)
    size = models.PositiveBigIntegerField(help_text="In bytes.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name


class Export(models.Model):
    """A report that took its time."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="exports")
    rows = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.rows} rows"


class Delivery(models.Model):
    """A webhook of a third party."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=100)
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-received_at", "-pk"]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return self.event
