"""A worker that is killed while it sends events: the next one goes on from where it stood, and nothing is left out."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from console.event_export import operations, queries
from console.models import EventDestination
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from tests.support.outside.forking import ForkedProcess, forks
from tests.support.seals import seal_up

SECRET = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
SEND = "from console.tasks import export_events; export_events()"


@contextmanager
def listening(*, silent_at: int) -> Iterator[tuple[int, list[str], Signal]]:
    """A receiver that takes events and, at one of them, stops answering: (port, ids that came, it is there)."""
    came: list[str] = []
    stuck, over = Signal(), Signal()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.append(json.loads(body)["data"]["envelope"]["id"])
            if len(came) == silent_at:
                stuck.set()
                over.wait(120)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, came, stuck
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def tenant(committed_db: Any) -> Any:
    at = datetime.now(UTC)
    made = registration.set_up_tenant(
        tenant_id=ledger.new_id(at), slug="orchid", name="Orchid", host="console.test", at=at
    ).id
    with tenancy(made):
        for _ in range(20):
            head = ledger.SubjectHead(tenant_id=made, id=uuid4(), kind="case")
            head = ledger.append(head, ledger.NewEvent(kind="case_opened", to="OPEN"), actor=ledger.SYSTEM, at=at)
            ledger.append(head, ledger.NewEvent(kind="commented"), actor=ledger.SYSTEM, at=at)
    seal_up()
    seal_up()
    with tenancy(made):
        operations.start(tenant_id=made, name="soc", start_at="beginning", by=ledger.SYSTEM, at=at)
    return made


@pytest.fixture
def said(tmp_path: Path) -> Path:
    return tmp_path / "said"


@pytest.fixture
def sending(committed_db: Any, tmp_path: Path, said: Path) -> Callable[[int], ForkedProcess]:
    def begin(port: int) -> ForkedProcess:
        file = tmp_path / "destinations.json"
        soc = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/take", "secrets": [SECRET]}
        file.write_text(json.dumps({"*": {"soc": soc}}))
        file.chmod(0o600)
        told = os.environ | committed_db.environment | {"COUNTERFOIL_EVENT_DESTINATIONS": str(file)}
        return forks().start(["manage.py", "shell", "-c", SEND], told, out=said, err=said)

    return begin


def test_a_worker_that_is_killed_loses_no_event_and_keeps_their_order(
    tenant: Any, sending: Callable[[int], ForkedProcess], said: Path
):
    with listening(silent_at=7) as (port, came, stuck):
        process = sending(port)
        assert stuck.wait(120), said.read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        before = list(came)
        with tenancy(tenant):
            [row] = queries.running_destinations(tenant).values()
            assert (row.sent, row.index) == (0, -1)
            # Its lease runs out.
            EventDestination.objects.filter(tenant_id=tenant).update(leased_until=datetime.now(UTC))
        assert sending(port).wait(120) == 0, said.read_text()
        with tenancy(tenant):
            wanted = [str(each.id) for each in queries.events_behind(tenant, 0, -1, limit=1000)]
            [row] = queries.running_destinations(tenant).values()
        assert len(wanted) > 40
        assert came == [*before, *wanted]
        assert before == wanted[:7]
        assert (row.sent, row.fault) == (len(wanted), "")
