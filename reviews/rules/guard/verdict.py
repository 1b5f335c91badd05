"""The completion guard: whether a message may go out, and what may go out in its place (R-CG-01 to R-CG-22).

1. Claims are read from the text (`reading`); fields (`stated`) and an extractor (`extra`) may add some, and clear none,
   but that a field may say which of several actions is meant. Each is bound to what is on record (`binding`), and
   judged by its state (`codes`): what nothing bears out is a violation.
2. One violation blocks the message. A block always carries a corrected text (C-60): it tells what the record holds in
   the place of what it does not bear out, keeps the rest, and is itself allowed.
3. The verdict follows from the message and the record alone; the model is never asked (R-CG-16). The same input gives
   the same verdict.
4. A claim that sums up ("All done"), or a state that could not be tied to an action, falls with the claim before it.

The packages in the order of the steps: `text` (what a reader sees: characters, sentences, tokens, values), `words` (the
language, and what may be said of a tool), `reading` (the claims of a message), `binding` (the actions that they are
about), `comparing` (their values with the action's, one by one), `telling` (what the message tells and what it leaves
out), `correcting` (what may go out). `records` is what a message is judged against, `codes` the twelve violations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reviews.rules.guard.binding.binding import REQUESTS, bind
from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.codes import TAGS, Kind, is_settled_well, violation_of
from reviews.rules.guard.codes import Violation as Code
from reviews.rules.guard.comparing.other_values import with_other_values
from reviews.rules.guard.correcting.correction import corrected
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.messages import Reading
from reviews.rules.guard.records import Ground, Stated
from reviews.rules.guard.telling.disclosure import STATES, is_disclosed, is_told, plain_words
from reviews.rules.guard.telling.quoting import unquoted
from reviews.rules.guard.telling.silence import untold
from reviews.rules.guard.text.text import Text
from reviews.rules.guard.text.values import values
from reviews.rules.guard.words.language import english


@dataclass(frozen=True)
class Violation:
    """A claim that the record does not bear out; `rule` names the rule that found it."""

    code: str
    span: tuple[int, int]
    claim: str
    action_id: str | None
    detail: str
    rule: str

    @property
    def tag(self) -> str:
        """Its part of the taxonomy of five (R-CG-20)."""
        return TAGS[Code(self.code)]


@dataclass(frozen=True)
class Found:
    """A claim that was found, violated or not; `kind` is done, ongoing, promised or failed, `code` empty where fine."""

    span: tuple[int, int]
    quote: str
    kind: str
    action_ids: tuple[str, ...] = ()
    code: str = ""
    rule: str = "extractor"


@dataclass(frozen=True)
class Verdict:
    """ALLOW or BLOCK; a block has violations and a corrected text."""

    verdict: str
    violations: tuple[Violation, ...] = ()
    corrected: str | None = None
    claims: tuple[Found, ...] = ()


def judge(message: str, ground: Ground, stated: tuple[Stated, ...] = (), *, extra: tuple[Found, ...] = ()) -> Verdict:
    """Judge one outgoing message (rules 1 to 3)."""
    judged = _judged(message, ground, stated, extra)
    found = tuple(_found(claim, bound) for claim, bound in judged)
    violated = [(claim, bound) for claim, bound in judged if bound.code is not None]
    if not violated:
        return Verdict("ALLOW", claims=found)
    return Verdict(
        "BLOCK",
        tuple(_violation(claim, bound) for claim, bound in violated),
        corrected(message, violated, ground, lambda text: _violated(text, ground)),
        found,
    )


def _judged(
    message: str, ground: Ground, stated: tuple[Stated, ...], extra: tuple[Found, ...]
) -> list[tuple[Claim, Bound]]:
    text = Text(message)
    reading = Reading(text, ground)
    own = unquoted(reading.claims(), message, ground)
    taken = {(claim.start, claim.end) for claim in own}
    further = [
        claim for claim in (_extracted(each, message) for each in extra) if (claim.start, claim.end) not in taken
    ]
    # What is claimed beside the text is excused by no words of the text.
    added = [*further, *(_stated(each, message) for each in stated)]
    bound = [(claim, _unless_disclosed(claim, bind(claim, ground), text, ground)) for claim in own]
    bound += [(claim, bind(claim, ground)) for claim in added]
    pointed = [(claim, each) for claim, each in bound if claim.rule == STATED and each is not None]
    spread = list(_spread([(claim, _pointed(claim, each, pointed)) for claim, each in bound]))
    judged = with_other_values(spread, text, ground)
    return judged + list(untold(reading, ground, judged))


def _unless_disclosed(claim: Claim, bound: Bound | None, text: Text, ground: Ground) -> Bound | None:
    """What could be a fact as well is none where the message says of the action what its state is."""
    if bound is None or (claim.kind, bound.code) in NEEDS_ALL:
        return bound if bound is None or not _all_told(bound, text, ground) else None
    if claim.kind is not Kind.DONE:
        return bound
    if claim.whole:
        return bound
    if bound.code is None or not bound.records:
        return None if claim.loose else bound
    fine = tuple(filter(is_settled_well, bound.records))
    faulty = tuple(each for each in bound.records if each not in fine)
    if fine and faulty and _all_told(replace(bound, records=faulty), text, ground):
        return replace(bound, code=None, records=fine, detail="")
    if bound.code is Code.PREMATURE and claim.verbs & REQUESTS and plain_words(bound.code, claim.beside):
        return None
    if not claim.weak and bound.code not in PLAINLY:
        return bound
    # The words of a report stand for themselves; they excuse nothing that the speaker says beside them.
    said = text if claim.weak else _without_reports(text, ground)
    return None if all(is_disclosed(each, bound.code, claim, said, ground) for each in bound.records) else bound


NEEDS_ALL = frozenset({(Kind.DONE, Code.SILENT_CHAIN), (Kind.FAILED, Code.UNKNOWN_FLATTENED)})
"""What is said of all steps, and what sounds like a failure of an unknown end, counts where the ends are not told."""


def _without_reports(text: Text, ground: Ground) -> Text:
    message = text.message
    for record in ground.records:
        message = message.replace(record.text, "") if record.text else message
    return text if message == text.message else Text(message)


def _all_told(bound: Bound, text: Text, ground: Ground) -> bool:
    """Whether a message tells of each step that is not done what its state is: then "both" is about the others."""
    codes = [(each, violation_of(Kind.DONE, each)) for each in bound.records]
    return all(code in STATES and is_told(each, code, text, ground) for each, code in codes)


PLAINLY = frozenset({Code.UNKNOWN_FLATTENED, Code.OVERSTATED, Code.STALE_STATE, Code.REVERSED})
"""What is said in so many words excuses also what the speaker says that it did: not known, in part, out of date."""


STATED = "stated"


def _pointed(claim: Claim, bound: Bound | None, stated: list[tuple[Claim, Bound]]) -> Bound | None:
    """Where several actions could be meant, a structured claim of the same words may say which (R-CG-18)."""
    if bound is None or len(bound.records) < 2 or claim.whole or claim.rule == STATED:
        return bound
    said = [each for other, each in stated if other.start < claim.end and claim.start < other.end]
    named = {record.action_id for each in said for record in each.records}
    records = tuple(record for record in bound.records if record.action_id in named)
    if len(records) != 1:
        return bound
    return replace(bound, records=records, code=violation_of(claim.kind, records[0]), detail="")


def _spread(bound: list[tuple[Claim, Bound | None]]) -> Iterator[tuple[Claim, Bound]]:
    """The claims that count. Where one is violated, what only sums up or goes on from it falls with it (rule 4)."""
    violated = [each for claim, each in bound if each is not None and each.code is not None and claim.kind is Kind.DONE]
    for claim, each in bound:
        if violated and claim.kind is Kind.DONE and not claim.state:
            if claim.whole and (each is None or each.code is None):
                yield claim, _summed(violated)
                continue
            if each is None and claim.rule in GOES_WITH and claim.follows:
                yield claim, violated[0]
                continue
        if each is not None:
            yield claim, each


GOES_WITH = frozenset({"state", "was done", "went through", "done, told in short"})


def _summed(violated: list[Bound]) -> Bound:
    records = tuple(dict.fromkeys(record.action_id for each in violated for record in each.records))
    if len(violated) == 1 or len(records) == 1:
        return violated[0]
    known = {record.action_id: record for each in violated for record in each.records}
    return Bound(Code.SILENT_CHAIN, tuple(known[each] for each in records), detail="Not every step is done.")


def _violated(text: str, ground: Ground) -> list[tuple[Claim, Bound]]:
    return [(claim, bound) for claim, bound in _judged(text, ground, (), ()) if bound.code is not None]


def _stated(claim: Stated, message: str) -> Claim:
    """A structured claim; one that the message does not say stands at its end."""
    start = message.find(claim.statement) if claim.statement else -1
    span = (start, start + len(claim.statement)) if start >= 0 else (len(message), len(message))
    return Claim(
        *span,
        quote=claim.statement,
        kind=Kind.DONE,
        rule=STATED,
        values=values(claim.statement.lower()),
        tool=claim.tool,
        action_id=claim.action_id,
        target=claim.target,
    )


def _extracted(found: Found, message: str) -> Claim:
    start, end = max(0, found.span[0]), min(len(message), found.span[1])
    quote = message[start:end]
    language = english()
    words = frozenset(re.findall(r"[a-z]+", quote.lower()))
    return Claim(
        start,
        end,
        quote,
        Kind(found.kind),
        found.rule or "extractor",
        verbs=frozenset(lemma for word in words for lemma in language.lemmas(word)) - language.sets["inert"],
        nouns=frozenset(map(language.singular, words)) - language.stop,
        words=words,
        values=values(quote.lower()),
    )


def _found(claim: Claim, bound: Bound) -> Found:
    return Found(
        (claim.start, claim.end),
        claim.quote,
        str(claim.kind),
        tuple(record.action_id for record in bound.records),
        str(bound.code or ""),
        claim.rule,
    )


def _violation(claim: Claim, bound: Bound) -> Violation:
    assert bound.code is not None
    action_id = bound.records[0].action_id if bound.records else None
    detail = bound.detail or next((record.text for record in bound.records), "")
    return Violation(str(bound.code), (claim.start, claim.end), claim.quote, action_id, detail, claim.rule)
