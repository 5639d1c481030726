"""Addresses of the usage API: path("api/limits/", include("tenantlimits.api.urls"))."""

from django.urls import path

from tenantlimits.api.views import LimitsView, UsageView

app_name = "tenantlimits-api"

urlpatterns = [
    path("", LimitsView.as_view(), name="limits"),
    path("usage/", UsageView.as_view(), name="usage"),
]
