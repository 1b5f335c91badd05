"""What lists share: which part of an address is a view, which columns are shown, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from console.accounts import queries as directory

if TYPE_CHECKING:
    from django.http import QueryDict

    from console.web.http import TenantRequest


@dataclass(frozen=True)
class Column:
    """A column that a list can show. `sorts`: what `sort` is in the address, upwards and downwards; empty for none.

    `exports` are the columns of the CSV that say the same.
    """

    name: str
    word: str
    css: str = ""
    sorts: tuple[str, str] | None = None
    exports: tuple[str, ...] = ()
    is_usual: bool = True


@dataclass(frozen=True)
class ListPage:
    """A list with saved views: the name of its address, and what of an address makes a view of it.

    `lead` is the column that is always shown: it opens what the row is about.
    """

    name: str
    fields: tuple[str, ...]
    lead: str = ""
    columns: tuple[Column, ...] = ()
    roles: frozenset[str] = frozenset()

    def shown_columns(self, query: QueryDict) -> tuple[Column, ...]:
        """The columns that an address names, in the order of the list; the usual ones where it names none."""
        chosen = set(query.getlist("columns"))
        if not chosen & {each.name for each in self.columns}:
            return tuple(each for each in self.columns if each.is_usual)
        return tuple(each for each in self.columns if each.name in chosen or each.name == self.lead)

    def view_query(self, query: QueryDict) -> str:
        """What of an address makes a view, in one order: the same view is the same text."""
        return urlencode(sorted(self._pairs(query)))

    def address(self, query: QueryDict, **changes: str) -> str:
        """The query of another view of the list: the same, but for these; without its place in the pages."""
        kept = [(name, value) for name, value in self._pairs(query) if name not in changes]
        return urlencode(kept + [(name, value) for name, value in changes.items() if value])

    def _pairs(self, query: QueryDict) -> Iterator[tuple[str, str]]:
        for name, values in query.lists():
            if name == "columns":
                yield from ((name, value) for value in values if any(value == each.name for each in self.columns))
            elif (name in self.fields or name == "sort") and values[-1]:
                yield name, values[-1]


def list_context(request: TenantRequest, page: ListPage, *, sort: str = "") -> dict[str, Any]:
    """What the templates of views, columns and headers show of a list in this order."""
    query, shown = page.view_query(request.GET), page.shown_columns(request.GET)
    return {
        "query": query,
        "views": _saved_views(request, page, query),
        "save_view": reverse("view-save", args=[request.tenant.slug, page.name]),
        "columns": [
            {"name": each.name, "word": each.word, "shown": each in shown, "lead": each.name == page.lead}
            for each in page.columns
        ],
        "shown": {each.name for each in shown},
        "headers": [_header(request, page, each, sort) for each in shown],
        "has_chosen": bool(request.GET.getlist("columns")),
        **_pager_words(sort),
        "beside_columns": [each for each in page._pairs(request.GET) if each[0] != "columns"],
    }


def _pager_words(sort: str) -> dict[str, str]:
    """What the links to other pages say in an order that is not the usual one."""
    if not sort:
        return {}
    if sort == "oldest":
        return {"next_word": "Newer", "first_word": "Back to the oldest"}
    return {"next_word": "Next", "first_word": "Back to the first"}


def _header(request: TenantRequest, page: ListPage, column: Column, sort: str) -> dict[str, str]:
    found = {"word": column.word, "css": column.css, "href": "", "sorted": ""}
    if column.sorts is not None:
        up, down = column.sorts
        found["sorted"] = {up: "ascending", down: "descending"}.get(sort, "")
        if sort != up or up != down:
            found["href"] = f"{request.path}?{page.address(request.GET, sort=down if sort == up else up)}"
    return found


def _saved_views(request: TenantRequest, page: ListPage, query: str) -> list[dict[str, Any]]:
    found = directory.saved_views(request.tenant.id, page.name, of=request.caller.actor.id)
    called = directory.names_of(request.tenant.id) if found else {}
    here, slug, mine = reverse(page.name, args=[request.tenant.slug]), request.tenant.slug, request.caller.actor.id
    return [
        {
            "name": each.name,
            "href": f"{here}?{each.query}" if each.query else here,
            "current": each.query == query,
            "by": "" if each.owner == mine else called.get(each.owner, "somebody"),
            "shared": each.shared,
            "remove": reverse("view-remove", args=[slug, page.name, each.id]) if each.owner == mine else "",
        }
        for each in found
    ]


def narrow_table(
    page: ListPage, query: QueryDict, headers: Sequence[str], rows: Iterable[Sequence[object]]
) -> tuple[list[str], Iterator[list[object]]]:
    """A table for a spreadsheet with the columns that an address names, behind the first; all where it names none."""
    wanted = {name for each in page.shown_columns(query) for name in each.exports}
    if not query.getlist("columns"):
        wanted = set(headers)
    places = [place for place, name in enumerate(headers) if place == 0 or name in wanted]
    return [headers[place] for place in places], ([row[place] for place in places] for row in rows)
