"""A shell command as bash reads it: its simple commands, and the words that are certain.

1. shfmt parses the text as bash. Text that it cannot parse, or is known to read otherwise than bash does, is `Refusal`.
2. A word is plain if it is written out. Of another one only `values` may be known: what the command itself, or the
   environment, gives its variables. Where only the shell could tell, there are none.
3. Folders are followed in the order of the commands; where a folder cannot be told it is None.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import files as installed_files
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_PARSE_S: Final = 10
_MOST_VALUES: Final = 64
_MOST_COMMANDS: Final = 2000
_COMMENT_THAT_GOES_ON: Final = re.compile(rb"(?<![^\s;&|()`])#[^\n]*\\\n")
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.S)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\(\n|[$`\"\\])", re.S)
_KNOWN_ESCAPE: Final = re.compile(r"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|u[0-9a-fA-F]{4})")
_BRACES: Final = re.compile(r"(?<!\$)\{(?:([^{}]*,[^{}]*)|(\w)\.\.(\w)(?:\.\.-?\d+)?|[-\d]+\.\.[-\d.]+)\}")
_OUTPUTS: Final = frozenset((">", ">>", ">|", "&>", "&>>", "<>", ">&"))
_OWN_FOLDER: Final = frozenset(("CmdSubst", "ProcSubst", "Subshell", "CoprocClause"))
_MAY_BE_LEFT_OUT: Final = frozenset(("IfClause", "WhileClause", "ForClause", "CaseClause"))
_MOVES: Final = frozenset(("cd", "pushd", "popd", "chdir"))
_SETS_VARIABLES: Final = frozenset(("read", "printf", "mapfile", "readarray", "getopts", "unset", "wait"))
# A command that is nothing but these is plain.
_PLAIN: Final = frozenset((None, "File", "CallExpr", "BinaryCmd", "Lit", "SglQuoted", "DblQuoted"))
_MORE: Final = frozenset(("Assigns", "Background", "Coprocess", "Disown", "Negated", "Dollar"))

Folders = frozenset[Path | None]


class Refusal(Exception):
    """The command cannot be let through as it is; the message says how to send it instead."""


@dataclass(frozen=True)
class Effect:
    """A call of a registered tool, which a command is."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class SystemReading:
    """The state of the system after a command, in words, and its match with the request."""

    as_asked: bool
    text: str


@dataclass(frozen=True)
class ShellWord:
    """A word of a command (rule 2); `code` is its text as passed to another shell."""

    values: tuple[str, ...]
    plain: bool
    code: str
    pattern: bool = False

    @property
    def text(self) -> str | None:
        """The text of the word, if it can have only one."""
        return self.values[0] if len(self.values) == 1 and not self.pattern else None

    @property
    def last_name(self) -> str | None:
        """The part after the last slash, if at least that is certain."""
        if self.text is not None:
            return self.text.rpartition("/")[2]
        _, slash, name = self.code.rpartition("/")
        return name if slash and re.fullmatch(r"[\w.+-]+", name) else None


UNTOLD: Final = ShellWord((), False, "")


@dataclass(frozen=True)
class Command:
    """A simple command: its words, variables set for it, files opened for output and input, text it reads, folders."""

    words: tuple[ShellWord, ...]
    assigned: tuple[tuple[str, ShellWord], ...] = ()
    targets: tuple[ShellWord, ...] = ()
    inputs: tuple[ShellWord, ...] = ()
    fed: ShellWord | None = None
    folders: Folders = frozenset()

    @property
    def name(self) -> str:
        """The program without its folder; empty if there is none or it is uncertain."""
        return (self.words[0].last_name or "") if self.words else ""

    @property
    def texts(self) -> list[str | None]:
        """The words; None for each uncertain one."""
        return [word.text for word in self.words]

    def from_word(self, place: int) -> Command:
        """The command that starts at this word."""
        return replace(self, words=self.words[place:], assigned=(), targets=())


@dataclass(frozen=True)
class Script:
    """The commands of a text; `alone` is the one command that it is, plain and with no more than `cd FOLDER &&`."""

    text: str
    commands: tuple[Command, ...]
    alone: Command | None
    variables: Mapping[str, Sequence[Any]]


def read_script(text: str, folders: Folders, variables: Mapping[str, Sequence[Any]] | None = None) -> Script:
    """The simple commands of a text that is run in one of these folders (rule 1)."""
    # For bash a carriage return is a letter like any other; the parser would pass over it.
    source = text.replace("\r", "\1").encode(errors="surrogateescape")
    if _COMMENT_THAT_GOES_ON.search(source):
        raise Refusal("End the comment without a backslash: the line after it would not be read as bash reads it.")
    reader = _Reader(source, dict(variables or {}))
    tree = _parse(source)
    nodes = list(_nodes(tree))
    reader.note_variables(nodes)
    reader.walk(tree, folders)
    return Script(text, tuple(reader.commands), reader.alone(nodes), reader.variables)


@cache
def _parser() -> str:
    found = [str(each.locate()) for each in installed_files("shfmt-py") or () if each.name in ("shfmt", "shfmt.exe")]
    if not found:
        raise Refusal("shfmt is not installed, so commands cannot be read: install counterfoil-agents.")
    return found[0]


def _parse(source: bytes) -> Any:
    words = [_parser(), "--language-dialect", "bash", "--to-json"]
    ran = subprocess.run(words, input=source, capture_output=True, timeout=_PARSE_S, cwd="/")
    if ran.returncode or b"\0" in source:
        why = ran.stderr.decode(errors="replace").strip()[:200]
        raise Refusal(
            f"The command cannot be read as bash ({why}), so what it would change cannot be known. Rewrite it."
        )
    return json.loads(ran.stdout)


class _Reader:
    """A walk over the tree of a script."""

    def __init__(self, source: bytes, variables: dict[str, Sequence[Any]]) -> None:
        self.source = source
        self.variables = variables
        self.commands: list[Command] = []
        self._functions: set[str] = set()
        self._open: set[str] = set()
        self._here: Folders = frozenset()

    # Variables

    def note_variables(self, nodes: Sequence[Any]) -> None:
        """Record every value that the script gives a variable; None is an undetermined one."""
        for each in nodes:
            kind, arguments = each.get("Type"), each.get("Args") or ()
            # An option of `declare` may make it another variable's name, or change its letters.
            simple = kind != "DeclClause" or all(one.get("Name") for one in arguments)
            for one in each.get("Assigns") or (arguments if kind == "DeclClause" else ()):
                if name := (one.get("Name") or {}).get("Value"):
                    told = simple and not any(one.get(part) for part in ("Append", "Index", "Array"))
                    self._bind(name, one.get("Value") if told else None)
            if kind == "ForClause" and each["Loop"].get("Type") == "WordIter":
                for item in each["Loop"].get("Items") or [None]:
                    self._bind(each["Loop"]["Name"]["Value"], item)
            if kind == "ParamExp" and "=" in str((each.get("Exp") or {}).get("Op", "")):
                self._bind(each["Param"]["Value"], None)
            if kind == "CallExpr" and arguments and _literal(arguments[0]) in _SETS_VARIABLES:
                for word in arguments[1:]:
                    self._bind(_literal(word) or "", None)

    def _bind(self, name: str, value: Any) -> None:
        self.variables[name] = (*self.variables.get(name, ()), value)

    def _values_of(self, name: str, *, quoted: bool) -> list[str]:
        if name == "PWD":
            found = [str(each) for each in self._here if each is not None] if None not in self._here else []
        elif name not in self.variables:
            found = [os.environ[name]] if name in os.environ else []
        elif name in self._open:
            found = []
        else:
            self._open.add(name)
            words = [self.word(node) if isinstance(node, dict) else UNTOLD for node in self.variables[name]]
            self._open.remove(name)
            found = [value for word in words for value in word.values] if all(word.values for word in words) else []
        split = not quoted and ("IFS" in self.variables or any(re.search(r"[\s*?\[]|^$", value) for value in found))
        return [] if split else found

    # Words

    def word(self, node: Any) -> ShellWord:
        """A word (rule 2)."""
        made, plain, pattern, code = [("", "")], True, False, ""
        for place, part in enumerate(node.get("Parts") or ()):
            texts, is_plain, is_pattern = self._part(part, first=place == 0)
            made = [(a + text, b + (text if is_pattern else glob.escape(text))) for a, b in made for text in texts]
            made = made[: _MOST_VALUES + 1]
            plain, pattern, code = plain and is_plain, pattern or is_pattern, code + self._code(part)
        values = [two if pattern else one for one, two in made]
        if not plain:
            values = [each for value in values for each in _expand_braces(value)]
        if len(values) > _MOST_VALUES or any("\0" in value for value in values):
            values = []
        return ShellWord(tuple(values), plain and bool(values), code, pattern)

    def _part(self, part: Any, *, first: bool, quoted: bool = False) -> tuple[list[str], bool, bool]:
        """The possible texts of a part of a word, whether it is quoted, and whether it is a pattern."""
        kind = part["Type"]
        if kind == "Lit" and quoted:
            return [_ESCAPED_IN_QUOTES.sub(_unescape, part["Value"])], True, False
        if kind == "Lit":
            return self._bare(part["Value"], first=first)
        if kind == "SglQuoted":
            return _ansi_c(part.get("Value", "")) if part.get("Dollar") else [part.get("Value", "")], True, False
        if kind == "DblQuoted":
            inner = [self._part(each, first=False, quoted=True) for each in part.get("Parts") or ()]
            expansions = (each for each in _nodes(part) if each.get("Type") == "ParamExp")
            if any(each.get("Type") == "SglQuoted" for one in expansions for each in _nodes(one)):
                raise Refusal("Write it without quotes inside ${...}: they are not read as bash reads them.")
            texts = ["".join(each) for each in product(*(texts for texts, _, _ in inner))][: _MOST_VALUES + 1]
            return texts, all(is_plain for _, is_plain, _ in inner), False
        if kind == "ParamExp" and set(part) <= {"Type", "Pos", "End", "Dollar", "Short", "Rbrace", "Param"}:
            return self._values_of(part["Param"]["Value"], quoted=quoted), False, False
        known = {"ArithmExp": "0", "ProcSubst": "/dev/fd/63", "CmdSubst": self._printed_path(part)}.get(kind)
        return [known] if known else [], False, False

    def _bare(self, raw: str, *, first: bool) -> tuple[list[str], bool, bool]:
        bare = _ESCAPED.sub("", raw)
        is_pattern, is_braces = bool(re.search(r"[*?]|\[.*\]", bare)), "{" in bare and ("," in bare or ".." in bare)
        text = _ESCAPED.sub(_unescape, raw)
        if first and raw.startswith("~"):
            text = os.path.expanduser(text)
            return [] if text.startswith("~") else [text], False, is_pattern
        return [text], not is_pattern and not is_braces and "}" not in bare.replace("{}", ""), is_pattern

    def _code(self, part: Any) -> str:
        if part["Type"] == "Lit":
            return _ESCAPED.sub(_unescape, part["Value"])
        if part["Type"] == "SglQuoted":
            return "".join(_ansi_c(part.get("Value", ""))) if part.get("Dollar") else str(part.get("Value", ""))
        text = self._raw(part)
        return _ESCAPED_IN_QUOTES.sub(_unescape, text.lstrip("$")[1:-1]) if part["Type"] == "DblQuoted" else text

    def _raw(self, node: Any) -> str:
        return self.source[_offset(node["Pos"]) : _offset(node["End"])].decode(errors="surrogateescape")

    def _printed_path(self, part: Any) -> str:
        """The path printed by a substitution such as `$(pwd)`; empty for any other."""
        (here,) = self._here if len(self._here) == 1 else (None,)
        asked = self._raw(part).strip("$()` ")
        if asked in ("mktemp", "mktemp -d"):
            return f"{os.environ.get('TMPDIR', '/tmp')}/tmp.XXXXXXXXXX"
        if here is None or asked not in ("pwd", "git rev-parse --show-toplevel"):
            return ""
        return str(here if asked == "pwd" else project_of(here))

    # Commands

    def walk(self, node: Any, here: Folders) -> Folders:
        """Note every simple command below a node; the folders that the shell may be in afterwards (rule 3)."""
        if len(self.commands) > _MOST_COMMANDS:
            raise Refusal("Send fewer commands at once.")
        if isinstance(node, list):
            for each in node:
                here = self.walk(each, here)
        if not isinstance(node, dict):
            return here
        kind = node.get("Type")
        if kind == "BinaryCmd":
            return self._walk_pair(node, here)
        if kind == "FuncDecl":
            self._functions.add(node["Name"]["Value"])
            # It may be called from any folder that the script enters.
            self.walk(node["Body"], here if not self._changes_folder() else frozenset({None}))
            return here
        if "Cmd" in node or "Redirs" in node:
            return self._walk_statement(node, here)
        if kind in ("CallExpr", "DeclClause"):
            return self._note_command(node, here)
        after = self.walk(list(node.values()), here)
        if kind in _MAY_BE_LEFT_OUT and after != here:
            after = self.walk(list(node.values()), after | here) | after | here
        return here if kind in _OWN_FOLDER else after

    def _changes_folder(self) -> bool:
        return any(each.encode() in self.source for each in _MOVES)

    def _walk_pair(self, node: Any, here: Folders) -> Folders:
        if node["Op"] in ("|", "|&"):
            self.walk(node["X"], here)
            begin = len(self.commands)
            self.walk(node["Y"], here)
            self._set_input(begin, UNTOLD)
            return here
        after = self.walk(node["X"], here)
        if node["Op"] == "&&":
            return self.walk(node["Y"], after)
        return after | self.walk(node["Y"], after | here)

    def _set_input(self, begin: int, text: ShellWord) -> None:
        for place, command in enumerate(self.commands[begin:], begin):
            if command.fed is None:
                self.commands[place] = replace(command, fed=text)

    def _walk_statement(self, node: Any, here: Folders) -> Folders:
        self._here = here
        redirections = node.get("Redirs") or ()
        targets = tuple(self.word(each["Word"]) for each in redirections if each["Op"] in _OUTPUTS)
        inputs = tuple(self.word(each["Word"]) for each in redirections if each["Op"] == "<")
        texts = [self._here_text(each) for each in redirections if each["Op"].startswith("<<")]
        texts += [UNTOLD for word in inputs if not word.plain]
        self.walk([[each.get("Word"), each.get("Hdoc")] for each in redirections], here)
        begin, command = len(self.commands), node.get("Cmd") or {}
        after = self.walk(command, here)
        if texts:
            self._set_input(begin, texts[-1])
        if command.get("Type") == "CallExpr" and len(self.commands) > begin:
            self.commands[-1] = replace(self.commands[-1], targets=targets, inputs=inputs)
        elif targets or inputs:
            self.commands.append(Command((), targets=targets, inputs=inputs, folders=here))
        return here if node.get("Background") or node.get("Coprocess") else after

    def _here_text(self, redirection: Any) -> ShellWord:
        """The text of a here-document or a here-string."""
        if not redirection.get("Hdoc"):
            return self.word(redirection["Word"])
        parts = redirection["Hdoc"].get("Parts") or ()
        text = "".join(each["Value"] if each["Type"] == "Lit" else self._raw(each) for each in parts)
        return ShellWord((), False, text)

    def _note_command(self, node: Any, here: Folders) -> Folders:
        self.walk([node.get("Assigns"), node.get("Args")], here)
        self._here = here
        is_declaration = node["Type"] == "DeclClause"
        pairs = node.get("Assigns") or (node.get("Args", ()) if is_declaration else ())
        assigned = [
            (each["Name"]["Value"], self.word(each["Value"]) if each.get("Value") else UNTOLD)
            for each in pairs
            if each.get("Name")
        ]
        words = [self.word(each) for each in node.get("Args") or () if "Parts" in each]
        if is_declaration:
            words = [ShellWord((node["Variant"]["Value"],), True, node["Variant"]["Value"])]
        made = Command(tuple(words), tuple(assigned), folders=here)
        self.commands.append(made)
        if made.name in self._functions and self._changes_folder():
            return frozenset({None})
        return _change_folder(made, here, searches="CDPATH" in self.variables or bool(os.environ.get("CDPATH")))

    def alone(self, nodes: Sequence[Any]) -> Command | None:
        """The one plain command of a script, in the folder that `cd FOLDER &&` before it names."""
        if not self.commands or any(
            each.get("Type") not in _PLAIN
            or any(each.get(part) for part in _MORE)
            or each.get("Op", "&&") not in ("&&", "<")
            or ("Op" in each and each.get("N"))
            for each in nodes
        ):
            return None
        *before, found = self.commands
        if len(nodes[0]["Stmts"]) > 1 or len(before) > 1 or any(each.name != "cd" or each.inputs for each in before):
            return None
        words = [word for command in self.commands for word in (*command.words, *command.inputs)]
        known = len(found.folders) == 1 and None not in found.folders
        return found if found.words and known and all(word.plain for word in words) else None


def _change_folder(command: Command, here: Folders, *, searches: bool) -> Folders:
    """The possible folders after a command, which may change the folder or fail to."""
    words = list(command.words)
    while words and words[0].text in ("builtin", "command"):
        words.pop(0)
    name = words[0].text if words else ""
    if name not in _MOVES:
        return here
    to = [word for word in words[1:] if word.text not in ("-P", "-L", "-e", "-@", "--")]
    if not to and name == "cd":
        return frozenset({Path.home()})
    if len(to) != 1 or not to[0].values or to[0].pattern or name == "popd":
        return frozenset({None})
    return frozenset(
        each for folder in here for value in to[0].values for each in _folders_entered(folder, value, searches)
    )


def _folders_entered(folder: Path | None, value: str, searches: bool) -> list[Path | None]:
    """The possible folders after `cd VALUE`; None where bash and the system may differ (links, CDPATH)."""
    searched = searches and not value.startswith(("/", "."))
    if value.startswith(("-", "+")) or not value or searched or (folder is None and not value.startswith("/")):
        return [None]
    written = (folder or Path("/")) / value
    straight = Path(os.path.normpath(written))
    if straight.resolve() != Path(os.path.realpath(written)):
        return [None]
    return [straight] if straight.is_dir() else [straight, folder]


def project_of(folder: Path) -> Path:
    """Return the git repository that contains a folder, otherwise the folder."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(each)


def _literal(word: Any) -> str | None:
    parts: list[Any] = word.get("Parts") or []
    return parts[0]["Value"] if len(parts) == 1 and parts[0]["Type"] == "Lit" else None


def _offset(position: Any) -> int:
    return int(position.get("Offset", 0))


def _unescape(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _ansi_c(text: str) -> list[str]:
    """The text of `$'...'`; None if an escape means something else in Python."""
    if "\\" in _KNOWN_ESCAPE.sub("", text) or not text.isascii():
        return []
    return [text.encode().decode("unicode_escape")]


def _expand_braces(text: str) -> list[str]:
    """Expand braces as bash does; a range of numbers becomes one word without it."""
    found = _BRACES.search(text)
    if found is None:
        return [text]
    if text.count("{") > 6:
        return []
    before, after = text[: found.start()], text[found.end() :]
    parts = [chr(each) for each in range(ord(found[2]), ord(found[3]) + 1)] if found[2] else (found[1] or "").split(",")
    return [one for part in parts for one in _expand_braces(before + part + after)]


def without_secret(remote: str) -> str:
    """An address without the name and password in it."""
    parts = urlsplit(remote)
    if "://" not in remote or "@" not in parts.netloc:
        return remote
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
