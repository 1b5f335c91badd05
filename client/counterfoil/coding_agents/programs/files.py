"""Files outside the project tree: written whole, or removed.

1. The project tree is the git repository that the command runs in, else its folder. What is inside it, the folder for
   temporary files and devices are nobody's business here.
2. What a file will hold must be known beforehand: `cp FILE PATH`, or a file tool of the client that gives the whole
   content. A redirection, `tee`, `sed -i` and others that lead outside are refused, with how to do it instead.
3. Where a path cannot be told from the words, because the shell would still make it, the command is refused too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from counterfoil.coding_agents.shell import Effect, Refusal, Script, program_words

_OWN: Final = frozenset({"cp", "rm"})
_WRITERS: Final = frozenset(
    ("chgrp", "chmod", "chown", "dd", "mv", "rmdir", "shred", "tee", "touch", "truncate", "unlink")
)
_ALLOWED: Final = frozenset({"-f", "-v", "--", "--force", "--verbose"})
_UNTOLD: Final = re.compile(r"[$`*?\[\]{}]")
_HOW: Final = (
    "Outside the project only two things can be held and read back: `cp FILE PATH` and `rm PATH` of one file each, as "
    "commands of their own, with names that hold no variables or patterns (or the client's tool that writes a whole "
    "file)."
)


def read_files(script: Script, folder: Path) -> Effect | None:
    """The write or removal outside the tree that a script is; None where it leads nowhere outside; or `Refusal`."""
    here, leads_out = folder, False
    bound = _bound(script)
    for words, targets in zip(script.commands, script.targets, strict=True):
        if words[:1] == ("cd",) and len(words) == 2:
            here = here / _expanded(words[1])
        named = [each for path in (*targets, *_written_paths(words)) for each in _filled(path, bound)]
        leads_out |= any(_is_outside(each, here, folder) for each in named)
    if not leads_out:
        return None
    words = script.commands[0]
    if len(script.commands) > 1 or not script.plain or words[0] not in _OWN:
        raise Refusal(f"This would write outside the project. {_HOW}")
    options = [each for each in words[1:] if each.startswith("-")]
    paths = [each for each in words[1:] if not each.startswith("-")]
    if set(options) - _ALLOWED or len(paths) != (2 if words[0] == "cp" else 1):
        raise Refusal(f"This would write outside the project. {_HOW}")
    if words[0] == "rm":
        return _removal(folder / paths[0])
    source, target = folder / paths[0], folder / paths[1]
    try:
        content = source.read_bytes()
    except OSError as fault:
        raise Refusal(f"{source.name} cannot be read: {fault.strerror}.") from fault
    return _write(target / source.name if target.is_dir() else target, content)


def read_file_tool(path: str, content: str | None, folder: Path) -> Effect | None:
    """What a file tool of the client would write outside the tree; None inside it; `content` is None for an edit."""
    if not _is_outside(path, folder, folder):
        return None
    if content is None:
        raise Refusal(f"This would change {path}, outside the project, only in part. {_HOW}")
    return _write(folder / _expanded(path), content.encode())


def machine() -> str:
    """What tells this machine from others, and nothing else."""
    try:
        return hashlib.sha256(b"counterfoil " + Path("/etc/machine-id").read_bytes().strip()).hexdigest()[:32]
    except OSError as fault:
        raise Refusal(
            "This machine has no /etc/machine-id, so the record could not name the machine that the file is on."
        ) from fault


def _write(path: Path, content: bytes) -> Effect:
    if path.is_symlink():
        raise Refusal(f"{path} is a link; write to the file it points to.")
    about = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return Effect("file_write", {"machine": machine(), "path": _resolved(path), **about})


def _removal(path: Path) -> Effect:
    if not path.is_file() and not path.is_symlink():
        raise Refusal(f"{path} does not exist, so nothing would be removed.")
    return Effect("file_remove", {"machine": machine(), "path": _resolved(path)})


def _resolved(path: Path) -> str:
    return str(path.parent.resolve() / path.name).lstrip("/")


def _written_paths(words: Sequence[str]) -> list[str]:
    """The paths that a simple command would write, as far as its words tell."""
    words = program_words(words)
    if words[:1] == ["sudo"]:
        words = words[1:]
    if not words:
        return []
    name = Path(words[0]).name
    paths = [each for each in words[1:] if not each.startswith("-")]
    if name in ("cp", "install", "ln"):
        return paths[-1:]
    if name == "rm" or name in _WRITERS:
        return [each.removeprefix("of=") for each in paths if "=" not in each or each.startswith("of=")]
    if name == "sed" and any(re.match(r"-[a-zA-Z]*i|--in-place", each) for each in words[1:]):
        return paths if any(each.startswith(("-e", "--expression")) for each in words) else paths[1:]
    return []


def _bound(script: Script) -> dict[str, tuple[str, ...]]:
    """The values that a loop or an assignment of the script itself gives its variables."""
    found: dict[str, tuple[str, ...]] = {}
    for words in script.commands:
        if words[:1] == ("for",) and words[2:3] == ("in",):
            found[words[1]] = words[3:]
        elif len(words) == 1 and (assigned := re.fullmatch(r"(\w+)=(.*)", words[0])):
            found[assigned[1]] = (assigned[2],)
    return found


def _filled(path: str, bound: Mapping[str, Sequence[str]]) -> list[str]:
    paths = [path]
    for name, values in bound.items():
        sign = re.compile(rf"\$(?:{name}\b|\{{{name}\}})")
        paths = [value.join(sign.split(each)) for each in paths for value in values or ("",)]
    return paths


def _is_outside(path: str, here: Path, folder: Path) -> bool:
    path = _expanded(path)
    found = Path(os.path.normpath(here / path))
    if re.search(r"[$`]", path) or (_UNTOLD.search(path) and not found.is_relative_to(_tree(folder))):
        raise Refusal(f"Where {path} leads cannot be known in advance. {_HOW}")
    found = found.parent.resolve() / found.name
    own = (_tree(folder), Path(os.environ.get("TMPDIR", "/tmp")).resolve(), Path("/dev"), Path("/proc"))
    return not any(found.is_relative_to(each) for each in own)


def _expanded(path: str) -> str:
    return os.path.expandvars(os.path.expanduser(path))


def _tree(folder: Path) -> Path:
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
