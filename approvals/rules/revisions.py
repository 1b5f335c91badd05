"""Revisions: what one payload says otherwise than another, field by field, as people are shown payloads.

1. Fields are compared by their path, as they are rendered: what a reader could not tell apart is marked, so it differs.
2. A field that came or went is a change, with None on the side where it is not.
3. Long values are folded like everywhere; their digest is part of what is shown, so folding hides no change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from approvals.rules.rendering import Field, render_payload


@dataclass(frozen=True)
class Change:
    """One field that differs: as it was and as it is now."""

    path: str
    label: str
    old: str | None
    new: str | None

    def document(self) -> dict[str, Any]:
        """As it goes on record, and to the agent."""
        return {"path": self.path, "label": self.label, "old": self.old, "new": self.new}


def changes(before: Any, after: Any) -> tuple[Change, ...]:
    """Every field that differs between two payloads, in the order of the new one and then what went."""
    old, new = _by_path(render_payload(before)), _by_path(render_payload(after))
    paths = [*new, *(path for path in old if path not in new)]
    return tuple(
        Change(path, (new.get(path) or old[path]).label, _said(old.get(path)), _said(new.get(path)))
        for path in paths
        if _key(old.get(path)) != _key(new.get(path))
    )


def _by_path(fields: Iterable[Field]) -> dict[str, Field]:
    return {field.path: field for field in fields}


def _key(field: Field | None) -> tuple[str, str] | None:
    # 1 and "1" are shown alike and are not the same.
    return (field.kind, field.full) if field is not None else None


def _said(field: Field | None) -> str | None:
    if field is None:
        return None
    return field.display if field.kind in ("text", "integer", "boolean") else f"{field.display} ({field.kind})".strip()
