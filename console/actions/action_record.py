"""The account of one action: its whole record, loaded once, in the texts of the pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from approvals.voting.queries import votes as votes_queries
from console.accounts import queries as accounts_queries
from console.web import labels
from console.web.labels import action_title
from ledger.catalogue.rules.contract import Contract
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.event_kinds import EVENT_KINDS
from ledger.record.rules.outcomes import outcome_of_step
from reviews import queries as after
from reviews.cases.rules import runbooks
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.queries import facts_of
from reviews.reporting.rules import sentences
from reviews.reporting.rules.facts import Facts, Permission

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action, Event, Tenant


@dataclass(frozen=True, kw_only=True)
class ActionRecord:
    """One action with everything around it; `found` is the newest verification run that read something."""

    slug: str
    action: Any
    entry: dict[str, Any]
    history: list[Any]
    payload: bytes | None
    approval: Any
    votes: list[Any]
    runs: list[Any]
    found: dict[str, Any]
    facts: Facts
    contract: Contract
    names: dict[UUID, str]

    @property
    def title(self) -> str:
        return action_title(self.action.operation_kind, self.action.target, parse_arguments(self.payload))

    @property
    def difference(self) -> str:
        """The difference in the newest decisive reading; empty if it showed none."""
        return self.facts.last_reading.difference

    @property
    def decisive(self) -> dict[str, Any]:
        """The findings of the reading that settles what there is; empty if none does, or if they were erased."""
        named = self.facts.found.run if self.facts.found else ""
        return _newest_findings([each for each in self.runs if str(each.pointer) == named])

    @property
    def preparing(self) -> bool:
        """True if its target is read before people are asked."""
        return self.approval is not None and self.approval.state == "PREPARING"

    def page(self, name: str, *args: Any) -> str:
        """The address of a page in this tenant."""
        return reverse(name, args=[self.slug, *args])


def load_action_record(tenant: Tenant, action: Action, *, approval: Approval | None = None) -> ActionRecord:
    """Load the account of an action; pass its `approval` where it was just read."""
    runs = after.runs_of(tenant.id, action.id)
    if approval is None and action.approval_id:
        approval = approvals.approval(tenant.id, action.approval_id)
    entry, history = events.entry(tenant.id, action.id, action.seq) or {}, events.history(tenant.id, action.id)
    return ActionRecord(
        slug=tenant.slug,
        action=action,
        entry=entry,
        history=history,
        payload=payload_of(action),
        approval=approval,
        votes=votes_queries.votes_of(tenant.id, approval.id) if approval else [],
        runs=runs,
        found=_newest_findings(runs),
        facts=facts_of(action, entry, history),
        contract=sessions_queries.disclosed_contract(tenant.id, action.contract_digest),
        names=accounts_queries.actor_names(tenant.id),
    )


def payload_of(action: Action) -> bytes | None:
    """The stored canonical bytes; None if they were erased."""
    if action.payload_pointer is None:
        return None
    try:
        return evidence.open_evidence(action.tenant_id, action.payload_pointer)
    except CannotOpen:
        return None


def payloads_of(tenant_id: UUID, found: Iterable[Action]) -> dict[UUID, dict[str, Any]]:
    """The arguments of many actions, read at once; an action whose payload was erased has none."""
    pointers = {each.payload_pointer: each.id for each in found if each.payload_pointer is not None}
    opened = evidence.open_evidence_many(tenant_id, list(pointers), leave_out_lost=True) if pointers else {}
    return {pointers[pointer]: parse_arguments(payload) for pointer, payload in opened.items()}


def parse_arguments(payload: bytes | None) -> dict[str, Any]:
    read = parse(payload) if payload is not None else {}
    return read if isinstance(read, dict) else {}


def _newest_findings(runs: list[Any]) -> dict[str, Any]:
    for run in reversed(runs):
        try:
            found = after.run_findings(run)
        except CannotOpen:
            continue
        if found.get("readings") or found.get("verdict", {}).get("checks"):
            return found
    return {}


# Three axes

_QUESTIONS = {
    "decision": "Authorization",
    "execution": "Execution",
    "effect": "Verification",
}
# Only the effect may look like success; a decision or an execution is marked without colour (R-UI-10).
_PLAIN = {"true": "tick", "false": "cross", "unknown": "question"}


def outcome_axes(record: ActionRecord) -> list[dict[str, Any]]:
    """Return decision, execution and effect, each with actor, time and evidence."""
    shown = sentences.axes(record.facts, preparing=record.preparing)
    parts = (("decision", _decider(record)), ("execution", _executor_row(record)), ("effect", _read_back(record)))
    return [_axis(name, getattr(shown, name), **part) for name, part in parts]


def _axis(name: str, axis: Any, **part: Any) -> dict[str, Any]:
    family = str(axis.family)
    icon = f"state-{family}" if name == "effect" else _PLAIN.get(family, f"state-{family}")
    coloured = family if name == "effect" else ""
    return {"name": name, "question": _QUESTIONS[name], "word": axis.text, "icon": icon, "family": coloured, **part}


def _decider(record: ActionRecord) -> dict[str, Any]:
    """The decider: the policy, the gate, the person of the newest vote or the event, or none yet."""
    given, approval = record.facts.authorization, record.approval
    proof = [{"href": record.page("approval", approval.id), "word": "approval"}] if approval is not None else []
    if given.how in (Permission.UNCHECKED, Permission.WAITING):
        at = approval.requested_at if approval is not None else record.action.proposed_at
        return {"actor": "no decision yet", "at": at, "proof": proof}
    actor = {Permission.NOT_NEEDED: "the approval policy", Permission.BLOCKED: "the gate"}.get(given.how)
    if actor is None and record.votes and given.how in (Permission.APPROVED, Permission.REJECTED):
        actor = record.names.get(record.votes[-1].voter, "a reviewer")
    return {"actor": actor or _name(record, given.by), "at": given.at or record.action.proposed_at, "proof": proof}


def _executor_row(record: ActionRecord) -> dict[str, Any]:
    attempt, answer = record.facts.attempt, record.facts.answer
    if attempt is None:
        claims = [(event.at, detail) for event, _, detail in record.history if event.kind == "grant_minted" and detail]
        if not claims:
            return {"actor": "no executor", "at": None, "proof": []}
        at, detail = claims[-1]
        return {"actor": f"{detail['executor_id']} claimed it; no start is on record", "at": at, "proof": []}
    actor = f"{attempt.executor}, attempt {attempt.number}"
    if answer is None:
        return {"actor": actor, "at": attempt.at, "proof": []}
    proof = [{"href": record.page("evidence", answer.pointer), "word": f"observation: {answer.status}"}]
    return {"actor": actor, "at": answer.at, "proof": proof}


def _name(record: ActionRecord, actor: Any) -> str:
    return record.names.get(UUID(str(actor)), "somebody") if actor else "somebody"


def _read_back(record: ActionRecord) -> dict[str, Any]:
    """The reader and the reading; for an attested outcome, the person and the confirmer."""
    word, reading = record.facts.word, record.facts.best
    if word is not None:
        by = _name(record, word.by) + (f", confirmed by {_name(record, word.second)}" if word.second else "")
        proof = [{"href": record.page("action-entry", record.action.id, word.seq), "word": "statement"}]
        return {"actor": by, "at": word.at, "proof": proof}
    if reading is None:
        actor = "not read yet" if record.facts.may_have_started else "nothing was executed"
        return {"actor": actor, "at": None, "proof": []}
    proof = [{"href": record.page("evidence", reading.run), "word": "readback"}]
    if record.facts.is_answer_only:
        proof[0]["word"] = "answer checks"
        return {"actor": "nothing was read back", "at": reading.at, "proof": proof}
    answered = reading.shown is not Shown.NOT_READ
    actor = f"{reading.source}, {reading.consistency.lower()}" if answered else "no answer yet"
    return {"actor": actor, "at": reading.at, "proof": proof}


# Timeline


def action_timeline(record: ActionRecord) -> list[dict[str, Any]]:
    """Every event of the action in order, as the ledger has it."""
    return [_event_row(record, event, detail or {}, entry) for event, entry, detail in record.history]


def event_rows(
    history: list[Any], names: dict[UUID, str], called: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Events as timeline rows; `called` names the subjects that they may link to."""
    return [
        {
            "kind": event.kind,
            "word": labels.event_label(event.kind),
            "state": "",
            "family": "",
            "icon": _icon(event.kind),
            "actor": names.get(event.actor_id, event.actor_kind),
            "detail": _case_reason(event.kind, detail) or _note_line(detail or {}, names, called or {}),
            "href": "",
            "at": event.at,
        }
        for event, _, detail in history
    ]


def _icon(kind: str) -> str:
    return EVENT_KINDS[kind].icon if kind in EVENT_KINDS else "dot"


def _case_reason(kind: str, detail: dict[str, Any] | None) -> str:
    """The reason for which a case was opened, in words; "" for any other event."""
    return labels.case_reason_label(detail["reason"]) if kind == "case_opened" and detail else ""


def _note_line(detail: dict[str, Any], names: dict[UUID, str], called: dict[str, str]) -> str:
    """The text of a case's or an incident's event, in one line."""
    if detail.get("subject_id"):
        return called.get(detail["subject_id"], "")
    if detail.get("runbook"):
        said = f" {detail['evidence']}" if detail.get("evidence") else ""
        return runbooks.text_of(detail["runbook"], detail["step"]) + said
    if detail.get("to"):
        return f"to {names.get(UUID(detail['to']), 'somebody')}"
    if detail.get("resolution"):
        return f"{labels.RESOLUTIONS[detail['resolution']][0]}: {detail.get('reason', '')}"
    until = f"until {detail['until'][:16].replace('T', ' ')}: " if detail.get("until") else ""
    return until + str(detail.get("reason") or "")


def _event_row(
    record: ActionRecord, event: Event, detail: dict[str, Any], entry: dict[str, Any] | None
) -> dict[str, Any]:
    moved = event.state != event.from_state
    word = labels.event_label(event.kind)
    state = labels.step_label("action", event.kind, event.state, detail or None, entry)
    family = str(sentences.FAMILIES[outcome_of_step(event.state, event.kind, entry)]) if moved else ""
    return {
        "kind": event.kind,
        "seq": event.seq,
        "word": word,
        "state": state if moved and state != word else "",
        "family": family,
        "icon": f"state-{family}" if moved else _icon(event.kind),
        "actor": record.names.get(event.actor_id, event.actor_kind),
        "detail": _case_reason(event.kind, detail) or _detail_text(detail),
        "href": record.page("action-entry", record.action.id, event.seq),
        "at": event.at,
    }


def _detail_text(detail: dict[str, Any]) -> str:
    if "attempt" in detail and "executor_id" in detail:
        return f"{detail['executor_id']}, attempt {detail['attempt']}"
    if detail.get("resolution"):
        return f"{labels.RESOLUTIONS[detail['resolution']][0]}: {detail.get('reason', '')}"
    if detail.get("tool") and detail.get("plan"):
        place = f", {detail['number'] + 1} of {detail['of']}" if detail["of"] > 1 else ""
        return f"{detail['relation']} with {detail['tool']}{place}: {labels.case_reason_label(detail['because'])}"
    row = detail.get("recovery_row")
    said = str(detail.get("reason") or detail.get("executor_id") or detail.get("code") or "")
    return f"{said} ({row})" if row and said else said or (row or "")
