"""What the admin's index of this app needs, which no view of ours answers."""

from __future__ import annotations

from django import template
from django.template.context import RequestContext

from tenantlimits.admin.steps import ShownStep, shown, site_steps

register = template.Library()


@register.simple_tag(takes_context=True)
def tenantlimits_steps(context: RequestContext) -> list[ShownStep]:
    """What to do next on this site."""
    request = context["request"]
    return shown(site_steps(), request.user, request.current_app)
