"""What may be said of a tool: the verbs and nouns of its name, its claim phrases, its target and its description.

The words of the name and of the claim phrases are the tool's own; those of its description count for less. A verb of
the tool brings its senses, a noun its kin, so that "I have emailed her" finds a tool that sends messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from reviews.rules.guard.records import Tool
from reviews.rules.guard.words.language import Language, english, looks_past, unknown_verb

_WORD = re.compile(r"[A-Z]?[a-z']+|[A-Z]+(?![a-z])|\d+")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of one tool."""

    verbs: frozenset[str]
    head: frozenset[str]
    senses: frozenset[str]
    nouns: frozenset[str]
    kin: frozenset[str]
    loose: frozenset[str]
    phrases: tuple[frozenset[str], ...]

    @cached_property
    def synonyms(self) -> frozenset[str]:
        """The verbs of the same sense as one of its own."""
        known = english().data["senses"]
        return frozenset(each for verb in self.verbs for each in known.get(verb, ()))


@lru_cache(maxsize=4096)
def vocabulary(tool: Tool) -> Vocabulary:
    """The words that may be said of a tool."""
    language = english()
    name = words_of(tool.name)
    done = [word for phrase in tool.done for word in language.phrasal(words_of(phrase))]
    said = [verb for phrase in tool.done for verb in _said(language, language.phrasal(words_of(phrase)))]
    verbs = _verbs(language, [*name[:1], *said]) or _verbs(language, name)
    unknown = frozenset(word for word in done if looks_past(word) and not language.lemmas(word))
    verbs |= frozenset(map(unknown_verb, unknown))
    things = [*name[1:], *words_of(re.sub(r"\{[^}]*\}", "", tool.target_template)), *done]
    things += [word for phrase in tool.object for word in words_of(phrase)]
    nouns = frozenset(language.singular(word) for word in things if word not in language.stop | unknown)
    return Vocabulary(
        verbs=verbs,
        head=_verbs(language, name[:1]),
        senses=language.senses_of(verbs),
        nouns=nouns - verbs_only(language, verbs, tool),
        kin=frozenset(each for noun in nouns for each in language.kin.get(noun, ())),
        loose=frozenset(language.singular(word) for word in words_of(tool.description[:300])) - language.stop,
        phrases=tuple(frozenset(words_of(phrase)) for phrase in tool.done),
    )


def words_of(text: str) -> list[str]:
    """The words of a name or phrase in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


def verbs_only(language: Language, verbs: frozenset[str], tool: Tool) -> frozenset[str]:
    """Words of done phrases that are verbs there and no objects of the tool."""
    objects = {language.singular(word) for phrase in tool.object for word in words_of(phrase)}
    return (
        frozenset(
            word for phrase in tool.done for word in map(language.singular, words_of(phrase)) if language.lemmas(word)
        )
        - objects
    )


def _said(language: Language, words: list[str]) -> list[str]:
    """The verbs of a claim phrase: its first word, and every past form ("invite sent")."""
    past = {"past", "participle"}
    return [
        word
        for index, word in enumerate(words)
        if index == 0 or any(form.kinds & past and word != form.lemma for form in language.forms.get(word, ()))
    ]


def _verbs(language: Language, words: list[str]) -> frozenset[str]:
    return frozenset(lemma for word in words for lemma in language.lemmas(word))
