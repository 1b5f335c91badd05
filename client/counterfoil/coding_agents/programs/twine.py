"""`twine upload`: one file to a package index.

What it would publish is the file's name, the digest of its bytes, and the index that the command, the environment or
`.pypirc` names.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from counterfoil.coding_agents.shell import Effect, Program, Refusal, without_secret

_PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")
_INDEXES: Final = {"pypi": "https://upload.pypi.org/legacy/", "testpypi": "https://test.pypi.org/legacy/"}
_SDIST: Final = re.compile(r"(?P<project>.+)-(?P<version>[^-]+)\.(?:tar\.gz|zip)")
_WHEEL: Final = re.compile(r"(?P<project>[^-]+)-(?P<version>[^-]+)(?:-[^-]+){3,4}\.whl")
_BARE: Final = frozenset(
    ("--skip-existing", "--non-interactive", "--verbose", "--disable-progress-bar", "--attestations")
)
_WITH_VALUE: Final = frozenset(
    (
        *("-u", "--username", "-p", "--password", "-c", "--comment", "--cert", "--client-cert"),
        *("--repository", "--repository-url", "--config-file"),
    )
)


def _upload_words(words: Sequence[str]) -> Sequence[str] | None:
    """What follows `twine upload`; None where a simple command is something else."""
    if _PYTHON.fullmatch(words[0]) and list(words[1:4]) == ["-m", "twine", "upload"]:
        return words[4:]
    return words[2:] if words[0] == "twine" and list(words[1:2]) == ["upload"] else None


def _read(words: Sequence[str], folder: Path) -> Effect:
    files, options = _upload_options(_upload_words(words) or ())
    address = options.get("--repository-url") or os.environ.get("TWINE_REPOSITORY_URL", "")
    if not address:
        repository = options.get("--repository") or os.environ.get("TWINE_REPOSITORY", "pypi")
        address = _index_address(repository, Path(options.get("--config-file", "~/.pypirc")), folder)
    if len(files) != 1:
        raise Refusal("Publish one file at a time, so that each is approved and read back by itself.")
    file = folder / files[0]
    named = _SDIST.fullmatch(file.name) or _WHEEL.fullmatch(file.name)
    if named is None:
        raise Refusal(f"{file.name} is not the name of an sdist or a wheel.")
    try:
        content = file.read_bytes()
    except OSError as fault:
        raise Refusal(f"{file.name} cannot be read: {fault.strerror}.") from fault
    return Effect(
        "package_publish",
        {
            "index": without_secret(address),
            "project": re.sub(r"[-_.]+", "-", named["project"]).lower(),
            "version": named["version"],
            "filename": file.name,
            "sha256": hashlib.sha256(content).hexdigest(),
        },
    )


def _upload_options(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The files of an upload, and its options that say where it goes; `Refusal` for one that is not known."""
    files, options = list[str](), dict[str, str]()
    rest = iter(words)
    for word in rest:
        name, is_joined, value = word.partition("=")
        if not name.startswith("-"):
            files.append(word)
        elif name not in _BARE:
            name = "--repository" if name == "-r" else name
            if name not in _WITH_VALUE:
                raise Refusal(f"Send `twine upload` without {name}: what it would change cannot be known in advance.")
            options[name] = value if is_joined else next(rest, "")
    return files, options


def _index_address(repository: str, settings: Path, folder: Path) -> str:
    """Where a repository's name leads, by the user's `.pypirc`, else by what twine knows itself."""
    known = configparser.RawConfigParser()
    try:
        known.read(folder / settings.expanduser())
        found = known.get(repository, "repository", fallback="") or _INDEXES.get(repository, "")
    except (configparser.Error, UnicodeDecodeError) as fault:
        raise Refusal(f"{settings} cannot be read: {type(fault).__name__}.") from fault
    if not found:
        raise Refusal(f"{settings} defines no index {repository}; name its address with --repository-url.")
    return found


UPLOAD: Final = Program(
    title="twine upload",
    mention=re.compile(r"\btwine\b[^|&;\n]*\bupload\b"),
    is_command=lambda words: _upload_words(words) is not None,
    read=_read,
)
