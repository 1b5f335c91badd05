"""Hand-offs over HTTP: what other teams and programs take from the record, as documents with a version and a schema."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from console.edge.auth import admits, caller_of
from console.edge.openapi import response_content
from console.edge.schemas import Moment
from console.edge.transaction import in_tenancy, json_response
from console.handoffs import documents, schemas
from console.metrics.routes.summary import checked_period

router = Router(tags=["Hand-offs"])
READERS = ("oper", "audit", "person")
PERIOD: Final = timedelta(days=30)


class HandoffPeriod(Schema):
    """Whole days of UTC; without them the last thirty days."""

    since: Annotated[Moment | None, Field(alias="from")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None


@router.get("/handoffs", summary="All hand-offs with version and address", response=list[schemas.HandoffListed])
@admits(*READERS)
def list_handoffs(request: HttpRequest) -> HttpResponse:
    return json_response(documents.listed_handoffs())


@router.get("/handoffs/{name}", summary="One hand-off as a document", response=schemas.AnyHandoff, by_alias=True)
@admits(*READERS)
@in_tenancy
def get_handoff(request: HttpRequest, name: schemas.HandoffName, wanted: Query[HandoffPeriod]) -> schemas.AnyHandoff:
    return _make_handoff(request, name, wanted)


@router.get("/handoffs/{name}/schema", summary="The JSON Schema of a hand-off", response=dict[str, Any])
@admits(*READERS)
def get_schema(request: HttpRequest, name: schemas.HandoffName) -> HttpResponse:
    return json_response(documents.handoff_schema(name))


@router.get(
    "/handoffs/{name}/rows.csv",
    summary="The rows of a hand-off as a table",
    openapi_extra=response_content("text/csv"),
    response=str,
)
@admits(*READERS)
@in_tenancy
def export_table(request: HttpRequest, name: schemas.HandoffName, wanted: Query[HandoffPeriod]) -> HttpResponse:
    return _file(
        f"{name}.csv", documents.rows_as_table(_make_handoff(request, name, wanted)), "text/csv; charset=utf-8"
    )


@router.get(
    "/handoffs/{name}/rows.jsonl",
    summary="The rows of a hand-off as JSON lines",
    openapi_extra=response_content("application/jsonl"),
    response=str,
)
@admits(*READERS)
@in_tenancy
def export_lines(request: HttpRequest, name: schemas.HandoffName, wanted: Query[HandoffPeriod]) -> HttpResponse:
    return _file(f"{name}.jsonl", documents.rows_as_lines(_make_handoff(request, name, wanted)), "application/jsonl")


def _make_handoff(request: HttpRequest, name: str, wanted: HandoffPeriod) -> schemas.AnyHandoff:
    at = timezone.now()
    period = checked_period(wanted.since, wanted.until, step=timedelta(days=1), length=PERIOD, at=at)
    return documents.make_handoff(caller_of(request).tenant_id, name, period, at=at)


def _file(name: str, text: str, kind: str) -> HttpResponse:
    answer = HttpResponse(text, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
