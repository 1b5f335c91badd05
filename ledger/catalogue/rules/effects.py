"""Side-effect classes, reversibility, boundaries and effect domains of tools (R-TC-02, R-TC-03).

The defaults apply to what a contract leaves out: the worse the class, the less can be undone, and the longer an effect
may take to show.
"""

from __future__ import annotations

from enum import StrEnum


class SideEffectClass(StrEnum):
    """The harm that a tool can do, from none to irreversible (R-TC-02)."""

    READ_ONLY = "READ_ONLY"
    EPHEMERAL_WRITE = "EPHEMERAL_WRITE"
    LOW_RISK_INTERNAL = "LOW_RISK_INTERNAL"
    MEDIUM_RISK_WRITE = "MEDIUM_RISK_WRITE"
    HIGH_RISK_EXTERNAL = "HIGH_RISK_EXTERNAL"
    CRITICAL_MUTATION = "CRITICAL_MUTATION"

    @property
    def rank(self) -> int:
        """0 for READ_ONLY up to 5 for CRITICAL_MUTATION."""
        return list(SideEffectClass).index(self)


class Reversibility(StrEnum):
    """The way in which an effect can be undone, if any."""

    REVERSIBLE = "REVERSIBLE"
    COMPENSABLE = "COMPENSABLE"
    IRREVERSIBLE = "IRREVERSIBLE"


class Boundary(StrEnum):
    """The end of the tool's transaction. EXTERNAL means in another organisation's system."""

    LOCAL_TRANSACTION = "LOCAL_TRANSACTION"
    COMPENSABLE_PRE_PIVOT = "COMPENSABLE_PRE_PIVOT"
    PIVOT_COMMITTED = "PIVOT_COMMITTED"
    UNKNOWN_BOUNDARY = "UNKNOWN_BOUNDARY"
    EXTERNAL = "EXTERNAL"


class EffectDomain(StrEnum):
    """The domain that a wrong effect would harm."""

    FINANCIAL = "FINANCIAL"
    SECURITY = "SECURITY"
    EXTERNAL_COMMUNICATION = "EXTERNAL_COMMUNICATION"
    OTHER = "OTHER"


_C = SideEffectClass
UPPER_CLASSES = frozenset({_C.HIGH_RISK_EXTERNAL, _C.CRITICAL_MUTATION})
DEFAULT_REVERSIBILITY = {
    _C.READ_ONLY: Reversibility.REVERSIBLE,
    _C.EPHEMERAL_WRITE: Reversibility.REVERSIBLE,
    _C.LOW_RISK_INTERNAL: Reversibility.COMPENSABLE,
    _C.MEDIUM_RISK_WRITE: Reversibility.COMPENSABLE,
    _C.HIGH_RISK_EXTERNAL: Reversibility.IRREVERSIBLE,
    _C.CRITICAL_MUTATION: Reversibility.IRREVERSIBLE,
}
DEFAULT_SLA_S = {
    _C.READ_ONLY: 10,
    _C.EPHEMERAL_WRITE: 10,
    _C.LOW_RISK_INTERNAL: 60,
    _C.MEDIUM_RISK_WRITE: 300,
    _C.HIGH_RISK_EXTERNAL: 3600,
    _C.CRITICAL_MUTATION: 3600,
}
