"""An import that is killed in the middle: nothing of it is there, and the same command brings all of it."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime

import psycopg
import pytest

from console.models import RecordedConversation, RecordedMessage, Recording
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.models import Event
from ledger.record import operations as ledger
from tests.support.outside.forking import forks
from tests.transcripts.imports import BAD, GOOD, recording

WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def founded(committed_db):
    at = datetime.now(UTC)
    return registration.set_up_tenant(
        tenant_id=ledger.new_id(at), slug="orchid", name="Orchid", host="console.test", at=at
    ).id


def started(database, file, said):
    words = ["-m", "counterfoil_transcripts", "audit", str(file), "--import", "--tenant", "orchid"]
    return forks().start(words, os.environ | database.environment, out=said, err=said)


def counted(tenant):
    with tenancy(tenant):
        tables = [model.objects.count() for model in (Recording, RecordedConversation, RecordedMessage)]
        return [*tables, Event.objects.filter(subject_kind="recording").count()]


def wait_until(holds):
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("table", ["console_recordedmessage", "ledger_subject"])
def test_an_interrupted_import_leaves_nothing_and_succeeds_the_next_time(
    founded, committed_db, superuser_connection, run, tmp_path, table
):
    file, said = recording(tmp_path, *[GOOD, BAD] * 20), tmp_path / "said"
    with psycopg.connect(run.postgres.url("counterfoil_bootstrap", committed_db.name)) as holder:
        # Whoever wants to write to this table waits, in the middle of its transaction.
        holder.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")
        process = started(committed_db, file, said)
        wait_until(lambda: superuser_connection.execute(WAITS).fetchone()[0] or process.poll() is not None)
        assert process.poll() is None, said.read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: not superuser_connection.execute(WAITS).fetchone()[0])
    assert counted(founded) == [0, 0, 0, 0]

    assert started(committed_db, file, said).wait(300) == 0, said.read_text()
    assert counted(founded) == [1, 40, 240, 1]
