"""Signed receipts: one action as the receipts of draft-farley-acta-signed-receipts-04, for tools that read that format.

1. A receipt is `payload` and `signature`: Ed25519 over the payload's RFC 8785 bytes, in lower-case hex, by the key that
   signs grants. Those bytes begin with a brace, a grant's with its header in Base64 and an effect receipt's with
   `DSSEv1`, so that none of the three can stand for another.
2. The first receipt is the draft's access decision: what policy or people said. A decision is no execution, so what
   ran, what the system showed and how it ended stand in a second one, once there was a start; it names the first.
3. Members that the draft defines have its names and meaning; what it has no name for stands in the members that the
   effect receipt has. What it leaves open and nothing here can fill is not there: null would change the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from approvals.execution.operations import grant_keys
from approvals.execution.rules.grants import GrantKey
from console.actions import schemas
from console.actions.erased_pages import erased_page
from console.actions.routes.actions import visible_action
from console.actions.routes.effect_receipts import effect_statement
from console.edge.auth import Caller, admits, caller_of
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.edge.transaction import in_tenancy, record_read
from ledger.actions.queries import actions
from ledger.record.queries import events, evidence

if TYPE_CHECKING:
    from ledger.models import Action

router = Router(tags=["Actions"])
DECISION: Final = "protectmcp:decision"
EFFECT: Final = "counterfoil:effect"


@router.get(
    "/actions/{action_id}/signed-receipts",
    summary="An action as signed receipts: Ed25519 over RFC 8785, as draft-farley-acta-signed-receipts-04 has them",
    response=schemas.SignedReceipts,
)
@admits("oper", "audit", "person")
@in_tenancy
def get_signed_receipts(request: HttpRequest, action_id: UUID) -> schemas.SignedReceipts:
    action = visible_action(request, action_id)
    record_read(request, "action", action.id)
    return schemas.SignedReceipts.of({"receipts": action_receipts(action, caller_of(request), at=timezone.now())})


@in_tenant()
def download_signed_receipts(request: TenantRequest, action_id: UUID) -> HttpResponse:
    """The same receipts from the action's page, one a line."""
    action = actions.action(request.tenant.id, action_id)
    if action is None:
        raise Http404
    record_page_view(request, "action", action.id)
    if gone := erased_page(request, "action", action.id):
        return gone
    signed = action_receipts(action, request.caller, at=request.as_of)
    answer = HttpResponse(b"".join(rfc8785.dumps(each) + b"\n" for each in signed), content_type="application/jsonl")
    answer["Content-Disposition"] = f'attachment; filename="signed-receipts-{action.id}.jsonl"'
    return answer


def action_receipts(action: Action, caller: Caller, *, at: datetime) -> list[dict[str, Any]]:
    """The decision on an action and, once it was started, what became of it (rule 2)."""
    key = grant_keys.signing_key(at)
    said = effect_statement(action, caller, at=at).document()["predicate"]
    common = {
        "issued_at": said["issued_at"],
        "issuer_id": GrantKey(key.public_key(), since=at).kid,
        "tool_name": action.tool,
        "session_id": str(action.session_id),
        "action": said["action"],
        "log": said["log"],
        **_payload_digest(action),
    }
    decision, reason = _decision(said["allowed"])
    first = sign_receipt(
        {
            "type": DECISION,
            "decision": decision,
            "reason": reason,
            **_policy_digest(action),
            "allowed": said["allowed"],
            **common,
        },
        key,
    )
    if not said["ran"]:
        return [first]
    effect = {name: said[name] for name in ("ran", "shown", "ended")}
    return [first, sign_receipt({"type": EFFECT, "previousReceiptHash": receipt_hash(first), **effect, **common}, key)]


def sign_receipt(payload: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """A receipt over a payload, which names its issuer as the signature does (rule 1)."""
    signature = key.sign(rfc8785.dumps(dict(payload))).hex()
    return {
        "payload": dict(payload),
        "signature": {"alg": "EdDSA", "kid": payload["issuer_id"], "sig": signature},
    }


def receipt_hash(receipt: Mapping[str, Any]) -> str:
    """The hash by which the next receipt refers to this one; it covers the signature too."""
    return _digest(rfc8785.dumps(dict(receipt)))


def policy_digest(document_hash: str) -> str:
    """The draft's digest of a policy that is one document, by the SHA-256 of its RFC 8785 bytes."""
    manifest: dict[str, Any] = {
        "construction": "acta-policy-digest-v1",
        "engine": "counterfoil",
        "files": [{"name": "policy.json", "sha256": document_hash}],
    }
    return _digest(rfc8785.dumps(manifest))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _decision(allowed: Mapping[str, Any]) -> tuple[str, str]:
    """The draft's word for the decision, and the reason in ours."""
    if allowed["by"] == "policy":
        return "allow", "policy"
    match allowed["decision"]:
        case "WAITING":
            return "require_approval", "waiting_for_people"
        case "APPROVED":
            return "allow", f"approved_by_{allowed['by']}"
        case other:
            return "deny", str(other).lower()


def _policy_digest(action: Action) -> dict[str, str]:
    """The approval policy that decided last; empty if the entry that names it was erased."""
    entry = events.entry(action.tenant_id, action.id, action.seq) or {}
    document_hash = entry.get("policy_context", {}).get("approval_policy_digest")
    return {"policy_digest": policy_digest(document_hash)} if document_hash else {}


def _payload_digest(action: Action) -> dict[str, Any]:
    """The approved bytes by their hash and size, none of them in clear."""
    row = evidence.evidence(action.tenant_id, action.payload_pointer) if action.payload_pointer else None
    return {"payload_digest": {"hash": action.payload_hash, "size": row.length}} if row is not None else {}
