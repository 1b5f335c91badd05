"""The keys of payloads and evidence, which stand in a database of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from psycopg import errors, sql

from console.local import servers
from ledger import keystore
from ledger.db import tenancy
from ledger.record.rules import encryption
from tests.conftest import KEYS, Run


@pytest.fixture
def keys(template: str, run: Run) -> Iterator[str]:
    """The key database of this run, and a process that holds nothing of it."""
    keystore.clear_cache()
    yield KEYS
    keystore.clear_cache()


def as_role(run: Run, role: str) -> psycopg.Connection:
    return psycopg.connect(run.postgres.url(role, KEYS), autocommit=True)


def held(run: Run) -> set:
    with as_role(run, servers.OWNER) as owner:
        return {row[0] for row in owner.execute("SELECT id FROM data_key").fetchall()}


def destroyed_by_the_eraser(run: Run, monkeypatch: pytest.MonkeyPatch, ids: list) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("django.conf.settings.KEYS_DATABASE_URL", run.postgres.url(servers.ERASER, KEYS))
        keystore.destroy_keys(ids)


def go_back(run: Run) -> None:
    """Remove the unused keys of this process, as an older backup would; other tests use the same database."""
    unused = [key.id for key in keystore._process_store().unused]
    with as_role(run, servers.ERASER) as eraser:
        eraser.execute("DELETE FROM data_key WHERE id = ANY(%s)", [unused])


def break_connections(run: Run) -> None:
    """Have the server end the idle connections of this process."""
    with as_role(run, servers.SUPERUSER) as admin:
        for each in keystore._process_store().idle:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", [each.info.backend_pid])


def test_a_key_is_durable_before_it_is_used(keys, run):
    key = keystore.new_key()
    assert key.id in held(run)
    keystore.clear_cache()
    assert keystore.read_keys([key.id]) == {key.id: key.key}


def test_keys_are_created_in_blocks_and_each_is_given_out_once(keys, run):
    taken = [keystore.new_key() for _ in range(keystore.BLOCK)]
    assert {key.id for key in taken} <= held(run)
    assert len({key.id for key in taken}) == len({key.key for key in taken}) == keystore.BLOCK
    assert keystore._process_store().unused == []
    keystore.new_key()
    unused = {key.id for key in keystore._process_store().unused}
    assert len(unused) == keystore.BLOCK - 1
    assert unused <= held(run)


def test_threads_never_get_the_same_key(keys):
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: keystore.new_key().id, range(300)))
    assert len(set(taken)) == 300


def test_a_forked_process_does_not_inherit_unused_keys(keys):
    keystore.new_key()
    mine = {key.id for key in keystore._process_store().unused}
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, keystore.new_key().id.bytes)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(ours, 16) not in {each.bytes for each in mine}
    assert {key.id for key in keystore._process_store().unused} == mine


def test_keys_are_stored_wrapped_and_bound_to_their_id(keys, run):
    one, other = keystore.new_key(), keystore.new_key()
    with as_role(run, servers.OWNER) as owner:
        stored = dict(owner.execute("SELECT id, wrapped FROM data_key WHERE id = ANY(%s)", [[one.id, other.id]]))
    assert one.key not in stored[one.id]
    with pytest.raises(encryption.CannotOpen):
        encryption.open_sealed(keystore.key_encryption_key(), stored[one.id], keystore.key_context(other.id))


def test_a_destroyed_key_is_gone_here_at_once_and_elsewhere_within_a_minute(keys, run, monkeypatch):
    key = keystore.new_key()
    assert keystore.OPEN_FOR_S <= 60
    destroyed_by_the_eraser(run, monkeypatch, [key.id])
    assert keystore.read_keys([key.id]) == {}
    destroyed_by_the_eraser(run, monkeypatch, [key.id])
    kept = keystore.new_key()
    with as_role(run, servers.ERASER) as eraser:
        eraser.execute("DELETE FROM data_key WHERE id = %s", [kept.id])
    assert keystore.read_keys([kept.id]) == {kept.id: kept.key}
    later = time.monotonic() + 61
    monkeypatch.setattr(keystore, "time", SimpleNamespace(monotonic=lambda: later))
    assert keystore.read_keys([kept.id]) == {}


def test_memory_holds_the_keys_of_the_last_minute_and_no_more_of_them_than_its_limit(keys, monkeypatch):
    earlier = [keystore.new_key().id for _ in range(5)]
    keystore.read_keys(earlier)
    later = time.monotonic() + 61
    monkeypatch.setattr(keystore, "time", SimpleNamespace(monotonic=lambda: later))
    newest = keystore.new_key()
    assert keystore._process_store().open.keys() == {newest.id}
    monkeypatch.setattr(keystore, "MOST_OPEN", 3)
    last = [keystore.new_key().id for _ in range(4)][-3:]
    assert list(keystore._process_store().open) == last
    keystore.read_keys(earlier)
    assert len(keystore._process_store().open) == 3


@pytest.mark.parametrize(
    ("role", "wrong"),
    [
        (servers.APP, "UPDATE data_key SET wrapped = wrapped"),
        (servers.APP, "DELETE FROM data_key"),
        (servers.APP, "TRUNCATE data_key"),
        (servers.APP, "DROP TABLE data_key"),
        (servers.APP, "CREATE TABLE mine (id int)"),
        (servers.APP, "ALTER TABLE data_key DISABLE TRIGGER ALL"),
        (servers.ERASER, "SELECT wrapped FROM data_key"),
        (servers.ERASER, "DELETE FROM data_key RETURNING wrapped"),
        (servers.ERASER, "UPDATE data_key SET wrapped = ''"),
        (servers.ERASER, "INSERT INTO data_key VALUES (gen_random_uuid(), '')"),
        (servers.ERASER, "TRUNCATE data_key"),
        (servers.APP, "UPDATE retired_grant_key SET kid = kid"),
        (servers.APP, "DELETE FROM retired_grant_key"),
        (servers.ERASER, "SELECT FROM retired_grant_key"),
        (servers.ERASER, "INSERT INTO retired_grant_key VALUES ('kid', now())"),
        (servers.SEQUENCER, "SELECT 1"),
        (servers.AUDITOR, "SELECT 1"),
    ],
)
def test_a_role_of_the_key_database_is_refused_the_work_of_another(keys, run, role, wrong):
    with pytest.raises((errors.InsufficientPrivilege, psycopg.OperationalError)), as_role(run, role) as connection:
        connection.execute(sql.SQL(wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE data_key SET wrapped = wrapped",
        "UPDATE data_key SET wrapped = 'anew', id = gen_random_uuid()",
        "UPDATE data_key SET wrapped = 'anew', made_at = now() + interval '1 second'",
        "TRUNCATE data_key",
        "TRUNCATE retired_grant_key",
    ],
)
def test_the_owner_of_the_key_database_can_wrap_a_key_anew_and_change_nothing_else(keys, run, wrong):
    keystore.new_key()
    with as_role(run, servers.OWNER) as owner, pytest.raises(errors.IntegrityConstraintViolation):
        owner.execute(sql.SQL(wrong))


def test_a_terminated_connection_is_replaced(keys, run):
    key = keystore.new_key()
    with as_role(run, servers.SUPERUSER) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'counterfoil keys'"
        )
    keystore._process_store().open.clear()
    assert keystore.read_keys([key.id]) == {key.id: key.key}


def test_keys_made_in_advance_are_stored_again_when_the_server_went_back_to_a_backup(keys, run):
    keystore.new_key()
    go_back(run)
    break_connections(run)
    assert keystore.new_key().id in held(run)
    assert {key.id for key in keystore._process_store().unused} <= held(run)


def test_keys_made_in_advance_are_handed_out_while_the_server_is_away_and_stored_when_it_is_back(
    keys, run, settings, monkeypatch
):
    monkeypatch.setattr(keystore, "STORE_AGAIN_AFTER_S", 0.0)
    back = settings.KEYS_DATABASE_URL
    keystore.new_key()
    settings.KEYS_DATABASE_URL = "postgresql://app:none@127.0.0.1:1/none"
    assert not keystore.is_reachable()
    keystore.new_key()
    go_back(run)
    settings.KEYS_DATABASE_URL = back
    assert keystore.new_key().id in held(run)


def test_an_unreachable_key_database_is_named_in_the_error(keys, settings):
    settings.KEYS_DATABASE_URL = "postgresql://app:none@127.0.0.1:1/none"
    assert not keystore.is_reachable()
    with pytest.raises(OperationalError, match="The key database"):
        keystore.new_key()
    settings.KEYS_DATABASE_URL = ""
    with pytest.raises(ImproperlyConfigured):
        keystore.new_key()


def test_the_record_contains_no_key(tenant):
    with tenancy(tenant), connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'ledger_subjectkey' ORDER BY 1"
        )
        assert [name for (name,) in cursor.fetchall()] == ["key_id", "subject_id", "tenant_id"]
