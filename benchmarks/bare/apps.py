from __future__ import annotations

from django.apps import AppConfig


class Bare(AppConfig):
    name = "benchmarks.bare"
    label = "bare"
