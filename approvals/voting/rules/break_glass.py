"""Break-glass: one operator alone approves an action, and others review that afterwards (C-21).

1. It is off unless the approval policy switches it on (R-AP-15).
2. Only a person who is an operator may use it, on a request that waits for people, with a reason, and signed as
   strongly as the policy asks (class A unless it says less). Where the policy names groups, the operator is in one.
3. Nobody uses it who stands behind the request: not the requester, nor whoever the approval's terms keep away.
4. What it grants lives short, and a freeze stops it like anything else.
5. The review is opened with it. As many others as the policy says look at it in time, each once, none of them the one
   who used it; nobody is told that all is well before that, and a review that comes too late raises an alarm (R-AP-14,
   B24).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from approvals.voting.rules.binding import NotEligible
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.record.rules.refusals import AlreadyDecided, Refused

OPERATOR = "operator"
RELEASE_WITHIN = timedelta(minutes=5)
_DAY_S = 24 * 3600


class Finding(StrEnum):
    """The finding of a reviewer of a break-glass use."""

    JUSTIFIED = "justified"
    NOT_JUSTIFIED = "not_justified"


class BreakGlassOff(Refused):
    """Break-glass is not enabled."""

    code = "BREAK_GLASS_OFF"
    status = 403


@dataclass(frozen=True)
class BreakGlassRule:
    """The policy's rule for break-glass. `reviewers` other people review it within `review_within_s` seconds."""

    enabled: bool = False
    groups: frozenset[str] = frozenset()
    review_within_s: int = _DAY_S
    reviewers: int = 2
    step_up: str = "A"

    def review_by(self, *, used_at: datetime) -> datetime:
        """The time at which the review is overdue."""
        return used_at + timedelta(seconds=self.review_within_s)


def read_rule(policy: Mapping[str, Any]) -> BreakGlassRule:
    """The rule in an approval policy's document, with the defaults above."""
    said = policy.get("break_glass") or {}
    return BreakGlassRule(
        enabled=said.get("enabled") is True,
        groups=frozenset(said.get("groups", ())),
        review_within_s=said.get("review_within_s", _DAY_S),
        reviewers=said.get("reviewers", 2),
        step_up=said.get("step_up", "A"),
    )


def check_use(rule: BreakGlassRule, *, roles: Collection[str], groups: Collection[str]) -> None:
    """Refuse a person whose roles and groups do not allow break-glass (rules 1 and 2)."""
    if not rule.enabled:
        raise BreakGlassOff
    if OPERATOR not in roles or (rule.groups and not rule.groups & set(groups)):
        raise NotEligible("Only an operator named in the policy may use break-glass.")


def release_deadline(*, policy_says: datetime, used_at: datetime) -> datetime:
    """The deadline for the start after a break-glass use (rule 4)."""
    return min(policy_says, used_at + RELEASE_WITHIN)


def check_review(*, reviewer: str, used_by: str, reviewed_by: Collection[str], wanted: int) -> None:
    """Refuse a review that does not count (rule 5). All three are the humans, not their accounts."""
    if reviewer == used_by:
        raise SecondPersonNeeded("You used break-glass here, so someone else must review it.")
    if reviewer in reviewed_by or len(set(reviewed_by)) >= wanted:
        raise AlreadyDecided("You have already reviewed this, or it is fully reviewed.")


def is_reviewed(reviewed_by: Collection[str], *, wanted: int) -> bool:
    """Return whether enough people have reviewed it."""
    return len(set(reviewed_by)) >= wanted
