"""A bare endpoint: the product's server, middleware, parser and key; one row, nothing more."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import NinjaAPI, Schema

from benchmarks.bare.models import Row
from console.edge.auth import Key
from console.edge.transaction import StrictParser, json_response

api = NinjaAPI(auth=[Key("agent")], parser=StrictParser(), urls_namespace="bare", docs_url=None, openapi_url=None)


class Body(Schema):
    calls: list[Any]


@api.post("/rows")
def add(request: HttpRequest, body: Body) -> HttpResponse:
    at: datetime = timezone.now()
    row = Row.objects.create(
        id=uuid4(),
        subject_id=uuid4(),
        seq=1,
        kind="call",
        state="VALIDATED",
        envelope=request.body,
        entry=request.body,
        detail=b"",
        at=at,
    )
    return json_response({"id": str(row.id), "at": at}, 200)
