"""Cursor paging: `?limit=` and `?cursor=`; no page ever counts a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpResponse

from console.api.edge import answer
from ledger.rules.refusals import Refused


class BadCursor(Refused):
    """The cursor is not one that this list gave out."""

    code = "BAD_CURSOR"
    status = 422


def before(cursor: str | None) -> UUID | None:
    """The id that a cursor stands for."""
    if not cursor:
        return None
    try:
        return UUID(cursor)
    except ValueError:
        raise BadCursor from None


def listed(rows: Sequence[Any], limit: int, shown: Callable[[Any], dict[str, Any]]) -> HttpResponse:
    """A page of at most `limit` rows, read with one more to know whether another page follows."""
    page = rows[:limit]
    following = str(page[-1].id) if len(rows) > limit else None
    return answer({"items": [shown(row) for row in page], "next": following})
