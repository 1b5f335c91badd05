"""`counterfoil-mcp`: a gateway between an MCP client and an MCP server.

run        run the gateway (the default)
contracts  write a draft contract for each of the server's tools, for review and editing
register   register a folder's contracts and the agent that may use them (operator's key)
check      compare the server's tools with the registered ones; exit with 1 if one has changed

`contracts` and `register` take each tool for itself: what cannot be drafted or registered is named, the others go on,
and the exit code is 1.

Settings are a TOML file (--config) and the environment: COUNTERFOIL_URL, COUNTERFOIL_AGENT_ID, COUNTERFOIL_AGENT_KEY,
COUNTERFOIL_EXECUTOR_KEY, COUNTERFOIL_GOAL, COUNTERFOIL_MCP_MODE (enforce or shadow), COUNTERFOIL_MCP_TOKEN, and for
register COUNTERFOIL_OPERATOR_KEY. Arguments after -- are the server's command and replace the file's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from counterfoil.connection import Connection
from counterfoil.gating.settings import BadSettings
from counterfoil.mcp import drafts, serving
from counterfoil.mcp.desk import ConsoleClient
from counterfoil.mcp.settings import Settings, load_settings, require_session
from counterfoil.mcp.state import first_texts
from counterfoil.mcp.surface import ToolDecision, compare_tools, contract_name, is_pinned
from counterfoil.mcp.upstream import Listing, connect_upstream
from counterfoil.problems import BodyRefused, NotNow, Problem, Unreachable

log = logging.getLogger("counterfoil.mcp")

_PROGRAMS = ("run", "contracts", "register", "check")
_GIVE_UP_AFTER_S = 30.0


def main(words: Sequence[str] | None = None) -> None:
    """Run one of the programs."""
    given = list(sys.argv[1:] if words is None else words)
    ours, command = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    options = _parser().parse_args(ours)
    # Standard output belongs to the protocol.
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="counterfoil-mcp: %(message)s")
    for chatty in ("httpx", "httpx2", "mcp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        settings = load_settings(options.config, command=tuple(command))
        sys.exit(_run_program(options, settings))
    except BadSettings as fault:
        raise SystemExit(f"counterfoil-mcp: {fault}") from fault
    except (Problem, Unreachable) as fault:
        raise SystemExit(f"counterfoil-mcp: the console refused or did not answer: {fault}") from fault
    except (MCPError, OSError, ExceptionGroup) as fault:
        raise SystemExit(f"counterfoil-mcp: {_cause(fault)}") from fault


def _cause(fault: Exception) -> str:
    """The first cause of an error, in one line."""
    while isinstance(fault, ExceptionGroup):
        fault = fault.exceptions[0]
    return f"the server could not be used: {type(fault).__name__} {fault}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="counterfoil-mcp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", nargs="?", choices=_PROGRAMS, default="run")
    parser.add_argument("--config", type=Path, metavar="FILE")
    parser.add_argument("--contracts", type=Path, metavar="FOLDER", default=Path("contracts"))
    parser.add_argument("--read-only", default="", metavar="TOOL,…", help="tools that you declare read-only")
    parser.add_argument("--update", action="store_true", help="write the next version of changed tools' contracts")
    return parser


def _run_program(options: argparse.Namespace, settings: Settings) -> int:
    if options.program == "contracts":
        reads = [name for name in options.read_only.split(",") if name]
        return _draft(settings, options.contracts, reads=reads, update=options.update)
    if options.program == "register":
        return _register(settings, options.contracts)
    require_session(settings)
    if options.program == "check":
        return _check(settings)
    try:
        anyio.run(serving.serve, settings)
    except serving.ServerLost:
        log.error("the connection to the server was lost")
        return 1
    return 0


def _list_tools(settings: Settings) -> Listing:
    async def ask() -> Listing:
        async with connect_upstream(settings.server, notified=_ignore) as upstream:
            return await upstream.tools()

    return anyio.run(ask)


async def _ignore(_: types.ServerNotification) -> None:
    return None


def _draft(settings: Settings, folder: Path, *, reads: Sequence[str], update: bool) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    listing = _list_tools(settings)
    for name, why in listing.unread.items():
        _say(f"{name}: no contract was written: {why}")
    failed = len(listing.unread)
    for tool in listing.tools:
        path = folder / f"{contract_name(settings.prefix, tool.name)}.json"
        try:
            _say(f"{path}: {_draft_one(settings, tool, path, reads=tool.name in reads, update=update)}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as fault:
            failed += 1
            _say(f"{path}: no contract was written: {type(fault).__name__} {fault}")
    return 1 if failed else 0


def _draft_one(settings: Settings, tool: types.Tool, path: Path, *, reads: bool, update: bool) -> str:
    if not path.exists():
        made = drafts.draft_contract(tool, server=settings.server.name, reads=reads)
        _write(path, made.document)
        return "; ".join(made.notes)
    known = json.loads(path.read_text())
    if is_pinned(tool, str(known.get("wrapper_version"))):
        return "exists; the tool has not changed"
    if not update:
        return "THE TOOL HAS CHANGED; use --update to write the next version"
    after = drafts.update_contract(known, tool)
    _write(path, after)
    return f"the tool has changed; now version {after['version']}. Review it before you register it."


def _register(settings: Settings, folder: Path) -> int:
    key = os.environ.get("COUNTERFOIL_OPERATOR_KEY", "").strip()
    if not key or not settings.console.agent_id:
        raise BadSettings("Not set: COUNTERFOIL_OPERATOR_KEY or console.agent_id (COUNTERFOIL_AGENT_ID).")
    files = sorted(folder.glob("*.json"))
    if not files:
        raise BadSettings(f"There is no contract in {folder}.")
    connection = Connection(url=settings.console.url, key=key)
    tools = {name for path in files if (name := _register_one(connection, path))}
    failed = len(tools) < len(files)
    if tools:
        # A version of an agent never changes: one that may call other tools is another version. The gateway stands
        # before one server; what its client reaches besides does not pass the console.
        version = hashlib.sha256(",".join((*sorted(tools), "acts elsewhere")).encode()).hexdigest()[:8]
        body: dict[str, object] = {"agent_id": settings.console.agent_id, "version": f"tools-{version}"}
        body |= {"tools": sorted(tools), "acts_elsewhere": True}
        failed = not _post(connection, "/agents", body, f"agent {settings.console.agent_id}") or failed
    connection.close()
    return 1 if failed else 0


def _register_one(connection: Connection, path: Path) -> str | None:
    """Register the contract in a file; return its name, or None if it will not be in force."""
    try:
        document = json.loads(path.read_text())
        name, version = str(document["name"]), str(document["version"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        _say(f"{path}: not registered: it is no contract ({type(fault).__name__} {fault})")
        return None
    return name if _post(connection, "/contracts", document, f"{name} {version}") else None


def _post(connection: Connection, path: str, body: dict[str, Any], name: str) -> bool:
    """Register one document and print the result."""
    try:
        answer = connection.write(path, body, give_up_after_s=_GIVE_UP_AFTER_S)
    except NotNow as refusal:
        # The same document again is accepted: this is another one under a version that is known.
        _say(f"{name}: not registered: {refusal.detail or refusal.code}")
        return False
    except (BodyRefused, ValueError, TypeError) as refusal:
        errors = refusal.errors if isinstance(refusal, BodyRefused) else []
        found = "".join(f"\n  {one.get('path', '')}: {one.get('detail', '')}" for one in errors)
        _say(f"{name}: not registered: {refusal}{found}")
        return False
    found = "".join(f"\n  {one['path']}: {one['detail']}" for one in answer.get("lint", []))
    if answer.get("state") == "PENDING":
        weaker = "".join(f"\n  weaker: {one.get('detail') or one}" for one in answer.get("weakens", []))
        _say(f"{name}: NOT IN FORCE: it waits for a second person, who confirms it at the console{weaker}{found}")
    else:
        _say(f"{name}: registered{found}")
    return True


def _check(settings: Settings) -> int:
    desk = ConsoleClient(settings)
    desk.open()
    try:
        listing = _list_tools(settings)
        with first_texts(settings) as seen_first:
            surface = compare_tools(
                listing.tools, desk.known, prefix=settings.prefix, unread=listing.unread, seen_first=seen_first
            )
    finally:
        desk.close()
    for one in surface.seen.values():
        version = f" {one.contract.version}" if one.contract is not None else ""
        _say(f"{one.tool.name}{version}: {one.fate}{': ' + one.why if one.why else ''}")
    for name in desk.known:
        if name.startswith(settings.prefix) and surface.under(name) is None:
            _say(f"{name.removeprefix(settings.prefix)}: registered, but missing on the server")
    return 1 if any(one.fate is ToolDecision.CHANGED for one in surface.seen.values()) else 0


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
