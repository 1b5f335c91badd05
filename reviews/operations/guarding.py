"""Guarding: one outgoing message judged against the record, and the verdict kept with its grounds (R-CG-19).

The message, its corrected text and the quotes are sealed as evidence of the session, and go with it when it is erased;
the event and the log's row hold hashes, spans, codes and the states that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from ledger.actions.queries import actions as actions_queries
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.canonical import digest
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from ledger.record.rules.lifecycle import State
from reviews import queries
from reviews.models import GuardVerdict
from reviews.observations.rules import observe
from reviews.reporting.operations.reports import report_on
from reviews.rules.guard.records import Ground, Record, Stated, Tool
from reviews.rules.guard.verdict import Found, Verdict, judge

MOST = 500
READ_LASTS = timedelta(hours=1)
"""After so long a reading is no ground for telling a condition as current (R-CG-08)."""
_UNDONE = {State.PROPOSED, State.VALIDATED, State.FAILED, State.ROLLED_BACK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Who is about to say something: a session, its agent, the tools it was given, and the calls the gate refused."""

    tenant_id: UUID
    session_id: UUID
    run_id: str
    agent_id: str
    actor_id: UUID
    tools: tuple[Tool, ...]
    refused: tuple[Record, ...] = ()


def guard(
    *, speaker: Speaker, message: str, stated: tuple[Stated, ...] = (), extra: tuple[Found, ...] = (), at: datetime
) -> Verdict:
    """Judge a message, and keep the verdict."""
    actions = actions_of(speaker)
    ground = Ground(speaker.tools, (*records_of(speaker.tenant_id, actions, at=at), *speaker.refused))
    verdict = judge(message, ground, stated, extra=extra)
    _keep(speaker, message, verdict, actions, at=at)
    return verdict


def actions_of(speaker: Speaker) -> list[Any]:
    """The actions that a session may speak of, oldest first: its own, and those of the same agent in the same run."""
    own = actions_queries.actions(speaker.tenant_id, session=speaker.session_id, limit=MOST)
    run = actions_queries.actions(speaker.tenant_id, run=speaker.run_id, agent=speaker.agent_id, limit=MOST)
    found = {action.id: action for action in (*own, *run)}
    return [found[each] for each in sorted(found)][-MOST:]


def records_of(tenant_id: UUID, actions: list[Any], *, at: datetime) -> tuple[Record, ...]:
    """What is on record of these actions, as the guard reads it."""
    entries = events.entries(tenant_id, [(action.id, action.seq) for action in actions])
    arguments = _arguments(tenant_id, actions)
    answers = _answers(tenant_id, [action.id for action in actions])
    known = [action for action in actions if action.id in entries]
    return tuple(_record(each, entries[each.id], arguments, answers.get(each.id, ()), at=at) for each in known)


def _record(
    action: Any,
    entry: dict[str, Any],
    arguments: Mapping[UUID, Any],
    answers: Iterable[Mapping[str, Any]],
    *,
    at: datetime,
) -> Record:
    told = report_on(action, entry)
    seen = [observe.parse_result(each.get("result"), tool=action.tool) for each in answers]
    state = State.COMPENSATED if action.reversed and action.state == State.RECONCILED_SUCCESS else action.state
    return Record(
        action_id=str(action.id),
        tool=action.tool,
        target=action.target,
        arguments=arguments.get(action.id, {}),
        state=str(state),
        completed=told.completed,
        code=str(told.code),
        text=told.text,
        reason=_reason(action, seen),
        evidence=tuple(leaf for each in seen for leaf in _leaves(each.evidence)),
        contradicted=action.contradicted,
        stale=not action.mutating and _is_stale(action, at=at),
        at=action.changed_at,
    )


def _reason(action: Any, seen: list[observe.ParsedObservation]) -> str:
    """Why it failed, safe to show: what the record itself says, or the code that the tool gave (C-32)."""
    if action.state != State.FAILED:
        return ""
    unrun = events.end_before_execution(action.tenant_id, action.id)
    if unrun and unrun.get("reason"):
        return str(unrun["reason"])
    codes = [each.error_code for each in seen if each.error_code]
    return f"the tool answered {codes[-1]}" if codes else ""


def _leaves(evidence: Any) -> Iterable[str]:
    if isinstance(evidence, dict):
        return [leaf for each in evidence.values() for leaf in _leaves(each)]
    if isinstance(evidence, list):
        return [leaf for each in evidence for leaf in _leaves(each)]
    return [str(evidence)] if evidence not in (None, "", False) else []


def _is_stale(action: Any, *, at: datetime) -> bool:
    """Whether a reading is too old, or its target was changed after it."""
    if at - action.changed_at > READ_LASTS:
        return True
    later = actions_queries.actions(action.tenant_id, target=action.target, limit=MOST)
    return any(each.mutating and each.changed_at > action.changed_at and each.state not in _UNDONE for each in later)


def _arguments(tenant_id: UUID, actions: list[Any]) -> dict[UUID, Any]:
    pointers = {action.payload_pointer: action.id for action in actions if action.payload_pointer is not None}
    opened = _opened(tenant_id, list(pointers))
    read = {pointers[pointer]: orjson.loads(data) for pointer, data in opened.items()}
    # The gate keeps what it refused as it came; only an object has arguments that a claim could be compared with.
    return {action_id: each if isinstance(each, dict) else {} for action_id, each in read.items()}


def _answers(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, list[Any]]:
    observed = queries.observations_of_all(tenant_id, ids)
    opened = _opened(tenant_id, [each.pointer for each in observed])
    found: dict[UUID, list[Any]] = {}
    for each in observed:
        if each.pointer in opened:
            found.setdefault(each.action_id, []).append(orjson.loads(opened[each.pointer]))
    return found


def _opened(tenant_id: UUID, pointers: list[UUID]) -> dict[UUID, bytes]:
    """What is behind these pointers, without what was erased."""
    try:
        return evidence_queries.open_evidence_many(tenant_id, pointers)
    except (EvidenceErased, CannotOpen):
        if len(pointers) == 1:
            return {}
        return {key: data for each in pointers for key, data in _opened(tenant_id, [each]).items()}


def _keep(speaker: Speaker, message: str, verdict: Verdict, actions: list[Any], *, at: datetime) -> None:
    blocked = verdict.verdict == "BLOCK"
    used = [{"action_id": str(each.id), "seq": each.seq, "state": each.state} for each in actions]
    claims = [_unquoted(each) for each in verdict.claims]
    codes, tags = (
        _distinct(each.code for each in verdict.violations),
        _distinct(each.tag for each in verdict.violations),
    )
    message_hash = digest(message.encode("utf-8", "replace"))
    head = ledger.lock_subject(tenant_id=speaker.tenant_id, subject_id=speaker.session_id, kind="session")
    sealed = ledger.store_evidence(
        tenant_id=speaker.tenant_id,
        subject_id=speaker.session_id,
        purpose="message",
        data=orjson.dumps({"message": message, **asdict(verdict)}),
        media_type="application/json",
        source=f"agent {speaker.agent_id}",
        at=at,
    )
    head = ledger.append(
        head,
        ledger.NewEvent(
            kind="message_blocked" if blocked else "message_allowed",
            detail={"codes": codes, "message_hash": message_hash, "claims": claims, "records": used},
            evidence=(sealed,),
        ),
        actor=ledger.Actor("agent", speaker.actor_id),
        at=at,
    )
    assert head.event_id is not None
    GuardVerdict.objects.create(
        tenant_id=speaker.tenant_id,
        id=ledger.new_id(at),
        session_id=speaker.session_id,
        event_id=head.event_id,
        verdict=verdict.verdict,
        codes=codes,
        tags=tags,
        claims=claims,
        records=used,
        message_hash=message_hash,
        pointer=sealed.pointer,
        at=at,
    )


def _unquoted(claim: Found) -> dict[str, Any]:
    """A claim without its words."""
    kept = {name: value for name, value in asdict(claim).items() if name != "quote"}
    return kept | {"span": list(claim.span), "action_ids": list(claim.action_ids)}


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
