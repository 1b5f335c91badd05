"""Appending to the record, against Django's own `create()` of a row of the same size and number of indexes.

Ours is the whole of it: a transaction that knows its tenant, the action's row locked, one event that moves the action
or leaves it where it is (`STATES`), with entry, detail, commitments and hash, the present view kept in step, and the
commit.
The peer is one `create()` in autocommit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from benchmarks.figures import Figure, interleaved, sized
from benchmarks.stand import Stand
from benchmarks.writers import Write, rate, writers

SECONDS = sized(1.0, tiny=0.1)
ACTIONS = 50
# As on the way of an action: of seven events two bring it to another phase, the others find it where it was.
STATES = ("UNKNOWN", "UNKNOWN", "UNKNOWN", "PENDING", "PENDING", "PENDING", "PENDING")


def measure(stand: Stand, rounds: int) -> list[Figure]:
    stand.founded("append")
    with writers(stand, "append", 1, "benchmarks.append:ways") as pipes:
        ours, peer = interleaved(
            rounds, partial(rate, pipes, "append", SECONDS), partial(rate, pipes, "create", SECONDS)
        )
    return [Figure(name="append, 1 writer: a bare create()", unit="events or rows per s", ours=ours, peer=peer)]


def ways(number: int) -> dict[str, Write]:
    """Return the operations of one writer."""
    from ledger.record.queries import events as queries

    move = mover()
    subject, _ = move()
    sample = _sample(queries.tenants()[0].id, subject)
    return {"append": move, "create": lambda: _create(sample)}


def mover() -> Callable[[], tuple[UUID, int]]:
    """Return a function that advances one of some new actions, in rotation; it returns the id and the number of the
    event.
    """
    from ledger.db import tenancy
    from ledger.record.queries import events as queries

    tenant = queries.tenants()[0].id
    with tenancy(tenant):
        actions = [pending(tenant) for _ in range(ACTIONS)]
    moves = cycle([(action, state) for state in STATES for action in actions])
    return lambda: _move(tenant, *next(moves))


def pending(tenant: UUID) -> UUID:
    """An action that waits for its verification."""
    from ledger.record import operations as ledger
    from ledger.record.rules.lifecycle import Ground

    at = timezone.now()
    action = ledger.new_id(at)
    head = ledger.SubjectHead(tenant_id=tenant, id=action, kind="action")
    path: list[dict[str, Any]] = [
        {"kind": "proposed", "to": "PROPOSED", "entry": _entry(tenant, action), "view": _view()},
        {"kind": "validated", "to": "VALIDATED"},
        {"kind": "execution_started", "to": "EXECUTING", "grounds": frozenset({Ground.RELEASED})},
        {"kind": "observed", "to": "PENDING"},
    ]
    for step in path:
        head = ledger.append(head, ledger.NewEvent(**step), actor=ledger.SYSTEM, at=at)
    return action


def _move(tenant: UUID, action: UUID, state: str) -> tuple[UUID, int]:
    from ledger.db import tenancy
    from ledger.record import operations as ledger

    at = timezone.now()
    with tenancy(tenant):
        head = ledger.lock_subject(tenant_id=tenant, subject_id=action, kind="action")
        head = ledger.append(head, moved(state), actor=ledger.SYSTEM, at=at)
    return action, head.seq


def moved(state: str) -> Any:
    """Return the content of the event."""
    from ledger.record import operations as ledger

    return ledger.NewEvent(
        kind="lease_ended",
        to=state,
        changes={"execution": {"status": state}},
        detail={"attempt": 1, "reason": "No answer came while the lease ran."},
        view={"settled": False},
    )


def _sample(tenant: UUID, action: UUID) -> dict[str, Any]:
    """Return the bytes of one event; the other side writes the same number."""
    from ledger.db import tenancy
    from ledger.models import Entry, Event

    with tenancy(tenant):
        event = Event.objects.filter(tenant_id=tenant, subject_id=action).latest("seq")
        entry = Entry.objects.get(tenant_id=tenant, subject_id=action, seq=event.seq)
    own = [entry.entry_salt, entry.detail_salt, entry.detail, event.prev, event.entry_hash]
    return {
        "kind": event.kind,
        "state": event.state,
        "envelope": bytes(event.envelope),
        "entry": bytes(entry.entry or b""),
        "detail": b"".join(bytes(each or b"") for each in own),
    }


def _create(sample: dict[str, Any]) -> None:
    from benchmarks.bare.models import Row

    Row.objects.create(id=uuid4(), subject_id=uuid4(), seq=1, at=timezone.now(), **sample)


def _entry(tenant: UUID, action: UUID) -> dict[str, Any]:
    from tests.support.builders import make_entry

    return make_entry(action, tenant_id=str(tenant))


def _view() -> dict[str, Any]:
    from tests.support.builders import make_view

    return make_view(uuid4())
