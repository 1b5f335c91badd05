"""Reads for the guard: the actions that a session may mention, with their fields, answers and readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.fields import compare_fields
from ledger.catalogue.rules.policies import MessageRule, message_rule
from ledger.db import execute
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import outcome_of
from reviews import queries
from reviews.guarding.rules.receipt import confirmation_of
from reviews.guarding.rules.records import Ground, Record, Tool, leaves
from reviews.models import GuardVerdict
from reviews.observations.rules import observe
from reviews.reconciliation.rules.reading import parse_reading, reading_bindings
from reviews.reporting.operations.reports import report_on
from reviews.reporting.queries import facts_of_each
from reviews.reporting.rules.report import StatusReport

MOST = 500
READ_LASTS = timedelta(hours=1)
"""After so long a reading is no ground for telling a condition as current (R-CG-08)."""
_UNDONE = {State.PROPOSED, State.VALIDATED, State.FAILED, State.ROLLED_BACK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The sender of a message: a session, its agent, the tools and contracts that it was given, for its actions
    the id of the call behind each and why the gate refused it, and the refused calls that left no action.

    `goal` is the pinned one. `is_whole` says that, by its registration, all changing tools of the agent pass here.
    """

    tenant_id: UUID
    session_id: UUID
    run_id: str
    agent_id: str
    actor_id: UUID
    tools: tuple[Tool, ...]
    contracts: Mapping[str, Contract]
    call_ids: Mapping[UUID, str]
    refusals: Mapping[UUID, str]
    refused: tuple[Record, ...] = ()
    goal: str = ""
    is_whole: bool = True


def ground_of(speaker: Speaker, actions: list[Any], *, at: datetime) -> Ground:
    """Return the records to judge a message of this session against; those since the last message are new."""
    known = _known_before(speaker.tenant_id, speaker.session_id)
    records = (*_records(speaker, actions, at=at), *speaker.refused)
    marked = (each.marked(is_new=known.get(each.action_id) != each.outcome) for each in records)
    records = tuple(sorted(marked, key=lambda each: each.action_id))
    return Ground(speaker.tools, records, heard=speaker.goal, is_whole=speaker.is_whole)


def actions_of(speaker: Speaker) -> list[Any]:
    """The actions that a session may mention, oldest first: its own, and those of the same agent in the same run."""
    own = actions_queries.actions(speaker.tenant_id, session=speaker.session_id, limit=MOST)
    run = actions_queries.actions(speaker.tenant_id, run=speaker.run_id, agent=speaker.agent_id, limit=MOST)
    found = {action.id: action for action in (*own, *run)}
    return [found[each] for each in sorted(found)][-MOST:]


def message_rule_of(tenant_id: UUID, agent_id: str) -> MessageRule:
    """The verification policy's rule for the messages of an agent."""
    document = catalogue_queries.active_policies(tenant_id)["verification"].document
    return message_rule(orjson.loads(bytes(document)), agent_id)


def untold_changes(tenant_id: UUID, session_id: UUID) -> list[Any]:
    """Return the changes of a session whose outcome no guarded message has reported; recovery actions are not the
    agent's.
    """
    made = actions_queries.actions(tenant_id, session=session_id, relation="", limit=MOST)
    return _unreported_changes(made, {session_id: _known_before(tenant_id, session_id)})


def count_unreported(tenant_id: UUID, agent_id: str) -> int:
    """Count the newest changes of an agent that no message seen by the guard reports."""
    made = actions_queries.actions(tenant_id, agent=agent_id, relation="", limit=MOST)
    verdicts = GuardVerdict.objects.filter(tenant_id=tenant_id, session_id__in={each.session_id for each in made})
    last = verdicts.order_by("session_id", "-id").distinct("session_id")
    return len(_unreported_changes(made, {each.session_id: _outcomes(each) for each in last}))


def _unreported_changes(made: list[Any], known: Mapping[UUID, Mapping[str, str]]) -> list[Any]:
    changes = (each for each in made if each.mutating)
    return [each for each in changes if known.get(each.session_id, {}).get(str(each.id)) != str(outcome_of(each))]


def _outcomes(verdict: GuardVerdict) -> dict[str, str]:
    return {each["action_id"]: each.get("outcome", "") for each in verdict.records}


def _known_before(tenant_id: UUID, session_id: UUID) -> dict[str, str]:
    """The outcome of each action when the agent last spoke."""
    last = GuardVerdict.objects.filter(tenant_id=tenant_id, session_id=session_id).order_by("-id").first()
    return _outcomes(last) if last is not None else {}


def _records(speaker: Speaker, actions: list[Any], *, at: datetime) -> Iterable[Record]:
    tenant_id, ids = speaker.tenant_id, [action.id for action in actions]
    entries = events.entries(tenant_id, [(action.id, action.seq) for action in actions])
    arguments = _arguments(tenant_id, actions)
    answers = _answers(tenant_id, ids)
    readings = _readings(tenant_id, [action.id for action in actions if action.mutating])
    facts = facts_of_each(tenant_id, actions, entries)
    for action in actions:
        if action.id in facts:
            told = report_on(action, entries[action.id], facts=facts[action.id])
            seen = _Seen(arguments.get(action.id, {}), answers.get(action.id, []), readings.get(action.id))
            yield _record(speaker, action, told, seen, at=at)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The kept facts of an action: its request, the answers in their order, and the last reading."""

    arguments: Mapping[str, Any]
    answers: list[Mapping[str, Any]]
    reading: Mapping[str, Any] | None


def _record(speaker: Speaker, action: Any, told: StatusReport, kept: _Seen, *, at: datetime) -> Record:
    seen = [observe.parse_result(each.get("result"), tool=action.tool) for each in kept.answers]
    state = State.COMPENSATED if action.reversed and action.state == State.RECONCILED_SUCCESS else action.state
    contract = speaker.contracts.get(action.tool)
    answer = _answer_fields(seen)
    required = contract.required_effects if contract else ()
    reading = reading_bindings(parse_reading(kept.reading), required) if kept.reading is not None else {}
    compared = compare_fields(kept.arguments, contract=contract, answer=answer or None, reading=reading or None)
    return Record(
        action_id=str(action.id),
        tool=action.tool,
        target=action.target,
        arguments=kept.arguments,
        state=str(state),
        completed=told.is_fulfilled,
        code=str(told.code),
        text=told.text,
        reason=_reason(action, seen) or speaker.refusals.get(action.id, ""),
        evidence=tuple(str(leaf) for each in seen for leaf in leaves(each.evidence) if leaf not in ("", False)),
        contradicted=action.contradicted,
        stale=not action.mutating and _is_stale(action, at=at),
        at=action.changed_at,
        outcome=str(outcome_of(action)),
        call_id=speaker.call_ids.get(action.id, ""),
        answer=answer,
        reading=reading,
        fields=compared,
    )


def confirmations_of(tenant_id: UUID, actions: list[Any]) -> dict[UUID, str]:
    """Return the confirmation codes that the tools gave for these actions, for receipts."""
    arguments = _arguments(tenant_id, actions)
    answers = _answers(tenant_id, [action.id for action in actions])
    found = {}
    for action in actions:
        seen = [observe.parse_result(each.get("result"), tool=action.tool) for each in answers.get(action.id, [])]
        if code := confirmation_of(_answer_fields(seen), arguments.get(action.id, {})):
            found[action.id] = code
    return found


def _answer_fields(seen: list[observe.ParsedObservation]) -> dict[str, Any]:
    """Return the decisive answer, with the fields of its evidence added to its own."""
    last = observe.deciding_observation(seen)
    if last is None:
        return {}
    evidence = last.evidence if isinstance(last.evidence, Mapping) else {}
    return {**evidence, **observe.observation_bindings(last)}


def _readings(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, Mapping[str, Any]]:
    """The last reading of the system of record for each of these actions that has one."""
    runs = {run.pointer: run.action_id for run in queries.last_runs(tenant_id, ids).values()}
    found = {runs[pointer]: orjson.loads(data) for pointer, data in _open_evidence(tenant_id, list(runs)).items()}
    return {action_id: each["readings"][0] for action_id, each in found.items() if each.get("readings")}


def _reason(action: Any, seen: list[observe.ParsedObservation]) -> str:
    """Return the reason of a failure, safe to show: from the record, or the code that the tool gave (C-32)."""
    if action.state != State.FAILED:
        return ""
    unrun = events.end_before_execution(action.tenant_id, action.id)
    if unrun and unrun.get("reason"):
        return str(unrun["reason"])
    codes = [each.error_code for each in seen if each.error_code]
    return f"the tool answered {codes[-1]}" if codes else ""


def _is_stale(action: Any, *, at: datetime) -> bool:
    """Return whether a reading is too old, or its target was changed after it."""
    if at - action.changed_at > READ_LASTS:
        return True
    later = actions_queries.actions(action.tenant_id, target=action.target, limit=MOST)
    return any(each.mutating and each.changed_at > action.changed_at and each.state not in _UNDONE for each in later)


def _arguments(tenant_id: UUID, actions: list[Any]) -> dict[UUID, Any]:
    pointers = {action.payload_pointer: action.id for action in actions if action.payload_pointer is not None}
    opened = _open_evidence(tenant_id, list(pointers))
    read = {pointers[pointer]: orjson.loads(data) for pointer, data in opened.items()}
    # The gate keeps what it refused as it came; only an object has arguments that a claim could be compared with.
    return {action_id: each if isinstance(each, dict) else {} for action_id, each in read.items()}


def _answers(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, list[Any]]:
    observed = queries.read_observations(execute(*queries.observations_call(tenant_id, ids)))
    opened = _open_evidence(tenant_id, [each.pointer for each in observed])
    found: dict[UUID, list[Any]] = {}
    for each in observed:
        if each.pointer in opened:
            found.setdefault(each.action_id, []).append(orjson.loads(opened[each.pointer]))
    return found


def _open_evidence(tenant_id: UUID, pointers: list[UUID]) -> dict[UUID, bytes]:
    """Decrypt the evidence of these pointers, without erased evidence."""
    try:
        return evidence_queries.open_evidence_many(tenant_id, pointers)
    except (EvidenceErased, CannotOpen):
        if len(pointers) == 1:
            return {}
        return {key: data for each in pointers for key, data in _open_evidence(tenant_id, [each]).items()}
