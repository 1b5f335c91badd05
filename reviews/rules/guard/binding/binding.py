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

from dataclasses import replace

from reviews.rules.guard.binding.agreeing import among, is_open
from reviews.rules.guard.binding.beyond import imagined, is_about, unknown
from reviews.rules.guard.binding.bound import Bound, no_tool
from reviews.rules.guard.binding.candidates import candidates
from reviews.rules.guard.binding.fitting import FITS, SURE, fit, verb_score
from reviews.rules.guard.binding.imagined import UNSPOKEN, is_no_act
from reviews.rules.guard.binding.relating import has_read, holding, is_mutating, related, tool_of
from reviews.rules.guard.binding.sums import whole
from reviews.rules.guard.binding.unaccounted import bears_nothing, is_reported, missing
from reviews.rules.guard.binding.untried import untried
from reviews.rules.guard.binding.weak import weak
from reviews.rules.guard.codes import Kind, Violation, is_settled_well
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.failures import STOPPED
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.telling.excuses import excused
from reviews.rules.guard.text.values import compare, id_key
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary


def bind(claim: Claim, ground: Ground) -> Bound | None:
    """What a claim comes down to (rules 1 to 4); None: it is no claim, or the words beside it tell it honestly."""
    if _sends_request(claim, ground):
        claim = replace(claim, verbs=frozenset({"request"}), perfect=False)
    bound = _bound(claim, ground)
    if bound is None and (tool := untried(claim, ground)):
        return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.")
    if is_reported(claim) and (bound is None or (bound.code is None and bears_nothing(bound.records, ground))):
        bound = _unaccounted(claim, ground)
    if bound is not None and bound.code is None and _is_no_reading(claim, bound, ground):
        bound = no_tool()
    if bound is not None and bound.code is None and _lists_another(claim, bound, ground):
        bound = replace(bound, code=Violation.WRONG_TARGET, detail="What is on record is not for all that is named.")
    return None if bound is not None and excused(bound.code, claim.beside) else bound


def _sends_request(claim: Claim, ground: Ground) -> bool:
    """ "I sent the request", "the request has been sent": it asks for what is still open."""
    asks = claim.kind is Kind.DONE and "request" in claim.nouns and bool(claim.verbs) and claim.verbs <= _SENDS
    return asks and any(map(is_open, ground.records))


def _is_no_reading(claim: Claim, bound: Bound, ground: Ground) -> bool:
    """ "I applied a discount to your order": what the speaker says that it did, and only readings of its things are."""
    if claim.kind is not Kind.DONE or claim.rule != "I have done" or not claim.verbs or not bound.records:
        return False
    sets = english().sets
    if claim.verbs <= sets["looks"] | sets["generic"] | sets["inert"] or not bears_nothing(bound.records, ground):
        return False
    tools = [tool_of(record.tool, ground) for record in bound.records]
    if any(tool and verb_score(claim.verbs, vocabulary(tool)) for tool in tools) or is_no_act(claim):
        return False
    return not any(related(claim, each, ground) for each in ground.records if is_mutating(each, ground))


def _unaccounted(claim: Claim, ground: Ground) -> Bound | None:
    """A result that nothing on record accounts for."""
    tool, about = missing(claim, ground)
    if about:
        return None
    if tool is None:
        return no_tool() if claim.ours or _is_sent_to_reader(claim) else None
    return Bound(Violation.PHANTOM, tool=tool, detail="No attempt is on record.")


_SENT = frozenset({"send", "email", "mail", "text"})
_LETTERS = frozenset({"confirmation", "email", "sms", "text", "message", "letter", "notification", "invitation"})


def _is_sent_to_reader(claim: Claim) -> bool:
    """ "A confirmation email has been sent to you": the reader would have it, and nobody sent it."""
    return claim.verbs <= _SENT and "you" in claim.words and bool(claim.nouns & _LETTERS)


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
        return whole(claim, ground)
    if claim.action_id is not None:
        return _named(claim, ground)
    return _cited(claim, ground) or _meant(_asked_for(claim, ground), ground)


def _meant(claim: Claim, ground: Ground) -> Bound | None:
    """The action that a claim in words is about."""
    if claim.weak:
        return weak(claim, ground)
    tools = candidates(claim, ground)
    if claim.verbs and claim.verbs <= english().sets["looks"] and _is_by_people(claim):
        watched = claim.kind is Kind.ONGOING and any(map(is_open, ground.records))
        return None if watched else no_tool()
    if claim.kind is Kind.FAILED:
        return _told_failed(claim, tools, ground)
    if not tools:
        return unknown(claim, ground) if claim.tool is None else no_tool()
    if claim.kind is Kind.PROMISED:
        if not any(_may_promise(claim, tool) for tool in tools):
            return no_tool()
        vague = claim.verbs <= english().sets["generic"] and not is_about(claim, tools)
        return imagined(claim, ground) if vague else Bound(None, tool=tools[0])
    names = {tool.name for tool in tools}
    records = [record for record in ground.records if record.tool in names]
    return among(claim, records, tools[0]) if records else _unrecorded(claim, tools[0], ground)


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
    vague = bool(claim.verbs & REQUESTS) or fit(claim, tool) < SURE or not claim.nouns & vocabulary(tool).nouns
    if claim.kind is Kind.ONGOING and vague and any(map(is_open, ground.records)):
        return None
    if claim.verbs <= english().sets["looks"] and has_read(ground) and not _is_that_read(claim, tool, ground):
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
            return among(claim, [record], tool)
    return None


REQUESTS = english().sets["requests"] | {"put"}
_SENDS = frozenset({"send", "make", "place", "pass", "post", "file"})


def _told_as_current(claim: Claim, ground: Ground) -> Bound | None:
    """A condition that is told as current rests on the reading that names it; a fresh one bears it out."""
    stale = [record for record in ground.reads if record.stale]
    fresh = [record for record in ground.reads if not record.stale]
    best = max(stale, key=lambda record: related(claim, record, ground))
    changes = [related(claim, record, ground) for record in ground.records if is_mutating(record, ground)]
    if max(changes, default=0) > related(claim, best, ground):
        return None
    if any(related(claim, record, ground) >= max(1, related(claim, best, ground)) for record in fresh):
        return None
    return Bound(Violation.STALE_STATE, (best,), detail="The reading that this rests on is out of date.")


def _cited(claim: Claim, ground: Ground) -> Bound | None:
    """A claim that stands before a receipt of an action, or names it, is about that action."""
    named = [value for value in claim.values if value.sort == "id" and claim.kind is Kind.DONE]
    for value in (*named, *claim.cited):
        for record in ground.records:
            if value.key in _receipts(record):
                others = {key for other in ground.records if other is not record for key in _receipts(other)}
                own = replace(claim, cited=tuple(each for each in claim.cited if each.key not in others))
                return among(own, [record], tool_of(record.tool, ground))
    return None


def _receipts(record: Record) -> set[str]:
    return {id_key(each) for each in record.evidence}


def _asked_for(claim: Claim, ground: Ground) -> Claim:
    """What was requested, lodged or put forward is under way, where a request is not all that the tool does."""
    if claim.kind is not Kind.DONE or not claim.verbs & REQUESTS:
        return claim
    asks = {"forward", "approval", "request"} & claim.words
    for tool in candidates(claim, ground):
        own = vocabulary(tool)
        said = own.verbs | {each for verb in own.head for each in english().data["senses"].get(verb, ())}
        if claim.verbs & said and (not asks or own.verbs & {"request", "submit", "forward"}):
            return claim
    return replace(claim, kind=Kind.ONGOING)


def _told_failed(claim: Claim, tools: list[Tool], ground: Ground) -> Bound | None:
    names = {tool.name for tool in tools if tool.mutating}
    records = [record for record in ground.records if record.tool in names]
    if not records:
        return weak(claim, ground)
    if claim.rule == STOPPED and any(verb_score(claim.verbs, vocabulary(tool)) for tool in tools):
        # "pm_31 stopped": what sounds like a failure is what the tool does.
        claim = replace(claim, kind=Kind.DONE)
    return among(claim, records, tools[0])


def _named(claim: Claim, ground: Ground) -> Bound | None:
    """The action that a structured claim names, if it is one of this session's and of that tool."""
    record = next((each for each in ground.records if each.action_id == claim.action_id), None)
    tool = tool_of(claim.tool, ground)
    if record is None or (claim.tool is not None and record.tool != claim.tool):
        return Bound(Violation.PHANTOM, tool=tool, detail="No action of that id and tool is on record.")
    return among(claim, [record], tool)
