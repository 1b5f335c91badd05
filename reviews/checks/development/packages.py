"""Package indexes: read which files of a project an index lists, over the simple repository API (PEP 503, 691).

    effects.<name>   project, filename (expressions), and either sha256 (expression: what the file's should be) or
                     expect "absent"

The system's settings: url (what the pages of projects stand below, like https://pypi.org/simple), projects (those that
may be read), hosts (that of uploads, like upload.pypi.org, where it is another); the credential: user and password,
where the index wants them for reading.

1. The index's own page of the project is read, as JSON or as HTML, whichever it answers in, without a cache. It is
   whole or no answer. A project that the index does not know has no files.
2. A file is there when the page lists it. Which content it has is told by the digest that stands beside it; a page that
   gives none cannot tell, and the reading fails and is told as such.
3. A yanked file is listed all the same: `yanked` says so.
4. An upload to another host (the argument `index` or `host`) is not settled here: the same file may be in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,199}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FIELDS: dict[str, Any] = {
    **{name: {"type": "string"} for name in ("project", "filename", "sha256")},
    "yanked": {"type": "boolean"},
}


class PackageCheck(lookups.LookupCheck):
    """The check of pattern `packages`."""

    pattern = "packages"
    settings = {**fetching.SITE, "projects": shapes.readable("Projects"), "hosts": fetching.HOSTS}
    fields = _FIELDS
    part = shapes.thing_schema(("project", "filename"), ("sha256",))
    needs = {
        "hash_match": ("sha256",),
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
        """Read the index's entry for each effect's file."""
        parts = {
            name: _fill_part(part, system, bindings) for name, part in lookups.lookup_effects(verification).items()
        }
        address = system.credential.get("url") or system.settings.get("url")
        answers: dict[str, fetching.SiteResponse] = {}
        headers = {"Accept": _ACCEPT}
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            asked = bindings.get("sr", {})
            fetching.refuse_other_host(system, site, asked.get("index", asked.get("host")), "index")
            for project in dict.fromkeys(part["project"] for part in parts.values()):
                answers[project] = site.get(f"/{fetching.path_segment(normalize_project(project))}/")
        listed = {project: _parse_listing(project, answer) for project, answer in answers.items()}
        effects = [_effect(name, part, listed[part["project"]].get(part["filename"])) for name, part in parts.items()]
        named = "; ".join(f"{each.fields['filename']} {each.fields['sha256'] or 'none'}" for each in effects)
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers.values(), at=at),
            freshness=named[:200],
            observed_at=at,
            pointer="; ".join(f"{part['filename']} of {part['project']}" for part in parts.values()),
            effects=tuple(effects),
            raw={each.name: dict(each.fields) for each in effects},
        )


def normalize_project(name: str) -> str:
    """A project's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _parse_listing(project: str, answer: fetching.SiteResponse) -> dict[str, tuple[str, bool]]:
    """Digest and whether it is yanked, by the file's name (rules 1 and 3)."""
    if answer.status == 404:
        return {}
    if answer.status != 200:
        raise CheckFailed(f"{project} answered {answer.status} and no list of files.", retryable=True)
    answer = answer.whole()
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    if kind == JSON:
        return _from_json(answer)
    if kind in ("text/html", "application/vnd.pypi.simple.v1+html"):
        page = _Anchors()
        page.feed(answer.text)
        return page.files
    raise CheckFailed(f"{project} answered in {kind or 'no form'} and with no list of files.", retryable=True)


def _from_json(answer: fetching.SiteResponse) -> dict[str, tuple[str, bool]]:
    files = answer.document().get("files")
    if not isinstance(files, list) or not all(isinstance(each, dict) for each in files):
        raise CheckFailed(f"{answer.url} holds no list of files.", retryable=True)
    return {
        str(each.get("filename")): (str((each.get("hashes") or {}).get("sha256", "")), bool(each.get("yanked")))
        for each in files
    }


class _Anchors(HTMLParser):
    """The files that the anchors of a page link to; the digest is the fragment of the address."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, tuple[str, bool]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        if tag != "a" or not about.get("href"):
            return
        address = urlsplit(str(about["href"]))
        algorithm, _, digest = address.fragment.partition("=")
        name = unquote(address.path.rpartition("/")[2])
        self.files[name] = (digest if algorithm == "sha256" else "", "data-yanked" in about)


def _fill_part(
    part: Mapping[str, Any], system: SystemAccess, bindings: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    names = [name for name in ("project", "filename", "sha256") if name in part]
    found = {name: str(lookups.fill_template(part[name], bindings)) for name in names}
    forms = {"project": _PROJECT, "filename": _FILENAME, "sha256": _DIGEST}
    for name, value in found.items():
        if not forms[name].fullmatch(value):
            raise CheckFailed(f"{value!r} is no {name} of a package.", retryable=False)
    allowed = system.settings.get("projects")
    if allowed is not None and normalize_project(found["project"]) not in map(normalize_project, allowed):
        raise CheckFailed(f"{found['project']} is not among the projects that may be read.", retryable=False)
    return found


def _effect(name: str, part: Mapping[str, str], listed: tuple[str, bool] | None) -> ReadEffect:
    digest, yanked = listed or ("", False)
    if listed is not None and "sha256" in part and not _DIGEST.fullmatch(digest):
        raise CheckFailed(f"The index lists {part['filename']} without its sha256.", retryable=False)
    fields = {"project": part["project"], "filename": part["filename"], "sha256": digest, "yanked": yanked}
    present = listed is not None if "sha256" in part else listed is None
    return ReadEffect(name=name, present=present, count=int(present), fields=fields)
