"""Binds an approval to exactly one payload, rendering, policy, person and deadline.

A voter signs a *statement* (`ledger.people.rules.statements`): canonical text that names everything in `Coverage` and
everything about the vote. The same payload of another action makes another statement (B8).
What it covers is read again when the vote arrives: a statement about anything else than what holds then is refused, and
the refusal names the first difference (`check_covered`).

A vote counts when

1. the voter is a reviewer of the tenant (R-AP-11) and not the requester (R-AP-12),
2. the request is undecided (R-AP-17) and its time to decide is not over (R-AP-08),
3. payload and rendering are those on the voter's screen (R-AP-05, R-UI-04, B36),
4. the target is not frozen, if the vote approves (R-AP-23),
5. the voter proved who they are as strongly as the policy asks (D7): A passkey over the statement, B session with fresh
   TOTP, C session with fresh password. Saying no is never blocked by that: a vote that does not approve counts with the
   session alone (D), and says so,
6. a vote that does not approve gives a reason (R-AP-10, R-UI-03),
7. a vote that authorises says whether the target had been read, as it was; without a reading it says that its voter
   knows so (`check_reading`).

A release (claim and start, R-AP-24) counts when the approval is granted and not over, and payload, contract and policy
are still those that were approved (R-AP-05, R-AP-06, R-AP-09, B5, B17), and nothing is frozen (R-EX-15, B22).

Approval is permission and no more: nothing here says that anything happened (R-AP-19).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from ledger.people.rules.statements import Declaration, NotAStatement, StatementForm, coverage_digest
from ledger.record.rules.canonical import parse
from ledger.record.rules.outcomes import SESSION_ALONE, is_as_strong
from ledger.record.rules.refusals import AlreadyDecided, ProofNeeded, ReasonMissing, Refused

REVIEWER = "reviewer"
OPERATOR = "operator"
# The group that every active approver is in without being named.
EVERYBODY = "reviewers"
MAX_USES = 1


class VoteChoice(StrEnum):
    """The choices of a voter."""

    APPROVE = "approve"
    REJECT = "reject"
    REQUEST_CHANGES = "request_changes"
    BREAK_GLASS = "break_glass"


MEANING = {
    VoteChoice.APPROVE: "I have seen this request as rendered and I authorise one execution of exactly this payload.",
    VoteChoice.REJECT: "I have seen this request as rendered and I refuse it.",
    VoteChoice.REQUEST_CHANGES: "I have seen this request as rendered and I want another one in its place.",
    VoteChoice.BREAK_GLASS: (
        "I have seen this request as rendered and, in an emergency, I alone authorise one execution of exactly this"
        " payload. Others will review that."
    ),
}

WITHOUT_READING: Final = "I do so knowing that its target has not been read."

AUTHORISING = frozenset({VoteChoice.APPROVE, VoteChoice.BREAK_GLASS})
DENYING = frozenset({VoteChoice.REJECT, VoteChoice.REQUEST_CHANGES})


class PayloadChanged(Refused):
    """The payload differs from the one that was approved."""

    code = "PAYLOAD_CHANGED"


class PayloadHashMismatch(Refused):
    """The executor's payload differs from the one that was approved."""

    code = "PAYLOAD_HASH_MISMATCH"


class RenderingChanged(Refused):
    """The page has changed since it was shown; reload it."""

    code = "RENDERING_CHANGED"


class StatementChanged(Refused):
    """What a vote covers has changed since it was shown; read it again."""

    code = "STATEMENT_CHANGED"


class TargetUnread(Refused):
    """The target has not been read. Acknowledge that to approve without a reading."""

    code = "TARGET_UNREAD"
    status = 422


class ApprovalLapsed(Refused):
    """The deadline has passed."""

    code = "APPROVAL_LAPSED"


class RequestWithdrawn(Refused):
    """The agent may no longer have this done; the request is withdrawn."""

    code = "REQUEST_WITHDRAWN"


class SelfApproval(Refused):
    """You cannot decide on your own request."""

    code = "SELF_APPROVAL"
    status = 403


class NotEligible(Refused):
    """Only a reviewer of this tenant may decide."""

    code = "NOT_ELIGIBLE"
    status = 403


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


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Everything that an approval covers, fixed when it is requested. Any change needs a new approval.

    `payload_commitment` is the salted one that the record keeps when the payload is erased; `precondition` and
    `preflight_digest` name what the target was like and what the trial run found, where that was read.
    `evidence_commitment` is the record's salted commitment to what the agent said that its call rests on; "" if it
    said nothing.
    """

    installation: str
    environment: str
    tenant: str
    approval_id: str
    action_id: str
    revision: int
    payload_hash: str
    payload_commitment: str
    payload_length: int
    evidence_commitment: str
    tool: str
    tool_version: str
    contract_digest: str
    target_resource: str
    precondition: str
    side_effect_class: str
    reversibility: str
    amount: str
    currency: str
    max_uses: int
    agent: str
    agent_version: str
    run_id: str
    session_pin: str
    on_behalf_of: str
    policy: str
    policy_version: str
    policy_digest: str
    policy_row: str
    quorum_digest: str
    step_up: str
    preflight_digest: str
    rendering_digest: str
    renderer: str
    locale: str


@dataclass(frozen=True, kw_only=True)
class VoteStatement(Declaration):
    """One person's answer, and the capacity in which they give it.

    `voter` is the account's pseudonym; `delegated_by` is whose power it uses, or "". `without_reading` is said by a
    voter who authorises an action whose target has not been read.
    """

    voter: str
    role: str
    groups: tuple[str, ...]
    delegated_by: str
    verdict: VoteChoice
    reason_commitment: str
    without_reading: bool
    not_before: datetime

    @property
    def meaning(self) -> str:
        """The meaning in words."""
        return f"{MEANING[self.verdict]} {WITHOUT_READING}" if self.without_reading else MEANING[self.verdict]


@dataclass(frozen=True, kw_only=True)
class Voter:
    """The person at the page: pseudonym, roles in this tenant, and the strongest proof they gave just now.

    `person`, `groups` and `delegated_by` are the roster's word; `credential_id` names the passkey of a class A vote.
    """

    actor: str
    roles: frozenset[str]
    evidence_class: str
    person: str = ""
    groups: tuple[str, ...] = ()
    delegated_by: str = ""
    credential_id: str = ""


@dataclass(frozen=True, kw_only=True)
class DisplayedDigests:
    """The digests that the voter's page displayed; `covers` is the digest of everything covered, if
    it was displayed. `without_reading` is the voter's acknowledgement that the target has not been read.
    """

    payload_hash: str
    rendering_digest: str
    covers: str = ""
    without_reading: bool = False

    def is_without_reading(self, verdict: VoteChoice) -> bool:
        """Return whether a vote authorises an action whose target its voter knows to be unread."""
        return verdict in AUTHORISING and self.without_reading


@dataclass(frozen=True, kw_only=True)
class CurrentState:
    """The present values of what an approval covers, and whether a freeze stops it."""

    payload_hash: str
    contract_digest: str
    policy_digest: str
    frozen: bool


VOTE: Final = StatementForm[Coverage, VoteStatement](
    domain="counterfoil-approval-statement",
    version=4,
    name="vote",
    covers=Coverage,
    declares=VoteStatement,
    more={"payload": {"media_type": "application/json", "canonicalisation": "RFC 8785, integers only"}},
    # Version 3 said nothing of the reading of the target, and version 2 nothing of the evidence of the agent either.
    older={3: {"without_reading": False}, 2: {"without_reading": False, "evidence_commitment": ""}},
)


def statement(coverage: Coverage, vote: VoteStatement, *, version: int = VOTE.version) -> bytes:
    """The canonical text that the voter signs."""
    return VOTE.write(coverage, vote, meaning=vote.meaning, version=version)


def read_statement(data: bytes) -> tuple[Coverage, VoteStatement]:
    """Read the statement of a vote, of this version or one of the two before."""
    coverage, vote, meaning = VOTE.read(data)
    if meaning != vote.meaning:
        raise NotAStatement("The bytes are not the statement of a vote.")
    return coverage, vote


def is_without_reading(statement: bytes) -> bool:
    """Return whether a stored statement says that its voter knew the target to be unread; an erased one does not."""
    return bool(statement) and parse(statement)["vote"].get("without_reading") is True


def check_covered(said: Coverage, now: Coverage) -> None:
    """Refuse a statement that does not cover exactly the current state, by the first difference (B1)."""
    for name, refusal in _CHANGES.items():
        if getattr(said, name) != getattr(now, name):
            raise refusal
    if said != now:
        raise StatementChanged


_CHANGES: dict[str, type[Refused]] = {
    "payload_hash": PayloadChanged,
    "payload_commitment": PayloadChanged,
    "payload_length": PayloadChanged,
    "contract_digest": ContractChanged,
    "policy_digest": PolicyChanged,
    "rendering_digest": RenderingChanged,
    "renderer": RenderingChanged,
    "locale": RenderingChanged,
}


def voter_refusal(*, state: str, decide_by: datetime, roles: frozenset[str], at: datetime) -> Refused | None:
    """The refusal for these roles on a request in this state, or None; a person's own eligibility is decided
    afterwards.
    """
    if state != "REQUESTED":
        return AlreadyDecided("Already decided.")
    if at >= decide_by:
        return ApprovalLapsed("The deadline has passed.")
    return None if REVIEWER in roles else NotEligible("Reviewers only.")


def check_vote(
    coverage: Coverage,
    *,
    verdict: VoteChoice,
    voter: Voter,
    requesters: frozenset[str],
    undecided: bool,
    decide_by: datetime,
    seen: DisplayedDigests,
    frozen: bool,
    reason: str,
    at: datetime,
) -> None:
    """Refuse a vote that does not count. `requesters` are all people behind the request."""
    _check_person(voter, requesters, verdict)
    if not undecided:
        raise AlreadyDecided
    if at >= decide_by:
        raise ApprovalLapsed
    _check_seen(seen, coverage)
    if frozen and verdict in AUTHORISING:
        raise TargetFrozen
    if not _is_strong_enough(voter.evidence_class, coverage.step_up, verdict):
        raise ProofNeeded
    if verdict is not VoteChoice.APPROVE and not reason.strip():
        raise ReasonMissing("Enter a reason to reject or request changes.")


def check_reading(seen: DisplayedDigests, *, is_read: bool, is_unread: bool) -> None:
    """Refuse an authorising vote that says something else of the target's reading than what holds (rule 7).

    A target that nothing can read is neither read nor unread, and needs no acknowledgement.
    """
    if seen.without_reading and is_read:
        raise StatementChanged
    if is_unread and not seen.without_reading:
        raise TargetUnread


def check_release(
    coverage: Coverage, *, granted: bool, release_by: datetime | None, now: CurrentState, at: datetime
) -> None:
    """Refuse a release that the approval does not authorise at `at`. Checked at claim and again at start."""
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


def check_unapproved_release(*, payload_hash: str, contract_digest: str, policy_digest: str, now: CurrentState) -> None:
    """Check an action that needs no approval: unchanged since validation, and not frozen."""
    if now.payload_hash != payload_hash:
        raise PayloadChanged
    if now.contract_digest != contract_digest:
        raise ContractChanged
    if now.policy_digest != policy_digest:
        raise PolicyChanged
    if now.frozen:
        raise TargetFrozen


def _check_person(voter: Voter, requesters: frozenset[str], verdict: VoteChoice) -> None:
    # Who may break the glass is the policy's word (`break_glass.check_use`).
    if verdict is not VoteChoice.BREAK_GLASS and REVIEWER not in voter.roles:
        raise NotEligible
    if voter.actor in requesters:
        raise SelfApproval


def _check_seen(seen: DisplayedDigests, coverage: Coverage) -> None:
    if seen.payload_hash != coverage.payload_hash:
        raise PayloadChanged
    if seen.rendering_digest != coverage.rendering_digest:
        raise RenderingChanged
    if seen.covers and seen.covers != coverage_digest(coverage):
        raise StatementChanged


def _is_strong_enough(evidence_class: str, wanted: str, verdict: VoteChoice) -> bool:
    """Return whether the proof is enough for this verdict: stopping a request needs only the session (rule 5)."""
    if verdict in DENYING:
        return evidence_class == SESSION_ALONE or is_as_strong(evidence_class, "C")
    return is_as_strong(evidence_class, wanted)
