"""`verify_ledger --log`: the log in the database against its events, its tiles and what was signed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from uuid import uuid4

import psycopg
import pytest
from django.core.management import CommandError, call_command

from console.local import servers
from ledger.db import tenancy
from ledger.log.queries import log as queries
from ledger.record import operations as ledger
from tests.support import seals
from tests.support.callers import found

EVENTS = 600
KEPT = ("ledger_event", "ledger_leaf", "ledger_tile", "ledger_tip", "ledger_checkpoint", "ledger_pending")


def happen(tenant, times):
    head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
    with tenancy(tenant):
        for number in range(times):
            step = ledger.NewEvent(kind="case_opened" if number == 0 else "commented", to="OPEN")
            head = ledger.append(head, step, actor=ledger.SYSTEM, at=datetime.now(UTC))


def seal(signer_state):
    while seals.seal_up(signer_state):
        pass


class Vandal:
    """Someone with a superuser's rights, for whom no trigger fires and no check holds."""

    def __init__(self, connection, tenant, signer_state):
        self.connection, self.tenant, self.signer_state = connection, tenant, signer_state
        connection.execute("SET session_replication_role = replica")
        connection.execute("ALTER TABLE ledger_event DROP CONSTRAINT event_hash_is_of_the_envelope")
        connection.execute("CREATE SCHEMA kept")
        for table in ("ledger_event", "ledger_tile", "ledger_tip"):
            for (trigger,) in connection.execute(
                "SELECT DISTINCT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal", [table]
            ).fetchall():
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
        for (table,) in connection.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal"
        ).fetchall():
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        for table in KEPT:
            connection.execute(f"CREATE TABLE kept.{table} AS TABLE {table}")

    def run(self, statement, *values):
        assert self.connection.execute(statement, values).rowcount >= 1

    def heal(self):
        with self.connection.transaction():
            for table in KEPT:
                self.connection.execute(f"DELETE FROM {table}")
                overriding = "OVERRIDING SYSTEM VALUE" if table == "ledger_pending" else ""
                self.connection.execute(f"INSERT INTO {table} {overriding} TABLE kept.{table}")

    def event_at(self, index):
        return self.connection.execute(
            "SELECT subject_id, seq FROM ledger_leaf WHERE tenant_id = %s AND index = %s", [self.tenant, index]
        ).fetchone()


@pytest.fixture(scope="module")
def intruder(module_db, run, tmp_path_factory) -> Iterator[Vandal]:
    tenant, signer_state = found("orchid"), tmp_path_factory.mktemp("signer") / "signer.sqlite"
    seal(signer_state)
    happen(tenant, EVENTS // 2)
    seal(signer_state)
    happen(tenant, EVENTS // 2)
    seal(signer_state)
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, module_db.name), autocommit=True) as connection:
        yield Vandal(connection, tenant, signer_state)


@pytest.fixture
def vandal(intruder) -> Iterator[Vandal]:
    yield intruder
    intruder.heal()


def verified(*options):
    said = StringIO()
    call_command("verify_ledger", "--log", *options, stdout=said)
    return said.getvalue().strip()


def broken(*options):
    with pytest.raises(CommandError) as raised:
        call_command("verify_ledger", "--log", *options, stdout=StringIO())
    assert raised.value.returncode == 1
    return str(raised.value)


def head(vandal):
    with tenancy(vandal.tenant):
        return queries.current_log(vandal.tenant)


def test_an_intact_log_is_valid(vandal):
    size = head(vandal).size
    assert size > EVENTS
    assert verified().startswith(f"Tenant orchid: {size} entries, ")
    assert verified().endswith(" checkpoints. The log is intact.")


def test_several_processes_give_the_same_result(vandal, module_db):
    words = [sys.executable, "manage.py", "verify_ledger", "--log", "--processes", "2"]
    ended = subprocess.run(words, env=module_db.environment, capture_output=True, text=True)
    assert (ended.stdout.strip(), ended.stderr, ended.returncode) == (verified(), "", 0)
    vandal.run("UPDATE ledger_event SET envelope = '{}' WHERE (subject_id, seq) = (%s, %s)", *vandal.event_at(300))
    ended = subprocess.run(words, env=module_db.environment, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Entry 300 of the log: the bytes of its event have another hash." in ended.stderr


def test_a_changed_event_is_named_with_its_index(vandal):
    """L24: an envelope edited, alone and together with its hash."""
    subject, seq = vandal.event_at(42)
    where = "WHERE (subject_id, seq) = (%s, %s)"
    vandal.run(f"UPDATE ledger_event SET envelope = '{{}}' {where}", subject, seq)
    expected = f"Entry 42 of the log: the bytes of its event have another hash. It is event {seq} of {subject}."
    assert broken() == f"Tenant orchid: {expected}"
    vandal.run(f"UPDATE ledger_event SET entry_hash = sha256('\\x00'::bytea || envelope) {where}", subject, seq)
    assert "Entry 42 of the log: tile 0 of level 0 does not hold its hash." in broken()


def test_a_deleted_event_and_a_deleted_leaf_are_named(vandal):
    """L24: a row deleted."""
    vandal.run("DELETE FROM ledger_event WHERE (subject_id, seq) = (%s, %s)", *vandal.event_at(599))
    assert "Entry 599 of the log: its event is not there." in broken()
    vandal.run("DELETE FROM ledger_leaf WHERE index = 7")
    assert "Entry 7 of the log: it is not there." in broken()


def test_swapped_leaves_are_named(vandal):
    """L24: two swapped."""
    vandal.run("UPDATE ledger_leaf SET index = CASE index WHEN 5 THEN -9 ELSE index END WHERE index = 5")
    vandal.run("UPDATE ledger_leaf SET index = 5 WHERE index = 9")
    vandal.run("UPDATE ledger_leaf SET index = 9 WHERE index = -9")
    assert "Entry 5 of the log: tile 0 of level 0 does not hold its hash." in broken()


def test_a_changed_tile_and_a_changed_tip_are_found(vandal):
    """L24: tile and tip."""
    vandal.run("UPDATE ledger_tile SET hashes = sha256('x') || substr(hashes, 33) WHERE level = 0 AND index = 1")
    assert "Entry 256 of the log: tile 1 of level 0 does not hold its hash." in broken()
    vandal.heal()
    vandal.run("UPDATE ledger_tip SET root = sha256('x')")
    assert "from here on the log is not the one that its tip names." in broken()


def test_a_truncated_log_is_detected_by_a_later_checkpoint(vandal):
    """L24: the tail truncated, as seen from inside: the newest checkpoint says how long the log was."""
    vandal.run("DELETE FROM ledger_leaf WHERE index >= 500")
    vandal.run("UPDATE ledger_tip SET size = 500, signed_size = 500")
    assert "Entry 500 of the log: it is not there, and a log of" in broken()


def test_an_event_that_was_hidden_from_the_log_is_found(vandal):
    happen(vandal.tenant, 1)
    assert "The log is intact" in verified()
    vandal.run("DELETE FROM ledger_pending")
    assert "has no place, and none waits." in broken()
    vandal.run(
        "DELETE FROM ledger_event WHERE NOT EXISTS (SELECT FROM kept.ledger_event k WHERE k.id = ledger_event.id)"
    )


def test_only_trusted_keys_count(vandal):
    """L24: re-signed with another key."""
    with seals.signer(vandal.signer_state) as signer:
        own = signer.vkey(head(vandal).origin)
    assert "The log is intact" in verified("--key", own)
    other = own.replace(own[-8:-4], "AAAA")
    with pytest.raises(CommandError) as raised:
        verified("--key", other)
    assert raised.value.returncode == 2
