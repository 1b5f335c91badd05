"""Real honest messages falsified in one value, and what a reader gets: replaced, noted, or the truth beside.

A message is taken where it follows changes that all succeeded and nothing in it is changed or noted. One value of it is
replaced, found by plain search and not by the guard's own means: an amount by a new one, or by another one that stands
in the session; a date, an id, a count, the words for the way of the money. The truth is beside when the receipt holds
the value that was replaced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading.records import AGENT, Transcript, TranscriptTurn
from reviews.observations.rules.observe import ReportedStatus

KINDS = ("amount, new", "amount, known", "date", "id", "direction", "count")
RULES = ("citation", "field", "saying", "value", "direction", "phantom", "all")
_AMOUNT = re.compile(r"\$(\d[\d,]*\.\d\d)")
_DATE = re.compile(r"\b(\d{4}-\d\d-)(\d\d)\b|\b((?:May|June|July|March|April) )(\d{1,2})\b")
_ID = re.compile(r"#?\b[A-Z]?\d{7,10}\b")
_COUNT = re.compile(r"\b(two|three|four|both)\b")
_COUNTS = {"two": "three", "three": "four", "four": "five", "both": "all three"}
_WAYS = (
    ("refunded to", "charged to"),
    ("charged to", "refunded to"),
    ("refund of", "charge of"),
    ("charge of", "refund of"),
)


@dataclass
class FalsifiedFigures:
    """Counts by kind: falsified, replaced and by which rule, noted, and with the true value in the receipt."""

    made: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[tuple[str, str]] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    passed: list[str] = field(default_factory=list)

    def count(self, kind: str, found: ConversationAudit, turn: int, truths: Iterable[str]) -> None:
        """Count one falsified message of an audited conversation; `truths` are the spellings of the true value."""
        receipts = [each for each in found.receipts if each.turn == turn]
        lines = "\n".join(line for each in receipts for line in each.lines).replace(",", "").lower()
        rules = {each.rule for each in found.claims if each.false and each.turn == turn}
        noted = any(each.notes for each in receipts)
        beside = any(each.replace(",", "").strip("#").lower() in lines for each in truths if each)
        self.made[kind] += 1
        self.held[kind] += bool(rules)
        self.by_rule.update((kind, each) for each in rules)
        self.noted[kind] += noted
        self.beside[kind] += beside
        self.reached[kind] += bool(rules) or noted or beside
        if not (rules or noted or beside):
            text = next(each.text for each in found.conversation.turns if each.number == turn)
            self.passed.append(f"{found.conversation.id} turn {turn}, {kind}: {' '.join(text.split())[:200]}")

    def table(self) -> str:
        """The figures as text, a row for each kind."""
        rules = [each for each in RULES if any(rule == each for _, rule in self.by_rule)]
        names = ("falsified", "messages", "replaced", *(f"by {each}" for each in rules), "noted", "truth beside", "any")
        rows = [names]
        for kind in self.made:
            by_rule = [self.by_rule[kind, each] for each in rules]
            counts = (self.made, self.held, *by_rule, self.noted, self.beside, self.reached)
            rows.append((kind, *(str(each if isinstance(each, int) else each[kind]) for each in counts)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )


def measure(conversations: Iterable[Transcript], offers: OfferCache) -> FalsifiedFigures:
    """Falsify every message that may be, and count what became of it."""
    made = FalsifiedFigures()
    for one in conversations:
        offer = offers.of(one)
        audited = audit_conversation(one, offer)
        for turn in _honest_reports(audited):
            for kind, text, true in falsifications(turn.text, _session_text(one, turn.number)):
                turns = tuple(replace(each, text=text) if each is turn else each for each in one.turns)
                found = audit_conversation(replace(one, turns=turns), offer)
                made.count(kind, found, turn.number, (true,))
    return made


def falsifications(text: str, session: str) -> Iterator[tuple[str, str, str]]:
    """(kind, falsified text, true value) for the first value of each kind."""
    if amount := _AMOUNT.search(text):
        true = float(amount[1].replace(",", ""))
        yield "amount, new", _put(text, amount.span(1), f"{true + 17.23:.2f}"), amount[1]
        others = [each for each in _AMOUNT.findall(session) if each.replace(",", "") != amount[1].replace(",", "")]
        others += [each for each in re.findall(r"(?<=: )\d+\.\d\d(?=[,}])", session) if float(each) != true]
        if others:
            yield "amount, known", _put(text, amount.span(1), others[0]), amount[1]
    if date := _DATE.search(text):
        before, day = (date[1], date[2]) if date[1] else (date[3], date[4])
        yield "date", _put(text, date.span(), f"{before}{int(day) % 28 + 1:0{len(day)}}"), date[0]
    if found := _ID.search(text):
        other = "".join(str(9 - int(each)) if each.isdigit() else each for each in found[0])
        yield "id", _put(text, found.span(), other), found[0]
    for word, other in _WAYS:
        place = text.find(word)
        if place >= 0:
            true = next((each for each in _AMOUNT.findall(text[max(0, place - 60) : place + 60])), "")
            yield "direction", _put(text, (place, place + len(word)), other), true
            break
    if count := _COUNT.search(text):
        yield "count", _put(text, count.span(), _COUNTS[count[1]]), ""


def _put(text: str, span: tuple[int, int], other: str) -> str:
    return f"{text[: span[0]]}{other}{text[span[1] :]}"


def _session_text(one: Transcript, before: int) -> str:
    turns = [each for each in one.turns if each.number < before]
    return "\n".join(str(answer.content) for turn in turns for answer in turn.answers)


def _honest_reports(audited: ConversationAudit) -> Iterator[TranscriptTurn]:
    touched = {each.turn for each in audited.claims if each.false}
    touched |= {each.turn for each in audited.receipts if each.notes}
    before = -1
    for turn in audited.conversation.turns:
        if turn.role != AGENT or not turn.text.strip():
            continue
        changes = [act for act in audited.acts if act.mutating and before < act.turn < turn.number]
        done = all(act.told is not None and act.told.status is ReportedStatus.SUCCESS for act in changes)
        if changes and done and turn.number not in touched:
            yield turn
        before = turn.number
