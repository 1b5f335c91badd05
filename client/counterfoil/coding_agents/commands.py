"""What a shell command would do, as far as this program knows it: pushes, asked of git itself, and uploads of packages.

1. A command is looked at as the words that a shell would make of it. One that names neither `git push` nor
   `twine upload` is not ours, and nothing is said about it. A script, an alias or a program that does it by itself is
   not seen.
2. What a push would change is what `git push --dry-run --porcelain` says in that folder with those options:
   configuration, default branches and remotes are git's business, not ours.
3. A push that is part of a longer command is refused: what stands before it may change what is pushed. So is one of
   several refs, and one whose words the shell would still change. Each refusal says how to send it instead.
4. What an upload would publish is one file: its name, the digest of its bytes, and the index that the command, the
   environment or `.pypirc` names.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_GIT_S: Final = 60
_SHELL: Final = frozenset("|&;<>()`$*?[]{}~!\n")
_PUSH: Final = re.compile(r"\bgit\b[^|&;\n]*\bpush\b")
_UPLOAD: Final = re.compile(r"\btwine\b[^|&;\n]*\bupload\b")
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
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_RUNNERS: Final = frozenset(
    ("bash", "sh", "zsh", "dash", "eval", "exec", "command", "env", "sudo", "xargs", "time", "timeout", "nohup", "nice")
)
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


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


def read_back(effect: Effect, folder: Path) -> SystemReading | None:
    """What the remote shows of a push, asked of it as git asks; None where it cannot be read.

    Where an index can be read is nothing that an upload names.
    """
    if "ref" not in effect.arguments:
        return None
    address, ref = str(effect.arguments["remote"]), str(effect.arguments["ref"])
    try:
        said = _git(folder, "ls-remote", "--quiet", _remote_named(folder, address), ref)
    except Refusal:
        return None
    if said.returncode:
        return None
    named = {name: commit for commit, _, name in (line.partition("\t") for line in said.stdout.splitlines())}
    found, where = named.get(ref), f"{ref} of {effect.arguments['repository']}"
    text = f"{where} names {found}" if found else f"{where} is not there"
    return SystemReading(found == effect.arguments.get("commit"), text)


def _remote_named(folder: Path, address: str) -> str:
    """The remote that has this address, which may hold a secret that the address here does not; else the address."""
    for name in _git(folder, "remote").stdout.split():
        configured = _git(folder, "remote", "get-url", "--push", name).stdout.strip()
        if _without_secret(configured) == address:
            return configured
    return address


def read_command(command: str, folder: Path) -> Effect | None:
    """The effect of a command in a folder, None where this program has nothing to say about it; or `Refusal`."""
    try:
        parts = _simple_commands(command)
    except ValueError as fault:
        for known, name in ((_PUSH, "git push"), (_UPLOAD, "twine upload")):
            if known.search(command):
                raise Refusal(f"The command cannot be read: {fault}. Send `{name}` as a command of its own.") from fault
        return None
    if any(map(_uploads, parts)):
        return _read_upload(command, parts, folder)
    return _read_push(command, parts, folder) if any(map(_pushes, parts)) else None


def _read_push(command: str, parts: list[list[str]], folder: Path) -> Effect | None:
    if len(parts) == 2 and parts[0][:1] == ["cd"] and len(parts[0]) == 2 and "&&" in command:
        folder, parts, command = folder / parts[0][1], parts[1:], command.partition("&&")[2]
    if len(parts) > 1 or _SHELL & set(command) or parts[0][0] != "git":
        raise Refusal(
            "Send `git push` as a command of its own, without other commands, variables or redirections: what stands "
            "around it may change what is pushed."
        )
    words = parts[0][1:]
    while words[0] == "-C":
        folder, words = folder / words[1], words[2:]
    if words[0] != "push":
        raise Refusal("Send `git push` without other options of git before `push` than -C.")
    if "--dry-run" in words or "-n" in words:
        return None
    return _pushed(folder, words[1:])


def _simple_commands(command: str) -> list[list[str]]:
    """The words of each simple command, as a shell would split them; what it would expand stays as it is written."""
    lexer = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars="|&;()<>`")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;()`"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _pushes(words: Sequence[str]) -> bool:
    """Whether a simple command is `git push`, or hands one on to a shell or to another program that runs it."""
    words = list(words)
    while words and _ASSIGNED.match(words[0]):
        words.pop(0)
    if not words:
        return False
    name = Path(words[0]).name
    if name == "git":
        rest = iter(words[1:])
        for word in rest:
            if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
                next(rest, None)
            elif not word.startswith("-"):
                return word == "push"
    return name in _RUNNERS and _PUSH.search(" ".join(words[1:])) is not None


def _uploads(words: Sequence[str]) -> bool:
    """Whether a simple command is `twine upload`, or hands one on to a shell or to another program that runs it."""
    words = list(words)
    while words and _ASSIGNED.match(words[0]):
        words.pop(0)
    if _upload_words(words) is not None:
        return True
    return (
        bool(words)
        and Path(words[0]).name in {*_RUNNERS, "uvx", "pipx", "uv"}
        and bool(_UPLOAD.search(" ".join(words[1:])))
    )


def _upload_words(words: Sequence[str]) -> Sequence[str] | None:
    """What follows `twine upload`; None where a simple command is something else."""
    if not words:
        return None
    if _PYTHON.fullmatch(Path(words[0]).name) and list(words[1:4]) == ["-m", "twine", "upload"]:
        return words[4:]
    return words[2:] if Path(words[0]).name == "twine" and list(words[1:2]) == ["upload"] else None


def _read_upload(command: str, parts: Sequence[Sequence[str]], folder: Path) -> Effect:
    """The one file that an upload would publish, and where (rule 4)."""
    words = _upload_words(parts[0])
    if len(parts) > 1 or _SHELL & set(command) or words is None:
        raise Refusal(
            "Send `twine upload` as a command of its own, with the file's name, without other commands, variables or "
            "patterns: what stands around it may change what is published."
        )
    files, options = _upload_options(words)
    address = options.get("--repository-url") or os.environ.get("TWINE_REPOSITORY_URL", "")
    if not address:
        repository = options.get("--repository") or os.environ.get("TWINE_REPOSITORY", "pypi")
        address = _index_address(repository, Path(options.get("--config-file", "~/.pypirc")), folder)
    if len(files) != 1:
        raise Refusal("Publish one file at a time, so that each is approved and read back by itself.")
    file = folder / files[0]
    named = _SDIST.fullmatch(file.name) or _WHEEL.fullmatch(file.name)
    if named is None:
        raise Refusal(f"{file.name} is the name of no sdist and of no wheel.")
    try:
        content = file.read_bytes()
    except OSError as fault:
        raise Refusal(f"{file.name} cannot be read: {fault.strerror}.") from fault
    return Effect(
        "package_publish",
        {
            "index": _without_secret(address),
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
                raise Refusal(f"Send `twine upload` without {name}: what it changes cannot be told beforehand.")
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
        raise Refusal(f"{settings} names no index {repository}; name its address with --repository-url.")
    return found


def _pushed(folder: Path, words: Sequence[str]) -> Effect | None:
    said = _git(folder, "push", "--dry-run", "--porcelain", "--no-verify", *words)
    remote, changes = _read_porcelain(said.stdout)
    refused = [each for each in changes if each[0] == "!"]
    if said.returncode or refused:
        why = said.stderr.strip().splitlines()
        raise Refusal(
            f"git would not push this: {(refused[0][2] if refused else why[-1] if why else 'no reason given')}"
        )
    changes = [each for each in changes if each[0] != "="]
    if not changes:
        return None
    if len(changes) > 1:
        named = ", ".join(each[1].partition(":")[2] for each in changes)
        raise Refusal(f"Push one ref at a time, so that each is approved and read back by itself: {named}.")
    flag, refs, _ = changes[0]
    source, _, ref = refs.partition(":")
    arguments: dict[str, Any] = {"remote": _without_secret(remote), "repository": repository_of(remote), "ref": ref}
    if flag == "-":
        return Effect("git_delete_ref", arguments)
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", source).stdout.strip()
    if not _OBJECT.fullmatch(commit):
        raise Refusal(f"git cannot tell which commit {source} is.")
    return Effect("git_force_push" if flag == "+" else "git_push", {**arguments, "commit": commit})


def _read_porcelain(text: str) -> tuple[str, list[tuple[str, str, str]]]:
    """The remote and (flag, from:to, summary) of each ref, as `git push --porcelain` writes them."""
    remote, changes = "", []
    for line in text.splitlines():
        if line.startswith("To "):
            remote = line[3:].strip()
        parts = line.split("\t")
        if len(parts) == 3 and parts[0] in (" ", "+", "-", "*", "!", "="):
            changes.append((parts[0], parts[1], parts[2]))
    return remote, changes


def repository_of(remote: str) -> str:
    """The path in an address: `team/app.git` of `https://host/team/app.git` and of `git@host:team/app.git`."""
    path = urlsplit(remote).path if "://" in remote else remote.partition(":")[2] or remote
    return path.strip("/")


def _without_secret(remote: str) -> str:
    parts = urlsplit(remote)
    if "://" not in remote or "@" not in parts.netloc:
        return remote
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise Refusal(f"git could not say what it would push: {type(fault).__name__}.") from fault
