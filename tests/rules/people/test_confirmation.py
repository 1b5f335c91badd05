"""Who may answer a proposal, with which proof and reason, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.people.rules.confirmation import (
    TERMS,
    Answer,
    Proof,
    ProposalExpired,
    SecondPersonNeeded,
    check_answer,
)
from ledger.record.rules.refusals import ProofNeeded, ReasonMissing

AT = datetime(2026, 11, 1, tzinfo=UTC)
MORTAL = [kind for kind, terms in TERMS.items() if terms.lives]
SOUND: dict[str, Any] = {
    "by_kind": "person",
    "is_proposer": False,
    "is_proven": True,
    "reason": "I have looked at it.",
    "proposed_at": AT,
    "at": AT,
}


def answer(kind: str, what: Answer, **changes: Any) -> None:
    check_answer(kind, what, **SOUND | changes)


@pytest.mark.parametrize("kind", TERMS)
def test_another_person_may_give_every_answer(kind: str):
    for what in Answer:
        answer(kind, what)


@pytest.mark.parametrize("kind", TERMS)
def test_neither_the_proposer_nor_a_machine_can_confirm(kind: str):
    for changes in ({"is_proposer": True}, {"by_kind": "operator"}, {"by_kind": "agent"}):
        with pytest.raises(SecondPersonNeeded):
            answer(kind, Answer.CONFIRM, **changes)


@pytest.mark.parametrize("kind", TERMS)
def test_the_proposer_can_withdraw_at_any_time_without_a_proof(kind: str):
    late = AT + timedelta(days=10_000)
    answer(kind, Answer.WITHDRAW, is_proposer=True, is_proven=False, at=late)
    if TERMS[kind].withdrawn_apart:
        with pytest.raises(SecondPersonNeeded):
            answer(kind, Answer.DECLINE, is_proposer=True)
    else:
        answer(kind, Answer.DECLINE, is_proposer=True, is_proven=False, at=late)


@pytest.mark.parametrize("kind", MORTAL)
def test_an_expired_proposal_cannot_be_confirmed_and_is_ended_only_by_the_console(kind: str):
    lives = TERMS[kind].lives
    assert lives is not None
    answer(kind, Answer.CONFIRM, at=AT + lives - timedelta(microseconds=1))
    with pytest.raises(ProposalExpired):
        answer(kind, Answer.CONFIRM, at=AT + lives)
    for what in (Answer.DECLINE, Answer.WITHDRAW):
        answer(kind, what, by_kind="system", reason="", at=AT + lives)
        with pytest.raises(SecondPersonNeeded):
            answer(kind, what, by_kind="system", at=AT + lives - timedelta(microseconds=1))


@pytest.mark.parametrize("kind", TERMS)
def test_an_answer_that_requires_a_reason_is_refused_without_one(kind: str):
    for what in TERMS[kind].reasons:
        with pytest.raises(ReasonMissing):
            answer(kind, what, reason=" \n")


def test_a_confirmation_that_requires_a_fresh_proof_is_refused_without_one():
    fresh = [kind for kind, terms in TERMS.items() if terms.proof is Proof.FRESH]
    assert {"contract", "system", "release", "erasure", "retention", "off_boarding", "member"} == set(fresh)
    for kind in fresh:
        with pytest.raises(ProofNeeded):
            answer(kind, Answer.CONFIRM, is_proven=False)


def test_the_installation_owner_may_confirm_only_a_passkey():
    for kind in TERMS:
        if kind == "key":
            answer(kind, Answer.CONFIRM, by_kind="system")
        else:
            with pytest.raises(SecondPersonNeeded):
                answer(kind, Answer.CONFIRM, by_kind="system")
