"""Request and response schemas of reviewer quality."""

from __future__ import annotations

from typing import Annotated

from ninja import Schema
from pydantic import Field

from console.edge.schemas import Answer, Body, Moment, Time


class QualityWanted(Schema):
    since: Annotated[Moment | None, Field(alias="from")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None


class QualityRow(Answer):
    name: str
    votes: int
    people: int
    rejected: float | None
    served_median_s: float | None = Field(
        description="Time from serving the payload to the vote, measured by the server."
    )
    visible_median_s: float | None = Field(description="As reported by the pages; not used in any decision.")
    quick: float | None = Field(description="Share of votes cast faster than the payload can be read.")
    blind: float | None = Field(description="Share of votes without any evidence opened.")
    settled: int
    wrong: float | None = Field(description="Share of settled actions that verification proved wrong.")


class QualityReport(Answer):
    by: str
    withheld: int = Field(description="Groups that are hidden: too few decisions, or no access.")
    rows: list[QualityRow]


class Quality(Answer):
    privacy: str
    since: Time = Field(alias="from")
    until: Time = Field(alias="to")
    cut_off: bool
    reports: list[QualityReport]


class AttentionTaken(Answer):
    taken: bool


class AttentionBody(Body):
    visible_s: Annotated[float, Field(ge=0, le=86_400)]
    opened: Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=50)] | None = None
