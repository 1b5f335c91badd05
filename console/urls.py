"""Every URL of the product on one screen."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from console import stream
from console.api import operations
from console.api.root import api


# The API answers for itself who may call it, with a problem instead of a sign-in page.
known_by_key = api.urls
for each in known_by_key[0]:
    each.callback.login_required = False  # type: ignore[attr-defined]

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/stream", stream.changes, name="stream"),
    path("api/v1/", known_by_key),
    path(".well-known/jwks.json", operations.jwks_page, name="jwks"),
    path("healthz", operations.healthz_page, name="healthz"),
    path("readyz", operations.readyz_page, name="readyz"),
]
