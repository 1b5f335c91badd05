"""Reviewer quality over HTTP: what a page reports of itself, and what came of the decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from approvals.requests.queries import approvals
from approvals.voting.operations import attention
from console.api.answers import Answer
from console.api.auth import admits, caller_of
from console.api.schemas import EARLIEST, Body, Moment
from console.api.transaction import NotFound, in_tenancy, json_response
from console.pages.quality.context import reviewer_quality
from ledger.record.rules.envelope import instant

router = Router(tags=["People's work"])
PERIOD = timedelta(days=30)


class QualityWanted(Schema):
    since: Annotated[Moment | None, Field(alias="from")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None


class QualityRow(Answer):
    name: str
    votes: int
    people: int
    rejected: float | None
    served_median_s: float | None = Field(description="From when the payload was served to the vote, by the server.")
    visible_median_s: float | None = Field(description="What the pages report; it counts for nothing.")
    quick: float | None = Field(description="The share of votes that took less than reading the payload.")
    blind: float | None = Field(description="The share of votes without anything of the evidence opened.")
    settled: int
    wrong: float | None = Field(description="Of the settled, the share that verification proved wrong.")


class QualityReport(Answer):
    by: str
    withheld: int = Field(description="Groups that are too small to be shown, or are none of this reader's business.")
    rows: list[QualityRow]


class Quality(Answer):
    privacy: str
    since: str = Field(alias="from")
    until: str = Field(alias="to")
    cut_off: bool
    reports: list[QualityReport]


class AttentionTaken(Answer):
    taken: bool


class AttentionBody(Body):
    visible_s: Annotated[float, Field(ge=0, le=86_400)]
    opened: Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=50)] | None = None


@router.get(
    "/approvals/quality",
    summary="How people were given the chance to decide, by rule, agent, tool and reviewer",
    response=Quality,
    by_alias=True,
)
@admits("person")
@in_tenancy
def get_quality(request: HttpRequest, wanted: Query[QualityWanted]) -> HttpResponse:
    until = wanted.until or timezone.now()
    found = reviewer_quality(caller_of(request), since=wanted.since or max(until - PERIOD, EARLIEST), until=until)
    spelt: dict[str, Any] = {"from": instant(found["from"]), "to": instant(found["to"])}
    return json_response(found | spelt)


@router.post(
    "/approvals/{approval_id}/attention",
    summary="What a page says of itself: visible time and opened sections",
    response=AttentionTaken,
)
@admits("person")
@in_tenancy
def report(request: HttpRequest, approval_id: UUID, body: AttentionBody) -> HttpResponse:
    caller = caller_of(request)
    if approvals.approval(caller.tenant_id, approval_id) is None:
        raise NotFound
    taken = attention.record_page_report(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        actor_id=caller.actor.id,
        visible_s=body.visible_s,
        opened=body.opened,
        at=timezone.now(),
    )
    return json_response({"taken": taken})
