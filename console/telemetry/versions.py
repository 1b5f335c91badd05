"""The versions that may run on a database (docs/upgrades.md).

A migration only adds, so that the version before it goes on beside it. One that takes something away says in its name
which version was the first that needs it no more: `0009_from_0_2_without_old_names`. Earlier ones are not ready then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import Final

CONTRACT: Final = r"^\d{4}_from_\d+_\d+_"
"""The names of migrations that take something away, for the database and for Python."""

Minor = tuple[int, int]


@cache
def own_minor() -> Minor:
    """The version of this program, without its patch number: patches of one version share a database."""
    major, minor = version("counterfoil").split(".")[:2]
    return int(major), int(minor)


def lowest_minor(migrations: Iterable[str]) -> Minor:
    """The lowest version that may run where these migrations have run."""
    found = [re.match(r"\d{4}_from_(\d+)_(\d+)_", name) for name in migrations]
    return max(((int(each[1]), int(each[2])) for each in found if each), default=(0, 0))


def exclusion(lowest: Minor) -> str:
    """The end of the sentence that says which versions a database is for, where this one is not among them."""
    return f"for version {_text(lowest)} and later; this is {_text(own_minor())}."


def _text(minor: Minor) -> str:
    return f"{minor[0]}.{minor[1]}"
