"""Read files and query programs without running, or waiting for, anything that the agent or the project names.

1. A program is started by its path, never one inside the project, with nothing of the command but words that a table
   knows. A variable of its own that leads into the project, or is not known to be harmless, refuses the question.
2. A file is read if it is a regular one of at most so many bytes: a pipe or a device could keep the hook waiting.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from counterfoil.coding_agents.shell import Refusal, project_of

MOST_BYTES: Final = 1 << 30
MOST_TEXT: Final = 1_000_000


def ask(
    program: str,
    words: Sequence[str],
    folder: Path,
    *,
    seconds: float = 40,
    variables: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program that only answers; `variables` are prefixes of the environment variables it reads (rule 1).

    A variable of `settings` that is empty is taken from it.
    """
    tree = project_of(folder)
    for name, value in os.environ.items():
        if name.startswith(tuple(variables)) and name not in (settings or {}) and _leads_into(tree, value, folder):
            raise Refusal(f"{program} is not asked: {name} names something inside the project, which could be run.")
    paths = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    path = shutil.which(program, path=os.pathsep.join(paths))
    if path is None or is_inside(tree, path):
        raise Refusal(f"{program} is not installed outside the project, so it cannot be asked what this would change.")
    own = os.pathsep.join(each for each in paths if not is_inside(tree, each))
    try:
        return subprocess.run(
            [path, *words],
            cwd=folder,
            env={name: value for name, value in {**os.environ, "PATH": own, **(settings or {})}.items() if value},
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as fault:
        raise Refusal(f"{program} could not say what this would change: {type(fault).__name__}.") from fault


def ask_document(program: str, words: Sequence[str], folder: Path, **how: Any) -> Any:
    """Return a program's output as a document, run as by `ask`; raise `Refusal` with its own reason if
    there is none.
    """
    said = ask(program, words, folder, **how)
    if said.returncode:
        lines = [line.strip() for line in said.stderr.splitlines() if line.strip()] or ["no reason given"]
        why = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise Refusal(f"{program} cannot say what this would change: {why[:300]}")
    try:
        return json.loads(said.stdout)
    except ValueError as fault:
        raise Refusal(f"{program} could not say what this would change.") from fault


def is_inside(tree: Path, path: str | Path) -> bool:
    """True if a path is inside a folder, as written or with its links followed."""
    return Path(path).is_relative_to(tree) or Path(path).resolve().is_relative_to(tree)


def _leads_into(tree: Path, value: str, folder: Path) -> bool:
    # A word without a slash may be the name of a database or a person, which a folder has as well.
    parts = [folder / each for each in filter(None, value.split(os.pathsep))]
    found = [each for each in parts if (each.exists() if "/" in value else each.is_file())]
    return any(is_inside(tree, each) for each in found)


@contextmanager
def _open_regular_file(file: Path, most: int) -> Iterator[BinaryIO]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        raise Refusal(f"{file.name} cannot be read: {fault.strerror}.") from fault
    with os.fdopen(descriptor, "rb") as found:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Refusal(f"{file.name} is no regular file, so what it holds cannot be known in advance.")
        if about.st_size > most:
            raise Refusal(f"{file.name} is larger than {most} bytes.")
        yield found


def content(file: Path, most: int = MOST_TEXT) -> bytes:
    """The bytes of a file (rule 2)."""
    with _open_regular_file(file, most) as found:
        return found.read(most)


def digest_and_size(file: Path) -> tuple[str, int]:
    """The SHA-256 of a file and its size in bytes (rule 2)."""
    with _open_regular_file(file, MOST_BYTES) as found:
        digest = hashlib.sha256()
        while part := found.read(1 << 20):
            digest.update(part)
        return digest.hexdigest(), found.tell()
