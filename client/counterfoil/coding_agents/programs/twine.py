"""`twine upload`: one file to a package index.

What it would publish is the file's name, the digest of its bytes, and the index that the command, the environment or
`.pypirc` names.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from counterfoil.coding_agents.asking import content, digest_and_size
from counterfoil.coding_agents.options import UnknownOption, read_options
from counterfoil.coding_agents.program import Program
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script, without_secret

_PYTHON: Final = re.compile(r"python[\d.]*")
_INDEXES: Final = {"pypi": "https://upload.pypi.org/legacy/", "testpypi": "https://test.pypi.org/legacy/"}
_SDIST: Final = re.compile(r"(?P<project>.+)-(?P<version>[^-]+)\.(?:tar\.gz|zip)")
_WHEEL: Final = re.compile(r"(?P<project>[^-]+)-(?P<version>[^-]+)(?:-[^-]+){3,4}\.whl")


def _upload_words(words: Sequence[str | None]) -> Sequence[str | None] | None:
    """Return the words from `upload` on, if a simple command is one of twine's that may upload."""
    rest = list(words[1:])
    if _PYTHON.fullmatch(str(words[0]).rpartition("/")[2]):
        place = next(
            (at for at, word in enumerate(rest) if word and re.fullmatch(r"-[A-Za-z]*m(?:twine)?", word)), None
        )
        if place is None:
            return None
        module = rest[place + 1 :] if str(rest[place]).endswith("m") else ["twine", *rest[place + 1 :]]
        if not module or module[0] not in ("twine", None):
            return None
        rest = list(module[1:])
    rest = list(read_options(rest, "twine", up_to_operand=True).operands)
    return rest if rest and rest[0] in ("upload", None) else None


def _changes(command: Command, _: Script) -> bool:
    try:
        words = _upload_words([command.words[0].last_name, *command.texts[1:]])
        return words is not None and "help" not in read_options(words[1:], "twine", "upload").options
    except UnknownOption:
        return "upload" in command.texts


def _read(words: Sequence[str], folder: Path) -> Effect:
    given = read_options((_upload_words(words) or [""])[1:], "twine", "upload")
    address = given.text("repository-url") or os.environ.get("TWINE_REPOSITORY_URL", "")
    if not address:
        repository = given.text("repository") or os.environ.get("TWINE_REPOSITORY", "pypi")
        address = _index_address(repository, Path(given.text("config-file") or "~/.pypirc"), folder)
    if len(given.operands) != 1:
        raise Refusal("Publish one file at a time, so that each is approved and read back by itself.")
    file = folder / str(given.operands[0])
    named = _SDIST.fullmatch(file.name) or _WHEEL.fullmatch(file.name)
    if named is None:
        raise Refusal(f"{file.name} is not the name of an sdist or a wheel.")
    return Effect(
        "package_publish",
        {
            "index": without_secret(address),
            "project": re.sub(r"[-_.]+", "-", named["project"]).lower(),
            "version": named["version"],
            "filename": file.name,
            "sha256": digest_and_size(file)[0],
        },
    )


def _index_address(repository: str, settings: Path, folder: Path) -> str:
    """The address of a named repository, from the user's `.pypirc` or twine's own defaults."""
    known = configparser.RawConfigParser()
    try:
        if (folder / settings.expanduser()).exists():
            known.read_string(content(folder / settings.expanduser()).decode())
        found = known.get(repository, "repository", fallback="") or _INDEXES.get(repository, "")
    except (configparser.Error, UnicodeDecodeError) as fault:
        raise Refusal(f"{settings} cannot be read: {type(fault).__name__}.") from fault
    if not found:
        raise Refusal(f"{settings} defines no index {repository}; name its address with --repository-url.")
    return found


UPLOAD: Final = Program(title="twine upload", names=("twine",), changes=_changes, read=_read)
