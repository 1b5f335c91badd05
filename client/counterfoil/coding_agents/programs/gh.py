"""`gh pr merge` and `gh release create`: a merge and a release on GitHub, or on a GitHub Enterprise.

1. What a command means is asked of the forge, with the command's own access, by `gh api` requests that only read.
2. A merge is of the commit that people approved: `--match-head-commit` must name the head as it is now, so that the
   forge itself refuses another one. A release is of a tag that is there (`--verify-tag`), which was pushed before.
3. Everything else that would merge or release (another day, past the rules, by `gh api`) is said not to be recognised.
   All other commands of gh are nobody's business here.
"""

from __future__ import annotations

import getopt
import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from counterfoil.coding_agents.shell import Effect, Program, Refusal

_GH_S: Final = 40
_METHODS: Final = {"-m": "merge", "-r": "rebase", "-s": "squash"}
_HELD: Final = frozenset(
    (
        *(("pr", "merge"), ("release", "create"), ("release", "new"), ("release", "edit"), ("release", "delete")),
        *(("release", "upload"), ("release", "delete-asset")),
    )
)
_MERGE_LONG: Final = (
    *("admin", "author-email=", "auto", "body=", "body-file=", "delete-branch", "disable-auto", "help"),
    *("match-head-commit=", "merge", "rebase", "squash", "subject=", "repo="),
)
_MERGE_UNTOLD: Final = frozenset({"--admin", "--auto", "--disable-auto", "--delete-branch", "-d"})
_RELEASE_LONG: Final = (
    *("discussion-category=", "draft", "fail-on-no-commits", "generate-notes", "help", "notes=", "notes-file="),
    *("notes-from-tag", "notes-start-tag=", "prerelease", "target=", "title=", "verify-tag", "repo="),
)
_RELEASE_UNTOLD: Final = frozenset({"--discussion-category", "--draft", "-d", "--target"})
_SENDS: Final = re.compile(r"-[fF]|--(?:raw-)?field\b|--input\b|-X(?!=?GET)|--method(?!=GET)")
_ABOUT: Final = re.compile(r"/merges?\b|/merge-upstream\b|/releases\b|mergePullRequest|AutoMerge|enqueuePullRequest")
_HOW: Final = (
    "Supported are `gh pr merge NUMBER --squash --match-head-commit COMMIT` (or --merge, --rebase) and "
    "`gh release create TAG --verify-tag`, with options for texts and with files."
)


def _verb(words: Sequence[str]) -> tuple[str, str]:
    """Group and command, as in `pr merge`; the repository may be named between them."""
    found, rest = list[str](), iter(words[1:])
    for word in rest:
        if word in ("-R", "--repo"):
            next(rest, None)
        elif not word.startswith("-"):
            found.append(word)
    return (*found, "", "")[0], (*found, "", "")[1]


def _is_held(words: Sequence[str]) -> bool:
    if words[0] != "gh":
        return False
    group, verb = _verb(words)
    sends = any(map(_SENDS.match, words)) and not {"GET", "--method=GET"} & {*words}
    return (group, verb) in _HELD or (group == "api" and sends and _ABOUT.search(" ".join(words)) is not None)


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    group, verb = _verb(words)
    rest = list(words[1:])
    for name in (group, verb):
        rest.remove(name)
    if (group, verb) == ("pr", "merge"):
        return _merge(rest, folder)
    if (group, verb) in (("release", "create"), ("release", "new")):
        return _release(rest, folder)
    raise Refusal(f"Not recognised: what this `gh {group}` changes cannot be held for approval and read back. {_HOW}")


GH: Final = Program(
    title="gh",
    mention=re.compile(r"\bgh\b[^|&;\n]*\b(?:pr\b[^|&;\n]*\bmerge|release\b[^|&;\n]*\b(?:create|new|edit|delete))\b"),
    is_command=_is_held,
    read=_read,
)


def _options(words: Sequence[str], short: str, long: Sequence[str], title: str) -> tuple[dict[str, str], list[str]]:
    try:
        options, names = getopt.gnu_getopt(list(words), short, [*long])
    except getopt.GetoptError as fault:
        raise Refusal(
            f"Send `{title}` without {fault.opt!r}: what it would change cannot be known in advance. {_HOW}"
        ) from fault
    return dict(options), names


def _merge(words: Sequence[str], folder: Path) -> Effect | None:
    given, names = _options(words, "A:b:F:dmrst:R:", _MERGE_LONG, "gh pr merge")
    if "--help" in given:
        return None
    if untold := sorted(_MERGE_UNTOLD & given.keys()):
        raise Refusal(f"Send `gh pr merge` without {untold[0]}: it does more than one merge, or merges later. {_HOW}")
    methods = [name for short, name in _METHODS.items() if given.keys() & {short, f"--{name}"}]
    if len(methods) != 1 or len(names) != 1 or not names[0].isdecimal():
        raise Refusal(f"Name one pull request by its number, and the merge method. {_HOW}")
    forge = _Forge(given.get("--repo", given.get("-R", "")), folder)
    pull = forge.ask(f"pulls/{names[0]}")
    head, base = str(pull["head"]["sha"]), pull["base"]
    if pull.get("merged") or pull.get("state") != "open":
        raise Refusal(f"Pull request {names[0]} is {'merged' if pull.get('merged') else pull.get('state')} already.")
    if given.get("--match-head-commit") != head:
        raise Refusal(
            f"Name the commit to merge, so that no other one is merged: `gh pr merge {names[0]} --{methods[0]} "
            f"--match-head-commit {head}`."
        )
    where = {"host": str(urlsplit(pull["html_url"]).hostname), "repository": str(base["repo"]["full_name"])}
    asked = {"number": int(names[0]), "head_commit": head, "base": str(base["ref"]), "method": methods[0]}
    return Effect("forge_merge", where | asked)


def _release(words: Sequence[str], folder: Path) -> Effect | None:
    words = [each for each in words if each.partition("=")[0] != "--latest"]
    given, names = _options(words, "dF:n:pt:R:", _RELEASE_LONG, "gh release create")
    if "--help" in given:
        return None
    if untold := sorted(_RELEASE_UNTOLD & given.keys()):
        raise Refusal(
            f"Send `gh release create` without {untold[0]}: what would be published cannot be known in advance. {_HOW}"
        )
    if not names or "--verify-tag" not in given:
        raise Refusal(f"Push the tag first, by `git push`, then release that tag with --verify-tag. {_HOW}")
    forge = _Forge(given.get("--repo", given.get("-R", "")), folder)
    found = forge.ask(f"commits/tags/{quote(names[0])}")
    assets = [_asset(folder / each.partition("#")[0]) for each in names[1:]]
    return Effect(
        "forge_release",
        {
            "host": str(urlsplit(found["html_url"]).hostname),
            # An address of a commit is HOST/OWNER/NAME/commit/SHA.
            "repository": "/".join(urlsplit(found["html_url"]).path.split("/")[1:3]),
            "tag": names[0],
            "commit": str(found["sha"]),
            "prerelease": bool(given.keys() & {"-p", "--prerelease"}),
            "assets": sorted(assets, key=lambda each: each["name"]),
            "count": len(assets),
        },
    )


def _asset(file: Path) -> dict[str, str]:
    try:
        return {"name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    except OSError as fault:
        raise Refusal(f"{file.name} cannot be read: {fault.strerror}.") from fault


class _Forge:
    """The forge that a command would change, asked with the command's own access about one repository."""

    def __init__(self, repository: str, folder: Path) -> None:
        parts = repository.removeprefix("https://").removesuffix(".git").strip("/").split("/")
        self._host = parts[0] if len(parts) == 3 else ""
        # gh fills these in from the folder.
        self._repository = "/".join(parts[-2:]) if repository else "{owner}/{repo}"
        self._folder = folder

    def ask(self, path: str) -> dict[str, Any]:
        """What the forge answers, as a document."""
        named = ["--hostname", self._host] if self._host else []
        try:
            said = subprocess.run(
                ["gh", "api", *named, f"repos/{self._repository}/{path}"],
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=_GH_S,
                stdin=subprocess.DEVNULL,
            )
            found = json.loads(said.stdout) if not said.returncode else None
        except (OSError, subprocess.TimeoutExpired, ValueError) as fault:
            raise Refusal(f"gh could not say what this would change: {type(fault).__name__}.") from fault
        if not isinstance(found, dict) or "html_url" not in found:
            why = said.stderr.strip().splitlines() or ["no reason given"]
            raise Refusal(f"gh cannot say what this would change: {why[-1][:300]}")
        return found
