"""Cursor paging: `?limit=` and `?cursor=`; no page ever counts a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.http import HttpResponse

from console.api.schemas import Paged
from console.api.transaction import json_response
from ledger.record.rules.refusals import Refused


class BadCursor(Refused):
    """The cursor is not one that this list gave out."""

    code = "BAD_CURSOR"
    status = 422


def decode_cursor(cursor: str | None) -> UUID | None:
    """The id of the row that a cursor stands for: the last one of the page before."""
    if not cursor:
        return None
    try:
        return UUID(cursor)
    except ValueError:
        raise BadCursor from None


def page_response(
    rows: Sequence[Any],
    limit: int,
    shown: Callable[[Any], dict[str, Any]],
    *,
    id_of: Callable[[Any], UUID] = attrgetter("id"),
    beside: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """A page of at most `limit` rows, read with one more to know whether another follows; `beside` is told with it."""
    page = rows[:limit]
    following = str(id_of(page[-1])) if len(rows) > limit else None
    return json_response({"items": [shown(row) for row in page], "next": following, **(beside or {})})


def whole_list_response(rows: Sequence[Any], wanted: Paged, shown: Callable[[Any], dict[str, Any]]) -> HttpResponse:
    """A page of a list that is short by its nature and is read whole."""
    after = decode_cursor(wanted.cursor)
    known = [row.id for row in rows]
    start = known.index(after) + 1 if after in known else 0 if after is None else len(rows)
    return page_response(rows[start : start + wanted.limit + 1], wanted.limit, shown)
