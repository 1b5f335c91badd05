"""`counterfoil-agents`: put coding agents on this machine behind Counterfoil.

catalogue  list the known commands: class, what is read back, what is not proved
discover   list installed coding agents with their MCP servers and hooks; changes nothing
onboard    add the hook to a client's settings (--shadow only notes, --enforce holds; --dry-run shows the change);
           with --gateway, lead this user's git, npm, twine, kubectl and gh to the HTTP gateway instead, and name the
           credentials beside it (--remove FILE moves them there, one by one as you agree)
status     show which clients are onboarded, whether their hooks are on here, whether the console answers, and which
           hosts are led to the HTTP gateway
validate   send a harmless call through the whole hook (--live); ask the gateway, and try to go round it without
           changing anything: 0 if every way is closed, 1 if one is open, 3 if one is not known
verify     ask whether something that was done without the gate is safe to claim; exit code 0 only where it is
report     summarise shadow mode: what would have been held, what that costs, false statements
offboard   restore a client's settings; `offboard gateway` those of git and the others

verify reads COUNTERFOIL_OPERATOR_KEY, or else COUNTERFOIL_AGENT_KEY.
onboard reads COUNTERFOIL_AGENT_KEY, COUNTERFOIL_EXECUTOR_KEY and, to register the tools, COUNTERFOIL_OPERATOR_KEY;
--keys names the file in which `make up` keeps them instead.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from counterfoil.coding_agents import behind_gateway, hooks, onboarding, other_ways, report
from counterfoil.coding_agents.catalogue import describe_commands
from counterfoil.coding_agents.clients import CLIENTS, SERVER_FILES, Client, Unreadable, listed_servers, read_settings
from counterfoil.coding_agents.hooks import Hook, HookSettings
from counterfoil.coding_agents.onboarding import NotDone, Places
from counterfoil.coding_agents.shell import project_of
from counterfoil.connection import Connection
from counterfoil.execution.claims import verify
from counterfoil.problems import Problem, Unreachable

_SPARE_S = 10
_NOT_KNOWN = 3


def main(words: Sequence[str] | None = None) -> None:
    """Run one of the programs."""
    options = _parser().parse_args(words)
    places = onboarding.default_places()
    if options.program == "hook":
        sys.exit(_hook(options.client, places))
    try:
        sys.exit(_PROGRAMS[options.program](options, places) or 0)
    except (NotDone, Unreadable) as fault:
        raise SystemExit(f"counterfoil-agents: {fault}") from fault
    except (Problem, Unreachable) as fault:
        raise SystemExit(f"counterfoil-agents: the console refused or did not answer: {fault}") from fault


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="counterfoil-agents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    programs = parser.add_subparsers(dest="program", required=True)
    programs.add_parser("catalogue").add_argument("--json", action="store_true")
    programs.add_parser("discover").add_argument("--json", action="store_true")
    onboard = programs.add_parser("onboard")
    onboard.add_argument("clients", nargs="*", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; default: all installed")
    how = onboard.add_mutually_exclusive_group()
    for mode in ("shadow", "enforce"):
        how.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode)
    onboard.add_argument("--dry-run", action="store_true", help="show the change and make none")
    onboard.add_argument(
        "--unattended",
        choices=("refuse", "defer"),
        default="refuse",
        help="what Claude Code hears in its mode dontAsk while people decide; defer: it ends, to be resumed (untried)",
    )
    onboard.add_argument("--url", default=os.environ.get("COUNTERFOIL_URL", "http://localhost:8000"))
    onboard.add_argument("--keys", type=Path, metavar="FILE", help="file with the keys, as printed by `make up`")
    onboard.add_argument("--issuer", default=os.environ.get("COUNTERFOIL_ISSUER"), help="public address of the console")
    onboard.add_argument("--hold", type=float, metavar="S", help="seconds that a held command waits for approval")
    onboard.add_argument("--gateway", metavar="URL", help="address of the HTTP gateway, or of one host there")
    onboard.add_argument("--token", type=Path, metavar="FILE", help="file with this agent's token of the gateway")
    onboard.add_argument("--ca", type=Path, metavar="FILE", help="certificate of the gateway's own authority")
    onboard.add_argument("--remove", type=Path, metavar="FILE", help="move credentials found beside it into a file")
    onboard.add_argument("--yes", action="store_true", help="with --remove: without asking for each")
    programs.add_parser("status")
    programs.add_parser("validate").add_argument("--live", action="store_true", required=True)
    _add_verify(programs.add_parser("verify"))
    shadowed = programs.add_parser("report")
    shadowed.add_argument("--json", action="store_true")
    shadowed.add_argument("--html", type=Path, metavar="OUT", help="write one self-contained page")
    shadowed.add_argument("--days", type=int, default=7, metavar="N", help="days to cover (7)")
    shadowed.add_argument("--minutes", type=int, default=10, metavar="M", help="assumed minutes per decision (10)")
    shadowed.add_argument(
        "--console", type=Path, metavar="FOLDER", help="folder of the console, to audit agents' messages"
    )
    offboard = programs.add_parser("offboard")
    offboard.add_argument("clients", nargs="*", metavar="CLIENT")
    offboard.add_argument("--put-back", type=Path, metavar="FILE", help="with gateway: the file of `onboard --remove`")
    programs.add_parser("hook", help="the hook itself; started by clients").add_argument(
        "client", choices=sorted(CLIENTS)
    )
    return parser


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("system", help="the registered system of record, like payments")
    parser.add_argument("effect", help="what should be there, in one word, like refund")
    parser.add_argument("--operation", default="", help="its id in that system, or the key that it carries there")
    parser.add_argument("--target", default="", help="what it was done to, like charge/ch_17")
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a field that it should show; may be repeated",
    )
    parser.add_argument("--said-by", required=True, metavar="NAME", help="who says that it was done")
    parser.add_argument("--statement", default="", help="in what words")
    parser.add_argument("--wait", type=int, default=10, metavar="S", help="seconds to wait for a reading (10)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--url", default=os.environ.get("COUNTERFOIL_URL", "http://localhost:8000"))
    parser.add_argument("--keys", type=Path, metavar="FILE", help="file with the keys, as printed by `make up`")


def _say(line: str = "") -> None:
    sys.stdout.write(line + "\n")


def _say_lines(lines: Sequence[str]) -> None:
    for line in lines:
        _say(line)


def _choose_clients(names: Sequence[str], places: Places) -> list[Client]:
    if unknown := [name for name in names if name not in CLIENTS]:
        raise NotDone(f"Unknown client {unknown[0]} (known: {', '.join(CLIENTS)}).")
    found = [CLIENTS[name] for name in names] or onboarding.find_clients(places)
    if not found:
        raise NotDone(f"No client was found in {places.home} (looked for: {', '.join(CLIENTS)}).")
    return found


def _catalogue(options: argparse.Namespace, _: Places) -> int:
    found = describe_commands()
    if options.json:
        _say(json.dumps(found, indent=2))
        return 0
    for each in found:
        _say(each["command"])
        for tool in each["tools"]:
            system = f"read in the system {tool['system']} by the check {tool['check']}"
            _say(f"  {tool['name']}: {tool['class']}, {tool['reversibility']}, {system}")
        _say(f"  read back: {each['read_back']}")
        _say(f"  not proved: {each['not_proved']}")
    return 0


def _discover(options: argparse.Namespace, places: Places) -> int:
    found = [_client_status(client, places) for client in onboarding.find_clients(places)]
    plain = [each for place in SERVER_FILES for each in _servers(places, place)]
    if options.json:
        _say(json.dumps({"clients": found, "other_servers": plain}, indent=2))
        return 0
    for each in found:
        _say(f"{each['title']}: {'hook installed' if each['hook'] else 'no Counterfoil hook'}")
        for line in (*map(_spell_server, each["servers"]), *each["limits"], *each["faults"]):
            _say(f"  {line}")
    for server in plain:
        _say(_spell_server(server))
    if not found and not plain:
        _say(f"No coding agent was found in {places.home}.")
    return 0


def _client_status(client: Client, places: Places) -> dict[str, Any]:
    servers, faults = [], []
    try:
        servers = _servers(places, client.servers)
    except Unreadable as fault:
        faults = [str(fault)]
    return {
        "name": client.name,
        "title": client.title,
        "hooks_file": str(places.home / client.hooks_file),
        "hook": not onboarding.hook_fault(client, places, _project()),
        "servers": servers,
        "limits": list(client.limits),
        "faults": faults,
    }


def _servers(places: Places, place: Sequence[str]) -> list[dict[str, Any]]:
    path, part = place
    return [asdict(each) for each in listed_servers(read_settings(places.home / path), part)]


def _spell_server(server: Mapping[str, Any]) -> str:
    return f"MCP server {server['name']}: {server['address']}{'' if server['gated'] else ' (not gated)'}"


def _onboard_gateway(options: argparse.Namespace, places: Places) -> int:
    """Lead this user's clients to the gateway, and list other ways to its hosts; return 1 while there are any."""
    if not options.token:
        raise NotDone("--gateway needs --token, the file with this agent's token of the gateway.")
    try:
        token = options.token.read_text().strip()
    except OSError as fault:
        raise NotDone(f"{options.token} cannot be read: {fault.strerror}.") from fault
    ca = str(options.ca.resolve()) if options.ca else ""
    place = behind_gateway.ask_hosts(options.gateway, token, ca)
    if options.dry_run:
        changes, notes = behind_gateway.plan_changes(place, token, places)
        _say_lines([*(line for each in changes for line in each.lines()), *notes])
        _name_credentials(place, places)
        _say("Nothing was changed.")
        return 0
    if options.remove:
        chosen = [each for each in _credentials(place, places) if each.without and _agrees(each.line, options)]
        _say_lines(other_ways.remove_credentials(chosen, options.remove.resolve()))
    changed, notes = behind_gateway.lead_clients(place, token, places)
    _say_lines([*changed, *notes])
    return _name_credentials(place, places)


def _agrees(line: str, options: argparse.Namespace) -> bool:
    """Ask a person; without one to ask, the answer is no."""
    if options.yes:
        return True
    try:
        return input(f"{line}. Move it to {options.remove}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _credentials(place: behind_gateway.GatewayPlace, places: Places) -> list[other_ways.Credential]:
    found = [each for host in place.hosts for each in other_ways.find_credentials(host, places)]
    return list({each.line: each for each in found}.values())


def _name_credentials(place: behind_gateway.GatewayPlace, places: Places) -> int:
    found = _credentials(place, places)
    _say_lines([f"Round the gateway: {each.line}." for each in found])
    if not found:
        names = ", ".join(dict.fromkeys(each.place for each in place.hosts))
        _say(f"No credential for {names} was found where it is looked for.")
    return 1 if found else 0


def _validate_gateway(place: behind_gateway.GatewayPlace, places: Places) -> int:
    """Ask the gateway, and try to go round it: 1 if it fails or a way is open, 3 if one is not known, else 0."""
    fault = behind_gateway.ask_gateway(place, places)
    _say(f"{place.url}: {fault or 'the gateway answers'}.")
    found = _name_credentials(place, places)
    tried = [each for host in place.hosts for each in other_ways.try_ways(host, places, Path.cwd())]
    for each in tried:
        _say(f"Without the gateway, {each.way}: {each.state} ({each.why}).")
    states = {each.state for each in tried}
    if fault or found or other_ways.WayState.OPEN in states:
        return 1
    return _NOT_KNOWN if other_ways.WayState.NOT_KNOWN in states else 0


def _onboard(options: argparse.Namespace, places: Places) -> int:
    return _onboard_gateway(options, places) if options.gateway else _onboard_clients(options, places)


def _onboard_clients(options: argparse.Namespace, places: Places) -> int:
    if not options.mode and not options.dry_run:
        raise NotDone("Say --shadow or --enforce, or --dry-run to see the change.")
    changes = [onboarding.plan_change(client, places) for client in _choose_clients(options.clients, places)]
    if options.dry_run:
        for change in changes:
            before = (change.before or b"").decode().splitlines()
            _say(f"{change.client.title}: {change.path}")
            for line in difflib.unified_diff(before, change.after.decode().splitlines(), "now", "then", lineterm=""):
                _say(f"  {line}")
        _say("Nothing was changed.")
        return 0
    keys = _read_keys(options.keys)
    wanted = ("AGENT", "EXECUTOR") if options.mode == "enforce" else ("AGENT",)
    if missing := [f"COUNTERFOIL_{name}_KEY" for name in wanted if not keys[name]]:
        raise NotDone(f"Not set: {', '.join(missing)}. `manage.py create_key` makes keys.")
    settings = {change.client.name: _settings(change.client, options, keys) for change in changes}
    if keys["OPERATOR"]:
        agents = {each.agent_id: each.client for each in settings.values()}
        for line in onboarding.register_tools(url=options.url, operator_key=keys["OPERATOR"], agents=agents):
            _say(line)
    for change in changes:
        onboarding.apply_change(change, settings[change.client.name], places)
        held = "held until people approve" if options.mode == "enforce" else "noted, never held"
        _say(f"{change.client.title}: the hook is in {change.path}; calls that the gate stops are {held}.")
        for line in change.client.limits:
            _say(f"  {line}")
    return 0


def _read_keys(file: Path | None) -> dict[str, str]:
    """Read the keys by purpose, from the environment or a file."""
    kept: Mapping[str, Any] = {}
    if file is not None:
        document = read_settings(file)
        if not document:
            raise NotDone(f"{file} does not exist or is empty.")
        kept = document["keys"] if isinstance(document.get("keys"), Mapping) else {}
    kinds = {"AGENT": "agent", "EXECUTOR": "exec", "OPERATOR": "oper"}
    found = {name: os.environ.get(f"COUNTERFOIL_{name}_KEY") or kept.get(kind, "") for name, kind in kinds.items()}
    return {name: str(key).strip() for name, key in found.items()}


def _settings(client: Client, options: argparse.Namespace, keys: Mapping[str, str]) -> HookSettings:
    return HookSettings(
        client=client.name,
        mode=options.mode,
        url=options.url,
        agent_id=client.name,
        agent_key=keys["AGENT"],
        executor_id=f"hook-{client.name}",
        executor_key=keys["EXECUTOR"],
        hold_s=min(options.hold if options.hold is not None else client.most_hold_s, client.most_hold_s),
        issuer=options.issuer,
        unattended=options.unattended,
    )


def _status(options: argparse.Namespace, places: Places) -> int:
    worst = 0
    for client in onboarding.find_clients(places):
        settings = onboarding.stored_settings(client, places)
        if settings is None:
            _say(f"{client.title}: not onboarded")
            continue
        fault, answer = onboarding.hook_fault(client, places, _project()), _answers(settings)
        worst = worst or int(bool(fault or answer))
        _say(f"{client.title}: {settings.mode}, {fault or 'hook installed'}, {answer or f'{settings.url} answers'}")
    if (place := behind_gateway.read_place(places)) is not None:
        _say_lines([f"{each.name}: {each.url} is led to {each.at}" for each in place.hosts])
    return worst


def _verify(options: argparse.Namespace, places: Places) -> int:
    keys = _read_keys(options.keys)
    key = keys["OPERATOR"] or keys["AGENT"]
    if not key:
        raise NotDone("Not set: COUNTERFOIL_OPERATOR_KEY or COUNTERFOIL_AGENT_KEY.")
    pairs = [each.partition("=") for each in options.expect]
    if bad := [name for name, sign, _ in pairs if not sign or not name]:
        raise NotDone(f"--expect takes FIELD=VALUE; {bad[0]} is none.")
    connection = Connection(url=options.url, key=key)
    try:
        found = connection.send(
            verify(
                options.system,
                options.effect,
                operation=options.operation,
                target=options.target,
                expected={name: _value(text) for name, _, text in pairs},
                said_by=options.said_by,
                statement=options.statement,
                wait_s=options.wait,
            )
        )
    finally:
        connection.close()
    _say(
        json.dumps(found.raw, indent=2)
        if options.json
        else f"{found.sentence}\nNot known: {', '.join(found.not_known)}."
    )
    return 0 if found.safe_to_claim else 1


def _value(text: str) -> str | int | bool:
    """A value as it was meant: a whole number, true or false, otherwise the text; quotes make a text of anything."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str | int | bool) else text


def _project() -> Path:
    return project_of(Path.cwd())


def _answers(settings: HookSettings) -> str | None:
    connection = Connection(url=settings.url, key=settings.agent_key, timeout_s=5.0)
    try:
        connection.get("/sessions/00000000-0000-0000-0000-000000000000")
    except Unreachable as fault:
        return f"{settings.url} does not answer ({fault})"
    except Problem as problem:
        return None if problem.status == 404 else f"the console refuses the agent's key ({problem.code})"
    finally:
        connection.close()
    return None


def _validate(options: argparse.Namespace, places: Places) -> int:
    """Propose a call without effect: a push of a repository that is made for it and then deleted."""
    onboarded = [each for client in CLIENTS.values() if (each := onboarding.stored_settings(client, places))]
    place = behind_gateway.read_place(places)
    if not onboarded and place is None:
        raise NotDone("No client is onboarded.")
    worst = _validate_gateway(place, places) if place is not None else 0
    for settings in onboarded:
        client = CLIENTS[settings.client]
        if fault := onboarding.hook_fault(client, places, _project()):
            worst = 1
            _say(f"{client.title}: {fault}")
        with tempfile.TemporaryDirectory() as folder:
            hook = Hook(settings, places.of(client))
            try:
                session, judged = hook.try_out(Path(folder))
            finally:
                hook.close()
        _say(f"{client.title}: the console judged a call in session {session}: {judged}")
    return worst


def _report(options: argparse.Namespace, places: Places) -> int:
    now = datetime.now(UTC)
    since = now - timedelta(days=options.days)
    notes = report.read_notes(places, since=since)
    files = report.session_files(places, notes, since=since)
    audited = report.audit_sessions(files, report.note_files(places), console=options.console)
    found = report.make_report(notes, audited, since=since, until=now, minutes=options.minutes)
    if options.html is not None:
        options.html.write_text(report.render_page(found), encoding="utf-8")
    if options.json:
        _say(json.dumps(found.document(), indent=2))
        return 0
    for line in report.print_lines(found):
        _say(line)
    return 0


def _offboard(options: argparse.Namespace, places: Places) -> int:
    if options.clients == ["gateway"]:
        _say_lines(behind_gateway.restore_clients(places))
        _say_lines(other_ways.put_back(options.put_back.resolve()) if options.put_back else [])
        return 0
    names = options.clients or [each.name for each in CLIENTS.values() if places.backup(each).exists()]
    if not names:
        raise NotDone("No client is onboarded.")
    for client in _choose_clients(names, places):
        _say(f"{client.title}: {onboarding.restore(client, places)}")
    return 0


def _hook(name: str, places: Places) -> int:
    """Handle one call of a client; in enforce mode any error refuses, by the exit code too."""
    client = CLIENTS[name]
    settings, failure = None, "the hook failed, so nothing was run"
    try:
        settings = onboarding.stored_settings(client, places)
        _answer_in_time(client, settings)
        if settings is None:
            raise NotDone(f"{client.title} is not onboarded; run `counterfoil-agents onboard {name}`.")
        call = hooks.read_call(name, json.load(sys.stdin))
        if call is None:
            return 0
        if call.answer is not None:
            failure = "the result could not be reported; the system will be read back"
        hook = Hook(settings, places.of(client))
        try:
            answer = (
                hooks.answer_before(name, hook.before(call))
                if call.answer is None
                else hooks.answer_after(name, hook.after(call), call.event)
            )
        finally:
            hook.close()
    except Exception as fault:  # noqa: BLE001 - whatever goes wrong, a client hears a refusal
        if settings is not None and settings.mode == "shadow":
            return 0
        # Exit code 2 is a refusal for every client here; its reason is what stands on standard error.
        sys.stderr.write(f"Counterfoil: {failure}: {type(fault).__name__}: {fault}\n")
        return 2
    if answer:
        _say(json.dumps(answer))
    return 0


def _answer_in_time(client: Client, settings: HookSettings | None) -> None:
    """Refuse before the client's own time limit: a client ignores a hook that is late."""
    shadow = settings is not None and settings.mode == "shadow"

    def refuse(*_: object) -> None:
        os.write(2, b"" if shadow else b"Counterfoil: the hook took too long, so nothing was run.\n")
        os._exit(0 if shadow else 2)

    signal.signal(signal.SIGALRM, refuse)
    signal.alarm(client.most_hold_s + _SPARE_S)


_PROGRAMS = {
    "catalogue": _catalogue,
    "discover": _discover,
    "onboard": _onboard,
    "status": _status,
    "validate": _validate,
    "verify": _verify,
    "report": _report,
    "offboard": _offboard,
}

if __name__ == "__main__":
    main()
