"""Systems of record: their registration and health, who stops releasing to them, and their providers' webhooks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from console.edge import paging, rate
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged, ReasonBody
from console.edge.transaction import after_commit, in_tenancy, json_response
from console.systems import credentials, schemas, verbs
from console.systems.lists import OPERATORS, SYSTEMS
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.catalogue import queries as catalogue_queries
from ledger.record.rules.refusals import NotFound, Refused
from reviews import queries as after
from reviews.checks.catalogue import described_system
from reviews.checks.settings import settings_schema
from reviews.observations.operations import webhooks
from reviews.observations.rules.webhooks import SignedHeaders
from reviews.systems.rules.examples import contract_example
from reviews.tasks import verify_due

router = Router(tags=["Systems"])
MOST_BYTES = 1 << 20
_ANYTHING = {"description": "The provider's payload; stored unchanged."}
WEBHOOK = {"requestBody": {"required": True, "content": {"application/json": {"schema": _ANYTHING}}}}


class HookBodyTooLarge(Refused):
    """The body is larger than 1 MiB."""

    code = "TOO_LARGE"
    status = 413


add_verbs(router, __name__, [verbs.REGISTER, verbs.ANSWER])


add_lists(router, __name__, SYSTEMS)


@router.get(
    "/system-patterns/{pattern}",
    summary="A pattern that can be read back: the JSON Schema of its settings, examples of its credential and contract",
    response=schemas.Pattern,
)
@admits(*OPERATORS, "administrator")
@in_tenancy
def get_pattern(request: HttpRequest, pattern: str) -> schemas.Pattern:
    example = credentials.example_credential(pattern)
    described = described_system(pattern)
    return schemas.Pattern(
        pattern=pattern,
        settings=settings_schema(pattern),
        credential=example,
        description=None if described is None else described.document,
        contract=None if described is None else contract_example(described),
    )


add_verbs(router, __name__, (verbs.STOP, verbs.RESUME))


@router.post(
    "/systems/{name}/hooks",
    summary="Create a webhook address for a system (Standard Webhooks)",
    response={201: schemas.Hook},
)
@admits("oper", "administrator")
@in_tenancy
def create_hook(request: HttpRequest, name: str, body: schemas.HookBody) -> schemas.Hook:
    caller = caller_of(request)
    row = webhooks.create_hook(
        tenant_id=caller.tenant_id, name=name, secret=body.secret, by=caller.actor, at=timezone.now()
    )
    return _hook(row, name, {})


@router.get("/systems/{name}/hooks", summary="A system's webhook addresses", response=Page[schemas.Hook])
@admits(*OPERATORS, "audit")
@in_tenancy
def list_hooks(request: HttpRequest, name: str, wanted: Query[Paged]) -> Page[schemas.Hook]:
    tenant_id = caller_of(request).tenant_id
    system = catalogue_queries.system(tenant_id, name)
    if system is None:
        raise NotFound("System")
    rows = after.hooks_of(tenant_id, system.id)
    taken = after.last_deliveries(tenant_id, [row.id for row in rows])
    return paging.page_of_whole_list(lambda row: _hook(row, name, taken), rows, wanted)


@router.post(
    "/systems/{name}/hooks/{hook_id}/rotate",
    summary="Rotate the secret of a webhook address; the previous one may stay valid",
    response=schemas.Hook,
)
@admits("oper", "administrator")
@in_tenancy
def rotate_hook(request: HttpRequest, name: str, hook_id: UUID, body: schemas.HookSecretBody) -> schemas.Hook:
    caller = caller_of(request)
    webhooks.rotate_secret(
        tenant_id=caller.tenant_id,
        name=name,
        hook_id=hook_id,
        secret=body.secret,
        keep_old=body.keep_old,
        by=caller.actor,
        at=timezone.now(),
    )
    return _hook(after.live_hook(caller.tenant_id, hook_id), name, after.last_deliveries(caller.tenant_id, [hook_id]))


@router.post("/systems/{name}/hooks/{hook_id}/revoke", summary="Close a webhook address", response=schemas.HookRevoked)
@admits("oper", "administrator")
@in_tenancy
def revoke_hook(request: HttpRequest, name: str, hook_id: UUID, body: ReasonBody) -> schemas.HookRevoked:
    caller = caller_of(request)
    webhooks.revoke_hook(
        tenant_id=caller.tenant_id,
        name=name,
        hook_id=hook_id,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.HookRevoked(hook_id=hook_id, revoked=True)


@router.post(
    "/hooks/{tenant_id}/{hook_id}",
    auth=None,
    summary="Receive a provider's webhook (Standard Webhooks): kept as evidence and triggers a reading, never a state",
    openapi_extra=WEBHOOK,
    response={202: schemas.Taken},
)
def receive(request: HttpRequest, tenant_id: UUID, hook_id: UUID) -> HttpResponse:
    at = timezone.now()
    rate.count_request(hook_id, at=at)
    body = request.body
    if len(body) > MOST_BYTES:
        raise HookBodyTooLarge
    given = [request.headers.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature")]
    webhooks.receive_delivery(tenant_id=tenant_id, hook_id=hook_id, signed=SignedHeaders(*given), body=body, at=at)
    after_commit(verify_due)
    return json_response(schemas.Taken(taken=True), 202)


def _hook(row: Any, name: str, taken: dict[UUID, Any]) -> schemas.Hook:
    return schemas.Hook.of(
        row,
        path=schemas.hook_path(row.tenant_id, row.id),
        secrets=len(webhooks.secrets_of(row.tenant_id, name, row.id)),
        last_taken_at=taken.get(row.id),
    )
