"""The addresses of the demo."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("limits/", include("tenantlimits.urls")),
    path("api/limits/", include("tenantlimits.api.urls")),
    path("", include("project.portal.urls")),
]
