"""The reading of an action's target before it starts, folded from the action's events.

A reading is wanted, and then taken or missed; one that was missed is tried again. What was read before the newest start
says nothing of the target as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KINDS: Final = ("reading_wanted", "reading_missed", "reading_taken", "execution_started")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReading:
    """The numbers of the newest events that say something of it, 0 where there was none."""

    wanted: int = 0
    missed: int = 0
    taken: int = 0
    started: int = 0

    @property
    def is_read(self) -> bool:
        """Return whether the target was read since the newest start."""
        return self.taken > self.started

    @property
    def is_wanted(self) -> bool:
        """Return whether a reading is wanted and not taken yet."""
        return self.wanted > self.taken

    @property
    def is_missed(self) -> bool:
        """Return whether the reading that is wanted was tried without success."""
        return self.missed > max(self.wanted, self.taken)

    def after(self, kind: str, seq: int) -> TargetReading:
        """The same after this event of the action."""
        if kind not in KINDS:
            return self
        return TargetReading(
            wanted=seq if kind == "reading_wanted" else self.wanted,
            missed=seq if kind == "reading_missed" else self.missed,
            taken=seq if kind == "reading_taken" else self.taken,
            started=seq if kind == "execution_started" else self.started,
        )


def fold_target_reading(events: Iterable[tuple[str, int]]) -> TargetReading:
    """The reading of a target, from the action's events in order as (kind, number)."""
    found = TargetReading()
    for kind, seq in events:
        found = found.after(kind, seq)
    return found
