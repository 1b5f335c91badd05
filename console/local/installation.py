"""One machine's installation: its files, its ports, and the settings of its processes.

    var/                    passed through by the servers' user, listed by nobody
    var/secrets/            keys, passwords, sign-in; mode 0700
    var/log/                what each process said
    var/run/                who is running
    var/static/             static files as they are served: compressed, named after their content
    var/servers/            the data of PostgreSQL and Valkey (as root possibly elsewhere, see console/local/servers.py)

Commands that run beside `up` (say `manage.py create_key`) find it through `fill_environment`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from console.local import servers
from console.local.keys import ensure_keys, ensure_log_key
from ledger.key_files import write_private

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "counterfoil"
KEYS_DATABASE = "counterfoil_keys"
LOG_BYTES = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The folders of one installation."""

    var: Path

    @property
    def secrets(self) -> Path:
        return self.var / "secrets"

    @property
    def log(self) -> Path:
        return self.var / "log"

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def static(self) -> Path:
        return self.var / "static"

    @property
    def environment_file(self) -> Path:
        return self.secrets / "environment.json"

    def make(self) -> None:
        """Create what is missing and rotate long logs. No existing key is replaced."""
        self.var.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.var.chmod(0o711)
        for place in (self.secrets, self.log, self.run):
            place.mkdir(mode=0o700, exist_ok=True)
        for file in self.log.glob("*.log"):
            if file.stat().st_size > LOG_BYTES:
                file.replace(file.with_suffix(".log.1"))
        ensure_keys(self.secrets)
        ensure_log_key(self.secrets)

    def sign_in_file(self, tenant: str) -> Path:
        return self.secrets / f"sign-in-{tenant}.json"


@dataclass(frozen=True, kw_only=True)
class EmbeddedServers:
    """The servers of an installation."""

    postgres: servers.Postgres
    valkey: servers.Valkey


def current_installation() -> Installation:
    return Installation(var=Path(os.environ.get("COUNTERFOIL_VAR") or ROOT / "var").absolute())


def embedded_servers(installation: Installation, *, users: tuple[str, ...] = ()) -> EmbeddedServers:
    """The servers with their passwords and ports: those of last time if they are still free."""
    account = servers.service_user()
    folder = servers.data_folder(installation.var, account)
    programs = servers.install_binaries(account)
    words = servers.load_passwords(installation.secrets / "passwords.json")
    ports = _ports(installation.run / "ports.json")
    postgres = servers.Postgres(
        folder=folder / "postgres", programs=programs, account=account, passwords=words, port=ports["postgres"]
    )
    valkey = servers.Valkey(
        folder=folder / "valkey",
        programs=programs,
        account=account,
        password=words.valkey,
        port=ports["valkey"],
        users=users,
    )
    return EmbeddedServers(postgres=postgres, valkey=valkey)


def _ports(file: Path) -> dict[str, int]:
    known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    ports = {
        name: port if (port := known.get(name, 0)) and port_is_free(port) else servers.free_port()
        for name in ("postgres", "valkey")
    }
    write_private(file, json.dumps(ports))
    return ports


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def fill_environment(arguments: list[str]) -> None:
    """Set the environment before Django reads its settings: initial values for `up`, and those that `up` stored for
    other commands.

    Whoever sets DATABASE_URL has said where the data is, and is believed.
    """
    installation = current_installation()
    if arguments[:1] in (["up"], ["demo"]):
        installation.make()
        os.environ.setdefault("COUNTERFOIL_SECRETS_DIR", str(installation.secrets))
        os.environ.setdefault("COUNTERFOIL_EXPORTS", str(installation.var / "exports"))
        # `up` itself opens no connection through Django; its children are told the real addresses.
        outside = {"DATABASE_URL", "REDIS_URL", "BROKER_URL"} & set(os.environ)
        os.environ["COUNTERFOIL_OUTSIDE"] = " ".join(sorted(outside))
        os.environ.setdefault("DATABASE_URL", "postgresql://none:none@127.0.0.1:1/none")
        os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
    elif "DATABASE_URL" not in os.environ and installation.environment_file.exists():
        for name, value in json.loads(installation.environment_file.read_text()).items():
            os.environ.setdefault(name, value)
        if arguments[:1] in (["sequencer"], ["log"]):
            os.environ["DATABASE_URL"] = os.environ["DATABASE_SEQUENCER_URL"]
        if arguments[:1] == ["prune"]:
            os.environ["DATABASE_URL"] = os.environ["DATABASE_OWNER_URL"]
        if arguments[:1] == ["eraser"]:
            os.environ["DATABASE_URL"] = os.environ["DATABASE_ERASER_URL"]
            os.environ["KEYS_DATABASE_URL"] = os.environ["KEYS_DATABASE_ERASER_URL"]


def save_environment(installation: Installation, environment: Mapping[str, str]) -> None:
    write_private(installation.environment_file, json.dumps(dict(environment), indent=1))
