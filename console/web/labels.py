"""Labels of codes on the screen: one word for one code, wherever it is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from approvals.requests.rules.rendering import mark_hidden
from ledger.catalogue.rules.money import format_money
from ledger.catalogue.rules.targets import target_text
from ledger.log.rules import alarms
from ledger.record.rules import outcomes
from ledger.record.rules.event_kinds import EVENT_KINDS
from reviews.cases.rules import runbooks
from reviews.recovery.rules import recovery_table

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action
    from reviews.models import Case

OUTCOMES: Final = outcomes.WORDS

SIDE_EFFECT_CLASSES: Final[dict[str, str]] = {
    "READ_ONLY": "Read only",
    "EPHEMERAL_WRITE": "Ephemeral write",
    "LOW_RISK_INTERNAL": "Low-risk internal",
    "MEDIUM_RISK_WRITE": "Medium-risk write",
    "HIGH_RISK_EXTERNAL": "High-risk external",
    "CRITICAL_MUTATION": "Critical mutation",
}
WEIGHTY: Final = frozenset({"HIGH_RISK_EXTERNAL", "CRITICAL_MUTATION", "IRREVERSIBLE"})
REVERSIBILITY: Final[dict[str, str]] = {
    "REVERSIBLE": "Reversible",
    "COMPENSABLE": "Declared compensable",
    "IRREVERSIBLE": "Irreversible",
}

# Label and definition, in the order in which the classes are tried.
DISCREPANCIES: Final[dict[str, tuple[str, str]]] = {
    "WRONG_TARGET_MODIFIED": ("Wrong target modified", "The effect hit a target other than the authorised one."),
    "DUPLICATE_SIDE_EFFECT": ("Duplicate side effect", "One operation caused more than one effect."),
    "TARGET_MISSING": ("Target missing", "The target of the action does not exist."),
    "PARTIAL_APPLICATION": ("Partial application", "Some of the intended effects happened and others did not."),
    "STALE_STATE": ("Stale state", "The target changed between planning and execution."),
    "COMPENSATION_REQUIRED": ("Compensation required", "A committed effect must be reversed."),
    "VALUE_MISMATCH": ("Value mismatch", "The target changed, but not to the requested values."),
    "NO_OP_FAILURE": ("No-op failure", "A change was requested and reported, but nothing changed."),
    "NO_OP_SUCCESS": ("No-op success", "The target was already in the intended state."),
    "PROPAGATION_DELAY": ("Propagation delay", "The system of record has committed; downstream systems lag behind."),
    "UNVERIFIABLE_STATE": ("Unverifiable state", "There is no trustworthy way to check."),
    "UNKNOWN_STATE": ("Unknown state", "It cannot be told whether the action took effect."),
}

RESOLUTIONS: Final[dict[str, tuple[str, str]]] = {
    "VERIFY_AGAIN": ("Verify now", "Read the system of record now and compare."),
    "STRONG_READ": ("Re-verify on primary", "Read the primary directly and compare."),
    "ATTEST_PRESENT": (
        "Attest that it happened",
        "Based on your evidence; shown as attested, not verified.",
    ),
    "ATTEST_ABSENT": (
        "Attest that it did not happen",
        "Based on your evidence; shown as attested, not verified.",
    ),
    "ACCEPT": (
        "Accept what is there",
        "The reading shows something else than was requested. Told as accepted with these values, not as done.",
    ),
    "COMPENSATE": (
        "Compensate",
        "Order the contract's compensating action. It goes through the gate and its own approval.",
    ),
    "FORWARD_RECOVER": ("Complete forward", "Order the contract's forward action for the part that is missing."),
    "ROLL_BACK": ("Roll back", "Order the contract's roll-back action."),
    "CORRECT": ("Propose correction", "Propose the action that corrects exactly the difference."),
    "FAIL": ("Settle as failed", "The goal was not met. Findings stay on record."),
    "ACKNOWLEDGE": ("Acknowledge", "Record that you reviewed it and why no action is needed. Nothing else changes."),
    "ABANDON": (
        "Close unresolved",
        "Close without resolving. The discrepancy stays on record. A retry becomes possible.",
    ),
}

# What somebody did by it.
SETTLED_AS: Final[dict[str, str]] = {
    "VERIFY_AGAIN": "had it read again",
    "STRONG_READ": "had it read again from the primary",
    "ATTEST_PRESENT": "attested that it happened",
    "ATTEST_ABSENT": "attested that it did not happen",
    "ACCEPT": "accepted what is there",
    "COMPENSATE": "ordered a compensation",
    "FORWARD_RECOVER": "ordered a forward recovery",
    "ROLL_BACK": "ordered a rollback",
    "CORRECT": "proposed a correction, which a reading confirmed",
    "FAIL": "settled it as failed",
    "ACKNOWLEDGE": "acknowledged it",
    "ABANDON": "closed it unresolved",
}

REASONS: Final[dict[str, str]] = {
    "CONTRADICTED": "Contradicted by a later reading",
    "REOPENED": "Reopened by a person",
    "TAKEN_UP": "Opened by a person",
    "HELD": "Held for review",
    "UNREADABLE": "Its evidence cannot be opened",
    "CORRECT": "Correction proposed by a person",
    "MAY_BE_DONE": "It may have been done: the record was set back",
    "UNGATED_EFFECT": "Change without a recorded action",
    "CLAIM_MISMATCH": "Claim that does not match",
    "STANDING_APPROVAL_PAUSED": "A standing approval was paused",
}
UNREADABLE_CASE: Final = (
    "The key of the payload or of the tool's answers is gone, or their bytes were altered. Until they can be opened, no"
    " reading can be compared with them."
)
STANDING_APPROVALS: Final[dict[str, tuple[str, str]]] = {
    "PROPOSED": ("clock", "Requires second approver"),
    "ACTIVE": ("tick", "In force"),
    "PAUSED": ("alarm", "Paused"),
    "DECLINED": ("cross", "Declined"),
    "ENDED": ("stop", "Ended"),
}
CASES: Final[dict[str, str]] = {
    "OPEN": "Open",
    "AWAITING_SECOND": "Requires second approver",
    "RESOLVED": "Resolved",
}
BATCHES: Final[dict[str, str]] = {
    "CLAIM": "Claim",
    "ASSIGN": "Assign",
    "SNOOZE": "Snooze",
    "VERIFY_AGAIN": "Verify now",
    "COMMENT": "Comment",
    "FREEZE_TARGETS": "Freeze the targets",
}
BATCH_STATES: Final[dict[str, str]] = {
    "RUNNING": "Running",
    "PAUSED": "Paused",
    "CANCELLED": "Cancelled",
    "DONE": "Done",
}
ITEM_STATES: Final[dict[str, str]] = {
    "WAITING": "Waiting",
    "DONE": "Done",
    "REFUSED": "Refused",
    "LEFT": "Left as it was",
}
SEVERITIES: Final[dict[int, str]] = {1: "Low", 2: "Medium", 3: "High", 4: "Critical"}

# What a decision wanted, before it was held for a person.
WANTED: Final[dict[str, str]] = {
    "COMPENSATING": "to compensate it",
    "FORWARD_RECOVERY": "to finish it forward",
    "ROLLED_BACK": "to roll it back",
}

HOLDS: Final[dict[str, tuple[str, str]]] = {
    "TRUE": ("tick", "Holds"),
    "FALSE": ("cross", "Does not hold"),
    "UNDECIDABLE": ("question", "Cannot be decided"),
    "NOT_APPLICABLE": ("minus", "Does not apply"),
}

# What a reading found of one part, as an icon.
PARTS: Final[dict[str, str]] = {"APPLIED": "tick", "NOT_APPLIED": "cross"}

MADE: Final[dict[str, tuple[str, str, str]]] = {
    "CHECKED": ("true", "tick", "Checked"),
    "FAILED": ("false", "cross", "Failed"),
    "UNCHECKED": ("undecidable", "question", "Not checked"),
    "NOT_APPLICABLE": ("not_applicable", "minus", "Does not apply"),
}

WARNINGS: Final[dict[str, str]] = {
    "CONTROL": "Contains control characters.",
    "HIDDEN": "Contains invisible characters.",
    "BIDI": "Contains marks that change the order of the text.",
    "RIGHT_TO_LEFT": "Contains right-to-left letters.",
    "LOOKALIKE": "Contains characters that look like others.",
    "OVERLAY": "Contains marks that are drawn over letters, heaped, or without a letter.",
    "SPACE": "Contains an unusual, leading or trailing space.",
    "NOT_NFC": "Is not in the usual Unicode form (NFC).",
    "LONG": "Is long and shown folded.",
}

RISKS: Final[dict[str, str]] = {"HIGH": "High risk", "NORMAL": "Normal risk", "LOW": "Low risk"}

# An approval's state on the screen: an icon and a word, never a state's colour.
APPROVALS: Final[dict[str, tuple[str, str]]] = {
    "PREPARING": ("clock", "Reading target first"),
    "REQUESTED": ("clock", "Waiting for approval"),
    "APPROVED": ("tick", "Approved, not yet executed"),
    "CONSUMED": ("tick", "Approved, started"),
    "REJECTED": ("cross", "Rejected"),
    "EXPIRED": ("clock", "Expired"),
    "VOIDED": ("stop", "Superseded"),
}
RAISES: Final[dict[str, str]] = {
    "BASELINE_UNKNOWN": "the target could not be read in time",
    "PREFLIGHT_UNDECIDED": "a precondition could not be evaluated",
    "BLAST_RADIUS_UNKNOWN": "the number of affected objects is not known",
    "BLAST_RADIUS_HIGH": "it affects many objects",
}
VERDICTS: Final[dict[str, tuple[str, str]]] = {
    "approve": ("tick", "approved"),
    "reject": ("cross", "rejected"),
    "request_changes": ("refresh", "requested changes"),
    "break_glass": ("alarm", "used break-glass to approve"),
}
SIGNATURES: Final[dict[str, str]] = {
    "A": "passkey",
    "B": "session and one-time code",
    "C": "session and password",
    "D": "session alone",
}
ASKED_BECAUSE: Final[dict[str, str]] = {
    "CRITICAL_MUTATION": "critical mutation",
    "IRREVERSIBLE": "irreversible",
    "CONTRACT": "required by the contract",
    "EDITED": "edited by a reviewer",
    "UNVERIFIABLE": "nothing can be read back",
}
# Why somebody else cannot vote on a request; the person is told in the words of `eligibility.ROLES`.
NOT_ELIGIBLE: Final[dict[str, str]] = {
    "requester": "requested it",
    "agent_owner": "owns the agent",
    "delegator": "it is done on their behalf",
    "editor": "edited it",
    "policy_author": "last changed the approval policy",
}

FLAGS: Final[dict[str, str]] = {
    "PHANTOM_SHARE": "Calls unknown tools",
    "LOW_ACCEPTANCE": "Few calls accepted",
    "PROBING": "Calls undisclosed tools",
}
CHECKS: Final[dict[str, str]] = {
    "RUNNING": "Under way",
    "PAUSED": "Paused",
    "CANCELLED": "Cancelled",
    "HELD": "Everything holds",
    "BROKEN": "Something does not hold",
}
ALARMS: Final[dict[str, str]] = alarms.TITLES
EXPORTS: Final[dict[str, str]] = {
    "REQUESTED": "In progress",
    "FINISHED": "Ready",
    "FAILED": "Failed",
    "EXPIRED": "Removed",
}
HOLD_SCOPES: Final[dict[str, str]] = {
    "action": "One action",
    "target": "One target",
    "agent": "One agent",
    "recording": "One recording",
    "all": "Everything",
}
ERASURES: Final[dict[str, str]] = {
    "REQUESTED": "Requires second approver",
    "CONFIRMED": "Confirmed, to be carried out",
    "DONE": "Erased",
    "REFUSED": "Refused",
    "WITHDRAWN": "Withdrawn",
}
OFF_BOARDINGS: Final[dict[str, str]] = {
    "REQUESTED": "Requires confirmation",
    "CONFIRMED": "Confirmed, to be carried out",
    "BEGUN": "Under way",
}
CHANNELS: Final[dict[str, str]] = {"log": "process log", "email": "mail", "webhook": "webhook"}
ANCHORS: Final[dict[str, str]] = {"witness": "Witness", "tsa": "Time stamp"}
SEEN: Final[dict[str, str]] = {
    "action": "Action",
    "approval": "Approval",
    "case": "Case",
    "evidence": "Evidence",
    "narrative": "Narrative",
    "log": "Log",
    "recording": "Recording",
    "system": "Connection test of system",
    "person": "Search for a person's actions",
    # Lists that somebody took away as a CSV, by their names.
    "actions": "CSV of actions",
    "agents": "CSV of agents",
    "api-keys": "CSV of API keys",
    "approvals": "CSV of approvals",
    "audit": "CSV of events",
    "call-rates": "CSV of hallucinations",
    "calls": "CSV of calls",
    "cases": "CSV of cases",
    "claims": "CSV of claims",
    "contracts": "CSV of contracts",
    "delegations": "CSV of delegations",
    "emergencies": "CSV of break-glass uses",
    "cost-budgets": "CSV of budgets",
    "costs": "CSV of costs",
    "erasures": "CSV of erasures",
    "executors": "CSV of executors",
    "exports": "CSV of exports",
    "figure": "CSV of the actions behind a figure",
    "freezes": "CSV of freezes",
    "holds": "CSV of legal holds",
    "incidents": "CSV of incidents",
    "notices": "CSV of notifications",
    "passkeys": "CSV of passkeys",
    "people": "CSV of people",
    "prices": "CSV of prices",
    "recordings": "CSV of recordings",
    "releases": "CSV of releases",
    "sightings": "CSV of the access log",
    "standing": "CSV of standing approvals",
    "systems": "CSV of systems",
    "target": "CSV of the actions on a target",
}
GUIDES: Final[dict[str, str]] = {
    "home": "console",
    "approvals": "approvals",
    "cases": "cases",
    "incidents": "cases",
    "actions": "verification",
    "agents": "agents",
    "contracts": "api",
    "policies": "releases",
    "systems": "systems",
    "metrics": "metrics",
    "ledger": "ledger",
    "audit": "ledger",
    "people": "people",
    "me": "people",
    "notices": "approvals",
    "installation": "health",
}
"""The guide about each part of the console, by the part that a page says it belongs to."""
KEY_KINDS: Final[dict[str, str]] = {"agent": "Agent", "exec": "Executor", "oper": "Operator", "audit": "Auditor"}
"""What a key of each kind is for."""
SUBJECTS: Final[dict[str, str]] = {
    "action": "Action",
    "tenant": "Tenant",
    "member": "Person",
    "credential": "Key",
    "agent": "Agent",
    "executor": "Executor",
    "system": "System",
    "contract": "Contract",
    "policy": "Policy",
    "session": "Session",
    "approval": "Approval",
    "freeze": "Freeze",
    "case": "Case",
    "batch": "Batch",
    "log": "Log",
    "integrity": "Integrity check",
    "erasure": "Erasure",
    "hold": "Legal hold",
    "retention": "Retention policy",
    "export": "Export",
    "incident": "Incident",
    "claim": "Claim",
    "unwinding": "Rollback of a run",
    "recording": "Recording",
    "release": "Release",
    "alert_rule": "Alert rule",
    "alert": "Alert",
    "event_destination": "Destination of events",
    "price": "Price",
    "cost_budget": "Budget of costs",
}
EVIDENCE: Final[dict[str, str]] = {
    "payload": "Payload",
    "observation": "Observation",
    "raw_output": "Raw output",
    "readback": "Readback",
    "answer_checks": "Checks of the answer",
    "resolution": "Resolution",
    "statement": "Statement",
    "goal": "Goal",
    "claim": "Claim",
    "agent_evidence": "Agent's statement (unverified)",
    "release_gates": "Results of release gates",
}


def approval_label(approval: Approval, action: outcomes.ActionView) -> tuple[str, str]:
    """The icon and label of an approval's state; empty if its action was cancelled."""
    if approval.state == "VOIDED" and outcomes.outcome_of(action) is _O.CANCELLED:
        return "stop", "Withdrawn"
    return APPROVALS[approval.state]


def outcome_label(action: outcomes.ActionView) -> str:
    """The label of an action's outcome."""
    return OUTCOMES[outcomes.outcome_of(action)]


def step_label(
    subject_kind: str,
    kind: str,
    state: str,
    detail: Mapping[str, Any] | None = None,
    entry: Mapping[str, Any] | None = None,
) -> str:
    """The label of the state after an event: the outcome of an action, the state of anything else.

    Without the `detail` or the `entry` that would tell outcomes apart, it is the event's own label.
    """
    if (subject_kind, kind) == ("action", "validated"):
        if detail is None:
            return event_label(kind)
        return OUTCOMES[_O.WAITING_FOR_APPROVAL if detail.get("approval_required") else _O.READY]
    if (subject_kind, state) == ("action", "RECONCILIATION_FAILED"):
        # What follows is decided by a later event; only some of these are rolled back.
        return event_label("reconciliation_failed")
    if subject_kind != "action":
        return sentence_case(state)
    outcome = outcomes.outcome_of_step(state, kind, entry)
    return event_label(kind) if entry is None and outcome is _O.VERIFIED else OUTCOMES[outcome]


def sentence_case(code: str) -> str:
    """A code without a label: VALUE_MISMATCH becomes 'Value mismatch'."""
    return _IRREGULAR.get(code) or code.replace("NO_OP", "no-op").replace("_", " ").capitalize()


_IRREGULAR: Final = {"crm_ticketing": "Tickets and CRM", "queues_events": "Queues and events", "npm": "npm"}


def event_label(kind: str) -> str:
    return EVENT_KINDS[kind].words if kind in EVENT_KINDS else sentence_case(kind)


def alarm_label(kind: str) -> str:
    return ALARMS.get(kind, sentence_case(kind))


def discrepancy_label(code: str) -> str:
    return DISCREPANCIES[code][0] if code in DISCREPANCIES else sentence_case(code)


def replace_codes(text: str) -> str:
    """Return a recorded sentence with its codes in words: "shows NO_OP_FAILURE" becomes "shows no-op failure"."""
    return _CODES.sub(_in_words, text)


def _in_words(found: re.Match[str]) -> str:
    row, action, discrepancy, field = found.groups()
    if row:
        return f"{sentence_case(action)} ({row})"
    if discrepancy:
        label = discrepancy_label(discrepancy)
        return label[0].lower() + label[1:]
    return f"No value for “{field}” was read."


def is_past_finding(action: outcomes.ActionView) -> bool:
    """Return whether the discrepancy of an action has been settled since, by a person or by a reversal."""
    return outcomes.outcome_of(action) in _SETTLED_SINCE


_CODES: Final = re.compile(
    rf"\b(RT-\d\d) ([A-Z_]{{4,}})\b|\b({'|'.join(DISCREPANCIES)})\b|Key not found in map : \"([^\"]*)\""
)
_O = outcomes.Outcome
_SETTLED_SINCE = frozenset(
    {
        *(_O.ATTESTED, _O.ACCEPTED_AS_IT_IS, _O.ATTESTED_ABSENT, _O.SETTLED_AS_FAILED),
        *(_O.COMPENSATED, _O.COMPENSATED_AS_ATTESTED, _O.ROLLED_BACK),
    }
)


def finding_label(action: Action, accepted: str = "") -> str:
    """The label of an action's discrepancy in lists.

    It is marked as earlier if it has been settled since, and shows the values that a person accepted (`accepted`).
    """
    if accepted:
        return f"Accepted: {accepted}"
    if not action.discrepancy:
        return ""
    found = discrepancy_label(action.discrepancy)
    return f"Earlier: {found.lower()}" if is_past_finding(action) else found


def resolution_label(code: str, difference: str = "") -> str:
    """The label of a resolution; accepting a difference includes its values."""
    word = RESOLUTIONS[code][0] if code in RESOLUTIONS else sentence_case(code)
    return f"{word} ({difference})" if code == "ACCEPT" and difference else word


def settled_label(code: str, difference: str = "") -> str:
    """The ending of a settled case, by what somebody did; accepting a difference includes its values."""
    read_again = {"VERIFY_AGAIN": "read again", "STRONG_READ": "read again from the primary"}
    word = read_again.get(code) or SETTLED_AS.get(code, sentence_case(code).lower())
    return f"Settled: {word} ({difference})" if code == "ACCEPT" and difference else f"Settled: {word}"


def case_reason_label(code: str) -> str:
    """The label of a case's reason: "RT-04 HOLD_AND_ESCALATE" becomes "Hold and escalate (RT-04)"."""
    row, _, action = code.partition(" ")
    return (
        f"{sentence_case(action)} ({row})"
        if action and row.startswith("RT-")
        else REASONS.get(code, sentence_case(code))
    )


def case_finding(case: Case) -> tuple[str, str]:
    """The label of a case and its definition, "" where the label says all: of the discrepancy, otherwise of what the
    deciding row answers to, in the words of its runbook, otherwise of the reason.
    """
    if case.discrepancy:
        return DISCREPANCIES.get(case.discrepancy, (discrepancy_label(case.discrepancy), ""))
    row = case.reason.partition(" ")[0]
    book = runbooks.for_case(reason=case.reason, trigger=recovery_table.trigger_of(row))
    if book.triggers:
        return f"{book.title} ({row})", book.means
    return case_reason_label(case.reason), UNREADABLE_CASE if case.reason == "UNREADABLE" else ""


def case_label(case: Case) -> str:
    return case_finding(case)[0]


def side_effect_class_label(code: str) -> str:
    return SIDE_EFFECT_CLASSES.get(code, sentence_case(code))


def reversibility_label(code: str) -> str:
    return REVERSIBILITY.get(code, sentence_case(code))


def approval_reason_label(row: str) -> str:
    """The label of the reason for an approval, from the rules that the approval names."""
    named = [ASKED_BECAUSE.get(code) or _rule_label(code) for code in row.split(", ") if code]
    return ", ".join(named) or "required by the policy"


def _rule_label(code: str) -> str:
    """The label of a rule of the policy by its code: `RULE large`, or `UNDECIDABLE large`."""
    kind, _, name = code.partition(" ")
    if kind == "RULE" and name:
        return f"rule “{name}”"
    if kind == "UNDECIDABLE" and name:
        return f"the condition of rule “{name}” cannot be evaluated"
    return sentence_case(code).lower()


OPERATION_NOUNS: Final[dict[str, str]] = {
    "delete": "deletion",
    "cancel": "cancellation",
    "pay": "payment",
    "publish": "publication",
    "reserve": "reservation",
}
_UNFILLED: Final = re.compile(r"\{(?:[A-Za-z_]\w*|\*)\}")
_TOWARDS: Final = {
    **dict.fromkeys(["refund", "pay", "payout", "transfer", "credit"], "to"),
    **dict.fromkeys(["charge", "debit"], "from"),
}


def action_title(operation_kind: str, target: str, payload: Mapping[str, Any] | None = None) -> str:
    """The action in one line; with the payload, the amount is in it. Misleading characters are marked.

    A refused call whose arguments do not name its target has the contract's template for one: its empty places are left
    out. All else of a target is somebody's text, and is shown as they wrote it.
    """
    verb = operation_kind.replace("_", " ").replace("-", " ").strip() or "run"
    parts = [target_text(part) for part in target.split("/") if not _UNFILLED.fullmatch(part)]
    kind, name = "".join(parts[:1]), "/".join(parts[1:])
    # The first part of a target is its kind, but for an address that stands alone.
    thing = "/".join(parts) if kind.endswith(":") else f"{kind} {name}"
    amount = format_money((payload or {}).get("amount"), (payload or {}).get("currency"))
    shown = f"{verb} {amount} {_TOWARDS.get(verb, 'on')} {thing}" if amount else f"{verb} {thing}"
    return mark_hidden(shown[:1].upper() + shown[1:].strip())[0]


def format_json(document: object) -> str:
    """A document as readable JSON; the canonical bytes are shown beside it where they matter."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode()
