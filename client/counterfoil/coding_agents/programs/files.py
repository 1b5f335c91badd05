"""Files outside the project tree, and the settings of clients in it: written whole, or removed.

1. The project tree is the git repository that the command runs in, else its folder. What is inside it, the folder for
   temporary files and devices are left alone. Settings of a client are not: they could switch this hook off.
2. What a file will hold must be known beforehand: `cp FILE PATH`, or a file tool of the client that gives the whole
   content. A redirection, `tee`, `sed -i` and others that lead outside are refused, with how to do it instead.
3. A path leads where the system follows it to, links included. Where only the shell could tell, it is refused.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from counterfoil.coding_agents.asking import digest_and_size
from counterfoil.coding_agents.clients import PROJECT_SETTINGS
from counterfoil.coding_agents.options import table
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script, ShellWord, project_of

WRITERS: Final = {name: rows for names, rows in table("writers").items() for name in names.split()}
_ALLOWED: Final = frozenset({"-f", "-v", "--", "--force", "--verbose"})
_OPERANDS: Final = {"all": slice(None), "first": slice(1), "last": slice(-1, None), "none": slice(0)}
_MOST_MATCHES: Final = 1000
_HOW: Final = (
    "Outside the project only two things can be held and read back: `cp FILE PATH` and `rm PATH` of one file each, as "
    "commands of their own, with names that hold no variables or patterns (or the client's tool that writes a whole "
    "file). A client's settings count as outside."
)


def read_files(script: Script, commands: Sequence[Command], folder: Path) -> Effect | None:
    """The write or removal outside the tree that a script makes; None if there is none; or `Refusal`."""
    tree = project_of(folder)
    links = [each for each in commands if each.name == "ln" and len(commands) > 1]
    if any(_goes_outside(word, each, tree, removes=False) for each in links for word in each.words[1:]):
        raise Refusal("Make a link that leads outside the project by a command of its own: nothing may follow it yet.")
    if not any(_leads_out(command, tree) for command in commands):
        return None
    alone = script.alone
    if alone is None or alone.targets or alone.inputs or alone.words[0].text not in ("cp", "rm"):
        raise Refusal(f"This would write outside the project. {_HOW}")
    (folder,) = (each for each in alone.folders if each is not None)
    words = [str(word.text) for word in alone.words]
    paths = [each for each in words[1:] if not each.startswith("-")]
    if set(words[1:]) - {*paths, *_ALLOWED} or len(paths) != (2 if words[0] == "cp" else 1):
        raise Refusal(f"This would write outside the project. {_HOW}")
    if words[0] == "rm":
        return _removal(folder / paths[0])
    source, target = folder / paths[0], folder / paths[1]
    return _write(target / source.name if target.is_dir() else target, *digest_and_size(source))


def read_file_tool(path: str, content: str | None, folder: Path) -> Effect | None:
    """The write of a client's file tool outside the tree; None inside it. `content` is None for an edit."""
    target = folder / os.path.expanduser(path)
    if not _is_outside(str(target), project_of(folder), removes=False):
        return None
    if content is None:
        raise Refusal(f"This would change {path}, outside the project, only in part. {_HOW}")
    data = content.encode()
    return _write(target, hashlib.sha256(data).hexdigest(), len(data))


def machine() -> str:
    """An identifier of this machine that reveals nothing else about it."""
    try:
        return hashlib.sha256(b"counterfoil " + Path("/etc/machine-id").read_bytes().strip()).hexdigest()[:32]
    except OSError as fault:
        raise Refusal(
            "This machine has no /etc/machine-id, so the record could not name the machine that the file is on."
        ) from fault


def _write(path: Path, digest: str, size: int) -> Effect:
    if path.is_symlink():
        raise Refusal(f"{path} is a link; write to the file it points to.")
    about = {"sha256": digest, "size": size}
    return Effect("file_write", {"machine": machine(), "path": _resolve_parent(path), **about})


def _removal(path: Path) -> Effect:
    if not path.is_file() and not path.is_symlink():
        raise Refusal(f"{path} does not exist, so nothing would be removed.")
    return Effect("file_remove", {"machine": machine(), "path": _resolve_parent(path)})


def _resolve_parent(path: Path) -> str:
    return str(path.parent.resolve() / path.name).lstrip("/")


def _leads_out(command: Command, tree: Path) -> bool:
    """True if a command writes or removes a file outside. Raises `Refusal` in doubt (rule 3)."""
    found = [(word, False) for word in command.targets]
    for row in WRITERS.get(command.name, ()):
        found += _written_paths(command.words[1:], row)
    return any(_goes_outside(word, command, tree, removes=removes) for word, removes in found)


def _written_paths(words: Sequence[ShellWord], row: Mapping[str, Any]) -> Iterator[tuple[ShellWord, bool]]:
    """The paths that a program writes, by a row of its table, each with True if it removes the name."""
    if not re.search(row.get("when", ""), " ".join(word.code for word in words), re.S):
        return
    rest, operands, named = list(words), list[ShellWord](), list[ShellWord]()
    while rest:
        word = rest.pop(0)
        option = re.match(row["options"], word.code) if "options" in row else None
        if option and option.end() == len(word.code):
            named, rest = named + rest[:1], rest[1:]
        elif option:
            values = tuple(value.removeprefix(option.group()).removeprefix("=") for value in word.values)
            named.append(replace(word, values=values))
        elif re.fullmatch(row.get("ignores", "(?!)"), word.code):
            rest = rest[1:]
        elif not re.match("-.", word.code):
            operands.append(word)
    which = "none" if named and row.get("operands") == "last" else row.get("operands", "all")
    for word in (*named, *operands[row.get("skip", 0) :][_OPERANDS[which]]):
        for removes in (True, False) if row.get("replaces") else (bool(row.get("removes")),):
            yield word, removes


def _goes_outside(word: ShellWord, command: Command, tree: Path, *, removes: bool) -> bool:
    if word.text is not None and re.fullmatch(r"\d+|-|&.*", word.text) and word in command.targets:
        return False
    if not word.values:
        raise Refusal(f"Where {word.code or 'this'} leads cannot be known in advance. {_HOW}")
    for value in word.values:
        for folder in command.folders:
            if folder is None and not value.startswith("/"):
                raise Refusal(f"In which folder {word.code} is cannot be known in advance. {_HOW}")
            path = os.path.join(folder or "/", value)
            matches = glob.glob(path)[:_MOST_MATCHES] if word.pattern else []
            if any(_is_outside(each, tree, removes=removes) for each in (path, *matches)):
                return True
    return False


def _is_outside(written: str, tree: Path, *, removes: bool) -> bool:
    """True if a file is outside with every link followed (all but the last if the name itself is removed)."""
    found = Path(os.path.realpath(written))
    above, _, name = written.rpartition("/")
    if removes and name not in ("", "..", "."):
        found = Path(os.path.realpath(above or "/")) / name
    if found.is_relative_to(tree):
        # A file system may not tell letters by their case.
        inside = str(found.relative_to(tree)).casefold()
        return any(inside == each or f"{inside}/".startswith(f"{each}/") for each in PROJECT_SETTINGS) or (
            removes and any(f"{each}/".startswith(f"{inside}/") and (tree / each).exists() for each in PROJECT_SETTINGS)
        )
    own = (Path(os.environ.get("TMPDIR", "/tmp")).resolve(), Path("/dev"), Path("/proc"))
    return not any(found.is_relative_to(each) for each in own)
