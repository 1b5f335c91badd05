"""What the API is sent and answers about contracts and policies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from console.api.schemas import Answer, Body, LintFinding, TextOrNull


class PolicyBody(Body):
    version: Annotated[str, Field(min_length=1, max_length=64)]
    document: dict[str, Any]
    reason: Annotated[str, Field(max_length=4000, description="Why it is put in force; kept with who did it.")] = ""


class Weakening(Answer):
    code: str
    path: str
    detail: str = Field(validation_alias="text")


class ContractVersion(Answer):
    name: str
    version: str
    digest: str
    lint: list[LintFinding]
    state: str = Field(description="REGISTERED: in force. PENDING: weaker, waits for a second person. DECLINED.")
    compared_with: TextOrNull = Field(description="The version that was in force when it was sent.")
    weakens: list[Weakening] = Field(description="In what it is weaker than that one.")


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
