"""The portal's API, for keys and logins; and the address that third parties call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import ValidationError
from rest_framework.parsers import JSONParser, MultiPartParser
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from project.portal import costs, work
from project.portal.credentials import SignatureAuthentication
from project.portal.models import Delivery, Export, Organisation, Upload
from project.portal.organisations import organisation_of
from tenantlimits.gate import settle

if TYPE_CHECKING:
    from rest_framework.request import Request


class IsMember(BasePermission):
    """Works for an organisation."""

    message = "This needs an API key, or a login that is a member of an organisation."

    def has_permission(self, request: Request, _view: APIView) -> bool:
        """Whether there is one."""
        return organisation_of(request._request) is not None


class PortalView(APIView):
    """A view of the organisation's own things."""

    permission_classes = [IsMember]

    @property
    def organisation(self) -> Organisation:
        """Whose."""
        organisation = organisation_of(self.request._request)
        assert organisation is not None, "IsMember lets nobody else in"
        return organisation


class Projects(PortalView):
    """The organisation's projects."""

    throttle_lane = "reads"

    def get(self, _request: Request) -> Response:
        """Their names."""
        work.read()
        return Response({"projects": list(self.organisation.projects.values("id", "name"))})


class Uploads(PortalView):
    """Send a file, at a unit per megabyte."""

    parser_classes = [MultiPartParser]
    throttle_lane = "uploads"
    throttle_cost = costs.declared

    def post(self, request: Request) -> Response:
        """Keep it. What the body's length said is corrected by the file's own size before the work starts."""
        file = request.FILES.get("file")
        if file is None:
            raise ValidationError({"file": "Send the file as multipart/form-data, in the field `file`."})
        cost = costs.megabytes(file.size)
        settle(cost=cost)
        upload = Upload.objects.create(organisation=self.organisation, name=file.name[:255], size=file.size)
        return Response({"id": upload.pk, "name": upload.name, "size": upload.size, "cost": cost}, status=201)


class UploadBatch(PortalView):
    """Send many pictures at once, which costs as much as sending each of them."""

    parser_classes = [MultiPartParser]
    throttle_lane = "uploads"
    throttle_cost = costs.pictures

    def post(self, request: Request) -> Response:
        """Keep them all."""
        files: list[Any] = request.FILES.getlist("pictures")
        if not files:
            raise ValidationError({"pictures": "Send pictures as multipart/form-data, in fields `pictures`."})
        rows = [Upload(organisation=self.organisation, name=file.name[:255], size=file.size) for file in files]
        Upload.objects.bulk_create(rows)
        return Response({"uploads": len(rows), "cost": costs.pictures(request)}, status=201)


class Exports(PortalView):
    """Reports. They are slow, so a tenant has few at a time."""

    throttle_lane = "exports"

    def post(self, _request: Request) -> Response:
        """Make one."""
        work.export()
        export = Export.objects.create(organisation=self.organisation, rows=self.organisation.projects.count())
        return Response({"id": export.pk, "rows": export.rows}, status=201)


class Webhooks(APIView):
    """What third parties tell us of an organisation. Their calls are in a lane of their own, outside its total."""

    authentication_classes = [SignatureAuthentication]
    parser_classes = [JSONParser]
    throttle_lane = "webhooks"

    def post(self, request: Request, **_kwargs: str) -> Response:
        """Take it down."""
        event = str(request.data.get("event", "unknown"))[:100] if isinstance(request.data, dict) else "unknown"
        organisation = organisation_of(request._request)
        assert organisation is not None, "a request without a signature does not get here"
        Delivery.objects.create(organisation=organisation, event=event)
        return Response(status=202)
