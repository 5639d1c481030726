"""Errors of the API as problem+json (RFC 9457), whatever the host's own exception handler makes of errors elsewhere."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.views import exception_handler

MEDIA_TYPE = "application/problem+json"


class BadParameter(APIException):
    """A parameter that is not known, or a value that it cannot have; `detail` says what to write instead."""

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "bad_parameter"

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(detail)
        self.parameter = parameter


def as_problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """The answer to an error, in place of DRF's own body; None for what is no answer but a fault."""
    response = exception_handler(error, context)
    if response is None:
        return None
    code = HTTPStatus(response.status_code)
    detail = response.data.get("detail", "") if isinstance(response.data, dict) else ""
    response.data = {"type": "about:blank", "title": code.phrase, "status": code.value, "detail": str(detail)}
    if isinstance(error, BadParameter):
        response.data["parameter"] = error.parameter
    return response
