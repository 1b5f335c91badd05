"""Request and response schemas of runs, and of the recovery policy's decisions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Body
from ledger.record.rules.outcomes import Outcome, outcome_of

if TYPE_CHECKING:
    from console.runs.context import StepView


class SituationBody(Body):
    """The recovery table's inputs (R-RP-22); what is left out is the table's usual case."""

    triggers: Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=20)]
    side_effect_class: Literal[
        "READ_ONLY",
        "EPHEMERAL_WRITE",
        "LOW_RISK_INTERNAL",
        "MEDIUM_RISK_WRITE",
        "HIGH_RISK_EXTERNAL",
        "CRITICAL_MUTATION",
    ]
    reversibility: Literal["REVERSIBLE", "COMPENSABLE", "IRREVERSIBLE"]
    transaction_boundary: Literal[
        "LOCAL_TRANSACTION", "COMPENSABLE_PRE_PIVOT", "PIVOT_COMMITTED", "UNKNOWN_BOUNDARY"
    ] = "UNKNOWN_BOUNDARY"
    read_consistency: Literal["PRIMARY", "STRONG", "REPLICA", "CACHE", "STALE_ENDPOINT", "UNDECLARED"] | None = None
    idempotency_status: (
        Literal["PENDING", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL", "COMPENSATED", "EXPIRED"] | None
    ) = None
    execution_phase: Literal["NOT_EXECUTED", "EXECUTED", "PENDING"] = "PENDING"
    effect_domain: Literal["FINANCIAL", "SECURITY", "EXTERNAL_COMMUNICATION", "OTHER"] = "OTHER"
    within_consistency_window: bool = False
    within_sla: bool = True
    pivot_committed: bool = False
    mutating: bool = True
    externally_visible: bool = False
    equivalent_and_allowed: bool = False
    no_op_success_allowed: bool = False
    retry_safe: bool = False
    effect_committed: bool = False
    compensation_available: bool = False


class RecoveryStep(Answer):
    action_id: UUID = Field(validation_alias="id")
    relation: str
    tool: str
    state: str


class SilentStep(Answer):
    over: str
    because: str


class RunStep(Answer):
    action_id: UUID = Field(validation_alias="id")
    tool: str
    target: str
    state: str
    outcome: Outcome
    region: str
    reversed: bool
    depends_on: list[str]
    acknowledges: list[str]
    recovery: list[RecoveryStep]
    silences: list[SilentStep]

    @classmethod
    def of(cls, one: StepView, /, **more: Any) -> Self:
        return super().of(
            one.row,
            outcome=outcome_of(one.row),
            region=one.region,
            depends_on=list(one.step.depends_on),
            acknowledges=list(one.step.acknowledges),
            recovery=list(one.recovery),
            silences=list(one.silences),
            **more,
        )


class Unwinding(Answer):
    state: str
    reason: str
    since: datetime = Field(validation_alias="opened_at")


class Workflow(Answer):
    run_id: str
    complete: bool = Field(description="True if every step was done and stands, also on somebody's word.")
    verified: bool = Field(description="True if, besides, readings settled every step that was to change something.")
    unwinding: Unwinding | None
    steps: list[RunStep]


class RecoveryDecision(Answer):
    row: str
    action: str
    finding: str
    condition: str | None
    state_paths: list[list[str]]
    effects: list[str]
    table_digest: str
    held_for_a_person: bool
