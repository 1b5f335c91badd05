"""A shell command as the words that a shell would make of it, and what a known program must be sent like.

1. A command is taken apart as a POSIX shell does it: quotes, escapes, and where one simple command ends. A substitution
   inside double quotes is looked at as commands of its own. Nothing is expanded: a script in which the shell would
   still change something is not `plain`.
2. A known program must stand alone (`cd FOLDER &&` before it is all that may be there): what stands around it may
   change what it does. Otherwise the command is refused, with how to send it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_CHANGED: Final = frozenset("$*?[]{}~!#")
_TOKEN: Final = re.compile(
    r"""(?P<single>'[^']*')|(?P<double>"(?:[^"\\]|\\.)*")|(?P<unended>['"])|(?P<escape>\\.?)|(?P<space>[ \t\r]+)
    |(?P<both>&&)|(?P<end>[|&;()`\n])|(?P<redirect>[<>])|(?P<bare>[^\s'"\\|&;()`<>]+)|(?P<other>\s)""",
    re.S | re.X,
)
_HERE_DOCUMENT: Final = re.compile(
    r"(?P<head><<-?[ \t]*(?P<quote>['\"]?)(?P<mark>\w+)(?P=quote)[^\n]*\n).*?^[ \t]*(?P=mark)[ \t]*$", re.S | re.M
)
_ESCAPED: Final = re.compile(r"\\([$`\"\\])")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_RESERVED: Final = frozenset(("!", "{", "do", "elif", "else", "if", "then", "time", "until", "while"))
# fmt: off
_RUNNERS: Final = frozenset(
    (
        "bash", "command", "dash", "doas", "docker", "docker-compose", "env", "eval", "exec", "find", "ionice", "nice",
        "nohup", "npx", "parallel", "pipx", "podman", "poetry", "setsid", "sh", "ssh", "stdbuf", "su", "sudo", "time",
        "timeout", "uv", "uvx", "watch", "xargs", "zsh",
    )
)
# fmt: on


class Refusal(Exception):
    """The command cannot be let through as it is; the message says how to send it instead."""


@dataclass(frozen=True)
class Effect:
    """A call of a registered tool, which a command is."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class SystemReading:
    """What the system shows after a command: whether it is as was asked, and in words."""

    as_asked: bool
    text: str


@dataclass(frozen=True)
class Script:
    """The simple commands of a text, and whether the shell would run exactly these words (rule 1).

    `targets` are the files that output of each is sent to; they are not among its words.
    """

    commands: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, ...], ...]
    plain: bool


def program_words(words: Sequence[str]) -> list[str]:
    """A simple command from its program on: without assignments and the shell's own words before it."""
    words = list(words)
    while words and (_ASSIGNED.match(words[0]) or words[0] in _RESERVED):
        words.pop(0)
    return words


def without_here_documents(text: str) -> str:
    """A text without what stands in its here-documents: input of a command, not commands."""
    return _HERE_DOCUMENT.sub(r"\g<head>", text)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program whose commands have an effect that can be read back."""

    title: str
    """What it is called to whoever sent it, like `git push`."""
    mention: re.Pattern[str]
    """How text names it that is handed on to another program, or that no shell could read."""
    is_command: Callable[[Sequence[str]], bool]
    """Whether the words of a simple command are one of its."""
    read: Callable[[Sequence[str], Path], Effect | None]
    """The effect of such words in a folder, None where they have none; or `Refusal`."""
    how: str = ""
    """What else is said to whoever sent one that does not stand alone."""

    def is_run_by(self, words: Sequence[str]) -> bool:
        """Whether a simple command is one of this program's, or hands one on to a shell or another that runs it."""
        words = program_words(words)
        if not words:
            return False
        handed_on = Path(words[0]).name in _RUNNERS and self.mention.search(" ".join(words[1:])) is not None
        return handed_on or self.is_command([Path(words[0]).name, *words[1:]])

    def sent_alone(self, script: Script, folder: Path) -> tuple[Sequence[str], Path]:
        """The words of the one command, and the folder that it runs in (rule 2)."""
        commands = script.commands
        if len(commands) == 3 and commands[1] == ("&&",) and len(commands[0]) == 2 and commands[0][0] == "cd":
            folder, commands = folder / commands[0][1], commands[2:]
        if len(commands) != 1 or not script.plain or not self.is_command(commands[0]):
            raise Refusal(
                f"Send `{self.title}` as a command of its own, without other commands, variables, patterns or "
                "redirections: what surrounds it may change what it does." + (f" {self.how}" if self.how else "")
            )
        return commands[0], folder


def read_script(text: str) -> Script:
    """The simple commands of a text (rule 1); `ValueError` where a quote never ends.

    `&&` between two commands stands there as a command; other separators do not.
    """
    commands, plain = _Commands(), True
    for token in _TOKEN.finditer(text):
        kind, found = token.lastgroup, token.group()
        if kind == "unended":
            raise ValueError("No closing quotation")
        if kind == "space":
            commands.end_word()
        elif kind in ("both", "end"):
            commands.end_command(found)
            plain = plain and (kind == "both" or (found == "\n" and not text[token.end() :].strip()))
        elif kind == "redirect":
            commands.begin_redirection(found)
            plain = False
        elif kind == "double":
            changed = re.search(r"[$`]", _ESCAPED.sub("", found))
            plain = plain and changed is None
            commands.add(_ESCAPED.sub(r"\1", found[1:-1]).replace("\\\n", ""))
            if changed:
                commands.hidden += _substituted(found[1:-1])
        else:
            plain = plain and not (kind == "bare" and _CHANGED & set(found))
            commands.add(found[1:-1] if kind == "single" else found.removeprefix("\\").removeprefix("\n"))
    commands.end_word()
    parts = [each for each in commands.found if each[0] or each[1]] + [
        (words, []) for words in commands.hidden if words
    ]
    return Script(tuple(tuple(words) for words, _ in parts), tuple(tuple(targets) for _, targets in parts), plain)


class _Commands:
    """The simple commands found so far, with the word that is not at its end."""

    def __init__(self) -> None:
        self.found: list[tuple[list[str], list[str]]] = [([], [])]
        self.hidden: list[list[str]] = []
        self._word: str | None = None
        self._redirection = ""

    def add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def end_word(self) -> None:
        if self._word is not None:
            words, targets = self.found[-1]
            (targets if ">" in self._redirection else words).append(self._word)
            self._redirection = ""
        self._word = None

    def begin_redirection(self, sign: str) -> None:
        if self._word is not None and self._word.isdecimal():
            self._word = None
        self.end_word()
        self._redirection += sign

    def end_command(self, separator: str) -> None:
        self.end_word()
        self._redirection = ""
        self.found += [([separator], []), ([], [])] if separator == "&&" else [([], [])]


def _substituted(text: str) -> Iterator[list[str]]:
    """The words after each opening of a substitution, as far as its end can be seen."""
    for part in re.split(r"\$\(|`|\|\||&&|[|;&\n]", text)[1:]:
        words = re.split(r"[\s()\"']+", part)
        yield [word for word in words if word]


def without_secret(remote: str) -> str:
    """An address without the name and password in it."""
    parts = urlsplit(remote)
    if "://" not in remote or "@" not in parts.netloc:
        return remote
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
