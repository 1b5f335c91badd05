"""Two chains of middleware: a machine that calls the API with its key needs none of what sessions and pages need."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")


class KeyHandler(WSGIHandler):
    """Django's handler with the middleware of `settings.COUNTERFOIL_KEY_MIDDLEWARE`."""

    def load_middleware(self, is_async: bool = False) -> None:
        # Django knows one list, and reads it here alone, before the first request.
        every = settings.MIDDLEWARE
        settings.MIDDLEWARE = settings.COUNTERFOIL_KEY_MIDDLEWARE
        try:
            super().load_middleware(is_async)
        finally:
            settings.MIDDLEWARE = every


_all_requests = get_wsgi_application()
_by_key = KeyHandler()
# Django loads what is behind the addresses with the first request, which takes seconds, and on a busy machine many: a
# process that is ready has done so.
_addresses = get_resolver().url_patterns


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Choose the chain; a cookie may be that of a person, who passes everything."""
    is_by_key = (
        environ["PATH_INFO"].startswith("/api/")
        and environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer ")
        and "HTTP_COOKIE" not in environ
    )
    return (_by_key if is_by_key else _all_requests)(environ, start_response)
