"""Real messages made false: the record behind a message is changed, and the guard judges the same words again.

A message of an agent that follows a change which succeeded tells of it, as a rule. For each such message the
conversation until then is taken, and what was recorded since the agent last spoke is changed in one way:

1. `dropped`: the changes were never called.
2. `failed`: each of them came back with an error.
3. `other target`: each was made on a thing of another name than the message names.
4. `other value`: the answer shows another value than was asked for, of a field that the message states.
5. `other amount`: a number of the answer that the message states, and that nobody asked for, is another one.
6. `other sign`: a number of the answer that the message states has the other sign.

What a mutant makes false is looked for in the message by plain search, not by the guard's own means. A mutant is `held`
where a sentence gives way, and `beside` where the receipt at least says that it is not so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from counterfoil_transcripts.acts import AuditedAct
from counterfoil_transcripts.audit import ConversationAudit, audit_conversation
from counterfoil_transcripts.offers import OfferCache, ToolOffer
from counterfoil_transcripts.reading.records import AGENT, Transcript, TranscriptAnswer, TranscriptCall, TranscriptTurn
from reviews.observations.rules.observe import ReportedStatus

KINDS = ("dropped", "failed", "other target", "other value", "other amount", "other sign")
_REFUSED = {"error": "The request could not be carried out."}
Change = Callable[[TranscriptCall, TranscriptAnswer], "tuple[TranscriptCall, TranscriptAnswer] | None"]


@dataclass
class MutantFigures:
    """How many mutants of each kind there were, were held, were told beside by the receipt, and which passed."""

    made: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)
    passed: list[str] = field(default_factory=list)


def measure(conversations: Iterable[Transcript], offers: OfferCache, made: MutantFigures) -> None:
    """Make the mutants of each conversation, judge their last message, and count what became of it."""
    for one in conversations:
        _measure(one, offers.of(one), made)


def report(made: MutantFigures) -> str:
    """The figures as text."""
    rows = ((kind, made.made[kind], made.held[kind], made.beside[kind]) for kind in KINDS if made.made[kind])
    lines = [f"{kind}: {held}/{count} held, {beside}/{count} held or told beside" for kind, count, held, beside in rows]
    return "\n".join(lines)


def _measure(one: Transcript, offer: ToolOffer, made: MutantFigures) -> None:
    audited = audit_conversation(one, offer)
    for turn, acts in _followed(audited):
        for kind, mutant in _mutants(one, turn, acts):
            found = audit_conversation(mutant, offer)
            held = any(each.false and each.turn == turn.number for each in found.claims)
            made.made[kind] += 1
            made.held[kind] += held
            made.beside[kind] += held or _is_beside(found, turn.number, kind)
            if not held:
                made.passed.append(f"{one.id} turn {turn.number}, {kind}: {' '.join(turn.text.split())[:160]}")


def _followed(audited: ConversationAudit) -> Iterator[tuple[TranscriptTurn, list[AuditedAct]]]:
    """Each message of the agent with the changes that succeeded since it last spoke, where all of them did."""
    before = -1
    for turn in audited.conversation.turns:
        if turn.role != AGENT or not turn.text.strip():
            continue
        changes = [act for act in audited.acts if act.mutating and before < act.turn < turn.number]
        if changes and all(act.told is not None and act.told.status is ReportedStatus.SUCCESS for act in changes):
            yield turn, changes
        before = turn.number


def _is_beside(found: ConversationAudit, turn: int, kind: str) -> bool:
    """Whether the receipt has a line that says otherwise: a failure, a difference, or another thing by its name."""
    lines = [line for each in found.receipts if each.turn == turn for line in each.lines]
    return any(kind == "other target" or line.startswith("- Failed") or "was asked for." in line for line in lines)


def _mutants(one: Transcript, turn: TranscriptTurn, acts: list[AuditedAct]) -> Iterator[tuple[str, Transcript]]:
    said = turn.text.lower()
    ways: dict[str, Change] = {
        "dropped": lambda call, answer: None,
        "failed": lambda call, answer: (call, replace(answer, content=_REFUSED, failed=True)),
        "other target": lambda call, answer: _retargeted(call, answer, said, acts),
        "other value": lambda call, answer: _shown_otherwise(call, answer, said, acts),
        "other amount": lambda call, answer: _recounted(call, answer, said, lambda number: number + 17.25),
        "other sign": lambda call, answer: _recounted(call, answer, said, lambda number: -number),
    }
    for kind in KINDS:
        mutant = _changed(one, turn.number, {act.call.id for act in acts}, ways[kind])
        if mutant != _changed(one, turn.number, set(), ways[kind]):
            yield kind, mutant


def _changed(one: Transcript, last: int, ids: set[str], change: Change) -> Transcript:
    """The conversation until a message, with some of its calls and their answers changed or left out."""
    calls = {call.id: call for turn in one.turns for call in turn.calls if call.id in ids}
    answers = {answer.call_id: answer for turn in one.turns for answer in turn.answers if answer.call_id in ids}
    became = {each: change(calls[each], answers[each]) for each in ids}
    turns = []
    for turn in one.turns:
        if turn.number > last:
            break
        kept = [became.get(call.id, (call, None)) for call in turn.calls]
        told = [became.get(answer.call_id, (None, answer)) for answer in turn.answers]
        turns.append(
            replace(
                turn, calls=tuple(each[0] for each in kept if each), answers=tuple(each[1] for each in told if each)
            )
        )
    return replace(one, turns=tuple(turns))


def _retargeted(
    call: TranscriptCall, answer: TranscriptAnswer, said: str, acts: list[AuditedAct]
) -> tuple[TranscriptCall, TranscriptAnswer]:
    """The same call on another thing: the id of its target that the message names has other digits everywhere."""
    target = _target(call, acts)
    name = target.strip("#").lower()
    if len(name) < 4 or name not in said or not any(map(str.isdigit, name)):
        return call, answer
    other = "".join(str(9 - int(each)) if each.isdigit() else each for each in target.strip("#"))
    arguments, shown = (_text(each).replace(target.strip("#"), other) for each in (call.arguments, answer.content))
    return replace(call, arguments=_parsed(arguments)), replace(answer, content=_parsed(shown))


def _shown_otherwise(
    call: TranscriptCall, answer: TranscriptAnswer, said: str, acts: list[AuditedAct]
) -> tuple[TranscriptCall, TranscriptAnswer]:
    """The same call whose answer shows another value, of the first text argument that answer and message both have."""
    shown, target = _text(answer.content), _target(call, acts)
    for value in _object(call.arguments).values():
        if value == target:
            continue
        if isinstance(value, str) and len(value) > 3 and value.lower() in said and f'"{value}"' in shown:
            other = "".join(str(9 - int(each)) if each.isdigit() else each for each in value)
            other = other if other != value else value[::-1]
            return call, replace(answer, content=_parsed(shown.replace(f'"{value}"', f'"{other}"')))
    return call, answer


def _recounted(
    call: TranscriptCall, answer: TranscriptAnswer, said: str, other: Callable[[float], float]
) -> tuple[TranscriptCall, TranscriptAnswer]:
    """The same call whose answer shows another number, where the message states it as an amount."""
    content = _object(answer.content)
    for name, value in content.items():
        if isinstance(value, float) and value and f"${abs(value):.2f}" in said:
            changed = {**content, name: round(other(value), 2)}
            return call, replace(answer, content=changed)
    return call, answer


def _target(call: TranscriptCall, acts: list[AuditedAct]) -> str:
    return next(act.verdict.target_resource for act in acts if act.call.id == call.id).partition("/")[2]


def _object(value: Any) -> Mapping[str, Any]:
    found = _parsed(value)
    return found if isinstance(found, Mapping) else {}


def _parsed(value: Any) -> Any:
    """What a text of JSON holds; anything else as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
