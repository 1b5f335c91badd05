"""How a person settled an action or its case: what they said, who confirmed it, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from console.web import labels

BY_A_PERSON: Final = frozenset({"attested_present", "attested_absent", "failed_by_review", "abandoned"})
"""The kinds of event by which a person's decision ends an action."""


@dataclass(frozen=True, kw_only=True)
class SettlementRecord:
    """One decision of a person, as the record has it; `evidence_class` is that of its signature, empty without one."""

    resolution: str
    by: UUID
    confirmed_by: UUID | None
    reason: str
    evidence: tuple[str, ...]
    evidence_class: str
    at: datetime

    def sentence(self, names: Mapping[UUID, str]) -> str:
        """Who decided what, in words."""
        done = labels.SETTLED_AS.get(self.resolution, f"decided: {labels.sentence_case(self.resolution).lower()}")
        second = f", confirmed by {names.get(self.confirmed_by, 'somebody')}" if self.confirmed_by else ""
        return f"{names.get(self.by, 'Somebody')} {done}{second}"


def settlement_of_action(action: Any, history: Callable[[], Iterable[Any]]) -> SettlementRecord | None:
    """How a person ended the action; None where none did. Its history is read only where one did."""
    if action.contradicted or action.reached_by not in BY_A_PERSON:
        return None
    return _newest(history(), lambda event, _: event.kind == action.reached_by)


def settlement_of_case(case: Any, history: Iterable[Any]) -> SettlementRecord | None:
    """How a case was settled, from its action's history; None where it is open, or that was erased."""
    if case.state != "RESOLVED":
        return None
    return _newest(history, lambda _, detail: detail.get("case_id") == str(case.id))


def _newest(history: Iterable[Any], fits: Callable[[Any, Mapping[str, Any]], bool]) -> SettlementRecord | None:
    for event, _, detail in reversed(list(history)):
        if detail and detail.get("resolution") and fits(event, detail):
            return SettlementRecord(
                resolution=detail["resolution"],
                by=UUID(detail["by"]),
                confirmed_by=UUID(detail["confirmed_by"]) if detail["confirmed_by"] else None,
                reason=detail["reason"],
                evidence=tuple(detail["evidence"]),
                evidence_class=detail.get("evidence_class") or "",
                at=event.at,
            )
    return None
