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
from functools import cache
from pathlib import Path
from typing import Any, Final

from counterfoil.coding_agents.asking import digest_and_size
from counterfoil.coding_agents.clients import PROJECT_SETTINGS
from counterfoil.coding_agents.options import table
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script, ShellWord, project_of

_WRITERS: Final = table("writers")
_ALLOWED: Final = frozenset({"-f", "-v", "--", "--force", "--verbose"})
_IN_PLACE: Final = re.compile(r"-[a-zA-Z]*i.*|--in-place.*")
_SCRIPT: Final = re.compile(r"-[nErsuz]*[ef].*|--(?:expression|file)\b.*")
_MOST_MATCHES: Final = 1000
_HOW: Final = (
    "Outside the project only two things can be held and read back: `cp FILE PATH` and `rm PATH` of one file each, as "
    "commands of their own, with names that hold no variables or patterns (or the client's tool that writes a whole "
    "file). A client's settings count as outside."
)


def read_files(script: Script, commands: Sequence[Command], folder: Path) -> Effect | None:
    """The write or removal outside the tree that a script is; None where it leads nowhere outside; or `Refusal`."""
    tree = project_of(folder)
    if not any(_leads_out(command, tree) for command in commands if command.is_sure):
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
    """What a file tool of the client would write outside the tree; None inside it; `content` is None for an edit."""
    target = folder / os.path.expanduser(path)
    if not _is_outside(str(target), project_of(folder), removes=False):
        return None
    if content is None:
        raise Refusal(f"This would change {path}, outside the project, only in part. {_HOW}")
    data = content.encode()
    return _write(target, hashlib.sha256(data).hexdigest(), len(data))


def machine() -> str:
    """What tells this machine from others, and nothing else."""
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
    return Effect("file_write", {"machine": machine(), "path": _resolved(path), **about})


def _removal(path: Path) -> Effect:
    if not path.is_file() and not path.is_symlink():
        raise Refusal(f"{path} does not exist, so nothing would be removed.")
    return Effect("file_remove", {"machine": machine(), "path": _resolved(path)})


def _resolved(path: Path) -> str:
    return str(path.parent.resolve() / path.name).lstrip("/")


def _leads_out(command: Command, tree: Path) -> bool:
    """Whether a command writes or removes a file outside; `Refusal` where that cannot be told (rule 3)."""
    found = [(word, False) for word in command.targets]
    name = str(command.words[0].last_name) if command.words else ""
    if name in _WRITERS:
        found += _written(command.words[1:], _WRITERS[name])
    return any(_goes_outside(word, command, tree, removes=removes) for word, removes in found)


def _written(words: Sequence[ShellWord], about: Mapping[str, Any]) -> Iterator[tuple[ShellWord, bool]]:
    """The words that are paths which a program writes, as its row of the table says, and whether it removes them."""
    removes, skipped = bool(about.get("removes")), about.get("skip", 0)
    if about.get("in_place"):
        if not any(_IN_PLACE.fullmatch(word.code) for word in words):
            return
        skipped = 0 if any(_SCRIPT.fullmatch(word.code) for word in words) else 1
        removes = not any(word.code == "--follow-symlinks" for word in words)
    if "when" in about and not any(word.text in about["when"] for word in words):
        return
    into, operands = _operands(words, about)
    yield from ((word, False) for word in into)
    operands = [] if about.get("only_folder") else operands[skipped:]
    yield from ((word, removes) for word in (operands[-1:] if about.get("last") and not into else operands))
    if about.get("moves"):
        yield from ((word, False) for word in operands[-1:])


def _operands(words: Sequence[ShellWord], about: Mapping[str, Any]) -> tuple[list[ShellWord], list[ShellWord]]:
    """The values of options that name where a program writes, and its operands."""
    names, rest, operands, into = about.get("folder", ()), list(words), list[ShellWord](), list[ShellWord]()
    while rest:
        word = rest.pop(0)
        found = next((found for name in names if (found := _option(name).match(word.code))), None)
        if found and found.end() == len(word.code):
            into += rest[:1]
            rest = rest[1:]
        elif found:
            into.append(_without_start(word, found.group()))
        elif "named" in about:
            operands += [_without_start(word, about["named"])] if word.code.startswith(about["named"]) else []
        elif word.code != "--" and not (word.code.startswith("-") and len(word.code) > 1):
            operands.append(word)
    return into, operands


@cache
def _option(name: str) -> re.Pattern[str]:
    """How an option may be spelled: `-t` also behind other letters, `--target-directory` also cut short."""
    if not name.startswith("--"):
        return re.compile(rf"-[A-Za-z]*?{name[1]}")
    longer = "".join(f"(?:{letter}" for letter in name[4:]) + ")?" * len(name[4:])
    return re.compile(rf"{name[:4]}{longer}(?:=|$)")


def _without_start(word: ShellWord, start: str) -> ShellWord:
    values = tuple(value.removeprefix(start).removeprefix("=") for value in word.values)
    return ShellWord(values, word.plain, word.code, word.pattern)


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
    """Whether a file is outside once every link is followed (but the last where the name itself is removed)."""
    found = Path(os.path.realpath(written))
    above, _, name = written.rpartition("/")
    if removes and name not in ("", "..", "."):
        found = Path(os.path.realpath(above or "/")) / name
    if found.is_relative_to(tree):
        inside = str(found.relative_to(tree))
        return any(inside == each or f"{inside}/".startswith(f"{each}/") for each in PROJECT_SETTINGS) or (
            removes and any(f"{each}/".startswith(f"{inside}/") and (tree / each).exists() for each in PROJECT_SETTINGS)
        )
    own = (Path(os.environ.get("TMPDIR", "/tmp")).resolve(), Path("/dev"), Path("/proc"))
    return not any(found.is_relative_to(each) for each in own)
