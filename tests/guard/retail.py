"""Real conversations of a shop, read from beside the project where somebody has them; none of it is in the tree.

`suggested` stands for a user who has sayings suggested from their own recordings: each conversation is judged with
those that the other conversations bear out, as `suggest_sayings` proposes them, with nobody in between.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import orjson

from counterfoil_transcripts import contracts
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.records import Transcript
from counterfoil_transcripts.suggestions import suggest_sayings
from tests.guard import falsified, mutations

RECORDINGS = Path(os.environ.get("COUNTERFOIL_RECORDINGS", Path(__file__).parents[3] / "shared" / "recordings"))
FOLDER = RECORDINGS / "retail"
PARTS = 10


@dataclass
class Measured:
    """What the guard did to real messages: how many there were, and each that was stopped, for reading by eye."""

    messages: int = 0
    calls: int = 0
    seconds: float = 0.0
    stopped: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def is_there() -> bool:
    """Whether the recordings are beside the project."""
    return (FOLDER / "conversations.json").exists()


def measured(*, suggested: bool = False) -> Measured:
    """The guard over every message of the recordings, with drafted contracts."""
    return measure(_audited(suggested=suggested))


def measure(audits: Iterable[ConversationAudit]) -> Measured:
    """Count what the guard did in some conversations."""
    made = Measured()
    begun = time.perf_counter()
    for found in audits:
        made.messages += found.spoken
        made.calls += len(found.acts)
        for act in found.acts:
            made.differences += [
                f"{found.conversation.id} call {act.number} {one.name}: {one.asked!r} / {one.shown!r}"
                for one in act.differences
            ]
        for beside in found.receipts:
            made.noted += [f"{found.conversation.id} turn {beside.turn}: {note}" for note in beside.notes]
        for claim in found.claims:
            if claim.false:
                said = f"{claim.code} {claim.rule}: {claim.sentence}\n      -> {claim.detail}"
                made.stopped.append(f"{found.conversation.id} turn {claim.turn} {said}")
    made.seconds = time.perf_counter() - begun
    return made


def mutants(*, suggested: bool = False) -> mutations.MutantFigures:
    """Real messages made false, and what the guard does with them."""
    made = mutations.MutantFigures()
    for conversation, offers in _offered(suggested=suggested):
        mutations.measure([conversation], offers, made)
    return made


def falsified_figures() -> falsified.FalsifiedFigures:
    """Real honest messages falsified in one value."""
    return falsified.measure(_conversations(), _drafted())


def labelled() -> str:
    """The 120 labelled messages: for each label, how many are changed, noted, or neither."""
    labels = orjson.loads((FOLDER / "labels.json").read_bytes())
    audits = _audits()
    rows: dict[str, list[int]] = {}
    for each in labels:
        audit, turn = audits[each["conv"]], each["msg"]
        row = rows.setdefault(each["label"], [0, 0, 0])
        changed = any(claim.false and claim.turn == turn for claim in audit.claims)
        noted = any(beside.notes and beside.turn == turn for beside in audit.receipts)
        row[0] += 1
        row[1] += changed
        row[2] += noted and not changed
    return "\n".join(f"{label}: {of}, changed {changed}, noted {noted}" for label, (of, changed, noted) in rows.items())


def _audited(*, suggested: bool) -> Iterator[ConversationAudit]:
    for conversation, offers in _offered(suggested=suggested):
        yield audit_conversation(conversation, offers.of(conversation))


def _offered(*, suggested: bool) -> Iterator[tuple[Transcript, OfferCache]]:
    """Each conversation with the contracts that it is judged by."""
    by_part = [_suggested(part) if suggested else _drafted() for part in range(PARTS)]
    for number, conversation in enumerate(_conversations()):
        yield conversation, by_part[number % PARTS]


@lru_cache(maxsize=1)
def _conversations() -> tuple[Transcript, ...]:
    found = intake.read_conversations(FOLDER / "conversations.json")
    return tuple(each for each in found if isinstance(each, Transcript))


@lru_cache(maxsize=1)
def _drafted() -> OfferCache:
    return OfferCache(contracts.load_catalogue([FOLDER / "tools.json"]))


@lru_cache(maxsize=1)
def _audits() -> tuple[ConversationAudit, ...]:
    return tuple(_audited(suggested=False))


@lru_cache(maxsize=PARTS)
def _suggested(part: int) -> OfferCache:
    """The drafted contracts with the sayings that all parts of the recordings but one bear out."""
    others = (each for number, each in enumerate(_audits()) if number % PARTS != part)
    catalogue = contracts.ContractCatalogue(closed=True)
    suggestions = suggest_sayings(others)
    for document in _drafted().catalogue.documents():
        sayings = [each.document() for each in suggestions if each.tool == document["name"]]
        claims = {**document.get("claims", {}), "sayings": sayings}
        catalogue.add(orjson.loads(orjson.dumps({**document, "claims": claims})), "suggested")
    return OfferCache(catalogue)


def report(made: Measured) -> str:
    """The figures as text."""
    lines = [f"{made.messages} messages, {made.calls} calls, {made.seconds:.1f} s", f"stopped: {len(made.stopped)}"]
    lines += [f"  {each}" for each in made.stopped]
    lines.append(f"noted: {len(made.noted)}")
    lines += [f"  {each}" for each in made.noted]
    lines.append(f"differences: {len(made.differences)}")
    lines += [f"  {each}" for each in made.differences]
    return "\n".join(lines)
