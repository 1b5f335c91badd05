"""A list, declared once: its rows on the page, its CSV with orders and saved views, and its GET route in the API.

Each asks the same query, by name: `tenant_id`, and of `by`, `at`, `order`, `after` and `limit` what it takes. A query
without `limit` reads a short list as a whole. Where page and API show different things the list has no query, and the
page reads for itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router

from console.accounts import queries as directory
from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Answer, Page, Paged
from console.edge.transaction import in_tenancy
from console.web.spreadsheets import MOST_EXPORTED
from ledger.catalogue.rules.money import to_decimal
from ledger.record.rules.refusals import Refused
from ledger.verification.queries.storage import is_uuid

if TYPE_CHECKING:
    from django.http import QueryDict

    from console.edge.http import TenantRequest

Row = TypeVar("Row")


class FilterNotValid(Refused):
    """A filter in this address is not valid, so nothing was exported."""

    code = "FILTER_NOT_VALID"
    status = 422


@dataclass(frozen=True)
class Column:
    """A column of a list: its heading, and its value in a row of the CSV; None if it is on the page alone.

    `more` are values of the CSV under headings of their own: the code behind a word, the currency of an amount.
    `sorts`: what `sort` is in the address, upwards and downwards. What is `of_payload` is exported only where chosen.
    """

    name: str
    word: str
    value: Callable[[Any], object] | None = None
    css: str = ""
    sorts: tuple[str, str] | None = None
    more: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    is_usual: bool = True
    of_payload: bool = False


def sortable(name: str, word: str, value: Callable[[Any], object], css: str = "", **more: Any) -> Column:
    """A column whose name in the address is its order as well."""
    return Column(name, word, value, css, (name, f"-{name}"), **more)


def amount_column(payload: Callable[[Any], Mapping[str, Any]]) -> Column:
    """The amount in a row's payload, in the CSV as a number and its currency."""

    def amount(row: Any) -> Decimal | None:
        return to_decimal(payload(row).get("amount"), payload(row).get("currency"))

    def currency(row: Any) -> object:
        return "" if amount(row) is None else payload(row)["currency"]

    return Column("amount", "Amount", amount, "num", more={"Currency": currency}, of_payload=True)


Told = Callable[[UUID, Sequence[Any], datetime], Callable[[Any], Answer]]


@dataclass(frozen=True, kw_only=True)
class GetRoute:
    """A list in the API: its address, the name and the words of its operation, its parameters, and its readers.

    A row is answered by its attributes; where that takes more reading, `told` reads for all rows and answers each.
    """

    path: str
    operation: str
    summary: str
    answer: type[Answer]
    readers: Collection[str]
    wanted: type[Paged] = Paged
    told: Told | None = None
    operation_id: str | None = None


@dataclass(frozen=True)
class ListPage:
    """A list: the name of its address, its columns, and, where it has filters, what of an address makes a view of it.

    `lead` is the column that is always shown where the others can be chosen: it opens what the row is about. `page` is
    the address of the page, where that shows several lists. `orders` are further ones than those of the columns.
    `place` is the part of an address that names the row behind which a page begins.

    `query` reads the rows, `rows_of` makes of them what the columns and the template show. `filters` are the query's,
    from an address; `parts` are those of each part, where the list has several, one below the other.
    """

    name: str
    fields: tuple[str, ...] = ()
    lead: str = ""
    columns: tuple[Column, ...] = ()
    roles: frozenset[str] = frozenset()
    page: str = ""
    orders: tuple[str, ...] = ()
    place: str = "after"
    query: Callable[..., Sequence[Any]] | None = None
    rows_of: Callable[[TenantRequest, Sequence[Any]], list[Any]] = lambda _, found: list(found)
    filters: Callable[[TenantRequest], Mapping[str, Any]] = lambda _: {}
    parts: tuple[Mapping[str, Any], ...] = ({},)
    get: GetRoute | None = None

    def __post_init__(self) -> None:
        if self.query is None:
            return
        given = {name for part in self.parts for name in part}
        given |= {"after"} if "limit" in self._takes else set()
        given |= {"order"} if self._orders() and "limit" in self._takes else set()
        if self.get is not None and self.get.wanted.filters is Paged.filters:
            given |= self.get.wanted.model_fields.keys() - Paged.model_fields.keys()
        if unknown := given - self._takes:
            raise TypeError(f"{self.name}: its query does not take {sorted(unknown)}.")

    @cached_property
    def _takes(self) -> frozenset[str]:
        """The names of what its query takes."""
        return frozenset(inspect.signature(self.query).parameters) if self.query else frozenset()

    @property
    def is_whole(self) -> bool:
        """True for a list that is read as a whole."""
        return "limit" not in self._takes

    def read(self, tenant_id: UUID, *, filters: Mapping[str, Any], **place: Any) -> Sequence[Any]:
        """Ask its query, with what it takes of `place`."""
        assert self.query is not None
        return self.query(tenant_id=tenant_id, **filters, **{name: place[name] for name in place.keys() & self._takes})

    def find(self, request: TenantRequest, limit: int, *, after: UUID | None = None, **filters: Any) -> Sequence[Any]:
        """Read for a page, in the order that its address asks for."""
        order = {"order": self.sort(request.GET)} if self.sort(request.GET) else {}
        by, at = request.caller.actor, request.as_of
        return self.read(request.tenant.id, by=by, at=at, filters=filters, after=after, limit=limit, **order)

    def rows(self, request: TenantRequest, limit: int = MOST_EXPORTED, **filters: Any) -> list[Any]:
        """The first rows under these filters, as the page and the CSV show them."""
        rows = self.rows_of(request, self.find(request, limit, **filters))
        return _in_column_order(self, rows, self.sort(request.GET)) if self.is_whole else rows

    def all_rows(self, request: TenantRequest) -> list[Any]:
        """The rows of the CSV: those that an address asks for, part by part."""
        filters = self.filters(request)
        return [row for part in self.parts for row in self.rows(request, **filters, **part)]

    def read_page(self, request: TenantRequest, size: int, **filters: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """Read one page under these filters or the address's, and give the context of its tools, headers and links.

        An address with a filter that is not valid finds nothing; the form of the page says why.
        """
        found: Sequence[Any] = []
        with suppress(FilterNotValid):
            filters = filters or dict(self.filters(request))
            found = self.find(request, size + 1, after=place_in(request, self.place), **filters)
        return found[:size], pager_context(request, self, found, size, place=self.place) | list_context(request, self)

    def path(self, request: TenantRequest) -> str:
        """The path of the page, also from a form that was refused there."""
        return reverse(self.page or self.name, args=[request.tenant.slug])

    def shown_columns(self, query: QueryDict) -> tuple[Column, ...]:
        """Return the columns that an address names, in the order of the list; the usual ones if it names none, or if
        the list offers no choice.
        """
        chosen = set(query.getlist("columns"))
        if self.lead and chosen & {each.name for each in self.columns}:
            return tuple(each for each in self.columns if each.name in chosen or each.name == self.lead)
        return tuple(each for each in self.columns if each.is_usual)

    def sort(self, query: QueryDict) -> str:
        """The order in an address, if the list has it."""
        asked = str(query.get("sort", ""))
        return asked if asked in self._orders() else ""

    def without_faults(self, query: QueryDict) -> QueryDict:
        """Return the address without an order that the list does not have, so that its filters still apply."""
        kept = query.copy()
        if not self.sort(query):
            kept.pop("sort", None)
        return kept

    def view_query(self, query: QueryDict) -> str:
        """The part of an address that makes a view, in one order: the same view is the same text."""
        return urlencode(sorted(self._pairs(query)))

    def address(self, query: QueryDict, **changes: str) -> str:
        """The query of another view of the list: with these changes, and without the position."""
        kept = [(name, value) for name, value in self._pairs(query) if name not in changes]
        return urlencode(kept + [(name, value) for name, value in changes.items() if value])

    def faults(self, query: QueryDict) -> list[str]:
        """The requests of an address that the list does not support, as sentences."""
        known = {each.name for each in self.columns}
        unknown = [each for each in query.getlist("columns") if each not in known]
        faults = [f"This list has no column “{each[:40]}”; the others are shown." for each in unknown[:3]]
        asked = str(query.get("sort", ""))
        if asked and asked not in self._orders():
            faults.append(f"This list has no order “{asked[:40]}”; its usual order is shown.")
        return faults

    def table(self, query: QueryDict, rows: Iterable[Any]) -> tuple[list[str], Iterator[list[object]]]:
        """Headings and rows of the CSV: the id and the columns that an address names; without any, all but payloads."""
        shown = {each.name for each in self.shown_columns(query)}
        if not self.lead or not query.getlist("columns"):
            shown = {each.name for each in self.columns if not each.of_payload}
        cells: list[tuple[str, Callable[[Any], object]]] = []
        for each in sorted(self.columns, key=lambda column: column.name != "id"):
            if each.value is not None and each.name in shown | {"id"}:
                cells += [(each.word, each.value), *each.more.items()]
        return [word for word, _ in cells], ([value(row) for _, value in cells] for row in rows)

    def _orders(self) -> set[str]:
        return {order for each in self.columns for order in each.sorts or ()}.union(self.orders)

    def _pairs(self, query: QueryDict) -> Iterator[tuple[str, str]]:
        for name, values in query.lists():
            if name == "columns":
                yield from ((name, value) for value in values if any(value == each.name for each in self.columns))
            elif (name in self.fields or name == "sort") and values[-1]:
                yield name, values[-1]


def add_lists(router: Router, module: str, *pages: ListPage) -> None:
    """The GET routes of these lists, among those of a module, which names them."""
    for page in pages:
        get = page.get
        assert get is not None
        route = _get_route(page, get)
        route.__module__, route.__name__ = module, get.operation
        wanted, answer = Query[get.wanted], Page[get.answer]  # type: ignore[misc, name-defined]
        route.__annotations__ |= {"wanted": wanted, "return": answer}
        declare = router.get(get.path, summary=get.summary, response=answer, operation_id=get.operation_id)
        declare(admits(*get.readers)(in_tenancy(route)))


def _get_route(page: ListPage, get: GetRoute) -> Callable[..., Any]:
    def route(request: HttpRequest, wanted: Paged) -> Page[Any]:
        caller, at = caller_of(request), timezone.now()
        found = page.read(
            caller.tenant_id,
            by=caller.actor,
            at=at,
            filters=wanted.filters(),
            after=paging.decode_cursor(wanted.cursor),
            limit=wanted.limit + 1,
        )
        shown = get.answer.of if get.told is None else get.told(caller.tenant_id, found, at)
        if page.is_whole:
            return paging.page_of_whole_list(shown, found, wanted)
        return paging.page_of(shown, found, wanted.limit)

    return route


def _in_column_order(page: ListPage, rows: Iterable[Row], sort: str) -> list[Row]:
    """All rows of a small list in the order of a column, what has nothing in it last."""
    column = next((each for each in page.columns if each.sorts and sort and sort in each.sorts), None)
    if column is None or column.value is None or column.sorts is None:
        return list(rows)
    keyed = [(column.value(row), row) for row in rows]
    named = [(key.casefold() if isinstance(key, str) else key, row) for key, row in keyed if key not in (None, "")]
    named.sort(key=lambda each: each[0], reverse=sort == column.sorts[1])  # type: ignore[arg-type, return-value]
    return [row for _, row in named] + [row for key, row in keyed if key in (None, "")]


def list_context(request: TenantRequest, page: ListPage, *, sort: str | None = None) -> dict[str, Any]:
    """The data for a list's tools and headers; `sort` is its order if the address does not name one."""
    sort = page.sort(request.GET) if sort is None else sort
    query, shown = page.view_query(request.GET), page.shown_columns(request.GET)
    headers = [_header(request, page, each, sort) for each in shown]
    return {
        "export": export_address(request, page),
        "faults": page.faults(request.GET),
        "headers": headers,
        "shown": {each.name for each in shown},
        "sorted_by": _order_words(page, sort),
        "has_chosen": bool(request.GET.getlist("columns")),
        **_pager_words(sort),
        **(_view_context(request, page, query, shown) if page.fields else {}),
    }


def export_address(request: TenantRequest, page: ListPage) -> str:
    """The address of the CSV of the shown rows."""
    return _address_from(reverse("list-export", args=[request.tenant.slug, page.name]), request.GET)


def place_in(request: TenantRequest, name: str = "after") -> UUID | None:
    """The row after which a page begins; None for an invalid id."""
    asked = str(request.GET.get(name, ""))
    return UUID(asked) if is_uuid(asked) else None


def pager_context(
    request: TenantRequest, page: ListPage, found: Sequence[Any], size: int, *, place: str = "after"
) -> dict[str, str]:
    """The links to the next page, of a list that was read for one row more than a page has, and to the first."""
    after = {place: str(found[size - 1].id)} if len(found) > size else {}
    return {
        "older": _address_from(page.path(request), request.GET, **after) if after else "",
        "newest": _address_from(page.path(request), request.GET) if request.GET.get(place) else "",
    }


def _address_from(path: str, query: QueryDict, **place: str) -> str:
    pairs = [(name, value) for name, values in query.lists() for value in values if value]
    kept = urlencode([each for each in pairs if each[0] not in ("after", "before")] + list(place.items()))
    return f"{path}?{kept}" if kept else path


def _view_context(request: TenantRequest, page: ListPage, query: str, shown: Sequence[Column]) -> dict[str, Any]:
    return {
        "query": query,
        "views": _saved_views(request, page, query),
        "save_view": reverse("view-save", args=[request.tenant.slug, page.name]),
        "columns": [
            {"name": each.name, "word": each.word, "shown": each in shown, "lead": each.name == page.lead}
            for each in page.columns
        ]
        if page.lead
        else [],
        "beside_columns": [each for each in page._pairs(request.GET) if each[0] != "columns"],
    }


def _pager_words(sort: str) -> dict[str, str]:
    """Return the texts of the links to other pages in an order that is not the usual one."""
    if not sort:
        return {}
    if sort == "oldest":
        return {"next_word": "Newer", "first_word": "Back to the oldest"}
    return {"next_word": "Next", "first_word": "Back to the first"}


def _order_words(page: ListPage, sort: str) -> str:
    """The order of a column in words; empty for the default."""
    for each in page.columns:
        if sort and each.sorts is not None and sort in each.sorts:
            return f"by {each.word.lower()}, {'ascending' if sort == each.sorts[0] else 'descending'}"
    return ""


def _header(request: TenantRequest, page: ListPage, column: Column, sort: str) -> dict[str, str]:
    found = {"word": column.word, "css": column.css, "href": "", "sorted": ""}
    if column.sorts is not None:
        up, down = column.sorts
        found["sorted"] = {up: "ascending", down: "descending"}.get(sort, "")
        if sort != up or up != down:
            found["href"] = f"{page.path(request)}?{page.address(request.GET, sort=down if sort == up else up)}"
    return found


def _saved_views(request: TenantRequest, page: ListPage, query: str) -> list[dict[str, Any]]:
    found = directory.saved_views(request.tenant.id, page.name, of=request.caller.actor.id)
    called = directory.names_of(request.tenant.id) if found else {}
    slug, mine = request.tenant.slug, request.caller.actor.id
    here = page.path(request)
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
