"""A forge: read merges, releases, refs and pipelines over the REST API of GitHub (or GitHub Enterprise) or of GitLab.

    effects.<name>   reads "merge", "release", "ref" or "pipeline", and optionally host, repository, number, node, tag,
                     ref, commit (expressions), and for a ref expect "absent"

A value that no expression gives is the argument of that name: `host` and `repository`; `number` of a merge or of a
pipeline; `tag` of a release, its `assets` (each `name` and `sha256`), and whether it is a `draft`; `ref` and `commit`
of a ref. `host` is the forge's own, or the address of its API as it is registered. `node` is a pull request's id in
GitHub's GraphQL API, which tells repository and number.

The system's settings: url (of the API: https://api.github.com, https://forge.example.org/api/v3, or GitLab's
https://gitlab.example.org/api/v4; the path tells which one it is), repositories (those that may be read; of GitLab
projects with their path), forge (its own host, where the address of the API does not tell it); the credential: token,
which may only read.

1. A pull or merge request is merged when the forge says so. Into what, is asked too: `contained` is whether the base
   branch holds the merged commit now, by the forge's own comparison. One that GitLab will merge by itself when its
   checks pass is neither merged nor not: it is pending.
2. A release is there when the forge has a published one for the tag. Not there is what it answers (404) for a
   repository that this credential can read; of one that it cannot, nothing is told.
3. An asset is told by the digest that the forge gives. `differing` counts those that are missing, otherwise or not
   asked for; a forge that gives no digests cannot tell, and the reading fails and is told as such.
4. A ref (`refs/heads/main`) is there when the forge has it with that object, at GitLab with that commit; expected
   absent, when the forge answers that there is none. If it names another object than before the execution, somebody
   else was faster: `stale_state`.
5. A draft of a release has no tag to find it by: the reading fails and is told as such.
6. A pipeline is known by its number alone, since another one on the same ref could be taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

_ACCEPT = {"Accept": "application/vnd.github+json, application/json;q=0.9", "X-GitHub-Api-Version": "2022-11-28"}
_EXPRESSIONS: Final = ("host", "repository", "number", "node", "tag", "ref", "commit")
# A percent sign may stand for the slash of a name, which an address has to encode: it is no plain name.
_REF: Final = re.compile(r"refs/(heads|tags)/[^\x00-\x20%~^:?*\[\\\x7f]{1,200}")
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PULL_OF_NODE: Final = (
    "query($id: ID!) { node(id: $id) { ... on PullRequest { number repository { nameWithOwner } } } }"
)
_TEXTS: Final = ("repository", "head", "base", "merged_as", "tag", "ref", "commit", "status")
_FIELDS: dict[str, Any] = {
    **{name: {"type": "string"} for name in _TEXTS},
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
        ("merge", "release", "ref", "pipeline"),
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
        """Read the requested merge, release, ref or pipeline from the forge."""
        parts = {
            name: {**bindings.get("sr", {}), **part, **_fill_part(part, bindings)}
            for name, part in lookups.lookup_effects(verification).items()
        }
        address = system.credential.get("url") or system.settings.get("url")
        token = system.credential.get("token")
        headers = _ACCEPT | ({"Authorization": f"Bearer {token}"} if token else {})
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            is_gitlab = site.address.path.rstrip("/").endswith("/api/v4")
            forge = (_GitLab if is_gitlab else _GitHub)(system, site)
            effects = []
            for name, asked in parts.items():
                _check_host(system, site, str(asked["host"]))
                effects.append(forge.read_effect(name, asked))
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *forge.answers, at=at),
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
    numbered = asked["reads"] in ("merge", "pipeline")
    return f"#{asked['number']}" if numbered else str(asked["tag" if "tag" in asked else "ref"])


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


class _Forge:
    """A forge whose API is asked for one reading; `answers` are its answers."""

    def __init__(self, system: SystemAccess, site: fetching.Site) -> None:
        self._listed = system.settings.get("repositories")
        self._site = site
        self.answers: list[fetching.SiteResponse] = []

    def read_effect(self, name: str, asked: dict[str, Any]) -> ReadEffect:
        """Read one effect; `asked` gains what the forge says of where it is."""
        top = self._open(asked)
        readers = {"merge": self._merge, "release": self._release, "ref": self._ref, "pipeline": self._pipeline}
        return readers[str(asked["reads"])](name, top, asked)

    def _open(self, asked: dict[str, Any]) -> str:
        """Return the path of the repository, which may be read (`repositories`)."""
        raise NotImplementedError

    def _merge(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        raise NotImplementedError

    def _release(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        raise NotImplementedError

    def _find_ref(self, top: str, ref: str) -> tuple[str, str] | None:
        """A ref as the forge writes it, and its object; None if there is none."""
        raise NotImplementedError

    def _pipeline(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        raise CheckFailed("Pipelines are read from GitLab alone.", retryable=False)

    def _ref(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        ref, wanted = str(asked["ref"]), asked.get("commit")
        is_absence = asked.get("expect") == "absent"
        if not _REF.fullmatch(ref):
            raise CheckFailed(f"{ref!r} is no branch or tag with a plain name.", retryable=False)
        if not is_absence and not _OBJECT.fullmatch(str(wanted)):
            raise CheckFailed(f"{wanted!r} names no object.", retryable=False)
        found, commit = self._find_ref(top, ref) or (ref, "")
        if found != ref:
            raise CheckFailed(f"The forge answered with another ref than {ref}.", retryable=True)
        present = not commit if is_absence else commit == wanted
        fields = {"repository": asked["repository"], "ref": ref, "commit": commit}
        return ReadEffect(name=name, present=present, count=int(present), fields=fields)

    def _ask(self, top: str, path: str, *, lacking: str = "") -> dict[str, Any] | None:
        """Return a document of the repository; None if the forge reports that there is none (rule 2), in the words
        that it has for it (`lacking`).
        """
        answer = self._site.get(f"{top}{path}")
        self.answers.append(answer)
        document = answer.document()
        if answer.status == 200:
            return document
        said = str(document.get("message", ""))
        if answer.status != 404 or not said or lacking not in said:
            raise CheckFailed(f"{answer.url} answered {answer.status} and no document.", retryable=True)
        if not path or self._ask(top, "") is None:
            named = unquote(top.split("/", 2)[2])
            raise CheckFailed(f"{named} is not there, or this credential may not read it.", retryable=False)
        return None


class _GitHub(_Forge):
    def _open(self, asked: dict[str, Any]) -> str:
        if "node" in asked:
            asked |= self._pull_of_node(str(asked["node"]))
        repository = str(asked["repository"])
        lookups.refuse_unlisted(repository, self._listed, "repositories")
        return "/repos/" + "/".join(map(fetching.path_segment, repository.split("/")))

    def _pull_of_node(self, node: str) -> dict[str, Any]:
        document = {"query": _PULL_OF_NODE, "variables": {"id": node}}
        answer = self._site.ask("POST", "/graphql", document=document)
        self.answers.append(answer)
        told = answer.document()
        found = told["data"].get("node") if isinstance(told.get("data"), dict) else None
        kinds = {str(each.get("type")) for each in told.get("errors") or ()}
        if answer.status != 200 or kinds - {"NOT_FOUND"} or (found is None and "data" not in told):
            raise CheckFailed(f"{answer.url} answered {answer.status} and not what {node} is.", retryable=True)
        if not found or "number" not in found:
            raise CheckFailed(f"{node} names no pull request that this credential may read.", retryable=False)
        return {"repository": str(found["repository"]["nameWithOwner"]), "number": int(found["number"])}

    def _merge(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        number = _number(asked, "pull request")
        pull = self._ask(top, f"/pulls/{number}")
        if pull is None:
            raise CheckFailed(f"There is no pull request {number}.", retryable=False)
        merged = pull.get("merged") is True
        base, made = str(pull["base"]["ref"]), str(pull.get("merge_commit_sha") or "") if merged else ""
        # What is "behind" a branch, or identical with it, the branch holds.
        compared = self._ask(top, f"/compare/{quote(base, safe='')}...{made}") if merged else None
        fields = {
            "repository": str(pull["base"]["repo"]["full_name"]),
            "head": str(pull["head"]["sha"]),
            "base": base,
            "merged_as": made,
            "contained": compared is not None and compared.get("status") in ("behind", "identical"),
        }
        return ReadEffect(name=name, present=merged, count=int(merged), fields=fields)

    def _release(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        if asked.get("draft"):
            raise CheckFailed("A draft of a release cannot be found by its tag.", retryable=False)
        tag = quote(str(asked["tag"]))
        found = self._ask(top, f"/releases/tags/{tag}")
        fields: dict[str, Any] = {"repository": asked["repository"], "tag": asked["tag"]}
        if found is None or found.get("draft") is not False:
            return ReadEffect(name=name, present=False, count=0, fields=fields)
        commit = self._ask(top, f"/commits/tags/{tag}") or {}
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

    def _find_ref(self, top: str, ref: str) -> tuple[str, str] | None:
        found = self._ask(top, f"/git/ref/{quote(ref.removeprefix('refs/'))}")
        return (str(found.get("ref")), str(found["object"]["sha"])) if found else None


class _GitLab(_Forge):
    def _open(self, asked: dict[str, Any]) -> str:
        project = str(asked["repository"])
        top = f"/projects/{fetching.path_segment(project)}"
        if project.isdecimal():
            # A project may be named by its number, and is listed by its path.
            project = str((self._ask(top, "") or {}).get("path_with_namespace"))
        lookups.refuse_unlisted(project, self._listed, "repositories")
        asked["repository"] = project
        return top

    def _merge(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        number = _number(asked, "merge request")
        found = self._ask(top, f"/merge_requests/{number}")
        if found is None:
            raise CheckFailed(f"There is no merge request {number}.", retryable=False)
        state, base, head = found.get("state"), str(found["target_branch"]), str(found["sha"])
        if state not in ("opened", "closed", "locked", "merged"):
            raise CheckFailed(f"Merge request {number} is in the state {state!r}.", retryable=True)
        # One that is merged right now is locked.
        is_pending = state == "locked" or (state == "opened" and found.get("merge_when_pipeline_succeeds") is True)
        merged = state == "merged"
        # A fast-forward makes no commit of its own.
        made = str(found.get("merge_commit_sha") or found.get("squash_commit_sha") or head) if merged else ""
        refs = f"refs%5B%5D={quote(base, safe='')}&refs%5B%5D={quote(made, safe='')}"
        common = self._ask(top, f"/repository/merge_base?{refs}") if merged else None
        fields = {
            "repository": asked["repository"],
            "head": head,
            "base": base,
            "merged_as": made,
            "status": str(state),
            "contained": common is not None and common.get("id") == made,
        }
        present = None if is_pending else merged
        return ReadEffect(name=name, present=present, count=int(merged), fields=fields, pending=is_pending)

    def _release(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        found = self._ask(top, f"/releases/{fetching.path_segment(asked['tag'])}")
        if found is None:
            fields: dict[str, Any] = {"repository": asked["repository"], "tag": asked["tag"]}
            return ReadEffect(name=name, present=False, count=0, fields=fields)
        fields = {
            "repository": asked["repository"],
            "tag": str(found["tag_name"]),
            "commit": str((found.get("commit") or {}).get("id", "")),
            "prerelease": found.get("upcoming_release") is True,
        }
        return ReadEffect(name=name, present=True, count=1, fields=fields)

    def _find_ref(self, top: str, ref: str) -> tuple[str, str] | None:
        _, kind, named = ref.split("/", 2)
        place, words = {"heads": ("branches", "Branch Not Found"), "tags": ("tags", "Tag Not Found")}[kind]
        found = self._ask(top, f"/repository/{place}/{fetching.path_segment(named)}", lacking=words)
        return (f"refs/{kind}/{found.get('name')}", str(found["commit"]["id"])) if found else None

    def _pipeline(self, name: str, top: str, asked: Mapping[str, Any]) -> ReadEffect:
        number = _number(asked, "pipeline")
        found = self._ask(top, f"/pipelines/{number}")
        fields = {"repository": asked["repository"]}
        if found is None:
            return ReadEffect(name=name, present=False, count=0, fields=fields)
        fields |= {"ref": str(found["ref"]), "commit": str(found["sha"]), "status": str(found["status"])}
        return ReadEffect(name=name, present=True, count=1, fields=fields)


def _number(asked: Mapping[str, Any], what: str) -> int:
    if not str(asked["number"]).isdecimal():
        raise CheckFailed(f"{asked['number']!r} is no number of a {what}.", retryable=False)
    return int(asked["number"])


def _digest(asset: Mapping[str, Any]) -> str:
    algorithm, _, digest = str(asset.get("digest") or "").partition(":")
    if asset.get("state") == "uploaded" and algorithm != "sha256":
        raise CheckFailed(f"The forge lists {asset['name']} without its sha256.", retryable=False)
    return digest
