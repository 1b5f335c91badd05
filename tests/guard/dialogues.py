"""Real dialogues with services (tables, tickets, cars, appointments, transfers), read from beside the project.

The folder `dialogues` of the recordings has `schema.json` and `dialogues_*.json` of the Schema-Guided Dialogue set. Its
calls and answers are the set's own, its words those of people; the contracts are drafted from its schema.

Its messages after a change state few values: what was asked had been read out for confirmation just before. A `recap`
puts these very words behind the report, so that each states the values of which the set says where they stand.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from counterfoil_transcripts import contracts
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.intake import build_conversation
from counterfoil_transcripts.reading.records import Transcript
from tests.guard.falsified import FalsifiedFigures
from tests.guard.retail import RECORDINGS, Measured, measure

FOLDER = RECORDINGS / "dialogues"
STEP = 4
"""Of so many recaps one is falsified."""
_LEAD = re.compile(
    r"^.*\b(?:confirm\w*|verify|correct|right|details|following|information|want(?:ed|s)?|like|wish|need"
    r"|book(?:ing)?|reserv(?:e|ing)|make|making|buy(?:ing)?|sure|so|okay|set|schedul(?:e|ing))\b[\s,:.]*(?:to|that|me)?\b",
    re.I,
)
_TAIL = re.compile(
    r"[\s,.]*(?:(?:is|are|does|do|did) (?:that|this|it|these|everything|all|the)\b[^.]*|right|correct|yes|okay|ok)?"
    r"\s*\?$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class SpokenValue:
    """A value that a recap states: its field, its sort, its words, where they stand, and what the call asked for."""

    field: str
    sort: str
    words: str
    start: int
    asked: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue as a transcript; `recaps` has by turn the recap of a change with the values in it."""

    transcript: Transcript
    recaps: Mapping[int, tuple[str, tuple[SpokenValue, ...]]]


def is_there() -> bool:
    """Whether the dialogues are beside the project."""
    return (FOLDER / "schema.json").exists()


@lru_cache(maxsize=1)
def drafted() -> OfferCache:
    """The contracts drafted from the set's schema."""
    catalogue = contracts.ContractCatalogue(closed=True)
    for service in json.loads((FOLDER / "schema.json").read_bytes()):
        slots = {each["name"]: each for each in service["slots"]}
        for intent in service["intents"]:
            names = [*intent["required_slots"], *intent["optional_slots"]]
            plain = {
                "name": intent["name"],
                "description": intent["description"],
                "inputSchema": {
                    "type": "object",
                    "required": intent["required_slots"],
                    "properties": {
                        name: {"type": "string", "description": slots[name]["description"]} for name in names
                    },
                },
                "annotations": {"readOnlyHint": not intent["is_transactional"]},
            }
            definition = contracts.normalize_tool(plain)
            catalogue.add(contracts.draft_contract(definition), "schema")
    return OfferCache(catalogue)


@lru_cache(maxsize=1)
def dialogues() -> tuple[Dialogue, ...]:
    """Every dialogue of the folder."""
    files = sorted(FOLDER.glob("dialogues_*.json"))
    return tuple(_dialogue(each) for file in files for each in json.loads(file.read_bytes()))


def sort_of(field: str, value: str, words: str) -> str:
    """The sort of a value by the name of its field; a day told without a number is a relative date."""
    if value.isdigit() and "account" not in field:
        return "amount" if re.search("price|amount|fare|cost|rent", field) else "count"
    if re.search("date|day", field):
        return "date" if any(map(str.isdigit, words)) else "date, relative"
    if "time" in field:
        return "time"
    return "place" if re.search("address|location|origin|destination|station|airport|area|city", field) else "name"


def _dialogue(recorded: Mapping[str, Any]) -> Dialogue:
    messages: list[dict[str, Any]] = []
    recaps: dict[int, tuple[str, tuple[SpokenValue, ...]]] = {}
    confirmed: Mapping[str, Any] | None = None
    for turn in recorded["turns"]:
        if turn["speaker"] == "USER":
            messages.append({"role": "user", "content": turn["utterance"]})
            continue
        acts = {act["act"] for frame in turn["frames"] for act in frame["actions"]}
        calls = [frame for frame in turn["frames"] if "service_call" in frame]
        for frame in calls:
            messages += _call(frame, failed="NOTIFY_FAILURE" in acts, number=len(messages))
        if calls and "NOTIFY_SUCCESS" in acts and confirmed is not None:
            recap = _recap(turn["utterance"], confirmed, calls[-1]["service_call"]["parameters"])
            if recap is not None:
                recaps[len(messages)] = recap
        messages.append({"role": "assistant", "content": turn["utterance"]})
        confirmed = turn if "CONFIRM" in acts else None
    found = intake.MessageList(messages, recorded["dialogue_id"], ())
    return Dialogue(build_conversation("dialogues", found, "$"), recaps)


def _call(frame: Mapping[str, Any], *, failed: bool, number: int) -> list[dict[str, Any]]:
    made, rows = frame["service_call"], frame["service_results"]
    answer: Any = rows[0] if rows and len(rows) == 1 else {"results": rows}
    if failed:
        answer = {"error": "NOT_POSSIBLE", "alternatives": rows}
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": made["method"], "arguments": json.dumps(made["parameters"])},
    }
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer)},
    ]


def _recap(
    report: str, confirmed: Mapping[str, Any], asked: Mapping[str, str]
) -> tuple[str, tuple[SpokenValue, ...]] | None:
    said = confirmed["utterance"]
    spans = sorted(
        (each["start"], each["exclusive_end"], each["slot"]) for frame in confirmed["frames"] for each in frame["slots"]
    )
    spans = [each for each in spans if each[2] in asked]
    if not spans:
        return None
    lead = _LEAD.match(said[: spans[0][0]])
    begin = lead.end() if lead else 0
    end = said.rstrip()
    tail = _TAIL.search(end, spans[-1][1])
    end = end[: tail.start()] if tail else end.rstrip("?")
    if end.count("?"):
        return None
    head = f"{report} Booked: "
    start = len(head) - begin - (len(said[begin:]) - len(said[begin:].lstrip()))
    text = f"{head}{end[begin:].strip().rstrip('.')}."
    values = []
    for first, last, field in spans:
        words, value = said[first:last], asked[field]
        if text[first + start : last + start] != words:
            return None
        values.append(SpokenValue(field, sort_of(field, value, words), words, first + start, value))
    return text, tuple(values)


def audited(one: Transcript, recaps: Mapping[int, str]) -> ConversationAudit:
    """The audit of a dialogue with other texts for some of its messages."""
    turns = tuple(replace(each, text=recaps.get(each.number, each.text)) for each in one.turns)
    return audit_conversation(replace(one, turns=turns), drafted().of(one))


def measured() -> Measured:
    """The guard over every message as it was recorded."""
    return measure(audited(each.transcript, {}) for each in dialogues())


def measured_recaps() -> Measured:
    """The guard over every recap: false ones where the service carried out something else, and no other."""
    made = Measured()
    for each in dialogues():
        found = audited(each.transcript, {turn: text for turn, (text, _) in each.recaps.items()})
        made.messages += len(each.recaps)
        made.differences += [one.name for act in found.acts if act.mutating for one in act.differences]
        made.stopped += [
            f"{one.rule}: {one.sentence} -> {one.detail}"
            for one in found.claims
            if one.false and one.turn in each.recaps
        ]
        made.noted += [note for one in found.receipts if one.turn in each.recaps for note in one.notes]
    return made


def falsified_figures(step: int = STEP) -> tuple[FalsifiedFigures, FalsifiedFigures]:
    """Recaps falsified in one value, and recaps beside an answer that shows another value than was asked for."""
    said, shown = FalsifiedFigures(), FalsifiedFigures()
    pool = _pool()
    for number, (one, turn, text, values) in enumerate(_recaps()):
        if number % step:
            continue
        honest = audited(one, {turn: text})
        if any(each.turn == turn and each.false for each in honest.claims):
            continue
        for value in values:
            others = [
                each for each in pool[value.field] if each.asked.lower() != value.asked.lower() and _fits(each, value)
            ]
            if not others:
                continue
            other = random.Random(f"{one.id} {turn} {value.field}").choice(others)
            falsified = f"{text[: value.start]}{other.words}{text[value.start + len(value.words) :]}"
            said.count(value.sort, audited(one, {turn: falsified}), turn, _spellings(value))
            answered = _answered_otherwise(one, turn, value, other)
            if answered is not None:
                shown.count(value.sort, audited(answered, {turn: text}), turn, _spellings(other))
    return said, shown


def _recaps() -> Iterator[tuple[Transcript, int, str, tuple[SpokenValue, ...]]]:
    for each in dialogues():
        for turn, (text, values) in each.recaps.items():
            yield each.transcript, turn, text, values


@lru_cache(maxsize=1)
def _pool() -> Mapping[str, list[SpokenValue]]:
    pool: dict[str, list[SpokenValue]] = defaultdict(list)
    for *_, values in _recaps():
        for each in values:
            pool[each.field].append(each)
    return pool


def _fits(other: SpokenValue, value: SpokenValue) -> bool:
    """Whether a value may stand in the place of another one: neither says the other, and both are as exact."""
    words = other.words.lower(), value.words.lower()
    return other.sort == value.sort and words[0] not in words[1] and words[1] not in words[0]


def _spellings(value: SpokenValue) -> tuple[str, str]:
    return value.words, value.asked


def _answered_otherwise(one: Transcript, turn: int, value: SpokenValue, other: SpokenValue) -> Transcript | None:
    """The dialogue with another value of a field in the answer before a message."""
    turns = list(one.turns)
    for place in range(turn - 1, -1, -1):
        for answer in turns[place].answers:
            content = json.loads(answer.content) if isinstance(answer.content, str) else answer.content
            if isinstance(content, dict) and value.field in content:
                changed = replace(answer, content={**content, value.field: other.asked})
                turns[place] = replace(turns[place], answers=(changed,))
                return replace(one, turns=tuple(turns))
            return None
    return None
