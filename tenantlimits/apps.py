"""The app as Django sees it."""

from importlib.util import find_spec

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _


class TenantLimitsConfig(AppConfig):
    """Connects what listens, once all models are there."""

    name = "tenantlimits"
    label = "tenantlimits"
    verbose_name = _("Tenant limits")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks, record every change of our rows (also by a host's proxy models), and move its stamps."""
        from tenantlimits import changes, checks, gate, tenancy  # noqa: PLC0415 - models may be imported only now

        gate.connect()
        tenancy.tag_log_records()
        for model in apps.get_models():
            if issubclass(model, changes.Recorded):
                changes.watch(model)
        checks.register()
        if find_spec("prometheus_client"):
            from tenantlimits import metrics  # noqa: PLC0415 - there is no such module for who has not installed it

            metrics.connect()
