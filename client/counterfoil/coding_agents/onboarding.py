"""Put the hook into a client's settings, and take it out again to the byte.

1. Nothing is written before everything is known: what a file holds and would hold, that the console takes the keys.
2. A file is backed up as it was, with its mode and a digest, before it is changed; the change replaces it in one step.
3. `offboard` restores those bytes, or removes a file that was not there. A file that somebody has changed since is not
   thrown away: only the hook is taken out of it, and that is said.
4. Keys stand in files of mode 0600 in this program's own folder, never in a client's settings.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from counterfoil.coding_agents.clients import CLIENTS, MARK, Client, Unreadable, read_settings, switched_off
from counterfoil.coding_agents.hooks import HookSettings
from counterfoil.connection import Connection
from counterfoil.executor import Executor
from counterfoil.problems import NotNow
from counterfoil.proof import load_key

_GIVE_UP_AFTER_S = 20.0
_KEY_FILE = "executor.jwk"


class NotDone(Exception):
    """Nothing was changed; the message says why."""


@dataclass(frozen=True)
class PlannedChange:
    """One file with its present and its planned content; `before` is None if it does not exist."""

    client: Client
    path: Path
    before: bytes | None
    after: bytes


@dataclass(frozen=True)
class Places:
    """The user's home folder, in which clients keep their settings, and this program's own folder."""

    home: Path
    state: Path

    def of(self, client: Client) -> Path:
        """The folder in which everything about a client is kept."""
        return self.state / client.name

    def backup(self, client: Client) -> Path:
        return self.of(client) / "backup.json"


def default_places(environment: Mapping[str, str] = os.environ) -> Places:
    """The default folders of the current user."""
    home = Path(environment.get("HOME") or Path.home())
    state = Path(environment.get("XDG_STATE_HOME") or home / ".local/state")
    return Places(home, state / "counterfoil/agents")


def hook_command() -> str:
    """The command line of the hook: isolated, so that nothing from the agent's folder is imported."""
    return f"{shlex.quote(sys.executable)} -I -m {MARK} hook"


def find_clients(places: Places) -> list[Client]:
    """The clients that have been used here."""
    return [client for client in CLIENTS.values() if (places.home / client.folder).is_dir()]


def plan_change(client: Client, places: Places) -> PlannedChange:
    """The change that `onboard` would make for a client. Raises `Unreadable` if its file has another form."""
    path = places.home / client.hooks_file
    document = read_settings(path)
    before = path.read_bytes() if path.exists() else None
    after = json.dumps(client.with_hooks(document, hook_command()), indent=2, ensure_ascii=False) + "\n"
    return PlannedChange(client, path, before, after.encode())


def register_tools(*, url: str, operator_key: str, agents: Mapping[str, str]) -> list[str]:
    """Register the contracts and each agent (id and client's name); return the changes in lines."""
    contracts = [json.loads(file.read_text()) for file in sorted_contracts()]
    tools = sorted(str(each["name"]) for each in contracts)
    # A hook sees some of what a coding agent does: scripts and other programs act past it.
    version = hashlib.sha256(",".join((*tools, "acts elsewhere")).encode()).hexdigest()[:8]
    done = []
    connection = Connection(url=url, key=operator_key)
    try:
        for contract in contracts:
            done.append(_register_one(connection, "/contracts", contract, f"contract {contract['name']}"))
        for agent_id in agents:
            body = {"agent_id": agent_id, "version": f"tools-{version}", "tools": tools, "acts_elsewhere": True}
            done.append(_register_one(connection, "/agents", body, f"agent {agent_id}"))
    finally:
        connection.close()
    return done


def sorted_contracts() -> list[Path]:
    """The contracts that this program brings."""
    folder = Path(str(files("counterfoil.coding_agents"))) / "contracts"
    return sorted(folder.glob("*.json"))


def _register_one(connection: Connection, path: str, body: Mapping[str, Any], name: str) -> str:
    try:
        connection.write(path, body, give_up_after_s=_GIVE_UP_AFTER_S)
    except NotNow as known:
        return f"{name}: {known.detail or known.code}"
    return f"{name}: registered"


def apply_change(change: PlannedChange, settings: HookSettings, places: Places) -> None:
    """Back up, enlist the executor, and write; a second time it keeps the first backup (rules 1, 2 and 4)."""
    client = change.client
    folder = places.of(client)
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    if settings.mode == "enforce":
        settings = replace(settings, executor_id=f"{settings.executor_id}-{_key_name(folder)}")
        _enlist(settings, folder)
    _private(folder / "settings.json", json.dumps(asdict(settings), indent=2).encode())
    backup = places.backup(client)
    if not backup.exists():
        if change.before is not None:
            shutil.copy2(change.path, folder / "original")
        _private(backup, json.dumps({"path": str(change.path), "was_there": change.before is not None}).encode())
    change.path.parent.mkdir(parents=True, exist_ok=True)
    _replace(change.path, change.after)
    _private(folder / "written.sha256", hashlib.sha256(change.after).hexdigest().encode())


def _key_name(folder: Path) -> str:
    """The first digits of its key's digest, which differ between machines with the same client.

    An id that two keys share belongs to whoever registered last, and grants of the other are refused.
    """
    return hashlib.sha256(load_key(folder / _KEY_FILE).thumbprint.encode()).hexdigest()[:8]


def _enlist(settings: HookSettings, folder: Path) -> None:
    tools = [str(json.loads(file.read_text())["name"]) for file in sorted_contracts()]
    executor = Executor(
        url=settings.url,
        key=settings.executor_key,
        executor_id=settings.executor_id,
        key_file=folder / _KEY_FILE,
        handlers=dict.fromkeys(tools, _refuse),
        report_for_s=_GIVE_UP_AFTER_S,
        issuer=settings.issuer,
    )
    try:
        executor.register()
    finally:
        executor.close()


def _refuse(_: object) -> Any:
    raise AssertionError("the client runs the command, not this program")


def restore(client: Client, places: Places) -> str:
    """Restore a client's file (rule 3); return the change in a sentence."""
    folder, backup = places.of(client), places.backup(client)
    if not backup.exists():
        raise NotDone(f"{client.title} was not onboarded from here.")
    known = json.loads(backup.read_text())
    path, original = Path(known["path"]), folder / "original"
    present = path.read_bytes() if path.exists() else None
    untouched = present is not None and hashlib.sha256(present).hexdigest() == (folder / "written.sha256").read_text()
    if present is None:
        said = f"{path} is gone already."
    elif untouched and known["was_there"]:
        _replace(path, original.read_bytes())
        shutil.copystat(original, path)
        said = f"{path} is again as it was, byte for byte."
    elif untouched:
        path.unlink()
        said = f"{path} is removed; it was not there before."
    else:
        kept = client.without_hooks(read_settings(path))
        _replace(path, (json.dumps(kept, indent=2, ensure_ascii=False) + "\n").encode())
        said = f"{path} was changed since; only the hook was removed. The original is in {original}."
        backup.unlink()
        return said
    shutil.rmtree(folder)
    return said


def stored_settings(client: Client, places: Places) -> HookSettings | None:
    """The settings that `onboard` wrote for a client; None if there are none."""
    try:
        return HookSettings(**json.loads((places.of(client) / "settings.json").read_text()))
    except FileNotFoundError:
        return None


def hook_fault(client: Client, places: Places, project: Path) -> str:
    """The reason why the hook would not run for a project: missing, outdated or switched off; empty if it would."""
    if moved := os.environ.get(client.moved_by):
        return f"NOT KNOWN: {client.moved_by} has the client read its settings in {moved}"
    try:
        off = switched_off(client, places.home) or switched_off(client, project)
        return f"DISABLED by {off}" if off else client.fault(read_settings(places.home / client.hooks_file))
    except Unreadable as fault:
        return f"NOT KNOWN: {fault}"


def _private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _replace(path: Path, content: bytes) -> None:
    """Replace the file's content and keep its mode; after a crash it has the old or the new content."""
    fresh = path.with_name(f".{path.name}.counterfoil")
    fresh.write_bytes(content)
    if path.exists():
        shutil.copymode(path, fresh)
    fresh.replace(path)
