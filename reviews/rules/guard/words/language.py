"""A language: which words say that something was done, and to what. All of it is data (`english.json`).

1. A verb has senses: groups of verbs that may be said of the same operation. A thing has kin: nouns that may be said of
   the same object. Both only ever help to find the action that a claim is about; they clear nothing by themselves.
2. Forms are made once from the lemmas: regular ones by rule, the others as the data has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any

VOWELS = frozenset("aeiou")


@dataclass(frozen=True, slots=True)
class Form:
    """What a word may be: a form (base, third, past, participle, gerund) of a lemma."""

    lemma: str
    kinds: frozenset[str]


@dataclass(frozen=True, eq=False)
class Language:
    """The data of one language, indexed."""

    data: Mapping[str, Any]
    forms: Mapping[str, tuple[Form, ...]]
    senses: Mapping[str, frozenset[str]]
    kin: Mapping[str, frozenset[str]]
    stop: frozenset[str]
    sets: Mapping[str, frozenset[str]]
    bare: frozenset[str]

    def lemmas(self, word: str) -> frozenset[str]:
        """The verbs that a word may be a form of."""
        return self._lemmas.get(word, _NONE)

    @cached_property
    def _lemmas(self) -> Mapping[str, frozenset[str]]:
        return {word: frozenset(form.lemma for form in forms) for word, forms in self.forms.items()}

    def of_kinds(self, kinds: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
        """The words that may be a form of one of these kinds, each with the verbs that it may be a form of."""
        known = self._of_kinds.get(kinds)
        if known is None:
            wanted = frozenset(kinds)
            found = (
                (word, frozenset(form.lemma for form in forms if form.kinds & wanted))
                for word, forms in self.forms.items()
            )
            known = self._of_kinds[kinds] = {word: lemmas for word, lemmas in found if lemmas}
        return known

    @cached_property
    def _of_kinds(self) -> dict[tuple[str, ...], Mapping[str, frozenset[str]]]:
        return {}

    @cached_property
    def contractions(self) -> Mapping[str, tuple[str, ...]]:
        """Two words that are written as one, in two."""
        return {word: tuple(parts.split()) for word, parts in self.data["reading"]["contractions"].items()}

    @cached_property
    def longest_bare(self) -> int:
        """How many words the longest idiom has that is a claim by itself ("all done"), with "you're" as two."""
        return max(len(idiom.split()) for idiom in self.bare) + 1

    @cached_property
    def told_forms(self) -> frozenset[str]:
        """The words that may be a verb in the past or the third person."""
        return frozenset(self.of_kinds(("past", "third")))

    @cached_property
    def opposites(self) -> frozenset[str]:
        """The words of which another excludes each."""
        return frozenset(word for groups in self.data["reading"]["opposites"] for group in groups for word in group)

    def contracted(self, words: str) -> str:
        """A phrase with "you are" as "you're", as the idioms are written."""
        return words.replace("you are", "you're").replace("it is", "it's")

    def phrasal(self, words: list[str]) -> list[str]:
        """The words with each verb and its particle as the one verb that they mean: "called off" is "cancel".

        "Back" may stand behind what is given: "gave you £5 back".
        """
        if self.particles.isdisjoint(words):
            return words
        made: list[str] = []
        for word in words:
            near = made[-1:] if word != "back" else made[: -NEAR - 1 : -1]
            meant = next((each for each in (self._meant(verb, word) for verb in near) if each), None)
            if meant is None or word not in self.particles:
                made.append(word)
                continue
            at = next(at for at in range(len(made) - 1, -1, -1) if self._meant(made[at], word))
            made[at] = meant
        return made

    @cached_property
    def particles(self) -> frozenset[str]:
        """The particles of the verbs that mean another verb with them."""
        return frozenset(phrase.partition(" ")[2] for phrase in self.data["reading"]["particles"])

    def _meant(self, verb: str, particle: str) -> str | None:
        known = self.data["reading"]["particles"]
        return next(
            (known[f"{lemma} {particle}"] for lemma in self.lemmas(verb) if f"{lemma} {particle}" in known), None
        )

    def singular(self, word: str) -> str:
        """A noun without its plural ending."""
        return singular(word)

    def is_imperative(self, words: Sequence[str]) -> bool:
        """Whether a clause begins with the base form of a verb, and no other form of one: "check that …"."""
        first = next((word for word in words if word not in self.sets["adverbs"]), "")
        kinds = {kind for form in self.forms.get(first, ()) for kind in form.kinds}
        return "base" in kinds and not kinds & {"past", "participle"} and first not in self.kin

    def senses_of(self, lemmas: Iterable[str]) -> frozenset[str]:
        """The senses of these verbs."""
        return frozenset(sense for lemma in lemmas for sense in self.senses.get(lemma, ()))


NEAR = 4
"""So many words may stand between a verb and its "back"."""
_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=8192)
def singular(word: str) -> str:
    """A noun without its plural ending."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@cache
def english() -> Language:
    """English, the first language."""
    return read(json.loads(files("reviews.rules.guard").joinpath("english.json").read_bytes()))


def read(data: Mapping[str, Any]) -> Language:
    """A language from its data (rules 1 and 2)."""
    senses: dict[str, set[str]] = {}
    for sense, lemmas in data["senses"].items():
        for lemma in lemmas:
            senses.setdefault(lemma, set()).add(sense)
    kin: dict[str, set[str]] = {}
    for number, things in enumerate(data["things"]):
        for thing in things:
            kin.setdefault(thing, set()).add(str(number))
    sets = data["reading"]["sets"]
    known = {*senses, *data["irregular"], *data["verbs"], *sets["inert"], *sets["looks"], *sets["intransitive"]}
    return Language(
        data=data,
        forms=_forms(known, data),
        senses={lemma: frozenset(each) for lemma, each in senses.items()},
        kin={thing: frozenset(each) for thing, each in kin.items()},
        stop=frozenset(data["stop"]),
        sets={name: frozenset(words) for name, words in data["reading"]["sets"].items()},
        bare=frozenset(data["reading"]["idioms"]["bare"]),
    )


def _forms(lemmas: Iterable[str], data: Mapping[str, Any]) -> dict[str, tuple[Form, ...]]:
    found: dict[str, dict[str, set[str]]] = {}

    def add(word: str, lemma: str, kind: str) -> None:
        found.setdefault(word, {}).setdefault(lemma, set()).add(kind)

    for lemma in sorted(lemmas):
        add(lemma, lemma, "base")
        add(third(lemma), lemma, "third")
        for stem in _stems(lemma, data):
            add(_gerund(stem), lemma, "gerund")
            if lemma not in data["irregular"]:
                for kind in ("past", "participle"):
                    add(_past(stem), lemma, kind)
        if lemma in data["irregular"]:
            past, participle = data["irregular"][lemma]
            add(past, lemma, "past")
            add(participle, lemma, "participle")
    return {word: tuple(Form(lemma, frozenset(kinds)) for lemma, kinds in by.items()) for word, by in found.items()}


def _stems(lemma: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    if lemma in data["doubled"]:
        return (lemma + lemma[-1],)
    return (lemma, lemma + lemma[-1]) if lemma in data["doubled_or_not"] else (lemma,)


def third(lemma: str) -> str:
    """The third person of a verb."""
    if lemma.endswith("y") and lemma[-2] not in VOWELS:
        return lemma[:-1] + "ies"
    return lemma + ("es" if lemma.endswith(("s", "x", "ch", "sh", "o", "z")) else "s")


def _gerund(stem: str) -> str:
    return (stem[:-1] if stem.endswith("e") and not stem.endswith("ee") else stem) + "ing"


def _past(stem: str) -> str:
    if stem.endswith("e"):
        return stem + "d"
    return stem[:-1] + "ied" if stem.endswith("y") and stem[-2] not in VOWELS else stem + "ed"


def unknown_verb(word: str) -> str:
    """The verb that a word is the past of, as far as its ending tells."""
    return word.removesuffix("ed")


def looks_past(word: str) -> bool:
    """Whether a word that is no known verb looks like the past of one."""
    return len(word) > 4 and word.endswith("ed") and not word.endswith(("eed", "hundred", "red"))
