"""Sign a settlement with a passkey: challenge, proof and the page's context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.http import HttpRequest

from approvals.policy.operations import policy_evaluation
from approvals.policy.rules.policy import strongest_step_up
from approvals.voting.operations import challenges, signatures
from approvals.voting.queries import approvers
from console.accounts.sign_in.queries import authenticator_app
from console.accounts.step_up import proof_class, session_hash
from console.edge.auth import Caller
from console.web import labels
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.people.operations.statements import SignedStatement, signed_log_head
from ledger.people.queries import is_same_person, person_behind
from ledger.people.rules.statements import coverage_digest
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.outcomes import PASSKEY
from ledger.record.rules.refusals import NotFound
from reviews import queries
from reviews.cases.operations import cases, settlements
from reviews.cases.rules import resolutions
from reviews.cases.rules import settlements as rules
from reviews.cases.rules.resolutions import HeldAction, Resolution
from reviews.cases.rules.settlements import Act

if TYPE_CHECKING:
    from console.models import User
    from ledger.models import Action
    from reviews.models import Case


@dataclass(frozen=True, kw_only=True)
class SettlementDraft:
    """The settlement to sign: a resolution, or the confirmation of a proposal if `resolution` is None.

    `covers` is the digest of what their page showed.
    """

    covers: str
    resolution: Resolution | None = None
    reason: str = ""
    evidence: list[str] = field(default_factory=list)
    credential_id: str = ""


def required_class(case: Case, *, at: datetime) -> str:
    """The class of proof that the approval policy in force requires for the action of a case; the strongest that it
    knows where the payload cannot be opened.
    """
    version = catalogue_queries.active_policies(case.tenant_id)["approval"]
    policy = policy_evaluation.rules_of(version)
    action = actions.action(case.tenant_id, case.action_id) if case.action_id else None
    if action is None or action.payload_pointer is None:
        return policy.step_up
    try:
        return policy_evaluation.reevaluate_policy(action, rules=policy, at=at)[0].terms.step_up
    except CannotOpen:
        return strongest_step_up(policy)


def settlement_proof(
    caller: Caller,
    case_id: UUID,
    *,
    evidence_class: str,
    covers: str,
    signed: SignedStatement | None = None,
    at: datetime,
) -> settlements.SettlementProof:
    """The proof with which this caller signs a settlement."""
    case = queries.case(caller.tenant_id, case_id)
    if case is None:
        raise NotFound("Case")
    return settlements.SettlementProof(
        person=str(person_behind(caller.tenant_id, caller.actor.id)),
        evidence_class=evidence_class,
        policy=required_class(case, at=at),
        seen=covers,
        head=signed_log_head(caller.tenant_id),
        signed=signed,
    )


def create_challenge(
    request: HttpRequest, caller: Caller, case_id: UUID, said: SettlementDraft, *, at: datetime
) -> challenges.PasskeyChallenge:
    """Write the statement of a settlement that would count now, for one passkey to sign; refuse whatever the settlement
    would refuse.
    """
    key = challenges.active_approver_key(caller.tenant_id, caller.actor.id, said.credential_id)
    given = settlement_proof(caller, case_id, evidence_class=PASSKEY, covers=said.covers, at=at)
    made = cases.draft_statement(
        tenant_id=caller.tenant_id,
        case_id=case_id,
        resolution=said.resolution,
        reason=said.reason,
        evidence=said.evidence,
        by=caller.actor,
        proof=replace(given, credential_id=key.credential_id),
        at=at,
    )
    return challenges.create_challenge(
        tenant_id=caller.tenant_id,
        about_id=case_id,
        actor_id=caller.actor.id,
        session_hash=session_hash(request),
        verdict="settle" if said.resolution else "confirm",
        reason=said.reason,
        statement=made.statement,
        salt=made.salt,
        credential_id=key.credential_id,
        at=at,
    )


@dataclass(frozen=True, kw_only=True)
class GivenProof:
    """The proof given with a settlement: its class, "" if it was wrong, and the coverage of the page."""

    evidence_class: str
    covers: str
    challenge_id: UUID | None = None
    assertion: Any = None


def verify_identity(request: HttpRequest, said: Mapping[str, Any], user: User) -> GivenProof:
    """Verify a person's proof of identity; a wrong password counts towards the lock."""
    held = {name: said.get(name) for name in ("challenge_id", "assertion")}
    wanted = PASSKEY if held["assertion"] else proof_class(request, user, said.get("password"), said.get("otp"))
    return GivenProof(evidence_class=wanted, covers=said.get("covers") or "", **held)


def verified_proof(
    request: HttpRequest, caller: Caller, case_id: UUID, given: GivenProof, *, at: datetime
) -> settlements.SettlementProof:
    """Return the proof for the settlement; verify a passkey's signature, and use up its challenge."""
    signed = _signed_statement(request, caller, case_id, given, at=at) if given.assertion else None
    evidence_class, covers = given.evidence_class, given.covers
    return settlement_proof(caller, case_id, evidence_class=evidence_class, covers=covers, signed=signed, at=at)


def _signed_statement(
    request: HttpRequest, caller: Caller, case_id: UUID, given: GivenProof, *, at: datetime
) -> SignedStatement:
    answer = signatures.ChallengeAnswer(
        challenge_id=given.challenge_id or UUID(int=0), session_hash=session_hash(request), assertion=given.assertion
    )
    opened = signatures.consume_challenge(caller.tenant_id, case_id, str(caller.actor.id), answer, at=at)
    return signatures.verify_signature(opened, lambda _: None, at=at)


def signing_terms(held: HeldAction, resolution: Resolution, *, policy: str, act: Act) -> dict[str, str]:
    """The terms of a settlement: the declaration, the consequence, and the required proof."""
    return {
        "label": labels.resolution_label(str(resolution), held.reading.difference),
        "proof": rules.required_proof(held, resolution, policy=policy),
        "meaning": rules.declaration(held, resolution, act),
        "consequence": rules.describe_consequence(held, resolution),
    }


def confirm_refusal(case: Case, caller: Caller) -> str:
    """The reason why this caller may not confirm the proposal; empty if they may."""
    is_proposer = is_same_person(case.tenant_id, case.proposed_by, caller.actor.id)
    refusal = resolutions.refuse_second(roles=caller.roles, is_proposer=is_proposer)
    return refusal.detail if refusal else ""


def signing_context(case: Case, held: HeldAction, caller: Caller, *, challenge_at: str, at: datetime) -> dict[str, Any]:
    """The data with which the page has a settlement signed, and the digest that makes changes visible."""
    return {
        "covers": coverage_digest(settlements.coverage(case, held)),
        "policy": required_class(case, at=at),
        "keys": approvers.approver_keys(case.tenant_id, actor_id=caller.actor.id, states=["ACTIVE"]),
        "has_code": authenticator_app(caller.user) is not None,
        "challenge_at": challenge_at,
    }


BY_A_PERSON: Final = frozenset(
    {"attested_present", "accepted_as_it_is", "attested_absent", "failed_by_review", "abandoned"}
)
"""The kinds of event by which a person's decision ends an action."""


@dataclass(frozen=True, kw_only=True)
class SettlementRecord:
    """One person's decision as recorded: the resolution, its confirmer, and the time.

    `evidence_class` is the class of its signature, empty without one.
    """

    resolution: str
    by: UUID
    confirmed_by: UUID | None
    reason: str
    evidence: tuple[str, ...]
    evidence_class: str
    at: datetime

    def sentence(self, names: Mapping[UUID, str], difference: str = "") -> str:
        """Return the decision in words; `difference` is the accepted difference, if there is one."""
        done = labels.SETTLED_AS.get(self.resolution, f"decided: {labels.sentence_case(self.resolution).lower()}")
        if self.resolution == Resolution.ACCEPT and difference:
            done += f" ({difference})"
        second = f", confirmed by {names.get(self.confirmed_by, 'somebody')}" if self.confirmed_by else ""
        return f"{names.get(self.by, 'Somebody')} {done}{second}"


def settlement_of_action(action: Action, history: Callable[[], Iterable[Any]]) -> SettlementRecord | None:
    """Return the person's decision that ended the action, or None; read its history only if there is one."""
    if action.contradicted or action.reached_by not in BY_A_PERSON:
        return None
    return _newest(history(), lambda event, _: event.kind == action.reached_by)


def settlement_of_case(case: Case, history: Iterable[Any]) -> SettlementRecord | None:
    """The settlement of a case, from its action's history; None if it is open, or the history was erased."""
    if case.state != "RESOLVED":
        return None
    return _newest(history, lambda _, detail: detail.get("case_id") == str(case.id))


def _newest(history: Iterable[Any], fits: Callable[[Any, Mapping[str, Any]], bool]) -> SettlementRecord | None:
    for event, _, detail in reversed(list(history)):
        if detail and detail.get("resolution") and fits(event, detail):
            return SettlementRecord(
                resolution=detail["resolution"],
                by=UUID(detail["by"]),
                confirmed_by=UUID(detail["confirmed_by"]) if detail["confirmed_by"] else None,
                reason=detail["reason"],
                evidence=tuple(detail["evidence"]),
                evidence_class=detail.get("evidence_class") or "",
                at=event.at,
            )
    return None
