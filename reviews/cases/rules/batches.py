"""Batches: one change applied to many cases, item by item.

1. Only what can be taken back is done in a batch: claiming, assigning, snoozing, reading again, writing, freezing.
   What settles a case needs a person's eyes on that case, so no batch settles one.
2. A batch is bounded, and each case is in it once.
3. Each item is an event of its own case, by the person who started the batch. An item that is refused says why, and
   its neighbours go on.
4. RUNNING can be paused and resumed; PAUSED and RUNNING can be cancelled: what is done stays done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from ledger.record.rules.refusals import NothingSelected, Refused, TooManySelected

MOST = 500


class BatchKind(StrEnum):
    """The act of a batch on each case (rule 1)."""

    CLAIM = "CLAIM"
    ASSIGN = "ASSIGN"
    SNOOZE = "SNOOZE"
    VERIFY_AGAIN = "VERIFY_AGAIN"
    COMMENT = "COMMENT"
    FREEZE_TARGETS = "FREEZE_TARGETS"


NEEDS: dict[BatchKind, tuple[str, ...]] = {
    BatchKind.CLAIM: (),
    BatchKind.ASSIGN: ("to",),
    BatchKind.SNOOZE: ("until", "reason"),
    BatchKind.VERIFY_AGAIN: ("reason",),
    BatchKind.COMMENT: ("text",),
    BatchKind.FREEZE_TARGETS: ("reason",),
}
"""What each kind must be told."""


class BatchParameterMissing(Refused):
    """A required parameter of this batch is missing."""

    code = "INCOMPLETE"
    status = 422


@dataclass(frozen=True)
class Progress:
    """The progress of a batch."""

    total: int
    done: int
    refused: int
    left: int

    @property
    def worked(self) -> int:
        """Items that are through, one way or another."""
        return self.done + self.refused + self.left


def check_selection(
    kind: BatchKind, wanted: Mapping[str, Any], cases: Sequence[UUID]
) -> tuple[dict[str, Any], tuple[UUID, ...]]:
    """The parameters of the batch and its cases, each once (rule 2)."""
    once = tuple(dict.fromkeys(cases))
    if not once:
        raise NothingSelected("No case was selected.")
    if len(once) > MOST:
        raise TooManySelected("A batch takes at most five hundred cases; narrow the filter.")
    told = {name: wanted.get(name) for name in NEEDS[kind]}
    if not all(str(value or "").strip() for value in told.values()):
        raise BatchParameterMissing
    return told, once
