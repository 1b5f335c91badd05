"""What an approval covers: exactly this payload, shown like this, under this policy, by this person, until then.

A voter signs a *statement*: canonical text that names everything in `Coverage` and everything about the vote
(ledger_and_binding 6.2). It is written once and read back by `read_statement`, its exact inverse; a changed field makes
another statement (B1), and the same payload of another action makes another one too (B8).

A vote counts when

1. the voter is a reviewer of the tenant (R-AP-11) and not the requester (R-AP-12),
2. the request is undecided (R-AP-17) and its time to decide is not over (R-AP-08),
3. payload and rendering are those on the voter's screen (R-AP-05, R-UI-04, B36),
4. the target is not frozen, if the vote approves (R-AP-23),
5. the voter proved who they are as strongly as the policy asks (D7): A passkey over the statement, B session with fresh
   TOTP, C session with fresh password,
6. a vote that does not approve gives a reason (R-AP-10, R-UI-03).

A release (claim and start, R-AP-24) counts when the approval is granted and not over, and payload, contract and policy
are still those that were approved (R-AP-05, R-AP-06, R-AP-09, B5, B17), and nothing is frozen (R-EX-15, B22).

Approval is permission and no more: nothing here says that anything happened (R-AP-19).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from ledger.rules.canonical import NotCanonical, canonical, digest, parse
from ledger.rules.refusals import Refused

DOMAIN = "counterfoil-approval-statement"
STATEMENT_VERSION = 1
MEDIA_TYPE = "application/json"
CANONICALISATION = "RFC 8785, integers only"
REVIEWER = "reviewer"
_NUMBERS = frozenset({"revision", "payload_length"})


class Verdict(StrEnum):
    """What a voter can say."""

    APPROVE = "approve"
    REJECT = "reject"
    REQUEST_CHANGES = "request_changes"


MEANING = {
    Verdict.APPROVE: "I have seen this request as rendered and I authorise one execution of exactly this payload.",
    Verdict.REJECT: "I have seen this request as rendered and I refuse it.",
    Verdict.REQUEST_CHANGES: "I have seen this request as rendered and I want another one in its place.",
}


class PayloadChanged(Refused):
    """The payload is not the one that was approved."""

    code = "PAYLOAD_CHANGED"


class PayloadHashMismatch(Refused):
    """The payload that the executor holds is not the one that was approved."""

    code = "PAYLOAD_HASH_MISMATCH"


class RenderingChanged(Refused):
    """The page showed another rendering than the one that counts now; reload it."""

    code = "RENDERING_CHANGED"


class AlreadyDecided(Refused):
    """The request was decided already."""

    code = "ALREADY_DECIDED"


class ApprovalLapsed(Refused):
    """The time to decide is over."""

    code = "APPROVAL_LAPSED"


class SelfApproval(Refused):
    """Nobody decides on their own request."""

    code = "SELF_APPROVAL"
    status = 403


class NotEligible(Refused):
    """Only a reviewer of this tenant may decide."""

    code = "NOT_ELIGIBLE"
    status = 403


class StepUpRequired(Refused):
    """The policy asks for a stronger proof of who you are."""

    code = "STEP_UP_REQUIRED"
    status = 403


class ReasonRequired(Refused):
    """A vote that does not approve says why."""

    code = "REASON_REQUIRED"
    status = 422


class ApprovalRequired(Refused):
    """The action has no approval that authorises it."""

    code = "APPROVAL_REQUIRED"


class ApprovalExpired(Refused):
    """The approval has expired."""

    code = "APPROVAL_EXPIRED"


class PolicyChanged(Refused):
    """The policy changed after the approval; it must be asked for again."""

    code = "POLICY_CHANGED"


class ContractChanged(Refused):
    """The tool's contract changed after the approval."""

    code = "CONTRACT_CHANGED"


class TargetFrozen(Refused):
    """The target, tool, agent or tenant is frozen."""

    code = "TARGET_FROZEN"


class NotAStatement(Refused):
    """The bytes are not a statement."""

    code = "NOT_A_STATEMENT"
    status = 422


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What an approval covers, fixed when it is asked for. A change of any of it needs a new approval."""

    installation: str
    tenant: str
    approval_id: str
    action_id: str
    revision: int
    payload_hash: str
    payload_length: int
    tool: str
    tool_version: str
    contract_digest: str
    target_resource: str
    side_effect_class: str
    reversibility: str
    agent: str
    agent_version: str
    run_id: str
    session_pin: str
    policy_version: str
    policy_digest: str
    policy_row: str
    step_up: str
    rendering_digest: str
    renderer: str


@dataclass(frozen=True, kw_only=True)
class Vote:
    """One person's answer: pseudonym, verdict, how they proved who they are, and until when it may be used."""

    statement_id: str
    voter: str
    role: str
    verdict: Verdict
    reason_commitment: str
    evidence_class: str
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class Voter:
    """The person at the page: pseudonym, roles in this tenant, and the strongest proof they gave just now."""

    actor: str
    roles: frozenset[str]
    evidence_class: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the voter's page held, sent back with the vote."""

    payload_hash: str
    rendering_digest: str


@dataclass(frozen=True, kw_only=True)
class Current:
    """What holds now of the things that an approval covers, and whether a freeze stops them."""

    payload_hash: str
    contract_digest: str
    policy_digest: str
    frozen: bool


def statement(coverage: Coverage, vote: Vote) -> bytes:
    """The canonical text that the voter signs."""
    return canonical(
        {
            "domain": DOMAIN,
            "version": STATEMENT_VERSION,
            "covers": asdict(coverage),
            "payload": {"media_type": MEDIA_TYPE, "canonicalisation": CANONICALISATION},
            "vote": {
                **asdict(vote),
                "verdict": vote.verdict.value,
                "meaning": MEANING[vote.verdict],
                "issued_at": _instant(vote.issued_at),
                "expires_at": _instant(vote.expires_at),
            },
        }
    )


def read_statement(data: bytes) -> tuple[Coverage, Vote]:
    """What a statement says; anything but bytes that `statement` writes is refused."""
    try:
        document = parse(data)
        coverage, vote = _coverage(document["covers"]), _vote(document["vote"])
        exact = statement(coverage, vote) == data
    except (NotCanonical, KeyError, TypeError, ValueError, AttributeError):
        raise NotAStatement from None
    if not exact:
        raise NotAStatement
    return coverage, vote


def statement_hash(data: bytes) -> str:
    """Names a statement; the challenge that a passkey signs is built from it."""
    return digest(data)


def check_vote(
    coverage: Coverage,
    *,
    verdict: Verdict,
    voter: Voter,
    requesters: frozenset[str],
    undecided: bool,
    decide_by: datetime,
    seen: Seen,
    frozen: bool,
    reason: str,
    at: datetime,
) -> None:
    """Nothing if the vote counts, else the refusal. `requesters` are all who stand behind the request."""
    _check_person(voter, requesters)
    if not undecided:
        raise AlreadyDecided
    if at >= decide_by:
        raise ApprovalLapsed
    if seen.payload_hash != coverage.payload_hash:
        raise PayloadChanged
    if seen.rendering_digest != coverage.rendering_digest:
        raise RenderingChanged
    if frozen and verdict is Verdict.APPROVE:
        raise TargetFrozen
    if not is_as_strong(voter.evidence_class, coverage.step_up):
        raise StepUpRequired
    if verdict is not Verdict.APPROVE and not reason.strip():
        raise ReasonRequired


def check_release(
    coverage: Coverage, *, granted: bool, release_by: datetime | None, now: Current, at: datetime
) -> None:
    """Nothing if the approval authorises an execution at `at`; else the refusal. Repeated at claim and at start."""
    if not granted or release_by is None:
        raise ApprovalRequired
    if at >= release_by:
        raise ApprovalExpired
    check_unapproved_release(
        payload_hash=coverage.payload_hash,
        contract_digest=coverage.contract_digest,
        policy_digest=coverage.policy_digest,
        now=now,
    )


def check_unapproved_release(*, payload_hash: str, contract_digest: str, policy_digest: str, now: Current) -> None:
    """The same for an action that needs no approval: still what was validated, and nothing frozen."""
    if now.payload_hash != payload_hash:
        raise PayloadChanged
    if now.contract_digest != contract_digest:
        raise ContractChanged
    if now.policy_digest != policy_digest:
        raise PolicyChanged
    if now.frozen:
        raise TargetFrozen


def is_as_strong(evidence_class: str, wanted: str) -> bool:
    """Whether a class of proof is at least the wanted one: A above B above C, anything else below all."""
    order = "ABC"
    return len(evidence_class) == 1 and evidence_class in order and order.index(evidence_class) <= order.index(wanted)


def _check_person(voter: Voter, requesters: frozenset[str]) -> None:
    if REVIEWER not in voter.roles:
        raise NotEligible
    if voter.actor in requesters:
        raise SelfApproval


def _coverage(said: dict[str, Any]) -> Coverage:
    if any(type(value) is not (int if name in _NUMBERS else str) for name, value in said.items()):
        raise TypeError("a covered field has the wrong type")
    return Coverage(**said)


def _vote(said: dict[str, Any]) -> Vote:
    if any(type(value) is not str for value in said.values()):
        raise TypeError("a field of the vote has the wrong type")
    return Vote(
        statement_id=said["statement_id"],
        voter=said["voter"],
        role=said["role"],
        verdict=Verdict(said["verdict"]),
        reason_commitment=said["reason_commitment"],
        evidence_class=said["evidence_class"],
        issued_at=datetime.fromisoformat(said["issued_at"]),
        expires_at=datetime.fromisoformat(said["expires_at"]),
    )


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
