"""The catalogue of checks: which one reads which pattern back.

Ours come first and cannot be replaced; a package may add others (`reviews.checks.plugins`).
"""

from __future__ import annotations

from ledger.record.rules.refusals import Refused
from reviews.checks.access import Access
from reviews.checks.browser import Browser
from reviews.checks.calendar import Calendar
from reviews.checks.databases import Databases
from reviews.checks.deployments import Deployments
from reviews.checks.email import Email
from reviews.checks.filesystems import Filesystems
from reviews.checks.interface import Check
from reviews.checks.payments import Payments
from reviews.checks.plugins import names as plugged_names
from reviews.checks.plugins import plugged
from reviews.checks.procurement import Procurement
from reviews.checks.queues import Queues
from reviews.checks.tickets import Tickets
from reviews.checks.vector import Vector

_CHECKS: dict[str, Check] = {
    "browser_automation": Browser(),
    "calendar": Calendar(),
    "crm_ticketing": Tickets(),
    "databases": Databases(),
    "deployments": Deployments(),
    "email": Email(),
    "filesystems": Filesystems(),
    "payments": Payments(),
    "procurement": Procurement(),
    "queues_events": Queues(),
    "security_infrastructure": Access(),
    "vector_search": Vector(),
}
_SHORT = {"access": "security_infrastructure", "browser": "browser_automation", "queues": "queues_events"}

PATTERNS: tuple[str, ...] = tuple(_CHECKS)
"""The patterns that every installation can read back."""


class NoCheck(Refused):
    """This installation cannot read that pattern back."""

    code = "NO_CHECK"
    status = 422


def check_for(pattern: str) -> Check:
    """The check of a pattern, by its name or its short name; `NoCheck` when there is none."""
    name = _SHORT.get(pattern, pattern)
    found = _CHECKS.get(name) or plugged(name)
    if found is None:
        known = dict.fromkeys([*PATTERNS, *plugged_names()])
        raise NoCheck(f"Nothing here reads `{pattern}` back (known: {', '.join(known)}).")
    return found
