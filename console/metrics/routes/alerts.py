"""Alert rules and alerts over the metrics, for programs and for people."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from console.metrics import queries, schemas, verbs
from console.verbs.verb import add_verbs

router = Router(tags=["Operations"])
READERS = ("oper", "audit", "person")


add_verbs(router, __name__, [verbs.MAKE_RULE])


@router.get("/alert-rules", summary="Alert rules", response=Page[schemas.AlertRuleShown])
@admits(*READERS)
@in_tenancy
def list_rules(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.AlertRuleShown]:
    rules = queries.alert_rules(caller_of(request).tenant_id)
    return paging.page_of_whole_list(schemas.AlertRuleShown.of, rules, wanted)


add_verbs(router, __name__, (verbs.CHANGE_RULE, verbs.END_RULE))


@router.get("/alerts", summary="Metric alerts, newest first", response=Page[schemas.AlertShown])
@admits(*READERS)
@in_tenancy
def list_alerts(request: HttpRequest, wanted: Query[schemas.AlertsWanted]) -> Page[schemas.AlertShown]:
    before = paging.decode_cursor(wanted.cursor)
    found = queries.alerts(caller_of(request).tenant_id, is_open=wanted.open, before=before, limit=wanted.limit + 1)
    return paging.page_of(schemas.AlertShown.of, found, wanted.limit)
