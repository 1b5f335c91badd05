"""Both databases behind the real PgBouncer in transaction mode, with fewer servers than threads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from console.local import processes, servers
from ledger import keystore
from ledger import processes as leases
from reviews.readback.operations import polling
from tests.support.api_tenant import Workshop, document, result, workshop

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
PATIENCE_S = 20

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed (Debian's package pgbouncer)")


@pytest.fixture
def pooled(committed_db: Any, run: Any, settings: Any, tmp_path_factory: Any) -> Iterator[int]:
    """The port of a pooler with two servers a database; every new connection of this process goes through it."""
    folder = run.folder / "pooler"
    servers.private_folder(folder, run.postgres.account)
    port = servers.free_port()
    child = processes.spawn(_program(run, folder, port))
    default = connections.settings["default"]
    kept, settings.COUNTERFOIL_RATE_PER_S = default["PORT"], 0
    try:
        _wait(run, port)
        connections.close_all()
        default["PORT"] = port
        settings.KEYS_DATABASE_URL = settings.KEYS_DATABASE_URL.replace(f":{run.postgres.port}/", f":{port}/")
        keystore.clear_cache()
        yield port
    finally:
        connections.close_all()
        default["PORT"] = kept
        keystore.clear_cache()
        processes.stop_children([child])


def _program(run: Any, folder: Path, port: int) -> processes.Program:
    words = run.postgres.passwords
    users = {servers.APP: words.app}
    (folder / "users").write_text("".join(f'"{name}" "{word}"\n' for name, word in users.items()))
    (folder / "pgbouncer.ini").write_text(
        "[databases]\n"
        f"* = host=127.0.0.1 port={run.postgres.port}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = scram-sha-256\nauth_file = {folder / 'users'}\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\nserver_round_robin = 1\n"
    )
    for name in ("users", "pgbouncer.ini"):
        (folder / name).chmod(0o600)
        if run.postgres.account is not None:
            shutil.chown(folder / name, run.postgres.account.uid, run.postgres.account.gid)
    return processes.Program(
        name="pgbouncer",
        argv=[str(PGBOUNCER), str(folder / "pgbouncer.ini")],
        log=run.folder / "pgbouncer.log",
        account=run.postgres.account,
    )


def _wait(run: Any, port: int) -> None:
    url = run.postgres.url(servers.APP, "counterfoil_keys").replace(f":{run.postgres.port}/", f":{port}/")

    def answers() -> bool:
        try:
            psycopg.connect(url, connect_timeout=1).close()
        except psycopg.OperationalError:
            return False
        return True

    # A refused connection is refused at once: the waiting is done here.
    log = run.folder / "pgbouncer.log"
    assert processes.wait_until(answers, within_s=PATIENCE_S), processes.tail_log(log)


def told(shop: Workshop, number: int) -> str:
    """One proposal, and an action (this one or another's) from its claim to the tool's answer."""
    try:
        shop.propose("write_document", **document(f"notes/{number}.md", "Quiet."))
        order = next(order for _ in range(50) for order in shop.claim(limit=1))
        started = shop.start(order).json()
        return str(shop.observe(started, result=result(tool="write_document")).json()["state"])
    finally:
        connections.close_all()


@pytest.mark.unsealed
def test_many_threads_share_two_servers_and_every_plan_is_there(pooled: int):
    shop = workshop("orchid").set_up()
    with ThreadPoolExecutor(6) as threads:
        states = list(threads.map(lambda number: told(shop, number), range(24)))

    assert states == ["PENDING"] * 24


def test_keys_are_read_by_many_threads_over_two_servers(pooled: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keystore, "OPEN_FOR_S", -1)
    made = {each.id: each.key for each in (keystore.new_key() for _ in range(8))}

    def read(_: int) -> bool:
        return keystore.read_keys(made) == made and keystore.is_reachable()

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(read, range(120)))


@pytest.mark.unsealed
def test_one_worker_at_a_time_reads_whichever_server_its_statements_reach(pooled: int, run: Any):
    """A lock of a session stayed with a server of the pooler: nobody could take it, and nobody could release it."""
    shop = workshop("orchid").set_up()
    told(shop, 1)

    def poll(_: int) -> bool:
        holder = uuid4()
        try:
            taken = leases.take_lease(leases.READINGS, holder, seconds=5)
            polling.poll_due(clock=timezone.now)
            leases.give_up_lease(leases.READINGS, holder)
            return taken
        finally:
            connections.close_all()

    assert [poll(number) for number in range(30)] == [True] * 30
    with ThreadPoolExecutor(6) as threads:
        assert any(threads.map(poll, range(30)))
    assert poll(0)
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, connections.settings["default"]["NAME"])) as straight:
        held = straight.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE l.locktype = 'advisory' AND d.datname = current_database()"
        ).fetchone()
    assert held == (0,)
