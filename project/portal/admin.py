"""The portal's own rows in the admin, where staff make organisations and members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from project.portal.models import Membership, Organisation

if TYPE_CHECKING:
    OrganisationBase = admin.ModelAdmin[Organisation]
    MembershipBase = admin.TabularInline[Membership, Organisation]
else:  # which take their types only while types are checked
    OrganisationBase, MembershipBase = admin.ModelAdmin, admin.TabularInline


class MembershipInline(MembershipBase):
    """Its members."""

    model = Membership
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Organisation)
class OrganisationAdmin(OrganisationBase):
    """Customers. The webhook secret is shown to nobody."""

    list_display = ["name", "slug"]
    search_fields = ["name", "slug"]
    exclude = ["webhook_secret"]
    inlines = [MembershipInline]
