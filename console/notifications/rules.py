"""Decide which ledger events cause a notification, whom it concerns and how urgent it is. Pure.

The register of events says which of what happens concerns people who are not looking, and on what occasion; this says
whom an occasion concerns, and how much of a hurry there is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ledger.record.rules.event_kinds import EVENT_KINDS


class Occasion(StrEnum):
    """Why somebody is told something."""

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
    EMERGENCY = "emergency"
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
    STANDING_APPROVAL_PAUSED = "standing_approval_paused"


class Audience(StrEnum):
    """Who is concerned."""

    APPROVERS = "approvers"  # who may still vote
    ESCALATION = "escalation"  # the group it was escalated to, else who may vote
    ALARMED = "alarmed"  # administrators and operators
    NAMED = "named"  # who the event itself names
    ASKER = "asker"  # whose question was answered
    INVOLVED = "involved"  # who has voted, claimed or written about it
    EVERYBODY = "everybody"
    KEY_SECONDS = "key_seconds"  # reviewers and administrators, but the passkey's holder
    OPERATORS = "operators"
    SETTLEMENT_SECONDS = "settlement_seconds"  # operators and reviewers, but who proposed it
    ADMINISTRATORS = "administrators"  # but who proposed it and whom it is about
    RECORD_SECONDS = "record_seconds"  # compliance, but who asked


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
    Occasion.EMERGENCY: Audience.EVERYBODY,
    Occasion.KEY_WAITS: Audience.KEY_SECONDS,
    Occasion.AGENT_FLAGGED: Audience.ALARMED,
    Occasion.CASE_OPENED: Audience.OPERATORS,
    Occasion.CASE_REOPENED: Audience.OPERATORS,
    Occasion.CASE_ASSIGNED: Audience.NAMED,
    Occasion.SETTLEMENT_WAITS: Audience.SETTLEMENT_SECONDS,
    Occasion.UNKNOWN: Audience.OPERATORS,
    Occasion.ROLES_WAIT: Audience.ADMINISTRATORS,
    Occasion.SEPARATION_WAITS: Audience.ADMINISTRATORS,
    Occasion.ERASURE_WAITS: Audience.RECORD_SECONDS,
    Occasion.RETENTION_WAITS: Audience.RECORD_SECONDS,
    Occasion.CONTRACT_WAITS: Audience.ALARMED,
    Occasion.SYSTEM_WAITS: Audience.ALARMED,
    Occasion.ALERT_RAISED: Audience.ALARMED,
    Occasion.ALERT_CLEARED: Audience.ALARMED,
    Occasion.REGRESSION_FOUND: Audience.ALARMED,
    Occasion.STANDING_APPROVAL_PAUSED: Audience.NAMED,
}
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
    }
)
"""Only worth saying while it still waits."""
_LOUD: Final = frozenset({Occasion.EMERGENCY, Occasion.NO_APPROVER})
_SPOKEN: Final = frozenset(
    {Occasion.MENTIONED, Occasion.ANSWERED, Occasion.ESCALATED, Occasion.OVERDUE, Occasion.ASSIGNED, Occasion.KEY_WAITS}
    | {Occasion.CASE_OPENED, Occasion.CASE_REOPENED, Occasion.CASE_ASSIGNED, Occasion.SETTLEMENT_WAITS}
    | {Occasion.ROLES_WAIT, Occasion.SEPARATION_WAITS, Occasion.ERASURE_WAITS, Occasion.RETENTION_WAITS}
)


def occasion_of(subject_kind: str, kind: str) -> Occasion | None:
    """On what occasion people are told of an event of this kind, if they are; the register of events says so."""
    known = EVENT_KINDS.get(kind)
    occasion = known.notices.get(subject_kind) if known else None
    return Occasion(occasion) if occasion else None


def urgency_of(what: Occasion, risk: str) -> str:
    """How urgent it is to tell of it: the approval's own risk, more for what is wrong, and at least a mail at once for
    what somebody says to somebody.
    """
    if what in _LOUD:
        return "HIGH"
    return "NORMAL" if what in _SPOKEN and risk not in ("NORMAL", "HIGH") else risk or "NORMAL"
