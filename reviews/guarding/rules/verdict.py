"""The completion guard: finds the sentences that the record contradicts, and replaces them.

1. A sentence gives way only where a citation, a field or a saying contradicts it (`citations`, `stated`, `sayings`);
   the console's own line takes its place. Everything else goes out word for word: questions, offers, plans, apologies,
   failures told as such, quoted words and code are nobody's business (`wording`).
2. What a citation or a stated claim covers is judged by the cited action alone: it is cleared or gives way.
3. Which actions a sentence is about follows from turns (`turns`). Of several it is contradicted where all of them are,
   or where it speaks of all of them, or names each, and one is.
4. A done-word with its object, or with the name of a thing, for which no such action exists at all is the phantom, and
   so is one of a thing that the sentence names by its id and on which the tool was never tried: only where the sentence
   says that it was carried out just now, nothing that was read shows it, and no other change that was made since the
   agent last spoke is to the same kind of thing.
5. A deed (`deeds`) gives way where it can only be a change that failed, where the session has no change at all, and
   where it names a thing that the session never touched. Beside other changes it is noted, and gives way in strict mode
   only. Where not all tools of the agent pass the console, one without a change is only ever noted: the agent may have
   done it elsewhere.
6. An amount told the wrong way round gives way (`payments`). Values that stand nowhere on record (`values`), another
   payment method, a promise of what no tool can do, and a success or an unknown outcome told as a failure are noted:
   the message stays as it is, and the note stands in the receipt.
7. In strict mode a detector says which sentences are reports (`reports`). One that is tied to no action is marked, or
   held back until the agent cites. The detector judges no truth. Where it is held back, a promise of what no tool can
   do and a success or an unknown outcome told as a failure give way too.
8. The verdict follows from the message and the record alone; the model is never asked (R-CG-16). BLOCK means that
   `corrected` goes out instead. What was corrected is itself allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ledger.catalogue.rules.report_templates import DEFAULT_LANGUAGE
from reviews.guarding.rules import replacement, wording
from reviews.guarding.rules.citations import Citation, citations_in, cited_record
from reviews.guarding.rules.codes import TAGS, violation_of
from reviews.guarding.rules.codes import ViolationCode as Code
from reviews.guarding.rules.deeds import Deed, ability_words, verbs_of
from reviews.guarding.rules.effects import Effects
from reviews.guarding.rules.folding import Folded, fold
from reviews.guarding.rules.once import once
from reviews.guarding.rules.payments import other_method, wrong_direction
from reviews.guarding.rules.receipt import Line, receipt_of, status_line
from reviews.guarding.rules.records import Ground, Note, Record, Stated, leaves
from reviews.guarding.rules.replacement import Replacement, rewritten
from reviews.guarding.rules.sayings import Match, holds, phrases_of, sides_of
from reviews.guarding.rules.segments import Sentence, sentences
from reviews.guarding.rules.stated import (
    KnownValues,
    differing_parts,
    foreign_value,
    id_shape,
    names_a_thing,
    other_target,
    places_of,
)
from reviews.guarding.rules.turns import last_changes, last_tries, meant_by, named_in
from reviews.guarding.rules.values import OnRecord, follows_from, stated_values

_QUOTE = re.compile(r'"[^"]{0,2000}"|\u201c[^\u201d]{0,2000}\u201d')
_OPENS_QUOTE = re.compile(r'["\u201c]')
_CLOSES_QUOTE = re.compile(r'[.,;!]?["\u201d]')
FEWEST_QUOTED = 3
"""So many words in quotes are somebody else's; fewer are the speaker's own."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Violation:
    """A sentence that the record contradicts.

    `rule`: citation, stated, field, saying, value, direction, phantom, all, uncited, promise, failure.
    """

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
    """A sentence about an action, contradicted or not; `kind` is done or failed, `code` empty if there is no fault."""

    span: tuple[int, int]
    quote: str
    kind: str
    action_ids: tuple[str, ...] = ()
    code: str = ""
    rule: str = ""


@dataclass(frozen=True)
class MessageVerdict:
    """ALLOW or BLOCK. `corrected` is the text to send instead: always after BLOCK, and after filling in citations.

    `notes` change nothing in the message; they stand in its receipt.
    """

    verdict: str
    violations: tuple[Violation, ...] = ()
    corrected: str | None = None
    claims: tuple[Found, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Strictness:
    """Strict mode: the positions of a message's reports, and the treatment of uncited ones: `mark` or `hold`."""

    reports: tuple[tuple[int, int], ...]
    uncited: str


@dataclass(frozen=True, slots=True)
class _Said:
    """One sentence that is the speaker's own: folded in lower case, and its span in the message."""

    text: str
    span: tuple[int, int]
    at: int = 0
    """Start offset in the folded text."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """The finding on a sentence; `line` is its replacement, if it has one."""

    said: _Said
    records: tuple[Record, ...]
    rule: str
    code: Code | None = None
    line: str = ""
    kind: str = "done"


def judge(
    message: str,
    ground: Ground,
    stated: tuple[Stated, ...] = (),
    *,
    strict: Strictness | None = None,
    language: str = DEFAULT_LANGUAGE,
) -> MessageVerdict:
    """Judge one outgoing message (rules 1 to 8); `language` is that in which the agent writes."""
    cited = tuple(citations_in(message, ground))
    judging = _Judging(message, ground, cited, stated, strict, language)
    if not cited and not stated and strict is None and not judging.may_find:
        return MessageVerdict("ALLOW")
    findings = tuple(judging.findings())
    changes = [Replacement(each.said.span, each.line, True) for each in findings if each.code is not None]
    changes += [Replacement(each.span, each.text, False) for each in cited if each.text is not None]
    changes += [_mark_end(each.said.span) for each in findings if each.rule == UNCITED and each.code is None]
    claims = tuple(_claim(each, message) for each in findings)
    violations = tuple(_violation(each, message) for each in findings if each.code is not None)
    corrected = rewritten(message, changes) if changes else None
    return MessageVerdict("BLOCK" if violations else "ALLOW", violations, corrected, claims, tuple(judging.notes))


@dataclass
class _Judging:
    message: str
    ground: Ground
    cited: tuple[Citation, ...]
    stated: tuple[Stated, ...]
    strict: Strictness | None = None
    language: str = DEFAULT_LANGUAGE
    folded: Folded = field(init=False)
    notes: list[Note] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.folded = _without_quotes(fold(self.message))
        self.phrases = phrases_of(self.ground.tools)
        self.known = KnownValues(self.ground)
        self.tries = last_changes(self.ground)
        self.differing = tuple(each for each in self.tries if each.differing)
        self.new = tuple(each for each in self.tries if each.is_new)
        self.verbs = verbs_of(self.language)
        self.effects = Effects.of(self.ground)
        self.on_record = OnRecord(self.ground, self.effects)

    @property
    def may_find(self) -> bool:
        """Return whether anything here could contradict the message; otherwise its sentences need not be examined."""
        return bool(self.differing or self.new or self.has_phrases or self.may_report or self.may_promise)

    @once
    def has_phrases(self) -> bool:
        """Return whether any words of a contract stand in the message."""
        return self.phrases.may_stand_in(self.folded.lower)

    @once
    def may_report(self) -> bool:
        """Return whether any deed may stand in the message."""
        return self.verbs is not None and self.verbs.may_report(self.folded.lower, strict=self.strict is not None)

    @once
    def may_promise(self) -> bool:
        """Return whether any promise may stand in the message."""
        return self.verbs is not None and self.verbs.may_promise(self.folded.lower)

    @once
    def tells_failure(self) -> bool:
        """Return whether any failure may be told in the message."""
        return wording.tells_failure(self.folded.lower)

    @once
    def faulty(self) -> tuple[Record, ...]:
        """The changes since the agent's last message that are not done."""
        return tuple(each for each in self.tries if each.is_new and violation_of(each) is not None)

    def findings(self) -> Iterator[_Finding]:
        """Yield the findings sentence by sentence, then the stated claims that no sentence makes."""
        covered = list(self._stated_findings())
        yield from covered
        spans = [each.said.span for each in covered if each.code is not None or each.said.span[0] < each.said.span[1]]
        for each in sentences(self.folded):
            span = self.folded.span(each.start, each.end)
            said = _Said(self.folded.lower[each.start : each.end], span, each.start)
            if any(start < said.span[1] and said.span[0] < end for start, end in spans):
                continue
            found = self._finding(said, each)
            if found is not None and found.code is not None and self._is_told(said):
                continue
            if found is None or found.code is None:
                self._note(said, each)
            if found is not None:
                yield found

    def _finding(self, said: _Said, sentence: Sentence) -> _Finding | None:
        cited = [each for each in self.cited if said.span[0] <= each.span[0] < said.span[1]]
        if cited:
            return self._of_citations(said, cited)
        if sentence.question:
            return None
        found = self._of_fields(said) or self._of_sayings(said) or self._of_direction(said) or self._of_all(said)
        if found is None or found.code is None:
            found = self._of_deeds(said) or found
        if found is None or found.code is None:
            found = self._of_unfounded(said) or found
        if found is None and not sentence.block.fenced:
            found = self._of_failure(said)
        return found or self._of_report(said)

    def _of_unfounded(self, said: _Said) -> _Finding | None:
        """A promise or a denial that is only noted otherwise: it gives way where reports are held back (rule 7)."""
        if self.strict is None or self.strict.uncited != "hold":
            return None
        if self._promises_too_much(said):
            return _Finding(said, (), "promise", Code.IMAGINED_CAPABILITY, NO_TOOL)
        record = self._denied_in(said)
        if record is None:
            return None
        return _Finding(said, (record,), "failure", violation_of(record) or Code.MISREAD, self._line(record).text)

    def _of_report(self, said: _Said) -> _Finding | None:
        """Rule 7."""
        if self.strict is None or not any(
            start < said.span[1] and said.span[0] < end for start, end in self.strict.reports
        ):
            return None
        if self.strict.uncited == "hold":
            return _Finding(said, (), UNCITED, Code.UNEVIDENCED, HELD_BACK)
        return _Finding(said, (), UNCITED)

    def _is_told(self, said: _Said) -> bool:
        """Return whether a sentence is the console's own, word for word."""
        return said.text in self.own_words and said.text in self.own_sentences

    @once
    def own_words(self) -> str:
        """The console's own words about each action, in lower case."""
        told = [f"{self._line(each).text}\n{each.tool} on {each.target}: {each.text}" for each in self.tries]
        told.append(receipt_of(self.ground, only_new=False).text)
        return _without_quotes(fold("\n".join(told))).lower

    @once
    def own_sentences(self) -> frozenset[str]:
        """The sentences of the console's own words."""
        folded = Folded(self.own_words, self.own_words, None)
        return frozenset(self.own_words[each.start : each.end] for each in sentences(folded))

    # What the agent itself ties to an action

    def _of_citations(self, said: _Said, cited: Sequence[Citation]) -> _Finding:
        missing = next((each for each in cited if each.text is None), None)
        if missing is not None:
            if missing.record is None:
                return _Finding(said, (), "citation", Code.PHANTOM, _NOT_ON_RECORD)
            return _Finding(said, (missing.record,), "citation", Code.UNEVIDENCED, self._line(missing.record).text)
        records = tuple(dict.fromkeys(each.record.action_id for each in cited if each.record is not None))
        by_id = {each.record.action_id: each.record for each in cited if each.record is not None}
        found = [self._of_cited(said, by_id[each], "citation") for each in records]
        return next((each for each in found if each.code is not None), found[0])

    def _of_cited(self, said: _Said, record: Record, rule: str) -> _Finding:
        """Judge a sentence that cites an action, by the action's state, its fields and the values stated with it."""
        own = re.sub(r"\{\{[^{}]*\}\}", " ", said.text)
        line = self._line(record)
        code = violation_of(record)
        if code is not None and (rule == "stated" or self._reports(own)):
            return _Finding(said, (record,), rule, code, line.text)
        wrong = self._asked_not_shown(own, record)
        if wrong:
            return _Finding(said, (record,), rule, Code.WRONG_TARGET, replacement.differing_line(record, wrong))
        foreign = foreign_value(own, record, self.known)
        if foreign is not None:
            text = replacement.foreign_line(line, foreign.sort)
            return _Finding(said, (record,), rule, Code.WRONG_TARGET, text)
        return _Finding(said, (record,), rule)

    def _reports(self, text: str) -> bool:
        """Return whether the text around a citation reports something as done; a mere introduction does not."""
        if len(_LETTERS.findall(text)) <= 2 or wording.is_open_throughout(text) or wording.tells_failure(text):
            return False
        return not text.rstrip().endswith(":") or self.phrases.may_stand_in(text)

    def _stated_findings(self) -> Iterator[_Finding]:
        for claim in self.stated:
            said = self._span_of(claim)
            record = cited_record(claim.action_id, self.ground) if claim.action_id else self._by_target(claim)
            if record is None:
                yield _Finding(said, (), "stated", Code.PHANTOM, _NOT_ON_RECORD)
            else:
                yield self._of_cited(said, record, "stated")

    def _by_target(self, claim: Stated) -> Record | None:
        tries = [each for each in self.tries if each.tool == claim.tool]
        wanted = [each for each in tries if claim.target in (None, each.target)]
        return wanted[-1] if wanted else None

    def _span_of(self, claim: Stated) -> _Said:
        """Return the span that a claim covers: its own, otherwise that of its words, otherwise an empty one at the end
        of the message.
        """
        start, end = claim.span or (-1, -1)
        if not 0 <= start < end <= len(self.message):
            start = self.message.find(claim.statement) if claim.statement else -1
            end = start + len(claim.statement)
        if start < 0:
            return _Said(claim.statement.lower(), (len(self.message), len(self.message)))
        return _Said(fold(self.message[start:end]).lower, (start, end))

    # What the record says to a sentence

    def _of_fields(self, said: _Said) -> _Finding | None:
        if not self.differing:
            return None
        for record in meant_by(said.text, self.tries):
            if not record.differing or not (record.is_new or record in named_in(said.text, self.tries)):
                continue
            wrong = self._asked_not_shown(said.text, record, quoted=self._with_quotes(said))
            if wrong:
                line = replacement.differing_line(record, wrong)
                return _Finding(said, (record,), "field", Code.WRONG_TARGET, line)
        return None

    def _with_quotes(self, said: _Said) -> str:
        """Return a sentence including its quotes."""
        return fold(self.message).lower[said.at : said.at + len(said.text)]

    def _asked_not_shown(self, text: str, record: Record, *, quoted: str = "") -> list[str]:
        """Return the fields whose requested value a sentence states instead of the shown one.

        `quoted` is the sentence with its quotes, in which only a quote that is the value itself states it.
        """
        wrong = []
        for each in record.differing:
            others = [one.shown for one in record.fields if one is not each and one.same is not False]
            if each.asked in others or self._is_set_later(record, each.name, each.asked):
                continue
            asked, shown = differing_parts(each.asked, each.shown)
            places = [
                (start, end)
                for start, end in places_of(quoted or text, asked, name=each.name)
                if (not quoted or _is_own(quoted, text, start, end)) and not wording.leaves_value_open(text, start, end)
            ]
            told = list(places_of(quoted or text, shown, name=each.name)) if places else []
            if places and (not told or any(wording.is_change(text, one, other) for one in told for other in places)):
                wrong.append(each.name)
        return wrong

    def _is_set_later(self, record: Record, name: str, asked: object) -> bool:
        """Return True if a later record of the same thing shows the requested value of a field."""
        last = name.rpartition(".")[2]
        place = next((at for at, each in enumerate(self.ground.records) if each is record), 0)
        for each in self.ground.records[place + 1 :]:
            if each.completed and any(one in each.said for one in record.names):
                done = any(
                    one.asked == asked and one.same is not False for one in each.fields if one.name.endswith(last)
                )
                if done or asked in (each.answer.get(last), each.reading.get(last)):
                    return True
        return False

    def _of_sayings(self, said: _Said) -> _Finding | None:
        if not self.has_phrases or not self.phrases.may_stand_in(said.text):
            return None
        named = frozenset(each.tool for each in named_in(said.text, self.tries))
        matches = []
        for match in self.phrases.matches(said.text, named):
            is_open = wording.is_open(said.text, match.start, match.end)
            if match.when and not (is_open and wording.is_open(said.text, match.start, match.end, may_come=True)):
                found = self._of_condition(said, match, to_come=is_open)
                if found is not None:
                    return found
            if not is_open:
                matches.append(match)
        default = [each for each in matches if not each.when and each.tool.mutating and self._is_meant(said, each)]
        return self._of_done(said, default) if default else None

    def _is_meant(self, said: _Said, match: Match) -> bool:
        """Return True if done words without an object refer to an action that was just tried and carried out."""
        if not match.is_bare:
            return True
        tried = [each for each in self.tries if each.tool == match.tool.name]
        if not tried:
            return wording.is_own_deed(said.text, match.start) and names_a_thing(said.text[match.end :])
        return any(each.is_new for each in tried) and wording.is_performed(said.text, match.start, match.end)

    def _of_condition(self, said: _Said, match: Match, *, to_come: bool) -> _Finding | None:
        """Judge a saying with its own condition: contradicted if that holds for none of the actions it can refer to.

        What is said to come is said of what was done just now; anything else that may come is a plan.
        """
        own = [each for each in last_tries(self.ground.records) if each.tool == match.tool.name]
        meant = [each for each in meant_by(said.text, own) if each.state is not None and (each.is_new or not to_come)]
        told = [(each, holds(match.when, each)) for each in meant]
        if not told or any(held is not False for _, held in told):
            stale = [each for each, held in told if held and each.stale]
            if stale and len(stale) == len(told):
                return self._contradiction(said, tuple(stale), "saying")
            return None
        record = told[-1][0]
        line = replacement.untrue_line(record, match.words, sides_of(match.when, record))
        return _Finding(said, tuple(each for each, _ in told), "saying", Code.MISREAD, line)

    def _of_done(self, said: _Said, matches: Sequence[Match]) -> _Finding | None:
        tools = {each.tool.name for each in matches}
        tried = [each for each in self.tries if each.tool in tools]
        if not tried:
            return self._of_phantom(said, matches)
        other = other_target(said.text, tried)
        if other is not None:
            return self._of_other_target(said, matches, tried[-1], other)
        meant = meant_by(said.text, tried)
        faults = {Code.MISREAD} if all(each.is_start for each in matches) else set(Code)
        faulty = tuple(each for each in meant if violation_of(each) in faults and not self._is_done_otherwise(each))
        all_meant = wording.speaks_of_all(said.text) or len(named_in(said.text, tried)) > 1
        if faulty and (len(faulty) == len(meant) or all_meant):
            return self._contradiction(said, faulty, "saying")
        if len(meant) == 1:
            foreign = foreign_value(said.text, meant[0], self.known)
            if foreign is not None and not self._was_read(matches, foreign.text):
                text = replacement.foreign_line(self._line(meant[0]), foreign.sort)
                return _Finding(said, meant, "value", Code.WRONG_TARGET, text)
        return _Finding(said, meant, "saying")

    def _of_other_target(self, said: _Said, matches: Sequence[Match], record: Record, other: str) -> _Finding | None:
        """Judge done words about a thing on which the tool was never tried: contradicted unless a reading of it shows
        them.
        """
        reads = (" ".join(map(str, leaves([each.answer, each.reading]))).lower() for each in self.ground.reads)
        is_read = any(other in text and any(each.words in text for each in matches) for text in reads)
        if is_read or not any(
            each.is_deed or wording.is_performed(said.text, each.start, each.end) for each in matches
        ):
            return None
        if not record.is_new:
            place = self.message.lower().find(other, *said.span)
            name = self.message[place : place + len(other)] if place >= 0 else other
            return _Finding(said, (), "phantom", Code.PHANTOM, replacement.phantom_line(matches[0].tool, (name,)))
        text = replacement.foreign_line(self._line(record), "target")
        return _Finding(said, (record,), "value", Code.WRONG_TARGET, text)

    def _of_phantom(self, said: _Said, matches: Sequence[Match]) -> _Finding | None:
        """Rule 4."""
        if any(violation_of(each) is None for each in self.new):
            # Something was done just now: the sentence may tell that in other words.
            return None
        match = matches[0]
        performed = [each for each in matches if each.is_deed or wording.is_performed(said.text, each.start, each.end)]
        if not performed or self._was_read(matches, match.words):
            return None
        disclosed = [each for each in performed if each.tool.disclosed]
        tool = (disclosed or performed)[0].tool
        code = Code.PHANTOM if disclosed else Code.IMAGINED_CAPABILITY
        return _Finding(said, (), "phantom", code, replacement.phantom_line(tool, tool.object))

    def _was_read(self, matches: Sequence[Match], value: str) -> bool:
        return value in self.ground.read_text or any(each.words in self.ground.read_text for each in matches)

    def _is_done_otherwise(self, record: Record) -> bool:
        """Return whether another change of the same target is done: the sentence may be about that one."""
        return bool(record.target) and any(
            each is not record and each.target == record.target and violation_of(each) is None for each in self.tries
        )

    # Deeds, payments and notes

    def _of_direction(self, said: _Said) -> _Finding | None:
        """Rule 6: an amount that the sentence tells the wrong way round."""
        if self.verbs is None or not self.has_payments:
            return None
        found = wrong_direction(said.text, self.new or named_in(said.text, self.tries), self.effects)
        if found is None:
            return None
        record, effect = found
        line = replacement.direction_line(record, effect)
        return _Finding(said, (record,), "direction", Code.MISREAD, line)

    @once
    def has_payments(self) -> bool:
        """Return whether any change moved or owes money in a known direction."""
        return any(each.direction for record in self.tries for each in self.effects.money_of(record))

    def _of_deeds(self, said: _Said) -> _Finding | None:
        """Rule 5."""
        if self.verbs is None or not (self.may_report or self.failed):
            return None
        for deed in self.verbs.deeds_in(said.text, strict=self.strict is not None, after_failure=bool(self.failed)):
            if self.tries:
                found = self._of_deed_beside_changes(said, deed)
            else:
                is_known = deed.form in ("passive", "short") and self._may_be_read(said, deed)
                found = None if is_known else self._phantom_deed(said, Code.PHANTOM, gives_way=True)
            if found is not None:
                return found
        return None

    def _may_be_read(self, said: _Said, deed: Deed) -> bool:
        """Return True if a result may be reported from a reading: the reading contains its verb or, for a vague verb, a
        value.
        """
        assert self.verbs is not None
        if self.on_record.has_text(deed.verb):
            return True
        return deed.verb in self.verbs.any_change and any(map(self.on_record.holds, stated_values(said.text)))

    def _of_deed_beside_changes(self, said: _Said, deed: Deed) -> _Finding | None:
        assert self.verbs is not None
        if deed.form == "whole":
            if self.faulty and self.strict is not None:
                return self._contradiction(said, self.faulty, "all")
            return None
        if self._is_told_of_failure(said, deed):
            return self._contradiction(said, self.failed, "saying")
        if deed.form in ("passive", "state"):
            return None
        names = [each.value for each in stated_values(said.text) if each.sort == "id"]
        if names and not any(each in one.said for each in names for one in self.tries):
            never_touched = self._is_of_target_shape(names) and not any(map(self.on_record.has_text, names))
            if never_touched:
                return self._phantom_deed(said, Code.WRONG_TARGET, gives_way=True)
            return self._unsupported_deed(said, Code.WRONG_TARGET)
        if names or any(self.verbs.fits(deed, each) for each in self.tries):
            return None
        return self._unsupported_deed(said, Code.PHANTOM)

    @once
    def failed(self) -> tuple[Record, ...]:
        """The changes since the agent's last message that failed or were refused."""
        return tuple(each for each in self.faulty if violation_of(each) is Code.MISREAD)

    def _is_told_of_failure(self, said: _Said, deed: Deed) -> bool:
        """Return whether a deed can only be a change that failed: its verb fits no other, and nothing read shows it."""
        assert self.verbs is not None
        fitting = [each for each in self.tries if self.verbs.fits(deed, each)]
        if not any(each in self.failed for each in fitting) or any(
            violation_of(each) is not Code.MISREAD for each in fitting
        ):
            return False
        names = [each.value for each in stated_values(said.text) if each.sort == "id"]
        if names and not any(each in one.said for each in names for one in fitting):
            return False
        return deed.form == "own" or not self.on_record.has_text(deed.verb)

    def _unsupported_deed(self, said: _Said, code: Code) -> _Finding | None:
        """Judge a deed that differs from the changes: noted; in strict mode marked or replaced."""
        if self.strict is not None and self.strict.uncited == "mark":
            return _Finding(said, (), UNCITED)
        return self._phantom_deed(said, code, gives_way=self.strict is not None)

    def _is_of_target_shape(self, names: Sequence[str]) -> bool:
        shapes = {id_shape(part) for each in self.tries for part in re.split(r"[/\s,]", each.target.lower())}
        return any(id_shape(each) in shapes for each in names)

    def _phantom_deed(self, said: _Said, code: Code, *, gives_way: bool) -> _Finding | None:
        """Judge a deed that no change can be: replaced or noted."""
        if gives_way and self.ground.is_whole:
            return _Finding(said, (), "phantom", code, NO_SUCH_ACTION)
        elsewhere = "" if self.ground.is_whole else " Not all tools of this agent pass the console."
        self._add_note("deed", said, f"{NO_SUCH_ACTION}{elsewhere}")
        return None

    def _note(self, said: _Said, sentence: Sentence) -> None:
        """Note the unsupported statements of a sentence that stays (rule 6)."""
        if sentence.question:
            return
        method = other_method(said.text, self.new, self.effects) if self.new and self.verbs is not None else None
        if self.new:
            self._note_values(said, told=method)
        if self.verbs is None:
            return
        if method is not None:
            self._add_note("method", said, f"The changes on record were not made with {method}.")
        if self._promises_too_much(said):
            self._add_note("promise", said, NO_TOOL)
        if (record := self._denied_in(said)) is not None:
            self._add_note("failure", said, f"The record has: {self._line(record).text}", record=record)

    def _note_values(self, said: _Said, *, told: str | None) -> None:
        unknown = [each for each in self.on_record.unknown_in(said.text) if each.value != told]
        if unknown and self._stated_amounts:
            unknown = [
                each for each in unknown if each.sort != "amount" or not follows_from(each.value, self._stated_amounts)
            ]
        if not unknown:
            return
        quoted = [self.folded.text[said.at + each.span[0] : said.at + each.span[1]].strip() for each in unknown]
        named = ", ".join(dict.fromkeys(quoted))
        verb = "stands" if len(set(quoted)) == 1 else "stand"
        self._add_note("value", said, f"{named} {verb} nowhere on record.", quoted=False)

    @once
    def _stated_amounts(self) -> tuple[float, ...]:
        """Return the recorded amounts in the whole message, because an offer states its differences next to them."""
        stated = [each for each in stated_values(self.folded.lower) if each.sort == "amount"]
        return tuple({each.value for each in stated if self.on_record.holds(each)})

    def _promises_too_much(self, said: _Said) -> bool:
        """Return whether a sentence promises what no tool of the agent can do (R-CG-09)."""
        if self.verbs is None or not self.may_promise or not self.ground.tools or not self.ground.is_whole:
            return False
        return any(not each.abilities & self.abilities for each in self.verbs.promises_in(said.text))

    def _denied_in(self, said: _Said) -> Record | None:
        """The change with success or an unknown outcome that is told as a failure (R-CG-21, R-CG-07)."""
        if self.verbs is None or not self.tells_failure or not self.deniable or not wording.tells_failure(said.text):
            return None
        for each in self.deniable:
            tool = self.ground.by_name.get(each.tool)
            if self.verbs.is_denied(said.text, each, tool.object if tool else ()):
                return each
        return None

    @once
    def deniable(self) -> tuple[Record, ...]:
        """The new changes that must not be reported as failed: none if one of them, or a new reading, did fail."""
        codes = [violation_of(each) for each in self.new]
        if Code.MISREAD in codes or any(
            each.is_new and each.outcome in ("FAILED", "BLOCKED") for each in self.ground.reads
        ):
            return ()
        return tuple(each for each, code in zip(self.new, codes, strict=True) if code in (None, Code.UNKNOWN_FLATTENED))

    @once
    def abilities(self) -> frozenset[str]:
        """The words for what the agent's tools can do."""
        return frozenset(word for each in self.ground.tools if each.disclosed for word in ability_words(each))

    def _add_note(
        self, rule: str, said: _Said, text: str, *, record: Record | None = None, quoted: bool = True
    ) -> None:
        quote = " ".join(self.message[slice(*said.span)].split())
        quote = quote if len(quote) <= LONGEST_QUOTE else quote[: LONGEST_QUOTE - 1] + "\u2026"
        note = Note(
            rule,
            f"\u201c{quote}\u201d: {text}" if quoted else text,
            said.span,
            record.action_id if record is not None else None,
        )
        if note not in self.notes:
            self.notes.append(note)

    def _of_all(self, said: _Said) -> _Finding | None:
        if not self.faulty or not wording.sums_up(said.text):
            return None
        return self._contradiction(said, self.faulty, "all")

    def _of_failure(self, said: _Said) -> _Finding | None:
        if not self.faulty or not wording.tells_failure(said.text):
            return None
        return _Finding(said, self.faulty, "failure", kind="failed")

    def _line(self, record: Record) -> Line:
        return status_line(record, self.ground.by_name.get(record.tool))

    def _contradiction(self, said: _Said, records: tuple[Record, ...], rule: str) -> _Finding:
        lines = [self._line(each).text for each in records[:5]]
        code = Code.SILENT_CHAIN if rule == "all" and len(self.tries) > 1 else violation_of(records[0])
        return _Finding(said, records, rule, code or Code.UNEVIDENCED, "\n".join(lines))


UNCITED = "uncited"
NO_SUCH_ACTION = "No such action is on record here."
LONGEST_QUOTE = 120
NO_TOOL = "No tool of this agent can do that."
HELD_BACK = "(A sentence was held back: it names no action on record.)"
MARK = " (not confirmed by the record)"


def _mark_end(span: tuple[int, int]) -> Replacement:
    return Replacement((span[1], span[1]), MARK, False)


_NOT_ON_RECORD = "Not done: no such action is on record."


def _without_quotes(folded: Folded) -> Folded:
    if '"' not in folded.lower and "\u201c" not in folded.lower:
        return folded
    return Folded(folded.text, _QUOTE.sub(_blank_quote, folded.lower), folded.places)


def _is_own(quoted: str, text: str, start: int, end: int) -> bool:
    """Return True if a position of a sentence is outside its quotes, or if the sentence is all quote."""
    return quoted[start:end] == text[start:end] or bool(
        _OPENS_QUOTE.match(quoted, start - 1) and _CLOSES_QUOTE.match(quoted, end)
    )


def _blank_quote(match: re.Match[str]) -> str:
    inner = match.group()[1:-1]
    return f" {inner} " if len(inner.split()) < FEWEST_QUOTED else f'"{"_" * len(inner)}"'


def _claim(finding: _Finding, message: str) -> Found:
    start, end = finding.said.span
    ids = tuple(each.action_id for each in finding.records)
    return Found((start, end), message[start:end], finding.kind, ids, str(finding.code or ""), finding.rule)


def _violation(finding: _Finding, message: str) -> Violation:
    start, end = finding.said.span
    action_id = finding.records[0].action_id if finding.records else None
    quote = message[start:end] or finding.said.text
    return Violation(str(finding.code), (start, end), quote, action_id, finding.line, finding.rule)
