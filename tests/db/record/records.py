"""A small record with something of everything, and the means to forge one more event of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.record import operations
from ledger.record.operations import Actor, NewEvent, SubjectHead
from ledger.record.rules import envelope
from ledger.record.rules.canonical import canonical
from ledger.record.rules.entry import amend
from ledger.record.rules.envelope import Commitment, Envelope, instant
from ledger.record.rules.lifecycle import Ground
from tests.support.builders import AT, propose
from tests.support.callers import put_in_force

APPEND = "SELECT ledger_append(%s, %s, %s, %s, %s, %s, %s::jsonb)"
CONTRACT = {
    "name": "look_up",
    "version": "1.0.0",
    "schema_version": "1",
    "wrapper_version": "1",
    "description": "Use when: needed. NOT for: fun.",
    "arguments_schema": {"type": "object", "properties": {}, "additionalProperties": False},
    "side_effect_class": "READ_ONLY",
    "target_resource": "orders",
}

APPROVAL = {"required": True, "approval_id": "a-1", "approver_id": None, "payload_hash": "0" * 64, "expires_at": None}


@dataclass(frozen=True, kw_only=True)
class Record:
    """What `fill` made."""

    tenant: UUID
    action: SubjectHead
    contract: UUID
    policy: UUID
    payload: UUID


def fill(slug: str, *, actions: int = 1, at: datetime = AT) -> Record:
    """Found a tenant and write a contract, a superseded policy, and actions on their way."""
    tenant = registration.set_up_tenant(
        tenant_id=operations.new_id(at), slug=slug, name=slug, host="console.test", at=at
    ).id
    person = Actor("person", uuid4())
    with tenancy(tenant):
        document = contract.validate(CONTRACT, compile_predicate=lambda text: None)
        registered = registration.register_contract(tenant_id=tenant, contract=document, actor=person, at=at)
        policy = put_in_force(tenant, "approval", "2", default_policy("approval") | {"version": "2"}, at=at)
        heads = [executing(tenant, at=at) for _ in range(actions)]
    action, payload = heads[-1]
    return Record(tenant=tenant, action=action, contract=registered.id, policy=policy.id, payload=payload)


def executing(tenant: UUID, *, at: datetime = AT) -> tuple[SubjectHead, UUID]:
    """An action with a payload that is being executed, in three events, and where the payload is."""
    head = propose(tenant, at=at)
    payload = operations.store_evidence(
        tenant_id=tenant,
        subject_id=head.id,
        purpose="payload",
        data=canonical({"amount": 100}),
        media_type="application/json",
        source="agent",
        at=at,
    )
    validated = NewEvent(
        kind="validated",
        to="VALIDATED",
        changes={"timestamps": {"validated_at": instant(at)}, "approval": APPROVAL},
        detail={"because": "checks passed"},
        evidence=(payload,),
        view={"approval_id": str(uuid4())},
    )
    started = NewEvent(
        kind="execution_started",
        to="EXECUTING",
        grounds=frozenset({Ground.RELEASED}),
        changes={
            "execution": {"status": "EXECUTING", "attempt_count": 1},
            "timestamps": {"executed_at": instant(at)},
        },
        view={"horizon_at": instant(at)},
    )
    head = operations.append(head, validated, actor=operations.SYSTEM, at=at)
    return operations.append(head, started, actor=Actor("executor", uuid4()), at=at), payload.pointer


def forged(
    head: SubjectHead,
    *,
    entry: Mapping[str, Any] | None = None,
    detail: Mapping[str, Any] | None = None,
    view: Mapping[str, Any] | None = None,
    **changes: Any,
) -> tuple[Any, ...]:
    """The arguments of `ledger_append` for an event after `head` that nobody's rules have looked at."""
    salts = secrets.token_bytes(32), secrets.token_bytes(32)
    snapshot = entry if entry is not None else head.entry
    kept = canonical(dict(snapshot)) if snapshot is not None else None, canonical(detail) if detail else None
    fields = {
        "origin": operations.tenant_origin(head.tenant_id),
        "id": str(operations.new_id(AT)),
        "kind": "forged",
        "subject_kind": head.kind,
        "subject_id": str(head.id),
        "seq": head.seq + 1,
        "prev": head.hash.hex() if head.hash else None,
        "from_state": head.state,
        "to_state": head.state,
        "actor_kind": "system",
        "actor_id": str(operations.SYSTEM_ACTOR),
        "at": AT,
        "commitments": tuple(
            Commitment(purpose, None, len(data), envelope.commitment(purpose, salt, data))
            for purpose, salt, data in zip(("entry", "detail"), salts, kept, strict=True)
            if data is not None
        ),
    }
    written = envelope.write(Envelope(**(fields | changes)))
    said = kept[0] and salts[0], kept[0], kept[1] and salts[1], kept[1], json.dumps(view or {})
    return head.tenant_id, written, *said


def next_entry(head: SubjectHead, **changes: Any) -> dict[str, Any]:
    assert head.entry is not None
    return amend(head.entry, changes)
