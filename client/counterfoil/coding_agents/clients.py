"""The coding agents that this program knows: where they keep their settings, and what their hooks can do.

A hook is a program that the client starts before and after a tool call. It reads the call as JSON from standard input
and answers on standard output. What a client does when the hook fails or takes too long is its own: `limits` says it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROJECT_SETTINGS: Final = (
    *(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json", ".codex", ".copilot"),
    *(".cursor/hooks.json", ".cursor/hooks", ".cursor/mcp.json", ".gemini/settings.json", ".gemini/hooks"),
    ".github/hooks",
)
"""Files and folders of a project in which clients keep settings and hooks of that project."""

HOLD_S: Final = 540
"""How long a client that is given a limit waits for its hook."""


class Unreadable(Exception):
    """A client's file is not in the form that its documentation gives; it is left as it is."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client on this machine; paths stand below the home folder."""

    name: str
    title: str
    folder: str
    hooks_file: str
    events: tuple[str, ...]
    servers: tuple[tuple[str, str], ...]
    limits: tuple[str, ...]
    most_hold_s: int = HOLD_S - 20
    sessions: str = ""
    """Where the client records its sessions, below its folder; empty where the console reads no such file."""
    switches: tuple[tuple[str, str, bool], ...] = ()
    """Files below the home folder or a project, and the setting in each whose value switches hooks off."""

    def entry(self, event: str, command: str) -> dict[str, Any]:
        """The hook's entry under an event, as the client's documentation gives it."""
        if self.name == "cursor":
            return {"command": command, **({"failClosed": True} if event.startswith("before") else {})}
        if self.name == "copilot":
            return {"type": "command", "bash": command, "timeoutSec": HOLD_S}
        if self.name == "gemini":
            hook = {"name": "counterfoil", "type": "command", "command": command, "timeout": HOLD_S * 1000}
            return {"matcher": "run_shell_command|write_file|replace", "hooks": [hook]}
        tools = "Bash|Write|Edit|MultiEdit|NotebookEdit" if self.name == "claude-code" else "Bash"
        return {"matcher": tools, "hooks": [{"type": "command", "command": command, "timeout": HOLD_S}]}

    def with_hooks(self, document: Mapping[str, Any], command: str) -> dict[str, Any]:
        """The client's settings with the hook in them, everything else as it was."""
        document = self.without_hooks(document)
        hooks = {name: list(entries) for name, entries in document.get("hooks", {}).items()}
        for event in self.events:
            hooks[event] = [*hooks.get(event, []), self.entry(event, f"{command} {self.name}")]
        version = {"version": 1} if self.name in ("cursor", "copilot") else {}
        return {**version, **document, "hooks": hooks}

    def without_hooks(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The settings without the hook; an event that nothing else uses goes with it."""
        hooks = document.get("hooks", {})
        if not isinstance(hooks, Mapping) or not all(isinstance(each, list) for each in hooks.values()):
            raise Unreadable("`hooks` is not an object of lists")
        kept = {name: [each for each in entries if not is_ours(each)] for name, entries in hooks.items()}
        kept = {name: entries for name, entries in kept.items() if entries or not hooks[name]}
        rest = {name: value for name, value in document.items() if name != "hooks"}
        return {**rest, "hooks": kept} if kept else rest

    def fault(self, document: Mapping[str, Any]) -> str:
        """What is wrong with the hook in the client's settings; empty where it stands under every event."""
        hooks = document.get("hooks", {})
        for event in self.events:
            ours = [each for each in hooks.get(event, []) if is_ours(each)]
            if not ours:
                return f"HOOK MISSING from the client's settings ({event})"
            if not all(f" -I -m {MARK} " in json.dumps(each) for each in ours):
                return "HOOK OF AN OLDER VERSION, which imports from the agent's folder: run `onboard` again"
        return ""


MARK: Final = "counterfoil.coding_agents"


def is_ours(entry: object) -> bool:
    """Whether an entry of a client's hooks is this program's."""
    return MARK in json.dumps(entry)


_CLAUDE_SETTINGS: Final = ("settings.json", "settings.local.json")
_FAILS_OPEN: Final = "A hook that crashes or takes longer than its limit is passed over: the command runs."
CLIENTS: Final[Mapping[str, Client]] = {
    each.name: each
    for each in (
        Client(
            name="claude-code",
            title="Claude Code",
            folder=".claude",
            hooks_file=".claude/settings.json",
            events=("PreToolUse", "PostToolUse", "PostToolUseFailure"),
            servers=((".claude.json", "mcpServers"),),
            sessions="projects/*/*.jsonl",
            limits=(_FAILS_OPEN,),
            switches=tuple((f".claude/{name}", "disableAllHooks", True) for name in _CLAUDE_SETTINGS),
        ),
        Client(
            name="codex",
            title="Codex CLI",
            folder=".codex",
            hooks_file=".codex/hooks.json",
            events=("PreToolUse", "PostToolUse"),
            servers=((".codex/config.toml", "mcp_servers"),),
            sessions="sessions/*/*/*/rollout-*.jsonl",
            limits=(_FAILS_OPEN, "Codex asks you once to trust a new hook; until then it does not run."),
            switches=tuple((".codex/config.toml", f"features.{name}", False) for name in ("hooks", "codex_hooks")),
        ),
        Client(
            name="copilot",
            title="Copilot CLI",
            folder=".copilot",
            hooks_file=".copilot/hooks/counterfoil.json",
            events=("preToolUse", "postToolUse"),
            servers=((".copilot/mcp-config.json", "mcpServers"),),
            limits=(_FAILS_OPEN,),
            switches=tuple(
                (file, "disableAllHooks", True) for file in (".copilot/config.json", ".copilot/settings.json")
            ),
        ),
        Client(
            name="cursor",
            title="Cursor",
            folder=".cursor",
            hooks_file=".cursor/hooks.json",
            events=("beforeShellExecution", "afterShellExecution"),
            servers=((".cursor/mcp.json", "mcpServers"),),
            limits=(
                "A hook that crashes stops the command (failClosed); versions that do not know that setting run it.",
                "Cursor does not document its limit: a held command waits 20 s and is then to be sent again.",
            ),
            most_hold_s=20,
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            folder=".gemini",
            hooks_file=".gemini/settings.json",
            events=("BeforeTool", "AfterTool"),
            servers=((".gemini/settings.json", "mcpServers"),),
            limits=(_FAILS_OPEN,),
            switches=tuple(
                (".gemini/settings.json", name, False)
                for name in ("hooksConfig.enabled", "hooks.enabled", "tools.enableHooks")
            ),
        ),
    )
}
SERVER_FILES: Final = ((".config/Claude/claude_desktop_config.json", "mcpServers"), (".mcp.json", "mcpServers"))
"""Files in which plain MCP clients name their servers; no hook stands before those."""


def switched_off(client: Client, folder: Path) -> str:
    """The setting in a folder that switches a client's hooks off; empty where none does."""
    for file, name, off in client.switches:
        value: Any = read_settings(folder / file)
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is off:
            return f"{name} in {folder / file}"
    return ""


def read_settings(path: Path) -> dict[str, Any]:
    """A client's file as a document; empty where there is none, `Unreadable` where it is no such document."""
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
    """An MCP server that a client starts or asks."""

    name: str
    address: str
    gated: bool


def listed_servers(document: Mapping[str, Any], part: str) -> list[Server]:
    """The MCP servers of a file; one that runs behind `counterfoil-mcp` is gated."""
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
