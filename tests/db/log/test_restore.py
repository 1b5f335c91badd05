"""A database that is put back to before a redemption: neither the grant nor the votes are used a second time (B16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from console.local.servers import APP, OWNER, SEQUENCER, SUPERUSER
from ledger.log.signer_state import SignerState, read_epoch
from tests.conftest import _use
from tests.support.api_tenant import Workshop, workshop
from tests.support.seals import as_sequencer, seal_up, signer_state_file


@pytest.fixture
def shop(committed_db: Any, settings: Any, tmp_path: Path) -> Workshop:
    settings.COUNTERFOIL_RATE_PER_S = 0
    settings.COUNTERFOIL_SIGNER_STATE = signer_state_file()
    settings.COUNTERFOIL_EPOCH = tmp_path / "epoch"
    with SignerState(signer_state_file(), epoch=settings.COUNTERFOIL_EPOCH):
        pass
    return workshop("orchid").set_up()


@pytest.fixture
def backup(shop: Workshop, committed_db: Any, run: Any) -> Iterator[Callable[[], Callable[[], None]]]:
    """Make a copy of the database as it is; what is returned puts it in the place of the present one."""
    name = f"{committed_db.name}_older"

    def copied() -> Callable[[], None]:
        connections.close_all()
        with psycopg.connect(run.postgres.url(SUPERUSER, "postgres"), autocommit=True) as superuser:
            made = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}")
            parts = (sql.Identifier(each) for each in (name, committed_db.name, OWNER))
            superuser.execute(made.format(*parts))
            for role in (APP, SEQUENCER):
                allowed = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}")
                superuser.execute(allowed.format(sql.Identifier(name), sql.Identifier(role)))
        return lambda: _use(name)

    yield copied
    _use(committed_db.name)
    with psycopg.connect(run.postgres.url(SUPERUSER, "postgres"), autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def test_what_was_used_after_the_backup_is_not_used_again(shop: Workshop, backup: Any, settings: Any):
    """B16: in the copy the grant is unspent and the approval granted; the signer state outside knows better."""
    order = shop.claimed()
    restore = backup()
    assert shop.start(order).status_code == 201
    seal_up()
    restore()
    assert shop.state(order["action_id"]) == "VALIDATED"
    before = read_epoch(settings.COUNTERFOIL_EPOCH)
    with as_sequencer():
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    assert read_epoch(settings.COUNTERFOIL_EPOCH) == before + 1
    answer = shop.start(order)
    assert (answer.status_code, answer.json()["code"]) == (403, "GRANT_INVALID")
    assert "restored" in answer.json()["detail"]
    shop.run_out()
    assert shop.claim() == []
    asked = shop.approval_of(order["action_id"])
    assert asked["state"] == "REQUESTED"
    assert shop.vote(asked).status_code == 201
    [again] = shop.claim()
    assert shop.start(again).status_code == 201


def test_the_epoch_only_rises_and_outlives_either_of_its_two_places(tmp_path: Path):
    file, other = tmp_path / "epoch", tmp_path / "elsewhere"
    with SignerState(tmp_path / "signer.sqlite", epoch=file) as state:
        assert (state.epoch, read_epoch(file)) == (1, 1)
        assert state.raise_epoch() == read_epoch(file) == 2
    file.unlink()
    with SignerState(tmp_path / "signer.sqlite", epoch=file):
        assert read_epoch(file) == 2
    with SignerState(tmp_path / "another.sqlite", epoch=file) as state:
        assert state.epoch == 2
    other.write_text("1\n")
    with SignerState(tmp_path / "signer.sqlite", epoch=other):
        assert read_epoch(other) == 2
    assert file.stat().st_mode & 0o777 == 0o644
