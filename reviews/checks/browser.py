"""Browser: reads the page that an automation left, and asks its server (R-CP-09).

    effects.<name>   page (expression: an address on the system), and optionally
                     element (selector) and text (expression: what it must say), url (expression: where the
                     page should be), shown {field: selector}, error (selector of the error banner),
                     account {selector, name (expression)}, download {path, sha256} (expressions),
                     confirmation {path (expression), where {place in the JSON: expression}},
                     expect "absent", tenant_field, target_field

1. The page is fetched again, by GET and as the reader's own account; it is parsed, not rendered. No script
   runs, nothing is clicked, no redirect is followed: one is `navigation_mismatch`.
2. A page says what it was made to say. Alone it is UNDECLARED and settles nothing, unless the system's
   settings vouch for it; a confirmation by the server's own API makes it STRONG, and decides.
3. An element that is not there is `selector_timeout`, and a challenge in its place `captcha`: neither says
   that nothing happened.
4. What the automation's own browser saw, typed or downloaded is evidence of its observation, not of this.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from typing import Any

import httpx

from reviews.checks import fetching, lookups
from reviews.checks.fetching import Site, SiteResponse
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

MAX_ELEMENTS = 50_000
MAX_DEPTH = 500

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_ENDS_ITSELF = frozenset({"li", "option", "p", "td", "th", "tr", "dt", "dd"})
_PART = re.compile(
    r"#(?P<id>[\w-]+)|\.(?P<class>[\w-]+)|\[(?P<name>[\w:-]+)(?:=(?P<quote>[\"']?)(?P<value>[^\"'\]]*)(?P=quote))?\]"
)
_STEP = re.compile(r"(?P<tag>[A-Za-z][\w-]*|\*)?(?P<parts>(?:#[\w-]+|\.[\w-]+|\[[^\]]+\])*)")


class PageTooLarge(Exception):
    """The page has more elements than are looked at, or nests them too deeply."""


class BadSelector(Exception):
    """The text is no selector."""


@dataclass
class PageElement:
    """An element of a page."""

    tag: str
    attributes: dict[str, str]
    parent: PageElement | None
    pieces: list[str | PageElement] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The complete text inside, with white space collapsed and without scripts and styles."""
        return " ".join("".join(self._pieces()).split())

    def _pieces(self) -> Iterator[str]:
        if self.tag in {"script", "style", "template"}:
            return
        for piece in self.pieces:
            if isinstance(piece, str):
                yield piece
            else:
                yield from piece._pieces()
        if self.tag not in {"b", "i", "em", "strong", "span", "a", "code"}:
            yield " "

    @property
    def value(self) -> str:
        """The value of a field, as it would be sent again."""
        if self.tag == "select":
            options = [one for one in _descendants(self) if one.tag == "option"]
            chosen = next((one for one in options if "selected" in one.attributes), options[0] if options else None)
            return "" if chosen is None else chosen.attributes.get("value", chosen.text)
        if self.tag == "textarea":
            return "".join(piece for piece in self.pieces if isinstance(piece, str)).strip()
        return self.attributes.get("value", self.text)


@dataclass(frozen=True)
class SelectorStep:
    """One step of a selector."""

    tag: str
    needed: tuple[tuple[str, str, str | None], ...]

    def fits(self, node: PageElement) -> bool:
        if self.tag not in {"*", node.tag}:
            return False
        return all(_has(node, kind, name, value) for kind, name, value in self.needed)


def _has(node: PageElement, kind: str, name: str, value: str | None) -> bool:
    if kind == "class":
        return name in node.attributes.get("class", "").split()
    if kind == "id":
        return node.attributes.get("id") == name
    return name in node.attributes and (value is None or node.attributes[name] == value)


class HtmlPage(HTMLParser):
    """A page's elements in document order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = PageElement("", {}, None)
        self.here = self.root
        self.nodes: list[PageElement] = []
        self.depth = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _ENDS_ITSELF and self.here.tag == tag:
            self._leave()
        if len(self.nodes) >= MAX_ELEMENTS or self.depth >= MAX_DEPTH:
            raise PageTooLarge
        node = PageElement(tag, {name: value or "" for name, value in reversed(attrs)}, self.here)
        self.here.pieces.append(node)
        self.nodes.append(node)
        if tag not in _VOID:
            self.here = node
            self.depth += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # HTML knows no empty elements but the void ones: a slash means nothing.
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        node: PageElement | None = self.here
        while node is not None and node.tag != tag:
            node = node.parent
        # An end without a beginning ends nothing.
        while node is not None and self.here is not node:
            self._leave()
        if node is not None:
            self._leave()

    def handle_data(self, data: str) -> None:
        self.here.pieces.append(data)

    def _leave(self) -> None:
        if self.here.parent is not None:
            self.here = self.here.parent
            self.depth -= 1

    def find(self, selector: str) -> list[PageElement]:
        """The elements that a selector means."""
        steps = parse_selector(selector)
        return [node for node in self.nodes if _fits(node, steps)]


def parse_selector(selector: str) -> tuple[SelectorStep, ...]:
    """Return a selector's steps; raise `BadSelector` for unsupported syntax."""
    steps = tuple(_step(one) for one in selector.split())
    if not steps:
        raise BadSelector("A selector must name something.")
    return steps


def _step(text: str) -> SelectorStep:
    found = _STEP.fullmatch(text)
    if found is None:
        raise BadSelector(f"{text!r} is no step of a selector (known: tag, #id, .class, [attribute=value]).")
    needed = []
    parts = found["parts"] or ""
    for part in _PART.finditer(parts):
        kind = "id" if part["id"] else "class" if part["class"] else "attribute"
        needed.append((kind, part["id"] or part["class"] or part["name"].lower(), part["value"]))
    if sum(part.end() - part.start() for part in _PART.finditer(parts)) != len(parts):
        raise BadSelector(f"{text!r} is no step of a selector (known: tag, #id, .class, [attribute=value]).")
    return SelectorStep((found["tag"] or "*").lower(), tuple(needed))


def _fits(node: PageElement, steps: tuple[SelectorStep, ...]) -> bool:
    if not steps[-1].fits(node):
        return False
    left = list(steps[:-1])
    above = node.parent
    while left and above is not None:
        if left[-1].fits(above):
            left.pop()
        above = above.parent
    return not left


def _descendants(node: PageElement) -> Iterator[PageElement]:
    for piece in node.pieces:
        if isinstance(piece, PageElement):
            yield piece
            yield from _descendants(piece)


_SHOWN: shapes.Schema = {"type": "string", "fault": "must be a shown field."}
_SELECTOR: shapes.Schema = {"type": "string", "format": "selector", "fault": "must be a selector."}
_OWN = frozenset({"title", "url", "status", "error_text", "account_name", "download_sha256", "confirmed"})
_CHALLENGES = (".g-recaptcha", ".h-captcha", ".cf-turnstile", ".frc-captcha", "#challenge-form", "altcha-widget")
_CHALLENGE_SOURCES = re.compile(r"//[^/]*(recaptcha|hcaptcha|challenges\.cloudflare|arkoselabs)|/recaptcha/", re.I)
_GONE = frozenset({404, 410})
_NOWHERE = object()

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass
class Visit:
    """The findings of one effect's visit."""

    present: bool | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    indicators: set[str] = field(default_factory=set)
    answers: list[SiteResponse] = field(default_factory=list)


def _selector_fault(text: str) -> str:
    try:
        parse_selector(text)
    except BadSelector as problem:
        return str(problem)
    return ""


class BrowserCheck(lookups.LookupCheck):
    """The check of pattern `browser_automation`."""

    pattern = "browser_automation"
    settings = fetching.SITE
    formats = {**shapes.FORMATS, "selector": _selector_fault}
    part = shapes.object_schema(
        {"page": shapes.EXPRESSION},
        {
            **dict.fromkeys(("text", "url"), shapes.EXPRESSION),
            **dict.fromkeys(("element", "error"), _SELECTOR),
            "shown": {
                "type": "object",
                "additionalProperties": _SELECTOR,
                "propertyNames": shapes.free_name(_OWN),
                "fault": "must name fields and their selectors.",
            },
            "account": shapes.object_schema({"selector": _SELECTOR, "name": shapes.EXPRESSION}, {}),
            "download": shapes.object_schema(dict.fromkeys(("path", "sha256"), shapes.EXPRESSION), {}),
            "confirmation": shapes.object_schema({"path": shapes.EXPRESSION, "where": shapes.map_schema()}, {}),
            "expect": shapes.EXPECT,
            **dict.fromkeys(("tenant_field", "target_field"), _SHOWN),
        },
        shapes.rule("/text is what an element must say: name the element.", dependentRequired={"text": ["element"]}),
    )
    needs = {
        "stable_url": ("url",),
        "expected_dom_element": ("element",),
        "submitted_values": ("confirmation", "shown", "text"),
        "downloaded_file_hash": ("download",),
        "no_error_banner": ("error",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The declared fields of the page (all of them text), and what is told of every page."""
        own: dict[str, Any] = {name: {"type": "string"} for name in sorted(_OWN)}
        own |= {"status": {"type": "integer"}, "confirmed": {"type": "boolean"}}
        return {**{name: {"type": "string"} for name in part.get("shown", ())}, **own}

    def validate(self, verification: Mapping[str, Any]) -> list[str]:
        """The faults of the shape, and fields of tenant and target that the page does not show."""
        faults = super().validate(verification)
        for name, part in {} if faults else lookups.lookup_effects(verification).items():
            known = sorted(part.get("shown", ()))
            faults += [
                f"lookup/effects/{name}/{each} must be one of {', '.join(known)}."
                for each in ("tenant_field", "target_field")
                if each in part and part[each] not in known
            ]
        return faults

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the pages, and the confirmations of their server."""
        parts = lookups.lookup_effects(verification)
        with fetching.open_site(system, system.settings.get("url"), until=fetching.deadline_after(timeout_s)) as site:
            visits = {name: _visit(site, part, bindings) for name, part in parts.items()}
        answers = [answer for visit in visits.values() for answer in visit.answers]
        return Reading(
            source=system.name,
            consistency=_consistency(system, parts, answers, at=at),
            freshness=f"served {_freshness(answers)}",
            observed_at=at,
            pointer="; ".join(f"the page at {part['page']}" for part in parts.values()),
            effects=tuple(
                ReadEffect(
                    name=name,
                    present=visit.present,
                    count=int(bool(visit.present)),
                    fields=visit.fields,
                    scope=lookups.scope_of(parts[name], [visit.fields] if visit.present else ()),
                )
                for name, visit in visits.items()
            ),
            indicators=tuple(sorted({key for visit in visits.values() for key in visit.indicators})),
            raw={name: visit.fields for name, visit in visits.items()},
        )


# One reading


def _visit(site: Site, part: Mapping[str, Any], bindings: Bindings) -> Visit:
    visit = Visit()
    address = _path(site, lookups.fill_template(part["page"], bindings))
    answer = site.get(address)
    visit.answers.append(answer)
    visit.fields |= {"status": answer.status, "url": answer.url}
    _read_page(site, part, bindings, answer, visit)
    if "download" in part:
        _check_download(site, part["download"], bindings, visit)
    if "confirmation" in part:
        _read_confirmation(site, part["confirmation"], bindings, visit)
    if part.get("expect") == "absent" and visit.present is not None:
        visit.present = not visit.present
    return visit


def _path(site: Site, given: Any) -> str:
    """A path below the system's address; a whole address must begin with it."""
    text, base = str(given), str(site.address).rstrip("/")
    if text.startswith(f"{base}/"):
        return text[len(base) :]
    return text


def _read_page(site: Site, part: Mapping[str, Any], bindings: Bindings, answer: SiteResponse, visit: Visit) -> None:
    """Read the page itself, which counts as long as no confirmation does."""
    if answer.status in _GONE:
        visit.present = False
        return
    if answer.status != 200:
        visit.indicators.add("navigation_mismatch")
        return
    try:
        page = HtmlPage(answer.whole().text)
    except PageTooLarge:
        raise CheckFailed("The page has too many elements.", retryable=False) from None
    visit.fields |= _shown_fields(page, part)
    visit.present = _is_there(page, part, bindings, visit)
    visit.indicators |= set(_context_indicators(site, page, part, bindings, visit, answer))


def _shown_fields(page: HtmlPage, part: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: page.find(selector) for name, selector in part.get("shown", {}).items()}
    # What is not on the page has no key: a predicate over it is undecidable, not false.
    fields: dict[str, Any] = {name: nodes[0].value for name, nodes in found.items() if nodes}
    title = page.find("title")
    return {**fields, "title": title[0].text if title else ""}


def _is_there(page: HtmlPage, part: Mapping[str, Any], bindings: Bindings, visit: Visit) -> bool | None:
    if "element" not in part:
        return True
    wanted = str(lookups.fill_template(part["text"], bindings)) if "text" in part else ""
    if any(wanted in f"{node.text} {node.value}" for node in page.find(part["element"])):
        return True
    visit.indicators.add("captcha" if _is_challenge(page) else "selector_timeout")
    return None


def _is_challenge(page: HtmlPage) -> bool:
    if any(page.find(selector) for selector in _CHALLENGES):
        return True
    framed = [*page.find("iframe[src]"), *page.find("script[src]")]
    return any(_CHALLENGE_SOURCES.search(node.attributes["src"]) for node in framed)


def _context_indicators(
    site: Site, page: HtmlPage, part: Mapping[str, Any], bindings: Bindings, visit: Visit, answer: SiteResponse
) -> Iterator[str]:
    """Yield the indicators of a wrong address, a wrong account and an error on the page."""
    said = httpx.URL(answer.url)
    canonical = [node.attributes.get("href", "") for node in page.find("link[rel=canonical]")]
    stands_at = _join_url(said, canonical[0] if canonical else "")
    wanted = (
        said if "url" not in part else _join_url(said, _wanted_url(site, lookups.fill_template(part["url"], bindings)))
    )
    if stands_at is None or stands_at != wanted:
        yield "navigation_mismatch"
    complaints = [node.text for node in page.find(part["error"])] if "error" in part else []
    visit.fields["error_text"] = " ".join(complaints)
    if any(complaints):
        visit.present = False
        # The page says why the element is not there.
        visit.indicators.discard("selector_timeout")
        yield "form_validation_failure"
    if "account" in part:
        yield from _account_indicators(page, part["account"], bindings, visit)


def _account_indicators(page: HtmlPage, part: Mapping[str, Any], bindings: Bindings, visit: Visit) -> Iterator[str]:
    nodes = page.find(part["selector"])
    if not nodes:
        # A page that names nobody may be anybody's: a sign-in, or a gateway's.
        visit.present = None
        yield "selector_timeout"
        return
    visit.fields["account_name"] = nodes[0].text
    if not _names(nodes[0].text, str(lookups.fill_template(part["name"], bindings))):
        yield "wrong_account_context"


def _join_url(base: httpx.URL, reference: str) -> httpx.URL | None:
    try:
        return base.join(reference)
    except httpx.InvalidURL:
        return None


def _wanted_url(site: Site, given: Any) -> str:
    base = str(site.address).rstrip("/")
    return base + _path(site, given)


def _names(text: str, name: str) -> bool:
    """Return True if a text names a person as a whole word, so that "ann" is not found in "joanna"."""
    return re.search(rf"(?<![\w.@-]){re.escape(name)}(?![\w@-])", text) is not None


def _check_download(site: Site, part: Mapping[str, Any], bindings: Bindings, visit: Visit) -> None:
    answer = site.get(_path(site, lookups.fill_template(part["path"], bindings)))
    visit.answers.append(answer)
    if answer.status != 200:
        visit.present = False if answer.status in _GONE else None
        return
    digest = hashlib.sha256(answer.whole().content).hexdigest()
    visit.fields["download_sha256"] = digest
    if digest != str(lookups.fill_template(part["sha256"], bindings)).lower():
        visit.indicators.add("file_hash_mismatch")


def _read_confirmation(site: Site, part: Mapping[str, Any], bindings: Bindings, visit: Visit) -> None:
    """Read the server's own API, which outranks the page (rule 2)."""
    path = _path(site, lookups.fill_template(part["path"], bindings))
    answer = site.get(path)
    visit.answers.append(answer)
    if answer.status != 200 and answer.status not in _GONE:
        raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=True)
    # That nothing is there it must say in its own form as well: a gateway's page about 404 is no such answer.
    document, confirmed = answer.document(), answer.status == 200
    if confirmed:
        wanted = {place: lookups.fill_template(text, bindings) for place, text in part["where"].items()}
        found = {place: _value_at(document, place) for place in wanted}
        if _NOWHERE in found.values():
            visit.present = None
            return
        confirmed = found == wanted
    visit.fields["confirmed"] = visit.present = confirmed


def _value_at(document: Any, place: str) -> Any:
    """Return the value at a path of a JSON document, as "data/items/0/name"; `_NOWHERE` if there is no such path."""
    for name in place.split("/"):
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            return _NOWHERE
    return lookups.to_json_value(document)


def _consistency(
    system: SystemAccess, parts: Mapping[str, Any], answers: list[SiteResponse], *, at: datetime
) -> Consistency:
    found = fetching.effective_consistency(system, *answers, at=at)
    vouched = "consistency" in system.settings or all("confirmation" in part for part in parts.values())
    return found if vouched or found in {Consistency.CACHE, Consistency.STALE_ENDPOINT} else Consistency.UNDECLARED


def _freshness(answers: list[SiteResponse]) -> str:
    marks = [f"{answer.headers.get('date', 'at no said time')} {answer.headers.get('etag', '')}" for answer in answers]
    return ", ".join(mark.strip() for mark in marks)
