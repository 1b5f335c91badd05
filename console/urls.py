"""Every URL of the product on one screen."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from console import stream
from console.api import operations
from console.api.root import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/stream", stream.changes, name="stream"),
    path("api/v1/", api.urls),
    path(".well-known/jwks.json", operations.jwks_page, name="jwks"),
    path("healthz", operations.healthz_page, name="healthz"),
    path("readyz", operations.readyz_page, name="readyz"),
]
