"""The domain's enums as choices of a field: the values are theirs, the words are translated."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from tenantlimits.domain import limits


class Kind(models.TextChoices):
    """How a limit counts."""

    TOKEN_BUCKET = limits.Kind.TOKEN_BUCKET.value, _("token bucket")
    SLIDING_LOG = limits.Kind.SLIDING_LOG.value, _("sliding log")
    CALENDAR_QUOTA = limits.Kind.CALENDAR_QUOTA.value, _("calendar quota")
    SLIDING_COUNTER = limits.Kind.SLIDING_COUNTER.value, _("sliding counter")
    CONCURRENCY = limits.Kind.CONCURRENCY.value, _("concurrency")


class Layer(models.TextChoices):
    """Who is counted."""

    TENANT = limits.Layer.TENANT.value, _("tenant")
    USER = limits.Layer.USER.value, _("user")
    CREDENTIAL = limits.Layer.CREDENTIAL.value, _("credential")


class Counts(models.TextChoices):
    """What is counted."""

    REQUESTS = limits.Counts.REQUESTS.value, _("requests")
    COST = limits.Counts.COST.value, _("cost")


class Guarantee(models.TextChoices):
    """What the number means to the customer."""

    CONTRACT = limits.Guarantee.CONTRACT.value, _("contract")
    FUSE = limits.Guarantee.FUSE.value, _("fuse")


class Mode(models.TextChoices):
    """Refuse, count only, or do not ask at all."""

    ENFORCE = limits.Mode.ENFORCE.value, _("enforce")
    OBSERVE = limits.Mode.OBSERVE.value, _("observe")
    OFF = limits.Mode.OFF.value, _("off")
