"""Rows rebuilt from events: what is named, and what an erased or an older event leaves open."""

from __future__ import annotations

from uuid import uuid4

from ledger.record.rules.envelope import Envelope
from ledger.verification.rules.rebuilding import (
    RecordTable,
    VerifiedEvent,
    changes_row,
    constant,
    creates_row,
    detail_field,
    event_time,
    state_after,
)
from tests.support.pure.entries import AT

SUBJECT = str(uuid4())
THINGS = RecordTable(
    model="things",
    subjects=("thing",),
    events={
        "made": creates_row(name=detail_field("name"), made_at=event_time, gone=constant(None)),
        "renamed": changes_row(name=detail_field("name")),
    },
    always={"state": state_after},
)
LINKS = RecordTable(
    model="links",
    subjects=("thing",),
    place="thing_id",
    key=("kind", "to"),
    events={"linked": creates_row(lambda event: ("one", event.said("to")), at=event_time)},
)


def event(kind, detail, seq=1):
    return VerifiedEvent(
        envelope=Envelope(
            origin="o",
            id=str(uuid4()),
            kind=kind,
            subject_kind="thing",
            subject_id=SUBJECT,
            seq=seq,
            prev=None,
            from_state="",
            to_state="OPEN",
            actor_kind="system",
            actor_id=str(uuid4()),
            at=AT,
        ),
        detail=detail,
    )


def fault(table, events, *stored):
    rows = {}
    for each in events:
        table.take(rows, each)
    return table.fault(rows, stored)


def row(**changed):
    return {"id": SUBJECT, "name": "b", "made_at": AT, "gone": None, "state": "OPEN"} | changed


MADE = [event("made", {"name": "a"}), event("renamed", {"name": "b"}, 2)]


def test_a_row_that_matches_its_events_has_no_fault():
    assert fault(THINGS, MADE, row()) is None


def test_wrong_missing_and_invented_rows_are_named():
    assert fault(THINGS, MADE, row(name="a")) == "its row in things has another name than its events say."
    assert fault(THINGS, MADE) == "its row in things is missing."
    other = str(uuid4())
    assert fault(THINGS, MADE, row(), row(id=other)) == f"no event made its row {other} in things."
    assert fault(THINGS, [], row()) == f"no event made its row {SUBJECT} in things."


def test_only_the_envelope_of_an_erased_event_is_compared():
    erased = [event("made", None)]
    assert fault(THINGS, erased, row(name="")) is None
    assert fault(THINGS, erased, row(state="DONE")) == "its row in things has another state than its events say."


def test_a_column_that_older_events_leave_out_is_not_compared():
    assert fault(THINGS, [event("made", {})], row(name="whatever")) is None


def test_an_erased_event_no_longer_determines_its_row():
    stored = {"thing_id": SUBJECT, "kind": "one", "to": "x", "at": AT}
    assert fault(LINKS, [event("linked", {"to": "x"})], stored) is None
    assert fault(LINKS, [event("linked", {"to": "x"})]) == "its row in links is missing."
    assert fault(LINKS, [event("linked", None)], stored) is None
    assert fault(LINKS, [event("linked", None)]) is None
