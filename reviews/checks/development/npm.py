"""npm registries: read what a registry says of a package, over the registry's API (package metadata).

    effects.<name>   reads "versions", "texts", "tag", "left" or "package"; package, host (expressions); for a tag or a
                     package optionally expect "absent"

What is looked for is what the call asked for, under these names of its arguments: `checksums` (integrity by version)
and `tags` of versions; `texts` by version; `tag` and `version` of a tag; `versions_that_stay` of those left. `host` is
the registry's address as the call has it; only the registered one is asked.

The system's settings: url (of the registry), packages (those that may be read); the credential: token, where the
registry wants one for reading.

1. The registry's own document of the package is read, without a cache. A package that the registry does not know, or
   calls unpublished, has no versions and no tags.
2. Versions are there when each is listed with the integrity that was sent. `differing` counts the tags that lead
   elsewhere.
3. Deprecation texts are as asked when each version has its own; an empty text is none.
4. The versions that stay are left when none of the others that were listed before the execution is listed now; one
   that somebody published since is none of them. `differing` counts those that should stay and are gone, too.
5. A registry answers of a package that it hides as of one that it has not. It, its tags or its versions are gone only
   if it was seen before the execution; else nothing is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

_ACCEPT: Final = "application/vnd.npm.install-v1+json, application/json;q=0.8"
_PACKAGE: Final = re.compile(r"(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,213}")


class NpmCheck(lookups.LookupCheck):
    """The check of pattern `npm`."""

    pattern = "npm"
    settings = {**fetching.SITE, "packages": shapes.readable("Packages")}
    fields = {
        "package": {"type": "string"},
        "revision": {"type": "string"},
        "versions": {"type": "array"},
        "differing": {"type": "integer"},
    }
    part = shapes.object_schema(
        {
            "reads": {
                "enum": ["versions", "texts", "tag", "left", "package"],
                "fault": "is versions, texts, tag, left or package.",
            },
            **dict.fromkeys(("package", "host"), shapes.EXPRESSION),
        },
        {"expect": shapes.EXPECT},
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
        """Read the registry's document of each effect's package."""
        parts = {
            name: {**bindings.get("sr", {}), **part, "package": _package(part, system, bindings)}
            for name, part in lookups.lookup_effects(verification).items()
        }
        hosts = {str(lookups.fill_template(part["host"], bindings)) for part in parts.values()}
        address = system.credential.get("url") or system.settings.get("url")
        token = system.credential.get("token")
        headers = {"Accept": _ACCEPT} | ({"Authorization": f"Bearer {token}"} if token else {})
        answers: dict[str, fetching.SiteResponse] = {}
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            here = str(site.address).rstrip("/")
            if other := sorted(hosts - {here}):
                raise CheckFailed(f"This is the registry {here}; the call went to {other[0]}.", retryable=False)
            for package in dict.fromkeys(part["package"] for part in parts.values()):
                answers[package] = site.get(f"/{quote(package, safe='@')}")
        listings = {package: _listing(package, answer) for package, answer in answers.items()}
        effects = tuple(_effect(name, part, listings[part["package"]], bindings) for name, part in parts.items())
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers.values(), at=at),
            freshness="; ".join(f"{each.fields['package']} {each.fields['revision']}" for each in effects)[:200],
            observed_at=at,
            pointer="; ".join(listings),
            effects=effects,
            raw={each.name: dict(each.fields) for each in effects},
        )


def _package(part: Mapping[str, Any], system: SystemAccess, bindings: Mapping[str, Mapping[str, Any]]) -> str:
    package = str(lookups.fill_template(part["package"], bindings))
    if not _PACKAGE.fullmatch(package):
        raise CheckFailed(f"{package!r} is no name of a package.", retryable=False)
    lookups.refuse_unlisted(package, system.settings.get("packages"), "packages")
    return package


def _listing(package: str, answer: fetching.SiteResponse) -> Mapping[str, Any] | None:
    """Return the registry's document of a package; None if the registry itself says that there is none (rule 1)."""
    document = answer.document()
    if answer.status == 404 and "error" in document:
        return None
    times = document.get("time")
    if answer.status == 200 and document.get("name") == package:
        if isinstance(document.get("versions"), dict) and isinstance(document.get("dist-tags"), dict):
            return document
        if isinstance(times, dict) and times.get("unpublished"):
            return None
    raise CheckFailed(f"{answer.url} answered {answer.status} and no document of {package}.", retryable=True)


def _effect(
    name: str,
    asked: Mapping[str, Any],
    listing: Mapping[str, Any] | None,
    bindings: Mapping[str, Mapping[str, Any]],
) -> ReadEffect:
    reads, is_absence = asked["reads"], asked.get("expect") == "absent"
    versions: Mapping[str, Any] = listing["versions"] if listing else {}
    tags: Mapping[str, Any] = listing["dist-tags"] if listing else {}
    before = set(bindings.get("pre", {}).get("effects", {}).get(name, {}).get("versions", ()))
    staying = set(asked["versions_that_stay"]) if reads == "left" else set[str]()
    wanted_tags = asked.get("tags", {}) if reads in ("versions", "left") else {}
    present: bool | None
    if reads == "versions":
        present = bool(asked["checksums"]) and all(
            (versions.get(version, {}).get("dist") or {}).get("integrity") == integrity
            for version, integrity in asked["checksums"].items()
        )
    elif reads == "texts":
        present = bool(asked["texts"]) and all(
            version in versions and (versions[version].get("deprecated") or "") == text
            for version, text in asked["texts"].items()
        )
    elif reads == "left":
        removed = before - staying or versions.keys() - staying
        present = removed.isdisjoint(versions)
    elif reads == "tag":
        found = tags.get(asked["tag"])
        present = found is None if is_absence else found == asked["version"]
    else:
        present = (listing is None) is is_absence
    if (is_absence or reads == "left") and listing is None and not before:
        present = None
    differing = sum(tags.get(tag) != version for tag, version in wanted_tags.items())
    fields = {
        "package": asked["package"],
        "revision": str((listing or {}).get("modified") or (listing or {}).get("_rev") or ""),
        "versions": sorted(versions),
        "differing": differing + len((before & staying) - versions.keys()),
    }
    return ReadEffect(name=name, present=present, count=int(bool(present)), fields=fields)
