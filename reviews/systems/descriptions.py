"""Descriptions of systems: those that come with the product, and those of this installation.

An installation keeps its own in the folder `COUNTERFOIL_SYSTEMS_DIR`, one file for each, named like the description.
A file is read each time that its pattern is named; one with a fault is refused with its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from django.conf import settings

from reviews.systems.rules.description import BadDescription, Description, parse_description

_NAME = re.compile(r"[a-z][a-z0-9_]{1,31}")


@cache
def shipped_descriptions() -> Mapping[str, Description]:
    """The descriptions that come with the product, by name."""
    found = [
        parse_description(json.loads(file.read_bytes()))
        for file in files("reviews.systems").iterdir()
        if file.name.endswith(".json")
    ]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def own_names() -> list[str]:
    """The names of the descriptions of this installation, those with faults among them."""
    folder = settings.COUNTERFOIL_SYSTEMS_DIR
    return sorted(each.stem for each in Path(folder).glob("*.json") if _NAME.fullmatch(each.stem)) if folder else []


def own_description(name: str) -> Description | None:
    """The installation's own description of that name; None if there is none, `BadDescription` if it has faults."""
    folder = settings.COUNTERFOIL_SYSTEMS_DIR
    if not folder or not _NAME.fullmatch(name):
        return None
    path = Path(folder) / f"{name}.json"
    try:
        return _parse(name, path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise BadDescription(f"{path} cannot be read: {problem.strerror}.") from None


@lru_cache(maxsize=64)
def _parse(name: str, content: bytes) -> Description:
    try:
        description = parse_description(json.loads(content))
    except ValueError:
        raise BadDescription(f"The description {name}.json is no JSON.") from None
    except BadDescription as bad:
        raise BadDescription(f"{name}.json: {bad.detail}", errors=bad.errors) from None
    if description.name != name:
        raise BadDescription(f"{name}.json describes {description.name}; a file is named like its description.")
    return description
