"""A judged message for a page: unsupported claims are struck out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from reviews import queries

if TYPE_CHECKING:
    from reviews.models import GuardVerdict

LONGEST = 4000


def guarded_message_context(verdict: GuardVerdict) -> dict[str, Any]:
    """One verdict with its message in parts; a message that was erased has none."""
    try:
        kept = queries.guarded_message(verdict)
    except (EvidenceErased, CannotOpen):
        kept = {}
    violations = kept.get("violations", [])
    return {
        "row": verdict,
        "parts": split_message(kept.get("message", "")[:LONGEST], [tuple(each["span"]) for each in violations]),
        "violations": violations,
        "corrected": (kept.get("corrected") or "")[:LONGEST],
        "receipt": kept.get("receipt", "")[:LONGEST],
    }


def split_message(message: str, spans: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """The message cut at these spans, which may overlap."""
    made: list[dict[str, Any]] = []
    at = 0
    for start, end in sorted(spans):
        start, end = max(at, start), min(len(message), end)
        if start >= end:
            continue
        made += [{"text": message[at:start], "struck": False}, {"text": message[start:end], "struck": True}]
        at = end
    made.append({"text": message[at:], "struck": False})
    return [part for part in made if part["text"]]
