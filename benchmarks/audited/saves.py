"""One audited save with each package, as its documentation says: a `create()` in a transaction."""

from __future__ import annotations

from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from benchmarks.writers import Write

ENVELOPE, ENTRY, DETAIL = 728, 1373, 200
"""Bytes of what one append writes (benchmarks/append.py)."""


def ways(number: int) -> dict[str, Write]:
    """Return the operations of one writer."""
    from benchmarks.audited.models import Logged, Remembered

    return {"auditlog": lambda: _save(Logged), "history": lambda: _save(Remembered)}


def _save(model: type) -> None:
    with transaction.atomic():
        model.objects.create(  # type: ignore[attr-defined]
            id=uuid4(),
            subject_id=uuid4(),
            seq=1,
            kind="lease_ended",
            state="UNKNOWN",
            envelope="x" * ENVELOPE,
            entry="x" * ENTRY,
            detail="x" * DETAIL,
            at=timezone.now(),
        )
