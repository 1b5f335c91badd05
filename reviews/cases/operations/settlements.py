"""Writes, verifies and stores the signed statement behind a settlement."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from ledger.actions.queries import actions
from ledger.people.operations.statements import SignedStatement, declaration_fields
from ledger.people.rules.statements import statement_hash
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from ledger.record.rules.envelope import commitment
from ledger.record.rules.outcomes import PASSKEY, SESSION_ALONE
from reviews import queries
from reviews.cases.rules import settlements as rules
from reviews.cases.rules.resolutions import HeldAction, Resolution
from reviews.cases.rules.settlements import Act, Coverage, Settlement
from reviews.models import Case

if TYPE_CHECKING:
    from ledger.models import Action

_PURPOSE = "settlement"


@dataclass(frozen=True, kw_only=True)
class SettlementProof:
    """The proof behind a settlement: the person, their proof of identity, and the content of their page.

    `policy` is the class that the approval policy asks for this action, `head` the log's newest signed head.
    """

    person: str
    evidence_class: str = SESSION_ALONE
    policy: str = "C"
    seen: str = ""
    head: Mapping[str, Any] = field(default_factory=lambda: {"log_origin": "", "log_size": 0, "log_root": ""})
    signed: SignedStatement | None = None
    # The passkey that is to sign, where the statement is yet to be signed.
    credential_id: str = ""


def statement_detail(made: SignedStatement) -> dict[str, str]:
    """Return the event's part about a statement; with the salt a reader can check the text against it."""
    return {
        "statement_hash": statement_hash(made.statement),
        "evidence_class": made.evidence_class,
        "words_salt": made.salt.hex(),
    }


def coverage(case: Case, held: HeldAction) -> Coverage:
    """Everything that settling a case covers, from the record (never from the page)."""
    action = actions.action(case.tenant_id, case.action_id) if case.action_id else None
    newest = events.event(case.tenant_id, action.id, action.seq) if action else None
    kept = evidence_queries.evidence_of(case.tenant_id, queries.action_id_of(case)) if action else _of_stray(case)
    return Coverage(
        installation=settings.COUNTERFOIL_PUBLIC_URL,
        environment=settings.COUNTERFOIL_ENVIRONMENT,
        tenant=str(case.tenant_id),
        case_id=str(case.id),
        case_reason=case.reason,
        action_id=str(action.id) if action else "",
        state=str(held.state) if action else "",
        contradicted=held.contradicted,
        discrepancy=case.discrepancy,
        payload_hash=action.payload_hash if action else "",
        payload_commitment=_payload(action) if action else "",
        tool=case.tool,
        contract_digest=action.contract_digest if action else "",
        target_resource=case.target,
        side_effect_class=case.side_effect_class,
        reversibility=str(held.reversibility),
        evidence=tuple(each.commitment for each in kept),
        record_seq=newest.seq if newest else 0,
        record_hash=bytes(newest.entry_hash).hex() if newest else "",
    )


def _payload(action: Action) -> str:
    return evidence_queries.commitment_of(action.tenant_id, action.payload_pointer) if action.payload_pointer else ""


def _of_stray(case: Case) -> list[Any]:
    """The evidence of an ungated effect; statements about it are not included."""
    return [each for each in evidence_queries.evidence_of(case.tenant_id, case.id) if each.purpose == "ungated_effect"]


def write_statement(
    covers: Coverage,
    held: HeldAction,
    *,
    act: Act,
    resolution: Resolution,
    reason: str,
    evidence: list[str],
    over: str = "",
    by: ledger.Actor,
    proof: SettlementProof,
    salt: bytes,
    at: datetime,
) -> bytes:
    """Write the statement of a person who settles a case now."""
    said = Settlement(
        by=str(by.id),
        act=act,
        resolution=resolution,
        consequence=rules.describe_consequence(held, resolution),
        over=over,
        words_commitment=commitment(_PURPOSE, salt, rules.typed_words(reason, evidence)),
        **declaration_fields(
            person=proof.person,
            evidence_class=proof.evidence_class,
            credential_id=proof.credential_id,
            head=proof.head,
            at=at,
        ),
    )
    return rules.statement(covers, said, held=held)


def accept_statement(
    case: Case,
    held: HeldAction,
    *,
    act: Act,
    resolution: Resolution,
    reason: str,
    evidence: list[str],
    over: str = "",
    by: ledger.Actor,
    proof: SettlementProof,
    at: datetime,
) -> SignedStatement:
    """Return the statement of this settlement, if it counts; the case and its action are locked by the caller."""
    covers = coverage(case, held)
    wanted = rules.required_proof(held, resolution, policy=proof.policy)
    rules.check_settlement(covers, seen=proof.seen, wanted=wanted, given=proof.evidence_class)
    if proof.signed is None:
        salt = secrets.token_bytes(32)
        text = write_statement(
            covers,
            held,
            act=act,
            resolution=resolution,
            reason=reason,
            evidence=evidence,
            over=over,
            by=by,
            proof=proof,
            salt=salt,
            at=at,
        )
        return SignedStatement(statement=text, salt=salt, evidence_class=proof.evidence_class)
    signed = proof.signed
    said_covers, said = rules.read_statement(signed.statement)
    is_meant = said.says(
        by=str(by.id),
        person=proof.person,
        act=act,
        resolution=resolution,
        consequence=rules.describe_consequence(held, resolution),
        over=over,
        words_commitment=commitment(_PURPOSE, signed.salt, rules.typed_words(reason, evidence)),
        evidence_class=PASSKEY,
        credential_id=signed.credential_id,
    )
    if said_covers != covers or at >= said.expires_at or not is_meant:
        raise rules.CasePageChanged
    return signed


def signed_proposal(case: Case) -> tuple[bytes, tuple[Coverage, Settlement]]:
    """Return the statement signed by the person who proposed the end of this case; raise `ProposalChanged` if it is
    missing.
    """
    try:
        pointer = case.proposed_statement
        text = evidence_queries.open_evidence(case.tenant_id, pointer) if pointer is not None else None
    except (CannotOpen, EvidenceErased):
        text = None
    if text is None:
        raise rules.ProposalChanged
    return text, rules.read_statement(text)


def store_evidence(
    tenant_id: UUID, subject_id: UUID, parts: Mapping[str, bytes], *, at: datetime
) -> tuple[ledger.SealedEvidence, ...]:
    """Store these parts as evidence of a subject, without the empty ones."""
    return tuple(
        ledger.store_evidence(
            tenant_id=tenant_id,
            subject_id=subject_id,
            purpose=purpose,
            data=data,
            media_type="application/json",
            source="person",
            at=at,
        )
        for purpose, data in parts.items()
        if data
    )
