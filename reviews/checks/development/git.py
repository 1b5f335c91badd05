"""Git: reads the refs of a repository over the smart HTTP protocol (gitprotocol-http).

    effects.<name>   repository, ref (expressions), and either commit (expression: what the ref should name) or
                     expect "absent"

The system's settings: url (what the paths of repositories stand below), repositories (those that may be read), hosts
(others of the same repositories); the credential: user and password of an account that may only fetch.

1. The server's own list of refs is read (`info/refs`), without a cache and without a clone. It is whole or no answer:
   it begins with its service, each line says how long it is, and a flush ends it.
2. A push is there when the ref names the commit. If it names another one than before the execution, somebody else was
   faster: `stale_state`. A commit on top of ours cannot be told from one instead of it.
3. A deletion is there when the ref is not in the list. Only branches and tags are looked for: a server may hide others.
4. A push to another host (the argument `remote`) is not settled here, although a repository of that path may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

SERVICE = "git-upload-pack"
_REF = re.compile(r"refs/(?:heads|tags)/[^\x00-\x20~^:?*\[\\\x7f]+")
_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FIELDS: dict[str, Any] = {name: {"type": "string"} for name in ("repository", "ref", "commit")}


class GitCheck(lookups.LookupCheck):
    """The check of pattern `git`."""

    pattern = "git"
    settings = {**fetching.SITE, "repositories": shapes.readable("Repositories"), "hosts": fetching.HOSTS}
    fields = _FIELDS
    part = shapes.thing_schema(("repository", "ref"), ("commit",))
    needs = {
        "commit": ("commit",),
    }

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
        """Read the commit that each effect's ref names now."""
        parts = {
            name: _fill_part(part, system, bindings) for name, part in lookups.lookup_effects(verification).items()
        }
        address = system.credential.get("url") or system.settings.get("url")
        answers: dict[str, fetching.SiteResponse] = {}
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s)) as site:
            fetching.refuse_other_host(system, site, bindings.get("sr", {}).get("remote"), "repositories")
            for repository in dict.fromkeys(part["repository"] for part in parts.values()):
                answers[repository] = _fetch_refs(site, repository)
        refs = {repository: read_refs(answer.content) for repository, answer in answers.items()}
        effects, indicators = [], set[str]()
        for name, part in parts.items():
            found = refs[part["repository"]].get(part["ref"], "")
            effects.append(_effect(name, part, found))
            before = bindings.get("pre", {}).get("effects", {}).get(name, {}).get("commit")
            if not effects[-1].present and before is not None and before != found:
                indicators.add("stale_state")
        named = "; ".join(
            f"{part['ref']} {refs[part['repository']].get(part['ref'], 'none')}" for part in parts.values()
        )
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers.values(), at=at),
            freshness=named[:200],
            observed_at=at,
            pointer="; ".join(f"{part['ref']} of {part['repository']}" for part in parts.values()),
            effects=tuple(effects),
            indicators=tuple(sorted(indicators)),
            raw={name: dict(effect.fields) for name, effect in zip(parts, effects, strict=True)},
        )


def read_refs(content: bytes) -> dict[str, str]:
    """Return the refs of an advertisement, each with the object that it names (rule 1); raise `CheckFailed` for
    anything else.
    """
    lines = list(_packets(content))
    if not lines or lines[0].rstrip(b"\n") != f"# service={SERVICE}".encode():
        raise CheckFailed("The answer is no list of refs.", retryable=True)
    refs = {}
    for line in lines[1:]:
        named, _, ref = line.rstrip(b"\n").partition(b"\0")[0].decode("utf-8", "surrogateescape").partition(" ")
        if not _OBJECT.fullmatch(named) or not ref:
            raise CheckFailed("The list of refs has a line that names nothing.", retryable=True)
        refs[ref] = named
    refs.pop("capabilities^{}", None)
    return refs


def _packets(content: bytes) -> Iterator[bytes]:
    """Return the lines of two lists, each ended by a flush: the service, and its answer."""
    at, flushes = 0, 0
    while flushes < 2:
        try:
            length = int(content[at : at + 4], 16)
        except ValueError:
            raise CheckFailed("The list of refs is cut off.", retryable=True) from None
        line = content[at + 4 : at + length]
        if length in (1, 2, 3) or len(content) < at + max(length, 4) or (length and len(line) != length - 4):
            raise CheckFailed("The list of refs is cut off.", retryable=True)
        flushes += length == 0
        at += length or 4
        if length:
            yield line


def _fill_part(
    part: Mapping[str, Any], system: SystemAccess, bindings: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    names = [name for name in ("repository", "ref", "commit") if name in part]
    found = {name: str(lookups.fill_template(part[name], bindings)) for name in names}
    if not _REF.fullmatch(found["ref"]):
        raise CheckFailed(f"{found['ref']!r} is neither a branch nor a tag.", retryable=False)
    if "commit" in found and not _OBJECT.fullmatch(found["commit"]):
        raise CheckFailed(f"{found['commit']!r} names no commit.", retryable=False)
    lookups.refuse_unlisted(found["repository"], system.settings.get("repositories"), "repositories")
    return found


def _fetch_refs(site: fetching.Site, repository: str) -> fetching.SiteResponse:
    path = "/".join(fetching.path_segment(each) for each in repository.split("/"))
    answer = site.get(f"/{path}/info/refs", params={"service": SERVICE})
    if answer.status != 200 or not answer.headers.get("content-type", "").startswith(
        f"application/x-{SERVICE}-advertisement"
    ):
        # A repository that is not there, or that this credential may not see: no ref of it can be told.
        raise CheckFailed(f"{repository} answered {answer.status} and no list of refs.", retryable=answer.status != 404)
    return answer


def _effect(name: str, part: Mapping[str, str], found: str) -> ReadEffect:
    fields = {"repository": part["repository"], "ref": part["ref"], "commit": found}
    present = found == part["commit"] if "commit" in part else not found
    return ReadEffect(name=name, present=present, count=int(present), fields=fields)
