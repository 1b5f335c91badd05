"""Erasing: two people, one role that can do it, and a record that still holds afterwards."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg import errors

from console.local import servers
from ledger import keystore
from ledger.db import tenancy
from ledger.models import Action, Entry, ErasedSubject, Evidence, SubjectKey
from ledger.record import operations as ledger
from ledger.record.operations import Actor, NewEvent
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules import encryption, envelope
from ledger.record.rules.canonical import canonical
from ledger.retention import queries
from ledger.retention.operations import erasure as operations
from tests.db.record.records import Record, fill
from tests.support.builders import AT
from tests.support.erasing import as_eraser, decided, erase

SECRET = "alice@example.org"


@pytest.fixture
def kept(committed_db) -> Record:
    return fill("orchid", actions=2)


def ended(kept: Record) -> ledger.SubjectHead:
    """The record's action at rest: FAILED by the shortest way."""
    with tenancy(kept.tenant):
        head = ledger.lock_subject(tenant_id=kept.tenant, subject_id=kept.action.id, kind="action")
        happening = NewEvent(
            kind="observed",
            to="FAILED",
            grounds=frozenset({ledger.Ground.NOTHING_SENT}),
            detail={"reason": f"Refused for {SECRET}."},
            changes={"execution": {"status": "FAILED"}},
        )
        return ledger.append(head, happening, actor=ledger.SYSTEM, at=AT)


def tenant_of(connection: psycopg.Connection, tenant: UUID) -> psycopg.Connection:
    connection.execute("SELECT set_config('app.tenant', %s, false)", [str(tenant)])
    return connection


def verified(tenant: UUID) -> str:
    said = StringIO()
    call_command("verify_ledger", stdout=said)
    return said.getvalue()


@pytest.mark.req("R-LE-21")
def test_an_erasure_by_two_people_destroys_the_data_and_keeps_the_record_valid(kept, run):
    """L32: ciphertext, salt, key, entry and detail are gone; the envelopes are what they were."""
    head = ended(kept)
    with tenancy(kept.tenant):
        key_id = evidence_queries.key_id(kept.tenant, head.id)
        before = [bytes(event.envelope) for event, _, _ in events.history(kept.tenant, head.id)]
    request = decided(kept.tenant, head.id)
    assert erase(run) == "Subjects erased: 1.\n"
    with tenancy(kept.tenant):
        rows = list(Entry.objects.filter(tenant_id=kept.tenant, subject_id=head.id))
        assert {(row.entry, row.entry_salt, row.detail, row.detail_salt) for row in rows} == {(None,) * 4}
        evidence = Evidence.objects.get(tenant_id=kept.tenant, id=kept.payload)
        assert (evidence.salt, evidence.sealed, evidence.source) == (None, None, "")
        assert not SubjectKey.objects.filter(tenant_id=kept.tenant, subject_id=head.id).exists()
        view = Action.objects.get(tenant_id=kept.tenant, id=head.id)
        assert (view.target, view.payload_hash, view.operation_key) == ("", "", "")
        after = [bytes(event.envelope) for event, _, _ in events.history(kept.tenant, head.id)]
        row = queries.erasure(kept.tenant, request)
        told = events.history(kept.tenant, request)
        assert ErasedSubject.objects.get(tenant_id=kept.tenant, subject_id=head.id).key_id is None
    assert after == before
    assert keystore.read_keys([key_id]) == {}
    assert (row.state, row.erased) == ("DONE", 1)
    assert [event.kind for event, _, _ in told] == [
        "erasure_requested",
        "erasure_confirmed",
        "erased",
        "erasure_done",
    ]
    assert "1 subjects erased on request. The record is intact." in verified(kept.tenant)
    assert told[2][2]["subjects"] == [
        {"id": str(head.id), "kind": "action", "events": head.seq, "evidence": [str(kept.payload)]}
    ]


def test_a_second_run_of_the_eraser_changes_nothing(kept, run):
    """L32: what is erased is erased; the eraser may look again as often as it likes."""
    decided(kept.tenant, ended(kept).id)
    assert erase(run) == "Subjects erased: 1.\n"
    before = verified(kept.tenant)
    assert erase(run) == ""
    assert verified(kept.tenant) == before


class Died(Exception):
    """The process ended here."""


@contextmanager
def dying_at(step: int, *, after: bool) -> Iterator[list[str]]:
    """Whatever the eraser does next in a database or with a key fails at one step: before it, or after it was done."""
    seen: list[str] = []
    counter = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((operations, "execute"), (operations, "call_function"), (keystore, "destroy_keys")):
            real = getattr(module, name)

            def tried(*values, real=real, name=name, **named):
                number = next(counter)
                seen.append(name)
                if number == step and not after:
                    raise Died
                answer = real(*values, **named)
                if number == step:
                    raise Died
                return answer

            patch.setattr(module, name, tried)
        yield seen


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_is_resumed_and_leaves_the_record_intact(committed_db, run, after):
    """L32: killed before or after each statement, the record holds at once, and the next run finishes."""
    died, step = True, 0
    kept = fill("orchid", actions=1)
    while died:
        with tenancy(kept.tenant):
            head, _ = executing_in(kept.tenant)
        request = decided(kept.tenant, head.id)
        died = False
        try:
            with as_eraser(run), dying_at(step, after=after):
                operations.run_erasure(tenant_id=kept.tenant, erasure_id=request, clock=lambda: datetime.now(UTC))
        except Died:
            died = True
        assert "The record is intact" in verified(kept.tenant)
        erase(run)
        with tenancy(kept.tenant):
            assert queries.erasure(kept.tenant, request).state == "DONE"
            gone = queries.erased_subject(kept.tenant, head.id)
        assert gone is not None
        assert gone.key_id is None
        step += 1
    assert step > 8
    assert "The record is intact" in verified(kept.tenant)


def executing_in(tenant: UUID) -> tuple[ledger.SubjectHead, UUID]:
    """An action with a payload that has failed."""
    from tests.db.record.records import executing

    head, payload = executing(tenant)
    happening = NewEvent(
        kind="observed",
        to="FAILED",
        grounds=frozenset({ledger.Ground.NOTHING_SENT}),
        changes={"execution": {"status": "FAILED"}},
    )
    return ledger.append(head, happening, actor=ledger.SYSTEM, at=AT), payload


@pytest.mark.req("R-LE-20")
def test_a_backup_from_before_the_erasure_cannot_be_opened_with_the_present_keys(kept, run, tmp_path):
    """L33: a dump that was taken before the erasure, restored beside the present key database."""
    head = ended(kept)
    with tenancy(kept.tenant):
        assert evidence_queries.open_evidence(kept.tenant, kept.payload) == canonical({"amount": 100})
    name = kept_database()
    programs, url = run.postgres.programs.postgres.parent, run.postgres.url(servers.SUPERUSER, name)
    dump = tmp_path / "before.dump"
    with dump.open("wb") as file:
        subprocess.run([programs / "pg_dump", "--format=custom", url], stdout=file, check=True, cwd="/")
    decided(kept.tenant, head.id)
    erase(run)
    restored = f"{name}_old"
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, "postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {restored} OWNER counterfoil_owner")
        try:
            target = run.postgres.url(servers.SUPERUSER, restored)
            with dump.open("rb") as file:
                subprocess.run([programs / "pg_restore", "--dbname", target], stdin=file, check=True, cwd="/")
            with psycopg.connect(target) as old:
                old.execute("SELECT set_config('app.tenant', %s, false)", [str(kept.tenant)])
                row = old.execute(
                    "SELECT e.sealed, k.key_id FROM ledger_evidence e JOIN ledger_subjectkey k"
                    " USING (tenant_id, subject_id) WHERE e.id = %s",
                    [kept.payload],
                ).fetchone()
            assert row is not None
            assert len(row[0]) > 20
            assert keystore.read_keys([row[1]]) == {}
            with pytest.raises(encryption.CannotOpen):
                evidence_queries.data_key(row[1])
        finally:
            admin.execute(f"DROP DATABASE {restored} WITH (FORCE)")


def kept_database() -> str:
    from django.db import connections

    return str(connections["default"].settings_dict["NAME"])


def test_a_commitment_cannot_be_guessed_without_its_salt(kept, run):
    """L34: every four-digit payload is tried against the commitment that stays; without the salt none fits."""
    head = ended(kept)
    with tenancy(kept.tenant):
        sealed = ledger.store_evidence(
            tenant_id=kept.tenant,
            subject_id=head.id,
            purpose="payload",
            data=b"4711",
            media_type="text/plain",
            source="agent",
            at=AT,
        )
        happening = NewEvent(kind="evidence_added", evidence=(sealed,))
        ledger.append(head, happening, actor=ledger.SYSTEM, at=AT)
        salt = bytes(Evidence.objects.get(tenant_id=kept.tenant, id=sealed.pointer).salt)
    assert guessed(sealed.commitment, salt) == b"4711"
    decided(kept.tenant, head.id)
    erase(run)
    with tenancy(kept.tenant):
        (promised,) = [
            each
            for event, _, _ in events.history(kept.tenant, head.id)
            for each in envelope.parse(bytes(event.envelope)).commitments
            if each.pointer == str(sealed.pointer)
        ]
        assert Evidence.objects.get(tenant_id=kept.tenant, id=sealed.pointer).salt is None
    assert guessed(promised, bytes(32)) is None
    assert guessed(promised, salt) == b"4711"


def guessed(promised: envelope.Commitment, salt: bytes) -> bytes | None:
    guesses = (f"{number:04}".encode() for number in range(10_000))
    return next((each for each in guesses if envelope.commitment("payload", salt, each) == promised.digest), None)


# Who may


def other_account(tenant: UUID, one: Actor) -> Actor:
    """Another account of the person behind this one, as the events of members tell it."""
    other, head = Actor("person", uuid4()), ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="member")
    told = {"actor": str(other.id), "person": str(one.id), "how": "by_hand"}
    earlier = AT - timedelta(days=1)
    joined = ledger.append(head, NewEvent(kind="member_added", to="ACTIVE"), actor=ledger.SYSTEM, at=earlier)
    ledger.append(joined, NewEvent(kind="accounts_linked", detail=told), actor=ledger.SYSTEM, at=earlier)
    return other


@pytest.mark.req("R-LE-21")
@pytest.mark.parametrize("linked", [False, True], ids=["one account", "two accounts of one person"])
def test_an_erasure_without_a_second_person_is_refused_by_the_database(kept, run, linked):
    head = ended(kept)
    wish = operations.ErasureRequest(subjects=(head.id,), legal_basis="None", reason="None.")
    one = Actor("person", uuid4())
    with tenancy(kept.tenant):
        asked = operations.request_erasure(tenant_id=kept.tenant, request=wish, by=one, at=AT)
        alone = ledger.lock_subject(tenant_id=kept.tenant, subject_id=asked.id, kind="erasure")
        again = other_account(kept.tenant, one) if linked else one
        ledger.append(alone, NewEvent(kind="erasure_confirmed", to="CONFIRMED"), actor=again, at=AT)
        operations.Erasure.objects.filter(tenant_id=kept.tenant, id=asked.id).update(
            state="CONFIRMED", confirmed_by=uuid4(), begun_at=AT
        )
    with psycopg.connect(run.postgres.url(servers.ERASER, kept_database()), autocommit=True) as eraser:
        tenant_of(eraser, kept.tenant)
        for statement in ("SELECT ledger_begin_erasure(%s, %s)", "SELECT * FROM ledger_erase(%s, %s, 10)"):
            with pytest.raises(errors.InsufficientPrivilege, match="not of two people"):
                eraser.execute(statement, [kept.tenant, asked.id])
        with pytest.raises(errors.InsufficientPrivilege, match="not confirmed"):
            eraser.execute("SELECT ledger_begin_erasure(%s, %s)", [kept.tenant, uuid4()])
    with tenancy(kept.tenant):
        assert evidence_queries.open_evidence(kept.tenant, kept.payload) is not None


def test_an_erasure_that_has_not_started_erases_nothing(kept, run):
    request = decided(kept.tenant, ended(kept).id)
    with psycopg.connect(run.postgres.url(servers.ERASER, kept_database()), autocommit=True) as eraser:
        tenant_of(eraser, kept.tenant)
        with pytest.raises(errors.InsufficientPrivilege, match="has not begun"):
            eraser.execute("SELECT * FROM ledger_erase(%s, %s, 10)", [kept.tenant, request])


def test_the_eraser_can_record_only_its_own_work(kept, run, monkeypatch):
    """It cannot confirm a request in somebody's name, nor write about anything but a request."""
    request = decided(kept.tenant, ended(kept).id)
    # Whoever forges bytes asks no register.
    monkeypatch.setattr(ledger, "check_registered", lambda kind, subject: None)
    with tenancy(kept.tenant):
        head = ledger.lock_subject(tenant_id=kept.tenant, subject_id=request, kind="erasure")
        forged = [
            ledger.draft_event(head, NewEvent(kind="erasure_confirmed"), actor=ledger.SYSTEM, at=AT),
            ledger.draft_event(head, NewEvent(kind="erased"), actor=Actor("person", uuid4()), at=AT),
            ledger.draft_event(
                ledger.lock_subject(tenant_id=kept.tenant, subject_id=kept.contract, kind="contract"),
                NewEvent(kind="erased"),
                actor=ledger.SYSTEM,
                at=AT,
            ),
        ]
    with psycopg.connect(run.postgres.url(servers.ERASER, kept_database()), autocommit=True) as eraser:
        tenant_of(eraser, kept.tenant)
        for each in forged:
            with pytest.raises(errors.InsufficientPrivilege, match="not for the eraser to tell"):
                eraser.execute(
                    "SELECT ledger_tell_erasure(%s, %s, %s, %s, %s, %s, %s::jsonb)", [kept.tenant, *each.values[1:]]
                )


# What does not hold any more, and is named


@pytest.mark.req("R-LE-02")
@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE ledger_entry SET detail = '{}' WHERE subject_id = %(id)s", "there still"),
        ("UPDATE ledger_evidence SET sealed = '\\x00', salt = '\\x00' WHERE subject_id = %(id)s", "there still"),
        ("UPDATE ledger_action SET target = 'order/1' WHERE id = %(id)s", "another target"),
        ("DELETE FROM ledger_erased", "is not what was committed to"),
        ("INSERT INTO ledger_erased SELECT tenant_id, id, 'action', gen_random_uuid(), 9, now() FROM ledger_action"
         " WHERE id <> %(id)s", "no event says so"),
        ("UPDATE ledger_erased SET seq = seq + 1", "no event says so"),
    ],
    ids=["detail", "evidence", "target", "list", "more", "further"],
)  # fmt: skip
def test_faked_erasures_are_distinguished_from_real_ones(kept, run, superuser_connection, damage, named):
    head = ended(kept)
    decided(kept.tenant, head.id)
    erase(run)
    superuser_connection.execute("SET session_replication_role = replica")
    for table in ("ledger_entry", "ledger_evidence"):
        superuser_connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER no_change")
    superuser_connection.execute(damage, {"id": head.id})
    with pytest.raises(CommandError, match=named):
        verified(kept.tenant)


def test_only_erased_rows_can_be_emptied(kept, owner_connection):
    """The fence opens for subjects on the list of what was erased, and for those columns alone."""
    tenant_of(owner_connection, kept.tenant)
    for statement in (
        "UPDATE ledger_entry SET entry = NULL, entry_salt = NULL, detail = NULL, detail_salt = NULL",
        "UPDATE ledger_evidence SET salt = NULL, sealed = NULL, source = ''",
        "DELETE FROM ledger_subjectkey",
    ):
        with pytest.raises(errors.IntegrityConstraintViolation):
            owner_connection.execute(statement)


def test_an_erased_row_cannot_be_changed_further(kept, run, owner_connection):
    head = ended(kept)
    decided(kept.tenant, head.id)
    erase(run)
    tenant_of(owner_connection, kept.tenant)
    for statement in (
        "UPDATE ledger_evidence SET salt = NULL, sealed = NULL, source = '', commitment = 'other'",
        "UPDATE ledger_evidence SET purpose = 'other'",
        "DELETE FROM ledger_evidence",
        "DELETE FROM ledger_entry WHERE subject_id = %(id)s",
        "UPDATE ledger_event SET envelope = '\\x00' WHERE subject_id = %(id)s",
    ):
        with pytest.raises(errors.IntegrityConstraintViolation):
            owner_connection.execute(statement, {"id": head.id})
