"""Settings of the HTTP gateway: a TOML file with the console, the gateway, its agents and the hosts behind it."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from counterfoil.gating.settings import BadSettings, ConsoleSettings, add_keys, read_document, read_part, read_secret

ELSEWHERE = "elsewhere"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|[0-9a-f:]{2,39}")
_SHIPPED = re.compile(r"[a-z-]+")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class FrontSettings:
    """The gateway itself.

    hold_s: how long a client is kept waiting for people. settle_s: how long an answered request waits for its reading.
    send_s: how long the host may take to answer; afterwards the outcome is unknown. beat_s: between signs of life.
    key_file: the keys that seal what is held, made at the first start; in the state folder where it is not set.
    tls_cert, tls_key: a certificate of yours. tls_names: instead of it, the names and addresses for which the gateway
    makes one with an authority of its own.
    sweep_s: between looks for what has ended and is removed.
    head_s, body_s: how long the head and the body of a request may take to arrive. pause_s: how long no byte of a body
    may come, or none of an answer be read; a body that takes longer comes with at least least_bytes_per_s.
    most_connections, most_per_address: connections at once, in all and from one address.
    pages: the address of the tenant's pages, for the address of an approval.
    agents_run_as: the operating system's user of the agents, or `elsewhere` for another machine or a container.
    """

    listen: str = "127.0.0.1:8611"
    state: str = ""
    key_file: str = ""
    hold_s: float = 45.0
    settle_s: float = 4.0
    send_s: int = 120
    beat_s: float = 5.0
    body_s: float = 600.0
    sweep_s: float = 600.0
    head_s: float = 10.0
    pause_s: float = 30.0
    least_bytes_per_s: int = 1024
    most_connections: int = 200
    most_per_address: int = 100
    pages: str = ""
    agents_run_as: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_names: tuple[str, ...] = ()
    most_held: int = 100
    most_held_bytes: int = 10 << 30
    least_free_bytes: int = 1 << 30

    @property
    def folder(self) -> Path:
        """The folder of held requests."""
        return Path(self.state).expanduser()

    @property
    def keys(self) -> Path:
        """The file with the keys under which it is sealed."""
        return Path(self.key_file).expanduser() if self.key_file else self.folder / "held.keys"


@dataclass(frozen=True)
class AgentSettings:
    """One agent: the id and the goal of its sessions. Its token is made by `counterfoil-gateway token NAME`."""

    agent_id: str = ""
    goal: str = ""


@dataclass(frozen=True)
class HostSettings:
    """One host behind the gateway, under its name: `/NAME/…` is forwarded to `url/…`.

    credential_file holds `user:password` (scheme `basic`) or a token (`bearer`). repositories: for the reader `git`,
    the paths that may be reached, `team/*` for all below one. rules: for the reader `rules`, a file or a shipped name.
    secrets: for the reader `kubernetes`, whether secrets may be read and changed. listen: a port of the host's own,
    over TLS, for clients that know a name and no path (`gh`): `/api/v3/…` and `/api/graphql` there lead to `url`.
    """

    reader: str = "git"
    url: str = ""
    credential_file: str = ""
    scheme: str = "basic"
    ca_file: str = ""
    rules: str = ""
    repositories: tuple[str, ...] = ()
    secrets: bool = False
    most_bytes: int = 1 << 30
    listen: str = ""

    @property
    def reads(self) -> str:
        """The protocol or API that is read: the reader's name, or that of shipped rules."""
        return self.rules if self.reader == "rules" and _SHIPPED.fullmatch(self.rules) else self.reader


@dataclass(frozen=True)
class HttpSettings:
    """Everything together."""

    console: ConsoleSettings
    front: FrontSettings
    agents: Mapping[str, AgentSettings]
    hosts: Mapping[str, HostSettings] = field(default_factory=dict)

    @property
    def executor_id(self) -> str:
        return self.console.executor_id or "http-gateway"


def load_http_settings(path: Path, *, environment: Mapping[str, str] = os.environ) -> HttpSettings:
    """The settings of a file, with the keys that the environment may give."""
    document = read_document(path)
    console = add_keys(read_part(ConsoleSettings, document.pop("console", {}), "console"), environment)
    settings = HttpSettings(
        console=console,
        front=read_part(FrontSettings, _with_tuple(document.pop("gateway", {}), "tls_names"), "gateway"),
        agents={
            name: read_part(AgentSettings, each, f"agents.{name}")
            for name, each in _read_named_tables(document, "agents")
        },
        hosts={name: _read_host(name, each) for name, each in _read_named_tables(document, "hosts")},
    )
    if document:
        raise BadSettings(f"Unknown part of the settings: {', '.join(sorted(document))}.")
    _check(settings)
    return settings


def require_keys(settings: HttpSettings) -> None:
    """`BadSettings` unless the gateway can propose and carry out."""
    keys = {"agent_key": settings.console.agent_key, "executor_key": settings.console.executor_key}
    if missing := [name for name, key in keys.items() if not key]:
        raise BadSettings(f"Not set: {', '.join(f'console.{name}_file' for name in missing)}.")


def require_other_user(settings: HttpSettings, *, same_user: bool) -> None:
    """`BadSettings` where the agents could read the gateway's credentials, unless that is accepted."""
    runs_as = settings.front.agents_run_as
    if same_user or runs_as == ELSEWHERE:
        return
    if not runs_as or _user_id(runs_as) == os.geteuid():
        raise BadSettings(
            "Agents that run as this gateway's own user can read its credentials. Set gateway.agents_run_as to their "
            f"user, or to `{ELSEWHERE}` for another machine or a container; --same-user starts all the same."
        )
    if _user_id(runs_as) == 0:
        raise BadSettings("Agents that run as root can read this gateway's credentials: gateway.agents_run_as.")


def _user_id(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise BadSettings(f"gateway.agents_run_as: this machine has no user {name}.") from None


def require_private_files(settings: HttpSettings) -> None:
    """`BadSettings` where another user may read a credential, or anything that the gateway keeps."""
    for host in settings.hosts.values():
        if host.credential_file:
            read_secret(Path(host.credential_file).expanduser())
    folder = settings.front.folder
    for path in (folder, *folder.rglob("*")) if folder.exists() else ():
        about = path.lstat()
        if about.st_uid != os.geteuid() or (about.st_mode & 0o077 and not stat.S_ISLNK(about.st_mode)):
            raise BadSettings(
                f"{path} belongs to another user, or others may read it: `chmod -R go= {folder}` as the gateway's user."
            )


def _read_named_tables(document: dict[str, Any], part: str) -> list[tuple[str, Any]]:
    tables = document.pop(part, {})
    if not isinstance(tables, dict):
        raise BadSettings(f"[{part}] has a table for each name.")
    for name in tables:
        if not _NAME.fullmatch(name):
            raise BadSettings(f"{part}.{name}: a name is lower-case letters, digits and -, and begins with a letter.")
    return list(tables.items())


def _read_agent(name: str, given: Any) -> AgentSettings:
    return read_part(AgentSettings, given, f"agents.{name}")


def _read_host(name: str, given: Any) -> HostSettings:
    host = read_part(HostSettings, _with_tuple(given, "repositories"), f"hosts.{name}")
    return replace(host, url=host.url.rstrip("/"))


def _with_tuple(given: Any, name: str) -> Any:
    if isinstance(given, dict) and isinstance(given.get(name), list):
        return given | {name: tuple(given[name])}
    return given


def _check(settings: HttpSettings) -> None:
    front = settings.front
    if not front.state:
        raise BadSettings("Set gateway.state: the folder of what is held, on a disk that survives a restart.")
    if not settings.hosts or not settings.agents:
        raise BadSettings("Name at least one host and one agent: [hosts.NAME] and [agents.NAME].")
    for name, agent in settings.agents.items():
        if not agent.goal:
            raise BadSettings(f"Set agents.{name}.goal.")
    for name, host in settings.hosts.items():
        _check_host(name, host)
    _check_tls(front)
    if any(host.listen and not _has_tls(front) for host in settings.hosts.values()):
        raise BadSettings("A port of a host's own (hosts.NAME.listen) speaks TLS: set gateway.tls_names or tls_cert.")
    if min(front.hold_s, front.settle_s, front.least_free_bytes) < 0 or min(front.send_s, front.most_held) < 1:
        raise BadSettings("Times are not negative; send_s and most_held are at least 1.")
    if min(front.beat_s, front.sweep_s, front.head_s, front.pause_s, front.body_s) <= 0:
        raise BadSettings("gateway.beat_s, sweep_s, head_s, pause_s and body_s are more than 0.")
    if min(front.most_connections, front.most_per_address) < 1 or front.least_bytes_per_s < 0:
        raise BadSettings("gateway.most_connections and most_per_address are at least 1.")


def _has_tls(front: FrontSettings) -> bool:
    return bool(front.tls_names or (front.tls_cert and front.tls_key))


def _check_tls(front: FrontSettings) -> None:
    beyond = front.listen.rpartition(":")[0] not in _LOOPBACK
    if beyond and not _has_tls(front):
        raise BadSettings(
            "Listening beyond this machine needs TLS: set gateway.tls_names, or gateway.tls_cert and gateway.tls_key."
        )
    if front.tls_names and (front.tls_cert or front.tls_key):
        raise BadSettings("Set gateway.tls_names, or gateway.tls_cert and gateway.tls_key, and not both.")
    if odd := [each for each in front.tls_names if not _HOST_NAME.fullmatch(each)]:
        raise BadSettings(f"gateway.tls_names are names and addresses without a port; this is none: {odd[0]}.")


def _check_host(name: str, host: HostSettings) -> None:
    parts = urlsplit(host.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise BadSettings(f"hosts.{name}.url is an http or https address, without a secret.")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise BadSettings(f"hosts.{name}.url: a credential leaves this machine by https only.")
    if host.reader not in ("git", "rules", "kubernetes"):
        raise BadSettings(f"hosts.{name}.reader is `git`, `rules` or `kubernetes`.")
    if host.listen and not re.fullmatch(r".+:[0-9]{1,5}", host.listen):
        raise BadSettings(f"hosts.{name}.listen is an address and a port, like 127.0.0.1:8443.")
    if host.scheme not in ("basic", "bearer"):
        raise BadSettings(f"hosts.{name}.scheme is `basic` or `bearer`.")
