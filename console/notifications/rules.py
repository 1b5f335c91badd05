"""Decide which ledger events cause a notification, whom it concerns and how urgent it is. Pure.

The register of events says which of what happens concerns people who are not looking, and on what occasion; this says
whom an occasion concerns, and how much of a hurry there is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ledger.record.rules.event_kinds import EVENT_KINDS


class Occasion(StrEnum):
    """The occasion of a notice."""

    REQUESTED = "requested"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    OVERDUE = "overdue"
    ASSIGNED = "assigned"
    NO_APPROVER = "no_approver"
    MENTIONED = "mentioned"
    ANSWERED = "answered"
    APPROVED = "approved"
    REJECTED = "rejected"
    CHANGES = "changes"
    EXPIRED = "expired"
    VOIDED = "voided"
    WITHDRAWN = "withdrawn"
    BREAK_GLASS = "emergency"
    KEY_WAITS = "key_waits"
    AGENT_FLAGGED = "agent_flagged"
    CASE_OPENED = "case_opened"
    CASE_REOPENED = "case_reopened"
    CASE_ASSIGNED = "case_assigned"
    SETTLEMENT_WAITS = "settlement_waits"
    UNKNOWN = "unknown"
    ROLES_WAIT = "roles_wait"
    SEPARATION_WAITS = "separation_waits"
    ERASURE_WAITS = "erasure_waits"
    RETENTION_WAITS = "retention_waits"
    CONTRACT_WAITS = "contract_waits"
    SYSTEM_WAITS = "system_waits"
    ALERT_RAISED = "alert_raised"
    ALERT_CLEARED = "alert_cleared"
    REGRESSION_FOUND = "regression_found"
    BUDGET_SHARE_REACHED = "budget_share_reached"
    BUDGET_PASSED = "budget_passed"
    STANDING_APPROVAL_PAUSED = "standing_approval_paused"
    STANDING_APPROVAL_WAITS = "standing_approval_waits"
    TIME_BOXED_PASS_GIVEN = "time_boxed_pass_given"
    TIME_BOXED_PASS_REVOKED = "time_boxed_pass_revoked"
    RELEASE_WAITS = "release_waits"
    INCIDENT_OPENED = "incident_opened"
    SYSTEM_DOWN = "system_down"
    SYSTEM_UP = "system_up"
    EXPORT_READY = "export_ready"
    EXPORT_FAILED = "export_failed"


class Audience(StrEnum):
    """The people whom a notice concerns."""

    APPROVERS = "approvers"  # who may still vote
    ESCALATION = "escalation"  # the group it was escalated to, else who may vote
    ALARMED = "alarmed"  # administrators and operators
    NAMED = "named"  # who the event itself names
    ASKER = "asker"  # whose question was answered
    ASKED = "asked"  # who was asked to vote, and who is involved
    INVOLVED = "involved"  # who has voted, claimed or written about it
    EVERYBODY = "everybody"
    OPERATORS = "operators"
    STOPPERS = "stoppers"  # reviewers and operators, any of whom may stop it
    SECONDS = "seconds"  # who may confirm it: another person than who proposed it and whom it is about
    REQUESTER = "requester"  # who asked for an export


AUDIENCES: Final[dict[Occasion, Audience]] = {
    Occasion.REQUESTED: Audience.APPROVERS,
    Occasion.REMINDED: Audience.APPROVERS,
    Occasion.ESCALATED: Audience.ESCALATION,
    Occasion.OVERDUE: Audience.ESCALATION,
    Occasion.ASSIGNED: Audience.NAMED,
    Occasion.NO_APPROVER: Audience.ALARMED,
    Occasion.MENTIONED: Audience.NAMED,
    Occasion.ANSWERED: Audience.ASKER,
    Occasion.APPROVED: Audience.INVOLVED,
    Occasion.REJECTED: Audience.INVOLVED,
    Occasion.CHANGES: Audience.INVOLVED,
    Occasion.EXPIRED: Audience.INVOLVED,
    Occasion.VOIDED: Audience.INVOLVED,
    Occasion.WITHDRAWN: Audience.ASKED,
    Occasion.BREAK_GLASS: Audience.EVERYBODY,
    Occasion.KEY_WAITS: Audience.SECONDS,
    Occasion.AGENT_FLAGGED: Audience.ALARMED,
    Occasion.CASE_OPENED: Audience.OPERATORS,
    Occasion.CASE_REOPENED: Audience.OPERATORS,
    Occasion.CASE_ASSIGNED: Audience.NAMED,
    Occasion.SETTLEMENT_WAITS: Audience.SECONDS,
    Occasion.UNKNOWN: Audience.OPERATORS,
    Occasion.ROLES_WAIT: Audience.SECONDS,
    Occasion.SEPARATION_WAITS: Audience.SECONDS,
    Occasion.ERASURE_WAITS: Audience.SECONDS,
    Occasion.RETENTION_WAITS: Audience.SECONDS,
    Occasion.CONTRACT_WAITS: Audience.SECONDS,
    Occasion.SYSTEM_WAITS: Audience.SECONDS,
    Occasion.ALERT_RAISED: Audience.ALARMED,
    Occasion.ALERT_CLEARED: Audience.ALARMED,
    Occasion.REGRESSION_FOUND: Audience.ALARMED,
    Occasion.BUDGET_SHARE_REACHED: Audience.ALARMED,
    Occasion.BUDGET_PASSED: Audience.ALARMED,
    Occasion.STANDING_APPROVAL_PAUSED: Audience.NAMED,
    Occasion.STANDING_APPROVAL_WAITS: Audience.SECONDS,
    Occasion.TIME_BOXED_PASS_GIVEN: Audience.STOPPERS,
    Occasion.TIME_BOXED_PASS_REVOKED: Audience.STOPPERS,
    Occasion.RELEASE_WAITS: Audience.SECONDS,
    Occasion.INCIDENT_OPENED: Audience.OPERATORS,
    Occasion.SYSTEM_DOWN: Audience.ALARMED,
    Occasion.SYSTEM_UP: Audience.ALARMED,
    Occasion.EXPORT_READY: Audience.REQUESTER,
    Occasion.EXPORT_FAILED: Audience.REQUESTER,
}
PROPOSALS: Final[dict[Occasion, str]] = {
    Occasion.KEY_WAITS: "key",
    Occasion.SETTLEMENT_WAITS: "case",
    Occasion.ROLES_WAIT: "member",
    Occasion.SEPARATION_WAITS: "member",
    Occasion.ERASURE_WAITS: "erasure",
    Occasion.RETENTION_WAITS: "retention",
    Occasion.CONTRACT_WAITS: "contract",
    Occasion.SYSTEM_WAITS: "system",
    Occasion.STANDING_APPROVAL_WAITS: "standing",
    Occasion.RELEASE_WAITS: "release",
}
"""What waits for a second person on which occasion, as `ledger.people.rules.confirmation` calls it."""
WAITS: Final = frozenset(
    {
        Occasion.REQUESTED,
        Occasion.REMINDED,
        Occasion.ESCALATED,
        Occasion.OVERDUE,
        Occasion.ASSIGNED,
        Occasion.NO_APPROVER,
        Occasion.KEY_WAITS,
        Occasion.CASE_OPENED,
        Occasion.CASE_REOPENED,
        Occasion.CASE_ASSIGNED,
        Occasion.SETTLEMENT_WAITS,
        Occasion.UNKNOWN,
        Occasion.ROLES_WAIT,
        Occasion.SEPARATION_WAITS,
        Occasion.ERASURE_WAITS,
        Occasion.RETENTION_WAITS,
        Occasion.SYSTEM_WAITS,
        Occasion.STANDING_APPROVAL_WAITS,
        Occasion.RELEASE_WAITS,
        Occasion.INCIDENT_OPENED,
    }
)
"""Sent only while it still waits."""
WAKES: Final = WAITS | {
    Occasion.MENTIONED,
    Occasion.ANSWERED,
    Occasion.BREAK_GLASS,
    Occasion.CONTRACT_WAITS,
}
"""What a person's devices are woken for: something waits for them, and the push says no more."""
ENDINGS: Final = frozenset(
    {Occasion.APPROVED, Occasion.REJECTED, Occasion.CHANGES, Occasion.EXPIRED, Occasion.VOIDED, Occasion.WITHDRAWN}
)
"""How a request to people ends; a room that shows the request gets an update of that message."""
_URGENT: Final = frozenset({Occasion.BREAK_GLASS, Occasion.NO_APPROVER, Occasion.INCIDENT_OPENED, Occasion.SYSTEM_DOWN})
_PROMPT: Final = frozenset(
    {Occasion.MENTIONED, Occasion.ANSWERED, Occasion.ESCALATED, Occasion.OVERDUE, Occasion.ASSIGNED, Occasion.KEY_WAITS}
    | {Occasion.CASE_OPENED, Occasion.CASE_REOPENED, Occasion.CASE_ASSIGNED, Occasion.SETTLEMENT_WAITS}
    | {Occasion.ROLES_WAIT, Occasion.SEPARATION_WAITS, Occasion.ERASURE_WAITS, Occasion.RETENTION_WAITS}
)


def occasion_of(subject_kind: str, kind: str) -> Occasion | None:
    """The occasion on which people are notified of an event of this kind, if they are, by the register of events."""
    known = EVENT_KINDS.get(kind)
    occasion = known.notices.get(subject_kind) if known else None
    return Occasion(occasion) if occasion else None


def urgency_of(what: Occasion, risk: str) -> str:
    """The urgency of a notice.

    It is the approval's own risk, HIGH if it cannot wait for the morning, LOW (collected) for good news of a system,
    and at least NORMAL (a mail at once) for a task of a person.
    """
    if what in _URGENT:
        return "HIGH"
    if what is Occasion.SYSTEM_UP:
        return "LOW"
    return "NORMAL" if what in _PROMPT and risk not in ("NORMAL", "HIGH") else risk or "NORMAL"
