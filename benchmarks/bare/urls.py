from __future__ import annotations

from django.contrib import admin
from django.urls import path

from benchmarks.bare.api import api
from console.urls import urlpatterns as product

known_by_key = api.urls
for each in known_by_key[0]:
    each.callback.login_required = False  # type: ignore[union-attr]

urlpatterns = [*product, path("bare/", known_by_key), path("admin/", admin.site.urls)]
