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

    def __init__(self, word: str, how: str) -> None:
        super().__init__(f"Send it without {word}: what it would change cannot be known in advance. {how}".strip())


@cache
def table(*names: str) -> Mapping[str, Any]:
    """A part of `programs.toml`."""
    found: Any = tomllib.loads((files("counterfoil.coding_agents") / "programs.toml").read_text())
    for name in names:
        found = found.get(name, {})
    return dict(found)


@dataclass(frozen=True)
class Given:
    """The last value of each option, in order, and the operands. `None` represents an uncertain word."""

    pairs: Sequence[tuple[str, str | bool | None]]
    operands: Sequence[str | None]

    @property
    def options(self) -> dict[str, str | bool | None]:
        """The effective options: the last value of each."""
        return dict(self.pairs)

    def text(self, name: str) -> str:
        """The value of an option, empty if it is not given."""
        value = self.options.get(name)
        return value if isinstance(value, str) else ""


def read_options(words: Sequence[str | None], *names: str, up_to_operand: bool = False, how: str = "") -> Given:
    """The options and operands of words, by the table of these names; `up_to_operand`: options before the verb only.

    `how` is what a refusal adds.
    """
    program, forms = table(names[0]), _forms(*names)
    single_dash, flags_take = program.get("style") == "single dash", program.get("flags_take") == "="
    pairs, operands, rest = list[tuple[str, str | bool | None]](), list[str | None](), list(words)
    while rest and not (up_to_operand and operands):
        word = rest.pop(0)
        if word == "--":
            break
        if not word or word == "-" or not word.startswith("-"):
            operands.append(word)
            continue
        is_long = single_dash or word.startswith("--")
        spelled, is_joined, value = word.partition("=") if is_long else (word[:2], word[2:], word[2:])
        spelled = "-" + spelled.lstrip("-") if single_dash else spelled
        form, name, is_on = _look_up(spelled, forms, program) or ("", "", False)
        if not form:
            raise UnknownOption(spelled, how)
        if form == "flags" and is_joined and not is_long:
            # A cluster: the other letters are options as well.
            rest.insert(0, f"-{value}")
            is_joined = ""
        takes_next = form == "values" and is_on and not is_joined
        if (form == "flags" and is_joined and not flags_take) or (takes_next and not rest):
            raise UnknownOption(word, how)
        if takes_next:
            pairs.append((name, rest.pop(0)))
        elif is_joined:
            value = value if is_long or not flags_take else value.removeprefix("=")
            pairs.append((name, value != "false" if form == "flags" else value))
        else:
            pairs.append((name, is_on))
    if not up_to_operand and (wrong := next((each for each in rest if each and each.startswith("-")), "")):
        raise UnknownOption(wrong, how)
    return Given(pairs, [*operands, *rest])


def changes_nothing(words: Sequence[str | None], program: str) -> bool:
    """Return True if these words only make a program read or show its help, by its table; False if in doubt."""
    try:
        given = read_options(words, program, up_to_operand=True)
        verb, *rest = given.operands or [""]
        shows_help = not verb or not given.options.keys().isdisjoint(("help", "version"))
        if shows_help or verb in table(program)["reads"].split():
            return True
        second = (*read_options(rest, program, up_to_operand=True).operands, "")[0]
    except UnknownOption:
        return False
    return f"{verb} {second}" in table(program)["read_pairs"]


@cache
def _forms(*names: str) -> Mapping[str, tuple[str, str]]:
    """Form and name of each spelling of an option."""
    parts = (table(names[0]).get("everywhere", {}), table(*names))
    lines = [(form, line.split()) for form in _ALL_FORMS for part in parts for line in part.get(form, ())]
    return {each: (form, spellings[-1].lstrip("-")) for form, spellings in lines for each in spellings}


def _look_up(
    spelled: str, forms: Mapping[str, tuple[str, str]], program: Mapping[str, Any]
) -> tuple[str, str, bool] | None:
    """The form and name of an option, and whether it is on; abbreviations and negations are resolved where allowed."""
    negated = spelled.replace("--no-", "--", 1) if program.get("negated") else spelled
    for each, is_on in ((spelled, True), (negated, False)):
        if each in forms:
            return (*forms[each], is_on)
    if not program.get("abbreviated") or len(spelled) <= 2:
        return None
    found = {(*forms[each], True) for each in forms if each.startswith(spelled)}
    if negated != spelled:
        found |= {(*forms[each], False) for each in forms if each.startswith(negated)}
    return found.pop() if len(found) == 1 else None
