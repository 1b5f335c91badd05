"""Sequencer, eraser and beat in one process: each as its own role, and a failure of one leaves the others alone."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from uuid import uuid4

from console.local import background, processes, programs, servers
from ledger.db import execute, tenancy
from ledger.log.queries import log as queries
from ledger.record import operations as ledger
from tests.conftest import KEYS
from tests.support.callers import found
from tests.support.outside.forking import forks


def test_one_process_signs_in_as_sequencer_and_as_eraser_and_seals(run, committed_db, tmp_path):
    tenant = found("orchid")
    told = {
        "DATABASE_URL": committed_db.sequencer_url,
        "DATABASE_ERASER_URL": committed_db.sequencer_url.replace(
            f"{servers.SEQUENCER}:{run.postgres.passwords.sequencer}",
            f"{servers.ERASER}:{run.postgres.passwords.eraser}",
        ),
        "KEYS_DATABASE_URL": run.postgres.url(servers.ERASER, KEYS),
        "COUNTERFOIL_SIGNER_STATE": str(tmp_path / "signer.sqlite"),
    }
    child = forks().spawn(
        programs.background_program(environment=dict(os.environ) | committed_db.environment | told, log=tmp_path)
    )
    try:
        head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
        with tenancy(tenant):
            ledger.append(head, ledger.NewEvent(kind="commented", to="OPEN"), actor=ledger.SYSTEM, at=datetime.now(UTC))
        log = tmp_path / "background.log"
        assert processes.wait_until(lambda: _is_sealed(tenant), within_s=60), log.read_text()
        assert processes.wait_until(lambda: _roles() >= {servers.SEQUENCER, servers.ERASER}, within_s=60), (
            log.read_text()
        )
    finally:
        processes.stop_children([child])
    assert child.process.returncode == 0
    assert "unexpectedly" not in log.read_text()


def _is_sealed(tenant):
    with tenancy(tenant):
        head = queries.current_log(tenant)
        return head is not None and head.size > 0 and not queries.pending_events(limit=1)


def _roles():
    rows = execute("SELECT usename::text FROM pg_stat_activity WHERE datname = current_database()")
    return {role for (role,) in rows if role}


def test_what_fails_or_returns_early_is_started_again_until_the_end(caplog):
    ending, starts = threading.Event(), []

    def run(_):
        starts.append(len(starts))
        if len(starts) == 1:
            raise SystemExit(1)
        if len(starts) == 3:
            ending.set()

    background.keep_running("sequencer", run, ending)
    assert starts == [0, 1, 2]
    assert caplog.messages == [
        "sequencer failed.",
        "sequencer stopped unexpectedly; restarting in 1 s.",
        "sequencer stopped unexpectedly; restarting in 2 s.",
    ]
