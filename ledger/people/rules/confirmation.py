"""One confirmation by a second person: the persons who may give it, the required proof and reason, and its deadline.

1. A person confirms, never an API key. Whoever proposed it does not, through whichever account or API key: linked
   accounts are one person, and a key is the person's who made it. Nor does anybody whom it is about.
2. Confirming takes the proof that the terms name. Stopping a proposal takes none: it is never made hard.
3. Anybody with the roles may decline. The proposer withdraws: by declining, or where the terms say so by a step of its
   own.
4. A proposal that nobody confirmed for `lives` cannot be confirmed any more. The console ends it; it can be proposed
   again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ledger.record.rules.refusals import ProofNeeded, ReasonMissing, RefusalRecord, Refused


class SecondPersonNeeded(Refused):
    """Another person must confirm this; you cannot confirm your own proposal, or one about you, from any account."""

    code = "SECOND_PERSON_NEEDED"
    status = 403


class ProposalExpired(Refused):
    """This was proposed too long ago to be confirmed. Propose it again."""

    code = "PROPOSAL_EXPIRED"


class Answer(StrEnum):
    """An answer to a proposal."""

    CONFIRM = "confirm"
    DECLINE = "decline"
    WITHDRAW = "withdraw"


class Proof(StrEnum):
    """The proof of identity that a confirmation requires."""

    SESSION = "session"
    FRESH = "fresh"
    """A recent sign-in, their password or a one-time code."""
    POLICY = "policy"
    """As strong as the approval policy asks for such an action; the subject itself compares it."""


@dataclass(frozen=True, kw_only=True)
class ConfirmationTerms:
    """The terms of confirming one kind of proposal.

    `roles` may answer, and `reasons` are the answers that need a reason. `withdrawn_apart`: the proposer withdraws by a
    step of its own. `owner_confirms`: so may the owner of the installation, by a command on its machine.
    """

    roles: frozenset[str]
    proof: Proof = Proof.FRESH
    reasons: frozenset[Answer] = frozenset(Answer)
    lives: timedelta | None = timedelta(days=30)
    withdrawn_apart: bool = False
    owner_confirms: bool = False


_OPERATORS: Final = frozenset({"administrator", "operator"})
_COMPLIANCE: Final = frozenset({"compliance"})
_STOPS: Final = frozenset({Answer.DECLINE, Answer.WITHDRAW})
TERMS: Final[Mapping[str, ConfirmationTerms]] = {
    "contract": ConfirmationTerms(roles=_OPERATORS),
    "system": ConfirmationTerms(roles=_OPERATORS),
    # What makes a release stale is another version in force: then its gates no longer count.
    "release": ConfirmationTerms(roles=_OPERATORS, lives=None),
    "erasure": ConfirmationTerms(roles=_COMPLIANCE, reasons=_STOPS, withdrawn_apart=True),
    "retention": ConfirmationTerms(roles=_COMPLIANCE, reasons=_STOPS),
    # An operator of the installation proposes it, by a command on its machine.
    "off_boarding": ConfirmationTerms(roles=_COMPLIANCE, reasons=_STOPS),
    "member": ConfirmationTerms(roles=frozenset({"administrator"}), reasons=frozenset()),
    "key": ConfirmationTerms(
        roles=frozenset({"administrator", "reviewer"}),
        proof=Proof.SESSION,
        reasons=frozenset(),
        owner_confirms=True,
    ),
    # A person stands for a settlement with a signed statement, which changes with what was found.
    "case": ConfirmationTerms(
        roles=frozenset({"operator", "reviewer"}), proof=Proof.POLICY, reasons=frozenset(), lives=None
    ),
    # Two votes, which must be enough for one such action; it lives until its own end date.
    "standing": ConfirmationTerms(roles=frozenset({"reviewer"}), proof=Proof.POLICY, lives=None, withdrawn_apart=True),
    # A review of what has happened, by as many people as the policy says; a late one raises an alarm and still counts.
    "emergency": ConfirmationTerms(
        roles=frozenset({"administrator", "compliance", "operator", "reviewer"}), proof=Proof.SESSION, lives=None
    ),
}
"""The terms of each kind of proposal that a second person confirms."""


def check_answer(
    kind: str,
    answer: Answer,
    *,
    by_kind: str,
    is_proposer: bool,
    is_proven: bool,
    reason: str,
    proposed_at: datetime,
    at: datetime,
    records: tuple[RefusalRecord, ...] = (),
) -> None:
    """Refuse an answer to a proposal of this kind that its terms do not allow (rules 1 to 4).

    `by_kind` is the kind of the actor, `is_proposer` whether the person behind it proposed this or is whom it is about.
    `records` go on record where that person tries to confirm it.
    """
    terms, confirms = TERMS[kind], answer is Answer.CONFIRM
    expired = has_expired(kind, proposed_at, at=at)
    if by_kind == "system" and (terms.owner_confirms if confirms else expired):
        return
    if by_kind != "person" or (is_proposer and (confirms or (terms.withdrawn_apart and answer is Answer.DECLINE))):
        raise SecondPersonNeeded(records=records)
    if expired and confirms:
        raise ProposalExpired
    if answer in terms.reasons and not reason.strip():
        raise ReasonMissing
    if confirms and terms.proof is Proof.FRESH and not is_proven:
        raise ProofNeeded("Confirm with your password or a one-time code.")


def has_expired(kind: str, proposed_at: datetime, *, at: datetime) -> bool:
    """Return whether a proposal of this kind is too old to be confirmed (rule 4)."""
    lives = TERMS[kind].lives
    return lives is not None and at >= proposed_at + lives
