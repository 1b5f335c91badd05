"""The same wait in DBOS: a workflow that waits for a message, and a step behind it. Everything is durable there.

One process is one executor with its own pool; DBOS's own database is beside ours, on the same server.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.stand import Stand
from benchmarks.writers import Write

TOPIC = "verdict"


def prepare(stand: Stand) -> None:
    """Its tables, made by itself."""
    launched("first").destroy()


def ways(number: int) -> dict[str, Write]:
    """What one writer can do."""
    return {"trip": tripping(str(number))}


def tripping(executor: str) -> Callable[[], None]:
    """One round trip: start, wait, tell, step, result."""
    dbos = launched(executor)

    def trip() -> None:
        handle = dbos.start_workflow(_asked, {"path": "notes/a.md"})
        dbos.send(handle.workflow_id, "approve", TOPIC)
        if handle.get_result() != "approve":
            raise SystemExit("benchmarks: DBOS lost an answer")

    return trip


def launched(executor: str) -> Any:
    from dbos import DBOS

    global _asked

    dbos = DBOS(
        config={
            "name": "trips",
            "system_database_url": os.environ["WORKFLOWS_URL"],
            "executor_id": executor,
            "application_version": "1",
            "enable_otlp": False,
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    def redeem(verdict: str) -> str:
        return verdict

    @DBOS.workflow()
    def asked(payload: dict[str, str]) -> str:
        return redeem(DBOS.recv(TOPIC, timeout_seconds=60))

    _asked = asked
    DBOS.launch()
    return dbos


_asked: Any = None
