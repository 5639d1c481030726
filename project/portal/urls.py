"""Addresses of the portal's pages, and of its API."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from project.portal import api, views

app_name = "portal"
urlpatterns = [
    path("", views.landing, name="landing"),
    path("healthz", views.healthz, name="healthz"),
    path("login/", LoginView.as_view(template_name="portal/login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("portal/", views.home, name="home"),
    path("portal/projects/", views.add_project, name="add-project"),
    path("portal/uploads/", views.upload, name="upload"),
    path("portal/exports/", views.export, name="export"),
    path("portal/keys/", views.keys, name="keys"),
    path("portal/keys/add/", views.add_key, name="add-key"),
    path("portal/keys/<int:pk>/revoke/", views.revoke_key, name="revoke-key"),
    path("portal/organisations/<slug:slug>/", views.choose_organisation, name="choose"),
    path("api/projects/", api.Projects.as_view(), name="api-projects"),
    path("api/uploads/", api.Uploads.as_view(), name="api-uploads"),
    path("api/uploads/batch/", api.UploadBatch.as_view(), name="api-batch"),
    path("api/exports/", api.Exports.as_view(), name="api-exports"),
    path("webhooks/<slug:slug>/", api.Webhooks.as_view(), name="webhooks"),
]
