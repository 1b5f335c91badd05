"""`gh pr merge` and `gh release create`: a merge and a release on GitHub, or on a GitHub Enterprise.

1. What a command means is asked of the forge, with the command's own access, by `gh api` requests that only read.
2. A merge is of the commit that people approved: `--match-head-commit` must name the head as it is now, so that the
   forge itself refuses another one. A release is of a tag that is there (`--verify-tag`), which was pushed before.
3. Everything else that would merge or release (another day, past the rules, by `gh api`) is said not to be recognised.
   All other commands of gh are nobody's business here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from counterfoil.coding_agents.asking import ask_document, digest_and_size
from counterfoil.coding_agents.options import UnknownOption, read_options, table
from counterfoil.coding_agents.program import Program
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script

_METHODS: Final = ("merge", "rebase", "squash")
_HELD: Final = frozenset(table("gh")["held"])
_CORE: Final = frozenset(table("gh")["core"].split())
_BODY: Final = frozenset(("field", "raw-field", "input"))
_ABOUT: Final = re.compile(table("requests")["about"])
_HOW: Final = (
    "Supported are `gh pr merge NUMBER --squash --match-head-commit COMMIT` (or --merge, --rebase) and "
    "`gh release create TAG --verify-tag`, with options for texts and with files."
)


def _verb(words: Sequence[str | None]) -> tuple[str | None, str | None, list[str | None]]:
    """Return group and command, as in `pr merge`, and the words around them; the repository may be named
    between them.
    """
    given = read_options(words, "gh", up_to_operand=True)
    group, *rest = given.operands or ["help"]
    before = list(words[: len(words) - len(given.operands)])
    if group == "api":
        return group, "", [*before, *rest]
    inner = read_options(rest, "gh", up_to_operand=True)
    before += rest[: len(rest) - len(inner.operands)]
    return group, (*inner.operands, "")[0], [*before, *inner.operands[1:]]


def _changes(command: Command, _: Script) -> bool:
    try:
        group, verb, rest = _verb(command.texts[1:])
    except UnknownOption:
        return any(each.split()[1] in command.texts for each in _HELD) or None in command.texts
    if group == "api":
        return _sends(rest)
    may_be = {each.split()[0] for each in _HELD} if verb is None else ()
    return f"{group} {verb}" in _HELD or group not in _CORE or group in may_be


def _sends(words: Sequence[str | None]) -> bool:
    """True if `gh api` with these words may change a guarded object, by method and path or GraphQL query."""
    try:
        given = read_options(words, "gh", "api")
    except UnknownOption:
        return True
    method = given.options.get("method", "GET" if _BODY.isdisjoint(given.options) else "POST")
    text = unquote(" ".join(str(word) for word in words))
    if method == "GET":
        return False
    # A query that stands elsewhere may be any.
    elsewhere = "input" in given.options or any(str(value).startswith("query=@") for _, value in given.pairs)
    return None in words or (elsewhere and "graphql" in given.operands) or _ABOUT.search(text) is not None


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    group, verb, rest = _verb(words[1:])
    texts = [str(each) for each in rest]
    if (group, verb) == ("pr", "merge"):
        return _merge(texts, folder)
    if (group, verb) in (("release", "create"), ("release", "new")):
        return _release(texts, folder)
    raise Refusal(f"Not recognised: what this `gh {group}` changes cannot be held for approval and read back. {_HOW}")


GH: Final = Program(title="gh", names=("gh",), changes=_changes, read=_read)


def _merge(words: Sequence[str], folder: Path) -> Effect | None:
    given = read_options(words, "gh", "pr-merge", how=_HOW)
    if "help" in given.options:
        return None
    names = [str(each) for each in given.operands]
    methods = [name for name in _METHODS if given.options.get(name)]
    if len(methods) != 1 or len(names) != 1 or not names[0].isdecimal():
        raise Refusal(f"Name one pull request by its number, and the merge method. {_HOW}")
    forge = _Forge(given.text("repo"), folder)
    pull = forge.ask(f"pulls/{names[0]}")
    head, base = str(pull["head"]["sha"]), pull["base"]
    if pull.get("merged") or pull.get("state") != "open":
        raise Refusal(f"Pull request {names[0]} is {'merged' if pull.get('merged') else pull.get('state')} already.")
    if given.text("match-head-commit") != head:
        raise Refusal(
            f"Name the commit to merge, so that no other one is merged: `gh pr merge {names[0]} --{methods[0]} "
            f"--match-head-commit {head}`."
        )
    where = {"host": str(urlsplit(pull["html_url"]).hostname), "repository": str(base["repo"]["full_name"])}
    asked = {"number": int(names[0]), "head_commit": head, "base": str(base["ref"]), "method": methods[0]}
    return Effect("forge_merge", where | asked)


def _release(words: Sequence[str], folder: Path) -> Effect | None:
    given = read_options(words, "gh", "release-create", how=_HOW)
    if "help" in given.options:
        return None
    names = [str(each) for each in given.operands]
    if not names or not given.options.get("verify-tag"):
        raise Refusal(f"Push the tag first, by `git push`, then release that tag with --verify-tag. {_HOW}")
    forge = _Forge(given.text("repo"), folder)
    found = forge.ask(f"commits/tags/{quote(names[0])}")
    files = [folder / each.partition("#")[0] for each in names[1:]]
    assets = [{"name": file.name, "sha256": digest_and_size(file)[0]} for file in files]
    return Effect(
        "forge_release",
        {
            "host": str(urlsplit(found["html_url"]).hostname),
            # An address of a commit is HOST/OWNER/NAME/commit/SHA.
            "repository": "/".join(urlsplit(found["html_url"]).path.split("/")[1:3]),
            "tag": names[0],
            "commit": str(found["sha"]),
            "prerelease": bool(given.options.get("prerelease")),
            "assets": sorted(assets, key=lambda each: each["name"]),
            "count": len(assets),
        },
    )


class _Forge:
    """The forge that a command would change, queried with the command's own access about one repository."""

    def __init__(self, repository: str, folder: Path) -> None:
        parts = repository.removeprefix("https://").removesuffix(".git").strip("/").split("/")
        self._host = parts[0] if len(parts) == 3 else ""
        # gh fills these in from the folder.
        self._repository = "/".join(parts[-2:]) if repository else "{owner}/{repo}"
        self._folder = folder

    def ask(self, path: str) -> dict[str, Any]:
        """Query the forge and parse its answer."""
        named = ["--hostname", self._host] if self._host else []
        words = ["api", *named, f"repos/{self._repository}/{path}"]
        found = ask_document("gh", words, self._folder, variables=("GH_", "GIT_"))
        if not isinstance(found, dict) or "html_url" not in found:
            raise Refusal("gh could not say what this would change.")
        return found
