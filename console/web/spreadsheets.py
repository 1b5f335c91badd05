"""Lists as CSV files, for use in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from django.http import HttpResponse

MOST_EXPORTED: Final = 5000
"""So many rows a list gives at once; an export of the record gives all."""


def csv_answer(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """A table to be saved under a name."""
    text = io.StringIO()
    written = csv.writer(text)
    written.writerow(columns)
    for row in rows:
        written.writerow([spreadsheet_cell(each) for each in row])
    answer = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def spreadsheet_cell(value: object) -> str:
    """Return a cell that no spreadsheet interprets as a formula; a time in ISO 8601 and UTC, several values in one
    line.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
