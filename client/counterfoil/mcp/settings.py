"""Gateway settings from a TOML file and environment variables.

The environment goes before the file. An unknown name in the file is refused: a misspelt limit would be no limit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from counterfoil.gating.settings import BadSettings, ConsoleSettings, add_keys, read_document, read_part

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
MODES = ("enforce", "shadow")
_ENVIRONMENT = {
    "url": ("console", "COUNTERFOIL_URL"),
    "issuer": ("console", "COUNTERFOIL_ISSUER"),
    "agent_id": ("console", "COUNTERFOIL_AGENT_ID"),
    "goal": ("session", "COUNTERFOIL_GOAL"),
    "mode": ("gateway", "COUNTERFOIL_MCP_MODE"),
}


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
    decide_at: the address of the console's requests; callers whose client opens pages are sent there to decide.
    questions: whether a server may ask its client something in the middle of a read (`questions`).
    relist_s: before an effect the tool is looked up again, unless the last look is younger.
    """

    mode: str = "enforce"
    hold_s: float = 45.0
    settle_s: float = 3.0
    timeout_s: int = 60
    relist_s: float = 10.0
    most_result_bytes: int = 1_000_000
    decide_at: str = ""
    questions: bool = False
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
    def console_hosts(self) -> frozenset[str]:
        """The hosts of the console's pages."""
        addresses = (self.console.url, self.console.issuer, self.gateway.decide_at)
        return frozenset(urlsplit(each).hostname or "" for each in addresses)

    @property
    def executor_jwk(self) -> Path:
        """The file with the executor's own key pair."""
        return Path(self.gateway.state).expanduser() / f"{self.executor_id}.jwk"


def load_settings(
    path: Path | None, *, command: tuple[str, ...] = (), environment: Mapping[str, str] = os.environ
) -> Settings:
    """The settings of a file and the environment; `command` is another server command than the file's."""
    document = read_document(path)
    for name, (part, variable) in _ENVIRONMENT.items():
        if environment.get(variable):
            document.setdefault(part, {})[name] = environment[variable]
    if command:
        document.setdefault("server", {})["command"] = list(command)
    settings = Settings(
        console=read_part(ConsoleSettings, document.pop("console", {}), "console"),
        session=read_part(SessionSettings, document.pop("session", {}), "session"),
        server=read_part(ServerSettings, document.pop("server", {}), "server"),
        gateway=read_part(GatewaySettings, document.pop("gateway", {}), "gateway"),
    )
    if document:
        raise BadSettings(f"Unknown part of the settings: {', '.join(sorted(document))}.")
    settings = replace(settings, console=add_keys(settings.console, environment))
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


def _with_token(gateway: GatewaySettings, environment: Mapping[str, str]) -> GatewaySettings:
    token = environment.get("COUNTERFOIL_MCP_TOKEN", "").strip()
    return replace(gateway, token=token) if token else gateway


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
    page = urlsplit(gateway.decide_at)
    if gateway.decide_at and not (page.hostname and (page.scheme == "https" or page.hostname in _THIS_MACHINE)):
        raise BadSettings("gateway.decide_at is an address with https, or one of this machine.")
    host = gateway.listen.rpartition(":")[0]
    if gateway.listen and host not in ("127.0.0.1", "localhost", "[::1]") and not gateway.token:
        raise BadSettings("Listening beyond this machine needs a token: set COUNTERFOIL_MCP_TOKEN.")
