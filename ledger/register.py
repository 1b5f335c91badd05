"""Collects the declarations in each installed app's `record_register` module.

The ledger imports none of the packages whose rows it holds to their events; they say here what it must know of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from uuid import UUID

from django.apps import apps

from ledger.verification.rules.rebuilding import RecordTable
from ledger.verification.rules.stored_record import RecordBroken


def read_registers(name: str) -> list[Any]:
    """The value of `name` in each app's `record_register`, in the order of the apps."""
    modules = [f"{config.name}.record_register" for config in apps.get_app_configs()]
    found = [import_module(module) for module in modules if find_spec(module) is not None]
    return [getattr(module, name) for module in found if hasattr(module, name)]


@cache
def record_tables() -> tuple[RecordTable, ...]:
    """Every table whose rows follow from events."""
    return tuple(table for each in read_registers("RECORD_TABLES") for table in each)


@cache
def tables_of(kind: str) -> tuple[RecordTable, ...]:
    """Return the tables in which a subject of this kind has rows of its own."""
    return tuple(table for table in record_tables() if table.place and kind in table.subjects)


@cache
def tenant_checks() -> tuple[Callable[[UUID], Iterable[RecordBroken]], ...]:
    """Return further checks of a tenant, each of which returns its findings."""
    return tuple(check for each in read_registers("TENANT_CHECKS") for check in each)


def excluded_tables() -> Mapping[str, str]:
    """The tables that are not compared with events, and why."""
    return {model: reason for each in read_registers("OUTSIDE") for model, reason in each.items()}


@cache
def recovery_tables() -> Mapping[str, Mapping[str, str]]:
    """The recovery tables that are built in: by the digest of their rows, the action of each row by its id."""
    return {digest: rows for each in read_registers("RECOVERY_TABLES") for digest, rows in each.items()}
