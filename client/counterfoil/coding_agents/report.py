"""The report of a period in shadow mode: what would have been held, by which rule and at what cost, and false claims.

1. It is made of files on this machine: the hooks' notes and the sessions that clients record. Nothing is sent.
2. What each rule costs: how many calls it would have held, and how many of them no other rule holds. The time that
   people take to decide is not known in shadow mode; `minutes` a decision is an assumption, and said to be one.
3. What the systems showed was read by the hook right after each command, with the user's own access.
4. Which claims of an agent were false is told by `counterfoil-transcripts`, started here as a program of its
   own. Where it is not on this machine, the report says that nobody looked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, Final

from counterfoil.coding_agents.clients import CLIENTS
from counterfoil.coding_agents.onboarding import Places

_RULES: Final = {
    "IRREVERSIBLE": "irreversible by its contract",
    "CRITICAL_MUTATION": "of the highest-risk class by its contract",
    "CONTRACT": "its contract asks for approval",
    "UNVERIFIABLE": "no system could be read back afterwards",
    "COMMAND_FORM": "sent in a form whose effect cannot be predicted",
    "CONSOLE_UNREACHABLE": "the console could not be reached",
}
_WOULD: Final = {
    "pass": "would have passed",
    "hold": "would have waited for people",
    "refuse": "would have been refused",
    "unknown": "not judged: the console could not be reached",
}
_AUDIT_S: Final = 600
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-inline-size: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem;
  background: light-dark(#fff, #0f1319); color: light-dark(#18202d, #e7ebf1); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.125rem; margin: 2rem 0 .5rem; } li { margin-block: .25rem; }
"""


@dataclass(frozen=True, kw_only=True)
class RuleCost:
    """One rule: the calls that it would have held or refused, and those that only it stops."""

    rule: str
    held: int
    refused: int
    alone: int
    minutes: int


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A command that its client reported as done, and a system that showed something else."""

    at: str
    client: str
    tool: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class FalseClaim:
    """A sentence of an agent that the record does not support; `shown` if a system was read for it."""

    session: str
    sentence: str
    code: str
    detail: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class AuditedSessions:
    """The audit of the clients' session files; `unread` has the reasons for files that were not audited."""

    sessions: int = 0
    claims: int = 0
    false: tuple[FalseClaim, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ShadowReport:
    """The report; counts are of calls."""

    since: str
    until: str
    minutes: int
    would: Mapping[str, int]
    tools: Mapping[str, Mapping[str, int]]
    rules: tuple[RuleCost, ...]
    held: int
    readings: int
    mismatches: tuple[Mismatch, ...]
    audited: AuditedSessions

    def document(self) -> dict[str, Any]:
        """The report as a document."""
        return asdict(self)


def read_notes(places: Places, *, since: datetime) -> list[dict[str, Any]]:
    """The hooks' notes from an instant on, the oldest first; a line that was cut off by a crash is passed over."""
    found = []
    for file in note_files(places):
        for line in file.read_text(errors="replace").splitlines():
            try:
                note = json.loads(line)
                if datetime.fromisoformat(note["at"]) >= since:
                    found.append(note)
            except (ValueError, KeyError, TypeError):
                continue
    return sorted(found, key=lambda note: str(note["at"]))


def note_files(places: Places) -> list[Path]:
    """The files that hooks note into."""
    return [file for client in CLIENTS.values() if (file := places.of(client) / "shadow.jsonl").exists()]


def session_files(places: Places, notes: Sequence[Mapping[str, Any]], *, since: datetime) -> list[Path]:
    """The session files named in notes, and those written since, of clients that noted anything."""
    named = {Path(note["recorded_in"]) for note in notes if note.get("recorded_in")}
    clients = {str(note.get("client")) for note in notes}
    for client in (each for each in CLIENTS.values() if each.name in clients and each.sessions):
        named.update((places.home / client.folder).glob(client.sessions))
    return sorted(file for file in named if file.is_file() and file.stat().st_mtime >= since.timestamp())


def make_report(
    notes: Sequence[Mapping[str, Any]], audited: AuditedSessions, *, since: datetime, until: datetime, minutes: int
) -> ShadowReport:
    """The report of some notes."""
    judged = [note for note in notes if "would" in note]
    readings = [note for note in notes if note.get("shown")]
    tools: dict[str, dict[str, int]] = {}
    for note in judged:
        counted = tools.setdefault(str(note.get("tool") or "a command"), {})
        counted[note["would"]] = counted.get(note["would"], 0) + 1
    mismatches = [
        Mismatch(at=note["at"], client=note["client"], tool=note["tool"], shown=note["shown"]["text"])
        for note in readings
        if not note["shown"]["as_asked"] and str(note.get("said")) == "success"
    ]
    would = {name: sum(note["would"] == name for note in judged) for name in _WOULD}
    return ShadowReport(
        since=since.isoformat(timespec="minutes"),
        until=until.isoformat(timespec="minutes"),
        minutes=minutes,
        would=would,
        tools=tools,
        rules=tuple(_costs(judged, minutes)),
        held=would["hold"],
        readings=len(readings),
        mismatches=tuple(mismatches),
        audited=audited,
    )


def _costs(judged: Sequence[Mapping[str, Any]], minutes: int) -> Iterable[RuleCost]:
    stopped = [note for note in judged if note["would"] in ("hold", "refuse")]
    counted: dict[str, list[Mapping[str, Any]]] = {}
    for note in stopped:
        for rule in note.get("rules") or ["(not noted)"]:
            counted.setdefault(str(rule), []).append(note)
    for rule, notes in sorted(counted.items(), key=lambda each: (-len(each[1]), each[0])):
        held = sum(note["would"] == "hold" for note in notes)
        alone = sum(len(note.get("rules") or [""]) == 1 for note in notes)
        yield RuleCost(rule=rule, held=held, refused=len(notes) - held, alone=alone, minutes=held * minutes)


def audit_sessions(files: Sequence[Path], notes: Sequence[Path], *, console: Path | None) -> AuditedSessions:
    """Run the console's own search for false claims over session files (rule 4)."""
    if not files:
        return AuditedSessions(unread=("No session file of a client was written in this time.",))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "audit.json"
        words = [*map(str, files), *(word for note in notes for word in ("--notes", str(note))), "--json", str(out)]
        try:
            ran = subprocess.run(
                [_audit_python(console), "-m", "counterfoil_transcripts", "audit", *words, "--show", "0"],
                capture_output=True,
                text=True,
                timeout=_AUDIT_S,
            )
            # 1: some places could not be read, and the rest was.
            found = json.loads(out.read_bytes()) if ran.returncode in (0, 1) else None
        except (OSError, ValueError, subprocess.TimeoutExpired) as fault:
            return AuditedSessions(unread=(f"The sessions were not audited: {type(fault).__name__}.",))
    if found is None:
        why = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
        if "No module named" in why:
            why = "counterfoil-transcripts is not installed here; name the folder of the console with --console."
        return AuditedSessions(unread=(f"The sessions were not audited: {why}",))
    conversations = found["conversations"]
    return AuditedSessions(
        sessions=len(conversations),
        claims=sum(len(each["claims"]) for each in conversations),
        false=tuple(claim for each in conversations for claim in _false_claims(each)),
        unread=tuple(f"{each['file']}, {each['path']}: {each['reason']}" for each in found["faults"]),
    )


def _audit_python(console: Path | None) -> str:
    """The Python of the console in this folder, or the one that runs this."""
    return sys.executable if console is None else str(console / ".venv/bin/python")


def _false_claims(conversation: Mapping[str, Any]) -> Iterable[FalseClaim]:
    calls = {call["number"]: call for call in conversation["calls"]}
    for claim in conversation["claims"]:
        if claim["verdict"] != "BLOCK":
            continue
        differing = [each for number in claim["calls"] for each in calls[number]["differences"]]
        shown = next((str(each["shown"]) for each in differing if each["asked"] == "as asked"), "")
        yield FalseClaim(
            session=f"{conversation['id']}, message {claim['turn']}",
            sentence=claim["sentence"],
            code=claim["code"],
            detail=claim["detail"],
            shown=shown,
        )


def rule_words(rule: str) -> str:
    """A rule in words: the gate's own reasons, and the rules of the tenant's policy by their names."""
    kind, _, name = rule.partition(" ")
    if kind == "RULE":
        return f"policy rule {name}"
    if kind == "UNDECIDABLE":
        return f"policy rule {name}, which could not be decided"
    return _RULES.get(rule, rule)


def _sections(found: ShadowReport) -> Iterable[tuple[str, Sequence[str]]]:
    """The report in parts: a sentence, and the lines under it."""
    tools = sorted(found.tools.items())
    yield (
        f"Shadow mode, {_spell_time(found.since)} to {_spell_time(found.until)}. "
        "Nothing was held; nothing was sent anywhere for this report.",
        [f"{count:>5}  {tool}: {_WOULD[would]}" for tool, counted in tools for would, count in counted.items()],
    )
    rules = [
        f"{rule_words(each.rule)}: {each.held} held, {each.refused} refused, {each.alone} by this rule alone,"
        f" about {_spell_minutes(each.minutes)} of waiting"
        for each in found.rules
    ]
    yield (
        f"By rule (waiting: {found.minutes} minutes a decision, an assumption; --minutes sets it):",
        [
            *(rules or ["No rule would have held or refused a call."]),
            f"In all {found.held} held, about {_spell_minutes(found.held * found.minutes)} of waiting",
        ],
    )
    yield (
        f"Systems read after {found.readings} of these calls; {len(found.mismatches)} said done and were not:",
        [f"{_spell_time(one.at)} {one.client}, {one.tool}: {one.shown}" for one in found.mismatches],
    )
    claims = [f"{claim.session}: “{claim.sentence}” {_shown_instead(claim)}" for claim in found.audited.false]
    yield _audited_line(found.audited), [*claims, *found.audited.unread]


def print_lines(found: ShadowReport) -> Iterable[str]:
    """The report as lines for a terminal."""
    if not any(found.would.values()):
        yield "Nothing was noted: no client ran in shadow mode here, or none sent what is registered."
        return
    for sentence, lines in _sections(found):
        yield sentence
        yield from (f"  {line}" for line in lines)
        yield ""


def render_page(found: ShadowReport) -> str:
    """Render the report as one self-contained page: no script, nothing loaded."""
    parts = []
    for sentence, lines in _sections(found):
        items = "".join(f"<li>{escape(line.strip())}</li>" for line in lines or ["None."])
        parts.append(f"<h2>{escape(sentence)}</h2><ul>{items}</ul>")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Coding agents in shadow mode</title><style>{_STYLE}</style></head><body>"
        f"<h1>Coding agents in shadow mode</h1>{''.join(parts)}</body></html>\n"
    )


def _shown_instead(claim: FalseClaim) -> str:
    return (
        f"The system showed: {claim.shown}." if claim.shown else claim.detail or "Nothing in the session bears it out."
    )


def _audited_line(audited: AuditedSessions) -> str:
    if not audited.sessions:
        return "What the agents said was not held to the record."
    by_systems = sum(bool(claim.shown) for claim in audited.false)
    sessions = f"{audited.sessions} session{'' if audited.sessions == 1 else 's'}"
    return (
        f"Claims of the agents: {audited.claims} in {sessions}, {len(audited.false)} of "
        f"them false: {by_systems} beside what the systems showed, "
        f"{len(audited.false) - by_systems} beside the tools' answers"
    )


def _spell_time(at: str) -> str:
    return f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M} UTC"


def _spell_minutes(minutes: int) -> str:
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
