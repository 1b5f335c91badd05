"""Freezes: who stops what, and what about it is still open when it is lifted."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.cases import containment
from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy
from console.freezes import schemas, verbs
from console.freezes.lists import FREEZES
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.catalogue.operations import registration

router = Router(tags=["Cases and incidents"])


@router.post(
    "/freezes",
    summary="Freeze an agent, target, tool, tenant or everything; an unknown name needs confirmation",
    response={201: schemas.FreezePlaced},
    operation_id="approvals_freeze",
)
@admits("operator", "administrator", "oper")
@in_tenancy
def freeze(request: HttpRequest, body: schemas.FreezeBody) -> schemas.FreezePlaced:
    caller = caller_of(request)
    is_unknown = containment.check_freeze_target(
        caller.tenant_id, scope=body.scope, value=body.value, unknown_ok=body.unknown_ok
    )
    row = registration.place_freeze(
        tenant_id=caller.tenant_id,
        scope=body.scope,
        value=body.value,
        reason=body.reason,
        actor=caller.actor,
        at=timezone.now(),
        is_unknown=is_unknown,
    )
    return schemas.FreezePlaced.of(row)


add_lists(router, __name__, FREEZES)


add_verbs(router, __name__, [verbs.LIFT])
