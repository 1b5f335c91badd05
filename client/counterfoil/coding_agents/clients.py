"""The supported coding agents: where they keep their settings, and what their hooks can do.

A hook is a program that the client starts before and after a tool call. It reads the call as JSON from standard input
and answers on standard output. What a client does when the hook fails or takes too long is its own: `limits` says it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

PROJECT_SETTINGS: Final = (
    *(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json", ".codex", ".copilot"),
    *(".cursor/hooks.json", ".cursor/hooks", ".cursor/mcp.json", ".gemini/settings.json", ".gemini/hooks"),
    *(".github/hooks", ".github/copilot"),
)
"""Files and folders of a project in which clients keep settings and hooks of that project."""

HOLD_S: Final = 540
"""How long a client that is given a limit waits for its hook."""


class Unreadable(Exception):
    """A client's file is not in the form that its documentation gives; it is left as it is."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client on this machine, as `clients.toml` describes it."""

    name: str
    title: str
    folder: str
    hooks_file: str
    events: Sequence[str]
    before: Mapping[str, Any]
    after: Mapping[str, Any] | None = None
    servers: Sequence[str]
    limits: Sequence[str]
    most_hold_s: int = HOLD_S - 20
    sessions: str = ""
    switches: Sequence[tuple[str, str, bool | str]] = ()
    moved_by: str = ""

    def entry(self, event: str, command: str) -> dict[str, Any]:
        """The hook's entry under an event."""
        text = json.dumps(self.before if self.after is None or event == self.events[0] else self.after)
        for name, value in {"command": command, "seconds": HOLD_S, "milliseconds": HOLD_S * 1000}.items():
            text = text.replace(f'"@{name}"', json.dumps(value))
        return dict(json.loads(text))

    def with_hooks(self, document: Mapping[str, Any], command: str) -> dict[str, Any]:
        """Return the client's settings with the hook added and everything else unchanged."""
        document = self.without_hooks(document)
        hooks = {name: list(entries) for name, entries in document.get("hooks", {}).items()}
        for event in self.events:
            hooks[event] = [*hooks.get(event, []), self.entry(event, f"{command} {self.name}")]
        version = {"version": 1} if self.name in ("cursor", "copilot") else {}
        return {**version, **document, "hooks": hooks}

    def without_hooks(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings without the hook; an event that nothing else uses is removed too."""
        hooks = document.get("hooks", {})
        if not isinstance(hooks, Mapping) or not all(isinstance(each, list) for each in hooks.values()):
            raise Unreadable("`hooks` is not an object of lists")
        kept = {name: [each for each in entries if not is_ours(each)] for name, entries in hooks.items()}
        kept = {name: entries for name, entries in kept.items() if entries or not hooks[name]}
        rest = {name: value for name, value in document.items() if name != "hooks"}
        return {**rest, "hooks": kept} if kept else rest

    def fault(self, document: Mapping[str, Any]) -> str:
        """The fault of the hook in the client's settings; empty if it is installed for every event."""
        hooks = document.get("hooks", {})
        for event in self.events:
            ours = [each for each in hooks.get(event, []) if is_ours(each)]
            if not ours:
                return f"HOOK MISSING from the client's settings ({event})"
            if not all(f" -I -m {MARK} " in json.dumps(each) for each in ours):
                return "HOOK OF AN OLDER VERSION, which imports from the agent's folder: run `onboard` again"
            if not all(each == self.entry(event, _command_in(each)) for each in ours):
                return f"HOOK CHANGED, it may run for other tools or not stop them ({event}): run `onboard` again"
        return ""


MARK: Final = "counterfoil.coding_agents"


def is_ours(entry: object) -> bool:
    """True if an entry of a client's hooks starts this program."""
    return MARK in json.dumps(entry)


def _command_in(entry: Mapping[str, Any]) -> str:
    holders = (entry, *entry.get("hooks", ()))
    return next((str(each[name]) for each in holders for name in ("command", "bash") if name in each), "")


_TABLE: Final = tomllib.loads((files("counterfoil.coding_agents") / "clients.toml").read_text())
CLIENTS: Final[Mapping[str, Client]] = {name: Client(name=name, **about) for name, about in _TABLE.items()}
SERVER_FILES: Final = ((".config/Claude/claude_desktop_config.json", "mcpServers"), (".mcp.json", "mcpServers"))
"""Files in which plain MCP clients name their servers; no hook stands before those."""


def switched_off(client: Client, folder: Path) -> str:
    """The setting in a folder that disables a client's hooks; empty if none does."""
    for file, name, off in client.switches:
        value: Any = read_settings(folder / file)
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        named = isinstance(value, list) and any(each == off or MARK in str(each) for each in value)
        if value is off or named:
            return f"{name} in {folder / file}"
    return ""


def read_settings(path: Path) -> dict[str, Any]:
    """A client's file as a document; empty if there is none, `Unreadable` if it is malformed."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise Unreadable(f"{path} cannot be read: {fault.strerror}") from fault
    try:
        found = tomllib.loads(content.decode()) if path.suffix == ".toml" else json.loads(content or b"{}")
    except ValueError as fault:
        raise Unreadable(f"{path} cannot be read as {path.suffix[1:].upper()}: {fault}") from fault
    if not isinstance(found, dict):
        raise Unreadable(f"{path} holds no object")
    return found


@dataclass(frozen=True)
class Server:
    """An MCP server that a client starts or connects to."""

    name: str
    address: str
    gated: bool


def listed_servers(document: Mapping[str, Any], part: str) -> list[Server]:
    """The MCP servers of a file; one behind `counterfoil-mcp` is gated."""
    servers = document.get(part, {})
    if not isinstance(servers, Mapping):
        raise Unreadable(f"`{part}` is not an object")
    found = []
    for name, server in sorted(servers.items()):
        server = server if isinstance(server, Mapping) else {}
        words = [str(server.get("command", "")), *map(str, server.get("args", []))]
        address = str(server.get("url") or server.get("httpUrl") or " ".join(words)).strip()
        found.append(Server(name, address, any(Path(word).name == "counterfoil-mcp" for word in words)))
    return found
