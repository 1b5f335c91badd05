"""The decision as reported to the agent: the exact verdict, the reason, and the next step.

Seen elsewhere, and kept out here: a time-out told as a denial, an approval told as success, "resolved" told as nothing.

1. Nothing decided is WAITING, however long somebody waited for it. Waiting changes nothing and denies nothing.
2. APPROVED is permission and no more (R-AP-19): whether it ran, and what came of it, is the report's to say.
3. Who decided is not told. The reviewer's reason is, where the policy lets it; what the console itself found always is.
4. EXPIRED is nobody's denial; VOIDED is not either: the approval was set aside and authorises nothing any more.
5. What an agent may do next is a code with a sentence, one that it can follow without reading between lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Decision(StrEnum):
    """The result of an approval request."""

    WAITING = "WAITING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    EXPIRED = "EXPIRED"
    VOIDED = "VOIDED"
    SUPERSEDED = "SUPERSEDED"
    REFUSED_BY_PREFLIGHT = "REFUSED_BY_PREFLIGHT"
    CANCELLED = "CANCELLED"


NEXT: Final[dict[Decision, tuple[str, str]]] = {
    Decision.WAITING: ("WAIT", "Wait, or do something else meanwhile. Do not propose it again: nobody has denied it."),
    Decision.APPROVED: (
        "READ_REPORT",
        "It may run; that does not mean that it has. Read its report before you tell anybody that it is done.",
    ),
    Decision.REJECTED: ("STOP", "Do not propose it again. Tell whoever you work for that it was rejected."),
    Decision.CHANGES_REQUESTED: (
        "PROPOSE_CHANGED",
        "Propose a new call that does what is asked, and name this action in its `supersedes`; this one will not run.",
    ),
    Decision.EXPIRED: ("ASK_WHOEVER_WANTS_IT", "Nobody denied it. Propose it again only if it is still wanted."),
    Decision.VOIDED: (
        "ASK_WHOEVER_WANTS_IT",
        "It no longer authorises anything. Propose it again only if it is still wanted.",
    ),
    Decision.SUPERSEDED: (
        "FOLLOW",
        "Another action stands in its place; follow that one, and do not propose this again.",
    ),
    Decision.REFUSED_BY_PREFLIGHT: (
        "PROPOSE_OTHER",
        "It could not have succeeded as things are. Read the target again, then decide.",
    ),
    Decision.CANCELLED: ("STOP", "It was cancelled before it started, and will not run."),
}
_BY_CODE: Final = {
    "REJECTED": Decision.REJECTED,
    "CHANGES_REQUESTED": Decision.CHANGES_REQUESTED,
    "APPROVAL_EXPIRED": Decision.EXPIRED,
    "PROVIDER_OUTAGE": Decision.EXPIRED,
    "PREFLIGHT_REFUSED": Decision.REFUSED_BY_PREFLIGHT,
    "SUPERSEDED": Decision.SUPERSEDED,
    "CANCELLED": Decision.CANCELLED,
    "AGENT_REVOKED": Decision.CANCELLED,
    "TOOL_WITHDRAWN": Decision.CANCELLED,
}
_BY_STATE: Final = {
    "PREPARING": Decision.WAITING,
    "REQUESTED": Decision.WAITING,
    "APPROVED": Decision.APPROVED,
    "CONSUMED": Decision.APPROVED,
    "REJECTED": Decision.REJECTED,
    "EXPIRED": Decision.EXPIRED,
    "VOIDED": Decision.VOIDED,
}
_REVIEWERS: Final = frozenset({Decision.REJECTED, Decision.CHANGES_REQUESTED})
_OURS: Final = frozenset({"code", "reason", "approval_id"})


@dataclass(frozen=True)
class DecisionOutcome:
    """The decision as reported to an agent. `more` contains conditions or changes that it must also know."""

    decision: Decision
    reason: str
    next: str
    advice: str
    more: Mapping[str, Any]

    @property
    def waiting(self) -> bool:
        """True while nothing is decided."""
        return self.decision is Decision.WAITING


def decision_outcome(
    state: str, *, ended: Mapping[str, Any] | None = None, superseded: bool = False, reasons: bool = True
) -> DecisionOutcome:
    """The verdict of an approval in a state; `ended` is the detail of the event that ended its action unrun.

    `reasons` is whether the policy lets an agent read the reviewers' words (rule 3).
    """
    decision = _BY_STATE[state]
    end = ended or {}
    if decision is not Decision.APPROVED or end:
        decision = _BY_CODE.get(str(end.get("code", "")), decision)
    if superseded and decision in (Decision.VOIDED, Decision.CHANGES_REQUESTED):
        decision = Decision.SUPERSEDED
    said = str(end.get("reason", ""))
    if decision in _REVIEWERS and not reasons:
        said = ""
    step, advice = NEXT[decision]
    return DecisionOutcome(decision, said, step, advice, {name: end[name] for name in sorted(end.keys() - _OURS)})
