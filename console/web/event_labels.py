"""What each kind of event says, as a sentence: only what the event itself and its entry hold, and who it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.web import labels


@dataclass(frozen=True, kw_only=True)
class LabelledEvent:
    """One event as a sentence is made of it."""

    kind: str
    who: str
    detail: Mapping[str, Any]
    entry: Mapping[str, Any]
    payload_hash: str = ""

    def text(self, name: str) -> str:
        """A member of the detail, as text."""
        value = self.detail.get(name)
        return "" if value is None else str(value)


def event_sentence(said: LabelledEvent) -> str:
    """One event in words."""
    tell = RENDERERS.get(said.kind)
    if tell is not None:
        return tell(said)
    reason = said.text("reason") or said.text("text")
    by = "" if said.who == "Counterfoil" else f", by {said.who}"
    return f"{labels.event_label(said.kind)}{by}{f': {reason}' if reason else ''}".rstrip(".") + "."


def _proposed(said: LabelledEvent) -> str:
    operation, contract = said.entry.get("requested_operation", {}), said.entry.get("tool_contract", {})
    return (
        f"{said.who} requested: {operation.get('operation_kind')} {operation.get('target_resource')}, with"
        f" {contract.get('name')} {contract.get('version')}. The SHA-256 of the payload is"
        f" {operation.get('validated_payload_hash')}."
    )


def _validated(said: LabelledEvent) -> str:
    if not said.detail.get("approval_required"):
        return "The gate accepted it. No approval was required."
    because = labels.approval_reason_label(", ".join(said.detail.get("rules", [])))
    return f"The gate accepted it. Approval required: {because}."


def _refused(said: LabelledEvent) -> str:
    return f"The gate blocked it ({said.text('code')}): {said.text('reason')}"


def _asked(said: LabelledEvent) -> str:
    return (
        f"Approval was requested for the payload with SHA-256 {said.text('payload_hash')}, shown as the rendering with"
        f" digest {said.text('rendering_digest')}. To be decided by {_minute(said.text('decide_by'))}."
    )


_VOTED = {
    "approved": "approved",
    "rejected": "rejected",
    "changes_requested": "requested changes to",
    "break_glass_used": "used break-glass and approved alone",
}


def _voted(said: LabelledEvent) -> str:
    verdict = _VOTED[said.kind]
    if not said.detail.get("statement_hash"):
        return f"It ended: {(said.text('reason') or labels.event_label(said.kind).lower()).rstrip('.')}."
    signed = labels.SIGNATURES.get(said.text("evidence_class"), said.text("evidence_class"))
    reason = f" The reason given: “{said.text('reason')}”" if said.text("reason") else ""
    return (
        f"{said.who} {verdict} the payload with SHA-256 {said.payload_hash}, by {signed}; the statement stood for has"
        f" SHA-256 {said.text('statement_hash')}.{reason}"
    )


def _vote_refused(said: LabelledEvent) -> str:
    return f"A vote of {said.who} did not count ({said.text('code')})."


def _granted(said: LabelledEvent) -> str:
    if said.text("standing_approval_id"):
        return "Nobody was asked about it: it passed under a standing approval of exactly its shape."
    return f"The approval was noted on the action; the statement has SHA-256 {said.text('statement_hash')}."


def _minted(said: LabelledEvent) -> str:
    return (
        f"{said.text('executor_id')} claimed it and got a grant for one start, good until"
        f" {_minute(said.text('expires_at'))}."
    )


def _started(said: LabelledEvent) -> str:
    operation = said.entry.get("requested_operation", {})
    return (
        f"{said.text('executor_id')} started attempt {said.text('attempt')} on the stored payload with SHA-256"
        f" {operation.get('validated_payload_hash')}. The grant is spent by it."
    )


def _mismatch(said: LabelledEvent) -> str:
    return (
        f"{said.text('executor_id')} presented another payload, with SHA-256 {said.text('presented')}."
        " Nothing was started."
    )


def _observed(said: LabelledEvent) -> str:
    late = ", after its time was up" if said.detail.get("late") else ""
    return (
        f"{said.who} reported that the tool answered “{said.text('status')}”{late}."
        " That is evidence, and not the outcome."
    )


def _silent(said: LabelledEvent) -> str:
    return f"The executor stopped responding in attempt {said.text('attempt')}. Whether it took effect was not known."


def _read(said: LabelledEvent) -> str:
    source = said.entry.get("verification", {}).get("source")
    if said.entry.get("side_effect_class") == "READ_ONLY" and not said.entry["verification"]["verified_state_pointer"]:
        return f"{labels.event_label(said.kind)}: {_reasoned(said)}"
    begin = f"Read back from {source}: " if source else f"{labels.event_label(said.kind)}: "
    return begin + _reasoned(said)


def _classified(said: LabelledEvent) -> str:
    found = said.entry.get("reconciliation", {}).get("discrepancy_class")
    return _read(said) + (f" It was classified as {labels.discrepancy_label(found).lower()}." if found else "")


def _held(said: LabelledEvent) -> str:
    return f"It was held for review: {_reasoned(said)}"


def _reasoned(said: LabelledEvent) -> str:
    row = f" By row {said.text('recovery_row')} of {_table(said)}." if said.text("recovery_row") else ""
    return (said.text("reason") or labels.event_label(said.kind)).rstrip(".") + "." + row


def _table(said: LabelledEvent) -> str:
    if not said.text("recovery_table"):
        return "the recovery table"
    return f"the recovery policy, version {said.entry['policy_context']['recovery_policy_version']}"


def _ordered(said: LabelledEvent) -> str:
    because = labels.case_reason_label(said.text("because"))
    return f"A {said.text('relation')} with {said.text('tool')} was ordered: {because}."


def _case(said: LabelledEvent) -> str:
    return f"A case was opened: {labels.case_reason_label(said.text('reason'))}."


def _proposed_resolution(said: LabelledEvent) -> str:
    return f"{said.who} proposed to settle it: {_resolution(said)}"


def _settled(said: LabelledEvent) -> str:
    return f"{said.who} settled the case: {_resolution(said)}"


def _resolution(said: LabelledEvent) -> str:
    code = said.text("resolution")
    word = labels.RESOLUTIONS[code][0].lower() if code in labels.RESOLUTIONS else labels.sentence_case(code).lower()
    evidence = said.detail.get("evidence") or []
    named = f" Evidence named: {', '.join(str(each) for each in evidence)}." if evidence else ""
    reason = f" “{said.text('reason')}”" if said.text("reason") else ""
    return f"{word}.{reason}{named}"


def _session(said: LabelledEvent) -> str:
    return (
        f"{said.text('agent_id')} opened a session, with the goal pinned and {len(said.detail.get('tools', []))}"
        " tools disclosed."
    )


def _limit(said: LabelledEvent) -> str:
    calls = f" of {said.text('limit')} calls" if said.text("limit") else ""
    return f"The run reached its limit{calls}. No further call is taken, and its summary was given out."


def _minute(moment: str) -> str:
    return f"{moment[:19].replace('T', ' ')} UTC" if moment else "no deadline"


RENDERERS: Final[dict[str, Callable[[LabelledEvent], str]]] = {
    "session_opened": _session,
    "iteration_limit_reached": _limit,
    "proposed": _proposed,
    "validated": _validated,
    "validation_failed": _refused,
    "approval_requested": _asked,
    "approved": _voted,
    "rejected": _voted,
    "changes_requested": _voted,
    "vote_refused": _vote_refused,
    "approval_granted": _granted,
    "grant_minted": _minted,
    "execution_started": _started,
    "payload_mismatch": _mismatch,
    "observed": _observed,
    "lease_ended": _silent,
    "verification_started": _read,
    "verification_waiting": _read,
    "verification_timed_out": _read,
    "verified": _read,
    "answer_awaited": _read,
    "answer_checked": _read,
    "answered": _read,
    "answer_refused": _classified,
    "reconciled": _read,
    "partially_reconciled": _classified,
    "reconciliation_failed": _classified,
    "failed": _classified,
    "outcome_unknown": _classified,
    "held": _held,
    "contradicted": _classified,
    "ordered": _ordered,
    "case_opened": _case,
    "resolution_proposed": _proposed_resolution,
    "case_resolved": _settled,
}
