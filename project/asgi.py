"""The demo under ASGI; it serves its own static files, so that uvicorn is all it needs."""

import os

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = ASGIStaticFilesHandler(get_asgi_application())
