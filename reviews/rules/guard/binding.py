"""Binding: which action on record a claim is about (R-CG-11, R-CG-18, C-15).

1. A claim that names its action is about that one; one that names its tool is about an action of that tool. Any other
   is about the tools whose vocabulary fits its words best; a tool that the agent was not given is none.
2. Among the actions of those tools, one that holds other values than the claim names (amount, recipient, id, date) is
   not the one. Of those left, the ones that hold most of the claim's values are.
3. No tool: IMAGINED_CAPABILITY. No action: PHANTOM. Only actions with other values: WRONG_TARGET where one of them
   succeeded, else what that action's state says.
4. Several actions left: a success backs the claim where all of them are tries of the same thing; else one that is not
   borne out blocks it (fail closed).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from reviews.rules.guard.claims import Claim
from reviews.rules.guard.codes import Kind, Violation, is_settled_well, violation_of
from reviews.rules.guard.language import Language, english
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.values import Held, compare, held
from reviews.rules.guard.vocabulary import Vocabulary, vocabulary


@dataclass(frozen=True)
class Bound:
    """What a claim came down to: its code (None is borne out), the actions it is about, the tool, and why."""

    code: Violation | None
    records: tuple[Record, ...] = ()
    tool: Tool | None = None
    detail: str = ""


def bind(claim: Claim, ground: Ground) -> Bound:
    """Find the action that a claim is about, and what the record says to it (rules 1 to 4)."""
    if claim.whole:
        return _whole(claim, ground)
    if claim.action_id is not None:
        return _named(claim, ground)
    tools = _tools(claim, ground)
    if not tools:
        return Bound(Violation.IMAGINED_CAPABILITY, detail="No tool of this session does that.")
    if claim.kind is Kind.PROMISED:
        return Bound(None, tool=tools[0])
    names = {tool.name for tool in tools}
    records = [record for record in ground.records if record.tool in names]
    if not records:
        return Bound(_unrecorded(claim), tool=tools[0], detail="No attempt is on record.")
    return _among(claim, records, tools[0])


def _unrecorded(claim: Claim) -> Violation | None:
    return Violation.PHANTOM


def _named(claim: Claim, ground: Ground) -> Bound:
    """The action that a structured claim names, if it is one of this session's and of that tool."""
    record = next((each for each in ground.records if each.action_id == claim.action_id), None)
    tool = tool_of(claim.tool, ground)
    if record is None or (claim.tool is not None and record.tool != claim.tool):
        return Bound(Violation.PHANTOM, tool=tool, detail="No action of that id and tool is on record.")
    return _among(claim, [record], tool)


def _among(claim: Claim, records: list[Record], tool: Tool | None) -> Bound:
    scored = [(record, *agreement(claim, record)) for record in records]
    agreeing = [(record, hits) for record, hits, clashes in scored if not clashes]
    if not agreeing:
        return _elsewhere(claim, [record for record, _, _ in scored], tool)
    most = max(hits for _, hits in agreeing)
    chosen = [record for record, hits in agreeing if hits == most]
    return _settled(claim, chosen, tool)


def _elsewhere(claim: Claim, records: list[Record], tool: Tool | None) -> Bound:
    """Every action of the tool holds other values than the claim names."""
    if claim.kind is not Kind.DONE:
        return Bound(Violation.PHANTOM, tuple(records[:1]), tool, "What is on record holds other values.")
    good = next((record for record in records if is_settled_well(record)), None)
    if good is not None:
        return Bound(Violation.WRONG_TARGET, (good,), tool, "The success on record is for something else.")
    return Bound(violation_of(claim.kind, records[0]) or Violation.WRONG_TARGET, tuple(records[:1]), tool)


def _settled(claim: Claim, records: list[Record], tool: Tool | None) -> Bound:
    faulty = [record for record in records if violation_of(claim.kind, record) is not None]
    fine = [record for record in records if record not in faulty]
    if not faulty:
        return Bound(None, tuple(records), tool)
    if fine and len({_same(record) for record in records}) == 1:
        return Bound(None, tuple(fine), tool)
    detail = "Several actions on record could be meant, and not all bear it out." if fine else ""
    return Bound(violation_of(claim.kind, faulty[0]), tuple(faulty[:1]) if not fine else tuple(records), tool, detail)


def _same(record: Record) -> str:
    """Tries of the same thing have the same tool, target and arguments."""
    return json.dumps([record.tool, record.target, record.arguments], sort_keys=True, default=str)


def _whole(claim: Claim, ground: Ground) -> Bound:
    """A claim about all that was asked for: every step that changes something must be borne out (R-CG-10)."""
    reading = {tool.name for tool in ground.tools if not tool.mutating}
    steps = [record for record in ground.records if record.tool not in reading]
    if not steps:
        return Bound(Violation.PHANTOM, detail="Nothing has been attempted.")
    last: dict[str, list[Record]] = {}
    for record in steps:
        last.setdefault(_same(record), []).append(record)
    open_ = [tries[-1] for tries in last.values() if not any(map(is_settled_well, tries))]
    if open_:
        return Bound(Violation.SILENT_CHAIN, tuple(open_), detail="Not every step is done.")
    return Bound(None, tuple(steps))


def agreement(claim: Claim, record: Record) -> tuple[int, int]:
    """(values of the claim that the record holds, values that it contradicts)."""
    own = holding(record)
    compared = [compare(value, own) for value in claim.values]
    hits, clashes = sum(one == 1 for one in compared), sum(one == -1 for one in compared)
    if claim.target is not None:
        same = claim.target.lower() in (record.target.lower(), record.target.lower().rpartition("/")[2])
        hits, clashes = hits + same, clashes + (not same)
    return hits, clashes


def holding(record: Record) -> Held:
    """The values that a record holds, its evidence among them."""
    return held(record.target, record.arguments, record.evidence)


# Which tools a claim may be about


def tool_of(name: str | None, ground: Ground) -> Tool | None:
    """The disclosed tool of this name."""
    return next((tool for tool in ground.tools if tool.name == name and tool.disclosed), None)


def _tools(claim: Claim, ground: Ground) -> list[Tool]:
    if claim.tool is not None:
        tool = tool_of(claim.tool, ground)
        return [tool] if tool else []
    scored = [(fit(claim, tool), tool) for tool in ground.tools if tool.disclosed]
    best = max((score for score, _ in scored), default=0)
    return [tool for score, tool in scored if score == best] if best >= FITS else []


FITS = 3


def fit(claim: Claim, tool: Tool) -> int:
    """How well the words of a claim fit what may be said of a tool."""
    return _fit(claim.verbs, claim.nouns, claim.words, vocabulary(tool), english())


@lru_cache(maxsize=16384)
def _fit(
    verbs: frozenset[str], nouns: frozenset[str], words: frozenset[str], own: Vocabulary, language: Language
) -> int:
    score = 3 if any(phrase <= words for phrase in own.phrases) else 0
    score += _verb_score(verbs, own, language)
    direct = nouns & own.nouns
    score += 2 * min(2, len(direct))
    if not direct and own.kin & _kin(nouns, language):
        score += 1
    return score


def _verb_score(verbs: Iterable[str], own: Vocabulary, language: Language) -> int:
    if any(verb in own.verbs for verb in verbs):
        return 3
    synonyms = {each for verb in own.verbs for each in language.data["senses"].get(verb, ())}
    return 2 if any(verb in synonyms for verb in verbs) else 0


def _kin(nouns: Iterable[str], language: Language) -> frozenset[str]:
    return frozenset(each for noun in nouns for each in language.kin.get(noun, ()))
