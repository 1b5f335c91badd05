"""Request and response schemas of releases of policies and contracts."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django import forms
from ninja import Schema
from pydantic import Field

from console.edge.schemas import SHORT_REASON, Answer, Ask, Body, Reason, TextOrNull, Time
from console.people.schemas import ProofBody
from console.web.forms import WordsField, YesField
from ledger.catalogue.rules.releases import MOST_TOOLS, SIGNED

Tool = Annotated[str, Field(min_length=1, max_length=128)]


class ReleaseBody(Body):
    kind: Literal["approval", "autonomy", "verification", "recovery"]
    version: Annotated[str, Field(min_length=1, max_length=64)]
    document: dict[str, Any]
    reason: Reason


class ContractReleaseReason(Schema):
    reason: Reason


class ReleaseWordBody(ProofBody):
    reason: Annotated[Reason, SHORT_REASON]


class GateSignatureBody(ReleaseWordBody):
    gate: Annotated[
        Literal["RG-01", "SIMULATION", "RG-02"],
        Ask(field=forms.ChoiceField(choices=[(gate, gate) for gate in SIGNED], widget=forms.HiddenInput())),
    ]


class RollbackBody(ReleaseWordBody):
    version: Annotated[str, Field(min_length=1, max_length=64)]


class RetirementBody(ReleaseWordBody):
    ends_tool: Annotated[
        bool | None,
        Field(description="Whether you expect the tool to end; refused with CONFLICT where it is otherwise."),
        Ask(field=YesField(yes="yes", no="no", required=False)),
    ] = None


class ToolsField(WordsField):
    """Names of tools, each once."""

    def clean(self, value: Any) -> Any:
        tools = list(dict.fromkeys(super().clean(value)))
        if len(tools) > MOST_TOOLS:
            raise forms.ValidationError(f"Name at most {MOST_TOOLS} tools.")
        return tools


class CanaryBody(Body):
    tools: Annotated[
        list[Tool],
        Field(max_length=100, description="The tools whose actions the draft decides. Default: every tool."),
        Ask(field=ToolsField(required=False, max_length=20_000, label="Tools, separated by spaces (every tool)")),
    ] = []
    share: Annotated[
        int,
        Field(ge=1, le=100, description="The share of these in percent, chosen by a hash of tenant, tool and action."),
        Ask(label="Percentage of their actions"),
    ] = 100
    actions: Annotated[
        int,
        Field(ge=1, le=10_000, description="How many of them must end before the canary passes."),
        Ask(label="Actions that must end first"),
    ] = 20


class Canary(Answer):
    tools: list[str]
    share: int
    actions: int
    since: str


class Gate(Answer):
    gate: str
    name: str
    passed: bool
    summary: str
    evidence: UUID = Field(validation_alias="pointer")
    by: UUID
    at: Time


class ReleaseSummary(Answer):
    release_id: UUID = Field(validation_alias="id")
    kind: str = Field(description="The kind of policy, or contract.")
    tool: TextOrNull = Field(description="The tool of a contract; null for a policy.")
    version: str
    digest: str
    state: str
    reason: str
    author: UUID
    first_by: UUID | None = Field(description="The first of the two people who promote it.")
    promoted_by: UUID | None
    canary: Canary | None
    created_at: Time
    changed_at: Time


class ContractInForce(Answer):
    name: str
    version: str
    digest: str


class Release(ReleaseSummary):
    document: dict[str, Any]
    needs: list[str] = Field(description="The gates not passed yet.")
    gates: list[Gate] = Field(description="The latest result of each gate that was run.")
