"""Everything that is proposed to a second person, and the calls by which it is answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from approvals.models import ApproverKey
from console.accounts.members import operations as people
from console.models import ApiKey
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration, releases, second_person
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.record.operations import Actor
from ledger.retention.operations import erasure, retention
from ledger.retention.rules.retention import RetentionPolicy
from tests.support.callers import drafted
from tests.support.scenes import CONTRACTS, PASSWORD, Stage
from tests.support.signing import enrolled


def now() -> datetime:
    return datetime.now(UTC)


def by(place: Any) -> Actor:
    """A member, or an API key of an operator."""
    return Actor("operator" if isinstance(place, ApiKey) else "person", place.actor_id)


def weaker_contract(stage: Stage, place: Any) -> str:
    document = json.loads((CONTRACTS / "issue_refund.json").read_text())
    document |= {"version": "9.0.0", "claims": document["claims"] | {"done": document["claims"]["done"][:1]}}
    contract = contracts.validate(document, compile_predicate=lambda text: None)
    with tenancy(stage.tenant):
        registration.register_contract(tenant_id=stage.tenant, contract=contract, actor=by(place), at=now())
    return "contracts/issue_refund/9.0.0"


def moved_system(stage: Stage, place: Any) -> str:
    with tenancy(stage.tenant):
        known = catalogue_queries.system(stage.tenant, "shop")
        assert known is not None
        moved = {**known.settings, "root": "elsewhere"}
        second_person.submit_system(
            tenant_id=stage.tenant,
            name="shop",
            pattern=known.pattern,
            settings=moved,
            actor=by(place),
            at=now(),
        )
    return "systems/shop"


def release(stage: Stage, place: Any) -> str:
    document = default_policy("verification") | {"version": "2", "repeat_limit": 5}
    word = {"reason": "Its gates are passed.", "is_proven": True}
    with tenancy(stage.tenant):
        row = drafted(stage.tenant, "verification", "2", document, at=now())
        releases.promote_release(tenant_id=stage.tenant, release_id=row.id, by=by(place), at=now(), **word)
    return f"releases/{row.id}"


def erasure_request(stage: Stage, place: Any) -> str:
    why = {"legal_basis": "GDPR Art. 17", "reason": "Asked for by the customer."}
    wish = erasure.ErasureRequest(subjects=(stage.done(),), **why)
    with tenancy(stage.tenant):
        row = erasure.request_erasure(tenant_id=stage.tenant, request=wish, by=by(place), at=now())
    return f"erasures/{row.id}"


def retention_policy(stage: Stage, place: Any) -> str:
    policy = RetentionPolicy(payload_days=400)
    with tenancy(stage.tenant):
        row = retention.propose_policy(tenant_id=stage.tenant, policy=policy, by=by(place), at=now())
    return f"retention/{row.id}"


def own_group(stage: Stage, place: Any) -> str:
    with tenancy(stage.tenant):
        people.change_member(
            tenant_id=stage.tenant,
            member_id=place.id,
            roles=frozenset({"reviewer", "operator", "compliance", "administrator"}),
            groups=["finance"],
            by=by(place),
            by_person=place.person_id,
            is_proven=True,
            at=now(),
        )
    return f"members/{place.id}"


def passkey(stage: Stage, place: Any) -> str:
    enrolled(stage.tenant, place.actor_id, confirmed=False)
    with tenancy(stage.tenant):
        key: UUID = ApproverKey.objects.get(tenant_id=stage.tenant, actor_id=place.actor_id).id
    return f"approver-keys/{key}"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """How something is proposed, and the calls that answer it: ends of the path that `propose` returns, and bodies."""

    propose: Callable[[Stage, Any], str]
    confirm: tuple[str, dict[str, Any]]
    stops: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    page: str


WHY = {"reason": "I have looked at it."}
_CONFIRM, _DECLINE = {"confirm": True}, {"confirm": False}
PROPOSALS = {
    "contract": Proposal(
        propose=weaker_contract,
        confirm=("answer", _CONFIRM | WHY),
        stops={"decline": ("answer", _DECLINE | WHY)},
        page="contract-answer",
    ),
    "system": Proposal(
        propose=moved_system,
        confirm=("answer", _CONFIRM | WHY),
        stops={"decline": ("answer", _DECLINE | WHY)},
        page="system-answer",
    ),
    "release": Proposal(
        propose=release, confirm=("promotion", WHY), stops={"decline": ("end", WHY)}, page="release-promote"
    ),
    "erasure": Proposal(
        propose=erasure_request,
        confirm=("confirm", {}),
        stops={"decline": ("refuse", WHY), "withdraw": ("withdraw", WHY)},
        page="erasure-answer",
    ),
    "retention": Proposal(
        propose=retention_policy,
        confirm=("confirm", {}),
        stops={"withdraw": ("withdraw", WHY)},
        page="retention-answer",
    ),
    "member": Proposal(
        propose=own_group, confirm=("answer", _CONFIRM), stops={"decline": ("answer", _DECLINE)}, page="member-answer"
    ),
    "key": Proposal(
        propose=passkey, confirm=("confirm", {}), stops={"decline": ("refuse", WHY)}, page="approver-key-answer"
    ),
}
PROOF = {"password": PASSWORD}
