"""Who changed what and why: the one place that writes the change log and says that policies differ.

A `Recorded` row is remembered before it is written, and compared with what the database holds afterwards, in one
transaction. Django's signals do that for save, delete and loaddata (`watch`), managers.py for bulk operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from django.apps import apps
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ObjectDoesNotExist
from django.db import models, router, transaction
from django.db.models.signals import post_delete, post_save, pre_delete, pre_save

from tenantlimits.signals import policy_changed

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser
    from django.db.models.base import ModelBase

CREATED, CHANGED, DELETED, INVALIDATED, FREED = "created", "changed", "deleted", "invalidated", "freed"

Keys = frozenset[str] | None
"""Keys of the tenants whose policy may differ; None for every tenant."""

MOST_KEYS = 1000
"""More keys than that become None: the stamps of all shards are fewer than those of so many tenants."""


@dataclass(frozen=True, slots=True)
class Acting:
    """Who is at work, and why. No user: a script or the system."""

    user: AbstractBaseUser | None = None
    reason: str = ""


_acting: ContextVar[Acting | None] = ContextVar("tenantlimits_acting", default=None)


@contextmanager
def acting(user: AbstractBaseUser | AnonymousUser | None, reason: str = "") -> Iterator[None]:
    """Name who makes the changes inside the block, and why. A user who is not logged in is nobody."""
    token = _acting.set(Acting(user if isinstance(user, AbstractBaseUser) else None, reason))
    try:
        yield
    finally:
        _acting.reset(token)


def current_acting() -> Acting:
    """Who is at work now, and why."""
    return _acting.get() or Acting()


def actor_pk() -> Any:  # Any: as the user model types it
    """Primary key of who is at work now; None where it is nobody."""
    user = current_acting().user
    return None if user is None else user.pk


class Owner(Protocol):
    """A tenant, as far as the log has to know it."""

    pk: Any  # Any: the type of Django's own attribute

    @property
    def key(self) -> str: ...


class Recorded(models.Model):
    """A row whose every change is kept in the log and moves the policies that it is part of."""

    class Meta:
        abstract = True

    before: Self | None = None
    """What the database held before the write that is under way."""

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            self.check_rules()
            super().save(force_insert=force_insert, force_update=force_update, using=using, update_fields=update_fields)

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        # Of its own, so that a refusal leaves an outer transaction usable.
        with transaction.atomic(using=using or router.db_for_write(type(self), instance=self)):
            return super().delete(using=using, keep_parents=keep_parents)

    def check_rules(self) -> None:
        """Raise an error of this package where the row may not be written as it is."""

    def check_delete(self) -> None:
        """Raise an error where the row has to stay."""

    def owner(self) -> Owner | None:
        """The tenant whose policy alone this row is part of; None where it is part of everyone's."""
        return None

    def log_name(self) -> str:
        """What the log calls this row where another one refers to it."""
        return str(self)

    def logged(self, field: models.Field[Any, Any]) -> object:
        """The value of a field as the log words it: of a row that it leads to, the name."""
        value: object = getattr(self, field.attname)
        row = related(self, field.name) if field.is_relation else None
        if isinstance(row, AbstractBaseUser):
            return row.get_username()
        return row.log_name() if isinstance(row, Recorded) else value

    def announce(self, before: Self | None, *, using: str) -> None:
        """Send the public signal of a change from `before`, when it is committed."""


def related(row: models.Model, name: str) -> Any:  # Any: whatever the foreign key leads to
    """The related row, or None where there is none (yet: loaddata may write it later)."""
    try:
        return getattr(row, name)
    except ObjectDoesNotExist:
        return None


Rows = Mapping[Any, Recorded]
"""Rows by primary key (Any: as Django types it)."""


def stored(model: type[Recorded], pks: Iterable[object], *, using: str) -> Rows:
    """The rows as the database holds them, with what they lead to."""
    foreign = [field.name for field in model._meta.concrete_fields if field.is_relation]
    # Unordered: the order of limits would join their tier, which a fixture may bring only later.
    rows = model._base_manager.using(using).order_by().filter(pk__in=[pk for pk in pks if pk is not None])
    return {row.pk: row for row in rows.prefetch_related(*foreign)}


def record(before: Rows, after: Rows, *, using: str) -> Keys:
    """Write a line of the log for each row that differs, and answer whose policies may differ (see `tell`)."""
    log = apps.get_model("tenantlimits", "Change")
    pairs = [(before.get(pk), after.get(pk)) for pk in {**before, **after}]
    differing = [(old, new, changes) for old, new in pairs if (changes := differences(old, new))]
    log._base_manager.using(using).bulk_create([log(**_line(*line)) for line in differing])
    for old, new, _changes in differing:
        if new is not None:
            new.announce(old, using=using)
    return _keys(row for pair in pairs for row in pair if row is not None)


def tell(model: type[Recorded], keys: Keys, *, using: str) -> None:
    """Say whose policies may differ. Nobody's: nothing is said."""
    if keys is None or keys:
        tenants = None if keys is None or len(keys) > MOST_KEYS else keys
        policy_changed.send(sender=model, tenants=tenants, using=using)


def merged(one: Keys, other: Keys) -> Keys:
    """The tenants of both."""
    return None if one is None or other is None else one | other


def differences(old: Recorded | None, new: Recorded | None) -> dict[str, list[object]]:
    """`{field: [old, new]}` of every field that differs; of a new or deleted row, every field that is not blank."""
    row = new or old
    assert row is not None
    changes = {}
    for field in row._meta.concrete_fields:
        words = [None if side is None else side.logged(field) for side in (old, new)]
        if not field.primary_key and words[0] != words[1] and set(words) - {None, ""}:
            changes[field.name] = words
    return changes


def _line(old: Recorded | None, new: Recorded | None, changes: dict[str, list[object]]) -> dict[str, object]:
    row = new or old
    assert row is not None
    action = CREATED if old is None else DELETED if new is None else CHANGED
    return line(action, row, changes=changes, gone=new is None)


def line(action: str, row: Recorded, *, changes: Mapping[str, list[object]], gone: bool = False) -> dict[str, object]:
    """The fields of a line of the log, by whoever is acting now."""
    who, owner = current_acting(), _owner(row)
    # Of a tenant that is gone only the name stays.
    tenant = None if owner is None or (gone and isinstance(owner, type(row))) else owner
    return {
        "action": action,
        "model": row._meta.model_name,
        "object": _title(row),
        "object_id": row.pk,
        "tenant_id": None if tenant is None else tenant.pk,
        "actor_id": actor_pk(),
        "actor_name": who.user.get_username() if who.user else "",
        "reason": who.reason,
        "changes": changes,
    }


def _title(row: Recorded) -> str:
    try:
        return str(row)[:255]
    except ObjectDoesNotExist:
        return f"{row._meta.verbose_name} {row.pk}"


def _owner(row: Recorded) -> Owner | None:
    try:
        return row.owner()
    except ObjectDoesNotExist:
        return None


def _keys(rows: Iterable[Recorded]) -> Keys:
    owners = [_owner(row) for row in rows]
    return None if None in owners else frozenset(owner.key for owner in owners if owner)


def watch(model: type[Recorded]) -> None:
    """Record every save, delete and loaddata of the model."""
    for signal, receiver in _RECEIVERS:
        signal.connect(receiver, sender=model, dispatch_uid=f"tenantlimits.changes.{model._meta.label}")


def _remember(sender: type[Recorded], instance: Recorded, using: str, **_kwargs: object) -> None:
    # Unlocked: of two writers at the same instant the log may name the same old value twice; the rows are right.
    instance.before = stored(sender, [instance.pk], using=using).get(instance.pk)


def _refuse_delete(sender: type[Recorded], instance: Recorded, using: str, **_kwargs: object) -> None:
    instance.check_delete()
    _remember(sender, instance, using)


def _record_saved(sender: type[Recorded], instance: Recorded, using: str, **_kwargs: object) -> None:
    before = {} if instance.before is None else {instance.pk: instance.before}
    tell(sender, record(before, stored(sender, [instance.pk], using=using), using=using), using=using)
    instance.before = None


def _record_deleted(sender: type[Recorded], instance: Recorded, using: str, **_kwargs: object) -> None:
    before = {} if instance.before is None else {instance.pk: instance.before}
    tell(sender, record(before, {}, using=using), using=using)
    instance.before = None


_RECEIVERS = (
    (pre_save, _remember),
    (post_save, _record_saved),
    (pre_delete, _refuse_delete),
    (post_delete, _record_deleted),
)
