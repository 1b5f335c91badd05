"""The interface of checks: a check reads one authoritative system and decides nothing (R-CP-13 to R-CP-16).

A check reads with a credential that can only read, against the strongest endpoint that it is given, and
says how fresh the answer is. What cannot be told is None, never "absent": a system that does not answer,
a root that is not mounted and a stream that was trimmed are not evidence that nothing happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading

__all__ = ["Check", "CheckFailed", "Consistency", "ReadEffect", "Reading", "SystemAccess"]

LOOKUP_VARIABLES = ("si", "sr", "so", "scope", "pre")
"""What lookup parameters may be made of; the authority's own answer is not among them."""


@dataclass(frozen=True)
class SystemAccess:
    """A registered system with its addresses and credential; the credential never comes from a contract.

    `tried` is the digest of the description with which a dry run has found a known object here and missed another;
    empty if none has, and of no meaning for a system that is not described as data.
    """

    name: str
    pattern: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    credential: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tried: str = ""


class CheckFailed(Exception):
    """The system gave no answer.

    Retryable: it may answer later (an outage, a lock, a file that changed while it was read). Otherwise
    looking this way can never work, and a person must find another.
    """

    def __init__(self, reason: str, *, retryable: bool, indicators: tuple[str, ...] = ()) -> None:
        self.reason = reason
        self.retryable = retryable
        self.indicators = indicators
        super().__init__(reason)


class Check(Protocol):
    """One read-back pattern."""

    @property
    def pattern(self) -> str:
        """The pattern's name in the catalogue."""

    @property
    def settings(self) -> Mapping[str, Any] | None:
        """The JSON Schema of each member of a system's settings that it reads; None if it does not declare them."""

    @property
    def required_settings(self) -> tuple[str, ...]:
        """The members without which it cannot read."""

    def typed_fields(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON Schema of `sa` for expressions, so that misspelt fields are refused."""

    def validate(self, verification: Mapping[str, Any]) -> list[str]:
        """Return the faults of a contract's verification part, as sentences; empty if it has none."""

    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the system; raise `CheckFailed` if it gives no answer. `at` is a time before the call."""
