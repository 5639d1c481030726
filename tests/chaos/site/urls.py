"""The views of the scenarios, and one for each thing that a lane may do without a store."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from tenantlimits.decorators import limited
from tests.scenarios.site.urls import urlpatterns as of_the_scenarios


@limited(lane="open")
def allowing(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


@limited(lane="shut")
def refusing(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


urlpatterns = [*of_the_scenarios, path("open/", allowing), path("shut/", refusing)]
