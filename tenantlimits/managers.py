"""Querysets whose bulk operations are recorded row by row, as single saves are, or refused where they cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NoReturn, Self, TypeVar

from django.db import models, transaction

from tenantlimits.changes import Keys, Recorded, merged, record, stored, tell
from tenantlimits.domain.errors import InvalidOverride, TenantLimitsError

R = TypeVar("R", bound=Recorded)
M = TypeVar("M", bound=models.Model)

CHUNK = 500
"""Rows that are remembered and written at once: bounds memory, not the operation."""


class RecordedQuerySet(models.QuerySet[R]):
    """Its update, bulk_create, bulk_update and delete, and their async twins, are logged and move stamps.

    Each is a transaction of its own inside the caller's, which a refusal leaves usable.
    """

    def update(self, **values: Any) -> int:
        """A row that breaks a rule takes everything back."""
        self._for_write = True
        with transaction.atomic(using=self.db):
            pks = list(self.order_by().values_list("pk", flat=True))
            chunks = [pks[start : start + CHUNK] for start in range(0, len(pks), CHUNK)]
            keys: Keys = frozenset()
            for chunk in chunks:
                keys = merged(keys, self._update_chunk(chunk, values))
            tell(self.model, keys, using=self.db)
        return len(pks)

    update.alters_data = True  # type: ignore[attr-defined]  # Django's mark for templates

    def _update_chunk(self, pks: list[Any], values: dict[str, Any]) -> Keys:
        before = stored(self.model, pks, using=self.db)
        models.QuerySet.update(self.filter(pk__in=pks), **values)
        after = stored(self.model, pks, using=self.db)
        for row in after.values():
            row.check_rules()
        return record(before, after, using=self.db)

    def bulk_create(self, objs: Iterable[R], batch_size: int | None = None, *args: Any, **options: Any) -> list[R]:
        """New rows only. `args` and `options` say what to do on a conflict, and stay empty."""
        if any(args) or any(options.values()):
            raise TypeError("What a conflict left could not be logged: use get_or_create or update_or_create.")
        rows = list(objs)
        self._for_write = True
        with transaction.atomic(using=self.db):
            for row in rows:
                row.check_rules()
            created = super().bulk_create(rows, batch_size=batch_size)
            after = stored(self.model, [row.pk for row in created], using=self.db)
            tell(self.model, record({}, after, using=self.db), using=self.db)
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]  # as above

    def bulk_update(self, objs: Iterable[R], fields: Iterable[str], batch_size: int | None = None) -> int:
        """Django writes it by `update`, in batches."""
        self._for_write = True
        with transaction.atomic(using=self.db):
            return super().bulk_update(objs, fields, batch_size=batch_size)

    bulk_update.alters_data = True  # type: ignore[attr-defined]  # as above

    def delete(self) -> tuple[int, dict[str, int]]:
        """Every row's own signals record it. A row that has to stay takes everything back."""
        self._for_write = True
        with transaction.atomic(using=self.db):
            return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]  # as above
    delete.queryset_only = True  # type: ignore[attr-defined]  # else `objects.delete()` would empty the table


class TenantQuerySet(RecordedQuerySet[R]):
    """Tenants, and the one that stands for callers without any."""

    def anonymous(self) -> R:
        """The tenant of callers without one, whose key is empty; made where a flush took the migration's row."""
        return self.get_or_create(key="", defaults={"name": "Anonymous callers"})[0]


class OverrideQuerySet(RecordedQuerySet[R]):
    """Overrides are written one by one, where the tenant's row can be locked, and never deleted."""

    def live(self, start: datetime, end: datetime) -> Self:
        """Those, not revoked, that are in force at some instant from `start` to just before `end`."""
        return self.filter(revoked_at=None, starts_at__lt=end, expires_at__gt=start)

    def lending(self, slug: str, now: datetime) -> Self:
        """Those that lend the tier now or will."""
        return self.filter(revoked_at=None, expires_at__gt=now, target=f"tier:{slug}")

    def update(self, **_values: Any) -> NoReturn:
        raise InvalidOverride(
            "Overrides of one target must not overlap, which a bulk update cannot see: save each of them."
        )

    def bulk_update(self, *_args: object, **_options: object) -> NoReturn:
        self.update()

    def bulk_create(self, *_args: object, **_options: object) -> NoReturn:
        raise InvalidOverride("Overrides of one target must not overlap: grant each of them with grant_override.")

    def delete(self) -> NoReturn:
        raise InvalidOverride("Overrides are kept for good: revoke them with revoke_override, with a reason.")

    delete.queryset_only = True  # type: ignore[attr-defined]  # else `objects.delete()` would exist


class ChangeQuerySet(models.QuerySet[M]):
    """The log can be read and added to."""

    def update(self, **_values: Any) -> NoReturn:
        raise TenantLimitsError("The change log is append-only: write what is right now as a change of its own.")

    def bulk_update(self, *_args: object, **_options: object) -> NoReturn:
        self.update()

    def delete(self) -> NoReturn:
        raise TenantLimitsError("The change log is append-only: its lines stay.")

    delete.queryset_only = True  # type: ignore[attr-defined]  # else `objects.delete()` would exist
