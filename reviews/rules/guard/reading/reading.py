"""Reading a message: every claim in it of an action that was done, is under way, was promised or has failed (R-CG-17).

1. Nothing is claimed by a question, a condition, a denial, a possibility, an instruction, a plan, a rule of the house,
   quoted words, code, or by what somebody else did; all of these are told by words of the language (data).
2. What is left is read chunk by chunk (`patterns`). A chunk without a subject goes on with the one before it.
3. A claim's words are those of its chunk, and of the label before it ("Refund: issued"). A claim that names nothing
   ("Done.") is about all that was attempted.
4. The guard's own sentences about this ground are no claims (`frames`).
5. What binds to no action counts only where the speaker says that it did it, or where it stands alone as a report, and
   tells of no past time and of no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import pairwise

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.correcting.frames import MARKERS, all_frames
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.reading.patterns import GOES_ON, MENTION, TOOK, denied, said
from reviews.rules.guard.reading.tenses import RESULTS, Tense, is_perfect, tense
from reviews.rules.guard.reading.views import Said, View
from reviews.rules.guard.records import Ground
from reviews.rules.guard.text.consequences import without_consequences
from reviews.rules.guard.text.folding import Folded, fold
from reviews.rules.guard.text.segments import Block, Sentence, sentences
from reviews.rules.guard.text.tokens import Chunk, chunks, tokens
from reviews.rules.guard.text.values import Value, values
from reviews.rules.guard.words.language import Language, english

LOOSE = frozenset({MENTION, "state", "done, told in short", "was done"})
"""Rules whose weak claims count only in a message that tells of nothing open, failed or denied."""
TOLD = "told beside an open end"
BY_SPEAKER = frozenset(
    {
        *("I have done", "and did", "did it", "took", "looked", "I did", "promised", "promised too"),
        *("under way", "doing now", "says done"),
    }
)
"""Rules that find what the speaker says of itself."""
_PAST = re.compile(r"\d{1,2}(?:st|nd|rd|th)")
_CLOCK = re.compile(r"\d{1,2}:\d\d")
_SPACES = re.compile(r"[^\w' ]+")
_NUMBER = r"\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten"
_OF = re.compile(
    rf"\b({_NUMBER}|none|half|most|some|only|one) (?:out )?of (?:(?:the|your|his|her|their|our) )?({_NUMBER})\b"
)


def claims_in(message: str, ground: Ground) -> list[Claim]:
    """The claims of a message, in order."""
    readers = _read_once(message, ground)
    if not readers:
        return []
    folded, language = readers[0].folded, english()
    stale = any(record.stale for record in ground.records)
    doubt = _doubt(folded.lower, language)
    found: list[Claim] = []
    section = ""
    for reader in readers:
        sentence = reader.sentence
        section = _section(folded, sentence, section, language)
        if section and sentence.block.kind in {"item", "row"} and sentence.block.ticked is not True:
            continue
        own = [_weighed(each, doubt) for each in reader.claims()]
        if stale and not sentence.question:
            own += reader.conditions(own)
        found.extend(own)
    return found


def statements(message: str, ground: Ground, *, denials: bool = False) -> Iterator[Claim]:
    """What a message states or denies, whether a pattern finds a claim in it or not: no questions, no conditions."""
    for reader in _read_once(message, ground):
        if not reader.sentence.question:
            yield from reader.stated(denials=denials)


def _read_once(message: str, ground: Ground) -> tuple[_Reader, ...]:
    """The sentences of a message, each ready to be read for claims and for statements."""
    folded = fold(message)
    if any(marker in message for marker in MARKERS):
        folded = _without_frames(folded, ground)
    return _readers(message, folded.text, without_quotes(folded).lower)


@lru_cache(maxsize=8)
def _readers(message: str, text: str, lower: str) -> tuple[_Reader, ...]:
    folded, language = Folded(text, lower, fold(message).places), english()
    read = list(sentences(folded))
    return tuple(
        _Reader(folded, each, language, message, _beside(folded, each, read[index + 1 : index + 6]))
        for index, each in enumerate(read)
    )


def _beside(folded: Folded, sentence: Sentence, following: list[Sentence]) -> str:
    """A sentence and the one behind it, if that is not a question; of a list, the items behind it."""
    end = sentence.end
    for each in following:
        if each.question or (end > sentence.end and each.block.kind != "item"):
            break
        end = each.end
        if sentence.block.kind != "item":
            break
    return without_consequences(folded.lower[sentence.start : end])


def _without_frames(folded: Folded, ground: Ground) -> Folded:
    """The text with the guard's own sentences blanked out."""
    text, lower = folded.text, folded.lower
    for frame in all_frames(ground):
        shown = fold(frame).lower
        at = lower.find(shown)
        while at >= 0:
            blank = "\n" * len(shown)
            lower = lower[:at] + blank + lower[at + len(shown) :]
            text = text[:at] + blank + text[at + len(shown) :]
            at = lower.find(shown, at + len(shown))
    return folded if lower == folded.lower else Folded(text, lower, folded.places)


def _doubt(text: str, language: Language) -> int:
    """2 where a message says that something is open, failed, unknown or denied; 1 where it could; else 0."""
    text = text.replace("n't", " not")
    words = set(re.findall(r"[a-z]+", text))
    if words & language.sets["disclosing"]:
        return 2
    if any(phrase in text for phrase in language.data["reading"]["disclosing_phrases"]):
        return 2
    return int(bool(words & language.sets["hedging"]))


def _weighed(claim: Claim, doubt: int) -> Claim:
    """A weak claim counts only in a message that tells of nothing open; what cites a receipt always does."""
    enough = 1 if claim.rule == MENTION else 2
    own = claim.ours or claim.perfect
    loose = claim.weak and claim.rule in LOOSE and doubt >= enough and not (claim.whole or claim.cited or own)
    result = claim.result and doubt < 2
    return replace(claim, loose=loose, result=result) if loose or result != claim.result else claim


_QUOTE = re.compile(r'"[^"]{0,2000}"')


def without_quotes(folded: Folded) -> Folded:
    """The text with quoted words blanked out; one or two words in quotes are the speaker's own."""
    if '"' not in folded.lower:
        return folded
    lower = _QUOTE.sub(_blanked, folded.lower)
    return Folded(folded.text, lower, folded.places)


def _blanked(match: re.Match[str]) -> str:
    inner = match.group()[1:-1]
    return match.group() if len(inner.split()) < 3 else '"' + "_" * len(inner) + '"'


def _section(folded: Folded, sentence: Sentence, before: str, language: Language) -> str:
    """Whether the items that follow are a plan or an instruction: "Proposed steps:" (rule 1)."""
    if sentence.block.kind in {"item", "row"}:
        return before
    words = set(re.findall(r"[a-z']+", folded.lower[sentence.start : sentence.end]))
    return "plan" if words & language.sets["planning"] else ""


def _is_possible(view: View) -> bool:
    """Whether something is only possible: "I can", "you may"; "Ana can see the logs now" tells what she can do now."""
    if not view.has("modals"):
        return False
    told = {"can", "may"} & set(view.words) and not {"i", "we", "you", "u"} & set(view.words)
    return not told or len(set(view.words) & view.language.sets["modals"]) > 1


def _is_of_others(view: View) -> bool:
    """Whether somebody else acts: "you asked", "they sent"; "you are booked" and "you have got it" tell a state."""
    others = view.language.sets["others"]
    at = next((index for index, word in enumerate(view.words) if word in others), -1)
    if at < 0:
        return False
    told = view.is_in(at + 1, "be") or view.words[at + 1 : at + 3] == ("have", "got")
    return view.words[at] not in {"you", "u"} or not told


class _Reader:
    """One sentence being read."""

    def __init__(self, folded: Folded, sentence: Sentence, language: Language, message: str, beside: str) -> None:
        self.folded = folded
        self.sentence = sentence
        self.language = language
        self.message = message
        self.beside = beside
        self._past: dict[int, bool] = {}
        self.text = folded.lower[sentence.start : sentence.end]

    @cached_property
    def values(self) -> list[Value]:
        """The values of the sentence, with their places in the folded text."""
        start = self.sentence.start
        return [Value(each.sort, each.key, each.start + start, each.end + start) for each in values(self.text)]

    @cached_property
    def parts(self) -> list[Chunk]:
        """The chunks of the sentence."""
        found = tokens(self.folded.lower, self.sentence.start, self.sentence.end, self.language)
        return chunks(found, self.language)

    def claims(self) -> Iterator[Claim]:
        """The claims of the sentence (rules 1 to 3)."""
        block = self.sentence.block
        if (
            block.ticked is False
            and block.kind == "item"
            and "[" in self.folded.lower[max(0, block.start - 5) : block.start]
        ):
            return
        bare = _SPACES.sub("", self.text).strip()
        if bare in self.language.bare and not self.sentence.question and not block.fenced:
            yield self._bare(self.sentence.start, self.sentence.end)
            return
        parts = self.parts
        if self.sentence.question:
            parts = self._unasked(parts)
        yield from self._read(parts, block)

    def _unasked(self, parts: list[Chunk]) -> list[Chunk]:
        """What a question says before it asks: "Sent, anything else?"."""
        starts = self.language.sets["question_starts"]
        asking = starts - self.language.sets["interjections"]
        for index in range(len(parts) - 1, 0, -1):
            if parts[index].tokens[0].text in starts and parts[index].mark in {",", "\u2014", "-", ")"}:
                asked = any(part.tokens[0].text in asking for part in parts[:index])
                return [] if asked else parts[:index]
        return []

    def _read(self, parts: list[Chunk], block: Block) -> Iterator[Claim]:
        prior: Said | None = None
        conditional = False
        for index, part in enumerate(parts):
            conditional = self._is_conditional(part, index, before=conditional)
            if conditional or self._reported(parts, index):
                prior = None
                continue
            if not block.fenced and self._is_bare(part, index):
                yield self._bare(part.start, part.end)
                prior = Said(Kind.DONE, "bare", frozenset(), 0, agent=True)
                continue
            found = said(self._view(part, parts, index, prior, block))
            if found is not None and self._counts(found, parts, index, block):
                yield self._claim(found, part, parts, index)
            if found is None or found.rule not in {MENTION, "state"}:
                prior = found
            elif self._tells(part):
                prior = None

    def stated(self, *, denials: bool) -> Iterator[Claim]:
        """The chunks that plainly state something: nothing conditional, denied, possible, reported or told to do."""
        block = self.sentence.block
        if block.fenced or block.ticked is False:
            return
        conditional = False
        parts = self.parts
        for index, part in enumerate(parts):
            conditional = self._is_conditional(part, index, before=conditional)
            view = self._view(part, parts, index, None, block)
            if denied(view) and not conditional:
                yield self._claim(Said(Kind.FAILED, TOLD, self._verbs(part), 0, weak=True), part, parts, index)
                continue
            if denials or conditional or self._reported(parts, index) or _is_possible(view) or _is_of_others(view):
                continue
            if part.words[0] in {"will", "your"} and "will" in part.words:
                continue
            yield self._claim(Said(Kind.DONE, TOLD, self._verbs(part), 0, weak=True), part, parts, index)

    def _verbs(self, part: Chunk) -> frozenset[str]:
        found = (lemma for word in part.words for lemma in self.language.lemmas(word))
        return frozenset(found) - self.language.sets["inert"]

    def _is_conditional(self, part: Chunk, index: int, *, before: bool) -> bool:
        sets = self.language.sets
        opens = not part.lead and index == 0 and part.tokens[0].text in sets["conditional_starts"]
        return (
            part.lead in sets["conditional"] or opens or (before and part.lead in {"and", "or", "n"} and not part.mark)
        )

    def _is_bare(self, part: Chunk, index: int) -> bool:
        bare = _SPACES.sub("", " ".join(part.words)).strip()
        bare = self.language.contracted(bare)
        return bare in self.language.bare and (index == 0 or part.mark in {",", ":", "\u2014"})

    def _tells(self, part: Chunk) -> bool:
        """Whether a chunk has a verb of its own in the past or the third person; "no worries" has none."""
        if part.words[0] == "no" and len(part.words) == 2:
            return False
        forms = (form for word in part.words for form in self.language.forms.get(word, ()))
        return any(form.kinds & {"past", "third"} for form in forms)

    def _counts(self, found: Said, parts: list[Chunk], index: int, block: Block) -> bool:
        offered = found.kind is Kind.PROMISED and self._is_offered(parts, index)
        return found.rule != GOES_ON and not offered and not self._is_part(parts, index) and self._is_ours(found, block)

    def _is_offered(self, parts: list[Chunk], index: int) -> bool:
        """ "I will write it after you confirm", "say which, and I'll book it": a promise that waits for the reader."""
        following = parts[index + 1 : index + 2]
        awaits = following and following[0].lead in self.language.sets["conditional"]
        if awaits and following[0].words[0] in {"you", "u"}:
            return True
        if not index or parts[index].lead not in {"and", "which", "who"}:
            return False
        head = next((part for part in reversed(parts[:index]) if not part.lead), parts[0])
        asked = any("base" in form.kinds for form in self.language.forms.get(head.words[0], ()))
        return asked and not self._tells(head)

    def _is_ours(self, found: Said, block: Block) -> bool:
        """In a fenced block only what the speaker says in the first person is its own."""
        return not block.fenced or found.rule in {"I have done", "promised"}

    def _is_part(self, parts: list[Chunk], index: int) -> bool:
        """Whether it says how much of a whole was done: "1 of 3" tells that not all was."""
        text = " ".join(word for part in parts[index : index + 2] for word in part.words)
        return " of " in text and any(one != other for one, other in _OF.findall(text))

    def conditions(self, own: list[Claim]) -> Iterator[Claim]:
        """What is told as current: it must not rest on a reading that is out of date (R-CG-08)."""
        parts = self.parts
        sets = self.language.sets
        if any(word in sets["hedged"] for part in parts for word in part.words):
            return
        for part in parts:
            words = part.words
            start, end = self.folded.span(part.start, part.end)
            if any(claim.start < end and start < claim.end and not claim.weak for claim in own):
                continue
            owned = words[:2] == ["we", "have"] and words[2:3] and words[2][0].isdigit()
            spoken = (words[0] in sets["others"] | sets["agent"] and not owned) or any(
                word in sets["modals"] for word in words
            )
            spoken = spoken or bool((sets["open"] - {"still"}) & set(words))
            if (
                not spoken
                and sets["present"] & set(words[1:] if part.lead == "" else words)
                and part.lead not in sets["conditional"]
            ):
                found = Said(Kind.DONE, "told as current", frozenset(), 0)
                yield replace(self._claim(found, part, [part], 0), state=True, whole=False, weak=False, beside="")

    def _reported(self, parts: list[Chunk], index: int) -> bool:
        """Whether a chunk is what somebody is said to have said."""
        part = parts[index]
        words = part.words
        if part.lead == "that" and index:
            before = parts[index - 1].words
            return (any(word in self.language.sets["speech"] for word in before) and "had" in words) or "you" in before[
                :1
            ]
        return "had" in words and any(
            word == "had" and following not in {"a", "another", "to", "the"} and not {"have", "has"} & set(words[:at])
            for at, (word, following) in enumerate(zip(words, [*words[1:], ""], strict=True))
        )

    def _view(self, part: Chunk, parts: list[Chunk], index: int, prior: Said | None, block: Block) -> View:
        return View(
            words=tuple(token.text for token in part.tokens),
            kinds=tuple(token.kind for token in part.tokens),
            lead=part.lead,
            mark=part.mark,
            prior=prior,
            language=self.language,
            item=block.kind in {"item", "row"},
            ticked=block.ticked,
            first=index == 0,
            last=index == len(parts) - 1,
            after_verb=index > 0 and self._tells(parts[index - 1]),
            before_colon=(index + 1 < len(parts) and parts[index + 1].mark == ":") or self.text.rstrip().endswith(":"),
        )

    def _bare(self, start: int, end: int) -> Claim:
        span = self.folded.span(start, end)
        quote = self.message[span[0] : span[1]]
        return Claim(*span, quote, Kind.DONE, "says done", whole=True, beside=self.beside)

    def _claim(self, found: Said, part: Chunk, parts: list[Chunk], index: int) -> Claim:
        words = list(part.words)
        start, end = part.start, part.end
        own = [value for value in self.values if start <= value.start < end]
        if index and part.mark in {":", "\u2014", "-", "\u2192", "->", "=>", "|", "("}:
            words += parts[index - 1].words
            own += [value for value in self.values if parts[index - 1].start <= value.start < parts[index - 1].end]
            if part.mark != "(":
                start = parts[index - 1].start
        if self.sentence.block.kind == "row" and index:
            words += parts[0].words
            own += [value for value in self.values if parts[0].start <= value.start < parts[0].end and value not in own]
        cited = self._cited(parts, index)
        hints = self._hints(parts, index) if not own else ()
        verbs = found.verbs
        meant = set(self.language.phrasal(part.words)) - set(part.words)
        verbs = frozenset(meant) or verbs
        nouns = frozenset(self.language.singular(word) for word in words) - self.language.stop
        nouns -= found.verbs if found.rule != TOOK else frozenset(part.words[found.at : found.at + 1])
        whole = found.kind is Kind.DONE and self._is_whole(words, own, found) and not _CLOCK.match(words[0])
        span = self.folded.span(start, end)
        nouns -= {"mr"} if "Mr" in self.message[span[0] : span[1]] else set()
        return Claim(
            *span,
            quote=self.message[span[0] : span[1]],
            kind=found.kind,
            rule=found.rule,
            verbs=verbs,
            nouns=nouns,
            words=frozenset(words),
            meaning=self._meaning(found, part.words),
            values=tuple(own),
            cited=cited,
            hints=hints,
            listed=self._listed(parts, index),
            whole=whole,
            weak=found.weak,
            agency=self._has_agency(found, parts, index),
            follows=self._follows(part),
            tense=self._tense(found, parts, part),
            ours=bool({("by", "me"), ("by", "us")} & set(pairwise(part.words))),
            perfect=self._is_perfect(found, parts, part),
            result=found.weak and self._is_result(found, part.words),
            beside=self.beside,
        )

    def _meaning(self, found: Said, words: list[str]) -> frozenset[str]:
        """The verbs that bring about the condition that a chunk tells."""
        known = self.language.data["reading"]["conditions"]
        if found.rule != "state":
            return frozenset()
        return frozenset(verb for word in words[found.at :] for verb in known.get(word, ()))

    def _has_agency(self, found: Said, parts: list[Chunk], index: int) -> bool:
        """Whether the speaker says that it did it, or it is a report that stands alone, of no past time (rule 5)."""
        if found.rule in BY_SPEAKER or {("by", "me"), ("by", "us")} & set(pairwise(parts[index].words)):
            return not self.sentence.block.fenced
        words = {word for part in parts for word in part.words}
        if self.sentence.block.fenced or any(map(self._is_past, parts)) or words & self.language.sets["policy"]:
            return False
        own = found.rule in {"did", "done, told in short"} and (index == 0 or parts[index].mark != "")
        own = own and not any(part.lead in {"while", "when"} for part in parts[index + 1 : index + 2])
        before = parts[index].words[max(0, found.at - 3) : found.at]
        perfect = found.rule in {"was done", "went through"} and bool({"has", "have", "'s", "now"} & set(before))
        told = parts[index].lead not in self.language.sets["reasons"] and not self._is_relative(parts, index)
        return own or (perfect and told)

    def _follows(self, part: Chunk) -> bool:
        """Whether it may go on from what was told before it: it tells of no past time, and of no rule."""
        return not (self._is_past(part) or set(part.words) & self.language.sets["policy"])

    def _tense(self, found: Said, parts: list[Chunk], part: Chunk) -> Tense | None:
        """When the result came about that a chunk tells without its doer."""
        if found.rule not in RESULTS or part.lead in self.language.sets["reasons"]:
            return None
        conditional = any(each.lead in self.language.sets["conditional"] for each in parts)
        return tense(part.words, found.at, self.language, beside_condition=conditional)

    def _is_perfect(self, found: Said, parts: list[Chunk], part: Chunk) -> bool:
        """Whether it reports what has come about: no reason, no instruction."""
        told = found.rule in RESULTS and part.lead not in self.language.sets["reasons"]
        return told and is_perfect(part.words, found.at, part.lead) and not self._instructs(parts)

    def _instructs(self, parts: list[Chunk]) -> bool:
        """Whether the sentence tells the reader what to do: "Check that the old one has been deleted"."""
        heads = (part for part in parts if not part.lead or part.lead == "then")
        return any(self.language.is_imperative(part.words) for part in heads)

    def _is_relative(self, parts: list[Chunk], index: int) -> bool:
        """ "Orders that have been handed over …": it tells which thing is meant."""
        part = parts[index]
        if part.lead not in {"that", "which", "who", "whose"} or not index:
            return False
        return part.words[0] in self.language.sets["be"] | {"has", "have"}

    def _is_past(self, part: Chunk) -> bool:
        """Whether it tells of a past time: a month or a day, the 4th, a time at its head."""
        known = self._past.get(part.start)
        if known is None:
            known = self._past[part.start] = self._tells_of_past(part.words)
        return known

    def _tells_of_past(self, words: list[str]) -> bool:
        past, until = self.language.sets["past_times"], {"for", "from", "to", "until", "till", "by"}
        if not past.isdisjoint(words) and any(
            word in past and before not in until for before, word in pairwise(["", *words])
        ):
            return True
        clock = _CLOCK.match(words[0]) or any(one == "at" and _CLOCK.match(other) for one, other in pairwise(words))
        return bool(clock) or any(_PAST.fullmatch(word) for word in words)

    def _is_result(self, found: Said, words: list[str]) -> bool:
        """Whether it tells what something came to: it is …, you are now …, it has …."""
        return found.rule in {"state", "went through"} or "now" in words

    def _is_whole(self, words: list[str], own: list[Value], found: Said) -> bool:
        """Whether it is about all that was asked for: every step, both of them, end to end."""
        if (
            found.rule in {MENTION, "I have done", "and did"}
            or (found.verbs & self.language.sets["intransitive"] and not self._is_ended(found))
            or any(value.sort in {"id", "money", "email"} for value in own)
        ):
            return False
        subject = words[: found.at + 1] if found.rule == "was done" else words
        whole = self.language.sets["whole"] & set(subject)
        if whole == {"all"} and "at all" in " ".join(words):
            return False
        return bool(whole) or words.count("end") > 1

    def _listed(self, parts: list[Chunk], index: int) -> tuple[Value, ...]:
        """The id that is named with "and" behind a claim: "I removed c1 and c2"."""
        following = parts[index + 1 : index + 2]
        if not following or following[0].lead != "and" or len(following[0].tokens) > 2:
            return ()
        part = following[0]
        return tuple(value for value in self.values if part.start <= value.start < part.end and value.sort == "id")

    def _is_ended(self, found: Said) -> bool:
        """ "Both jobs finished", "every step went through"."""
        return found.rule == "went through" or found.verbs <= {"finish", "complete", "succeed"}

    def _hints(self, parts: list[Chunk], index: int) -> tuple[Value, ...]:
        """The values of the chunk before, for a pronoun: "412 was a duplicate, so I closed it"."""
        if not index or not {"it", "them", "one", "that"} & set(parts[index].words):
            return ()
        before = parts[index - 1]
        return tuple(value for value in self.values if before.start <= value.start < before.end)

    def _cited(self, parts: list[Chunk], index: int) -> tuple[Value, ...]:
        """The ids in the bracket or the apposition right behind a claim: "(re_81)", "ref RS-19"."""
        following = parts[index + 1 : index + 2]
        if not following or following[0].mark not in {"(", ","} or len(following[0].tokens) > 4:
            return ()
        part = following[0]
        return tuple(value for value in self.values if part.start <= value.start < part.end and value.sort == "id")
