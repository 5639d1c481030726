"""A Decision as HTTP: status, fields, problem+json or a page.

    if decision.refused:
        return refusal(decision, request)
    add_fields(response, decision)

`problem` is the body alone (RFC 9457), for surfaces that write their own response; `limit_fields` the fields alone.
"""

from tenantlimits.responses.fields import limit_fields
from tenantlimits.responses.problems import problem, status_of, unit_of
from tenantlimits.responses.refusals import add_fields, refusal

__all__ = ["add_fields", "limit_fields", "problem", "refusal", "status_of", "unit_of"]
