"""A recording in a console, without the distribution that audits recordings.

`recorded.json` holds what the audit of two conversations keeps; `tests/transcripts/test_kept_rows.py` compares it with
what the audit makes of them now.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from console.recordings import operations
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from ledger.record.queries import events

FILE = Path(__file__).with_suffix(".json")


@cache
def _read() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(FILE.read_text())
    return document


class KeptRows:
    """The rows of the file."""

    def conversations(self) -> Iterator[dict[str, Any]]:
        yield from _read()["conversations"]

    def messages(self) -> Iterator[dict[str, Any]]:
        yield from _read()["messages"]


def keep_recording(slug: str, *, name: str = "recording.jsonl") -> str:
    """Import the recording into a tenant, and return its id."""
    tenant = events.tenant(slug)
    assert tenant is not None
    digest = hashlib.sha256(name.encode()).hexdigest()
    file = operations.AuditedFile(**_read()["file"], name=name, digest=digest)
    with tenancy(tenant.id):
        row = operations.store_recording(
            tenant_id=tenant.id, file=file, rows=KeptRows(), by=SYSTEM, at=datetime.now(UTC)
        )
    return str(row.id)
