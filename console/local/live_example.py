"""Databases, folder and stream for the live example's shop, created by `make up`.

The shop's roles are not the product's: its programs get no key and no password of the console beyond the API keys
of an agent and an executor, and the console reads the shop back with credentials that cannot write.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from console.local import servers
from console.local.installation import ROOT, Installation
from console.local.processes import Program
from ledger.key_files import write_private

TENANT = "example"
DATABASE = "shop"
ADMIN, WRITER, READER = "shop_admin", "shop_writer", "shop_reader"
BROKER_DATABASE = 1
RANK = 3
PRELOADED = ("example.agent", "example.consumer", "example.executor", "example.registration")
"""The modules that the shop's programs share, for the process from which they are forked."""


@dataclass(frozen=True, kw_only=True)
class ShopPasswords:
    """The shop's passwords."""

    admin: str
    writer: str
    reader: str
    stream_writer: str
    stream_reader: str


def founding_words() -> list[str]:
    """Return the arguments that create the example's tenant: with two reviewers and two administrators, so that second
    persons, delegation and standing approvals can be tried, and with letters that are decided together.
    """
    place = next(each for each in (ROOT / "client" / "example", ROOT / "example") if each.is_dir())
    policy = place / "policies" / "approval.json"
    return ["--policy", f"approval={policy}", "--also", "reviewer", "--also", "administrator"]


def shop_passwords(installation: Installation) -> ShopPasswords:
    file = installation.secrets / "example.json"
    if not file.exists():
        fresh = ShopPasswords(**{name: secrets.token_urlsafe(24) for name in ShopPasswords.__annotations__})
        write_private(file, json.dumps(asdict(fresh)))
    return ShopPasswords(**json.loads(file.read_text()))


def broker_users(known: ShopPasswords) -> tuple[str, ...]:
    """Add two users to the broker: one for the shop's keys, one that only reads them."""
    return (
        f"{WRITER} on >{known.stream_writer} ~shop:* +@all -@admin -@dangerous +info",
        f"{READER} on >{known.stream_reader} %R~shop:* +@read +@connection +info",
    )


def base_environment() -> dict[str, str]:
    """The part of the environment of the shop's programs that no key and no address is in."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
    return kept | {"PYTHONPATH": str(ROOT / "client"), "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, kw_only=True)
class ShopAddresses:
    """The addresses of the shop's three systems, for writers and for readers."""

    installation: Installation
    postgres: servers.Postgres
    broker: servers.Valkey

    @property
    def folder(self) -> Path:
        return self.installation.var / "example" / "documents"

    @property
    def state(self) -> Path:
        return self.installation.var / "example" / "state"

    def database_url(self, role: str) -> str:
        known = shop_passwords(self.installation)
        password = {ADMIN: known.admin, WRITER: known.writer, READER: known.reader}[role]
        return servers.postgres_url(role=role, password=password, port=self.postgres.port, database=DATABASE)

    def stream_url(self, role: str) -> str:
        known = shop_passwords(self.installation)
        password = known.stream_writer if role == WRITER else known.stream_reader
        return f"redis://{role}:{quote(password)}@127.0.0.1:{self.broker.port}/{BROKER_DATABASE}"

    def make(self) -> None:
        """An empty database whose owner makes the shop's own roles, two folders, and the console's credentials."""
        for place in (self.folder, self.state):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with psycopg.connect(self.postgres.url(servers.SUPERUSER, "postgres"), autocommit=True) as connection:
            # May make roles, and so touch those that it made: none of the console's.
            servers.ensure_role(connection, ADMIN, shop_passwords(self.installation).admin, makes_roles=True)
            servers.ensure_database(connection, DATABASE, ADMIN)
        self._lend_credentials()

    def _lend_credentials(self) -> None:
        folder = self.installation.secrets / "systems" / TENANT
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        credentials = {
            "shop": {"url": self.database_url(READER)},
            "documents": {"root": str(self.folder)},
            "events": {"url": self.stream_url(READER)},
        }
        for name, credential in credentials.items():
            write_private(folder / f"{name}.json", json.dumps(credential))

    def environment(self, *, console_url: str, keys: dict[str, str]) -> dict[str, str]:
        """The environment of the shop's programs: without the console's database, broker or key files."""
        return base_environment() | {
            "COUNTERFOIL_URL": console_url,
            "COUNTERFOIL_AGENT_KEY": keys["agent"],
            "COUNTERFOIL_EXECUTOR_KEY": keys["exec"],
            "COUNTERFOIL_EXAMPLE_STATE": str(self.state),
            "SHOP_DATABASE_URL": self.database_url(WRITER),
            "SHOP_READER_URL": self.database_url(READER),
            "SHOP_VALKEY_URL": self.stream_url(WRITER),
            "SHOP_FOLDER": str(self.folder),
        }

    def setup_environment(self, *, console_url: str, keys: dict[str, str]) -> dict[str, str]:
        """The further environment of the programs that create and register the shop."""
        return self.environment(console_url=console_url, keys=keys) | {
            "COUNTERFOIL_OPERATOR_KEY": keys["oper"],
            "SHOP_ADMIN_URL": self.database_url(ADMIN),
        }

    def program(self, name: str, environment: dict[str, str]) -> Program:
        return Program(
            name=f"example-{name}",
            argv=[sys.executable, "-m", "example", name],
            log=self.installation.log / f"example-{name}.log",
            environment=environment,
            rank=RANK,
        )
