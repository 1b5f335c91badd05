"""Both databases behind the real PgBouncer in transaction mode, with fewer servers than threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from console.local import servers
from console.local.installation import ROOT
from deploy.drills import pooler
from ledger import keystore
from ledger import processes as leases
from reviews.readback.operations import polling
from tests.support.api_tenant import Workshop, document, result, workshop
from tests.support.outside.pooled import pooling

READINGS = ("tests/web/readback", "tests/db/readback")

pytestmark = pytest.mark.skipif(pooler.PGBOUNCER is None, reason=pooler.MISSING)


@pytest.fixture
def pooled(committed_db: Any, run: Any, settings: Any) -> Iterator[int]:
    """The port of a pooler with two servers a database; every new connection of this process goes through it."""
    settings.COUNTERFOIL_RATE_PER_S = 0
    with pooling(run, size=2) as port:
        yield port


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
def test_many_threads_propose_over_two_pooled_servers(pooled: int):
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
def test_only_one_worker_at_a_time_holds_the_lease_of_readings_behind_a_pooler(pooled: int, run: Any):
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


@pytest.mark.long
def test_the_tests_of_readings_pass_behind_a_pooler():
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.support.outside.pooled", *READINGS]
    # Nothing of this run, whose addresses Django would read before the other run has its own.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 50
