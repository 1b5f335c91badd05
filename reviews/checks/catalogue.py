"""The catalogue of checks, by pattern.

Ours come first and cannot be replaced; an installation may describe others (`reviews.systems`), and a package may add
others (`reviews.checks.plugins`).
"""

from __future__ import annotations

from ledger.record.rules.refusals import Refused
from reviews.checks.access import AccessCheck
from reviews.checks.browser import BrowserCheck
from reviews.checks.calendar import CalendarCheck
from reviews.checks.databases import DatabaseCheck
from reviews.checks.deployments import DeploymentCheck
from reviews.checks.described import DescribedCheck
from reviews.checks.development.database_changes import DatabaseChangeCheck
from reviews.checks.development.forge import ForgeCheck
from reviews.checks.development.git import GitCheck
from reviews.checks.development.kubernetes import KubernetesCheck
from reviews.checks.development.npm import NpmCheck
from reviews.checks.development.packages import PackageCheck
from reviews.checks.development.terraform import TerraformCheck
from reviews.checks.email import EmailCheck
from reviews.checks.filesystems import FilesystemCheck
from reviews.checks.interface import Check
from reviews.checks.payments import PaymentCheck
from reviews.checks.plugins import load_plugin
from reviews.checks.plugins import plugin_patterns as plugged_names
from reviews.checks.procurement import ProcurementCheck
from reviews.checks.queues import QueueCheck
from reviews.checks.tickets import TicketCheck
from reviews.checks.vector import VectorSearchCheck
from reviews.systems.descriptions import own_description, own_names, shipped_descriptions
from reviews.systems.rules.description import Description

_CHECKS: dict[str, Check] = {
    "browser_automation": BrowserCheck(),
    "calendar": CalendarCheck(),
    "crm_ticketing": TicketCheck(),
    "database_changes": DatabaseChangeCheck(),
    "databases": DatabaseCheck(),
    "deployments": DeploymentCheck(),
    "email": EmailCheck(),
    "filesystems": FilesystemCheck(),
    "forge": ForgeCheck(),
    "git": GitCheck(),
    "kubernetes": KubernetesCheck(),
    "npm": NpmCheck(),
    "packages": PackageCheck(),
    "payments": PaymentCheck(),
    "procurement": ProcurementCheck(),
    "queues_events": QueueCheck(),
    "security_infrastructure": AccessCheck(),
    "terraform": TerraformCheck(),
    "vector_search": VectorSearchCheck(),
    **{name: DescribedCheck(description) for name, description in shipped_descriptions().items()},
}
_SHORT = {"access": "security_infrastructure", "browser": "browser_automation", "queues": "queues_events"}

PATTERNS: tuple[str, ...] = tuple(_CHECKS)
"""The patterns that every installation can read back."""


class NoCheck(Refused):
    """This installation cannot read that pattern back."""

    code = "NO_CHECK"
    status = 422


def check_for(pattern: str) -> Check:
    """Return the check of a pattern, by its name or its short name; raise `NoCheck` if there is none."""
    name = _SHORT.get(pattern, pattern)
    found = _CHECKS.get(name) or _own_check(name) or load_plugin(name)
    if found is None:
        raise NoCheck(f"Nothing here reads `{pattern}` back (known: {', '.join(pattern_names())}).")
    return found


def pattern_names() -> list[str]:
    """Every pattern that this installation can read back, those of installed packages among them."""
    return list(dict.fromkeys([*PATTERNS, *own_names(), *plugged_names()]))


def described_system(pattern: str) -> Description | None:
    """The description by which a pattern is read; None if it is read by code."""
    found = _CHECKS.get(pattern) or _own_check(pattern)
    return found.description if isinstance(found, DescribedCheck) else None


def _own_check(name: str) -> DescribedCheck | None:
    """The check of a system that this installation describes."""
    description = own_description(name)
    return None if description is None else DescribedCheck(description)
