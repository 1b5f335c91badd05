"""A forge: read merges, releases and refs over GitHub's REST API, as GitHub and GitHub Enterprise have it.

    effects.<name>   reads "merge", "release" or "ref", and optionally host, repository, number, tag, ref, commit
                     (expressions), and for a ref expect "absent"

A value that no expression gives is the argument of that name: `host` and `repository`; `number` of a merge; `tag`
of a release, its `assets` (each `name` and `sha256`), and whether it is a `draft`; `ref` and `commit` of a ref.
`host` is the forge's own, or the address of its API as it is registered.

The system's settings: url (of the API, like https://api.github.com or https://forge.example.org/api/v3), repositories
(those that may be read), forge (its own host, where the address of the API does not tell it); the credential:
token, which may only read.

1. A pull request is merged when the forge says so. Into what, is asked too: `contained` is whether the base branch
   holds the merged commit now, by the forge's own comparison.
2. A release is there when the forge has a published one for the tag. Not there is what it answers (404) for a
   repository that this credential can read; of one that it cannot, nothing is told.
3. An asset is told by the digest that the forge gives. `differing` counts those that are missing, otherwise or not
   asked for; a forge that gives no digests cannot tell, and the reading fails and is told as such.
4. A ref (`refs/heads/main`) is there when the forge has it with that object; expected absent, when the forge answers
   that there is none. If it names another object than before the execution, somebody else was faster: `stale_state`.
5. A draft of a release has no tag to find it by: the reading fails and is told as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

_ACCEPT = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_EXPRESSIONS: Final = ("host", "repository", "number", "tag", "ref", "commit")
_REF: Final = re.compile(r"refs/(heads|tags)/[A-Za-z0-9._/-]{1,200}")
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FIELDS: dict[str, Any] = {
    **{name: {"type": "string"} for name in ("repository", "head", "base", "merged_as", "tag", "ref", "commit")},
    **{name: {"type": "boolean"} for name in ("contained", "prerelease")},
    "differing": {"type": "integer"},
}


class ForgeCheck(lookups.LookupCheck):
    """The check of pattern `forge`."""

    pattern = "forge"
    settings = {
        **fetching.SITE,
        "repositories": shapes.readable("Repositories"),
        "forge": shapes.member(shapes.TEXT, "Host of the forge", "Where the address of its API does not tell it."),
    }
    fields = _FIELDS
    part = shapes.reads_schema(
        ("merge", "release", "ref"),
        optional={**dict.fromkeys(_EXPRESSIONS, shapes.EXPRESSION), "expect": shapes.EXPECT},
    )

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the requested merge, release or ref from the forge."""
        parts = {
            name: {**bindings.get("sr", {}), **part, **_fill_part(part, bindings)}
            for name, part in lookups.lookup_effects(verification).items()
        }
        for asked in parts.values():
            lookups.refuse_unlisted(str(asked["repository"]), system.settings.get("repositories"), "repositories")
        address = system.credential.get("url") or system.settings.get("url")
        token = system.credential.get("token")
        headers = _ACCEPT | ({"Authorization": f"Bearer {token}"} if token else {})
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            repositories = dict[str, _Repository]()
            effects = []
            for name, asked in parts.items():
                _check_host(system, site, str(asked["host"]))
                named = str(asked["repository"])
                repository = repositories.setdefault(named, _Repository(site, named))
                effects.append(_READERS[str(asked["reads"])](name, repository, asked))
        answers = [answer for repository in repositories.values() for answer in repository.answers]
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers, at=at),
            freshness="; ".join(str(each.fields.get("merged_as") or each.fields.get("commit")) for each in effects),
            observed_at=at,
            pointer="; ".join(f"{asked['repository']} {_place(asked)}" for asked in parts.values()),
            effects=tuple(effects),
            indicators=("stale_state",) if any(_has_moved(each, bindings) for each in effects) else (),
            raw={each.name: dict(each.fields) for each in effects},
        )


def _fill_part(part: Mapping[str, Any], bindings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: lookups.fill_template(part[name], bindings) for name in _EXPRESSIONS if name in part}


def _place(asked: Mapping[str, Any]) -> str:
    return f"#{asked['number']}" if asked["reads"] == "merge" else str(asked["tag" if "tag" in asked else "ref"])


def _has_moved(effect: ReadEffect, bindings: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether a ref that is not as asked for has changed since the reading before the execution (rule 4)."""
    before = bindings.get("pre", {}).get("effects", {}).get(effect.name, {})
    return (
        not effect.present
        and "ref" in effect.fields
        and before.get("commit", effect.fields["commit"]) != effect.fields["commit"]
    )


def _check_host(system: SystemAccess, site: fetching.Site, asked: str) -> None:
    here = str(system.settings.get("forge") or site.address.host.removeprefix("api."))
    if asked not in (here, str(site.address).rstrip("/")):
        raise CheckFailed(f"This is the forge {here}; the command ran on {asked}.", retryable=False)


class _Repository:
    """One repository of a forge; `answers` are the forge's answers."""

    def __init__(self, site: fetching.Site, name: str) -> None:
        self._site = site
        self._top = "/repos/" + "/".join(map(fetching.path_segment, name.split("/")))
        self._name = name
        self.answers: list[fetching.SiteResponse] = []

    def ask(self, path: str) -> dict[str, Any] | None:
        """Return a document of the repository; None if the forge reports that there is none (rule 2)."""
        answer = self._site.get(f"{self._top}{path}")
        self.answers.append(answer)
        document = answer.document()
        if answer.status == 200:
            return document
        if answer.status != 404 or "message" not in document:
            raise CheckFailed(f"{answer.url} answered {answer.status} and no document.", retryable=True)
        if not path or self.ask("") is None:
            raise CheckFailed(f"{self._name} is not there, or this credential may not read it.", retryable=False)
        return None


def _merge(name: str, repository: _Repository, asked: Mapping[str, Any]) -> ReadEffect:
    if not str(asked["number"]).isdecimal():
        raise CheckFailed(f"{asked['number']!r} is no number of a pull request.", retryable=False)
    pull = repository.ask(f"/pulls/{int(asked['number'])}")
    if pull is None:
        raise CheckFailed(f"There is no pull request {asked['number']}.", retryable=False)
    merged = pull.get("merged") is True
    base, made = str(pull["base"]["ref"]), str(pull.get("merge_commit_sha") or "") if merged else ""
    # What is "behind" a branch, or identical with it, the branch holds.
    compared = repository.ask(f"/compare/{quote(base, safe='')}...{made}") if merged else None
    fields = {
        "repository": str(pull["base"]["repo"]["full_name"]),
        "head": str(pull["head"]["sha"]),
        "base": base,
        "merged_as": made,
        "contained": compared is not None and compared.get("status") in ("behind", "identical"),
    }
    return ReadEffect(name=name, present=merged, count=int(merged), fields=fields)


def _release(name: str, repository: _Repository, asked: Mapping[str, Any]) -> ReadEffect:
    if asked.get("draft"):
        raise CheckFailed("A draft of a release cannot be found by its tag.", retryable=False)
    tag = quote(str(asked["tag"]))
    found = repository.ask(f"/releases/tags/{tag}")
    fields: dict[str, Any] = {"repository": asked["repository"], "tag": asked["tag"]}
    if found is None or found.get("draft") is not False:
        return ReadEffect(name=name, present=False, count=0, fields=fields)
    commit = repository.ask(f"/commits/tags/{tag}") or {}
    wanted = {each["name"]: each["sha256"] for each in asked.get("assets", ())}
    listed = {str(each["name"]): _digest(each) for each in found.get("assets", ())}
    fields = {
        # The address of a release begins with owner and name, as the forge writes them.
        "repository": "/".join(urlsplit(str(found["html_url"])).path.split("/")[1:3]),
        "tag": str(found["tag_name"]),
        "commit": str(commit.get("sha", "")),
        "prerelease": found.get("prerelease") is True,
        "differing": sum(wanted.get(each) != listed.get(each) for each in wanted.keys() | listed.keys()),
    }
    return ReadEffect(name=name, present=True, count=1, fields=fields)


def _ref(name: str, repository: _Repository, asked: Mapping[str, Any]) -> ReadEffect:
    ref, wanted = str(asked["ref"]), asked.get("commit")
    is_absence = asked.get("expect") == "absent"
    if not _REF.fullmatch(ref):
        raise CheckFailed(f"{ref!r} is no branch or tag with a plain name.", retryable=False)
    if not is_absence and not _OBJECT.fullmatch(str(wanted)):
        raise CheckFailed(f"{wanted!r} names no object.", retryable=False)
    found = repository.ask(f"/git/ref/{ref.removeprefix('refs/')}")
    commit = str(found["object"]["sha"]) if found else ""
    if found and found.get("ref") != ref:
        raise CheckFailed(f"The forge answered with another ref than {ref}.", retryable=True)
    present = not commit if is_absence else commit == wanted
    fields = {"repository": asked["repository"], "ref": ref, "commit": commit}
    return ReadEffect(name=name, present=present, count=int(present), fields=fields)


def _digest(asset: Mapping[str, Any]) -> str:
    algorithm, _, digest = str(asset.get("digest") or "").partition(":")
    if asset.get("state") == "uploaded" and algorithm != "sha256":
        raise CheckFailed(f"The forge lists {asset['name']} without its sha256.", retryable=False)
    return digest


_READERS: Final = {"merge": _merge, "release": _release, "ref": _ref}
