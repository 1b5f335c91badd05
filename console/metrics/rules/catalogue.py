"""The twenty-five metrics as data: numerator, denominator, meaning, and healthy bound.

1. A share is its numerator divided by its denominator, both sums of counts (`facts.COUNTS`) over the same hours and the
   same filters. Nothing divided by nothing is None: there is no such number, and it is no zero (R-MT-04, C-49).
2. A share counts actions, each once, however many events it has; only M-12 counts repeats, and M-20 to M-25 calls.
3. `executed` are mutating actions that were started. A read has no effect that could be verified, so it is in none of
   M-01 to M-17; M-18 is over all actions.
4. A delay is told as count, mean, median and 95th percentile (`delays`).
5. M-19 compares two versions of the verification policy; `regression` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    """The way in which a metric's value is computed."""

    SHARE = "share"
    COUNT = "count"
    DELAY = "delay"
    DIFFERENCE = "difference"


class MetricGroup(StrEnum):
    """The part of an action's path that a metric is about; pages show them in this order."""

    OUTCOME = "Outcomes"
    VERIFICATION = "Verification"
    RECOVERY = "Recovery"
    TRUST = "What people were told and asked"
    GATE = "Calls at the gate"


@dataclass(frozen=True)
class Metric:
    """One metric. `part` and `whole` name counts; for a delay `part` names what it measures.

    `high_is_bad` says which direction deserves a look; None where neither does. `limit` is the healthy bound.
    """

    id: str
    name: str
    words: str
    part: str
    whole: str
    detects: str
    formula: str
    group: MetricGroup
    kind: MetricKind = MetricKind.SHARE
    high_is_bad: bool | None = True
    limit: float | None = None


_G, _K = MetricGroup, MetricKind
# Two or three lines for a metric, so that it reads as a table.
# fmt: off
METRICS: Final = (
    Metric("M-01", "verification_success_rate", "Verified", "verified_success", "executed",
        "share of executed actions that a reading of the system of record proved and that still hold",
        "verified successes / executed actions", _G.OUTCOME, high_is_bad=False),
    Metric("M-02", "verification_failure_rate", "Disproved by a reading", "verification_failed", "executed",
        "how often the system of record disagrees",
        "actions that a reading brought to RECONCILIATION_FAILED, or that stand contradicted / executed actions",
        _G.OUTCOME),
    Metric("M-03", "verification_latency", "From the tool's answer to the first decisive reading", "verification",
        "", "slow reads, provider lag, polling delay",
        "time of the first decisive reading - time of the tool's answer, or of its lease's end",
        _G.VERIFICATION, kind=_K.DELAY),
    Metric("M-04", "time_to_reconcile", "From start to settled", "reconcile", "",
        "end-to-end delay until the truth is known",
        "time at which it came to its end - time of its first start", _G.VERIFICATION, kind=_K.DELAY),
    Metric("M-05", "read_after_write_failure_rate", "Read too early or from a copy", "stale_reads", "executed",
        "reads that hit a cache or a lagging replica",
        "actions that a weak reading did not show and a later reading did / executed actions", _G.VERIFICATION),
    Metric("M-06", "discrepancy_rate", "Differences found", "mismatched", "read_back",
        "goal and system of record disagree",
        "actions read back with a discrepancy, or contradicted later / actions read back", _G.OUTCOME),
    Metric("M-07", "stale_state_rate", "Changed by somebody else first", "stale_state", "executed",
        "somebody else changed the target first", "actions with STALE_STATE / executed actions", _G.OUTCOME),
    Metric("M-08", "partial_failure_rate", "Applied in part", "partial", "executed",
        "fragility of distributed steps", "actions that were PARTIALLY_COMMITTED / executed actions", _G.OUTCOME),
    Metric("M-09", "pending_too_long_rate", "Not settled in time", "pending_over_sla", "pending",
        "stuck asynchronous work",
        "actions that no reading settled in their contract's time / actions that were PENDING or ACCEPTED",
        _G.VERIFICATION),
    Metric("M-10", "unknown_state_rate", "Unknown", "unknown", "executed",
        "blind spots of verification", "actions that were UNKNOWN / executed actions", _G.OUTCOME),
    Metric("M-11", "duplicate_action_rate", "Happened more than once", "duplicated", "executed",
        "idempotency failure, unsafe retries", "actions with DUPLICATE_SIDE_EFFECT / executed actions", _G.RECOVERY),
    Metric("M-12", "idempotency_recovery_rate", "Repeats without a second effect", "repeats_absorbed", "repeats",
        "how well repeats are absorbed",
        "repeats that had no second effect / (further starts of an action + calls refused as DUPLICATE_BLOCKED)",
        _G.RECOVERY, high_is_bad=False),
    Metric("M-13", "compensation_rate", "Compensation begun", "compensations", "executed",
        "how often recovery reverses", "actions that were COMPENSATING / executed actions", _G.RECOVERY),
    Metric("M-14", "compensation_success_rate", "Compensation verified", "compensated", "compensations",
        "reliability of reversing", "actions COMPENSATED by a reading / actions that were COMPENSATING",
        _G.RECOVERY, high_is_bad=False),
    Metric("M-15", "failed_compensation_rate", "Compensation failed", "compensations_failed", "compensations",
        "manual work and incident risk", "actions that were COMPENSATION_FAILED / actions that were COMPENSATING",
        _G.RECOVERY),
    Metric("M-16", "false_success_escape_rate", "False success reported", "false_success", "executed",
        "a bypass reached the user or the planner",
        "actions reported as completed while they were not RECONCILED_SUCCESS, or filed as such by an operator"
        " / executed actions", _G.TRUST),
    Metric("M-17", "human_escalation_rate", "Needed a person", "reviewed", "executed",
        "review load", "executed actions that were REVIEW_REQUIRED / executed actions", _G.TRUST),
    Metric("M-18", "action_ledger_completeness", "Complete in the ledger", "complete_records", "actions",
        "audit and replay coverage",
        "actions whose events have no gap, continue each other's hash and each commit to an entry / actions",
        _G.TRUST, high_is_bad=False, limit=1.0),
    Metric("M-19", "verifier_regression_rate", "Change with the newest verification policy", "verification_failed",
        "executed", "a bad release of the verification policy",
        "the larger rise of M-02 and M-06 from one version of the verification policy to the next",
        _G.VERIFICATION, kind=_K.DIFFERENCE),
    Metric("M-20", "gate_acceptance_rate", "Accepted", "calls_accepted", "calls",
        "drift of an agent", "accepted calls / calls", _G.GATE, high_is_bad=False),
    Metric("M-21", "attempted_undisclosed_calls", "Tried tools that it was not given", "calls_undisclosed", "",
        "probing or hallucinating agent", "refused calls of a tool that the session was not shown", _G.GATE,
        kind=_K.COUNT),
    Metric("M-22", "valid_call_rate", "Valid", "calls_valid", "calls",
        "calls that exist, validate and execute", "accepted calls whose tool did not fail / calls", _G.GATE,
        high_is_bad=False),
    Metric("M-23", "valid_call_execution_failure_rate", "Accepted, then the tool failed", "calls_failed", "calls",
        "handler errors", "accepted calls whose tool failed / calls", _G.GATE),
    Metric("M-24", "argument_hallucination_rate", "Wrong arguments", "calls_arguments", "calls",
        "invalid arguments to real tools", "calls of a real tool with wrong arguments / calls", _G.GATE),
    Metric("M-25", "phantom_tool_rate", "Tool does not exist", "calls_phantom", "calls",
        "invented tools", "calls of a tool that exists nowhere / calls; healthy below 0.02", _G.GATE, limit=0.02),
)
# fmt: on
BY_ID: Final[Mapping[str, Metric]] = {each.id: each for each in METRICS}


def value_of(metric: Metric, counts: Mapping[str, int]) -> float | None:
    """The value of a share or a count (rule 1); None for a share without cases, and for other kinds."""
    if metric.kind is MetricKind.COUNT:
        return float(counts.get(metric.part, 0))
    if metric.kind is not MetricKind.SHARE or not counts.get(metric.whole):
        return None
    return counts.get(metric.part, 0) / counts[metric.whole]


def is_healthy(metric: Metric, value: float | None) -> bool | None:
    """Return whether a value is within the metric's bound; None without a bound or a value."""
    if metric.limit is None or value is None:
        return None
    return value < metric.limit if metric.high_is_bad else value >= metric.limit
