"""Members, passkeys, API keys and delegations: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.urls import reverse

from approvals.voting.queries import approvers
from console.accounts import queries as directory
from console.accounts.members import queries as members_queries
from console.accounts.members.rules import current_roles
from console.accounts.queries import actor_names
from console.accounts.sign_in.queries import holders_of_second_factor
from console.edge.http import TenantRequest
from console.people import schemas
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage, sortable

if TYPE_CHECKING:
    from approvals.models import ApproverKey, Delegation
    from console.models import Membership

READERS: Final = ("administrator", "reviewer", "compliance")


def _member_rows(request: TenantRequest, found: Sequence[Membership]) -> list[dict[str, Any]]:
    away = approvers.absent_approvers(request.tenant.id, request.as_of)
    holders = holders_of_second_factor([row.user_id for row in found])
    return [_member_row(request, row, away, row.user_id in holders) for row in found]


def _member_row(request: TenantRequest, row: Membership, away: set[UUID], has_second_factor: bool) -> dict[str, Any]:
    now = current_roles(row)
    return {
        "row": row,
        "name": directory.name_of(row),
        "email": row.user.get_username(),
        "roles": sorted(now.roles),
        "groups": sorted(now.groups),
        "has_second_factor": has_second_factor,
        "href": reverse("member", args=[request.tenant.slug, row.id]),
        "state": "invited"
        if not row.joined_at
        else "closed"
        if not row.user.is_active
        else "away"
        if row.actor_id in away
        else "active",
        "is_away": row.actor_id in away,
        "is_oneself": row.actor_id == request.caller.actor.id,
    }


def _member_answers(
    tenant_id: UUID, rows: Sequence[Membership], at: datetime
) -> Callable[[Membership], schemas.Member]:
    away = approvers.absent_approvers(tenant_id, at)
    holders = holders_of_second_factor([row.user_id for row in rows])
    return lambda row: schemas.Member.of(row, away=away, has_second_factor=row.user_id in holders)


PEOPLE: Final = ListPage(
    "people",
    columns=(
        sortable("name", "Name", lambda row: row["name"]),
        sortable("address", "Address", lambda row: row["email"]),
        sortable("state", "State", lambda row: row["state"]),
        sortable("roles", "Roles", lambda row: ", ".join(row["roles"])),
        Column("groups", "Groups", lambda row: row["groups"]),
        Column("second-factor", "Second factor", lambda row: row["has_second_factor"]),
        sortable("joined", "Joined", lambda row: row["row"].joined_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(READERS),
    query=members_queries.members,
    rows_of=_member_rows,
    get=GetRoute(
        path="/members",
        operation="list_members",
        summary="Members with their roles",
        answer=schemas.Member,
        told=_member_answers,
        readers=READERS,
    ),
)


def _key_rows(request: TenantRequest, found: Sequence[ApproverKey]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "holder": names.get(row.actor_id, "somebody"),
            "confirmed_by": names.get(row.confirmed_by, "") if row.confirmed_by else "",
            "is_own": row.actor_id == request.caller.actor.id,
            "answer": reverse("approver-key-answer", args=[request.tenant.slug, row.id]),
        }
        for row in found
    ]


# The page shows those that sign, wait for a second person or are suspended; the API all.
PASSKEYS: Final = ListPage(
    "passkeys",
    page="people",
    columns=(
        Column("name", "Name", lambda row: row["row"].name),
        Column("holder", "Of", lambda row: row["holder"]),
        Column("state", "State", lambda row: row["row"].state.lower()),
        Column("enrolled", "Enrolled", lambda row: row["row"].created_at),
        Column("confirmed", "Confirmed by", lambda row: row["confirmed_by"]),
        Column("synced", "Synced between devices", lambda row: row["row"].backup_eligible),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(READERS),
    query=approvers.approver_keys,
    rows_of=_key_rows,
    parts=({"states": ("PENDING", "ACTIVE", "SUSPENDED")},),
    get=GetRoute(
        path="/approver-keys",
        operation="list_keys",
        summary="Approval passkeys, in every state",
        answer=schemas.ApproverKey,
        readers=READERS,
    ),
)


# Of each only its hash is kept, and that is in no list.
API_KEYS: Final = ListPage(
    "api-keys",
    page="people",
    columns=(
        Column("name", "Name", lambda row: row.name),
        Column("kind", "Kind", lambda row: labels.KEY_KINDS.get(row.kind, row.kind)),
        Column("scopes", "Only", lambda row: row.scopes),
        Column("created", "Created", lambda row: row.created_at),
        Column("used", "Used", lambda row: row.last_used_at),
        Column("expires", "Expires", lambda row: row.expires_at),
        Column("revoked", "Revoked", lambda row: row.revoked_at),
        Column("id", "Id", lambda row: row.id),
    ),
    roles=frozenset({"administrator"}),
    query=directory.api_keys,
)


def _delegation_rows(request: TenantRequest, found: Sequence[Delegation]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "giver": names.get(row.from_actor, "somebody"),
            "receiver": names.get(row.to_actor, "somebody"),
            "end": reverse("delegation-end", args=[request.tenant.slug, row.id]),
        }
        for row in found
    ]


DELEGATIONS: Final = ListPage(
    "delegations",
    page="people",
    columns=(
        Column("giver", "From", lambda row: row["giver"]),
        Column("receiver", "To", lambda row: row["receiver"]),
        Column("groups", "Groups", lambda row: row["row"].groups),
        Column("tools", "Only", lambda row: row["row"].tools),
        Column("starts", "Starts", lambda row: row["row"].starts_at),
        Column("ends", "Ends", lambda row: row["row"].ends_at),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(READERS),
    query=approvers.delegations,
    rows_of=_delegation_rows,
    get=GetRoute(
        path="/delegations",
        operation="list_delegations",
        summary="Delegations",
        answer=schemas.Delegation,
        readers=("person",),
    ),
)
