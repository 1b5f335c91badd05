"""The contents of each hand-off: one class of rows and one version each, from which its JSON Schema is made.

A version promises its shape: a changed class needs a new version, and a test holds it. No row holds an argument, an
answer or a person's name.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar, Union
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Time
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import Outcome
from reviews.reconciliation.rules.discrepancies import Discrepancy

R = TypeVar("R")
Share = Annotated[float | None, Field(description="Null if there are no cases.")]


class Handoff(Answer, Generic[R]):
    tenant: str
    made_at: Time
    since: Time = Field(alias="from")
    until: Time = Field(alias="to")
    counted_to: Time | None = Field(description="Everything recorded up to this time is counted; null if nothing is.")
    cut: bool = Field(description="Whether older rows were left out.")
    details: list[str] = Field(description="API calls with more details of a row.")
    rows: list[R]


class ContractRow(Answer):
    tool: str
    version: str
    digest: str
    side_effect_class: str = Field(alias="class")
    reversibility: str
    verification: str | None = Field(description="The pattern of its check; null if it cannot be read back.")
    system: str | None
    further_systems: list[str]
    predicates: int
    read_first_after_s: int | None
    read_until_s: int | None = Field(description="Time without a result after which it is VERIFICATION_TIMEOUT.")
    missing_checks: list[str] = Field(description="Checks required by its class that the contract does not make.")
    idempotent: bool = Field(description="Whether a call may be repeated unchanged under its key.")
    lint: list[str] = Field(description="Codes of the linter's findings.")
    executed: int
    read_back: int
    readings: int
    mismatched: int
    stale_reads: int
    unknown: int
    read_back_share: Share
    mismatch_share: Share


class PathologyRow(Answer):
    tool: str
    side_effect_class: str = Field(alias="class")
    executed: int
    failed_verification: int
    failure_share: Share
    mismatched: int
    unknown: int
    partial: int
    stale_state: int
    pending: int
    pending_over_sla: int = Field(description="Not settled by a reading within their contract's time.")
    unsettled: int = Field(description="Executed in the period and not settled now.")
    compensations_failed: int
    false_success: int = Field(description="Escapes: reported as done when they were not.")
    discrepancies: dict[Discrepancy, int] = Field(
        description="Distinct actions read in the period, by discrepancy class."
    )


class PermissionRow(Answer):
    kind: Literal["wrong_target", "refused_call", "ungated_effect"]
    tenant: str
    at: Time
    agent: str | None
    tool: str | None
    code: str = Field(description="Discrepancy class, or the gate's code.")
    action_id: UUID | None
    session_id: UUID | None
    case_id: UUID | None


class DependencyRow(Answer):
    system: str
    pattern: str
    circuit: Literal["CLOSED", "OPEN", "HALF_OPEN"]
    since: Time | None
    reads: int = Field(description="Ever.")
    unanswered: int = Field(description="Ever.")
    unanswered_share: Share
    failures: int = Field(description="Current consecutive failures.")
    last_read_ms: int | None = Field(description="Latency of the last answer.")
    last_answered_at: Time | None
    waiting: int = Field(description="Unverified actions of this system.")
    oldest_waiting_at: Time | None
    not_releasing: str | None
    tools: list[str] = Field(description="Tools whose effects are read there first.")
    settled: int
    settled_median_ms: int | None = Field(description="Time from a tool's answer to the reading that settled it.")
    settled_p95_ms: int | None


class ResourceRow(Answer):
    tool: str
    agent: str
    executed: int
    calls: int
    readings: int
    readings_per_action: Share
    repeats: int = Field(description="Further starts, and calls refused as duplicates of open ones.")
    repeats_per_action: Share
    duplicated: int
    duplicate_share: Share
    compensations: int
    compensation_share: Share


class ReviewRow(Answer):
    case_id: UUID
    action_id: UUID | None
    state: str
    reason: str
    discrepancy: str | None
    side_effect_class: str = Field(alias="class")
    severity: int
    tool: str
    opened_at: Time
    claimed: bool
    proposed: str | None = Field(description="The resolution that awaits a second person.")
    action_state: State | None
    action_outcome: Outcome | None = Field(description="How the action stands: the code to decide by.")
    compensation_failed: bool
    details: str = Field(description="The API call for the whole case.")


class UnrecordedRow(Answer):
    action_id: UUID
    attempt: int
    executor_id: str
    tool: str
    payload_hash: str
    started_at: Time = Field(description="By the executor's clock.")
    tool_status: str | None = Field(description="What the tool answered, says the executor; null if it never did.")
    reported_at: Time = Field(description="When the executor told the console, which was after the restore.")
    action_state: State | None = Field(description="Null if the record does not have the action at all.")
    action_outcome: Outcome | None = Field(description="How the action stands: the code to decide by.")


class TelemetryRow(Answer):
    metric: str
    name: str
    kind: str
    formula: str
    value: Share
    before: Share
    part: int
    whole: int
    healthy: bool | None
    median_ms: int | None
    p95_ms: int | None


class EvaluationRow(Answer):
    action_id: UUID
    tool: str
    side_effect_class: str = Field(alias="class")
    found_at: Time
    claimed: bool = Field(description="Whether the tool had reported success.")
    result: str = Field(description="What the verification run concluded: a replay concludes the same.")
    discrepancy: Discrepancy
    pattern: str | None = Field(description="The pattern of hallucinated success (HS-01 to HS-14) that it is, if any.")
    decision: str | None = Field(description="The row of the recovery table and what it ordered.")
    bundle: str = Field(description="The API call for the replay bundle of the action.")


class ReferenceRow(Answer):
    table: str
    about: str
    content: dict[str, Any]


class ContractsHandoff(Handoff[ContractRow]):
    """Verification requirements, hints, idempotency and quality of observation of each tool's contract in force."""

    handoff: Literal["contracts"] = "contracts"
    version: Literal[1] = 1


class PathologiesHandoff(Handoff[PathologyRow]):
    """Failure rates, discrepancy classes, escapes and what is stuck, by tool."""

    handoff: Literal["pathologies"] = "pathologies"
    version: Literal[1] = 1


class PermissionsHandoff(Handoff[PermissionRow]):
    """Effects on wrong targets, calls beyond an agent's permissions, and effects that nobody gated; newest first."""

    handoff: Literal["permissions"] = "permissions"
    version: Literal[1] = 1


class DependenciesHandoff(Handoff[DependencyRow]):
    """How the systems of record answer: latency of verification, circuits, unanswered readings, what waits for them."""

    handoff: Literal["dependencies"] = "dependencies"
    version: Literal[1] = 1


class ResourcesHandoff(Handoff[ResourceRow]):
    """Duplicates, polling, pressure of repeats and compensations, by tool and agent."""

    handoff: Literal["resources"] = "resources"
    version: Literal[1] = 1


class ReviewsHandoff(Handoff[ReviewRow]):
    """Cases that wait for a person now, the most severe first."""

    handoff: Literal["reviews"] = "reviews"
    version: Literal[3] = 3


class UnrecordedHandoff(Handoff[UnrecordedRow]):
    """Effects without a record: starts that executors kept and that a restored record has lost, newest first."""

    handoff: Literal["unrecorded"] = "unrecorded"
    version: Literal[3] = 3


class TelemetryHandoff(Handoff[TelemetryRow]):
    """The twenty-five metrics, beside the same length of time before."""

    handoff: Literal["telemetry"] = "telemetry"
    version: Literal[1] = 1


class EvaluationsHandoff(Handoff[EvaluationRow]):
    """The installation's own failures as scenarios to replay: false successes, partial effects; newest first."""

    handoff: Literal["evaluations"] = "evaluations"
    version: Literal[1] = 1


class ReferenceHandoff(Handoff[ReferenceRow]):
    """The reference architecture as data: lifecycle, machines, schemas, recovery table; the same for everybody."""

    handoff: Literal["reference"] = "reference"
    version: Literal[1] = 1


AnyHandoff = Annotated[
    Union[  # noqa: UP007
        ContractsHandoff,
        PathologiesHandoff,
        PermissionsHandoff,
        DependenciesHandoff,
        ResourcesHandoff,
        ReviewsHandoff,
        UnrecordedHandoff,
        TelemetryHandoff,
        EvaluationsHandoff,
        ReferenceHandoff,
    ],
    Field(discriminator="handoff"),
]
HandoffName = Literal[
    "contracts",
    "pathologies",
    "permissions",
    "dependencies",
    "resources",
    "reviews",
    "unrecorded",
    "telemetry",
    "evaluations",
    "reference",
]


class HandoffListed(Answer):
    name: str
    version: int
    holds: str
    document: str
    json_schema: str
    csv: str
    json_lines: str
