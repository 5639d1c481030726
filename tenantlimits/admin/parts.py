"""What stands on a tier's own page: whoever may change the tier may change it, for it is the tier."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from django.db.models import Model
from django.http import HttpRequest


class PartOfTier:
    """For an inline: the permissions of the tier are its own."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perms(["tenantlimits.view_tier"]) or self.has_change_permission(request, obj)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("tenantlimits.add_tier" if obj is None else "tenantlimits.change_tier")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("tenantlimits.change_tier")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)
