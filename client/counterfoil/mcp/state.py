"""The gateway's memory between two runs: title and annotations as first seen under a handwritten contract that names
neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from counterfoil.mcp.settings import Settings


@contextmanager
def first_texts(settings: Settings) -> Iterator[MutableMapping[str, str]]:
    """The pins by contract and version, written back if one was added.

    If we crash before they are written, the next run pins what it sees then.
    """
    file = settings.executor_jwk.with_suffix(".seen.json")
    try:
        pins: dict[str, str] = json.loads(file.read_text())
    except (OSError, ValueError):
        pins = {}
    before = dict(pins)
    yield pins
    if pins != before:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(pins, indent=1, sort_keys=True))
        new.replace(file)
