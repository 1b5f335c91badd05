"""Checkpoints that were kept: one that was taken away is missed, one that was altered is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from ledger.db import tenancy
from ledger.log.operations import sequencer
from ledger.record import operations as ledger
from tests.db.log.test_verify_log import seal
from tests.support.callers import found


def happen(tenant, times):
    with tenancy(tenant):
        head = ledger.lock_subject(tenant_id=tenant, subject_id=tenant, kind="tenant")
        for _ in range(times):
            head = ledger.append(
                head, ledger.NewEvent(kind="reading_budget_spent"), actor=ledger.SYSTEM, at=datetime.now(UTC)
            )


@pytest.fixture
def kept(committed_db, superuser_connection, tmp_path, monkeypatch):
    """A log with several checkpoints, and somebody who may do anything with them; their sizes."""
    monkeypatch.setattr(sequencer, "KEPT_EVERY", timedelta(0))
    tenant, signer_state = found("orchid"), tmp_path / "signer.sqlite"
    for _ in range(3):
        happen(tenant, 3)
        seal(signer_state)
    superuser_connection.execute("ALTER TABLE ledger_checkpoint DISABLE TRIGGER USER")
    rows = superuser_connection.execute("SELECT size FROM ledger_checkpoint ORDER BY size").fetchall()
    sizes = [size for (size,) in rows]
    assert len(sizes) >= 3
    return sizes


def broken(*options):
    with pytest.raises(CommandError) as refused:
        call_command("verify_ledger", *options, stdout=StringIO())
    assert refused.value.returncode == 1
    return str(refused.value)


@pytest.mark.req("R-LE-02")
def test_a_removed_checkpoint_is_reported_as_missing(kept, superuser_connection):
    call_command("verify_ledger", verbosity=0)
    call_command("verify_ledger", "--log", verbosity=0)
    superuser_connection.execute("CREATE TABLE was AS TABLE ledger_checkpoint")
    for size in (kept[0], kept[1], kept[-1]):
        superuser_connection.execute("DELETE FROM ledger_checkpoint WHERE size = %s", [size])
        missed = f"the checkpoint of {size} entries was kept, and is missing."
        assert broken().endswith(missed)
        assert broken("--log").endswith(missed)
        superuser_connection.execute("INSERT INTO ledger_checkpoint SELECT * FROM was WHERE size = %s", [size])
    superuser_connection.execute("DELETE FROM ledger_checkpoint")
    assert broken().endswith(f"the checkpoint of {kept[-1]} entries was kept, and is missing.")
    superuser_connection.execute("INSERT INTO ledger_checkpoint SELECT * FROM was")
    call_command("verify_ledger", verbosity=0)


@pytest.mark.req("R-LE-02")
def test_an_altered_checkpoint_is_named(kept, superuser_connection):
    one = "UPDATE ledger_checkpoint SET note = {} WHERE size = %s"
    another = "(SELECT note FROM ledger_checkpoint o WHERE o.size = %s)"
    note = superuser_connection.execute("SELECT note FROM ledger_checkpoint WHERE size = %s", [kept[1]]).fetchone()[0]
    superuser_connection.execute(one.format(another), [kept[0], kept[1]])
    assert broken().endswith(f"the checkpoint of {kept[1]} entries is one of another log or size.")
    superuser_connection.execute(one.format("%s"), [note.replace(str(kept[1]).encode(), b"77", 1), kept[1]])
    assert f"the checkpoint of {kept[1]} entries is not good: " in broken()
    superuser_connection.execute(one.format("%s"), [b"nothing", kept[1]])
    assert f"the checkpoint of {kept[1]} entries is not good: " in broken()
    superuser_connection.execute(one.format("%s"), [note, kept[1]])
    call_command("verify_ledger", verbosity=0)
