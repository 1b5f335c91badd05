"""Request and response schemas of approvals, votes and edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from django import forms
from pydantic import Field

from approvals.requests.rules import threads
from approvals.voting.rules import batches, binding
from console.edge.schemas import Answer, Ask, Body, Paged, SpeltTime, TextOrNull, Time
from ledger.people.rules.statements import confirmation_code

if TYPE_CHECKING:
    from approvals import models
    from approvals.voting.operations.challenges import PasskeyChallenge
    from approvals.voting.operations.eligibility import VotingStatus
    from approvals.voting.rules.quorum import ThresholdCount


class ApprovalsWanted(Paged):
    state: Literal["REQUESTED", "APPROVED", "REJECTED", "EXPIRED", "VOIDED", "CONSUMED"] = "REQUESTED"
    risk: Annotated[Literal["LOW", "NORMAL", "HIGH"] | None, Field(description="Among those waiting for a vote.")] = (
        None
    )
    tool: str | None = None
    agent: str | None = None
    group: Annotated[str | None, Field(description="Groups whose votes are required.")] = None
    holder: Annotated[UUID | None, Field(description="Whom it is assigned to or claimed by.")] = None
    sort: Literal["risk", "deadline", "oldest", "newest"] = "risk"

    @property
    def order(self) -> str:
        return "" if self.sort == "risk" else self.sort

    def filters(self) -> dict[str, Any]:
        """The filters for waiting approvals."""
        return self.model_dump(include={"risk", "tool", "agent", "group", "holder"}, exclude_none=True)


Acknowledged = Annotated[
    bool,
    Field(
        description="Acknowledge that the target has not been read; part of the signed statement. Needed to approve"
        " while `target_unread` is true, and refused once the target has been read."
    ),
]


class VoteBody(Body):
    verdict: Literal["approve", "reject", "request_changes", "break_glass"]
    payload_hash: str
    rendering_digest: str
    reason: Annotated[str, Field(max_length=4000)] = ""
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None
    covers: Annotated[str, Field(max_length=64)] = Field("", description="The `covers_digest` that was read.")
    without_reading: Acknowledged = False
    challenge_id: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="The challenge that `assertion` answers."
    )
    assertion: dict[str, Any] | None = Field(None, description="`PublicKeyCredential.toJSON()` of a passkey's answer.")


class ChallengeBody(Body):
    verdict: Literal["approve", "reject", "request_changes", "break_glass"]
    payload_hash: str
    rendering_digest: str
    covers: Annotated[str, Field(max_length=64)] = ""
    without_reading: Acknowledged = False
    reason: Annotated[str, Field(max_length=4000)] = ""
    credential_id: Annotated[str, Field(max_length=2000)] = Field("", description="Which of your keys to sign with.")


class PreviewBody(Body):
    payload: Annotated[dict[str, Any], Field(description="All arguments of the call, including unchanged ones.")]
    payload_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="Hash of the payload that was shown.")]


class EditBody(PreviewBody):
    reason: Annotated[str, Field(max_length=2000, description="Sent to the agent verbatim.")] = ""


class AssigneeBody(Body):
    to: Annotated[
        UUID | None,
        Field(
            strict=False,
            description="The pseudonym of an approver. Default: the approver with the fewest open requests.",
        ),
        Ask(field=forms.UUIDField(required=False)),
    ] = None


class LineBody(Body):
    text: Annotated[
        str,
        Field(min_length=1, max_length=threads.LONGEST),
        Ask(
            field=forms.CharField(
                max_length=threads.LONGEST,
                widget=forms.Textarea(attrs={"rows": 2}),
                error_messages={"required": "Enter a text."},
            )
        ),
    ]


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ShownItem(Body):
    approval_id: Annotated[UUID, Field(strict=False)]
    payload_hash: Digest
    rendering_digest: Annotated[Digest, Field(description="Only displayed items are accepted.")]
    covers: Annotated[str, Field(max_length=64)] = Field("", description="The `covers_digest` that was read.")
    without_reading: Acknowledged = False


class VotesBody(Body):
    verdict: Literal["approve", "reject"]
    items: Annotated[list[ShownItem], Field(min_length=1, max_length=batches.MOST)]
    reason: Annotated[str, Field(max_length=4000)] = ""
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None


class AnswerBody(Body):
    question_id: Annotated[UUID, Field(strict=False)]
    text: Annotated[str, Field(min_length=1, max_length=threads.LONGEST_ANSWER)]


class ApprovalPolicy(Answer):
    version: str = Field(validation_alias="policy_version")
    rules: str = Field(validation_alias="policy_row")
    step_up: str


class ApprovalRow(Answer):
    approval_id: UUID = Field(validation_alias="id")
    action_id: UUID
    state: str
    payload_hash: str
    rendering_digest: str
    policy: ApprovalPolicy
    requested_at: Time
    decide_by: Time
    release_by: Time | None
    risk: str = Field(description="LOW, NORMAL or HIGH.")
    claimed_by: UUID | None
    claimed_until: Time | None = Field(description="A claim expires and does not keep others from voting.")
    assigned_to: UUID | None
    escalated_at: Time | None
    standing_approval_id: UUID | None = Field(
        validation_alias="standing_id", description="The standing approval under which it passed without a vote."
    )
    stopped_at: Time | None = Field(
        validation_alias="paused_at", description="Since when its deadline has been paused; null while it runs."
    )

    @classmethod
    def of(cls, row: models.Approval, /, **more: Any) -> Self:
        return super().of(row, policy=row, **more)


class PayloadField(Answer):
    path: str
    label: str
    kind: str
    display: str
    warnings: list[str]


class VoteRecorded(Answer):
    verdict: str
    class_: str = Field(
        validation_alias="evidence_class",
        serialization_alias="class",
        description="A passkey, B one-time code, C password, D the session alone.",
    )
    statement_hash: str
    confirmation_code: str = Field(description="Empty where the vote was erased.")

    @classmethod
    def of(cls, vote: models.Vote, /, **more: Any) -> Self:
        statement = bytes(vote.statement)
        return super().of(vote, confirmation_code=confirmation_code(statement) if statement else "", **more)


class VoteTaken(VoteRecorded):
    vote_id: UUID = Field(validation_alias="id")


class VoteCast(VoteRecorded):
    voter: UUID
    groups: list[str]
    delegated_by: UUID | None
    credential_id: TextOrNull
    without_reading: bool = Field(description="Whether the voter acknowledged that the target had not been read.")
    at: Time

    @classmethod
    def of(cls, vote: models.Vote, /, **more: Any) -> Self:
        return super().of(vote, without_reading=binding.is_without_reading(bytes(vote.statement)), **more)


class SigningKey(Answer):
    credential_id: str
    name: str


class SignatureWanted(Answer):
    """The argument of `navigator.credentials.get()` in WebAuthn's JSON."""

    challenge: str
    rpId: str
    allowCredentials: list[dict[str, str]]
    userVerification: str
    timeout: int


class Challenge(Answer):
    challenge_id: UUID = Field(validation_alias="id")
    statement: str = Field(description="The canonical statement that the passkey signs by its hash.")
    statement_hash: str
    confirmation_code: str
    expires_at: Time
    publicKey: SignatureWanted

    @classmethod
    def of(cls, challenge: PasskeyChallenge, /, **more: Any) -> Self:
        statement = bytes(challenge.row.statement).decode()
        return super().of(
            challenge.row, statement=statement, confirmation_code=challenge.code, publicKey=challenge.options()
        )


class Contradiction(Answer):
    code: str = Field(description="AMOUNT, CURRENCY, NAME or EXPECTATION.")
    where: str
    said: str = Field(description="The agent's statement, with hidden characters shown.")
    sent: str = Field(description="The value in the payload.")
    text: str


class BaselineField(Answer):
    field: str
    value: Any


class Baseline(Answer):
    known: bool = Field(description="False if the system did not answer in time, which raises the risk.")
    digest: str | None
    pointer: str | None
    source: str | None
    read_at: SpeltTime | None
    fields: list[BaselineField]
    preflight: list[dict[str, Any]]
    touches: int | None = Field(description="Number of objects affected, where the contract says how to count them.")
    raises: list[str]


class Difference(Answer):
    field: str
    then: str | None
    now: str | None
    material: bool


class Drift(Answer):
    compared_at: Time
    material: bool
    differences: list[Difference]
    untold: list[str]


class Threshold(Answer):
    group: str
    count: int
    votes: int
    deny: int
    against: int

    @classmethod
    def of(cls, count: ThresholdCount, /, **more: Any) -> Self:
        return super().of(count.threshold, votes=count.votes, against=count.against)


class MayVote(Answer):
    actor: UUID
    groups: list[str]
    for_: UUID | None = Field(
        validation_alias="lender",
        serialization_alias="for",
        description="The delegator, if the vote would use a delegation.",
    )
    away: bool


class Barred(Answer):
    actor: UUID
    as_: str = Field(
        serialization_alias="as", description="requester, agent_owner, delegator, editor or policy_author."
    )


class Quorum(Answer):
    state: str = Field(description="open, approved or rejected, by the votes that currently count.")
    thresholds: list[Threshold]
    step_up: str
    independence: list[str]
    hours: list[dict[str, Any]]
    may_vote: list[MayVote]
    barred: list[Barred]
    fallen: list[UUID] = Field(description="Votes that no longer count.")
    stranded: bool = Field(description="True if too few eligible approvers are left.")

    @classmethod
    def of(cls, status: VotingStatus, /, **more: Any) -> Self:
        """Build the answer, with people named by their pseudonyms."""
        return cls(
            state=status.tally.state,
            thresholds=[Threshold.of(count) for count in status.tally.counts],
            step_up=status.terms.step_up,
            independence=sorted(status.terms.independence),
            hours=[each.document() for each in status.terms.hours],
            may_vote=[MayVote.of(place, groups=sorted(place.groups)) for place in status.may_vote],
            barred=[Barred(actor=actor, as_=role) for actor, role in status.barred.items()],
            fallen=[vote.id for vote in status.fallen],
            stranded=status.stranded,
        )


class DroppedExpectation(Answer):
    text: str = Field(description="The agent's predicate.")
    fields: list[str] = Field(description="The edited fields named in it.")
    why: str


class EditOfRequest(Answer):
    editor: str = Field(description="Pseudonym of the editor.")
    reason: str
    text: str = Field(description="Who edited what and why, in one sentence.")
    expectations_dropped: list[DroppedExpectation]


class EvidenceItem(Answer):
    statement: str | None = None
    link: str | None = None
    id: str | None = None


class Approval(ApprovalRow):
    covers: dict[str, Any] = Field(description="What a vote signs, apart from the vote itself.")
    covers_digest: str
    payload: Any
    fields: list[PayloadField]
    votes: list[VoteCast]
    votes_differ: str = Field(description="Differences between the votes and their recorded events; empty if none.")
    may_vote: bool = Field(description="Whether you can vote now; `why_not` gives the reason if not.")
    why_not: str
    quorum: Quorum = Field(description="Votes required, votes so far, and eligible reviewers.")
    keys: list[SigningKey] = Field(description="Your passkeys that may sign this vote.")
    agent_evidence: list[EvidenceItem] = Field(
        description="What the agent says its call is based on; unverified. Links are not followed."
    )
    edit: EditOfRequest | None = Field(description="The edit that created this request; null if it was not edited.")
    contradictions: list[Contradiction] = Field(description="Where the agent's statements contradict the payload.")
    baseline: Baseline | None = Field(
        description="State of the target when approval was requested; null if it is not read."
    )
    target_unread: bool = Field(
        description="True while the target could be read and has not been: approving then needs `without_reading`."
    )
    drift: Drift | None = Field(description="Changes since then, by the latest reading; null if none was taken.")


class ChangedField(Answer):
    path: str
    label: str
    old: str | None
    new: str | None


class Edited(Answer):
    supersedes: UUID
    action_id: UUID | None = Field(description="The action that replaces it; null in a preview.")
    approval_id: UUID | None
    payload_hash: str
    changed: list[ChangedField] = Field(validation_alias="changes")
    expectations_dropped: list[DroppedExpectation] = Field(
        validation_alias="dropped",
        description="The agent's predicates that name an edited field; they are no longer checked.",
    )
    expectations_kept: list[str] = Field(
        validation_alias="kept", description="The agent's predicates that are still checked."
    )
    leaves_nobody: bool = Field(
        description="True if too few eligible approvers are left for the edited request; its editor is not eligible."
    )


class Claimed(Answer):
    approval_id: UUID
    claimed_by: UUID | None
    claimed_until: Time | None


class Assigned(Answer):
    approval_id: UUID
    assigned_to: UUID


class Line(Answer):
    line_id: UUID = Field(validation_alias="id")
    kind: str = Field(description="comment, question or answer. An answer is the agent's statement, not evidence.")
    author: UUID
    author_kind: str
    text: str
    mentions: list[str]
    answers: UUID | None
    at: Time


class LineTaken(Answer):
    line_id: UUID = Field(validation_alias="id")


class ItemVoted(Answer):
    approval_id: UUID
    result: str = Field(description="VOTED, DECIDED (by others in the meantime) or REFUSED.")
    statement_hash: TextOrNull
    code: TextOrNull
    detail: TextOrNull


class VotesTaken(Answer):
    items: list[ItemVoted]
    voted: int
    decided: int
    refused: int


class Answered(Answer):
    question_id: UUID
    line_id: UUID
