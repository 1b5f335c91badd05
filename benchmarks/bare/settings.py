"""The product's settings, with the bare side beside it. Nothing of this is ever part of the product."""

from __future__ import annotations

from console.settings import *  # noqa: F403

INSTALLED_APPS += ["django.contrib.admin", "benchmarks.bare"]  # noqa: F405
ROOT_URLCONF = "benchmarks.bare.urls"
