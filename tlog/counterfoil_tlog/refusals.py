"""Refusals: the base of every exception with which a rule refuses what it was given.

A refusal is a fact about the request ("the payload is not the one that was approved"), never a fault of ours. Every
refusal is a subclass whose docstring is the sentence that a person reads, whose `code` is stable and upper case, and
whose `status` is the HTTP status that a server answers with. Our own mistakes stay `AssertionError` and `ValueError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class RefusalRecord:
    """A fact that is recorded although the request was refused, as plain data; each kind is a subclass."""

    at: datetime


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
        records: tuple[RefusalRecord, ...] = (),
    ) -> None:
        """Create the refusal; `records` are recorded in spite of it, by the edge after the rollback."""
        self.detail = detail or (self.__doc__ or "").strip()
        self.hint = hint
        self.errors = errors or []
        self.records = records
        super().__init__(self.detail)
