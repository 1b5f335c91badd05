"""The same wait in two workflow engines, each on a database of its own beside ours, on the same server.

LangGraph: a node that interrupts, a resume, and a node behind it, with its PostgreSQL checkpointer; `durability="sync"`
writes each step before the next begins, and one process has one connection. DBOS: a workflow that waits for a message,
and a step behind it; everything is durable there, and one process is one executor with its own pool.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypedDict
from uuid import uuid4

from benchmarks.stand import Stand
from benchmarks.writers import Write

_TOPIC = "verdict"


class _State(TypedDict, total=False):
    payload: dict[str, str]
    verdict: str
    done: str


def prepare_langgraph(stand: Stand) -> None:
    """Its tables, made by itself, and one for the audit of equal work."""
    _saver().setup()
    _connection().execute(
        "CREATE TABLE audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL,"
        " actor uuid NOT NULL, subject text NOT NULL, said jsonb NOT NULL)"
    )
    _connection().execute("CREATE INDEX ON audit (subject, id)")


def langgraph(number: int) -> dict[str, Write]:
    """Return the operations of one writer with LangGraph."""
    return {"trip": _langgraph_trip(), "equal work": _langgraph_trip(Work())}


class Work:
    """The work that an approval of ours always includes, done by the nodes themselves, as it would be written beside a
    graph.

    The payload is kept encrypted, a token is signed for the start and checked when it is spent, and each step leaves a
    row of audit: on a connection of its own, since the checkpointer writes on its own from another thread. Quorum,
    pins, freezes, hashes over the past and proofs are still not there.
    """

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.cipher, self.key = AESGCM(AESGCM.generate_key(256)), Ed25519PrivateKey.generate()
        self.connection = _connection()

    def sealed(self, payload: dict[str, str]) -> str:
        nonce = os.urandom(12)
        return (nonce + self.cipher.encrypt(nonce, json.dumps(payload).encode(), None)).hex()

    def opened(self, sealed: str) -> Any:
        data = bytes.fromhex(sealed)
        return json.loads(self.cipher.decrypt(data[:12], data[12:], None))

    def token(self, verdict: str, sealed: str) -> tuple[bytes, bytes]:
        claims = json.dumps({"verdict": verdict, "payload": sha256(sealed.encode()).hexdigest(), "jti": uuid4().hex})
        return claims.encode(), self.key.sign(claims.encode())

    def check(self, token: tuple[bytes, bytes]) -> None:
        self.key.public_key().verify(token[1], token[0])

    def note(self, subject: str, **said: str) -> None:
        self.connection.execute(
            "INSERT INTO audit (at, actor, subject, said) VALUES (now(), %s, %s, %s)",
            [uuid4(), subject, json.dumps(said)],
        )


def _langgraph_trip(work: Work | None = None) -> Callable[[], None]:
    """One round trip: run to the interrupt, resume, run to the end."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    def ask(state: _State) -> _State:
        verdict: str = interrupt(state["payload"])
        if work is not None:
            work.note("vote", verdict=verdict)
        return {"verdict": verdict}

    def redeem(state: _State) -> _State:
        if work is not None:
            sealed = state["payload"]["sealed"]
            work.check(work.token(state["verdict"], sealed))
            work.opened(sealed)
            work.note("start", verdict=state["verdict"])
        return {"done": state["verdict"]}

    drawn = StateGraph(_State)
    drawn.add_node("ask", ask)
    drawn.add_node("redeem", redeem)
    drawn.add_edge(START, "ask")
    drawn.add_edge("ask", "redeem")
    drawn.add_edge("redeem", END)
    graph = drawn.compile(checkpointer=_saver())

    def trip() -> None:
        thread: Any = {"configurable": {"thread_id": uuid4().hex}}
        payload = {"path": "notes/a.md"}
        if work is not None:
            payload = {"sealed": work.sealed(payload)}
            work.note("request", sealed=payload["sealed"])
        graph.invoke({"payload": payload}, thread, durability="sync")
        if graph.invoke(Command(resume="approve"), thread, durability="sync")["done"] != "approve":
            raise SystemExit("benchmarks: LangGraph lost an answer")

    return trip


def _saver() -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver

    return PostgresSaver(_connection())


def _connection() -> Any:
    from psycopg import Connection
    from psycopg.rows import dict_row

    # As PostgresSaver.from_conn_string makes it.
    return Connection.connect(os.environ["WORKFLOWS_URL"], autocommit=True, prepare_threshold=0, row_factory=dict_row)


def prepare_dbos(stand: Stand) -> None:
    """Its tables, made by itself."""
    _launched("first").destroy()


def dbos(number: int) -> dict[str, Write]:
    """Return the operations of one writer with DBOS."""
    return {"trip": _dbos_trip(str(number))}


def _dbos_trip(executor: str) -> Callable[[], None]:
    """One round trip: start, wait, tell, step, result."""
    dbos = _launched(executor)

    def trip() -> None:
        handle = dbos.start_workflow(_asked, {"path": "notes/a.md"})
        dbos.send(handle.workflow_id, "approve", _TOPIC)
        if handle.get_result() != "approve":
            raise SystemExit("benchmarks: DBOS lost an answer")

    return trip


def _launched(executor: str) -> Any:
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
        return redeem(DBOS.recv(_TOPIC, timeout_seconds=60))

    _asked = asked
    DBOS.launch()
    return dbos


_asked: Any = None
