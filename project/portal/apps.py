"""The app as Django sees it."""

from django.apps import AppConfig


class PortalConfig(AppConfig):
    """The client portal."""

    name = "project.portal"
    label = "portal"
    verbose_name = "Client portal"
