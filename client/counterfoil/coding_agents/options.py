"""The options of programs, as data: which words of a command are options, which are values, and which is the verb.

`programs.toml` holds, for each program and verb, options with no value, with one, and with one that only `=` can give.
An option that stands in none of them is `UnknownOption`: nobody could say whether the next word is its value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from counterfoil.coding_agents.shell import Refusal

_ALL_FORMS: Final = ("flags", "values", "optional")


class UnknownOption(Refusal):
    """An option that is not in the table of its program."""

    def __init__(self, word: str) -> None:
        super().__init__(f"Send it without {word}: what it would change cannot be known in advance.")
        self.word = word


@cache
def table(*names: str) -> Mapping[str, Any]:
    """A part of `programs.toml`."""
    found: Any = tomllib.loads((files("counterfoil.coding_agents") / "programs.toml").read_text())
    for name in names:
        found = found.get(name, {})
    return dict(found)


@dataclass(frozen=True)
class Given:
    """Options by their last spelling, in order; operands. `None` stands for a word that is not certain."""

    pairs: Sequence[tuple[str, str | bool | None]]
    operands: Sequence[str | None]

    @property
    def options(self) -> dict[str, str | bool | None]:
        """The last one of each option, which is the one that counts."""
        return dict(self.pairs)

    def text(self, name: str) -> str:
        """The value of an option, empty where it is not given."""
        value = self.options.get(name)
        return value if isinstance(value, str) else ""


def read_options(words: Sequence[str | None], *names: str, up_to_operand: bool = False) -> Given:
    """The options and operands of words, by the table of these names; `up_to_operand`: options before the verb only."""
    reader = _Reader(table(names[0]), table(*names))
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word is None or word in ("", "-") or not word.startswith("-"):
            reader.operands.append(word)
            if up_to_operand:
                break
        elif word == "--":
            break
        elif word.startswith("--") or reader.single_dash:
            reader.read_long(word, rest)
        else:
            reader.read_cluster(word, rest)
    if wrong := next((each for each in rest if each and each.startswith("-") and not up_to_operand), ""):
        raise UnknownOption(wrong)
    return Given(reader.pairs, [*reader.operands, *rest])


class _Reader:
    def __init__(self, program: Mapping[str, Any], part: Mapping[str, Any]) -> None:
        self.pairs: list[tuple[str, str | bool | None]] = []
        self.operands: list[str | None] = []
        self.single_dash = program.get("style") == "single dash"
        self._program = program
        self._forms: dict[str, tuple[str, str]] = {}
        for form in _ALL_FORMS:
            for line in (*program.get("everywhere", {}).get(form, ()), *part.get(form, ())):
                spellings = line.split()
                self._forms |= {each: (form, spellings[-1].lstrip("-")) for each in spellings}

    def read_long(self, word: str, rest: list[str | None]) -> None:
        spelled, is_joined, value = word.partition("=")
        spelled = "-" + spelled.lstrip("-") if self.single_dash else spelled
        form, name, is_on = self._look_up(spelled)
        if is_joined and form == "flags" and self._program.get("flags_take") != "=":
            raise UnknownOption(word)
        if is_joined:
            self.pairs.append((name, value != "false" if form == "flags" else value))
        elif form == "values" and is_on:
            self.pairs.append((name, self._next(spelled, rest)))
        else:
            self.pairs.append((name, is_on))

    def read_cluster(self, word: str, rest: list[str | None]) -> None:
        for place, letter in enumerate(word[1:], 2):
            form, name, _ = self._look_up(f"-{letter}", exact=True)
            if form == "values":
                joined = word[place:].removeprefix("=") if self._program.get("flags_take") == "=" else word[place:]
                self.pairs.append((name, joined or self._next(word, rest)))
                return
            if form == "optional":
                self.pairs.append((name, word[place:] or True))
                return
            self.pairs.append((name, True))

    def _next(self, word: str, rest: list[str | None]) -> str | None:
        if not rest:
            raise UnknownOption(word)
        return rest.pop(0)

    def _look_up(self, spelled: str, *, exact: bool = False) -> tuple[str, str, bool]:
        """Form and name of an option, and whether it is switched on; abbreviated or negated where that is allowed."""
        negated = spelled.replace("--no-", "--", 1) if self._program.get("negated") else spelled
        for each, is_on in ((spelled, True), (negated, False)):
            if each in self._forms:
                return (*self._forms[each], is_on)
        if self._program.get("abbreviated") and not exact and len(spelled) > 2:
            names = {self._forms[each]: True for each in self._forms if each.startswith(spelled)}
            if negated != spelled:
                names |= {self._forms[each]: False for each in self._forms if each.startswith(negated)}
            if len(names) == 1:
                (((form, name), is_on),) = names.items()
                return form, name, is_on
        raise UnknownOption(spelled)
