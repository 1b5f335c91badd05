"""Request and response schemas of contracts and policies."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import AwareDatetime, Field

from console.edge.schemas import EARLIEST, Answer, Body, LintFinding, TextOrNull, Time


class PolicyBody(Body):
    version: Annotated[str, Field(min_length=1, max_length=64)]
    document: dict[str, Any]


GivenMoment = Annotated[AwareDatetime, Field(ge=EARLIEST, strict=False)]


class SimulationBody(Body):
    version: Annotated[str, Field(max_length=64, description="A known version; or `document`.")] = ""
    document: Annotated[dict[str, Any] | None, Field(description="A draft, which is not stored.")] = None
    since: Annotated[GivenMoment | None, Field(alias="from", description="Default: 30 days before `to`.")] = None
    until: Annotated[GivenMoment | None, Field(alias="to", description="Default: now.")] = None


class SimulationFigure(Answer):
    then: str
    now: str
    actions: int
    proved_wrong: int = Field(description="How many of them later proved wrong.")


class SimulatedAction(Answer):
    action_id: UUID
    then: str = Field(description="LET_THROUGH, HELD or REFUSED; of verification and recovery HELD or WENT_ON.")
    now: str
    text: str
    proved_wrong: TextOrNull = Field(description="How it later proved wrong, if it did.")


class SimulatedPolicy(Answer):
    kind: str
    since: Time
    until: Time
    text: str
    decided: int = Field(description="How many were decided again.")
    left_out: int = Field(description="How many could not be decided again.")
    is_cut: bool = Field(description="True if the period has more and only the newest were decided again.")
    figures: list[SimulationFigure]
    touched: list[SimulatedAction]


class Weakening(Answer):
    code: str
    path: str
    detail: str = Field(validation_alias="text")


class ContractVersion(Answer):
    name: str
    version: str
    digest: str
    lint: list[LintFinding]
    state: str = Field(
        description="REGISTERED: in force. PENDING: weaker, requires second approver. DECLINED. ROLLED_BACK. RETIRED."
    )
    compared_with: TextOrNull = Field(description="The version that was in force when it was sent.")
    weakens: list[Weakening] = Field(description="How it is weaker than that version.")


class Contract(ContractVersion):
    document: dict[str, Any]


class PolicyVersion(Answer):
    kind: str
    version: str
    digest: str


class PolicyInForce(Answer):
    version: str
    digest: str
    document: dict[str, Any]
