"""The record is damaged in every place, by someone who may do anything, and the command names the place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg import sql

from console.local import servers
from ledger.db import tenancy
from ledger.management.commands import verify_ledger
from ledger.record import operations
from ledger.record.rules.envelope import Commitment
from ledger.verification.queries import storage
from ledger.verification.rules import stored_record
from tests.db.record.records import APPEND, Record, executing, fill, forged, next_entry
from tests.support.builders import AT, written_columns
from tests.support.callers import put_in_force
from tests.support.outside.forking import forks

REHASH = "entry_hash = sha256('\\x00'::bytea || {0})"


def verified(*options: str) -> str:
    said = StringIO()
    call_command("verify_ledger", *options, stdout=said)
    return said.getvalue().strip()


def findings(*options: str) -> list[str]:
    """What the command lists, and its last line where it sums up."""
    with pytest.raises(CommandError) as found:
        call_command("verify_ledger", *options, stdout=StringIO())
    assert found.value.returncode == 1
    return str(found.value).splitlines()


def broken(*options: str) -> str:
    """The first finding."""
    return findings(*options)[0]


TABLES = [
    *("ledger_tenant", "ledger_subject", "ledger_event", "ledger_entry", "ledger_action"),
    *("ledger_evidence", "ledger_subjectkey", "ledger_contractversion", "ledger_policyversion"),
]


@dataclass
class Vandal:
    """Someone with a superuser's rights, for whom no trigger fires and no check holds."""

    connection: psycopg.Connection
    record: Record

    def break_in(self) -> None:
        guarded = self.connection.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal"
        ).fetchall()
        for (table,) in guarded:
            self.connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(sql.SQL(table)))
        # The table that is searched follows the actions still.
        self.connection.execute("ALTER TABLE ledger_action ENABLE ALWAYS TRIGGER search_follows")
        self.connection.execute("SET session_replication_role = replica")
        for check in ("event_hash_is_of_the_envelope", "event_sequence_has_no_gap", "event_step_is_legal"):
            self.connection.execute(f"ALTER TABLE ledger_event DROP CONSTRAINT {check}")
        self.connection.execute("SELECT set_config('app.tenant', %s, false)", [str(self.record.tenant)])
        self.connection.execute("CREATE SCHEMA kept")
        for table in TABLES:
            self.connection.execute(f"CREATE TABLE kept.{table} AS TABLE {table}")

    def heal(self) -> None:
        """Everything as it was before the damage."""
        with self.connection.transaction():
            for table in TABLES:
                self.connection.execute(f"DELETE FROM {table}")
                names = ", ".join(written_columns(self.connection, table))
                self.connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM kept.{table}")

    def run(self, statement: str, *values: Any) -> None:
        done = self.connection.execute(statement, values)
        assert done.rowcount == 1, statement

    def change(self, table: str, subject: UUID, assignment: str, *, seq: int | None = None) -> None:
        key = "id" if table in ("ledger_subject", "ledger_action") else "subject_id"
        where = f"{key} = '{subject}'" + (f" AND seq = {seq}" if seq else "")
        self.run(f"UPDATE {table} SET {assignment} WHERE {where}")

    def event(self, assignment: str, *, seq: int = 2) -> None:
        self.change("ledger_event", self.record.action.id, assignment, seq=seq)

    def kept(self, assignment: str, *, seq: int = 2) -> None:
        self.change("ledger_entry", self.record.action.id, assignment, seq=seq)

    def evidence(self, assignment: str) -> None:
        self.change("ledger_evidence", self.record.action.id, assignment)


@pytest.fixture(scope="module")
def intruder(module_db, run) -> Iterator[Vandal]:
    record = fill("orchid")
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, module_db.name), autocommit=True) as connection:
        vandal = Vandal(connection, record)
        vandal.break_in()
        yield vandal


@pytest.fixture
def vandal(intruder) -> Iterator[Vandal]:
    yield intruder
    intruder.heal()


@pytest.fixture
def action(vandal) -> str:
    return f"Tenant orchid: action {vandal.record.action.id}"


# A record that holds


@pytest.mark.req("R-LE-02")
def test_an_intact_record_is_valid(committed_db):
    fill("orchid")
    assert verified() == "Tenant orchid: 9 subjects, 15 events, 2 pieces of evidence. The record is intact."


def test_an_empty_installation_is_valid(committed_db):
    assert verified() == ""


@pytest.mark.parametrize(("subjects", "events", "blobs"), [(1, 1, 1), (2, 3, 1), (3, 2, 2), (13, 5, 16)])
def test_verify_ledger_gives_the_same_result_with_any_page_size(committed_db, monkeypatch, subjects, events, blobs):
    for name, size in (("SUBJECTS", subjects), ("EVENTS", events), ("BLOBS", blobs)):
        monkeypatch.setattr(verify_ledger, name, size)
    fill("orchid", actions=6)
    assert verified() == "Tenant orchid: 14 subjects, 30 events, 7 pieces of evidence. The record is intact."


def test_a_concurrent_writer_does_not_look_like_a_break(committed_db, monkeypatch):
    record = fill("orchid")
    heads = storage.stored_heads

    def then_more(tenant_id, **bounds):
        found = heads(tenant_id, **bounds)
        head = operations.lock_subject(tenant_id=tenant_id, subject_id=record.action.id, kind="action")
        operations.append(head, operations.NewEvent(kind="evidence_added"), actor=operations.SYSTEM, at=AT)
        executing(tenant_id)
        put_in_force(tenant_id, "approval", "3", {}, at=AT)
        return found

    monkeypatch.setattr(storage, "stored_heads", then_more)
    assert "15 events" in verified()
    monkeypatch.undo()
    assert "25 events" in verified()


def test_verify_ledger_checks_every_tenant_or_the_named_one(vandal):
    fill("willow")
    vandal.event("actor_kind = 'person'")
    assert verified("--tenant", "willow").startswith("Tenant willow: 9 subjects")
    assert broken("--tenant", "orchid") == broken()


def test_an_unreachable_database_is_not_reported_as_a_break(vandal, module_db):
    with pytest.raises(CommandError, match="There is no tenant nowhere") as found:
        call_command("verify_ledger", "--tenant", "nowhere")
    assert found.value.returncode == 2
    elsewhere = module_db.environment | {"DATABASE_URL": "postgresql://nobody:none@127.0.0.1:1/none"}
    ended = forks().run(["manage.py", "verify_ledger"], elsewhere)
    assert ended.returncode == 2
    assert ended.stderr.startswith("CommandError: The record could not be read: ")


def test_a_broken_record_ends_the_process_with_status_one_and_one_sentence(vandal, module_db):
    vandal.event("actor_kind = 'person'")
    ended = forks().run(["manage.py", "verify_ledger"], module_db.environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.strip().endswith("event 2: its column actor_kind differs from its envelope.")


# Events

EVENT_COLUMNS = {
    "prev_seq": "7",
    "id": "gen_random_uuid()",
    "kind": "'cancelled'",
    "from_state": "'VALIDATED'",
    "state": "'PROPOSED'",
    "prev": "sha256('x')",
    "entry_hash": "sha256('x')",
    "actor_kind": "'person'",
    "actor_id": "gen_random_uuid()",
    "at": "at + interval '1 microsecond'",
}


@pytest.mark.req("R-LE-02")
def test_a_changed_column_is_named(vandal, action):
    for column, value in EVENT_COLUMNS.items():
        vandal.event(f"{column} = {value}")
        assert broken() == f"{action}, event 2: its column {column} differs from its envelope."
        vandal.heal()
    assert "intact" in verified()


def test_every_column_of_an_event_is_compared(vandal):
    columns = vandal.connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'ledger_event'::regclass AND attnum > 0"
    ).fetchall()
    # The key finds the row (tests of their own below), the envelope is the truth, and `recorded_at` is the database's
    # own clock: nothing was promised about it.
    elsewhere = {"tenant_id", "subject_id", "seq", "subject_kind", "envelope", "recorded_at"}
    assert {name for (name,) in columns} - elsewhere == set(EVENT_COLUMNS)


def test_an_event_of_another_kind_of_subject_is_named(vandal):
    vandal.event("subject_kind = 'session'")
    assert "event 2: its column subject_kind differs from its envelope." in broken()


def test_an_event_that_was_moved_to_another_subject_is_named(vandal):
    with tenancy(vandal.record.tenant):
        moved, _ = executing(vandal.record.tenant)
    vandal.run("DELETE FROM ledger_event WHERE subject_id = %s AND seq = 3", moved.id)
    vandal.event(f"subject_id = '{moved.id}'", seq=3)
    vandal.change("ledger_subject", vandal.record.action.id, "seq = 2")
    assert "event 3: its column subject_id differs from its envelope." in broken()


@pytest.mark.req("R-LE-02")
def test_an_envelope_that_was_changed_by_one_bit_is_named(vandal, action):
    middle = "octet_length(envelope) / 2"
    vandal.event(f"envelope = set_byte(envelope, {middle}, get_byte(envelope, {middle}) # 1)")
    assert broken().startswith(f"{action}, event 2: ")


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize(
    ("seq", "named"),
    [
        (1, ", event 2: it does not continue the event before it."),
        (3, ": its head has another head than its events lead to."),
    ],
)
def test_a_rewritten_envelope_breaks_the_chain_after_it(vandal, action, seq, named):
    new = "convert_to(replace(convert_from(envelope, 'UTF8'), '12:00:00.000000Z', '12:00:00.000001Z'), 'UTF8')"
    vandal.event(f"at = at + interval '1 microsecond', envelope = {new}, {REHASH.format(new)}", seq=seq)
    if seq == 3:
        vandal.change("ledger_subject", vandal.record.action.id, "updated_at = updated_at + interval '1 microsecond'")
    assert broken() == action + named


@pytest.mark.parametrize("bytes_", [b"", b"{}", b'{"v":2}', b"\xff", b"null"])
def test_bytes_that_are_not_an_envelope_are_named(vandal, action, bytes_):
    vandal.run(
        "UPDATE ledger_event SET envelope = %s WHERE subject_id = %s AND seq = 2", bytes_, vandal.record.action.id
    )
    assert broken().startswith(f"{action}, event 2: its envelope cannot be read")


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize(
    ("seq", "named"),
    [
        (1, ", event 2: event 1 is missing before it."),
        (2, ", event 3: event 2 is missing before it."),
        (3, ": its head has another seq than its events lead to."),
    ],
)
def test_a_removed_event_is_named(vandal, action, seq, named):
    vandal.run("DELETE FROM ledger_event WHERE subject_id = %s AND seq = %s", vandal.record.action.id, seq)
    assert broken() == action + named


def test_a_subject_without_events_is_named(vandal, action):
    vandal.connection.execute("DELETE FROM ledger_event WHERE subject_id = %s", [vandal.record.action.id])
    assert broken() == f"{action}: it has a head and no events."


def test_events_without_a_head_are_named(vandal):
    vandal.run("DELETE FROM ledger_subject WHERE id = %s", vandal.record.action.id)
    assert broken() == f"Tenant orchid: subject {vandal.record.action.id}, event 1: its event belongs to nothing."


def test_an_event_beyond_its_head_is_named(vandal, action):
    copied = "subject_id, 4, 3, gen_random_uuid(), subject_kind, kind, from_state, state, prev, envelope, entry_hash"
    vandal.run(
        f"INSERT INTO ledger_event SELECT tenant_id, {copied}, actor_kind, actor_id, at FROM ledger_event"
        " WHERE subject_id = %s AND seq = 3",
        vandal.record.action.id,
    )
    assert broken() == f"Tenant orchid: subject {vandal.record.action.id}, event 4: its event belongs to nothing."


def test_a_renamed_log_is_named(vandal):
    vandal.run("UPDATE ledger_tenant SET origin = 'elsewhere' WHERE id = %s", vandal.record.tenant)
    assert "event 1: its envelope belongs to another log." in broken()


# Steps that never went through the door


def append(vandal: Vandal, **changes: Any) -> None:
    vandal.run(APPEND, *forged(vandal.record.action, **changes))


def test_an_illegal_transition_is_named(vandal, action):
    append(vandal, to_state="RECONCILED_SUCCESS", view={})
    assert broken() == f"{action}, event 4: from EXECUTING to RECONCILED_SUCCESS is not a step from where it was."


def test_a_transition_without_its_grounds_is_named(vandal, action):
    append(vandal, to_state="FAILED")
    assert broken() == f"{action}, event 4: its step lacks the grounds that it needs."


def test_a_transition_with_nonexistent_grounds_is_named(vandal, action):
    append(vandal, to_state="FAILED", detail={"grounds": ["because"]})
    assert broken() == f"{action}, event 4: its step lacks the grounds that it needs."


@pytest.mark.req("R-SM-18")
def test_a_machine_that_ended_a_review_is_named(vandal, action):
    head = vandal.record.action
    with tenancy(vandal.record.tenant):
        for state in ("UNKNOWN", "REVIEW_REQUIRED"):
            held = operations.NewEvent(kind="held", to=state)
            head = operations.append(head, held, actor=operations.SYSTEM, at=AT)
    said = {"grounds": ["reason_and_evidence"]}
    vandal.run(APPEND, *forged(head, from_state="REVIEW_REQUIRED", to_state="PENDING", detail=said))
    assert broken() == f"{action}, event 6: its step lacks the grounds that it needs."


def test_a_state_that_does_not_follow_is_named(vandal, action):
    head = vandal.record.action
    vandal.change("ledger_subject", head.id, "state = 'COMMITTED'")
    append(vandal, from_state="COMMITTED", to_state="COMMITTED")
    assert broken() == f"{action}, event 4: from COMMITTED to COMMITTED is not a step from where it was."


def test_a_commitment_to_nothing_is_named(vandal, action):
    append(vandal, commitments=(Commitment("secret", None, 1, "ab" * 32),))
    assert broken() == f"{action}, event 4: it commits to something that is stored nowhere."


# What is kept apart

KEPT = [
    ("entry", "entry = set_byte(entry, 20, get_byte(entry, 20) # 1)"),
    ("entry", "entry = entry || ' '"),
    ("entry", "entry_salt = sha256('x')"),
    ("entry", "entry_salt = ''"),
    ("entry", "entry = NULL"),
    ("entry", "entry_salt = NULL"),
    ("entry", "entry = NULL, entry_salt = NULL"),
    ("detail", "detail = set_byte(detail, 5, get_byte(detail, 5) # 1)"),
    ("detail", "detail_salt = sha256('x')"),
    ("detail", "detail = NULL, detail_salt = NULL"),
]


@pytest.mark.req("R-LE-02")
def test_separately_stored_content_is_compared_with_its_commitment(vandal, action):
    for purpose, assignment in KEPT:
        vandal.kept(assignment)
        assert broken() == f"{action}, event 2: its {purpose} is not what was committed to."
        vandal.heal()
    assert "intact" in verified()


def test_separately_stored_content_without_a_commitment_is_named(vandal, action):
    vandal.kept("detail = '{}', detail_salt = sha256('x')", seq=1)
    assert broken() == f"{action}, event 1: its detail is not what was committed to."


def test_a_removed_entry_is_named(vandal, action):
    vandal.run("DELETE FROM ledger_entry WHERE subject_id = %s AND seq = 2", vandal.record.action.id)
    assert broken() == f"{action}, event 2: its entry is not what was committed to."


def test_an_entry_without_an_event_is_named(vandal):
    vandal.run("INSERT INTO ledger_entry VALUES (%s, %s, 9)", vandal.record.tenant, vandal.record.action.id)
    assert broken() == f"Tenant orchid: subject {vandal.record.action.id}, event 9: its entry belongs to nothing."


@pytest.mark.req("R-LE-03")
def test_a_committed_entry_that_does_not_fit_the_schema_is_named(vandal, action):
    entry = next_entry(vandal.record.action) | {"outcome": "DONE"}
    append(vandal, entry=entry)
    assert broken().startswith(f"{action}, event 4: its entry does not fit the schema: ")


def test_a_committed_entry_about_another_action_is_named(vandal, action):
    append(vandal, entry=next_entry(vandal.record.action, action_id=str(uuid4())))
    assert broken() == f"{action}, event 4: its entry is about another action."


@pytest.mark.req("R-LE-06")
@pytest.mark.parametrize("block", ["idempotency", "approval"])
def test_an_entry_without_a_required_block_is_named(vandal, action, block):
    entry = next_entry(vandal.record.action)
    del entry[block]
    append(vandal, entry=entry)
    assert broken() == f"{action}, event 4: its entry lacks a block that it must carry."


def test_an_action_whose_events_carry_no_entry_is_named(vandal, action):
    tenant, written, *_ = forged(vandal.record.action, commitments=())
    vandal.run(APPEND, tenant, written, None, None, None, None, "{}")
    assert broken() == f"{action}, event 4: it carries no entry."


# Evidence

EVIDENCE = {
    "sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1)": "cannot be opened",
    "sealed = ''": "cannot be opened",
    "subject_id = gen_random_uuid()": "cannot be opened",
    "salt = sha256('x')": "is not what was committed to",
    "length = length + 1": "is not what was committed to",
    "purpose = 'goal'": "is not what was committed to",
    "commitment = repeat('0', 64)": "is not what was committed to",
}


@pytest.mark.req("R-LE-17")
@pytest.mark.parametrize("assignment", EVIDENCE)
def test_changed_evidence_is_named(vandal, action, assignment):
    vandal.evidence(assignment)
    pointer = vandal.record.payload
    assert broken() == f"{action}, event 2: the evidence {pointer} (payload) {EVIDENCE[assignment]}."


@pytest.mark.req("R-LE-17")
def test_removed_evidence_is_named(vandal, action):
    vandal.run("DELETE FROM ledger_evidence WHERE id = %s", vandal.record.payload)
    assert broken() == f"{action}, event 2: the evidence {vandal.record.payload} (payload) is missing."


@pytest.mark.parametrize(
    "statement", ["UPDATE ledger_subjectkey SET key_id = gen_random_uuid()", "DELETE FROM ledger_subjectkey"]
)
def test_evidence_whose_key_is_gone_is_named(vandal, action, statement):
    vandal.run(f"{statement} WHERE subject_id = %s", vandal.record.action.id)
    assert broken() == f"{action}, event 2: the evidence {vandal.record.payload} (payload) cannot be opened."


def store_stray(record: Record) -> operations.SealedEvidence:
    """Evidence without an event, as an earlier version could store it: the fence is off."""
    with tenancy(record.tenant):
        return operations.store_evidence(
            tenant_id=record.tenant,
            subject_id=record.action.id,
            purpose="readback",
            data=b"all is well",
            media_type="text/plain",
            source="nobody",
            at=AT,
        )


def test_evidence_without_a_commitment_is_named(vandal):
    sealed = store_stray(vandal.record)
    assert findings() == [f"Tenant orchid: evidence {sealed.pointer}: no event has committed to it."]


# More than one finding


@pytest.mark.req("R-LE-02")
class TestItGoesOnAfterAFinding:
    def test_stray_evidence_hides_no_tampering(self, vandal, action):
        with tenancy(vandal.record.tenant):
            (second, _), (third, _) = sorted(
                (executing(vandal.record.tenant) for _ in range(2)), key=lambda one: one[0].id
            )
        sealed = store_stray(vandal.record)
        vandal.run("DELETE FROM ledger_event WHERE subject_id = %s AND seq = 3", vandal.record.action.id)
        vandal.change("ledger_entry", second.id, "detail = detail || ' '", seq=2)
        vandal.change("ledger_action", third.id, "agent = 'somebody else'")
        assert sorted(findings()) == sorted(
            [
                f"{action}: its head has another seq than its events lead to.",
                f"Tenant orchid: action {second.id}, event 2: its detail is not what was committed to.",
                f"Tenant orchid: action {third.id}: its present view has another agent than its events say.",
                f"Tenant orchid: evidence {sealed.pointer}: no event has committed to it.",
                f"Tenant orchid: subject {vandal.record.action.id}, event 3: its entry belongs to nothing.",
                "Tenant orchid: 5 findings: heads and present views (2), content of events (1), rows that belong to no"
                " event (1), evidence that no event has committed to (1).",
            ]
        )

    def test_everything_wrong_with_one_event_is_listed(self, vandal, action):
        vandal.event("kind = 'cancelled', actor_kind = 'person'")
        vandal.kept("detail = NULL, detail_salt = NULL")
        vandal.evidence("sealed = ''")
        assert findings() == [
            f"{action}, event 2: its column kind differs from its envelope.",
            f"{action}, event 2: its column actor_kind differs from its envelope.",
            f"{action}, event 2: its detail is not what was committed to.",
            f"{action}, event 2: the evidence {vandal.record.payload} (payload) cannot be opened.",
            "Tenant orchid: 4 findings: events and their order (2), content of events (1), evidence (1).",
        ]

    def test_an_unreadable_event_does_not_hide_later_faults(self, vandal, action):
        vandal.event("envelope = 'x'")
        vandal.event("actor_kind = 'person'", seq=3)
        assert [line.partition(": its ")[2] for line in findings()[:2]] == [
            "envelope cannot be read: The text is not JSON: Expecting value: line 1 column 1 (char 0).",
            "column actor_kind differs from its envelope.",
        ]

    def test_every_tenant_is_verified(self, vandal, action):
        willow = fill("willow")
        vandal.event("actor_kind = 'person'")
        vandal.change("ledger_event", willow.action.id, "kind = 'cancelled'", seq=2)
        assert findings() == [
            f"{action}, event 2: its column actor_kind differs from its envelope.",
            f"Tenant willow: action {willow.action.id}, event 2: its column kind differs from its envelope.",
        ]

    def test_a_list_of_faults_is_limited_but_its_total_is_not(self, vandal, monkeypatch):
        monkeypatch.setattr(stored_record, "FINDINGS_LISTED", 3)
        for seq in (1, 2, 3):
            vandal.event("kind = 'cancelled', actor_id = gen_random_uuid()", seq=seq)
        sealed = store_stray(vandal.record)
        lines = findings()
        assert len(lines) == 5
        # The first of each kind is always listed.
        assert str(sealed.pointer) in lines[3]
        assert lines[4].startswith("Tenant orchid: 7 findings, of which 4 are listed: events and their order (6), ")

    def test_the_result_can_be_printed_as_json(self, vandal):
        vandal.event("kind = 'cancelled', actor_kind = 'person'")
        said = StringIO()
        with pytest.raises(CommandError):
            call_command("verify_ledger", "--json", stdout=said)
        document = json.loads(said.getvalue())["tenants"]["orchid"]
        assert (document["intact"], document["total"]) == (False, 2)
        assert document["kinds"] == {"events and their order": 2}
        assert document["findings"][0].endswith("event 2: its column kind differs from its envelope.")
        assert document["checked"]["events"] == 15


# What can be rebuilt


def other(kind: str, column: str) -> str:
    """Another value of a column of this type."""
    return {
        "uuid": "gen_random_uuid()",
        "bool": f"NOT {column}",
        "int4": f"{column} + 1",
        "timestamptz": f"coalesce({column}, now()) + interval '1 second'",
        "varchar": "'other'",
        "bytea": "sha256('x')",
    }[kind]


def columns(vandal: Vandal, table: str) -> list[tuple[str, str]]:
    return vandal.connection.execute(
        "SELECT attname, typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND attname NOT IN ('tenant_id', 'id') AND attgenerated = ''",
        [table],
    ).fetchall()


@pytest.mark.parametrize(("table", "part"), [("ledger_action", "present view"), ("ledger_subject", "head")])
def test_every_column_that_can_be_rebuilt_is_compared(vandal, table, part):
    subject = vandal.record.action.id
    for column, kind in columns(vandal, table):
        vandal.change(table, subject, f"{column} = {other(kind, column)}")
        found = broken()
        assert f"{subject}: its {part} has another {column} than its events" in found or column == "kind"
        vandal.heal()
    assert "intact" in verified()


def test_an_emptied_view_is_named(vandal, action):
    vandal.change("ledger_action", vandal.record.action.id, "horizon_at = NULL")
    assert broken() == f"{action}: its present view has another horizon_at than its events say."


def test_an_action_without_a_view_is_named(vandal, action):
    vandal.run("DELETE FROM ledger_action WHERE id = %s", vandal.record.action.id)
    assert broken() == f"{action}: it has no present view."


def test_a_view_without_an_action_is_named(vandal):
    names = ", ".join(name for name, _ in columns(vandal, "ledger_action"))
    made = vandal.connection.execute(
        f"INSERT INTO ledger_action (tenant_id, id, {names}) SELECT tenant_id, gen_random_uuid(), "
        f"{names.replace('operation_key', 'run_id')} FROM ledger_action RETURNING id"
    ).fetchone()[0]
    assert broken() == f"Tenant orchid: subject {made}: its view belongs to nothing."


@pytest.mark.parametrize("table", ["ledger_contractversion", "ledger_policyversion"])
@pytest.mark.parametrize("assignment", ["document = '{}'", "digest = repeat('0', 64)"])
def test_a_changed_document_is_named(vandal, table, assignment):
    kind, subject = ("contract", vandal.record.contract) if "contract" in table else ("policy", vandal.record.policy)
    vandal.run(f"UPDATE {table} SET {assignment} WHERE id = %s", subject)
    assert broken() == f"Tenant orchid: {kind} {subject}: its document is not the one that was registered."


def test_a_removed_document_is_named(vandal):
    vandal.run("DELETE FROM ledger_contractversion WHERE id = %s", vandal.record.contract)
    assert broken() == f"Tenant orchid: contract {vandal.record.contract}: its document is missing."


def test_a_deactivated_policy_is_named(vandal):
    vandal.run("UPDATE ledger_policyversion SET active = false WHERE id = %s", vandal.record.policy)
    said = "whether it is in force is not what its events say."
    assert broken() == f"Tenant orchid: policy {vandal.record.policy}: {said}"
