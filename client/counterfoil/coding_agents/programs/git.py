"""`git push`: its changes are read from git itself.

1. `git push --dry-run --porcelain` says it, in that folder, with the options and refs of the command that are known to
   say only what is pushed. Options and settings of the repository that run programs are refused, not tried.
2. One ref at a time, so that each is approved and read back by itself.
3. Silence is no answer: git's closing line must be there, and afterwards the remote must not have moved.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from counterfoil.coding_agents.asking import ask
from counterfoil.coding_agents.options import Given, UnknownOption, read_options, table
from counterfoil.coding_agents.program import Program, mentions
from counterfoil.coding_agents.shell import (
    Command,
    Effect,
    Refusal,
    Script,
    SystemReading,
    without_secret,
)

_GIT_S: Final = 60
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_KNOWN: Final = frozenset(table("git")["known"].split())
_CHANGES: Final = frozenset(table("git")["changes"].split())
_CHANGES_WITH: Final = table("git")["changes_with"]
_RUNS_WORDS: Final = frozenset(table("git")["runs_words"].split())
_RUNS: Final = ("--upload-pack", "--receive-pack", "--exec", "--extcmd", "--open-files-in-pager", "-O", "-x")
_ASKS: Final = frozenset(("force", "delete", "all", "branches", "mirror", "tags", "follow-tags", "prune", "atomic"))
_SAYS_NOTHING: Final = frozenset(
    ("verbose", "quiet", "set-upstream", "ipv4", "ipv6", "porcelain", "progress", "verify", "thin", "repo")
)
# Of these, the answer would be another push's, or a program would be run. Those of the user's own settings are kept.
_HARMLESS_VARIABLES: Final = re.compile(
    r"GIT_(?:AUTHOR|COMMITTER)_\w+|GIT_CONFIG_(?:GLOBAL|NOSYSTEM|SYSTEM)|GIT_TERMINAL_PROMPT|GIT_SSL_\w+|GIT_TRACE\w*"
    r"|GIT_(?:MERGE_)?(?:EDITOR|SEQUENCE_EDITOR|AUTOEDIT|PAGER)|GIT_OPTIONAL_LOCKS|GIT_ASKPASS|GIT_SSH\w*|GIT_LFS_\w+"
)
_NAMES_A_PROGRAM: Final = re.compile(
    r"core\.(?:sshcommand|gitproxy|askpass)|credential(?:\..*)?\.helper|remote\..*\.(?:receivepack|uploadpack|vcs)"
)
_PROTOCOLS: Final = ("https://", "http://", "ssh://", "git://", "file://")


def _changes(command: Command, script: Script) -> bool:
    """Return True if words of git may change a remote, or if in doubt."""
    given = command.texts[1:]
    if command.name != "git":
        given = [command.name.removeprefix("git-"), *given]
    try:
        operands = list(read_options(given, "git", up_to_operand=True).operands)
    except UnknownOption:
        return None in given or not _CHANGES.isdisjoint(given)
    before, verb, rest = given[: len(given) - len(operands)], (operands or ["help"])[0], operands[1:]
    if verb == "push":
        return not _sends_nothing(rest)
    if verb is None or verb in _CHANGES or any(mentions(word) for word in before if word):
        return True
    return _runs_a_push(verb, rest, command) if verb in _KNOWN else _is_alias_of_a_push(verb, before, command, script)


def _sends_nothing(rest: Sequence[str | None]) -> bool:
    try:
        found = read_options(rest, "git", "push").options
    except UnknownOption:
        return False
    asked = found.get("dry-run") is True or "help" in found
    return asked and None not in rest and not {"receive-pack", "exec"} & found.keys()


def _runs_a_push(verb: str, rest: Sequence[str | None], command: Command) -> bool:
    """Return True if a git command has a sub-command that pushes, or runs words that push."""
    if verb in _CHANGES_WITH:
        return None in rest or _CHANGES_WITH[verb] in rest
    if verb == "config" and any(word and word.lower().startswith("alias.") for word in rest):
        return None in rest or bool(mentions("git " + " ".join(map(str, rest))))
    runs = any(word and (word.startswith(_RUNS) or "ext::" in word) for word in rest)
    if verb not in _RUNS_WORDS and not runs:
        return False
    text = " ".join(re.sub(r"^(-O|-x|ext::)|%", " ", word.code) for word in command.words[1:])
    untold = verb in _RUNS_WORDS and None in rest and (runs or not {"run", "foreach"}.isdisjoint(rest))
    return untold or bool(mentions(text))


def _is_alias_of_a_push(verb: str, before: Sequence[str | None], command: Command, script: Script) -> bool:
    """True if a name may be an alias of a push, in the user's settings or set by the command."""
    if not re.fullmatch(r"[\w-]+", verb):
        return False
    if "-c" in before or "--config-env" in before or "alias" in script.text or command.assigned:
        return True
    folder = next((each for each in command.folders if each is not None), Path.home())
    folder = folder / str(before[before.index("-C") + 1] if "-C" in before else ".")
    text = _git(folder if folder.is_dir() else Path.home(), "config", "--get", f"alias.{verb}").stdout.strip()
    names_another = not text.startswith("!") and text.partition(" ")[0] not in _KNOWN
    return bool(text) and (names_another or bool(mentions(f"git {text}")))


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    words = list(words[1:])
    while words[0] == "-C":
        folder, words = folder / words[1], words[2:]
    if words[0] != "push":
        raise Refusal("Send `git push` with no git option before `push` other than -C.")
    given = read_options(words[1:], "git", "push")
    for name, value in given.options.items():
        if name == "recurse-submodules" and value in ("no", "check", False):
            continue
        if name not in {*_ASKS, *_SAYS_NOTHING, "force-with-lease", "force-if-includes", "dry-run"} and value:
            raise Refusal(
                f"Send `git push` without --{name}: what it does at the server or here is not in the proposal."
            )
    if given.options.get("dry-run") is True:
        return None
    return _push_effect(folder, given)


PUSH: Final = Program(title="git push", names=("git",), changes=_changes, read=_read)


def _push_effect(folder: Path, given: Given) -> Effect | None:
    _refuse_settings(folder)
    words = [f"--{'' if value else 'no-'}{name}" for name, value in given.options.items() if name in _ASKS]
    words += [f"--{name}={value}" if isinstance(value, str) else f"--{'' if value else 'no-'}{name}"
              for name, value in given.options.items() if name.startswith("force-")]  # fmt: skip
    operands = [str(each) for each in given.operands] or ([given.text("repo")] if given.text("repo") else [])
    own = ["--dry-run", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no", "--no-quiet"]
    remote = operands[0] if operands else ""
    server = _receive_pack(folder, remote)
    said = _git(folder, "push", *words, *own, *server, "--", *operands)
    remote, changes = _read_porcelain(said.stdout)
    refused = [each for each in changes if each[0] == "!"]
    if said.returncode or refused:
        why = said.stderr.strip().splitlines()
        raise Refusal(
            f"git would not push this: {(refused[0][2] if refused else why[-1] if why else 'no reason given')}"
        )
    if not changes or said.stdout.splitlines()[-1:] != ["Done"]:
        raise Refusal("git did not say what it would push, so that is not known. Name the remote and one ref.")
    changes = [each for each in changes if each[0] != "="]
    if not changes:
        return None
    if len(changes) > 1:
        named = ", ".join(each[1].partition(":")[2] for each in changes)
        raise Refusal(f"Push one ref at a time, so that each is approved and read back by itself: {named}.")
    flag, refs, _ = changes[0]
    source, _, ref = refs.partition(":")
    arguments: dict[str, Any] = {"remote": without_secret(remote), "repository": repository_of(remote), "ref": ref}
    commit = "" if flag == "-" else _git(folder, "rev-parse", "--verify", "--end-of-options", source).stdout.strip()
    if flag != "-" and not _OBJECT.fullmatch(commit):
        raise Refusal(f"git cannot tell which commit {source} is.")
    if _ref_of(folder, _remote_named(folder, arguments["remote"]), ref) == commit:
        raise Refusal(
            f"{ref} of {repository_of(remote)} moved while git was asked what it would push. Look at it first."
        )
    if flag == "-":
        return Effect("git_delete_ref", arguments)
    return Effect("git_force_push" if flag == "+" else "git_push", {**arguments, "commit": commit})


def _refuse_settings(folder: Path) -> None:
    """Refuse settings that run a program or send more than refs: `git push --dry-run` would do so too (rule 1)."""
    for variable in os.environ:
        if variable.startswith("GIT_") and not _HARMLESS_VARIABLES.fullmatch(variable):
            raise Refusal(f"{variable} is set, so that the push may be another than git says here. Unset it.")
    for scope, name, value in _settings(folder):
        if scope in ("local", "worktree", "command") and _NAMES_A_PROGRAM.fullmatch(name.lower()):
            raise Refusal(f"The repository's own settings may run a program at a push ({name}). Remove that setting.")
        if name.lower() == "push.pushoption" and value:
            raise Refusal("The setting push.pushOption makes the server do more than move a ref. Remove it.")
        if name.lower() in ("push.recursesubmodules", "submodule.recurse") and value not in ("no", "check", "false"):
            raise Refusal(f"The setting {name} pushes submodules too. Remove it, and push one repository at a time.")
        address = re.fullmatch(r"remote\..*\.(?:url|pushurl)|url\..*\.(?:insteadof|pushinsteadof)", name.lower())
        if address and re.match(r"[\w+.-]+::", name.partition(".")[2] if name.startswith("url.") else value):
            raise Refusal(f"{name} leads to a program of git's that speaks for a remote. Use an address.")


def _settings(folder: Path) -> Iterator[tuple[str, str, str]]:
    said = _git(folder, "config", "--list", "--show-scope", "--null", "--includes")
    if said.returncode:
        raise Refusal(f"git cannot be asked here: {said.stderr.strip()[:200]}")
    parts = said.stdout.split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        name, _, value = entry.partition("\n")
        yield scope, name, value


def _receive_pack(folder: Path, remote: str) -> list[str]:
    """For a repository on this machine, git's own receive-pack and never one from its settings."""
    if re.match(r"[\w+.-]+::", remote):
        raise Refusal(f"{without_secret(remote)} leads to a program of git's that speaks for a remote. Use an address.")
    named = _git(folder, "remote", "get-url", "--push", "--all", "--", remote or _default_remote(folder))
    addresses = [each for each in named.stdout.splitlines() if each] or [remote]
    if len(addresses) > 1:
        raise Refusal("This remote has several addresses. Push to one at a time, so that each is read back by itself.")
    local = not addresses[0].startswith(_PROTOCOLS[:-1]) and not re.match(r"(?:[^/:]+@)?[^/:]+:", addresses[0])
    return (
        ["--receive-pack=git -c core.alternateRefsCommand=true -c core.fsmonitor=false receive-pack"] if local else []
    )


def _default_remote(folder: Path) -> str:
    branch = _git(folder, "symbolic-ref", "--quiet", "HEAD").stdout.strip() or "HEAD"
    return _git(folder, "for-each-ref", "--format=%(push:remotename)", branch).stdout.strip() or "origin"


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
    """Read the remote after a push; None if it cannot be read."""
    address, ref = str(effect.arguments["remote"]), str(effect.arguments["ref"])
    try:
        _refuse_settings(folder)
        found = _ref_of(folder, _remote_named(folder, address), ref)
    except Refusal:
        return None
    where = f"{ref} of {effect.arguments['repository']}"
    text = f"{where} names {found}" if found else f"{where} is not there"
    return SystemReading((found or None) == effect.arguments.get("commit"), text)


def _ref_of(folder: Path, remote: str, ref: str) -> str:
    """The object that a ref points at on a remote; empty if there is no such ref."""
    said = _git(folder, "ls-remote", "--quiet", "--", remote, ref)
    if said.returncode:
        raise Refusal(f"git cannot read the remote: {said.stderr.strip()[:200]}")
    named = {name: commit for commit, _, name in (line.partition("\t") for line in said.stdout.splitlines())}
    return named.get(ref, "")


def _remote_named(folder: Path, address: str) -> str:
    """The remote with this address, although its configured address may contain a secret; else the address."""
    for name in _git(folder, "remote").stdout.split():
        configured = _git(folder, "remote", "get-url", "--push", name).stdout.strip()
        if without_secret(configured) == address:
            return configured
    return address


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Query git without running anything of the repository: no hook, monitor or remote helper."""
    own = {
        "core.hooksPath": os.devnull,
        "core.fsmonitor": "false",
        "core.alternateRefsCommand": "true",
        "protocol.ext.allow": "never",
        "push.gpgSign": "false",
    }
    settings = [part for name, value in own.items() for part in ("-c", f"{name}={value}")]
    quiet = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    }
    return ask("git", [*settings, *words], folder, seconds=_GIT_S, variables=("GIT_",), settings=quiet)
