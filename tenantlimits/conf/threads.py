"""Whether this process may run threads: ours renew leases, ask whether a store is back, and tell it what we counted."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.exceptions import ImproperlyConfigured

WORDS = (
    "uWSGI runs this process without threads: slots of operations that take longer than LEASE_SECONDS would lapse, and "
    "what is decided while the store is away would not be counted."
)
REMEDY = "Set enable-threads = true in uWSGI's configuration."

# Any of these runs threads; gevent has its own in their place.
_OPTIONS = ("enable-threads", "threads", "gevent")
_OFF = ("false", "off", "no", "0")


def refuse_missing() -> None:
    """ImproperlyConfigured where uWSGI was not told to run threads. The module is there only inside uWSGI."""
    try:
        options: Any = import_module("uwsgi").opt  # it has no types: str to bytes, to a list of them, or to True
    except (ImportError, AttributeError):
        return
    if not any(_is_on(options.get(name)) for name in _OPTIONS):
        raise ImproperlyConfigured(f"{WORDS} {REMEDY}")


def _is_on(value: object) -> bool:
    last = value[-1] if isinstance(value, list) and value else value
    text = last.decode(errors="replace") if isinstance(last, bytes) else str(last)
    return bool(last) and text.lower() not in _OFF
