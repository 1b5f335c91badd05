"""A sentence for each kind of event, from the event itself, its entry, and the names of its actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.web import labels
from ledger.catalogue.rules.targets import target_text


@dataclass(frozen=True, kw_only=True)
class LabelledEvent:
    """One event in the form for making its sentence."""

    kind: str
    who: str
    detail: Mapping[str, Any]
    entry: Mapping[str, Any]
    payload_hash: str = ""
    given_by: str = ""

    def text(self, name: str) -> str:
        """A member of the detail, as text."""
        value = self.detail.get(name)
        return "" if value is None else str(value)


def event_sentence(event: LabelledEvent) -> str:
    """One event in words."""
    tell = RENDERERS.get(event.kind)
    if tell is not None:
        return tell(event)
    reason = event.text("reason") or event.text("text")
    by = "" if event.who == "Counterfoil" else f", by {event.who}"
    return f"{labels.event_label(event.kind)}{by}{f': {reason}' if reason else ''}".rstrip(".") + "."


def _proposed_text(event: LabelledEvent) -> str:
    operation, contract = event.entry.get("requested_operation", {}), event.entry.get("tool_contract", {})
    target = target_text(str(operation.get("target_resource")))
    return (
        f"{event.who} requested: {operation.get('operation_kind')} {target}, with"
        f" {contract.get('name')} {contract.get('version')}. The SHA-256 of the payload is"
        f" {operation.get('validated_payload_hash')}."
    )


def _validated_text(event: LabelledEvent) -> str:
    if not event.detail.get("approval_required"):
        return "The gate accepted it. No approval was required."
    because = labels.approval_reason_label(", ".join(event.detail.get("rules", [])))
    return f"The gate accepted it. Approval required: {because}."


def _refused_text(event: LabelledEvent) -> str:
    return f"The gate blocked it ({event.text('code')}): {event.text('reason')}"


def _requested_text(event: LabelledEvent) -> str:
    return (
        f"Approval was requested for the payload with SHA-256 {event.text('payload_hash')}, shown as the rendering with"
        f" digest {event.text('rendering_digest')}. To be decided by {_minute(event.text('decide_by'))}."
    )


_VOTED = {
    "approved": "approved",
    "rejected": "rejected",
    "changes_requested": "requested changes to",
    "break_glass_used": "used break-glass and approved alone",
}


def _vote_text(event: LabelledEvent) -> str:
    verdict = _VOTED[event.kind]
    if not event.detail.get("statement_hash"):
        return f"It ended: {(event.text('reason') or labels.event_label(event.kind).lower()).rstrip('.')}."
    signed = labels.SIGNATURES.get(event.text("evidence_class"), event.text("evidence_class"))
    reason = f" The reason given: “{event.text('reason')}”" if event.text("reason") else ""
    unread = ", knowing that the target had not been read" if event.detail.get("without_reading") else ""
    return (
        f"{event.who} {verdict} the payload with SHA-256 {event.payload_hash}, by {signed}{unread}; the statement has"
        f" SHA-256 {event.text('statement_hash')}.{reason}"
    )


def _vote_refused(event: LabelledEvent) -> str:
    return f"A vote of {event.who} did not count ({event.text('code')})."


def _pass_given_text(event: LabelledEvent) -> str:
    shape = event.detail.get("shape", {})
    return (
        f"{event.who} let at most {event.text('max_count')} calls of {shape.get('tool')} by agent {shape.get('agent')}"
        f" of one shape pass without a vote, until {_minute(event.text('ends_at'))}: {event.text('reason')}"
    ).rstrip(".") + "."


def _granted_text(event: LabelledEvent) -> str:
    if box := event.detail.get("time_box"):
        return (
            f"Nobody was asked about it: it passed under a time-boxed pass of exactly its shape, by {event.given_by}"
            f" until {_minute(box['until'])}."
        )
    if event.text("standing_approval_id"):
        return "Nobody was asked about it: it passed under a standing approval of exactly its shape."
    return f"The approval was noted on the action; the statement has SHA-256 {event.text('statement_hash')}."


def _grant_text(event: LabelledEvent) -> str:
    return (
        f"{event.text('executor_id')} claimed it and got a grant for one start, good until"
        f" {_minute(event.text('expires_at'))}."
    )


def _started_text(event: LabelledEvent) -> str:
    operation = event.entry.get("requested_operation", {})
    return (
        f"{event.text('executor_id')} started attempt {event.text('attempt')} on the stored payload with SHA-256"
        f" {operation.get('validated_payload_hash')}. The start spent its grant."
    )


def _mismatch(event: LabelledEvent) -> str:
    return (
        f"{event.text('executor_id')} presented another payload, with SHA-256 {event.text('presented')}."
        " Nothing was started."
    )


def _observed_text(event: LabelledEvent) -> str:
    late = ", after its time was up" if event.detail.get("late") else ""
    return (
        f"{event.who} reported that the tool answered “{event.text('status')}”{late}."
        " That is evidence, and not the outcome."
    )


def _silence_text(event: LabelledEvent) -> str:
    return f"The executor stopped responding in attempt {event.text('attempt')}. Whether it took effect was not known."


def _reading_text(event: LabelledEvent) -> str:
    source = event.entry.get("verification", {}).get("source")
    if (
        event.entry.get("side_effect_class") == "READ_ONLY"
        and not event.entry["verification"]["verified_state_pointer"]
    ):
        return f"{labels.event_label(event.kind)}: {_reason_text(event)}"
    begin = f"Read back from {source}: " if source else f"{labels.event_label(event.kind)}: "
    return begin + _reason_text(event)


def _classified_text(event: LabelledEvent) -> str:
    return _reading_text(event) + _classification(event)


def _compared_text(event: LabelledEvent) -> str:
    """The comparison that follows a reading; the reading has an event of its own."""
    return f"Compared with what was intended: {_reason_text(event)}{_classification(event)}"


def _begun_text(event: LabelledEvent) -> str:
    return f"{labels.event_label(event.kind)}: {_reason_text(event)}"


def _classification(event: LabelledEvent) -> str:
    found = event.entry.get("reconciliation", {}).get("discrepancy_class")
    return f" It was classified as {labels.discrepancy_label(found).lower()}." if found else ""


def _held_text(event: LabelledEvent) -> str:
    return f"It was held for review: {_reason_text(event)}"


def _reason_text(event: LabelledEvent) -> str:
    row = f" By row {event.text('recovery_row')} of {_table(event)}." if event.text("recovery_row") else ""
    return labels.replace_codes(event.text("reason") or labels.event_label(event.kind)).rstrip(".") + "." + row


def _table(event: LabelledEvent) -> str:
    if not event.text("recovery_table"):
        return "the recovery table"
    return f"the recovery policy, version {event.entry['policy_context']['recovery_policy_version']}"


def _order_text(event: LabelledEvent) -> str:
    because = labels.case_reason_label(event.text("because"))
    return f"A {event.text('relation')} with {event.text('tool')} was ordered: {because}."


def _case(event: LabelledEvent) -> str:
    return f"A case was opened: {labels.case_reason_label(event.text('reason'))}."


def _proposed_resolution(event: LabelledEvent) -> str:
    return f"{event.who} proposed to settle it: {_resolution(event)}"


def _settled_text(event: LabelledEvent) -> str:
    return f"{event.who} settled the case: {_resolution(event)}"


def _resolution(event: LabelledEvent) -> str:
    code = event.text("resolution")
    word = labels.RESOLUTIONS[code][0].lower() if code in labels.RESOLUTIONS else labels.sentence_case(code).lower()
    evidence = event.detail.get("evidence") or []
    named = f" Evidence named: {', '.join(str(each) for each in evidence)}." if evidence else ""
    reason = f" “{event.text('reason')}”" if event.text("reason") else ""
    return f"{word}.{reason}{named}"


def _session(event: LabelledEvent) -> str:
    return (
        f"{event.text('agent_id')} opened a session, with the goal pinned and {len(event.detail.get('tools', []))}"
        " tools disclosed."
    )


def _limit(event: LabelledEvent) -> str:
    calls = f" of {event.text('limit')} calls" if event.text("limit") else ""
    return f"The run reached its limit{calls}. No further call is taken, and its summary was given out."


def _minute(moment: str) -> str:
    return f"{moment[:19].replace('T', ' ')} UTC" if moment else "no deadline"


RENDERERS: Final[dict[str, Callable[[LabelledEvent], str]]] = {
    "time_boxed_pass_given": _pass_given_text,
    "session_opened": _session,
    "iteration_limit_reached": _limit,
    "proposed": _proposed_text,
    "validated": _validated_text,
    "validation_failed": _refused_text,
    "approval_requested": _requested_text,
    "approved": _vote_text,
    "rejected": _vote_text,
    "changes_requested": _vote_text,
    "vote_refused": _vote_refused,
    "approval_granted": _granted_text,
    "grant_minted": _grant_text,
    "execution_started": _started_text,
    "payload_mismatch": _mismatch,
    "observed": _observed_text,
    "lease_ended": _silence_text,
    "verification_started": _begun_text,
    "verification_waiting": _reading_text,
    "verification_timed_out": _reading_text,
    "verified": _reading_text,
    "answer_awaited": _reading_text,
    "answer_checked": _reading_text,
    "answered": _reading_text,
    "answer_refused": _classified_text,
    "reconciled": _compared_text,
    "partially_reconciled": _compared_text,
    "reconciliation_failed": _compared_text,
    "failed": _classified_text,
    "outcome_unknown": _classified_text,
    "held": _held_text,
    "contradicted": _classified_text,
    "ordered": _order_text,
    "case_opened": _case,
    "resolution_proposed": _proposed_resolution,
    "case_resolved": _settled_text,
}
