"""The site for uvicorn: python -m tests.scenarios.site.asgi FD serves it on a socket that is open already."""

import socket
import sys

import uvicorn
from django.core.asgi import get_asgi_application

application = get_asgi_application()

if __name__ == "__main__":
    # A client that goes is noticed by its connection; nobody should wait for one that stays when the test is over.
    config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1, lifespan="off")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
