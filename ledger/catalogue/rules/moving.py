"""The state of a tenant's move from one installation to another, one word of the directory (docs/moving-a-tenant.md).

At the source: `freezing` (nothing is written but the log, whose queue is emptied), `frozen`, `moved`. At the
destination: `imported`, `verified`. Where nothing is under way, and where it has ended at the destination, the word is
empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.record.rules.refusals import Refused, TenantMoved, TenantMoving

HERE: Final = ""
FREEZING: Final = "freezing"
FROZEN: Final = "frozen"
MOVED: Final = "moved"
IMPORTED: Final = "imported"
VERIFIED: Final = "verified"
LOG_GROWS: Final = (HERE, FREEZING)
"""The states in which the sequencer works on the tenant's log."""


def has_come(move: Mapping[str, Any] | None) -> bool:
    """Return whether a tenant has come from another installation, by what the directory knows of its move."""
    return "copy" in (move or {})


def refusal_while_moving(moving: str, move: Mapping[str, Any] | None) -> Refused | None:
    """Return why a tenant answers no request here, or None: it is on its way, or at another address."""
    if moving == HERE:
        return None
    return TenantMoved(str((move or {}).get("address", ""))) if moving == MOVED else TenantMoving()


def check_here(moving: str, move: Mapping[str, Any] | None) -> None:
    """Refuse a request to a tenant that is on its way, or at another address."""
    refusal = refusal_while_moving(moving, move)
    if refusal is not None:
        raise refusal
