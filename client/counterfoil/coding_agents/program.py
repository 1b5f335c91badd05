"""A program whose commands are held, and how it is recognised in text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterfoil.coding_agents.options import table
from counterfoil.coding_agents.shell import Command, Effect, Script

_MENTIONS: Final = {
    name: frozenset(verbs.split()) for names, verbs in table("mentions").items() for name in names.split()
}
_BETWEEN: Final = re.compile(r"[\s;&|()<>`\"'{}$=,:\[\]!]+")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program whose commands have an effect that can be read back."""

    title: str
    """What it is called to whoever sent it, like `git push`."""
    names: Sequence[str]
    changes: Callable[[Command, Script], bool]
    """Whether one of its commands may change what is held, as far as its words tell; asks nobody."""
    read: Callable[[Sequence[str], Path], Effect | None]
    """The effect of plain words in a folder, None where they have none; or `Refusal`."""
    how: str = ""
    """What else is said to whoever sent one that does not stand alone."""


def mentions(text: str) -> str:
    """The guarded program and verb that a text mentions in any shell form; empty if none."""
    words = _BETWEEN.split(text.replace("\\\n", "").replace("\\", ""))
    for place, word in enumerate(words):
        name = word.rpartition("/")[2]
        verbs = _MENTIONS.get(name)
        if verbs is not None and (not verbs or not verbs.isdisjoint(words[place + 1 :])):
            return name
        if name.startswith("git-") and (name == word or "git-core/" in word) and name[4:] in _MENTIONS["git"]:
            return "git"
    return ""
