from __future__ import annotations

import gc
from importlib import import_module

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"

    def ready(self) -> None:
        # Whoever sends a task must know the broker.
        import_module("console.celery")
        # What is loaded stays to the end of the process: the collector passes over it, and looks at what a request or
        # a task leaves in larger portions.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
