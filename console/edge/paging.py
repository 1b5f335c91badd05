"""Cursor paging: `?limit=` and `?cursor=`; no page ever counts a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from console.edge.schemas import Page, Paged
from ledger.record.rules.refusals import Refused

R = TypeVar("R")
A = TypeVar("A")


class BadCursor(Refused):
    """The cursor is not from this list."""

    code = "BAD_CURSOR"
    status = 422


def decode_cursor(cursor: str | None) -> UUID | None:
    """The row id in a cursor: the last one of the previous page."""
    if not cursor:
        return None
    try:
        return UUID(cursor)
    except ValueError:
        raise BadCursor from None


def page_of(
    shown: Callable[[R], A], rows: Sequence[R], limit: int, *, id_of: Callable[[R], UUID] = attrgetter("id")
) -> Page[A]:
    """A page of at most `limit` rows, read with one more to determine if another follows."""
    page = rows[:limit]
    following = str(id_of(page[-1])) if len(rows) > limit else None
    return Page(items=[shown(row) for row in page], next=following)


def page_of_whole_list(shown: Callable[[Any], A], rows: Sequence[Any], wanted: Paged) -> Page[A]:
    """A page of a list that is short by its nature and is read whole."""
    after = decode_cursor(wanted.cursor)
    known = [row.id for row in rows]
    start = known.index(after) + 1 if after in known else 0 if after is None else len(rows)
    return page_of(shown, rows[start : start + wanted.limit + 1], wanted.limit)
