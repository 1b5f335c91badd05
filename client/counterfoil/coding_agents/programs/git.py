"""`git push`: what it would change is asked of git itself.

1. `git push --dry-run --porcelain` says it, in that folder with those options: configuration, default branches and
   remotes are git's business, not ours.
2. One ref at a time, so that each is approved and read back by itself.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from counterfoil.coding_agents.shell import Effect, Program, Refusal, SystemReading, without_secret

_GIT_S: Final = 60
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _is_push(words: Sequence[str]) -> bool:
    rest = iter(words[1:] if words[0] == "git" else ())
    for word in rest:
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
            next(rest, None)
        elif not word.startswith("-"):
            return word == "push"
    return False


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    words = words[1:]
    while words[0] == "-C":
        folder, words = folder / words[1], words[2:]
    if words[0] != "push":
        raise Refusal("Send `git push` with no git option before `push` other than -C.")
    if "--dry-run" in words or "-n" in words:
        return None
    return _pushed(folder, words[1:])


PUSH: Final = Program(
    title="git push", mention=re.compile(r"\bgit\b[^|&;\n]*\bpush\b"), is_command=_is_push, read=_read
)


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
    arguments: dict[str, Any] = {"remote": without_secret(remote), "repository": repository_of(remote), "ref": ref}
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


def read_back(effect: Effect, folder: Path) -> SystemReading | None:
    """What the remote shows of a push, asked of it as git asks; None where it cannot be read."""
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
        if without_secret(configured) == address:
            return configured
    return address


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
