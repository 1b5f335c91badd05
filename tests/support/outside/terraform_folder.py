"""A folder with a configuration for a real terraform, whose state stands in a PostgreSQL or behind HTTP.

Its objects are `terraform_data`, which the program itself brings: no provider is fetched. The HTTP server keeps
documents in the documented form of the backend `http` (GET, POST, LOCK, UNLOCK) and was written for these tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

PROGRAM = shutil.which("terraform")
MISSING = "terraform is not installed"
_CONFIGURATION = """
terraform {
  backend "%s" {}
}
variable "size" { default = "small" }
variable "racks" {
  type    = list(string)
  default = ["a b", "c"]
}
variable "word" {
  default   = "a-secret-word"
  sensitive = true
}
resource "terraform_data" "web" { input = { size = var.size, cores = 1.50, word = "not secret" } }
resource "terraform_data" "rack" {
  for_each = toset(var.racks)
  input    = each.key
}
resource "terraform_data" "disk" { triggers_replace = var.word }
output "size" { value = var.size }
"""


@dataclass
class TerraformFolder:
    """`run` is the program with its words, as a shell would start it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str) -> str:
        ran = subprocess.run(
            ["terraform", *words],
            cwd=self.folder,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def plan(self, *words: str) -> str:
        """A saved plan; the command that applies it."""
        self.run("plan", "-input=false", "-out=next.tfplan", *words)
        return "terraform apply next.tfplan"


def opened(folder: Path, backend: str, environment: dict[str, str]) -> TerraformFolder:
    """A folder that was initialised, with nothing applied."""
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text(_CONFIGURATION % backend)
    found = TerraformFolder(folder, environment | {"CHECKPOINT_DISABLE": "1"})
    found.run("init", "-input=false")
    return found


@contextmanager
def schema_for_states(url: str, reader: str) -> Iterator[dict[str, str]]:
    """A schema for states that a role may read; the environment that leads the backend `pg` to it."""
    names = {"s": sql.Identifier(f"states_{uuid4().hex[:8]}"), "r": sql.Identifier(reader)}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {s}; GRANT USAGE ON SCHEMA {s} TO {r}").format(**names))
        connection.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {s} GRANT SELECT ON TABLES TO {r}").format(**names)
        )
        try:
            yield {"PG_CONN_STR": f"{url}?sslmode=disable", "PG_SCHEMA_NAME": names["s"].as_string().strip('"')}
        finally:
            connection.execute(sql.SQL("DROP SCHEMA {s} CASCADE").format(**names))


@dataclass
class StateServer:
    """`states` by path."""

    url: str = ""
    states: dict[str, bytes] = field(default_factory=dict)

    def environment(self, path: str) -> dict[str, str]:
        """What tells the backend `http` where a state stands; it writes with a password."""
        address = f"{self.url}{path}"
        named = {f"TF_HTTP_{name}ADDRESS": address for name in ("", "LOCK_", "UNLOCK_")}
        return named | {"TF_HTTP_USERNAME": "writer", "TF_HTTP_PASSWORD": "word"}


class _Listener(ThreadingHTTPServer):
    state: StateServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def _answer(self, code: int, content: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _states(self) -> dict[str, bytes]:
        assert isinstance(self.server, _Listener)
        return self.server.state.states

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self) -> None:
        found = self._states().get(self.path)
        self._answer(200 if found is not None else 404, found or b"")

    def do_POST(self) -> None:
        self._states()[self.path.partition("?")[0]] = self._body()
        self._answer(200)

    def do_LOCK(self) -> None:
        self._body()
        self._answer(200)

    do_UNLOCK = do_LOCK


@contextmanager
def served() -> Iterator[StateServer]:
    """States over HTTP, on a port of its own."""
    server = StateServer()
    listening = _Listener(("127.0.0.1", 0), _Handler)
    listening.state = server
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join(10)
