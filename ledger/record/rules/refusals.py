"""Refusals: the ways in which the rules say no.

A refusal is a fact about the request ("the payload is not the one that was approved"), never a fault of ours.
Every refusal is a subclass whose docstring is the sentence that a person reads, whose `code` is stable and upper
case, and whose `status` is the HTTP status that the console answers with (api.md, common rules). Our own mistakes
stay `AssertionError` and `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Refused(Exception):
    """The rules do not allow this."""

    code: ClassVar[str] = "REFUSED"
    status: ClassVar[int] = 409

    def __init__(
        self,
        detail: str | None = None,
        *,
        hint: str | None = None,
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        self.hint = hint
        self.errors = errors or []
        self.afterwards: Callable[[], None] | None = None
        """What goes on record all the same: the edge calls it after the rollback, in a transaction of its own."""
        super().__init__(self.detail)
