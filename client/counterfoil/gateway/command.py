"""`counterfoil-gateway`: a reverse proxy that alone holds the credentials of the hosts behind it.

serve       run the gateway
token       make the token of an agent of the settings, shown once; its earlier one ends
register    register the contracts of what is held, and the agents that may propose it (operator's key)
list        list what is held, with its state
show        write a held push as a git bundle, or another held body, to standard output
ca          print the certificate of the gateway's own authority, for its clients; --new makes another authority
rotate-key  make a new key for what is held from now on, and forget those that nothing needs any more

Settings are a TOML file (--config). Keys stand in files of mode 0600 that it names, or in COUNTERFOIL_AGENT_KEY,
COUNTERFOIL_EXECUTOR_KEY and, for register, COUNTERFOIL_OPERATOR_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from counterfoil.connection import Connection
from counterfoil.gateway.credentials import new_token
from counterfoil.gateway.git import bundle_head, open_body
from counterfoil.gateway.git_lines import NoPush
from counterfoil.gateway.held import HeldRequest, StateTaken, needed_keys, read_held, stored_file
from counterfoil.gateway.sealing import HeldKeys, SealedFile
from counterfoil.gateway.server import make_reader, own_authority, serve
from counterfoil.gateway.settings import (
    HttpSettings,
    load_http_settings,
    require_keys,
    require_other_user,
    require_private_files,
)
from counterfoil.gating.settings import BadSettings
from counterfoil.problems import BodyRefused, NotNow, Problem, Unreachable

_GIVE_UP_AFTER_S = 30.0


def main(words: Sequence[str] | None = None) -> None:
    """Run one of the programs."""
    options = _parser().parse_args(words)
    # Every file that one of the programs makes is its user's alone.
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="counterfoil-gateway: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        sys.exit(_PROGRAMS[options.program](options, load_http_settings(options.config)))
    except (BadSettings, StateTaken) as fault:
        raise SystemExit(f"counterfoil-gateway: {fault}") from fault
    except (Problem, Unreachable) as fault:
        raise SystemExit(f"counterfoil-gateway: the console refused or did not answer: {fault}") from fault
    except OSError as fault:
        raise SystemExit(f"counterfoil-gateway: {fault}") from fault


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="counterfoil-gateway", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    programs = parser.add_subparsers(dest="program", required=True)
    for name in _PROGRAMS:
        program = programs.add_parser(name)
        program.add_argument("--config", type=Path, metavar="FILE", required=True)
        if name == "serve":
            program.add_argument(
                "--same-user", action="store_true", help="start although the agents could read the credentials"
            )
        if name == "ca":
            program.add_argument("--new", action="store_true", help="make another authority; clients must be told")
        if name in ("token", "show"):
            program.add_argument("name", metavar="AGENT" if name == "token" else "ID")
    return parser


def _serve(options: argparse.Namespace, settings: HttpSettings) -> int:
    require_keys(settings)
    require_other_user(settings, same_user=options.same_user)
    require_private_files(settings)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(settings))
    return 0


def _token(options: argparse.Namespace, settings: HttpSettings) -> int:
    if options.name not in settings.agents:
        raise BadSettings(f"There is no [agents.{options.name}].")
    _say(new_token(settings.front.folder, options.name))
    return 0


def _list(_: argparse.Namespace, settings: HttpSettings) -> int:
    for each in read_held(settings.front.folder, HeldKeys(settings.front.keys)):
        place = (
            f"{each.method} {settings.hosts[each.host].url}/{each.path}" if each.host in settings.hosts else each.path
        )
        _say(f"{each.id} {each.state} {each.tool} {each.agent} {each.size} bytes {place} {each.action_id}".rstrip())
        if each.why:
            _say(f"  {each.why}")
    return 0


def _show(options: argparse.Namespace, settings: HttpSettings) -> int:
    """Write a held body to a file that a person can inspect; a push becomes a bundle."""
    folder, keys = settings.front.folder, HeldKeys(settings.front.keys)
    found = [each for each in read_held(folder, keys) if options.name in (each.id, each.action_id)]
    if not found:
        raise BadSettings(f"Nothing is held under {options.name}.")
    body = stored_file(folder, keys, found[0].id, "body")
    if not body.path.exists():
        raise BadSettings("Its stored bytes are gone: it has ended.")
    try:
        _write_body(found[0], body, sys.stdout.buffer)
    except NoPush as fault:
        raise BadSettings(f"There is no bundle of it: {fault}.") from fault
    return 0


def _write_body(held: HeldRequest, body: SealedFile, out: BinaryIO) -> None:
    coding = dict(held.headers).get("content-encoding", "")
    with open_body(body, coding) as file:
        if held.tool.startswith("git."):
            head, pack_at = bundle_head(file)
            out.write(head)
            file.seek(pack_at)
        shutil.copyfileobj(file, out)


def _authority(options: argparse.Namespace, settings: HttpSettings) -> int:
    if not settings.front.tls_names:
        raise BadSettings("Set gateway.tls_names: the names and addresses under which clients reach this gateway.")
    authority = own_authority(settings.front)
    if options.new:
        authority.create(datetime.now(UTC))
    authority.renew(datetime.now(UTC))
    _say(authority.certificate.read_text().rstrip())
    return 0


def _rotate_key(_: argparse.Namespace, settings: HttpSettings) -> int:
    keys = HeldKeys(settings.front.keys)
    keys.create()
    gone = keys.forget_others(needed_keys(settings.front.folder))
    _say(f"{keys.file}: a new key seals from now on; {gone} older key{'' if gone == 1 else 's'} removed.")
    return 0


def _register(_: argparse.Namespace, settings: HttpSettings) -> int:
    key = os.environ.get("COUNTERFOIL_OPERATOR_KEY", "").strip()
    if not key:
        raise BadSettings("Not set: COUNTERFOIL_OPERATOR_KEY.")
    contracts = {
        name: contract
        for host_name, host in settings.hosts.items()
        for name, contract in make_reader(host_name, host).tools.items()
    }
    tools = sorted(contracts)
    version = hashlib.sha256(",".join(tools).encode()).hexdigest()[:8]
    connection, faults = Connection(url=settings.console.url, key=key), 0
    try:
        for name in tools:
            faults += not _register_one(connection, "/contracts", dict(contracts[name]), f"contract {name}")
        for name, agent in settings.agents.items():
            body: Mapping[str, object] = {
                "agent_id": agent.agent_id or name,
                "version": f"tools-{version}",
                "tools": tools,
                # What the agent reaches beside the gateway does not pass the console.
                "acts_elsewhere": True,
            }
            faults += not _register_one(connection, "/agents", body, f"agent {agent.agent_id or name}")
    finally:
        connection.close()
    return 1 if faults else 0


def _register_one(connection: Connection, path: str, body: Mapping[str, object], name: str) -> bool:
    try:
        answer = connection.write(path, body, give_up_after_s=_GIVE_UP_AFTER_S)
    except NotNow as refusal:
        # The same document again is accepted: this is another one under a version that is known.
        _say(f"{name}: not registered: {refusal.detail or refusal.code}")
        return False
    except BodyRefused as refusal:
        found = "".join(f"\n  {each.get('path', '')}: {each.get('detail', '')}" for each in refusal.errors)
        _say(f"{name}: not registered: {refusal}{found}")
        return False
    waits = (answer or {}).get("state") == "PENDING"
    _say(f"{name}: {'NOT IN FORCE: it waits for a second person at the console' if waits else 'registered'}")
    return True


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


_PROGRAMS = {
    "serve": _serve,
    "token": _token,
    "register": _register,
    "list": _list,
    "show": _show,
    "ca": _authority,
    "rotate-key": _rotate_key,
}
