"""The product's settings plus those of the bare side; never part of the product."""

from __future__ import annotations

from console.settings import *  # noqa: F403

if len(INSTALLED_APPS) > 1:  # noqa: F405
    # Not in the processes that know the record alone.
    INSTALLED_APPS += ["django.contrib.admin", "benchmarks.bare"]  # noqa: F405
ROOT_URLCONF = "benchmarks.bare.urls"
