"""What every answer tells the browser: run nothing, load nothing and frame nothing that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

CONTENT: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
# Passkeys answer this page alone, never a frame.
FEATURES: Final = (
    "camera=(), geolocation=(), microphone=(), payment=(), usb=(),"
    " publickey-credentials-create=(self), publickey-credentials-get=(self)"
)


def security_headers(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware; an answer that has set its own policy keeps it."""

    def with_headers(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT)
        response.headers.setdefault("Permissions-Policy", FEATURES)
        return response

    return with_headers
