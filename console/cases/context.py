"""The data for a person who settles a case: the request, the findings, and the allowed decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from console.accounts import queries as directory
from console.actions.action_context import required_checks
from console.actions.action_record import (
    ActionRecord,
    action_timeline,
    event_rows,
    load_action_record,
    outcome_axes,
    parse_arguments,
)
from console.actions.related_actions import find_related
from console.actions.state_comparison import comparison_table, predicate_rows
from console.cases import settlement_signing, verbs
from console.cases.checklist import checklist_panel
from console.cases.containment import containment_panel
from console.cases.corrections import corrections_of, rows_in_question
from console.cases.decisions import read_back_rows, recovery_decision, unknown_action_panel
from console.cases.settlement_signing import settlement_of_case
from console.edge.auth import Caller
from console.web import labels
from ledger.actions.queries import actions
from ledger.catalogue.rules.money import amount_of
from ledger.record.queries import events
from ledger.record.rules.lifecycle import State
from reviews import queries as after
from reviews.cases.operations import runbooks as work
from reviews.cases.operations.cases import held_action
from reviews.cases.rules import resolutions, runbooks
from reviews.cases.rules.resolutions import Resolution
from reviews.cases.rules.settlements import Act, act_of, describe_consequence
from reviews.recovery.rules.remedies import CORRECT
from reviews.reporting.operations.reports import report_on
from reviews.reporting.rules import sentences
from reviews.reporting.rules.at_stake import describe_damage

if TYPE_CHECKING:
    from ledger.models import Action, Tenant
    from reviews.cases.rules.resolutions import HeldAction
    from reviews.models import Case

# Looking again claims nothing, so it needs no words.
_ONE_CLICK = "VERIFY_AGAIN"
# What an operator thinks of first comes first; nothing that the rules allow may be missing.
_GROUPS = (
    ("Re-verify", ("VERIFY_AGAIN", "STRONG_READ")),
    ("Attest manually", ("ATTEST_PRESENT", "ATTEST_ABSENT")),
    ("Reverse or complete", ("CORRECT", "COMPENSATE", "ROLL_BACK", "FORWARD_RECOVER")),
    ("Close", ("ACCEPT", "ACKNOWLEDGE", "FAIL", "ABANDON")),
)
_OWN_EVENTS = frozenset({"case_opened", "case_resolved"})


def case_context(tenant: Tenant, case: Case, *, caller: Caller, at: datetime) -> dict[str, Any]:
    """Return the case page's context, without deciding anything."""
    assert case.action_id is not None
    action = actions.action(tenant.id, case.action_id)
    assert action is not None
    record = load_action_record(tenant, action)
    history = events.history(tenant.id, case.id)
    policy = recovery_decision(record)
    said = report_on(action, record.entry, facts=record.facts)
    label, definition = labels.case_finding(case)
    book = runbooks.for_case(reason=case.reason, discrepancy=case.discrepancy, trigger=policy["trigger"])
    return {
        "row": case,
        "action": action,
        "title": record.title,
        "label": label,
        "definition": definition or policy["finding"].capitalize(),
        "sentence": case_sentence(record, case.discrepancy),
        "ended": _how_it_ended(record, case),
        "reason": labels.case_reason_label(case.reason),
        "owner": record.names.get(case.claimed_by, "") if case.claimed_by else "",
        "snoozed": bool(case.snoozed_until and case.snoozed_until > at),
        "report": said.text,
        "parts": said.parts,
        "axes": outcome_axes(record),
        "policy": policy,
        "workbench": unknown_action_panel(record, case, at=at),
        "corrections": [
            each | {"href": record.page("action", each["action_id"]) if each["action_id"] else ""}
            for each in corrections_of(tenant.id, action.id)
        ],
        "layers": comparison_table(record),
        "predicates": (checks := predicate_rows(record)),
        "readbacks": (readings := read_back_rows(record)),
        "evidence_note": _evidence_note(checks, readings),
        "depth": required_checks(record),
        "timeline": _timeline(record, history),
        "kin": find_related(record),
        **_discussion(record, case),
        "containment": containment_panel(tenant, caller, agent=action.agent, tool=action.tool, target=action.target),
        "checklist": checklist_panel(
            book,
            work.ticks_from_history(history),
            record.names,
            may_tick=may_work_on(case, caller),
            href=record.page("case-step", case.id),
        ),
        "runbooks_href": record.page("runbooks"),
        "page": {name: record.page(f"case-{name}", case.id) for name in PAGES},
        "href": {name: record.page(name, key) for name, key in _links(action)},
        **_choices(record, case, caller, at=at),
    }


def _evidence_note(checks: list[dict[str, Any]], readings: list[dict[str, Any]]) -> str:
    """A summary of the folded evidence."""
    fails = sum(each["holds"] == "FALSE" for each in checks)
    said = f"{len(checks)} {'check' if len(checks) == 1 else 'checks'}"
    said += f", {fails} {'does' if fails == 1 else 'do'} not hold" if fails else ""
    return f"{said}; {len(readings)} {'readback' if len(readings) == 1 else 'readbacks'}"


PAGES = ("claim", "release", "assign", "snooze", "wake", "reopen", "comment", "resolve", "confirm", "challenge")


def _discussion(record: ActionRecord, case: Case) -> dict[str, Any]:
    """The thread of a case and the incidents that it belongs to."""
    tenant_id = case.tenant_id
    return {
        "comments": [
            {"by": record.names.get(each.author, "somebody"), "at": each.at, "text": each.text}
            for each in after.comments_of(tenant_id, case.id)
        ],
        "incidents": [
            {"row": each, "href": record.page("incident", each.id)} for each in after.incidents_of(tenant_id, case.id)
        ],
    }


def _timeline(record: ActionRecord, history: list[Any]) -> list[dict[str, Any]]:
    """The action's events with the case's work between them."""
    own = [line for line in event_rows(history, record.names) if line["kind"] not in _OWN_EVENTS]
    return sorted([*action_timeline(record), *own], key=lambda line: line["at"])


def _links(action: Action) -> list[tuple[str, Any]]:
    links = [("action", action.id), ("session", action.session_id)]
    return [*links, ("approval", action.approval_id)] if action.approval_id else links


def may_work_on(case: Case, caller: Caller) -> bool:
    """Return whether this person may work on a case."""
    return "operator" in caller.roles and case.state != "RESOLVED"


def _choices(record: ActionRecord, case: Case, caller: Caller, *, at: datetime) -> dict[str, Any]:
    """Return the actions open to this person; the rules are checked again when they act."""
    works, tenant_id = may_work_on(case, caller), case.tenant_id
    held = held_action(case)
    allowed = resolutions.allowed_resolutions(held)
    settled = _settlement(record, case) if case.state == "RESOLVED" else None
    sign = settlement_signing.signing_context(
        case, held, caller, challenge_at=record.page("case-challenge", case.id), at=at
    )
    why_not = _why_not(case, caller, allowed, is_correcting=record.action.recovery_decision == CORRECT)
    ways = resolution_groups(held, allowed, policy=sign["policy"])
    return {
        "works": works,
        "may_claim": works and case.claimed_by is None,
        "may_release": works and case.claimed_by == caller.actor.id,
        "may_settle": works and case.state == "OPEN" and bool(allowed),
        "may_confirm": case.state == "AWAITING_SECOND" and not why_not,
        "may_reopen": "operator" in caller.roles and settled is not None and resolutions.can_be_reopened(held.state),
        "may_comment": bool({"operator", "reviewer", "compliance"} & caller.roles),
        "owners": sorted(directory.operators(tenant_id).items(), key=lambda pair: pair[1]) if works else [],
        "snooze": verbs.SNOOZE.form(auto_id="snooze-%s") if works else None,
        "why_not": why_not,
        "signing": sign,
        "ways": _with_a_form(ways),
        "suggested": suggest_resolution(ways, case.discrepancy, case.reason),
        "may_verify": any(str(each) == _ONE_CLICK for each in allowed),
        "lookup_note": describe_consequence(held, Resolution.VERIFY_AGAIN) if held.lookup else "",
        "proposed": _proposal(record, case, held, sign["policy"]) if case.state == "AWAITING_SECOND" else None,
        "settled": settled,
    }


def resolution_groups(held: HeldAction, allowed: tuple[Resolution, ...], *, policy: str) -> list[dict[str, Any]]:
    """The allowed resolutions, in groups."""
    known = {code for _, codes in _GROUPS for code in codes}
    groups = (*_GROUPS, ("Other", tuple(str(each) for each in allowed if str(each) not in known)))
    ways = [
        {
            "word": word,
            "choices": [_choice(held, each, policy) for code in codes for each in allowed if str(each) == code],
        }
        for word, codes in groups
    ]
    return [group for group in ways if group["choices"]]


def _with_a_form(ways: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All resolutions except the one with its own button."""
    left = [group | {"choices": [each for each in group["choices"] if each["code"] != _ONE_CLICK]} for group in ways]
    return [group for group in left if group["choices"]]


def _choice(held: Any, resolution: Any, policy: str) -> dict[str, Any]:
    _, text = labels.RESOLUTIONS.get(str(resolution), ("", ""))
    second = resolutions.needs_second(held, resolution)
    signed = settlement_signing.signing_terms(held, resolution, policy=policy, act=act_of(held, resolution))
    verb = labels.resolution_label(str(resolution)).lower()
    return {"code": str(resolution), "word": signed["label"], "verb": verb, "text": text, "second": second, **signed}


def _why_not(case: Case, caller: Caller, allowed: tuple[Any, ...], *, is_correcting: bool) -> str:
    if case.state == "AWAITING_SECOND":
        return settlement_signing.confirm_refusal(case, caller)
    if "operator" not in caller.roles:
        return "Only operators can resolve cases."
    if allowed:
        return ""
    if is_correcting:
        return "A correction is under way. This case closes when a reading confirms it, and stays open if none does."
    return "Nothing to resolve now: the action is being verified again."


def _proposal(record: ActionRecord, case: Any, held: Any, policy: str) -> dict[str, Any]:
    signed = settlement_signing.signing_terms(
        held, Resolution(case.proposed_resolution), policy=policy, act=Act.CONFIRM
    )
    return {
        **signed,
        "word": signed["label"],
        "text": labels.RESOLUTIONS[case.proposed_resolution][1],
        "by": record.names.get(case.proposed_by, "somebody"),
        "reason": case.proposed_reason,
        "evidence": case.proposed_evidence,
    }


def _settlement(record: ActionRecord, case: Case) -> dict[str, Any]:
    """The settlement of the case, from the action's own history."""
    settlement = settlement_of_case(case, record.history)
    if settlement is None:
        return {
            "word": labels.sentence_case(case.resolution),
            "said": labels.sentence_case(case.resolution),
            "at": case.resolved_at,
        }
    return {
        "word": labels.resolution_label(case.resolution, record.difference),
        "said": settlement.sentence(record.names, record.difference),
        "by": record.names.get(settlement.by, "somebody"),
        "second": record.names.get(settlement.confirmed_by, "") if settlement.confirmed_by else "",
        "reason": settlement.reason,
        "evidence": settlement.evidence,
        "at": settlement.at,
        "signed_with": labels.SIGNATURES.get(settlement.evidence_class, ""),
    }


def _how_it_ended(record: ActionRecord, case: Case) -> str:
    """The settlement of a case or the outcome of its action; empty while its finding is open."""
    if case.state == "RESOLVED":
        return str(_settlement(record, case)["said"])
    ended = State(record.action.state) in resolutions.SETTLED and not record.action.contradicted
    return labels.outcome_label(record.action) if ended else ""


# What is tried first where a discrepancy was found; the first that the rules allow is suggested.
_USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "DUPLICATE_SIDE_EFFECT": ("CORRECT", "COMPENSATE", "ROLL_BACK"),
    "VALUE_MISMATCH": ("CORRECT", "STRONG_READ", "COMPENSATE", "ROLL_BACK"),
    "PARTIAL_APPLICATION": ("FORWARD_RECOVER", "COMPENSATE"),
    "WRONG_TARGET_MODIFIED": ("ROLL_BACK", "COMPENSATE"),
    "COMPENSATION_REQUIRED": ("COMPENSATE", "ROLL_BACK"),
    "NO_OP_SUCCESS": ("ACKNOWLEDGE",),
    "UNVERIFIABLE_STATE": ("ATTEST_PRESENT",),
}
_LOOK_FIRST: Final = ("VERIFY_AGAIN", "STRONG_READ")


def case_sentence(record: ActionRecord, discrepancy: str) -> str:
    """The damage: money and rows where a reading shows them; empty if only the definition of its class is known."""
    thing, found = record.title, record.decisive
    is_approved = record.facts.authorization.how in sentences.GRANTED
    permitted = "approved" if is_approved else "requested"
    if damage := describe_damage(found, permitted=permitted):
        return damage
    effects = found.get("layers", {}).get("sa", {}).get("effects", {})
    more = {name: one["count"] for name, one in effects.items() if one.get("count", 0) > 1}
    there, rows = record.difference, rows_in_question(found)
    named = f" ({' and '.join(rows)})" if rows else ""
    match discrepancy:
        case "DUPLICATE_SIDE_EFFECT" if more:
            name, count = next(iter(more.items()))
            wanted = amount_of(parse_arguments(record.payload))
            return f"{count} {name.replace('_', ' ')}s exist{named}; one{wanted and f' of {wanted}'} was {permitted}."
        case "VALUE_MISMATCH" | "STALE_STATE" | "PARTIAL_APPLICATION" if there:
            return f"The system of record shows {there}{named}."
        case "NO_OP_FAILURE":
            return "Nothing was changed: the system of record shows no effect."
        case "UNKNOWN_STATE":
            return f"It is not known whether this took effect: {thing}."
    return ""


def suggest_resolution(ways: Iterable[Mapping[str, Any]], discrepancy: str, reason: str) -> dict[str, Any] | None:
    """The usual resolution of the finding, among those allowed now; None where no reading can be compared."""
    if reason == "UNREADABLE":
        return None
    offered: dict[str, dict[str, Any]] = {choice["code"]: choice for group in ways for choice in group["choices"]}
    for code in (*_USUAL.get(discrepancy, ()), *_LOOK_FIRST):
        if code in offered:
            return offered[code]
    return None
