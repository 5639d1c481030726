"""The addresses of the demo."""

from django.contrib import admin
from django.urls import include, path

from project.metrics import metrics

urlpatterns = [
    path("admin/", admin.site.urls),
    path("limits/", include("tenantlimits.urls")),
    path("api/limits/", include("tenantlimits.api.urls")),
    path("metrics/", metrics),
    path("", include("project.portal.urls")),
]
