"""Effect receipts: one action as a signed in-toto statement, for somebody who has no access to this console.

1. The statement says who allowed the action, what ran, what the system showed, how it ended and where its newest event
   stands in the log; people are pseudonyms, and the arguments are their hash.
2. It is a DSSE envelope over canonical JSON (RFC 8785), signed with the key that signs grants and stands in the JWKS.
   What DSSE signs begins with its own name, so that no receipt is a grant and no grant a receipt.
3. It says what was on record when it was asked for. `ended.verified` is true only where a reading settled it as
   requested; what is unknown is unknown.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from approvals.execution.operations import grant_keys
from approvals.execution.rules.grants import GrantKey
from approvals.standing import queries as standing
from approvals.voting.queries import votes
from approvals.voting.rules.binding import VoteChoice
from console.actions import effect_schemas as shapes
from console.actions import schemas
from console.actions.envelope import envelope
from console.actions.erased_pages import erased_page
from console.actions.routes.actions import visible_action
from console.actions.routes.verification_runs import shown_runs
from console.edge.auth import Caller, admits, caller_of
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.edge.transaction import in_tenancy, json_response, record_read
from ledger.actions.queries import actions
from ledger.log.queries import log, proofs
from ledger.record.queries import events
from ledger.record.rules.canonical import canonical
from ledger.record.rules.outcomes import AS_REQUESTED

if TYPE_CHECKING:
    from approvals.models import StandingPass
    from ledger.models import Action

router = Router(tags=["Actions"])
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


@router.get(
    "/actions/{action_id}/effect-receipt",
    summary="An action for outsiders: an in-toto statement in a DSSE envelope, signed with a key of the JWKS",
    response=schemas.EffectReceipt,
)
@admits("oper", "audit", "person")
@in_tenancy
def get_effect_receipt(request: HttpRequest, action_id: UUID) -> schemas.EffectReceipt:
    action = visible_action(request, action_id)
    record_read(request, "action", action.id)
    at = timezone.now()
    return sign_statement(effect_statement(action, caller_of(request), at=at), at=at)


@in_tenant()
def download_effect_receipt(request: TenantRequest, action_id: UUID) -> HttpResponse:
    """The same receipt, from the action's page."""
    action = actions.action(request.tenant.id, action_id)
    if action is None:
        raise Http404
    record_page_view(request, "action", action.id)
    if gone := erased_page(request, "action", action.id):
        return gone
    signed = sign_statement(effect_statement(action, request.caller, at=request.as_of), at=request.as_of)
    answer = json_response(signed)
    answer["Content-Disposition"] = f'attachment; filename="effect-receipt-{action.id}.json"'
    return answer


def sign_statement(statement: shapes.ReceiptStatement, *, at: datetime) -> schemas.EffectReceipt:
    """The statement in a DSSE envelope (rule 2)."""
    key = grant_keys.signing_key(at)
    payload = canonical(statement.document())
    signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload))
    return schemas.EffectReceipt(
        payload=base64.b64encode(payload).decode(),
        payload_type=PAYLOAD_TYPE,
        signatures=[
            schemas.DsseSignature(
                keyid=GrantKey(key.public_key(), since=at).kid, sig=base64.b64encode(signature).decode()
            )
        ],
    )


def effect_statement(action: Action, caller: Caller, *, at: datetime) -> shapes.EffectStatement:
    """The present record of an action, as an in-toto statement about the approved bytes."""
    shown = envelope(action, caller)
    return shapes.EffectStatement(
        type=shapes.STATEMENT,
        subject=[shapes.ReceiptSubject(name=f"{action.tool} {action.target}", digest={"sha256": action.payload_hash})],
        predicate_type=shapes.PREDICATE,
        predicate=shapes.EffectPredicate(
            action=shapes.ReceiptAction(
                id=action.id,
                tenant=events.tenant_by_id(action.tenant_id).origin,
                tool=action.tool,
                version=action.tool_version,
                side_effect_class=action.side_effect_class,
                agent=action.agent,
                proposed_at=action.proposed_at,
            ),
            allowed=_authorisation(action, shown),
            ran=_ran(action),
            shown=[_reading(run) for run in shown_runs(action)],
            ended=shapes.ReceiptEnd(
                state=shown.state,
                outcome=shown.outcome,
                verified=shown.outcome in AS_REQUESTED,
                contradicted=shown.contradicted,
                trust_level=shown.trust_level,
                text=shown.user_status.text,
                at=action.changed_at,
            ),
            log=log_place(action.tenant_id, shown.entry_hash, shown.log),
            issued_at=at,
        ),
    )


def _authorisation(action: Action, shown: schemas.Action) -> shapes.Authorisation:
    """The authorisation: the policy, people with the hashes of their statements, or a standing approval."""
    if shown.approval is None or action.approval_id is None:
        return shapes.Authorisation(by="policy", votes=[])
    passed = standing.pass_of(action.tenant_id, action.id)
    given = {} if passed is None else {"standing_approval": _standing_approval(passed)}
    return shapes.Authorisation(
        by="people" if passed is None else "standing_approval",
        decision=shown.approval.decision,
        votes=[
            shapes.ReceiptVote(
                voter=each.voter,
                verdict=VoteChoice(each.verdict),
                assurance=each.evidence_class,
                statement_sha256=each.statement_hash,
                at=each.at,
            )
            for each in votes.votes_of(action.tenant_id, action.approval_id)
        ],
        **given,
    )


def _standing_approval(passed: StandingPass) -> shapes.ReceiptStandingApproval:
    """The standing approval or time-boxed pass of an action: by whom, until when, and which pass of it."""
    row = standing.standing_approval(passed.tenant_id, passed.standing_id)
    assert row is not None
    return shapes.ReceiptStandingApproval(
        id=row.id,
        time_boxed=row.is_time_boxed,
        by=[each for each in (row.proposed_by, row.answered_by) if each],
        until=row.ends_at,
        number=passed.number,
        max_count=row.max_count,
    )


def _ran(action: Action) -> list[shapes.ReceiptStart]:
    """Each start, in the order of the record; without its details if they were erased."""
    return [
        shapes.ReceiptStart(
            at=event.at,
            executor=event.actor_id,
            **{name: detail[name] for name in ("attempt", "executor_id") if detail and name in detail},
        )
        for event, _, detail in events.history(action.tenant_id, action.id)
        if event.kind == "execution_started"
    ]


def _reading(run: schemas.Run) -> shapes.ReceiptReading:
    return shapes.ReceiptReading(
        at=run.at,
        result=run.result,
        discrepancy=run.discrepancy,
        sources=[
            shapes.ReceiptSource(
                source=each.source,
                consistency=each.consistency,
                freshness=each.freshness,
                **({"observed_at": each.observed_at} if each.observed_at else {}),
            )
            for each in run.sources
        ],
        silent=[each.name for each in run.silent],
        **({"independence": run.independence} if run.independence else {}),
    )


def log_place(tenant_id: UUID, entry_hash: str, place: schemas.LogPlace | None) -> shapes.ReceiptLogPlace:
    """The log position of a subject's newest event, with its proof and checkpoint once one is signed."""
    only = shapes.ReceiptLogPlace(entry_hash=entry_hash, sealed=bool(place and place.sealed))
    head = log.current_log(tenant_id)
    if place is None or place.index is None or head is None or head.note is None or place.number != head.number:
        return only
    if place.index >= head.signed_size:
        return only
    path = proofs.inclusion_proof(tenant_id, head.number, place.index, head.signed_size)
    return shapes.ReceiptLogPlace(
        entry_hash=only.entry_hash,
        sealed=only.sealed,
        origin=head.origin,
        index=place.index,
        size=head.signed_size,
        path=[each.hex() for each in path],
        checkpoint=bytes(head.note).decode(),
    )
