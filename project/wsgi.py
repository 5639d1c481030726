"""The demo under WSGI; it serves its own static files, so that gunicorn is all it needs."""

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = StaticFilesHandler(get_wsgi_application())
