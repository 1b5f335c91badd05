"""The example's shop on the run's own PostgreSQL and Valkey."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
import redis
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from console.local import servers
from counterfoil.agent import Agent
from counterfoil.execution.lease import Lease
from counterfoil.transport.request import new_trace
from counterfoil.work import Work
from example import shop as example_shop
from example.shop import Shop
from example.stage import Stage


@dataclass(frozen=True)
class Place:
    """A shop with the addresses of all its roles."""

    shop: Shop
    admin_url: str
    writer_url: str
    reader_url: str

    def rows(self, table, **where):
        """Rows of a table as the verifier's role sees them."""
        names: list[sql.Composable] = [
            sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in where.items()
        ]
        query = sql.SQL("SELECT * FROM shop.{} WHERE {} ORDER BY id").format(
            sql.Identifier(table), sql.SQL(" AND ").join(names or [sql.SQL("true")])
        )
        with psycopg.connect(self.reader_url, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(scope="session")
def shop_database(cluster, run) -> Iterator[dict[str, str]]:
    """A database with the shop in it, made by an administrator who is no superuser."""
    name = f"shop_{uuid4().hex[:10]}"
    superuser = cluster.url(servers.SUPERUSER, "postgres")
    urls = {
        role: make_conninfo(superuser, dbname=name, user=f"shop_{role}", password=f"{role}-word")
        for role in ("admin", "writer", "reader")
    }
    # Roles belong to the whole cluster, so that two workers must not make them at once.
    with (run.folder / "shop.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with psycopg.connect(superuser, autocommit=True) as connection:
            servers.ensure_role(connection, "shop_admin", "admin-word", makes_roles=True)
            servers.ensure_database(connection, name, "shop_admin")
        example_shop.set_up(admin_url=urls["admin"], writer_url=urls["writer"], reader_url=urls["reader"])
    yield urls
    with psycopg.connect(superuser, autocommit=True) as connection:
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
        connection.execute(drop)


@pytest.fixture
def place(shop_database, valkey_url, tmp_path) -> Place:
    folder = tmp_path / "documents"
    folder.mkdir()
    return Place(
        shop=Shop(shop_database["writer"], _stream_url(valkey_url), folder),
        admin_url=shop_database["admin"],
        writer_url=shop_database["writer"],
        reader_url=shop_database["reader"],
    )


def _stream_url(url: str) -> str:
    """The broker as a user who has only the shop's keys, and none of the administrator's commands."""
    with redis.Redis.from_url(url) as client:
        client.execute_command(
            "ACL", "SETUSER", "shop", "on", ">stream-word", "~shop:*", "+@all", "-@admin", "-@dangerous", "+info"
        )
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"shop:stream-word@{parts.hostname}:{parts.port}"))


@pytest.fixture
def stage(place) -> Iterator[Stage]:
    """What the scripted agent prepares; it sends nothing here."""
    agent = Agent(url="http://127.0.0.1:9", key="none", agent_id="none")
    yield Stage(place.shop, agent)
    agent.close()


@pytest.fixture
def work_for():
    """Work as the executor hands it to a tool, with a key of its own."""

    def make(tool, payload, *, key=None, for_s=60.0):
        return Work(
            action_id="act-1",
            tool=tool,
            version="1.0.0",
            attempt="1",
            payload=payload,
            payload_hash="",
            idempotency_key=key or uuid4().hex,
            trace=new_trace(),
            lease=Lease(for_s=for_s, timeout_s=60),
        )

    return make
