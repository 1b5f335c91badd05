"""The page after a page of a list, if the list goes on; pure.

A page that says neither that it is the last nor where the next one is raises `UnclearPage`: it proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reviews.systems.rules.answers import text_of, value_at


class UnclearPage(Exception):
    """The answer does not say whether the list goes on."""


@dataclass(frozen=True)
class NextPage:
    """The next page: at a link of its own, or at the same path with these parameters."""

    link: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of a list: its number from zero, the answer, the listed objects and the answer's `Link` header."""

    number: int
    document: Any
    items: list[Any]
    link: str


def next_page(paging: Mapping[str, Any], page: Page, id_at: str) -> NextPage | None:
    """The page after this one; None if it is the last."""
    by = paging["by"]
    if by == "none" or _is_last(paging, page):
        return None
    if by == "page":
        return NextPage(parameters={paging["parameter"]: str(page.number + 2)})
    if by == "offset":
        return NextPage(parameters={paging["parameter"]: str((page.number + 1) * paging["size"])})
    found = _place(paging, page, id_at)
    if not found:
        # A page that says that there are more, or is as full as a page can be, and names no other.
        is_full = by == "link" and len(page.items) >= paging["size"]
        if is_full or paging.keys() & {"more", "last"}:
            raise UnclearPage
        return None
    return NextPage(link=found) if by in ("next", "link") else NextPage(parameters={paging["parameter"]: found})


def _is_last(paging: Mapping[str, Any], page: Page) -> bool:
    for flag, going_on in (("more", True), ("last", False)):
        if flag in paging:
            told = value_at(page.document, paging[flag])
            if not isinstance(told, bool):
                raise UnclearPage
            return told is not going_on
    return paging["by"] in ("page", "offset") and len(page.items) < paging["size"]


def _place(paging: Mapping[str, Any], page: Page, id_at: str) -> str | None:
    """The place of the next page, as this one names it."""
    if paging["by"] == "link":
        found = re.search(r'<([^>]*)>\s*;[^,<]*\brel="?next"?', page.link)
        return found[1] if found else None
    if paging["by"] == "last_id":
        return text_of(value_at(page.items[-1], id_at)) if page.items else None
    return text_of(value_at(page.document, paging["at"]))
