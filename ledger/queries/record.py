"""Reads of the record. Every one runs inside `tenancy`, so row-level security stands behind each filter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Count, F, Q, QuerySet

from ledger import keystore
from ledger.models import (
    Action,
    ContractVersion,
    Entry,
    Event,
    Evidence,
    Freeze,
    Idempotency,
    Order,
    PolicyVersion,
    Subject,
    SubjectKey,
    System,
    Tenant,
    Unwinding,
)
from ledger.queries.conditions import repeats
from ledger.rules import contract as contracts
from ledger.rules import envelope, sealing
from ledger.rules.canonical import digest
from ledger.rules.ids import lower_bound
from ledger.rules.lifecycle import State
from ledger.rules.verification import StoredDocument, StoredEvent, StoredEvidence, StoredHead
from ledger.tenancy import ask, call, first, select

_LOCK = b"SELECT state, seq, head, entry FROM ledger_lock($1, $2)"
_ENTER = b"SELECT state, seq, head, entry FROM ledger_enter($1, $2)"


def head_for_update(
    tenant_id: UUID, subject_id: UUID, kind: str, *, through_gate: bool = False
) -> dict[str, Any] | None:
    """The head of a subject with its row locked until the transaction ends, as the fields of `operations.Head`.

    `through_gate` takes the tenant's gate first, together with others (docs/decisions/0021).
    """
    rows = call(_ENTER if through_gate else _LOCK, subject_id.bytes, kind, prepared=True)
    if not rows:
        return None
    state, seq, head, entry = rows[0]
    assert state is not None
    assert seq is not None
    return {
        "tenant_id": tenant_id,
        "id": subject_id,
        "kind": kind,
        "state": state.decode(),
        "seq": int.from_bytes(seq),
        "hash": head,
        "entry": orjson.loads(entry) if entry is not None else None,
    }


def tenant(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()


def tenant_by_id(tenant_id: UUID) -> Tenant:
    return Tenant.objects.get(id=tenant_id)


def tenants() -> list[Tenant]:
    return list(Tenant.objects.order_by("id"))


def subject_state(tenant_id: UUID, subject_id: UUID) -> str | None:
    return Subject.objects.filter(tenant_id=tenant_id, id=subject_id).values_list("state", flat=True).first()


def action(tenant_id: UUID, action_id: UUID) -> Action | None:
    return first(Action, "tenant_id = $1 AND id = $2", tenant_id, action_id)


def actions(tenant_id: UUID, *, before: UUID | None = None, limit: int = 50, **filters: Any) -> list[Action]:
    """A page of actions, newest first, starting below the id `before`; never counts (keyset paging).

    Filters: state, tool, agent, session, run, side_effect_class, discrepancy, target (exact), q (part of the target),
    since and until (datetimes).
    """
    found = Action.objects.filter(wanted(filters), tenant_id=tenant_id)
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


_FILTERS = {
    "state": "state",
    "states": "state__in",
    "tool": "tool",
    "agent": "agent",
    "session": "session_id",
    "sessions": "session_id__in",
    "run": "run_id",
    "relation": "relation",
    "side_effect_class": "side_effect_class",
    "discrepancy": "discrepancy",
    "target": "target",
    "q": "target__icontains",
    "since": "id__gte",
    "until": "id__lt",
}


def wanted(filters: Mapping[str, Any]) -> Q:
    """The actions that these filters choose (see `actions`)."""
    found = Q()
    for name, value in filters.items():
        if value is not None and (value != "" or name == "relation"):
            found &= Q(**{_FILTERS[name]: lower_bound(value) if name in ("since", "until") else value})
    return found


def ids_to_start(
    tenant_id: UUID,
    tools: list[str],
    *,
    approved: list[UUID] | None,
    only: Collection[UUID] | None = None,
    after: UUID | None = None,
    limit: int = 200,
) -> list[UUID]:
    """Validated actions of these tools, oldest first, behind the id `after`; with `approved`, only those and what
    needs none; with `only`, none but these.
    """
    rows = ask(
        "SELECT id FROM ledger_action WHERE tenant_id = $1 AND state = 'VALIDATED' AND tool = ANY($2)"
        " AND ($3::uuid[] IS NULL OR approval_id IS NULL OR id = ANY($3::uuid[])) AND ($4::uuid IS NULL OR id > $4)"
        " AND ($6::uuid[] IS NULL OR id = ANY($6::uuid[])) ORDER BY id LIMIT $5",
        *(tenant_id, tools, approved, after, limit, None if only is None else list(only)),
    )
    return [action_id for (action_id,) in rows]


def to_be_tried_again(tenant_id: UUID, *, limit: int = 200) -> dict[UUID, UUID]:
    """Actions that were attempted and may be started once more, by the approval that they name."""
    found = Action.objects.filter(tenant_id=tenant_id, state="VALIDATED", attempt_count__gt=0)
    gated = found.filter(approval_id__isnull=False).order_by("id")[:limit]
    return {action.approval_id: action.id for action in gated if action.approval_id is not None}


def digests_said(tenant_id: UUID, subject_id: UUID, name: str) -> set[tuple[str, str]]:
    """(kind of event, digest) of what a subject's events have named under `name`."""
    rows = ask(
        "SELECT kind, envelope FROM ledger_event WHERE tenant_id = $1 AND subject_id = $2", tenant_id, subject_id
    )
    said = ((kind, envelope.parse(bytes(data)).digests.get(name)) for kind, data in rows)
    return {(kind, found) for kind, found in said if found}


def readings(tenant_id: UUID, action_id: UUID) -> list[tuple[str, datetime, dict[str, Any]]]:
    """(kind, at, detail) of the readings that were wanted and taken before an action runs, oldest first."""
    events = Event.objects.filter(
        tenant_id=tenant_id, subject_id=action_id, kind__in=["reading_wanted", "reading_taken"]
    )
    found = list(events.order_by("seq").values_list("kind", "at", "seq"))
    kept = dict(
        Entry.objects.filter(
            tenant_id=tenant_id, subject_id=action_id, seq__in=[seq for _, _, seq in found]
        ).values_list("seq", "detail")
    )
    return [(kind, at, _loaded(kept[seq]) or {}) for kind, at, seq in found]


def readings_taken(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, UUID]:
    """The pointer of the newest reading that was taken before each action ran, where one was."""
    taken = ask(
        "SELECT subject_id, max(seq) FROM ledger_event"
        " WHERE tenant_id = $1 AND subject_id = ANY($2) AND kind = 'reading_taken' GROUP BY subject_id",
        *(tenant_id, action_ids),
    )
    kept = ask(
        "SELECT subject_id, detail FROM ledger_entry WHERE tenant_id = $1"
        " AND (subject_id, seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in taken], [seq for _, seq in taken]),
    )
    return {subject: UUID(orjson.loads(detail)["pointer"]) for subject, detail in kept}


def readings_wanted(tenant_id: UUID, *, limit: int = 200) -> list[UUID]:
    """Validated actions whose newest reading is wanted and not taken yet."""
    found = ask(
        "SELECT a.id FROM ledger_action a WHERE a.tenant_id = $1 AND a.state = 'VALIDATED' AND 'reading_wanted' ="
        " (SELECT e.kind FROM ledger_event e WHERE e.tenant_id = a.tenant_id AND e.subject_id = a.id"
        " AND e.kind IN ('reading_wanted', 'reading_taken') ORDER BY e.seq DESC LIMIT 1) ORDER BY a.id LIMIT $2",
        *(tenant_id, limit),
    )
    return [action_id for (action_id,) in found]


def is_reading_wanted(tenant_id: UUID, action_id: UUID) -> bool:
    """Whether an action's newest reading is wanted and not taken yet."""
    asked = readings(tenant_id, action_id)
    return bool(asked) and asked[-1][0] == "reading_wanted"


def unsettled(tenant_id: UUID, *, limit: int = 2000) -> list[UUID]:
    """Actions whose effect must still be read back, oldest first; after a recovery action has ended, too."""
    states = [State.ACCEPTED, State.PENDING, State.UNKNOWN, State.FORWARD_RECOVERY, State.RECONCILIATION_FAILED]
    found = Action.objects.filter(tenant_id=tenant_id, state__in=states, settled=False)
    return list(found.order_by("id").values_list("id", flat=True)[:limit])


def held(tenant_id: UUID, *, limit: int = 2000) -> list[UUID]:
    """Actions that wait for a person."""
    found = Action.objects.filter(tenant_id=tenant_id, state=State.REVIEW_REQUIRED)
    return list(found.order_by("id").values_list("id", flat=True)[:limit])


def orders_due(*, at: datetime, proposed: bool, limit: int = 200) -> list[Order]:
    """Recovery actions to propose, or proposed ones whose end to look for, of all tenants, longest due first."""
    found = Order.objects.filter(proposed=proposed, due_at__lte=at)
    return list(found.order_by("due_at", "event_id")[:limit])


def ordered(tenant_id: UUID, action_id: UUID) -> dict[UUID, dict[str, Any]]:
    """What was ordered for an action, by ordering event, oldest first; and what was refused of it, as `refused`."""
    events = Event.objects.filter(tenant_id=tenant_id, subject_id=action_id, kind__in=["ordered", "order_refused"])
    found = list(events.order_by("seq").values_list("kind", "id", "seq", "at"))
    kept = dict(
        Entry.objects.filter(
            tenant_id=tenant_id, subject_id=action_id, seq__in=[seq for _, _, seq, _ in found]
        ).values_list("seq", "detail")
    )
    orders: dict[UUID, dict[str, Any]] = {}
    for kind, event_id, seq, at in found:
        detail = _loaded(kept[seq])
        if detail is None:
            # Erased, and with it what was ordered.
            continue
        if kind == "ordered":
            orders[event_id] = detail | {"at": at, "refused": None}
        else:
            orders[UUID(detail["order"])]["refused"] = detail
    return orders


def has_order(tenant_id: UUID, action_id: UUID) -> bool:
    """Whether a recovery action is ordered for this one and has not ended."""
    return Order.objects.filter(tenant_id=tenant_id, action_id=action_id).exists()


def orders_waiting(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """What is ordered for these actions and not proposed yet, by action: the order's detail with its time."""
    waiting = Order.objects.filter(tenant_id=tenant_id, action_id__in=action_ids, proposed=False)
    return {each.action_id: ordered(tenant_id, each.action_id)[each.event_id] for each in waiting}


def links(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """What each action's first event says of it: its call, what it depends on and what it acknowledges."""
    found = Entry.objects.filter(tenant_id=tenant_id, subject_id__in=action_ids, seq=1)
    return {subject: _loaded(detail) or {} for subject, detail in found.values_list("subject_id", "detail")}


def child_of(tenant_id: UUID, event_id: UUID) -> Action | None:
    """The recovery action that an ordering event led to."""
    return Action.objects.filter(tenant_id=tenant_id, ordered_by=event_id).first()


def children_of(tenant_id: UUID, action_id: UUID) -> list[Action]:
    """The recovery actions that were ordered for an action, oldest first."""
    return list(Action.objects.filter(tenant_id=tenant_id, parent_id=action_id).order_by("id"))


def steps_of(tenant_id: UUID, run_id: str, *, limit: int = 500) -> list[Action]:
    """The actions of a run, oldest first, the recovery actions among them."""
    return list(Action.objects.filter(tenant_id=tenant_id, run_id=run_id).order_by("id")[:limit])


def actions_waiting_in(tenant_id: UUID, runs: list[str]) -> list[tuple[UUID, str]]:
    """(action, run) of the steps of these runs that have not started."""
    if not runs:
        return []
    found = Action.objects.filter(tenant_id=tenant_id, run_id__in=runs, state="VALIDATED", relation="")
    return list(found.order_by("id").values_list("id", "run_id")[:1000])


def unwinding(tenant_id: UUID, run_id: str) -> Unwinding | None:
    """The taking back of a run, if there is or was one."""
    return Unwinding.objects.filter(tenant_id=tenant_id, run_id=run_id).first()


def unwindings(tenant_id: UUID, *states: str) -> list[Unwinding]:
    """The runs that are being taken back and stand so, oldest first."""
    return list(Unwinding.objects.filter(tenant_id=tenant_id, state__in=states).order_by("id"))


def is_unwinding(tenant_id: UUID, run_id: str) -> bool:
    """Whether a run is being taken back or was: nothing new may start in it."""
    return bool(ask("SELECT 1 FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2", tenant_id, run_id))


# From one contract to the next: however often each succeeded, it is looked at once.
_RUN_FACTS = """
WITH RECURSIVE succeeded AS (
    (SELECT contract_digest FROM ledger_action WHERE tenant_id = $1 AND run_id = $2 AND state = 'RECONCILED_SUCCESS'
        ORDER BY contract_digest LIMIT 1)
    UNION ALL
    SELECT following.contract_digest FROM succeeded, LATERAL (SELECT a.contract_digest FROM ledger_action a
        WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.state = 'RECONCILED_SUCCESS'
            AND a.contract_digest > succeeded.contract_digest ORDER BY a.contract_digest LIMIT 1) following)
SELECT EXISTS (SELECT FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2),
    array(SELECT contract_digest FROM succeeded)
"""


def run_facts(tenant_id: UUID, run_id: str) -> tuple[bool, list[str]]:
    """Whether a run is being taken back, and the digests of the contracts whose actions succeeded in it."""
    unwinding, digests = ask(_RUN_FACTS, tenant_id, run_id)[0]
    return unwinding, digests


def order_plan(tenant_id: UUID, detail: dict[str, Any]) -> dict[str, Any]:
    """The whole plan behind an ordering event's detail."""
    data = opened(tenant_id, UUID(detail["plan"]))
    assert data is not None
    document: dict[str, Any] = orjson.loads(data)
    return document


def pivot_passed(tenant_id: UUID, run_id: str) -> bool:
    """Whether a pivot step of the run has succeeded."""
    _, digests = run_facts(tenant_id, run_id)
    return any(is_pivot(tenant_id, digest) for digest in digests)


def is_pivot(tenant_id: UUID, digest: str) -> bool:
    """Whether a contract marks the point of no return of its run."""
    row = contract_by_digest(tenant_id, digest)
    return row is not None and contracts.stored(bytes(row.document), expected_digest=digest).pivot


def actions_by_id(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, Action]:
    return {each.id: each for each in select(Action, "tenant_id = $1 AND id = ANY($2)", tenant_id, ids)}


def relatives(action: Action) -> list[tuple[Action, str]]:
    """(action, relation) of parents, children, and what stands in for what, oldest first."""
    above = [each for each in (action.supersedes, action.parent_id) if each is not None]
    here = Q(supersedes=action.id) | Q(parent_id=action.id) | Q(id__in=above)
    found = Action.objects.filter(here, tenant_id=action.tenant_id).exclude(id=action.id).order_by("id")
    return [(each, _kinship(action, each)) for each in found[:20]]


def _kinship(action: Action, other: Action) -> str:
    if other.id == action.parent_id:
        return f"this one is its {action.relation.lower()}"
    if other.parent_id == action.id:
        return f"{other.relation.lower()} of this one"
    return "replaced by this one" if other.id == action.supersedes else "replaces this one"


def same_operation(action: Action, *, limit: int) -> list[tuple[Action, str]]:
    """Other actions of the same logical mutation, newest first."""
    found = Action.objects.filter(tenant_id=action.tenant_id, operation_key=action.operation_key)
    return [(each, "") for each in found.exclude(id=action.id).order_by("-id")[:limit]]


def same_target(action: Action, *, limit: int) -> list[tuple[Action, str]]:
    """Other actions of the same tool on the same target, newest first."""
    found = Action.objects.filter(tenant_id=action.tenant_id, target=action.target, tool=action.tool)
    return [(each, "") for each in found.exclude(id=action.id).order_by("-id")[:limit]]


def same_agent_and_tool(action: Action, *, limit: int) -> list[Action]:
    """The newest other actions of the same agent with the same tool."""
    found = Action.objects.filter(tenant_id=action.tenant_id, agent=action.agent, tool=action.tool)
    return list(found.exclude(id=action.id).order_by("-id")[:limit])


_OPEN_REPEAT = (
    "tenant_id = $1 AND id = (SELECT r.id FROM ("
    f"{repeats(key='$2', at='$4')}) r WHERE r.id IS DISTINCT FROM $3 ORDER BY r.id DESC LIMIT 1)"
)


def open_repeat(tenant_id: UUID, operation_key: str, *, at: datetime, but: UUID | None = None) -> Action | None:
    """An action of the same logical mutation that is open, may still take effect, or is contradicted (R-EX-08)."""
    return first(Action, _OPEN_REPEAT, tenant_id, operation_key, but, at)


def entry(tenant_id: UUID, subject_id: UUID, seq: int) -> dict[str, Any] | None:
    """The entry that event `seq` of a subject carries."""
    kept = ask(
        "SELECT entry FROM ledger_entry WHERE tenant_id = $1 AND subject_id = $2 AND seq = $3",
        *(tenant_id, subject_id, seq),
    )
    return _loaded(kept[0][0]) if kept else None


def entries(tenant_id: UUID, places: list[tuple[UUID, int]]) -> dict[UUID, dict[str, Any]]:
    """The entries that these events (subject, seq) carry, by subject."""
    kept = ask(
        "SELECT subject_id, entry FROM ledger_entry WHERE tenant_id = $1"
        " AND (subject_id, seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in places], [seq for _, seq in places]),
    )
    return {subject: orjson.loads(data) for subject, data in kept if data is not None}


def created_by(tenant_id: UUID, subject_id: UUID) -> UUID | None:
    """Who wrote a subject's first event."""
    found = ask(
        "SELECT actor_id FROM ledger_event WHERE tenant_id = $1 AND subject_id = $2 AND seq = 1", tenant_id, subject_id
    )
    return found[0][0] if found else None


def history(tenant_id: UUID, subject_id: UUID) -> list[tuple[Event, dict[str, Any] | None, dict[str, Any] | None]]:
    """Every event of a subject in order, each with its entry and detail."""
    # Events first: what is appended between the two reads is in the second one only, and left out.
    events = list(Event.objects.filter(tenant_id=tenant_id, subject_id=subject_id).order_by("seq"))
    kept = {row.seq: row for row in Entry.objects.filter(tenant_id=tenant_id, subject_id=subject_id)}
    return [(event, _loaded(kept[event.seq].entry), _loaded(kept[event.seq].detail)) for event in events]


def histories(tenant_id: UUID, subjects: list[UUID]) -> dict[UUID, list[tuple[Event, Any, Any]]]:
    """The same of several subjects at once, without entries; a subject that is not there has no events."""
    found: dict[UUID, list[tuple[Event, Any, Any]]] = {subject: [] for subject in subjects}
    rows = Entry.objects.filter(tenant_id=tenant_id, subject_id__in=subjects)
    kept = {(subject, seq): detail for subject, seq, detail in rows.values_list("subject_id", "seq", "detail")}
    for event in Event.objects.filter(tenant_id=tenant_id, subject_id__in=subjects).order_by("seq"):
        if (event.subject_id, event.seq) in kept:
            found[event.subject_id].append((event, None, _loaded(kept[event.subject_id, event.seq])))
    return found


def event(tenant_id: UUID, subject_id: UUID, seq: int) -> Event:
    return Event.objects.get(tenant_id=tenant_id, subject_id=subject_id, seq=seq)


def one_event(
    tenant_id: UUID, subject_id: UUID, seq: int
) -> tuple[Event, dict[str, Any] | None, dict[str, Any] | None] | None:
    """One event with its entry and detail."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id=subject_id, seq=seq).first()
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=subject_id, seq=seq).first()
    if found is None or kept is None:
        return None
    return found, _loaded(kept.entry), _loaded(kept.detail)


def recent_events(tenant_id: UUID, *, after: datetime, limit: int = 500) -> list[tuple[str, str, UUID, UUID, datetime]]:
    """(subject kind, kind, subject id, event id, recorded at) of what was recorded after a moment, oldest first."""
    found = Event.objects.filter(tenant_id=tenant_id, recorded_at__gt=after).order_by("recorded_at")[:limit]
    return list(found.values_list("subject_kind", "kind", "subject_id", "id", "recorded_at"))


def ended_unrun(tenant_id: UUID, action_id: UUID) -> dict[str, Any] | None:
    """What the event says that ended an action before it ran, if one did."""
    ends = Event.objects.filter(tenant_id=tenant_id, subject_id=action_id, from_state="VALIDATED", state="FAILED")
    seq = ends.order_by("-seq").values_list("seq", flat=True).first()
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=action_id, seq=seq) if seq is not None else None
    return _loaded(kept.values_list("detail", flat=True).first()) if kept is not None else None


def events_of(tenant_id: UUID, subjects: Iterable[UUID], *, after: datetime, limit: int = 500) -> list[Event]:
    """What was recorded of these subjects after a moment, oldest first."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id__in=list(subjects), recorded_at__gt=after)
    return list(found.defer("envelope").order_by("recorded_at", "id")[:limit])


def happenings(
    tenant_id: UUID, kinds: Iterable[str], *, after: datetime, but: Iterable[UUID] = (), limit: int = 500
) -> list[tuple[Event, dict[str, Any]]]:
    """What was recorded of these kinds of subjects after a moment, oldest first, each event with its detail; `but`
    names those that are known already.
    """
    found = Event.objects.filter(tenant_id=tenant_id, subject_kind__in=list(kinds), recorded_at__gt=after)
    events = list(found.exclude(id__in=list(but)).defer("envelope").order_by("recorded_at")[:limit])
    subjects = {event.subject_id for event in events}
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id__in=subjects)
    details = {(subject, seq): data for subject, seq, data in kept.values_list("subject_id", "seq", "detail")}
    return [(event, _loaded(details.get((event.subject_id, event.seq))) or {}) for event in events]


def newest_of_kind(tenant_id: UUID, subject_id: UUID, kind: str) -> tuple[datetime, dict[str, Any]] | None:
    """When a subject's newest event of a kind was recorded, and its detail."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id=subject_id, kind=kind)
    newest = found.order_by("-seq").values_list("seq", "recorded_at").first()
    if newest is None:
        return None
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=subject_id, seq=newest[0])
    return newest[1], _loaded(kept.values_list("detail", flat=True).first()) or {}


def recorded_since(tenant_id: UUID, ids: Iterable[UUID], moment: datetime) -> list[UUID]:
    """Of these events those that were recorded after a moment."""
    found = Event.objects.filter(tenant_id=tenant_id, recorded_at__gt=moment, id__in=list(ids))
    return list(found.values_list("id", flat=True))


def entered(tenant_id: UUID, subjects: Iterable[UUID], state: str) -> dict[UUID, UUID]:
    """The event that brought each of these subjects into a state."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id__in=list(subjects), state=state)
    return dict(found.exclude(from_state=state).order_by("seq").values_list("subject_id", "id"))


def _loaded(data: Any) -> dict[str, Any] | None:
    return orjson.loads(bytes(data)) if data is not None else None


def key_id(tenant_id: UUID, subject_id: UUID) -> UUID | None:
    """The id of the key that a subject's evidence is sealed with, if it has one."""
    kept = ask("SELECT key_id FROM ledger_subjectkey WHERE tenant_id = $1 AND subject_id = $2", tenant_id, subject_id)
    found: UUID | None = kept[0][0] if kept else None
    return found


def data_key(key_id: UUID | None) -> bytes:
    """The key itself; `CannotOpen` when it was destroyed."""
    key = keystore.read([key_id]).get(key_id) if key_id is not None else None
    if key is None:
        raise sealing.CannotOpen
    return key


def evidence(tenant_id: UUID, pointer: UUID) -> Evidence | None:
    return first(Evidence, "tenant_id = $1 AND id = $2", tenant_id, pointer)


def committed(tenant_id: UUID, pointer: UUID) -> str:
    """The salted commitment to a piece of evidence, without opening it."""
    rows = ask("SELECT commitment FROM ledger_evidence WHERE tenant_id = $1 AND id = $2", tenant_id, pointer)
    return str(rows[0][0])


def evidence_of(tenant_id: UUID, subject_id: UUID) -> list[Evidence]:
    """The evidence rows of a subject, oldest first, without opening them."""
    found = Evidence.objects.filter(tenant_id=tenant_id, subject_id=subject_id)
    return list(found.defer("sealed").order_by("observed_at", "id"))


def opened(tenant_id: UUID, pointer: UUID) -> bytes | None:
    """The bytes behind an evidence pointer; `Erased` where it was erased, `CannotOpen` when its key is gone."""
    return opened_all(tenant_id, [pointer]).get(pointer)


def opened_all(tenant_id: UUID, pointers: list[UUID]) -> dict[UUID, bytes]:
    """What is behind these evidence pointers; `Erased` where it was erased, `CannotOpen` when a key is gone."""
    rows = ask(
        "SELECT e.id, e.subject_id, e.sealed, k.key_id FROM ledger_evidence e LEFT JOIN ledger_subjectkey k"
        " ON k.tenant_id = e.tenant_id AND k.subject_id = e.subject_id WHERE e.tenant_id = $1 AND e.id = ANY($2)",
        *(tenant_id, pointers),
    )
    keys = keystore.read(key for _, _, _, key in rows if key is not None)
    opened: dict[UUID, bytes] = {}
    for pointer, subject_id, sealed, key in rows:
        if sealed is None:
            raise sealing.Erased
        if key not in keys:
            raise sealing.CannotOpen
        opened[pointer] = sealing.open_sealed(keys[key], bytes(sealed), f"{tenant_id}/{subject_id}/{pointer}")
    return opened


def contract_version(tenant_id: UUID, name: str, version: str) -> ContractVersion | None:
    return ContractVersion.objects.filter(tenant_id=tenant_id, name=name, version=version).first()


def contract_by_digest(tenant_id: UUID, digest: str) -> ContractVersion | None:
    return first(ContractVersion, "tenant_id = $1 AND digest = $2 LIMIT 1", tenant_id, digest)


def contract_versions(tenant_id: UUID, *, after: UUID | None = None, limit: int | None = None) -> list[ContractVersion]:
    """Every version of every contract, by name and then newest first; starting behind the row `after`."""
    found = ContractVersion.objects.filter(tenant_id=tenant_id).order_by("name", "-id")
    if after is not None:
        last = found.filter(id=after).values_list("name", flat=True)[:1]
        found = found.filter(Q(name__gt=last) | Q(name=last, id__lt=after))
    return list(found[:limit])


def contract_versions_of(tenant_id: UUID, name: str, *, limit: int = 100) -> list[ContractVersion]:
    """The versions of one contract, newest first."""
    return list(ContractVersion.objects.filter(tenant_id=tenant_id, name=name).order_by("-id")[:limit])


def newest_contracts(tenant_id: UUID, names: list[str]) -> dict[str, ContractVersion]:
    """The newest registered version of each named tool."""
    found: dict[str, ContractVersion] = {}
    for version in ContractVersion.objects.filter(tenant_id=tenant_id, name__in=names).order_by("id"):
        found[version.name] = version
    return found


def policy_version(tenant_id: UUID, kind: str, version: str) -> PolicyVersion | None:
    return first(PolicyVersion, "tenant_id = $1 AND kind = $2 AND version = $3", tenant_id, kind, version)


def policy_by_digest(tenant_id: UUID, kind: str, digest: str) -> PolicyVersion | None:
    """A version of a policy by its digest; versions with the same document are the same policy."""
    return first(PolicyVersion, "tenant_id = $1 AND kind = $2 AND digest = $3 LIMIT 1", tenant_id, kind, digest)


def tool_names(tenant_id: UUID) -> frozenset[str]:
    return frozenset(name for (name,) in ask("SELECT name FROM ledger_contractversion WHERE tenant_id = $1", tenant_id))


def active_policies(tenant_id: UUID) -> dict[str, PolicyVersion]:
    """The policy version in force, by kind."""
    return {policy.kind: policy for policy in select(PolicyVersion, "tenant_id = $1 AND active", tenant_id)}


def system(tenant_id: UUID, name: str) -> System | None:
    return first(System, "tenant_id = $1 AND name = $2", tenant_id, name)


def system_by_id(tenant_id: UUID, system_id: UUID) -> System | None:
    return first(System, "tenant_id = $1 AND id = $2", tenant_id, system_id)


def systems(tenant_id: UUID) -> list[System]:
    return list(System.objects.filter(tenant_id=tenant_id).order_by("name"))


def freezes_in_force(tenant_id: UUID) -> list[Freeze]:
    return list(Freeze.objects.filter(tenant_id=tenant_id, lifted_at__isnull=True).order_by("id"))


def freezes_lifted(tenant_id: UUID, *, after: UUID | None = None, limit: int = 50) -> list[Freeze]:
    """Freezes that are over, newest first, behind the row `after`."""
    found = Freeze.objects.filter(tenant_id=tenant_id, lifted_at__isnull=False)
    return list((found.filter(id__lt=after) if after else found).order_by("-id")[:limit])


def freezes_by_id(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, Freeze]:
    return {each.id: each for each in Freeze.objects.filter(tenant_id=tenant_id, id__in=ids)}


def stopped_by(freeze: Freeze, *, most: int = 100) -> int:
    """How many validated actions a freeze keeps from starting, counted up to `most`."""
    column = {"agent": "agent", "tool": "tool", "target": "target"}.get(freeze.scope)
    found = Action.objects.filter(tenant_id=freeze.tenant_id, state=State.VALIDATED)
    return (found.filter(**{column: freeze.value}) if column else found)[:most].count()


def freezes_on(tenant_id: UUID, *, agent: str, tool: str, target: str) -> list[Freeze]:
    """The freezes in force that cover this agent, tool or target."""
    covering = (
        "tenant_id = $1 AND lifted_at IS NULL AND (scope IN ('all', 'tenant') OR (scope = 'agent' AND value = $2)"
        " OR (scope = 'tool' AND value = $3) OR (scope = 'target' AND value = $4)) ORDER BY id"
    )
    return select(Freeze, covering, tenant_id, agent, tool, target)


def freezes_since(tenant_id: UUID, *, agent: str, tool: str, target: str, since: datetime) -> list[Freeze]:
    """The freezes that have covered this agent, tool or target at any time since then, oldest first."""
    covering = (
        "tenant_id = $1 AND (lifted_at IS NULL OR lifted_at > $5) AND (scope IN ('all', 'tenant')"
        " OR (scope = 'agent' AND value = $2) OR (scope = 'tool' AND value = $3)"
        " OR (scope = 'target' AND value = $4)) ORDER BY id"
    )
    return select(Freeze, covering, tenant_id, agent, tool, target, since)


def freezes_lately(tenant_id: UUID, *, since: datetime) -> list[Freeze]:
    """The freezes in force, and those that were lifted since then."""
    lately = Q(lifted_at__isnull=True) | Q(lifted_at__gt=since)
    return list(Freeze.objects.filter(lately, tenant_id=tenant_id).order_by("id"))


def waiting_actions(tenant_id: UUID, **about: str) -> QuerySet[Action, UUID]:
    """The ids of the validated actions of a tool or an agent, to be asked for within another statement."""
    found = Action.objects.filter(tenant_id=tenant_id, state=State.VALIDATED, approval_id__isnull=False, **about)
    return found.values_list("id", flat=True)


def times_entered(tenant_id: UUID, states: Iterable[str], *, since: datetime, until: datetime) -> dict[str, int]:
    """How many of a period's actions came into each of these states."""
    ids = {"subject_id__gte": lower_bound(since), "subject_id__lt": lower_bound(until)}
    found = Event.objects.filter(tenant_id=tenant_id, subject_kind="action", state__in=list(states), **ids)
    moved = found.exclude(from_state=F("state")).values_list("state")
    return dict(moved.annotate(Count("subject_id", distinct=True)).order_by())


def failed_executions(tenant_id: UUID, *, since: datetime, until: datetime) -> QuerySet[Action, UUID]:
    """The ids of a period's actions whose tool failed, to be asked for within another statement."""
    ids = {"id__gte": lower_bound(since), "id__lt": lower_bound(until)}
    found = Action.objects.filter(tenant_id=tenant_id, state=State.FAILED, attempt_count__gt=0, **ids)
    return found.values_list("id", flat=True)


def demonstrated(tenant_id: UUID, agent: str, tools: Collection[str]) -> set[str]:
    """Those of these tools with which an agent has reached a reconciled success that still holds (R-CR-17)."""
    rows = ask(
        "SELECT tool FROM unnest($3::text[]) AS tool WHERE EXISTS (SELECT FROM ledger_action a WHERE a.tenant_id = $1"
        " AND a.agent = $2 AND a.tool = tool.tool AND a.state = 'RECONCILED_SUCCESS' AND NOT a.contradicted)",
        *(tenant_id, agent, sorted(tools)),
    )
    return {tool for (tool,) in rows}


def waiting_under(freeze: Freeze, *, limit: int) -> list[UUID]:
    """The validated actions that a freeze covers, oldest first."""
    column = {"agent": "agent", "tool": "tool", "target": "target"}.get(freeze.scope)
    found = Action.objects.filter(tenant_id=freeze.tenant_id, state=State.VALIDATED, approval_id__isnull=False)
    found = found.filter(**{column: freeze.value}) if column else found
    return list(found.order_by("id").values_list("id", flat=True)[:limit])


def idempotency(tenant_id: UUID, action_id: UUID) -> Idempotency | None:
    return first(Idempotency, "tenant_id = $1 AND action_id = $2", tenant_id, action_id)


def action_of_key(tenant_id: UUID, key: str) -> UUID | None:
    """The action whose mutation was sent with this idempotency key."""
    kept = first(Idempotency, "tenant_id = $1 AND key_hash = $2", tenant_id, digest(key.encode()))
    return kept.action_id if kept is not None else None


def newest_of_target(tenant_id: UUID, target: str, states: Iterable[str]) -> UUID | None:
    """The newest mutating action on a target that is in one of these states."""
    found = first(
        Action,
        "tenant_id = $1 AND target = $2 AND mutating AND state = ANY($3) ORDER BY id DESC LIMIT 1",
        *(tenant_id, target, sorted(states)),
    )
    return found.id if found is not None else None


def accountable(
    tenant_id: UUID, *, key_hashes: list[str], traces: list[str], ids: list[str], targets: list[str], limit: int = 2000
) -> list[Action]:
    """The started actions behind these keys, traces and ids, and the newest ones on these targets."""
    keyed = Idempotency.objects.filter(tenant_id=tenant_id, key_hash__in=key_hashes).values_list("action_id", flat=True)
    wanted = [Q(id__in=[*keyed, *(UUID(each) for each in ids if is_uuid(each))])]
    # Neither is asked for without need: traces have no index, and targets gather what is long past.
    wanted += [Q(trace_id__in=traces)] if traces else []
    wanted += [Q(target__in=targets)] if targets else []
    found = Action.objects.filter(tenant_id=tenant_id, attempt_count__gt=0).order_by("-id")
    return list({each.id: each for part in wanted for each in found.filter(part)[:limit]}.values())


def idempotencies(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, Idempotency]:
    """The durable records of these actions' mutations, by action."""
    found = select(Idempotency, "tenant_id = $1 AND action_id = ANY($2)", tenant_id, action_ids)
    return {each.action_id: each for each in found}


def standing(tenant_id: UUID, states: tuple[str, ...], *, most: int = 1000) -> tuple[int, datetime | None]:
    """How many actions are in these states, counted up to `most`, and since when the longest has been."""
    found = Action.objects.filter(tenant_id=tenant_id, state__in=states)[:most]
    times = list(found.values_list("changed_at", flat=True))
    return len(times), min(times, default=None)


# Whole rows for verification, a range of subjects at a time


def subject_ids(tenant_id: UUID, *, after: UUID, limit: int) -> list[UUID]:
    """The next subjects in the order of their ids, which is the order of their time."""
    found = Subject.objects.filter(tenant_id=tenant_id, id__gt=after).order_by("id")
    return list(found.values_list("id", flat=True)[:limit])


def stored_heads(tenant_id: UUID, *, after: UUID, upto: UUID) -> list[StoredHead]:
    """The heads of the subjects in (after, upto] and what stands for them now, all as of one moment."""
    names = ("id", "kind", "state", "seq", "head", "created_at", "updated_at")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(f's.{name}' for name in names)}, p.active, a.* FROM ledger_subject s"
            " LEFT JOIN ledger_action a ON a.tenant_id = s.tenant_id AND a.id = s.id AND s.kind = 'action'"
            " LEFT JOIN ledger_policyversion p ON p.tenant_id = s.tenant_id AND p.id = s.id AND s.kind = 'policy'"
            " WHERE s.tenant_id = %s AND s.id > %s AND s.id <= %s ORDER BY s.id",
            [tenant_id, after, upto],
        )
        columns = [column.name for column in cursor.description or ()][len(names) + 1 :]
        rows = [tuple(map(_plain, row)) for row in cursor.fetchall()]
    return [
        _stored_head(
            dict(zip(names, row, strict=False)), row[len(names)], dict(zip(columns, row[len(names) + 1 :], strict=True))
        )
        for row in rows
    ]


def _stored_head(head: dict[str, Any], in_force: bool | None, view: dict[str, Any]) -> StoredHead:
    known = view.pop("id") is not None
    del view["tenant_id"]
    return StoredHead(columns=head, view=view if known else None, in_force=in_force)


def stored_events(tenant_id: UUID, *, after: tuple[UUID, int], upto: UUID, limit: int) -> list[StoredEvent]:
    """The next events after (subject, seq), up to and with those of the subject `upto`, in order."""
    place = (tenant_id, *after)
    here = Q(tenant_id=tenant_id, subject_id__gte=after[0], subject_id__lte=upto, pk__gt=place)
    events = list(Event.objects.filter(here).order_by("subject_id", "seq").values()[:limit])
    if not events:
        return []
    last = (tenant_id, events[-1]["subject_id"], events[-1]["seq"])
    kept = {(row.subject_id, row.seq): row for row in Entry.objects.filter(here, pk__lte=last)}
    return [_stored_event(event, kept.get((event["subject_id"], event["seq"]))) for event in events]


def _stored_event(event: Mapping[str, Any], kept: Entry | None) -> StoredEvent:
    columns = {name: _plain(value) for name, value in event.items()}
    return StoredEvent(
        columns=columns,
        envelope=columns.pop("envelope"),
        entry=_plain(kept.entry) if kept else None,
        entry_salt=_plain(kept.entry_salt) if kept else None,
        detail=_plain(kept.detail) if kept else None,
        detail_salt=_plain(kept.detail_salt) if kept else None,
    )


def stray(tenant_id: UUID, *, after: UUID, upto: UUID) -> tuple[str, UUID, int | None] | None:
    """A row in (after, upto] that no head accounts for: (what it is, subject, seq), as of one moment."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH bounds AS (SELECT %s::uuid AS tenant, %s::uuid AS low, %s::uuid AS high)
            SELECT 'event', e.subject_id, e.seq FROM ledger_event e, bounds b
            WHERE e.tenant_id = b.tenant AND e.subject_id > b.low AND e.subject_id <= b.high AND NOT EXISTS (
                SELECT FROM ledger_subject s WHERE s.tenant_id = b.tenant AND s.id = e.subject_id AND s.seq >= e.seq)
            UNION ALL
            SELECT 'entry', n.subject_id, n.seq FROM ledger_entry n, bounds b
            WHERE n.tenant_id = b.tenant AND n.subject_id > b.low AND n.subject_id <= b.high AND NOT EXISTS (
                SELECT FROM ledger_event e
                WHERE e.tenant_id = b.tenant AND e.subject_id = n.subject_id AND e.seq = n.seq)
            UNION ALL
            SELECT 'view', a.id, NULL FROM ledger_action a, bounds b
            WHERE a.tenant_id = b.tenant AND a.id > b.low AND a.id <= b.high AND NOT EXISTS (
                SELECT FROM ledger_subject s WHERE s.tenant_id = b.tenant AND s.id = a.id AND s.kind = 'action')
            LIMIT 1
            """,
            [tenant_id, after, upto],
        )
        found: tuple[str, UUID, int | None] | None = cursor.fetchone()
    return found


def evidence_pointers(tenant_id: UUID, *, after: UUID, upto: UUID) -> set[str]:
    """The pointers of all evidence of the subjects in (after, upto]."""
    found = Evidence.objects.filter(tenant_id=tenant_id, subject_id__gt=after, subject_id__lte=upto)
    return {str(pointer) for pointer in found.values_list("id", flat=True)}


def stored_evidence(tenant_id: UUID, pointers: list[str]) -> dict[str, StoredEvidence]:
    """Evidence by pointer, opened where it can be; keep the list short, for it is all in memory."""
    rows = list(Evidence.objects.filter(tenant_id=tenant_id, id__in=pointers))
    kept = SubjectKey.objects.filter(tenant_id=tenant_id, subject_id__in={row.subject_id for row in rows})
    named = {row.subject_id: row.key_id for row in kept}
    keys = keystore.read(named.values())
    return {
        str(row.id): StoredEvidence(
            columns={
                "subject_id": str(row.subject_id),
                "purpose": row.purpose,
                "length": row.length,
                "commitment": row.commitment,
            },
            salt=bytes(row.salt or b""),
            data=_opened(row, keys.get(named.get(row.subject_id, row.id))),
            emptied=row.sealed is None and row.salt is None,
        )
        for row in rows
    }


def _opened(row: Evidence, key: bytes | None) -> bytes | None:
    try:
        return sealing.open_sealed(key or b"", bytes(row.sealed or b""), f"{row.tenant_id}/{row.subject_id}/{row.id}")
    except sealing.CannotOpen:
        return None


def stored_documents(tenant_id: UUID, ids: list[str]) -> dict[str, StoredDocument]:
    """The documents of contract and policy versions among these subjects."""
    found = {
        str(row.id): StoredDocument(name="contract", digest=row.digest, document=bytes(row.document))
        for row in ContractVersion.objects.filter(tenant_id=tenant_id, id__in=ids)
    }
    for row in PolicyVersion.objects.filter(tenant_id=tenant_id, id__in=ids):
        found[str(row.id)] = StoredDocument(name=row.kind, digest=row.digest, document=bytes(row.document))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return bytes(value) if isinstance(value, memoryview) else value


def is_uuid(text: str) -> bool:
    """Whether a text that came from elsewhere names an id."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True
