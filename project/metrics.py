"""What Prometheus would read of the demo."""

import os

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tenantlimits.decorators import exempt


@exempt
@staff_member_required
def metrics(_request: HttpRequest) -> HttpResponse:
    """For staff, here; a site would let its Prometheus in and nobody else."""
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # prometheus_client types it not yet
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
