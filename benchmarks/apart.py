"""A process of its own for each benchmark: Django knows one database per process."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from benchmarks.stand import Stand


def apart(stand: Stand, database: str, function: str, *arguments: Any) -> Any:
    """What `module:function` answers in a process that works on this database; the stand comes first."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_run, stand, database, function, arguments).result()


def set_up(stand: Stand, database: str, more: dict[str, str] | None = None) -> None:
    """Make this process one that works on a database of the stand."""
    import django

    os.environ |= stand.environment(database) | (more or {})
    django.setup()


def named(function: str) -> Any:
    module, name = function.split(":")
    return getattr(import_module(module), name)


def _run(stand: Stand, database: str, function: str, arguments: tuple[Any, ...]) -> Any:
    set_up(stand, database)
    return named(function)(stand, *arguments)
