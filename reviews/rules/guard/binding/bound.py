"""What a claim came down to."""

from __future__ import annotations

from dataclasses import dataclass

from reviews.rules.guard.codes import Violation
from reviews.rules.guard.records import Record, Tool


@dataclass(frozen=True)
class Bound:
    """What a claim came down to: its code (None is borne out), the actions it is about, the tool, and why."""

    code: Violation | None
    records: tuple[Record, ...] = ()
    tool: Tool | None = None
    detail: str = ""


def no_tool() -> Bound:
    """Something that no tool of the session can do."""
    return Bound(Violation.IMAGINED_CAPABILITY, detail="No tool of this session does that.")
