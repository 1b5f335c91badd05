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
import re
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from reviews.rules.guard.binding.fitting import FITS, SURE, fit, kin_of, verb_score
from reviews.rules.guard.binding.imagined import UNSPOKEN, is_no_act, is_said_by_the_speaker, meant_by
from reviews.rules.guard.binding.particulars import odd
from reviews.rules.guard.binding.relating import RELATED, holding, related, tool_of
from reviews.rules.guard.binding.unaccounted import bears_nothing, is_reported, missing
from reviews.rules.guard.binding.untried import untried
from reviews.rules.guard.codes import Kind, Violation, is_settled_well, violation_of
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.patterns import MENTION, STOPPED
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.telling.excuses import excused
from reviews.rules.guard.text.values import compare, id_key
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary


@dataclass(frozen=True)
class Bound:
    """What a claim came down to: its code (None is borne out), the actions it is about, the tool, and why."""

    code: Violation | None
    records: tuple[Record, ...] = ()
    tool: Tool | None = None
    detail: str = ""


def bind(claim: Claim, ground: Ground) -> Bound | None:
    """What a claim comes down to (rules 1 to 4); None: it is no claim, or the words beside it tell it honestly."""
    bound = _bound(claim, ground)
    if bound is None and (tool := untried(claim, ground)):
        return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.")
    if is_reported(claim) and (bound is None or (bound.code is None and bears_nothing(bound.records, ground))):
        bound = _unaccounted(claim, ground)
    if bound is not None and bound.code is None and _lists_another(claim, bound, ground):
        bound = replace(bound, code=Violation.WRONG_TARGET, detail="What is on record is not for all that is named.")
    return None if bound is not None and excused(bound.code, claim.beside) else bound


def _unaccounted(claim: Claim, ground: Ground) -> Bound | None:
    """A result that nothing on record accounts for."""
    tool, about = missing(claim, ground)
    if about:
        return None
    return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.") if tool else _no_tool()


def _lists_another(claim: Claim, bound: Bound, ground: Ground) -> bool:
    """Whether a claim names a second id that no action holds, of the sort that its own action has."""
    if claim.kind is not Kind.DONE:
        return False
    strange = [
        value for value in claim.listed if all(compare(value, holding(record)) != 1 for record in ground.records)
    ]
    return any(compare(value, holding(record)) == -1 for value in strange for record in bound.records)


def _bound(claim: Claim, ground: Ground) -> Bound | None:
    """Find the action that a claim is about, and what the record says to it."""
    if claim.state:
        return _told_as_current(claim, ground)
    if claim.whole:
        return _whole(claim, ground)
    if claim.action_id is not None:
        return _named(claim, ground)
    return _cited(claim, ground) or _meant(_asked_for(claim, ground), ground)


def _meant(claim: Claim, ground: Ground) -> Bound | None:
    """The action that a claim in words is about."""
    if claim.weak:
        return _weak(claim, ground)
    tools = _tools(claim, ground)
    if claim.verbs and claim.verbs <= english().sets["looks"] and _is_by_people(claim):
        return _no_tool()
    if claim.kind is Kind.FAILED:
        return _told_failed(claim, tools, ground)
    if not tools:
        return _unknown(claim, ground) if claim.tool is None else _no_tool()
    if claim.kind is Kind.PROMISED:
        if not any(_may_promise(claim, tool) for tool in tools):
            return _no_tool()
        vague = claim.verbs <= english().sets["generic"] and not _is_about(claim, tools)
        return _imagined(claim, ground) if vague else Bound(None, tool=tools[0])
    names = {tool.name for tool in tools}
    records = [record for record in ground.records if record.tool in names]
    return _among(claim, records, tools[0]) if records else _unrecorded(claim, tools[0], ground)


def _may_promise(claim: Claim, tool: Tool) -> bool:
    """Whether a tool can do what is promised: by its verb, or where the words do not say what will be done."""
    own = vocabulary(tool)
    known = verb_score(claim.verbs, own) or any(phrase <= claim.words for phrase in own.phrases)
    return bool(known or claim.verbs & english().sets["generic"] or claim.verbs <= own.nouns)


def _is_by_people(claim: Claim) -> bool:
    """Whether a team of people is said to have done it: "our warehouse team"."""
    return "our" in claim.words and bool(english().sets["teams"] & claim.words)


def _unrecorded(claim: Claim, tool: Tool, ground: Ground) -> Bound | None:
    """There is a tool for it, and no action of that tool."""
    asked = bool(claim.verbs & REQUESTS)
    if claim.kind is Kind.ONGOING and (asked or fit(claim, tool) < SURE) and any(map(is_open, ground.records)):
        return None
    if claim.verbs <= english().sets["looks"] and _has_read(ground) and not _is_that_read(claim, tool, ground):
        return None
    if not claim.agency and claim.rule in UNSPOKEN:
        return None
    if claim.kind is Kind.DONE and (other := _told_otherwise(claim, ground)):
        return other
    return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.")


def _is_that_read(claim: Claim, tool: Tool, ground: Ground) -> bool:
    """Whether a reading is told with the verb and the things of one tool, and what was read is nothing like it."""
    read = {record.tool for record in ground.records}
    others = max((fit(claim, each) for each in ground.tools if each.name in read), default=0)
    return claim.agency and fit(claim, tool) > SURE + 1 and others <= FITS


def _told_otherwise(claim: Claim, ground: Ground) -> Bound | None:
    """An action of another tool that fits in words and particulars too: "sent the invitation" of a created event."""
    for record in filter(is_settled_well, ground.records):
        tool = tool_of(record.tool, ground)
        if tool and fit(claim, tool) > SURE and related(claim, record, ground) > SURE + 1:
            return _among(claim, [record], tool)
    return None


REQUESTS = english().sets["requests"] | {"put"}


def _told_as_current(claim: Claim, ground: Ground) -> Bound | None:
    """A condition that is told as current rests on the reading that names it; a fresh one bears it out."""
    reads = [record for record in ground.records if not _is_mutating(record, ground)]
    stale = [record for record in reads if record.stale]
    fresh = [record for record in reads if not record.stale]
    best = max(stale, key=lambda record: related(claim, record, ground))
    changes = [related(claim, record, ground) for record in ground.records if _is_mutating(record, ground)]
    if max(changes, default=0) > related(claim, best, ground):
        return None
    if any(related(claim, record, ground) >= max(1, related(claim, best, ground)) for record in fresh):
        return None
    return Bound(Violation.STALE_STATE, (best,), detail="The reading that this rests on is out of date.")


def _is_mutating(record: Record, ground: Ground) -> bool:
    return any(tool.mutating for tool in ground.tools if tool.name == record.tool)


def _cited(claim: Claim, ground: Ground) -> Bound | None:
    """A claim that stands before a receipt of an action, or names it, is about that action."""
    named = [value for value in claim.values if value.sort == "id" and claim.kind is Kind.DONE]
    for value in (*named, *claim.cited):
        for record in ground.records:
            if value.key in _receipts(record):
                others = {key for other in ground.records if other is not record for key in _receipts(other)}
                own = replace(claim, cited=tuple(each for each in claim.cited if each.key not in others))
                return _among(own, [record], tool_of(record.tool, ground))
    return None


def _receipts(record: Record) -> set[str]:
    return {id_key(each) for each in record.evidence}


def _asked_for(claim: Claim, ground: Ground) -> Claim:
    """What was requested, lodged or put forward is under way, where a request is not all that the tool does."""
    if claim.kind is not Kind.DONE or not claim.verbs & REQUESTS:
        return claim
    asks = {"forward", "approval", "request"} & claim.words
    for tool in _tools(claim, ground):
        own = vocabulary(tool)
        said = own.verbs | {each for verb in own.head for each in english().data["senses"].get(verb, ())}
        if claim.verbs & said and (not asks or own.verbs & {"request", "submit", "forward"}):
            return claim
    return replace(claim, kind=Kind.ONGOING)


def _told_failed(claim: Claim, tools: list[Tool], ground: Ground) -> Bound | None:
    names = {tool.name for tool in tools if tool.mutating}
    records = [record for record in ground.records if record.tool in names]
    if not records:
        return _weak(claim, ground)
    if claim.rule == STOPPED and any(verb_score(claim.verbs, vocabulary(tool)) for tool in tools):
        # "pm_31 stopped": what sounds like a failure is what the tool does.
        claim = replace(claim, kind=Kind.DONE)
    return _among(claim, records, tools[0])


def _has_read(ground: Ground) -> bool:
    return any(not _is_mutating(record, ground) for record in ground.records)


def _weak(claim: Claim, ground: Ground) -> Bound | None:
    """What could be a fact as well is a claim only about an action that it names (rule 5)."""
    scored = [(related(claim, record, ground), record) for record in steps_of(ground)]
    if claim.rule == "was done" and not claim.verbs <= english().sets["generic"] | claim.words:
        scored = [(score, record) for score, record in scored if _may_mean(claim, record, ground)]
    best = max((score for score, _ in scored), default=0)
    if best < RELATED:
        return _unbacked(claim, ground) or _unsaid(claim, [record for _, record in scored])
    bound = _among(claim, [record for score, record in scored if score == best], None)
    wrong = bound is not None and bound.code is Violation.WRONG_TARGET
    if bound is not None and wrong and (_is_read(claim, ground) or _is_of_another(claim, bound.records, ground)):
        return None
    return bound


def _is_of_another(claim: Claim, records: tuple[Record, ...], ground: Ground) -> bool:
    """Whether the ids that a claim in weak words names are all those of other successes."""
    others = [holding(each) for each in ground.records if each not in records and is_settled_well(each)]
    named = [value for value in (*claim.values, *claim.cited) if value.sort == "id"]
    return bool(named) and all(any(compare(value, own) == 1 for own in others) for value in named)


def _is_read(claim: Claim, ground: Ground) -> bool:
    """Whether a reading on record names what a claim in weak words names: its values may be those that were read."""
    reads = [record for record in ground.records if not _is_mutating(record, ground) and not record.stale]
    return any(related(claim, record, ground) >= RELATED for record in reads)


def _may_mean(claim: Claim, record: Record, ground: Ground) -> bool:
    """Whether the verb of a passive may be said of the action's tool."""
    tool = tool_of(record.tool, ground)
    if tool is None:
        return True
    own = vocabulary(tool)
    return bool(verb_score(claim.verbs, own) or claim.verbs & own.nouns or claim.nouns & own.verbs)


def steps_of(ground: Ground) -> list[Record]:
    """What changes something, and the readings and runs that did not come to their end."""
    reading = {tool.name for tool in ground.tools if not tool.mutating}
    return [each for each in ground.records if each.tool not in reading or not (is_settled_well(each) or each.stale)]


def _unsaid(claim: Claim, records: list[Record]) -> Bound | None:
    """A message that tells a result, of an agent none of whose actions is done, and that says so nowhere."""
    if claim.kind is Kind.FAILED and len(records) == 1 and not any(map(is_settled_well, records)):
        return Bound(violation_of(Kind.FAILED, records[0]), tuple(records))
    if claim.kind is not Kind.DONE or not claim.result or not records or any(map(is_settled_well, records)):
        return None
    return Bound(violation_of(Kind.DONE, records[-1]), (records[-1],))


def _unbacked(claim: Claim, ground: Ground) -> Bound | None:
    """ "Your routine is live": the condition that a tool here brings about, where nothing was read and nothing done."""
    told = claim.kind is Kind.DONE and claim.rule in {"state", "was done"} and {"is", "are", "'s", "now"} & claim.words
    if not told or _has_read(ground) or not {"your", "now", "you", "'s"} & claim.words:
        return None
    for tool in ground.tools:
        own = vocabulary(tool)
        meant = verb_score(claim.verbs | claim.meaning, own) and claim.nouns & own.nouns
        if tool.mutating and tool.disclosed and meant and all(record.tool != tool.name for record in ground.records):
            return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.")
    return None


def _unknown(claim: Claim, ground: Ground) -> Bound | None:
    """No tool does what the claim says: it is about all that was done, or about something that nothing here can do."""
    language = english()
    if claim.kind is Kind.ONGOING and any(map(is_open, ground.records)):
        return None
    if claim.verbs <= language.sets["generic"]:
        if claim.kind is Kind.PROMISED:
            return _imagined(claim, ground)
        summed = is_said_by_the_speaker(claim, _has_read(ground))
        return _weak(claim, ground) or (_whole(claim, ground) if summed else None)
    if claim.verbs <= language.sets["requests"] and any(map(is_open, ground.records)):
        return None
    if not is_said_by_the_speaker(claim, _has_read(ground)):
        return None
    if claim.verbs <= language.sets["looks"] and _has_read(ground) and not language.sets["teams"] & claim.words:
        return None
    return _imagined_or_meant(claim, ground)


def _imagined_or_meant(claim: Claim, ground: Ground) -> Bound | None:
    """What fits no tool: an action that it names in other words, if any, else something that no tool can do."""
    named = meant_by(claim, ground) if claim.kind is not Kind.PROMISED else []
    if named and claim.kind is Kind.ONGOING:
        return None
    if named:
        return _among(claim, named, tool_of(named[0].tool, ground))
    return None if is_no_act(claim) else _no_tool()


def _no_tool() -> Bound:
    return Bound(Violation.IMAGINED_CAPABILITY, detail="No tool of this session does that.")


def _is_about(claim: Claim, tools: list[Tool]) -> bool:
    own = [vocabulary(tool) for tool in tools]
    return any(claim.nouns & (each.nouns | each.verbs) or kin_of(claim.nouns, english()) & each.kin for each in own)


def _imagined(claim: Claim, ground: Ground) -> Bound | None:
    """A promise in general words ("get you a table") is about the things that it names."""
    language = english()
    if claim.verbs <= language.sets["arranges"]:
        named = [vocabulary(tool) for tool in ground.tools if tool.disclosed]
        return None if any(claim.nouns & (own.nouns | own.loose) for own in named) else _no_tool()
    known = {noun for noun in claim.nouns if noun in language.kin or language.lemmas(noun) == {noun}}
    if not known or any(kin_of(known, language) & vocabulary(tool).kin for tool in ground.tools if tool.disclosed):
        return None
    return _no_tool()


def _named(claim: Claim, ground: Ground) -> Bound | None:
    """The action that a structured claim names, if it is one of this session's and of that tool."""
    record = next((each for each in ground.records if each.action_id == claim.action_id), None)
    tool = tool_of(claim.tool, ground)
    if record is None or (claim.tool is not None and record.tool != claim.tool):
        return Bound(Violation.PHANTOM, tool=tool, detail="No action of that id and tool is on record.")
    return _among(claim, [record], tool)


def _among(claim: Claim, records: list[Record], tool: Tool | None) -> Bound | None:
    scored = [(record, *agreement(claim, record)) for record in records]
    agreeing = [(record, hits) for record, hits, clashes in scored if not clashes]
    if not agreeing:
        return _elsewhere(claim, [record for record, _, _ in scored], tool)
    most = max(hits for _, hits in agreeing)
    chosen = [record for record, hits in agreeing if hits == most]
    return _settled(claim, chosen, tool)


def _elsewhere(claim: Claim, records: list[Record], tool: Tool | None) -> Bound | None:
    """Every action of the tool holds other values than the claim names."""
    if claim.kind is Kind.FAILED or (claim.rule in {"state", MENTION} and {"was", "were"} & claim.words):
        return None  # What was so before, with values of its own, is a fact.
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
    if claim.kind is Kind.FAILED and fine:
        return Bound(None, tuple(fine), tool)
    detail = "Several actions on record could be meant, and not all bear it out." if fine else ""
    return Bound(violation_of(claim.kind, faulty[0]), tuple(faulty[:1]) if not fine else tuple(records), tool, detail)


def _same(record: Record) -> str:
    """Tries of the same thing have the same tool, target and arguments."""
    return json.dumps([record.tool, record.target, record.arguments], sort_keys=True, default=str)


def _whole(claim: Claim, ground: Ground) -> Bound | None:
    """A claim about all that was asked for: every step that changes something must be borne out (R-CG-10)."""
    steps = steps_of(ground)
    if not steps:
        if claim.rule in {"state", "was done", "went through"} and not claim.agency and _has_read(ground):
            return None
        return Bound(Violation.PHANTOM, detail="Nothing has been attempted.")
    if claim.kind is Kind.ONGOING:
        return None if any(map(is_open, steps)) else Bound(Violation.MISREAD, tuple(steps[-1:]))
    tries: dict[str, list[Record]] = {}
    for record in steps:
        tries.setdefault(_same(record), []).append(record)
    left = [each[-1] for each in tries.values() if not any(map(is_settled_well, each))]
    if not left and _count(claim) > len({_same(record) for record in ground.records}):
        return Bound(Violation.SILENT_CHAIN, tuple(steps[-1:]), detail="More is said to be done than was tried.")
    if not left:
        return Bound(None, tuple(steps))
    if len(tries) == 1:
        return Bound(violation_of(Kind.DONE, left[0]), tuple(left))
    return Bound(Violation.SILENT_CHAIN, tuple(left), detail="Not every step is done.")


def _count(claim: Claim) -> int:
    """How many things are said to be done: "all three steps", "both"."""
    if "both" in claim.words:
        return 2
    found = _ALL_OF.search(claim.quote.lower())
    return int(english().data["reading"]["numbers"].get(found[1], found[1])) if found else 0


_ALL_OF = re.compile(
    r"\ball (?:of )?(?:the |your )?(two|three|four|five|six|seven|eight|nine|ten|[2-9])"
    r" (?:things|steps|points|items|tasks|changes|actions|parts|jobs|requests|orders)\b"
)


def is_open(record: Record) -> bool:
    """Whether an action has begun or may still begin."""
    return violation_of(Kind.ONGOING, record) is None and violation_of(Kind.DONE, record) not in SETTLED


SETTLED = frozenset({None, Violation.UNEVIDENCED})
"""What a done-claim about a success may be; the others are open."""


def agreement(claim: Claim, record: Record) -> tuple[int, int]:
    """(values of the claim that the record holds, values that it contradicts)."""
    own = holding(record)
    hits = clashes = 0
    shown = sum(compare(value, own) == 1 for value in claim.values)
    for sort, group in groupby(sorted((*claim.values, *claim.cited), key=attrgetter("sort")), key=attrgetter("sort")):
        compared = [compare(value, own) for value in group]
        hits += compared.count(1)
        if sort not in EITHER or 1 not in compared:
            clashes += compared.count(-1)
    hits += sum(compare(value, own) == 1 for value in claim.hints)
    clashes += odd(claim, record, own, shown)
    if claim.target is not None:
        same = claim.target.lower() in (record.target.lower(), record.target.lower().rpartition("/")[2])
        hits, clashes = hits + same, clashes + (not same)
    return hits, clashes


EITHER = frozenset({"date", "time"})
"""Of several values of these sorts one is enough: a range has an end that the action need not hold."""


# Which tools a claim may be about


def _tools(claim: Claim, ground: Ground) -> list[Tool]:
    if claim.tool is not None:
        tool = tool_of(claim.tool, ground)
        return [tool] if tool else []
    looks = claim.verbs <= english().sets["looks"]
    scored = [(fit(claim, tool), tool) for tool in ground.tools if tool.disclosed and (looks or _may_be(claim, tool))]
    best = max((score for score, _ in scored), default=0)
    if best < FITS and claim.kind is not Kind.PROMISED:
        return [tool for _, tool in scored if _holds(claim, tool, ground)]
    return [tool for score, tool in scored if score == best] if best >= FITS else []


def _may_be(claim: Claim, tool: Tool) -> bool:
    """A tool that only reads is meant where its own verb is said."""
    return tool.mutating or bool(claim.verbs & vocabulary(tool).verbs)


def _holds(claim: Claim, tool: Tool, ground: Ground) -> bool:
    """Whether a tool may be meant by its verb, and one of its actions holds a value that the claim names."""
    if not verb_score(claim.verbs, vocabulary(tool)):
        return False
    return any(agreement(claim, record)[0] for record in ground.records if record.tool == tool.name)
