"""A whole table as one test: thousands of rows that take no time each cost more as tests of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any


def every_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, for one test that goes through all rows and names the first that is wrong.

    Every row gets the same fixtures, so it must leave them as they were.
    """
    known = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(known, row if len(known) > 1 else (row,), strict=True)) for row in rows]
    assert table

    def around(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def whole(**fixtures: Any) -> None:
            for row in table:
                try:
                    test(**fixtures, **row)
                except BaseException as fault:
                    fault.add_note(f"In the row {row!r:.500}")
                    raise

        asked = inspect.signature(test)
        rest = [asked.parameters[name] for name in asked.parameters if name not in known]
        whole.__signature__ = asked.replace(parameters=rest)  # type: ignore[attr-defined]
        return whole

    return around
