"""Silence: an action without a good end, and a message that speaks of it and says so nowhere (R-CG-09, R-CG-10).

1. Where the state of an action is disclosed nowhere (`disclosure`), whatever the message plainly states of it is a
   claim that it is done: the statements that name most of what the action holds. Where nothing at all came to a good
   end, it is the first result that the message tells. A message that states nothing of the action claims nothing.
2. What denies the end of an action that nobody knows is told falsely too, unless the message says that it is not known.
3. A try of what another try made good need not be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.binding.fitting import fit, verb_score
from reviews.rules.guard.binding.relating import related, tool_of
from reviews.rules.guard.codes import Kind, Violation, is_settled_well, violation_of
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.messages import Reading
from reviews.rules.guard.records import Ground, Record
from reviews.rules.guard.telling.disclosure import STATES, is_told, is_told_faintly, plain_words
from reviews.rules.guard.text.text import Text
from reviews.rules.guard.words.language import english
from reviews.rules.guard.words.vocabulary import vocabulary

LEAST = 2
"""What a statement must name of an action to speak of it."""
SURELY = 5
"""What it must name to speak of it beside another statement that names more."""
RESULT = frozenset({"now", "already", "has", "have", "is", "are", "'s", "received", "you"})
_DENIED = re.compile(
    r"\b(?:did|was|were|has|have|could|would|will|is|are)(?:n't| not)\b|\bnot (?:been )?[a-z]+(?:ed|nt|ne|wn)\b"
)
_FAILED = re.compile(r"n't\b|\bnot\b|\bturned down\b|\bunable\b|\bfailed\b")
Found = Iterator[tuple[Claim, Bound]]


def untold(reading: Reading, ground: Ground, judged: Sequence[tuple[Claim, Bound]]) -> Found:
    """What a message states of actions whose end it tells nowhere (rules 1 and 2), beside what was judged already."""
    named = [each.records for claim, each in judged if each.code is not None and not claim.whole]
    spoken = {record.action_id for records in named for record in records}
    silent = [each for each in ground.records if _needs_telling(each, ground) and each.action_id not in spoken]
    if not silent:
        yield from _denied_successes(reading, ground)
        return
    said = reading.text
    borne_out = [claim for claim, each in judged if each.code is None and any(map(is_settled_well, each.records))]
    faulted = [claim for claim, each in judged if each.code is not None and not claim.whole]
    stated = [each for each in reading.statements() if not any(_overlap(each, other) for other in faulted)]
    done = [each for each in stated if each.kind is Kind.DONE]
    for record in silent:
        code = violation_of(Kind.DONE, record)
        if code is Violation.UNKNOWN_FLATTENED:
            yield from _denied(stated, record, said, ground)
        if code in STATES and not is_told(record, code, said, ground):
            tool = tool_of(record.tool, ground)
            about = _about(done, borne_out, record, ground) or _result(done, said, ground)
            told = (each for each in about if not is_told_faintly(code, each, tool))
            yield from ((each, Bound(code, (record,), tool)) for each in told)


def _denied_successes(reading: Reading, ground: Ground) -> Found:
    """What denies the end of an action that came to a good one, where none came to a bad one (rule 2, R-CG-21)."""
    changed = [each for each in ground.records if _changes(each, ground)]
    good = [each for each in changed if is_settled_well(each)]
    if not good or len(good) != len(changed) or not _FAILED.search(reading.text.folded.lower):
        return
    for claim in reading.statements(denials=True):
        if claim.kind is not Kind.FAILED or not _DENIED.search(claim.quote.lower()):
            continue
        for record in good:
            tool = tool_of(record.tool, ground)
            if tool and related(claim, record, ground) >= SURELY and verb_score(claim.verbs, vocabulary(tool)):
                yield claim, Bound(Violation.MISREAD, (record,), tool)
                break


def _needs_telling(record: Record, ground: Ground) -> bool:
    """Whether it is an action that changes something, without a good end, that no other try made good (rule 3)."""
    if is_settled_well(record) or not _changes(record, ground):
        return False
    same = (each for each in ground.records if (each.tool, each.target) == (record.tool, record.target))
    return not any(map(is_settled_well, same))


def _changes(record: Record, ground: Ground) -> bool:
    tool = tool_of(record.tool, ground)
    return tool is None or tool.mutating


def _about(stated: list[Claim], borne_out: list[Claim], record: Record, ground: Ground) -> list[Claim]:
    """The statements that name most of what an action holds, and no more of another one."""
    tool = tool_of(record.tool, ground)
    scored = []
    for claim in stated:
        own = related(claim, record, ground)
        rivals = max((related(claim, other, ground) for other in ground.records if other is not record), default=-1)
        if rivals > own or (rivals == own and (own < LEAST or any(_overlap(claim, each) for each in borne_out))):
            continue
        scored.append((own + (fit(claim, tool) if tool else 0), claim))
    most = max((score for score, _ in scored), default=0)
    return [claim for score, claim in scored if score >= LEAST and (score == most or score >= SURELY)]


def _overlap(one: Claim, other: Claim) -> bool:
    return one.start < other.end and other.start < one.end


def _result(stated: list[Claim], said: Text, ground: Ground) -> list[Claim]:
    """Where nothing came to a good end and no end is told, the first result: "Ana can see the logs now"."""
    for each in ground.records:
        code = violation_of(Kind.DONE, each)
        if _changes(each, ground) and (code is None or (code in STATES and is_told(each, code, said, ground))):
            return []
    reads = [each for each in ground.records if not _changes(each, ground)]
    policy = english().sets["policy"]
    results = (each for each in stated if RESULT & each.words and not each.words & policy)
    return [each for each in results if all(related(each, read, ground) < LEAST for read in reads)][:1]


def _denied(stated: list[Claim], record: Record, said: Text, ground: Ground) -> Found:
    """What denies the end of an action that nobody knows (rule 2); that it timed out alone says neither."""
    known = (word for each in said.said for word in plain_words(Violation.UNKNOWN_FLATTENED, each))
    if any(word != "timed out" for word in known):
        return
    for claim in stated:
        denied = claim.kind is Kind.FAILED and _DENIED.search(claim.quote.lower())
        if denied and related(claim, record, ground) >= LEAST:
            yield claim, Bound(Violation.UNKNOWN_FLATTENED, (record,), tool_of(record.tool, ground))
