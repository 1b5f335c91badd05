"""The data for a person who votes: the action from its stored bytes, and everything that a vote is bound to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from approvals.gate import queries as gate_queries
from approvals.gate.rules.agent_evidence import EvidenceItem
from approvals.gate.rules.intent import AgentStatement, Contradiction, find_contradictions
from approvals.policy.rules import policy
from approvals.requests.queries import approvals
from approvals.requests.rules import rendering
from approvals.voting.operations import break_glass, eligibility, votes
from approvals.voting.operations.eligibility import EligibilityContext
from approvals.voting.queries import approvers
from approvals.voting.rules import binding
from approvals.voting.rules import break_glass as break_glass_rules
from approvals.voting.rules.outcome import Decision, decision_outcome
from console.accounts.sign_in.queries import authenticator_app
from console.actions import target_drift
from console.actions.action_record import ActionRecord, load_action_record, outcome_axes, parse_arguments, payload_of
from console.actions.after_restore import restore_notice
from console.actions.related_actions import find_related
from console.approvals import edit_form
from console.approvals import eligibility as eligibility_approvals
from console.approvals.edit_form import sent_by_agent
from console.edge import proofs
from console.edge.auth import Caller
from console.standing_approvals.context import pass_notice
from console.web import labels
from console.web.predicate_sentences import CUSTOM, predicate_sentence
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.money import format_money
from ledger.catalogue.rules.targets import target_text
from ledger.people.rules.statements import confirmation_code, coverage_digest
from ledger.record.queries import events
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused
from reviews.reporting.operations.reports import report_on
from reviews.reporting.rules import sentences

if TYPE_CHECKING:
    from approvals.models import Approval, Session, Vote
    from ledger.models import Action, Tenant

PLACES = {"goal": "In the pinned goal", "restated goal": "With the call", "expectation": "In what it expects"}


def agent_contradictions(
    action: Action, session: Session, entry: dict[str, Any], payload: Mapping[str, Any]
) -> tuple[Contradiction, ...]:
    """The contradictions between the payload and the agent's goal, call and expectations (B35).

    A reviewer's edit is no contradiction of the agent's: for an edited request, only contradictions of the agent's own
    call are reported. A recovery action is the console's call, and its goal speaks of the action that it recovers.
    """
    if action.relation:
        return ()
    sent = sent_by_agent(action)
    call = gate_queries.call_of(action.tenant_id, action.session_id, sent.id)
    restated = call.restated_goal if call is not None else ""
    expected = (entry.get("intended_outcome") or {}).get("expected_predicates") or []
    said = [AgentStatement("goal", session.goal), *(AgentStatement("expectation", text) for text in expected)]
    if restated and restated != session.goal:
        said.insert(1, AgentStatement("restated goal", restated))
    found = find_contradictions(payload, said)
    if sent.id == action.id:
        return found
    own = find_contradictions(parse_arguments(payload_of(sent)), said)
    return tuple(each for each in found if each in own)


def contradiction_rows(found: tuple[Contradiction, ...]) -> list[dict[str, str]]:
    """The contradictions as shown on page and API."""
    return [
        {"code": each.code, "where": PLACES[each.where], "said": each.said, "sent": each.sent, "text": each.sentence}
        for each in found
    ]


def approval_context(
    tenant: Tenant, approval: Approval, eligible: EligibilityContext, *, caller: Caller, at: datetime
) -> dict[str, Any]:
    """The approval page's context; `vote` is there only while this person may vote."""
    action, session = eligible.action, eligible.session
    assert session is not None
    record = load_action_record(tenant, action, approval=approval)
    history = events.history(tenant.id, approval.id)
    covers = votes.vote_coverage(approval)
    status = eligibility.voting_status(approval, at=at, context=eligible)
    asked = eligibility_approvals.eligibility_panel(status, record.names)
    why_not = eligibility_approvals.ineligibility_reason(
        approval, caller.actor.id, caller.roles, at=at, context=eligible
    )
    glass = _glass(record, approval, caller, at=at)
    icon, word = labels.approval_label(approval, action)
    return {
        "id": approval.id,
        "row": approval,
        "action": action,
        "title": record.title,
        "names": record.names,
        "strip": _strip(record, approval),
        "decision": None if approval.state == "REQUESTED" else {"icon": icon, "word": word},
        "passed": pass_notice(tenant, approval),
        "restored": restore_notice(tenant, record, at=at) if approval.id == action.approval_id else None,
        "covers": covers,
        "goal": _goal(session),
        "contradicted": contradiction_rows(
            agent_contradictions(action, session, record.entry, parse_arguments(record.payload))
        ),
        "fields": payload_fields(record),
        "is_undecided": approval.state in ("PREPARING", "REQUESTED"),
        "payload_note": sentences.payload_note(record.facts).text,
        "payload_size": covers.payload_length,
        "canonical": (record.payload or b"").decode(),
        "claims": _claims(record),
        "verification": record.contract.verification,
        "target": target_drift.drift_panel(record, approval, history),
        "unregistered": _unregistered_system(record),
        "is_unread": target_drift.is_unread(approval),
        "revision": edit_form.revision(record),
        "edit": record.page("approval-edit", approval.id) if edit_form.may_edit(approval, action, caller.roles) else "",
        "predicates": _predicates(record),
        "remedies": _remedies(record),
        "kin": find_related(record),
        "votes_differ": proofs.find_vote_mismatch(history, record.votes),
        "votes": [_vote(record, each) | {"fallen": each.id in asked["fallen"]} for each in record.votes],
        "asked": asked,
        "because": labels.approval_reason_label(approval.policy_row),
        "policies": _policies(record),
        "axes": outcome_axes(record),
        "report": report_on(action, record.entry, facts=record.facts).text,
        "why_not": why_not,
        "vote": None if why_not else _ballot(record, approval),
        "glass": glass,
        "signing": None if why_not else _signing(record, approval, covers, caller, needs=approval.step_up),
        "signing_glass": _signing(record, approval, covers, caller, needs=glass["signature_class"]) if glass else None,
        "page": {name: record.page(name, key) for name, key in (("action", action.id), ("session", action.session_id))},
    }


def _strip(record: ActionRecord, approval: Approval) -> dict[str, Any]:
    """Return the risk and how it is undone, for the first line."""
    recovery = record.contract.recovery
    undo = recovery.rollback_tool or recovery.compensation_tool
    code, shape = approval.risk, _RISK_SHAPES.get(approval.risk, "state-partial")
    return {
        "undo": f"it is undone with {undo}" if undo else "no tool undoes it",
        "risk": {"code": code.lower(), "word": labels.RISKS.get(code, ""), "icon": shape},
    }


_RISK_SHAPES = {"HIGH": "warning", "NORMAL": "state-partial", "LOW": "state-waiting"}


def payload_fields(record: ActionRecord) -> list[dict[str, Any]]:
    """The payload's fields exactly as a vote covers them, each with its description in the contract."""
    payload = parse_arguments(record.payload)
    described = record.contract.arguments_schema.get("properties", {})
    return [
        {
            "shown": field,
            "purpose": described.get(field.path.split("/")[1] if "/" in field.path else "", {}).get("description", ""),
            "reading": format_money(payload.get("amount"), payload.get("currency")) if field.path == "/amount" else "",
        }
        for field in rendering.render_payload(payload)
    ]


def _ballot(record: ActionRecord, approval: Approval) -> dict[str, Any]:
    thing = labels.OPERATION_NOUNS.get(record.action.operation_kind, record.action.operation_kind.replace("_", " "))
    return {
        "href": record.page("approval-vote", approval.id),
        "approve": f"Approve {thing}",
        "reject": f"Reject {thing}",
        "signature_class": approval.step_up,
        "signed_with": labels.SIGNATURES[approval.step_up],
    }


def _signing(
    record: ActionRecord, approval: Approval, covers: binding.Coverage, caller: Caller, *, needs: str
) -> dict[str, Any]:
    """Return the ways in which this person can sign, and the digest that the page returns so that every change is
    noticed.
    """
    return {
        "needs": needs,
        "covers": coverage_digest(covers),
        "keys": approvers.approver_keys(approval.tenant_id, actor_id=caller.actor.id, states=["ACTIVE"]),
        "has_code": authenticator_app(caller.user) is not None,
        "challenge_at": record.page("approval-challenge", approval.id),
        "shown_at": record.page("approval-shown", approval.id),
    }


def _glass(record: ActionRecord, approval: Approval, caller: Caller, *, at: datetime) -> dict[str, Any] | None:
    """Return break-glass, if the policy allows it and this person could use it now; the rules are checked
    again on use.
    """
    rule = break_glass.active_rule(approval.tenant_id)
    place = approvers.approver(approval.tenant_id, caller.actor.id)
    if approval.state != "REQUESTED" or at >= approval.decide_by or approval.requester == caller.actor.id:
        return None
    try:
        break_glass_rules.check_use(rule, roles=caller.roles, groups=place.groups if place and place.active else ())
    except Refused:
        return None
    return {
        "href": record.page("approval-vote", approval.id),
        "signature_class": rule.step_up,
        "signed_with": labels.SIGNATURES[rule.step_up],
        "reviewers": rule.reviewers,
        "within": rule.review_by(used_at=at),
    }


def _goal(session: Any) -> dict[str, Any]:
    return {"text": session.goal, "hash": session.pin_hash, "pinned_at": session.pinned_at, "agent": session.agent_id}


def _claims(record: ActionRecord) -> list[dict[str, str]]:
    """Return the agent's own additions, which are shown separately and decide nothing."""
    intended = record.entry["intended_outcome"]
    claims = [{"word": "It says it will", "text": f"act on {target_text(intended['target_resource'])}"}]
    claims += [
        {"word": "It expects", "text": _expectation(text, predicate_sentence(text, record.contract))}
        for text in _added_predicates(record)
    ]
    # A link is text here: where an agent's link leads is nobody's to recommend.
    return claims + [
        {"word": _EVIDENCE[name], "text": text} for each in _evidence(record) for name, text in each.document().items()
    ]


def _expectation(text: str, said: str) -> str:
    return f"{said}: {text}" if said == CUSTOM else said


_EVIDENCE = {"statement": "It states", "link": "It refers to", "id": "It names"}


def _evidence(record: ActionRecord) -> tuple[EvidenceItem, ...]:
    """The evidence that the agent gives for its call; erased evidence is not shown."""
    try:
        return gate_queries.evidence_of(record.action)
    except CannotOpen:
        return ()


def _added_predicates(record: ActionRecord) -> list[str]:
    return [
        text
        for text in record.entry["intended_outcome"]["expected_predicates"]
        if text not in record.contract.predicates
    ]


def _unregistered_system(record: ActionRecord) -> str:
    """The system that a reading would ask but that nobody registered; empty if there is none."""
    verification = record.contract.verification
    if verification is None or catalogue_queries.system(record.action.tenant_id, verification.system) is not None:
        return ""
    return verification.system


def _predicates(record: ActionRecord) -> list[dict[str, Any]]:
    own = [(text, False) for text in record.contract.predicates]
    return [
        {"text": text, "said": predicate_sentence(text, record.contract), "by_agent": by_agent}
        for text, by_agent in [*own, *((text, True) for text in _added_predicates(record))]
    ]


def _remedies(record: ActionRecord) -> list[dict[str, str]]:
    recovery = record.contract.recovery
    named = (
        ("Roll back", recovery.rollback_tool),
        ("Compensate", recovery.compensation_tool),
        ("Complete forward", recovery.forward_tool),
    )
    remedies = [{"word": word, "text": f"with {tool}"} for word, tool in named if tool]
    return remedies or [{"word": "Recovery", "text": "The contract names no tool to reverse or complete it."}]


def _vote(record: ActionRecord, vote: Vote) -> dict[str, Any]:
    icon, word = labels.VERDICTS[vote.verdict]
    statement = bytes(vote.statement)
    return {
        "icon": icon,
        "word": word,
        "by": record.names.get(vote.voter, "a reviewer"),
        "for_whom": record.names.get(vote.delegated_by, "somebody else") if vote.delegated_by else "",
        "at": vote.at,
        "reason": vote.reason,
        "signed_with": f"{labels.SIGNATURES[vote.evidence_class]} (class {vote.evidence_class})",
        "code": confirmation_code(statement) if statement else "",
        "without_reading": binding.is_without_reading(statement),
    }


def _policies(record: ActionRecord) -> list[dict[str, str]]:
    versions = record.entry["policy_context"]
    return [
        {"word": f"{kind.capitalize()} policy", "kind": kind, "version": versions[f"{kind}_policy_version"]}
        for kind in ("approval", "verification", "recovery")
    ]


REPLACED = frozenset({Decision.VOIDED, Decision.CHANGES_REQUESTED, Decision.SUPERSEDED})


def verdict_for_agent(action: Action) -> dict[str, Any] | None:
    """Return the verdict on a request for its agent: the decision, the reason and the next steps, without the persons.

    None if nobody was asked.
    """
    approval = approvals.approval(action.tenant_id, action.approval_id) if action.approval_id else None
    if approval is None:
        return None
    ended = events.end_before_execution(action.tenant_id, action.id) if action.state == "FAILED" else None
    reasons = _reasons(approval)
    said = decision_outcome(approval.state, ended=ended, reasons=reasons)
    successor = _successor(action) if said.decision in REPLACED else None
    if successor is not None:
        said = decision_outcome(approval.state, ended=ended, superseded=True, reasons=reasons)
    return {
        "approval_id": str(approval.id),
        "decision": str(said.decision),
        "waiting": said.waiting,
        "reason": said.reason or None,
        "next": {"code": said.next, "text": said.advice},
        "superseded_by": str(successor.id) if successor is not None else None,
        "more": dict(said.more),
        "decide_by": instant(approval.decide_by),
        "release_by": instant(approval.release_by) if approval.release_by else None,
    }


def _reasons(approval: Approval) -> bool:
    """Return whether the policy lets the agent read the reviewers' reasons."""
    version = catalogue_queries.policy_version(approval.tenant_id, "approval", approval.policy_version)
    return version is None or policy.load_stored(bytes(version.document)).reasons_to_agents


def _successor(action: Action) -> Any:
    """The action that supersedes this one."""
    return next((each for each, _ in actions.related_actions(action) if each.supersedes == action.id), None)
