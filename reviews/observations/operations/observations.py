"""Stores tool answers as observations; none is trusted as fact (R-OB-03)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.effects import Boundary
from ledger.db import defer, insert_call, tenancy
from ledger.record import operations as ledger
from ledger.record.queries import evidence as evidence_queries
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.canonical import parse
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from reviews.models import Observation
from reviews.observations.rules import observe as rules
from reviews.readback.operations import work_queue
from reviews.readback.operations.schedules import schedule_call
from reviews.readback.rules import schedule as schedule_rules


class StoredAnswer(NamedTuple):
    """The state of the action after an answer, and when it is read back, if it is."""

    state: str
    read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAnswer:
    """The answer to one attempt: the document as it was sent, the raw output apart, and the attempt's bounds.

    `disclosed` are the tools of the session that the action came from.
    """

    attempt: int
    timeout_s: int
    lease_ends_at: datetime
    document: dict[str, Any]
    raw: bytes | None
    source: str
    disclosed: tuple[str, ...] = ()


_MEDIA_TYPES = {"observation": "application/json", "raw_output": "application/octet-stream"}


def record_answer(
    *,
    tenant_id: UUID,
    action_id: UUID,
    contract: Contract,
    answer: AttemptAnswer,
    by: ledger.Actor,
    at: datetime,
    ended: tuple[Any, ...] = (),
) -> StoredAnswer:
    """Store an answer and take the step it allows. Late ones are taken too (R-OB-13).

    If we crash after this commit, the schedule row is there: the reading happens whether or not a message arrives.
    `ended` is the call that ends the attempt, sent with everything else that is written.
    """
    head, ([key], systems) = ledger.lock_and_read(
        evidence_queries.key_call(tenant_id, action_id),
        work_queue.system_call(tenant_id, contract),
        tenant_id=tenant_id,
        subject_id=action_id,
        kind="action",
    )
    assert head.entry is not None
    seen = _parse_answer(answer.document, contract)
    evidence, rows = _seal_answer(tenant_id, action_id, answer, key_id=key[0], at=at)
    pointer = evidence[0].pointer
    step = rules.answer_step(
        seen,
        state=State(head.state),
        entry=head.entry,
        pointer=str(pointer),
        at=at,
        local=contract.transaction_boundary is Boundary.LOCAL_TRANSACTION,
        readable=contract.mutating and contract.verifiable,
    )
    row = Observation(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        action_id=action_id,
        attempt=answer.attempt,
        status=str(seen.status),
        claimed_success=seen.claimed_success,
        error_code=(seen.error_code or "")[:64],
        source=answer.source[:16],
        late=head.state != State.EXECUTING,
        pointer=pointer,
        raw_pointer=evidence[1].pointer if answer.raw is not None else None,
        at=at,
    )
    happening = _happening(row, seen, step, contract, answer, evidence, at=at)
    event = ledger.events_call(ledger.draft_event(head, happening, actor=by, at=at))
    read_at = _next_reading(step, contract, at=at)
    again = [_schedule_call(head, contract, systems, due_at=read_at, at=at)] if read_at is not None else []
    defer(insert_call(*rows, row), event, *again, *([ended] if ended else []))
    if step.state is State.FAILED and step.moves:
        action = actions.action(tenant_id, action_id)
        assert action is not None
        ledger_orders.unwind_after_failure(action, str(step.state), at=at)
    return StoredAnswer(str(step.state), read_at)


def _seal_answer(
    tenant_id: UUID, action_id: UUID, answer: AttemptAnswer, *, key_id: UUID | None, at: datetime
) -> tuple[tuple[ledger.SealedEvidence, ...], list[Any]]:
    """The answer as evidence, and its raw output where there is some; also the rows of both."""
    pieces = {"observation": orjson.dumps(answer.document)}
    if answer.raw is not None:
        pieces["raw_output"] = answer.raw
    sealed, rows = ledger.seal_pieces(
        tenant_id=tenant_id,
        subject_id=action_id,
        pieces=pieces,
        sources=dict.fromkeys(pieces, answer.source),
        media_types=_MEDIA_TYPES,
        at=at,
        key_id=key_id,
    )
    return sealed, list(rows)


def _next_reading(step: Any, contract: Contract, *, at: datetime) -> datetime | None:
    """The time of the first read-back, if the step leads to one."""
    # Still EXECUTING means that the tool says it has rolled back: that is read at once.
    if step.state not in (State.PENDING, State.ACCEPTED, State.UNKNOWN, State.EXECUTING):
        return None
    first = contract.verification.polling.first_after_s if contract.verification else 0
    return at + (timedelta(seconds=first) if step.moves else timedelta(0))


def _schedule_call(
    head: ledger.SubjectHead, contract: Contract, systems: list[tuple[Any, ...]], *, due_at: datetime, at: datetime
) -> tuple[Any, ...]:
    """The call that has the action read back."""
    place = work_queue.position_in_lane(head.tenant_id, contract, systems)
    return schedule_call(head.tenant_id, head.id, place, due_at=due_at, priority=place.rank, at=at)


def _parse_answer(document: dict[str, Any], contract: Contract) -> rules.ParsedObservation:
    return rules.parse_result(document.get("result"), tool=contract.name, sub_results=document.get("sub_results"))


def _happening(
    row: Observation,
    seen: rules.ParsedObservation,
    step: Any,
    contract: Contract,
    answer: AttemptAnswer,
    evidence: tuple[ledger.SealedEvidence, ...],
    *,
    at: datetime,
) -> ledger.NewEvent:
    horizon_at = schedule_rules.late_effect_horizon(
        lease_ends_at=answer.lease_ends_at,
        answered_at=at,
        claimed_success=seen.claimed_success,
        timeout_s=answer.timeout_s,
        settle_s=contract.verification.settle_s if contract.verification else 0,
    )
    named = rules.next_tool(answer.document.get("result"), chained=contract.next_tools, disclosed=answer.disclosed)
    return ledger.NewEvent(
        kind=step.kind,
        to=str(step.state) if step.moves else None,
        grounds=step.grounds,
        changes=step.entry,
        detail={
            "reason": step.reason,
            "status": str(seen.status),
            "attempt": answer.attempt,
            "late": not step.moves,
            "observation": observation_reference(row),
            **({"next_tool": named} if named is not None else {}),
        },
        evidence=evidence,
        view=_view(step, horizon_at),
    )


def observation_reference(row: Observation) -> dict[str, Any]:
    """The event's reference to the row that lists its answer."""
    return {
        "id": str(row.id),
        "status": row.status,
        "claimed_success": row.claimed_success,
        "error_code": row.error_code,
        "source": row.source,
        "late": row.late,
        "pointer": str(row.pointer),
        "raw_pointer": str(row.raw_pointer) if row.raw_pointer else None,
    }


def _view(step: Any, horizon_at: datetime) -> dict[str, Any]:
    # An answer ends the attempt. One that leaves the action EXECUTING says that the tool has rolled back.
    if not step.moves and step.state is not State.EXECUTING:
        return {}
    # Where only the executor's word says that nothing was sent, a repeat waits until that could no longer be wrong.
    blocks = {"blocks_until": instant(horizon_at)} if step.state is State.FAILED else {}
    return {"horizon_at": instant(horizon_at), **blocks}


def deciding_answer(documents: list[dict[str, Any]], contract: Contract) -> rules.ParsedObservation | None:
    """The answer that a reading is held against, of all that came, judged again from their stored bytes."""
    return rules.deciding_observation([_parse_answer(each, contract) for each in documents])


def expire_records(*, at: datetime) -> int:
    """Expire the records that have waited longer than each tenant's policy allows; return their number (R-EX-22)."""
    expired = 0
    for tenant_id in tenants_with(Work.STALLED_ACTIONS, at=at):
        with tenancy(tenant_id):
            document = parse(bytes(catalogue_queries.active_policies(tenant_id)["verification"].document))
            kept = timedelta(seconds=document.get("idempotency_ttl_s", 2_592_000))
            waiting = actions.stalled_actions(tenant_id, since=at - kept)
            expired += sum(_expire_record(tenant_id, action_id, at=at) for action_id in waiting)
    return expired


def _expire_record(tenant_id: UUID, action_id: UUID, *, at: datetime) -> bool:
    """Mark the action's idempotency record as expired if it was still pending; return whether it was."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.entry is None or head.entry["idempotency"]["status"] != "PENDING":
        return False
    happening = ledger.NewEvent(kind="idempotency_expired", changes={"idempotency": {"status": "EXPIRED"}})
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return True
