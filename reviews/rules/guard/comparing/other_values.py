"""Other values: claims that a success bears out but for a value that they name (C-15).

1. A claim that something was done, or is under way, is read with what stands beside it, and each of its actions is
   compared slot by slot (`substitution`); where all of them hold other values, it is about another target.
2. A sentence in which no claim was found tells of an action all the same where it names enough of what the action
   holds ("Mr Novak has editor rights on payroll_agg"); it counts only where it names another value. A question, a
   condition, a denial and a possibility tell nothing, and what a reading names as well may have been read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.binding.relating import related
from reviews.rules.guard.codes import Kind, Violation, is_settled_well
from reviews.rules.guard.comparing.naming import lists
from reviews.rules.guard.comparing.scope import scope
from reviews.rules.guard.comparing.slots import Told
from reviews.rules.guard.comparing.substitution import RULES, Rule, substituted
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.states import MENTION
from reviews.rules.guard.records import Ground, Record
from reviews.rules.guard.text.folding import Folded
from reviews.rules.guard.text.segments import Sentence
from reviews.rules.guard.text.text import Text
from reviews.rules.guard.text.values import leaves, values
from reviews.rules.guard.words.language import english


def with_other_values(judged: list[tuple[Claim, Bound]], text: Text, ground: Ground) -> list[tuple[Claim, Bound]]:
    """The claims, those that a success bears out but for the value that they name as WRONG_TARGET (rules 1 and 2)."""
    done = [record for record in ground.records if record.tool not in ground.reading and is_settled_well(record)]
    if not done:
        return judged
    message, folded, read, ends = text.message, text.folded, text.sentences, text.spans
    told = Told("", text.lower, _all_held(ground), "")
    starts = sorted({claim.start for claim, _ in judged})
    made: list[tuple[Claim, Bound]] = []
    for claim, bound in judged:
        if _may_differ(claim, bound, done):
            at = bisect_left(starts, claim.end)
            until = starts[at] if at < len(starts) else len(message)
            words = scope(message, claim.start, until if claim.whole else claim.end, ends, until)
            bound = _compared(bound, told, words)
        made.append((claim, bound))
    taken = [(claim.start, claim.end) for claim, bound in made if claim.rule != MENTION or bound.code is not None]
    quiet = [each for each, span in zip(read, ends, strict=True) if _tells(each, folded) and not _is_taken(span, taken)]
    return made + [found for each in quiet for found in _untold(each, folded, message, told, done, ground)]


def _compared(bound: Bound, told: Told, words: str, rules: tuple[Rule, ...] = RULES) -> Bound:
    about = replace(told, about=words.lower(), shown=words)
    found = [substituted(record, about, rules) for record in bound.records]
    if not all(found):
        return bound
    detail = f"The success on record has another value ({found[0]})."
    return replace(bound, code=Violation.WRONG_TARGET, detail=detail)


def _is_taken(span: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in taken)


def _tells(sentence: Sentence, folded: Folded) -> bool:
    """Whether a sentence may tell of something (rule 2)."""
    if sentence.question or sentence.block.fenced or sentence.end - sentence.start > LONGEST:
        return False
    words = _WORDS.findall(folded.lower[sentence.start : sentence.end].replace("n't", " not"))
    sets = english().sets
    if not words or words[0] in sets["conditional_starts"] or words[0] in sets["planning"]:
        return False
    return _silencing().isdisjoint(words)


@cache
def _silencing() -> frozenset[str]:
    """The words of a denial, a possibility, a condition and of what was so before."""
    sets = english().sets
    return (sets["negators"] | sets["modals"] | sets["conditional"] | PAST) - {"without", "since", "until"}


PAST = frozenset({"was", "were", "had", "originally", "previously"})
ONE_BY_ONE = tuple(rule for rule in RULES if rule is not lists)
"""Where no claim was found, a list may have members of another kind."""
LONGEST = 240
ENOUGH = 4
"""So much of what an action holds must a sentence name to tell of it."""
_WORDS = re.compile(r"[a-z]+")


def _untold(
    sentence: Sentence, folded: Folded, message: str, told: Told, done: list[Record], ground: Ground
) -> Iterator[tuple[Claim, Bound]]:
    """The claim of a sentence without one that names another value of the action that it tells of (rule 2)."""
    start, end = folded.span(sentence.start, sentence.end)
    quote, language = message[start:end], english()
    small = folded.lower[sentence.start : sentence.end]
    words = frozenset(_WORDS.findall(small))
    claim = Claim(
        start,
        end,
        quote,
        Kind.DONE,
        "another value",
        verbs=frozenset(lemma for word in words for lemma in language.lemmas(word)) - language.sets["inert"],
        nouns=frozenset(map(language.singular, words)) - language.stop,
        words=words,
        values=values(small),
    )
    scored = [(related(claim, record, ground), record) for record in done]
    best = max(score for score, _ in scored)
    reads = [each for each in ground.records if each not in done]
    if best < ENOUGH or any(related(claim, each, ground) >= ENOUGH for each in reads):
        return
    named = tuple(record for score, record in scored if score == best)
    bound = _compared(Bound(None, named), told, quote, ONE_BY_ONE)
    if bound.code is not None:
        yield claim, bound


def _may_differ(claim: Claim, bound: Bound, done: list[Record]) -> bool:
    """Whether a claim of something done is borne out by an action that changed something."""
    if claim.kind not in {Kind.DONE, Kind.ONGOING} or bound.code is not None or not bound.records or claim.state:
        return False
    return all(record in done for record in bound.records)


def _all_held(ground: Ground) -> str:
    return "\n".join(" ".join(_texts(record)) for record in ground.records).lower()


def _texts(record: Record) -> Iterator[str]:
    yield record.target
    yield from (f"{name} {leaf}" for name, leaf in leaves(record.arguments))
    yield from (*record.evidence, record.reason, *record.done, *record.open)
