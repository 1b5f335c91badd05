"""Gateway settings from a TOML file and environment variables.

The environment goes before the file. An unknown name in the file is refused: a misspelt limit would be no limit.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

MODES = ("enforce", "shadow")
_SECRETS = {"agent_key": "COUNTERFOIL_AGENT_KEY", "executor_key": "COUNTERFOIL_EXECUTOR_KEY"}
_ENVIRONMENT = {
    "url": ("console", "COUNTERFOIL_URL"),
    "issuer": ("console", "COUNTERFOIL_ISSUER"),
    "agent_id": ("console", "COUNTERFOIL_AGENT_ID"),
    "goal": ("session", "COUNTERFOIL_GOAL"),
    "mode": ("gateway", "COUNTERFOIL_MCP_MODE"),
}


class BadSettings(Exception):
    """The gateway was not told what it needs; the message names what is missing or wrong."""


@dataclass(frozen=True)
class ConsoleSettings:
    """The console and the gateway's place in it; keys come from the environment or from files of mode 0600."""

    url: str = "http://localhost:8080"
    agent_id: str = ""
    agent_key: str = field(default="", repr=False)
    executor_key: str = field(default="", repr=False)
    agent_key_file: str = ""
    executor_key_file: str = ""
    executor_id: str = ""
    issuer: str = ""


@dataclass(frozen=True)
class SessionSettings:
    """The goal that is pinned when the gateway starts. `renew` opens another session with the same goal when the pin
    has run out; without it, calls are refused from then on.
    """

    goal: str = ""
    ttl_s: int = 28_800
    renew: bool = False
    run_id: str = ""


@dataclass(frozen=True)
class ServerSettings:
    """The MCP server behind the gateway: a command (stdio) or an address (streamable HTTP).

    Its name is the first part of its contracts' names: `notes.write_file`.
    """

    name: str = ""
    command: tuple[str, ...] = ()
    url: str = ""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class GatewaySettings:
    """The settings of the gateway.

    hold_s: how long a call waits for people before its caller gets a handle; below the client's own time limit.
    settle_s: how long an answered call waits for the console's verdict, so that the caller gets the true outcome at
    once.
    timeout_s: how long the server may take for one call; afterwards its outcome is unknown.
    relist_s: before an effect the tool is looked up again, unless the last look is younger.
    """

    mode: str = "enforce"
    hold_s: float = 45.0
    settle_s: float = 3.0
    timeout_s: int = 60
    relist_s: float = 10.0
    most_result_bytes: int = 1_000_000
    listen: str = ""
    token: str = field(default="", repr=False)
    report: str = ""
    state: str = "~/.local/state/counterfoil"


@dataclass(frozen=True)
class Settings:
    """Everything together."""

    console: ConsoleSettings
    session: SessionSettings
    server: ServerSettings
    gateway: GatewaySettings

    @property
    def prefix(self) -> str:
        """The prefix of this server's contract names."""
        return f"{self.server.name}."

    @property
    def executor_id(self) -> str:
        return self.console.executor_id or f"mcp-{self.server.name}"

    @property
    def executor_jwk(self) -> Path:
        """The file with the executor's own key pair."""
        return Path(self.gateway.state).expanduser() / f"{self.executor_id}.jwk"


def load_settings(
    path: Path | None, *, command: tuple[str, ...] = (), environment: Mapping[str, str] = os.environ
) -> Settings:
    """The settings of a file and the environment; `command` is another server command than the file's."""
    document = _read_document(path)
    for name, (part, variable) in _ENVIRONMENT.items():
        if environment.get(variable):
            document.setdefault(part, {})[name] = environment[variable]
    if command:
        document.setdefault("server", {})["command"] = list(command)
    settings = Settings(
        console=_part(ConsoleSettings, document.pop("console", {}), "console"),
        session=_part(SessionSettings, document.pop("session", {}), "session"),
        server=_part(ServerSettings, document.pop("server", {}), "server"),
        gateway=_part(GatewaySettings, document.pop("gateway", {}), "gateway"),
    )
    if document:
        raise BadSettings(f"Unknown part of the settings: {', '.join(sorted(document))}.")
    settings = replace(settings, console=_with_keys(settings.console, environment))
    settings = replace(settings, gateway=_with_token(settings.gateway, environment))
    _check(settings)
    return settings


def require_session(settings: Settings) -> None:
    """`BadSettings` unless a session can be opened and its orders carried out."""
    wanted = {
        "console.agent_id (COUNTERFOIL_AGENT_ID)": settings.console.agent_id,
        "COUNTERFOIL_AGENT_KEY": settings.console.agent_key,
        "session.goal (COUNTERFOIL_GOAL)": settings.session.goal,
    }
    if settings.gateway.mode == "enforce":
        wanted["COUNTERFOIL_EXECUTOR_KEY"] = settings.console.executor_key
    missing = [name for name, value in wanted.items() if not value]
    if missing:
        raise BadSettings(f"Not set: {', '.join(missing)}.")


def _read_document(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except OSError as fault:
        raise BadSettings(f"{path} cannot be read: {fault.strerror}.") from fault
    except tomllib.TOMLDecodeError as fault:
        raise BadSettings(f"{path} is not TOML: {fault}.") from fault


_Part = TypeVar("_Part", ConsoleSettings, SessionSettings, ServerSettings, GatewaySettings)


def _part(kind: type[_Part], given: Any, where: str) -> _Part:
    if not isinstance(given, dict):
        raise BadSettings(f"[{where}] is a table.")
    known = {each.name: each for each in fields(kind)}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise BadSettings(f"Unknown name in [{where}]: {', '.join(unknown)}.")
    if isinstance(given.get("command"), list):
        given = given | {"command": tuple(given["command"])}
    for name, value in given.items():
        _check_type(value, getattr(kind(), name), f"{where}.{name}")
    return kind(**given)


def _check_type(value: Any, example: Any, where: str) -> None:
    if isinstance(example, bool) or isinstance(value, bool):
        fits = isinstance(value, bool) and isinstance(example, bool)
    elif isinstance(example, float):
        fits = isinstance(value, int | float)
    elif isinstance(example, tuple):
        fits = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    elif isinstance(example, dict):
        fits = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    else:
        fits = isinstance(value, type(example))
    if not fits:
        raise BadSettings(f"{where} has the wrong type.")


def _with_keys(console: ConsoleSettings, environment: Mapping[str, str]) -> ConsoleSettings:
    for name, variable in _SECRETS.items():
        file = getattr(console, f"{name}_file")
        if environment.get(variable):
            console = replace(console, **{name: environment[variable].strip()})
        elif file:
            console = replace(console, **{name: _secret(Path(file).expanduser())})
    return console


def _with_token(gateway: GatewaySettings, environment: Mapping[str, str]) -> GatewaySettings:
    token = environment.get("COUNTERFOIL_MCP_TOKEN", "").strip()
    return replace(gateway, token=token) if token else gateway


def _secret(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise BadSettings(f"{path} can be read by others; set its mode to 0600.")
        return path.read_text().strip()
    except OSError as fault:
        raise BadSettings(f"{path} cannot be read: {fault.strerror}.") from fault


def _check(settings: Settings) -> None:
    server, gateway = settings.server, settings.gateway
    name = server.name
    if not name or not name[0].isalpha() or not all(one.isalnum() or one in "_-" for one in name) or len(name) > 40:
        raise BadSettings("server.name is letters, digits, _ and -, at most 40, and begins with a letter.")
    if bool(server.command) == bool(server.url):
        raise BadSettings("Set either server.command or server.url.")
    if gateway.mode not in MODES:
        raise BadSettings(f"gateway.mode is one of: {', '.join(MODES)}.")
    if min(gateway.hold_s, gateway.settle_s, gateway.relist_s) < 0 or gateway.timeout_s < 1:
        raise BadSettings("Times are not negative, and timeout_s is at least 1.")
    host = gateway.listen.rpartition(":")[0]
    if gateway.listen and host not in ("127.0.0.1", "localhost", "[::1]") and not gateway.token:
        raise BadSettings("Listening beyond this machine needs a token: set COUNTERFOIL_MCP_TOKEN.")
