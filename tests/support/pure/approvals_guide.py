"""The text of docs/approvals.md and of the guides that continue it."""

from __future__ import annotations

from pathlib import Path

_NAMES = ("approvals", "people", "requests", "signing", "standing-approvals")
TEXT = "\n".join((Path(__file__).parents[3] / "docs" / f"{name}.md").read_text() for name in _NAMES)
