"""Addresses of the tenant's own pages: path("limits/", include("tenantlimits.urls"))."""

from django.urls import path

from tenantlimits.views import usage

app_name = "tenantlimits"

urlpatterns = [path("", usage, name="usage")]
