"""Incidents: severity, and what closing one requires (C-18, R-RB-09, R-RB-10, R-RP-43).

1. "Freeze and alert" opens an operations incident, "freeze and alarm" a security incident.
2. Severity follows the side-effect class of what went wrong; a security incident is never below HIGH.
3. An incident that holds a freeze closes only with a decision about each: lifted, or kept knowingly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from uuid import UUID

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules.refusals import Refused


class Severity(IntEnum):
    """The severity of an incident."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class IncidentKind(StrEnum):
    """The kind of an incident, which decides who must act: operations or security."""

    OPERATIONS = "operations"
    SECURITY = "security"


class FreezeDecision(StrEnum):
    """The decision about a freeze when its incident is closed."""

    LIFT = "lift"
    KEEP = "keep"


class FreezeUndecided(Refused):
    """This incident holds a freeze; say of each whether it is lifted or kept."""

    code = "FREEZE_UNDECIDED"
    status = 400


_BY_CLASS = {
    SideEffectClass.CRITICAL_MUTATION: Severity.CRITICAL,
    SideEffectClass.HIGH_RISK_EXTERNAL: Severity.HIGH,
    SideEffectClass.MEDIUM_RISK_WRITE: Severity.MEDIUM,
}


def severity_of(kind: IncidentKind, side_effect_class: SideEffectClass) -> Severity:
    """The severity of an incident about an action of this class (rule 2)."""
    by_class = _BY_CLASS.get(side_effect_class, Severity.LOW)
    return max(by_class, Severity.HIGH) if kind is IncidentKind.SECURITY else by_class


def check_freeze_decisions(
    held: Iterable[UUID], decisions: Mapping[UUID, FreezeDecision]
) -> dict[UUID, FreezeDecision]:
    """The decision about every freeze that is held; refuses when one is missing (rule 3, R-RB-10)."""
    freezes = list(held)
    if any(freeze not in decisions for freeze in freezes):
        raise FreezeUndecided
    return {freeze: decisions[freeze] for freeze in freezes}
