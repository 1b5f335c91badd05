"""Web pages as a server sends them: elements, their text and attributes, and simple selectors.

A selector is a chain of steps from the outside in ("form#login input[name=user]"); a step is a tag, `#id`,
`.class` and `[attribute]` or `[attribute=value]`, together. No script runs here: what only a script would
put onto the page is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

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
        """All text inside, white space collapsed; scripts and styles are no text."""
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
        """What a field holds: as it would be sent again."""
        if self.tag == "select":
            options = [one for one in _below(self) if one.tag == "option"]
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
    """A page's elements in the order in which they stand."""

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
    """A selector's steps; `BadSelector` for anything that it does not know."""
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


def _below(node: PageElement) -> Iterator[PageElement]:
    for piece in node.pieces:
        if isinstance(piece, PageElement):
            yield piece
            yield from _below(piece)
