"""Somebody with psql and a schema of their own in a real PostgreSQL, and a role that can only read it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

TABLES = """
CREATE TABLE {s}.orders (id bigint PRIMARY KEY, status text NOT NULL, amount numeric(10,2), note text);
CREATE TABLE {s}.lines (order_id bigint, place int, sku text, PRIMARY KEY (order_id, place));
CREATE TABLE {s}.loose (word text);
INSERT INTO {s}.orders SELECT n, 'open', n * 10 FROM generate_series(1, 30) AS n;
INSERT INTO {s}.lines VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'a');
CREATE FUNCTION {s}.remove_all(bigint) RETURNS boolean LANGUAGE sql AS 'DELETE FROM {s}.orders RETURNING true';
"""


@dataclass
class PsqlUser:
    """`run` is the program with its words, as a shell would start it; `reader` the conninfo of the role that reads."""

    schema: str
    reader: str
    environment: dict[str, str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["psql", *words], env=os.environ | self.environment, capture_output=True, text=True, timeout=60
        )


@contextmanager
def opened(url: str, programs: Path) -> Iterator[PsqlUser]:
    """A schema, its tables and its reader; gone afterwards."""
    schema = f"shop_{uuid4().hex[:8]}"
    names = {"s": sql.Identifier(schema), "r": sql.Identifier(f"{schema}_reader")}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(f"CREATE SCHEMA {{s}};{TABLES}").format(**names))
        connection.execute(sql.SQL("CREATE ROLE {r} LOGIN PASSWORD 'word'").format(**names))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {s} TO {r}").format(**names))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {r}").format(**names))
        info = connection.info
        reader = make_conninfo(
            host=info.host, port=info.port, dbname=info.dbname, user=f"{schema}_reader", password="word"
        )
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PGHOST": info.host,
            "PGPORT": str(info.port),
            "PGUSER": info.user,
            "PGPASSWORD": info.password,
            "PGDATABASE": info.dbname,
        }
        try:
            yield PsqlUser(schema, reader, environment)
        finally:
            connection.execute(sql.SQL("DROP SCHEMA {s} CASCADE").format(**names))
            connection.execute(sql.SQL("DROP OWNED BY {r}; DROP ROLE {r}").format(**names))
