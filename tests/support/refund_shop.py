"""A till: refunds in one real PostgreSQL, the books that follow it in another, and a tenant that works with both.

The till's tables are written by the test, as an executor or a stranger would, and read by the console with roles that
can only read. Nothing keeps an effect from happening twice here, so that it can be seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from console.local import servers
from tests.support.api_tenant import Workshop, result
from tests.support.pure.refund_contract import TOOL, refund_contract

ORDER = {"order_id": "EX-1001", "amount": 1250, "currency": "EUR"}
READER = "till_reader"
_TABLES = {
    "till": (
        "CREATE TABLE refunds (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text, order_id text,"
        " tenant text, amount bigint, currency text, status text DEFAULT 'succeeded', actor text DEFAULT 'runner',"
        " trace_id text, version bigint DEFAULT 1, at timestamptz DEFAULT now())",
        "CREATE TABLE orders (id text PRIMARY KEY, tenant text, status text DEFAULT 'paid', version bigint DEFAULT 1)",
        "CREATE TABLE notices (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text, order_id text,"
        " tenant text)",
        "CREATE TABLE audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, operation text, order_id text,"
        " actor text, key text, trace_id text, at timestamptz DEFAULT now())",
    ),
    "books": (
        "CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text, order_id text,"
        " amount bigint)",
    ),
}


@dataclass
class Till:
    """Both databases, open with their owner's rights."""

    till: psycopg.Connection[dict[str, Any]]
    books: psycopg.Connection[dict[str, Any]]
    urls: dict[str, str]

    def order(self, order_id: str = ORDER["order_id"], tenant: str = "orchid") -> None:  # type: ignore[assignment]
        self.till.execute("INSERT INTO orders (id, tenant) VALUES (%s, %s) ON CONFLICT DO NOTHING", [order_id, tenant])

    def refund(self, key: str, *, booked: bool = True, **changes: Any) -> None:
        """Money goes back, and the books follow."""
        row = {"key": key, "tenant": "orchid", **ORDER, **changes}
        names = sql.SQL(", ").join(map(sql.Identifier, row))
        values = sql.SQL(", ").join(sql.Placeholder() * len(row))
        self.till.execute(sql.SQL("INSERT INTO refunds ({}) VALUES ({})").format(names, values), list(row.values()))
        self.till.execute(
            "INSERT INTO audit (operation, order_id, actor, key, trace_id) VALUES ('refund', %s, 'runner', %s, %s)",
            [row["order_id"], key, row.get("trace_id")],
        )
        if booked:
            self.book(key, order_id=row["order_id"], amount=row["amount"])

    def book(self, key: str, *, order_id: str = "EX-1001", amount: int = 1250) -> None:
        self.books.execute("INSERT INTO entries (key, order_id, amount) VALUES (%s, %s, %s)", [key, order_id, amount])

    def count(self, key: str | None = None) -> int:
        """How many refunds there are, of one key or at all."""
        cursor = self.till.execute("SELECT count(*) AS n FROM refunds WHERE %s::text IS NULL OR key = %s", [key, key])
        found = cursor.fetchone()
        assert found is not None
        return int(found["n"])

    def clear(self) -> None:
        self.till.execute("TRUNCATE refunds, orders, notices, audit")
        self.books.execute("TRUNCATE entries")
        self.order()


@contextmanager
def opened(cluster: servers.Postgres) -> Iterator[Till]:
    """Two databases of their own in the run's cluster, and a role that reads them."""
    superuser = cluster.url(servers.SUPERUSER, "postgres")
    names = {part: f"{part}_{uuid4().hex[:10]}" for part in _TABLES}
    with psycopg.connect(superuser, autocommit=True) as admin:
        make = sql.SQL(
            "DO $$BEGIN CREATE ROLE {} LOGIN PASSWORD 'word';"
            " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END$$"
        )
        admin.execute(make.format(sql.Identifier(READER)))
        for name in names.values():
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        connections = {
            part: psycopg.connect(make_conninfo(superuser, dbname=name), autocommit=True, row_factory=dict_row)
            for part, name in names.items()
        }
        for part, statements in _TABLES.items():
            for statement in statements:
                connections[part].execute(statement.encode())
            connections[part].execute(
                sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(sql.Identifier(READER))
            )
        urls = {
            part: make_conninfo(superuser, dbname=name, user=READER, password="word") for part, name in names.items()
        }
        yield Till(connections["till"], connections["books"], urls)
        for connection in connections.values():
            connection.close()
        for name in names.values():
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def books(**changes: Any) -> dict[str, Any]:
    """The books as a further source of a contract."""
    effect = {
        "table": "entries",
        "where": {"key": "scope.idempotency_key"},
        "target_column": "order_id",
        "fields": ["amount", "order_id"],
    }
    source = {
        "name": "books",
        "pattern": "databases",
        "system": "books",
        "lookup": {"effects": {"refund": effect}},
        "predicates": ["sa.amount == sr.amount"],
    }
    return source | changes


@dataclass
class Counter(Workshop):
    """A tenant whose agent refunds orders at the till."""

    till: Till = field(default=None)  # type: ignore[assignment]
    tools: tuple[str, ...] = (TOOL,)

    def open(self, secrets: Path, *contracts: dict[str, Any], settings: dict[str, Any] | None = None) -> Counter:
        """Register both systems, the contracts, the agent and the executor; its agent sends its trace."""
        self.agent.headers["traceparent"] = f"00-{'a' * 32}-{'b' * 16}-01"
        folder = secrets / "systems" / self.slug
        folder.mkdir(parents=True, exist_ok=True)
        for name, url in self.till.urls.items():
            (folder / f"{name}.json").write_text(json.dumps({"url": url}))
            body = {"name": name, "pattern": "databases", "settings": (settings or {}).get(name, {})}
            self._made(self.operator_key.post("/systems", body))
        for document in contracts or (refund_contract(),):
            self._made(self.operator_key.post("/contracts", document))
        self.tools = tuple(dict.fromkeys(document["name"] for document in contracts)) or self.tools
        self._made(
            self.operator_key.post("/agents", {"agent_id": "cashier", "version": "1", "tools": list(self.tools)})
        )
        body = {"executor_id": "runner", "public_jwk": self.key.public_jwk, "tools": list(self.tools)}
        self._made(self.executor.post("/executors", body))
        return self

    def session(self, goal: str = "Refund what is owed.", **options: Any) -> dict[str, Any]:
        body = {"agent_id": "cashier", "goal": goal, "ttl_seconds": 86_400} | options
        return self._made(self.agent.post("/sessions", body))

    def propose(self, tool: str = TOOL, **arguments: Any) -> str:
        answer = self.call(tool, ORDER | arguments)
        assert answer["state"] == "VALIDATED", answer
        return str(answer["action_id"])

    def begun(self, **arguments: Any) -> dict[str, Any]:
        """A started refund: approved where the contract asks for it."""
        action_id = self.propose(**arguments)
        if self.waiting(action_id):
            self._made(self.vote(self.approval_of(action_id)))
        order = next(each for each in self.claim() if each["action_id"] == action_id)
        return self._made(self.start(order))

    def waiting(self, action_id: str) -> bool:
        inbox = self.reviewer.get("/approvals").json()["items"]
        return any(each["action_id"] == action_id and each["state"] == "REQUESTED" for each in inbox)

    def tell(self, started: dict[str, Any], status: str = "success", **changes: Any) -> Any:
        """What the executor reports of an attempt."""
        told = result(tool=TOOL, status=status, evidence=None if status == "failed" else "refund/1") | changes
        answer = self.observe(started, result=told)
        assert answer.status_code == 202, answer.content
        return answer.json()


def counter(founded: Workshop, till: Till) -> Counter:
    """This tenant beside the till, with nothing registered."""
    return Counter(**vars(founded), till=till)
