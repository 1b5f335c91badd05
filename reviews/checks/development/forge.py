"""A forge: read merges and releases over GitHub's REST API, as GitHub and GitHub Enterprise have it.

    effects.<name>   reads "merge" or "release"

What is looked for is what the call asked for, under these names of its arguments: `host` and `repository`, and either
`number`, `head_commit` and `base`, or `tag`, `commit` and `assets` (each `name` and `sha256`).

The system's settings: url (of the API, like https://api.github.com or https://forge.example.org/api/v3), repositories
(those that may be read), forge (its own host, where the address of the API does not tell it); the credential:
token, which may only read.

1. A pull request is merged when the forge says so. Into what, is asked too: `contained` is whether the base branch
   holds the merged commit now, by the forge's own comparison.
2. A release is there when the forge has a published one for the tag. Not there is what it answers (404) for a
   repository that this credential can read; of one that it cannot, nothing is told.
3. An asset is told by the digest that the forge gives. `differing` counts those that are missing, otherwise or not
   asked for; a forge that gives no digests cannot tell, and the reading fails and is told as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from reviews.checks import fetching, lookups, shapes
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read

_ACCEPT = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_FIELDS: dict[str, Any] = {
    **{name: {"type": "string"} for name in ("repository", "head", "base", "merged_as", "tag", "commit")},
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
    part = shapes.reads_schema(("merge", "release"))

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
        """Read the requested merge or release from the forge."""
        asked = bindings.get("sr", {})
        lookups.refuse_unlisted(str(asked["repository"]), system.settings.get("repositories"), "repositories")
        address = system.credential.get("url") or system.settings.get("url")
        token = system.credential.get("token")
        headers = _ACCEPT | ({"Authorization": f"Bearer {token}"} if token else {})
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            _check_host(system, site, str(asked["host"]))
            repository = _Repository(site, str(asked["repository"]))
            parts = lookups.lookup_effects(verification)
            effects = tuple(
                (_merge if part["reads"] == "merge" else _release)(name, repository, asked)
                for name, part in parts.items()
            )
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *repository.answers, at=at),
            freshness="; ".join(str(each.fields.get("merged_as") or each.fields.get("commit")) for each in effects),
            observed_at=at,
            pointer=f"{asked['repository']} {asked.get('tag') or '#' + str(asked.get('number'))}",
            effects=effects,
            raw={each.name: dict(each.fields) for each in effects},
        )


def _check_host(system: SystemAccess, site: fetching.Site, asked: str) -> None:
    here = str(system.settings.get("forge") or site.address.host.removeprefix("api."))
    if asked != here:
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
    tag = quote(str(asked["tag"]))
    found = repository.ask(f"/releases/tags/{tag}")
    fields: dict[str, Any] = {"repository": asked["repository"], "tag": asked["tag"]}
    if found is None or found.get("draft") is not False:
        return ReadEffect(name=name, present=False, count=0, fields=fields)
    commit = repository.ask(f"/commits/tags/{tag}") or {}
    wanted = {each["name"]: each["sha256"] for each in asked["assets"]}
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


def _digest(asset: Mapping[str, Any]) -> str:
    algorithm, _, digest = str(asset.get("digest") or "").partition(":")
    if asset.get("state") == "uploaded" and algorithm != "sha256":
        raise CheckFailed(f"The forge lists {asset['name']} without its sha256.", retryable=False)
    return digest
