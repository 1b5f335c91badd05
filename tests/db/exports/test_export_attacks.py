"""Somebody with every right in the database changes what is stored; the bundle that is exported afterwards says so.

The verifier has the bundle and the auditor's policy, and nothing of the database (L24, L25).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from console.local import servers
from counterfoil_tlog import notes
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.verify_bundle import Report, Verdict
from tests.support import exported, seals
from tests.support.builders import AT
from tests.support.callers import found
from tests.support.erasing import decided, erase
from tests.support.exported import bundle, judged, newest, now, policy

TABLES = ("event", "entry", "evidence", "leaf", "tile", "tip", "checkpoint", "subject")


def visit(tenant: UUID, text: str, *, at: datetime | None = None) -> UUID:
    """A session with a detail and a piece of evidence, opened and closed."""
    at = at or now()
    head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="session")
    with tenancy(tenant):
        sealed = ledger.store_evidence(
            tenant_id=tenant,
            subject_id=head.id,
            purpose="note",
            data=text.encode(),
            media_type="text/plain",
            source="test",
            at=at,
        )
        opened = ledger.NewEvent(kind="session_opened", to="OPEN", detail={"text": text}, evidence=(sealed,))
        head = ledger.append(head, opened, actor=ledger.SYSTEM, at=at)
        ledger.append(head, ledger.NewEvent(kind="session_closed", to="CLOSED"), actor=ledger.SYSTEM, at=at)
    return head.id


@dataclass
class Intruder:
    """A superuser for whom no trigger fires and no check holds, and what was there before."""

    connection: psycopg.Connection
    tenant: UUID
    trusted: bytes
    first: bytes
    newest: bytes
    size: int
    subjects: list[UUID] = field(default_factory=list)

    def run(self, statement: str, *values: object) -> None:
        done = self.connection.execute(statement, values)
        assert done.rowcount > 0, statement

    def place(self, subject: int, seq: int) -> int:
        """The index of an event of one of our sessions."""
        found = self.connection.execute(
            "SELECT index FROM ledger_leaf WHERE subject_id = %s AND seq = %s", [self.subjects[subject], seq]
        ).fetchone()
        assert found is not None
        return int(found[0])

    def told(self, checkpoint: bytes | None = None) -> Report:
        """What the verifier says of a bundle that is exported now."""
        data = bundle(self.tenant, end=newest(self.tenant).signed_size)
        return judged(data, self.trusted, checkpoint)


@pytest.fixture(scope="module")
def break_in(module_db, run, tmp_path_factory) -> Iterator[Intruder]:
    tenant = found("orchid")
    subjects = [visit(tenant, f"visit {number}") for number in range(6)]
    seals.seal_up()
    seals.seal_up()
    first = newest(tenant).note
    subjects += [visit(tenant, f"visit {number}") for number in range(6, 9)]
    seals.seal_up()
    head = newest(tenant)
    assert first is not None
    assert head.note is not None
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, module_db.name), autocommit=True) as connection:
        found_triggers = connection.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal"
        ).fetchall()
        for (table,) in found_triggers:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        connection.execute("SET session_replication_role = replica")
        connection.execute("ALTER TABLE ledger_event DROP CONSTRAINT event_hash_is_of_the_envelope")
        connection.execute("CREATE SCHEMA kept")
        for table in TABLES:
            connection.execute(f"CREATE TABLE kept.{table} AS TABLE ledger_{table}")
        yield Intruder(connection, tenant, policy(tenant), first, head.note, head.size, subjects)


@pytest.fixture
def intruder(break_in, settings, tmp_path) -> Iterator[Intruder]:
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    yield break_in
    with break_in.connection.transaction():
        for table in TABLES:
            break_in.connection.execute(f"DELETE FROM ledger_{table}")
            break_in.connection.execute(f"INSERT INTO ledger_{table} TABLE kept.{table}")


def first(report: Report) -> tuple[Verdict, str, int | None]:
    finding = report.of(report.worst)
    return report.worst, finding.stage if finding else "", finding.index if finding else None


def test_an_untampered_bundle_is_verified(intruder):
    assert first(intruder.told()) == (Verdict.VERIFIED, "", None)
    assert first(intruder.told(intruder.first)) == (Verdict.VERIFIED, "", None)


def event(intruder: Intruder, assignment: str, *, subject: int = 2, seq: int = 2) -> None:
    where = f"subject_id = '{intruder.subjects[subject]}' AND seq = {seq}"
    intruder.run(f"UPDATE ledger_event SET {assignment} WHERE {where}")


EDIT = "envelope = convert_to(replace(convert_from(envelope, 'UTF8'), '\"at\":\"20', '\"at\":\"19'), 'UTF8')"


def edit(intruder):
    event(intruder, EDIT)


def edit_and_hash(intruder):
    event(intruder, EDIT)
    event(intruder, "entry_hash = sha256('\\x00'::bytea || envelope)")


def delete_event(intruder):
    intruder.run("DELETE FROM ledger_event WHERE subject_id = %s AND seq = 2", intruder.subjects[2])


def delete_leaf(intruder):
    intruder.run("DELETE FROM ledger_leaf WHERE subject_id = %s AND seq = 2", intruder.subjects[2])


def insert(intruder):
    place = intruder.place(2, 2)
    intruder.run("UPDATE ledger_leaf SET index = -index - 2 WHERE index >= %s", place)
    intruder.run("UPDATE ledger_leaf SET index = -index - 1 WHERE index < 0")
    intruder.run(
        "INSERT INTO ledger_event SELECT * FROM jsonb_populate_record(NULL::ledger_event, (SELECT to_jsonb(e) FROM"
        " ledger_event e WHERE subject_id = %s AND seq = 2) || jsonb_build_object('seq', 3, 'prev_seq', 2))",
        intruder.subjects[1],
    )
    intruder.run(
        "INSERT INTO ledger_leaf (tenant_id, log, index, subject_id, seq) VALUES (%s, 1, %s, %s, 3)",
        *(intruder.tenant, place, intruder.subjects[1]),
    )


def change_tile(intruder):
    place = intruder.place(2, 2)
    intruder.run(
        "UPDATE ledger_tile SET hashes = overlay(hashes placing %s from %s) WHERE level = 0 AND index = 0",
        *(bytes(32), place * 32 + 1),
    )


@pytest.mark.parametrize(
    ("attack", "stage", "says"),
    [
        (edit, "leaf hashes", "the event is not the one that was sealed here"),
        (edit_and_hash, "leaf hashes", "the event is not the one that was sealed here"),
        (delete_event, "range", "gone from the record"),
        (delete_leaf, "range", "gone from the record"),
        (insert, "leaf hashes", ""),
        (change_tile, "leaf hashes", "the event is the one that was sealed"),
    ],
)
def test_tampering_with_the_record_is_reported_with_its_log_index(intruder, attack, stage, says):
    """L24: edit an envelope, delete a row, insert a row, change a tile."""
    place = intruder.place(2, 2)
    attack(intruder)
    report = intruder.told()
    assert first(report) == (Verdict.BROKEN, stage, place)
    assert says in str(report.of(report.worst))


def test_two_swapped_events_are_both_named(intruder):
    """L24: swap two."""
    one, other = intruder.place(1, 2), intruder.place(4, 2)
    intruder.run("UPDATE ledger_leaf SET index = -1 WHERE index = %s", one)
    intruder.run("UPDATE ledger_leaf SET index = %s WHERE index = %s", one, other)
    intruder.run("UPDATE ledger_leaf SET index = %s WHERE index = -1", other)
    report = intruder.told()
    assert first(report) == (Verdict.BROKEN, "leaf hashes", one)
    texts = [str(each) for each in report.findings if each.stage == "leaf hashes"]
    assert texts == [
        f"broken at index {one}: the event that stands here was sealed at index {other}",
        f"broken at index {other}: the event that stands here was sealed at index {one}",
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_event SET entry_hash = sha256('x'), kind = 'other', at = now()",
        "UPDATE ledger_tip SET size = size + 7, root = sha256('x')",
        "UPDATE ledger_subject SET state = 'OPEN', head = sha256('x')",
        "DELETE FROM ledger_checkpoint",
    ],
)
def test_a_changed_copy_beside_the_record_does_not_affect_the_bundle(intruder, statement):
    """L24: change tip, change the columns beside the envelope: no bundle says anything of them."""
    intruder.run(statement)
    assert intruder.told().worst is Verdict.VERIFIED


def put_note(intruder: Intruder, note: bytes) -> None:
    intruder.run("UPDATE ledger_tip SET note = %s", note)
    intruder.connection.execute("DELETE FROM ledger_checkpoint WHERE size = %s", [intruder.size])


def test_a_changed_checkpoint_fails_its_signature(intruder):
    """L24: replace checkpoint."""
    root = intruder.newest.split(b"\n")[2]
    put_note(intruder, intruder.newest.replace(root, b"A" * 43 + b"="))
    assert first(intruder.told()) == (Verdict.BROKEN, "log signature", None)


def test_a_record_signed_with_another_key_is_not_trusted(intruder):
    """L24: re-sign everything with another key."""
    text = notes.parse(intruder.newest).text
    signed = notes.sign(text, name=newest(intruder.tenant).origin, key=Ed25519PrivateKey.generate())
    put_note(intruder, notes.write(notes.Note(text, (signed,))))
    assert first(intruder.told()) == (Verdict.UNTRUSTED, "log signature", None)


def test_a_truncated_log_is_detected_by_whoever_kept_the_newest_checkpoint(intruder):
    """L24: truncate the tail."""
    size = int(intruder.first.split(b"\n")[1])
    intruder.run("DELETE FROM ledger_leaf WHERE index >= %s", size)
    intruder.connection.execute("DELETE FROM ledger_checkpoint WHERE size > %s", [size])
    intruder.run("UPDATE ledger_tip SET note = %s, size = %s, signed_size = %s", intruder.first, size, size)
    assert intruder.told().worst is Verdict.VERIFIED
    report = intruder.told(intruder.newest)
    assert first(report) == (Verdict.INCOMPLETE, "consistency", None)
    assert "newer than the newest" in str(report.of(report.worst))


def entry(intruder: Intruder, assignment: str, subject: int = 2) -> None:
    intruder.run(f"UPDATE ledger_entry SET {assignment} WHERE subject_id = '{intruder.subjects[subject]}' AND seq = 1")


def swap_details(intruder):
    for column in ("detail", "detail_salt"):
        intruder.run(
            f"UPDATE ledger_entry a SET {column} = b.{column} FROM kept.entry b WHERE a.seq = 1 AND b.seq = 1"
            " AND (a.subject_id, b.subject_id) IN ((%s, %s), (%s, %s))",
            *(intruder.subjects[2], intruder.subjects[5], intruder.subjects[5], intruder.subjects[2]),
        )


@pytest.mark.parametrize(
    ("attack", "verdict"),
    [
        (lambda i: entry(i, "detail = convert_to('{\"text\":\"other\"}', 'UTF8')"), Verdict.BROKEN),
        (lambda i: entry(i, "detail_salt = sha256('x')"), Verdict.BROKEN),
        (lambda i: entry(i, "detail = NULL, detail_salt = NULL"), Verdict.INCOMPLETE),
        (swap_details, Verdict.BROKEN),
        (lambda i: i.run("UPDATE ledger_evidence SET salt = sha256('x')"), Verdict.BROKEN),
        (lambda i: i.run("UPDATE ledger_evidence SET sealed = sha256('x')"), Verdict.INCOMPLETE),
        (lambda i: i.run("DELETE FROM ledger_evidence"), Verdict.INCOMPLETE),
        (lambda i: i.run("UPDATE ledger_evidence SET salt = NULL, sealed = NULL"), Verdict.INCOMPLETE),
    ],
    ids=["detail", "salt", "no detail", "exchanged", "evidence salt", "evidence", "no evidence", "emptied"],
)
def test_a_payload_that_does_not_match_its_commitment_is_named(
    intruder: Intruder, attack: Callable[[Intruder], None], verdict: Verdict
):
    """L25: payload changed, salt changed, payload exchanged between two events; and taken away without a word."""
    attack(intruder)
    worst, stage, place = first(intruder.told())
    assert (worst, stage) == (verdict, "commitments")
    assert place in (intruder.place(0, 1), intruder.place(2, 1))


def test_an_erased_subject_leaves_a_bundle_whose_proofs_hold(committed_db, run, settings, tmp_path):
    """L32: ciphertext, salts and key are destroyed by two people's decision; every proof goes on verifying."""
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    tenant = found("orchid")
    ids = [visit(tenant, f"visit {number}", at=AT) for number in range(3)]
    seals.seal_up()
    seals.seal_up()
    whole = bundle(tenant, end=newest(tenant).size)
    assert judged(whole, policy(tenant)).worst is Verdict.VERIFIED
    kept = newest(tenant).note
    decided(tenant, ids[1])
    assert erase(run) == "Subjects erased: 1.\n"
    seals.seal_up()
    report = judged(bundle(tenant, end=newest(tenant).size), policy(tenant), kept)
    assert (report.worst, report.facts["counts"]["erased"]) == (Verdict.ERASED, 2)
    assert {each.stage for each in report.findings} == {"erasures"}
    assert judged(whole, policy(tenant)).worst is Verdict.VERIFIED
    before = judged(bundle(tenant, end=int((kept or b"").split(b"\n")[1])), policy(tenant))
    assert first(before) == (Verdict.INCOMPLETE, "erasures", None)
    assert json.loads(json.dumps(report.document()))["exit"] == 10
    assert exported.row_of(tenant, uuid4()) is None
