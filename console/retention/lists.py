"""Legal holds, erasure requests and retention policies: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.urls import reverse

from console.accounts.queries import actor_names
from console.edge.http import TenantRequest
from console.retention import schemas, verbs
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage
from ledger.people.queries import is_same_person
from ledger.retention import queries
from ledger.retention.rules.retention import HoldScope
from ledger.verification.queries import storage

if TYPE_CHECKING:
    from ledger.models import Erasure, LegalHold, Retention

PAGE_READERS: Final = frozenset({"compliance", "administrator"})
API_READERS: Final = ("compliance", "audit")
_ICONS = {"REQUESTED": "clock", "CONFIRMED": "clock", "DONE": "tick", "REFUSED": "cross", "WITHDRAWN": "minus"}


def _hold_rows(request: TenantRequest, found: Sequence[LegalHold]) -> list[dict[str, Any]]:
    slug, names = request.tenant.slug, actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "word": labels.HOLD_SCOPES[row.scope],
            "by": names.get(row.placed_by, "somebody"),
            "href": _recording(slug, row.value) if row.scope == HoldScope.RECORDING else "",
            "lift": reverse("hold-lift", args=[slug, row.id]),
            "record": reverse("event", args=[slug, row.id, 1]),
        }
        for row in found
    ]


def _recording(slug: str, value: str) -> str:
    return reverse("recording", args=[slug, UUID(value)]) if storage.is_uuid(value) else ""


HOLDS: Final = ListPage(
    "holds",
    columns=(
        Column("scope", "Scope", lambda row: row["word"]),
        Column("value", "Value", lambda row: row["row"].value),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("by", "Placed by", lambda row: row["by"]),
        Column("placed", "Placed", lambda row: row["row"].placed_at),
        Column("lifted", "Lifted", lambda row: row["row"].lifted_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=PAGE_READERS,
    query=queries.holds,
    rows_of=_hold_rows,
    parts=({"lifted": False}, {"lifted": True}),
    get=GetRoute(
        path="/holds",
        operation="list_holds",
        summary="Legal holds in force, or lifted ones",
        answer=schemas.Hold,
        wanted=schemas.HoldsWanted,
        readers=API_READERS,
    ),
)


def _erasure_rows(request: TenantRequest, found: Sequence[Erasure]) -> list[dict[str, Any]]:
    slug, me, names = request.tenant.slug, request.caller.actor.id, actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "word": labels.ERASURES.get(row.state, labels.sentence_case(row.state)),
            "icon": _ICONS.get(row.state, "dot"),
            "by": names.get(row.requested_by, "the policy in force"),
            "second": names.get(row.confirmed_by, "") if row.confirmed_by else "",
            "may_confirm": row.state == "REQUESTED" and not is_same_person(request.tenant.id, row.requested_by, me),
            "proof": verbs.CONFIRM_ERASURE.form(auto_id=f"id_{row.id}_%s"),
            "may_withdraw": row.state in queries.OPEN and row.begun_at is None,
            "answer": reverse("erasure-answer", args=[slug, row.id]),
            "record": reverse("event", args=[slug, row.id, 1]),
        }
        for row in found
    ]


ERASURES: Final = ListPage(
    "erasures",
    page="holds",
    columns=(
        Column("state", "State", lambda row: row["word"]),
        Column("basis", "Legal basis", lambda row: row["row"].legal_basis),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("subjects", "Subjects", lambda row: row["row"].subjects),
        Column("erased", "Erased", lambda row: row["row"].erased),
        Column("by", "Requested by", lambda row: row["by"]),
        Column("requested", "Requested", lambda row: row["row"].requested_at),
        Column("second", "Confirmed by", lambda row: row["second"]),
        Column("confirmed", "Confirmed", lambda row: row["row"].confirmed_at),
        Column("ended", "Ended", lambda row: row["row"].ended_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=PAGE_READERS,
    query=queries.erasures,
    rows_of=_erasure_rows,
    get=GetRoute(
        path="/erasures",
        operation="list_erasures",
        summary="Erasure requests, newest first",
        answer=schemas.Erasure,
        wanted=schemas.ErasuresWanted,
        readers=API_READERS,
    ),
)


def _policy_rows(request: TenantRequest, found: Sequence[Retention]) -> list[dict[str, Any]]:
    slug, me, names = request.tenant.slug, request.caller.actor.id, actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "word": labels.sentence_case(row.state),
            "by": names.get(row.proposed_by, "somebody"),
            "second": names.get(row.confirmed_by, "") if row.confirmed_by else "",
            "waits": row.state == "PROPOSED",
            "may_confirm": row.state == "PROPOSED" and not is_same_person(request.tenant.id, row.proposed_by, me),
            "proof": verbs.CONFIRM_POLICY.form(auto_id=f"id_{row.id}_%s"),
            "answer": reverse("retention-answer", args=[slug, row.id]),
            "record": reverse("event", args=[slug, row.id, 1]),
        }
        for row in found
    ]


# Without a CSV of its own.
POLICIES: Final = ListPage(
    "retention",
    page="holds",
    roles=PAGE_READERS,
    query=queries.retentions,
    rows_of=_policy_rows,
    get=GetRoute(
        path="/retention",
        operation="list_policies",
        summary="Retention policies, newest first; without one in force the defaults hold",
        answer=schemas.Retention,
        readers=API_READERS,
    ),
)
