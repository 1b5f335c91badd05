"""The guard's optional extractor, from the file that `COUNTERFOIL_GUARD_EXTRACTOR` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from console.edge.settings_files import UnusableFile
from reviews.guarding.extractor import Extractor

_NAMES = {"url", "model", "key", "timeout_s"}


def load_extractor(file: Path) -> Extractor:
    """Load the address of the extractor of claims; the file holds a key, so only its owner may read it."""
    try:
        if file.stat().st_mode & 0o077:
            raise UnusableFile(f"{file} holds a secret and must be closed to others: chmod 600 it.")
        document = orjson.loads(file.read_bytes())
    except OSError as problem:
        raise UnusableFile(f"{file} cannot be read: {problem.strerror}.") from None
    except orjson.JSONDecodeError:
        raise UnusableFile(f"{file} is not JSON.") from None
    if not isinstance(document, Mapping) or set(document) - _NAMES or not {"url", "model"} <= set(document):
        raise UnusableFile(f"{file} must be an object with url and model, and may have key and timeout_s.")
    return Extractor(**document)
