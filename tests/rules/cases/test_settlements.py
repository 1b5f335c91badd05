"""What a person stands for when they settle a case: what is asked of them, what they say, and when it is refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.people.rules.statements import NotAStatement, coverage_digest
from ledger.record.rules.lifecycle import State
from ledger.record.rules.refusals import ProofNeeded, Refused
from reviews.cases.rules import settlements
from reviews.cases.rules.resolutions import UNGATED, Resolution, refuse_second
from reviews.cases.rules.settlements import Act, CasePageChanged, ProposalChanged
from tests.rules.cases.test_signed_settlements import HELD, Scene
from tests.support.tables import every_row

SCENE = Scene()
COVERS = SCENE.coverage(4, "5e" * 32)
SEEN = coverage_digest(COVERS)
LOOKS = {Resolution.VERIFY_AGAIN, Resolution.STRONG_READ, Resolution.ACKNOWLEDGE}


@pytest.mark.parametrize("resolution", Resolution)
def test_attesting_and_acting_require_a_proof_of_identity(resolution: Resolution):
    wanted = settlements.required_proof(HELD, resolution, policy="B")
    assert wanted == ("D" if resolution in LOOKS else "B")


def test_settling_an_ungated_effect_requires_the_proof_of_the_policy():
    assert settlements.required_proof(UNGATED, Resolution.ACKNOWLEDGE, policy="C") == "C"


@pytest.mark.parametrize(
    ("wanted", "given", "detail"),
    [
        ("C", "D", "Settling this asks for your password, a one-time code or a passkey. Nothing was recorded."),
        ("C", "", "Settling this asks for your password, a one-time code or a passkey. Nothing was recorded."),
        ("B", "C", "The policy asks for a one-time code, or a passkey, to settle this. Nothing was recorded."),
        ("A", "B", "The policy asks for a passkey to settle this. Nothing was recorded."),
    ],
)
def test_a_proof_weaker_than_the_policy_requires_is_refused(wanted: str, given: str, detail: str):
    with pytest.raises(ProofNeeded) as refused:
        settlements.check_settlement(COVERS, seen=SEEN, wanted=wanted, given=given)
    assert refused.value.detail == detail
    settlements.check_settlement(COVERS, seen=SEEN, wanted=wanted, given="A")


@pytest.mark.parametrize("name", [each.name for each in fields(COVERS)])
def test_a_settlement_over_a_changed_record_is_refused(name: str):
    value = getattr(COVERS, name)
    other = (*value, "6f" * 32) if name == "evidence" else value + 1 if name == "record_seq" else f"{value}?"
    now = replace(COVERS, **{name: not value if name == "contradicted" else other})
    with pytest.raises(CasePageChanged) as refused:
        settlements.check_settlement(now, seen=SEEN, wanted="C", given="A")
    assert refused.value.detail == "The case has changed since you opened this page; reload it. Nothing was recorded."


def test_a_settlement_with_a_proof_requires_the_digest_of_the_page():
    with pytest.raises(CasePageChanged):
        settlements.check_settlement(COVERS, seen="", wanted="C", given="C")
    settlements.check_settlement(COVERS, seen="", wanted="D", given="D")


@every_row("resolution", Resolution)
@every_row("act", Act)
def test_a_statement_is_parsed_to_its_content_and_a_damaged_one_refused(resolution: Resolution, act: Act):
    said = SCENE.said("p-1", act, {"resolution": resolution})
    text = settlements.statement(COVERS, said, held=HELD)
    assert settlements.read_statement(text) == (COVERS, said)
    assert json.loads(text)["settlement"]["meaning"] == settlements.declaration(HELD, resolution, act)
    for wrong in (text + b" ", text.replace(b'"log_size":0', b'"log_size":"0"'), b"{}", b"not json"):
        with pytest.raises(NotAStatement):
            settlements.read_statement(wrong)


def test_a_statement_declares_the_claim_and_its_consequence_in_words():
    said = settlements.declaration(HELD, Resolution.ATTEST_ABSENT, Act.CONFIRM)
    assert said == (
        "Another person has proposed this and I have read what they say; I say the same. I have seen this case and its"
        " evidence. On my own word, the effect of this action is not there."
    )
    follows = settlements.describe_consequence(HELD, Resolution.ATTEST_PRESENT)
    assert follows == (
        "The action ends as attested by a person, never as verified. A repeat (same tool, target and values) is refused"
        " for 30 days, from every agent and in every session."
    )


@pytest.mark.parametrize(
    ("state", "resolution", "follows"),
    [
        (State.RECONCILED_SUCCESS, Resolution.ATTEST_PRESENT, "The contradiction is withdrawn on a person's word."),
        (State.RECONCILED_SUCCESS, Resolution.ATTEST_ABSENT, "The contradiction stands:"),
        (State.FAILED, Resolution.ATTEST_ABSENT, "The contradiction is withdrawn on a person's word."),
        (State.FAILED, Resolution.ATTEST_PRESENT, "The contradiction stands:"),
    ],
)
def test_settling_a_contradiction_states_if_it_remains(state: State, resolution: Resolution, follows: str):
    doubted = replace(HELD, state=state, contradicted=True)
    assert settlements.describe_consequence(doubted, resolution).startswith(follows)


def test_a_second_person_confirms_exactly_what_the_first_one_signed():
    first = COVERS, SCENE.said("p-1", Act.PROPOSE, {})
    asked = {"resolution": "ATTEST_ABSENT", "consequence": first[1].consequence, "by": "p-1"}
    settlements.check_second(first, COVERS, **asked, person="human-p-2")
    wrong: list[tuple[dict[str, str], type[Refused]]] = [
        ({"resolution": "ATTEST_PRESENT"}, ProposalChanged),
        ({"by": "p-3"}, ProposalChanged),
        ({"consequence": "The action ends as failed. A repeat becomes possible."}, ProposalChanged),
        ({"person": "human-p-1"}, SecondPersonNeeded),
    ]
    for changes, refusal in wrong:
        with pytest.raises(refusal):
            settlements.check_second(first, COVERS, **(asked | {"person": "human-p-2"} | changes))
    with pytest.raises(ProposalChanged):
        settlements.check_second(first, replace(COVERS, record_seq=5), **asked, person="human-p-2")


def test_an_operator_or_a_reviewer_confirms_but_never_their_own_proposal():
    cases = {
        (frozenset({"operator"}), False): "",
        (frozenset({"reviewer"}), False): "",
        (frozenset({"compliance"}), False): "Another operator or a reviewer must confirm this.",
        (frozenset({"operator"}), True): (
            "Another person must confirm this; you cannot confirm your own proposal, or one about you, from any"
            " account."
        ),
    }
    for (roles, is_proposer), detail in cases.items():
        refusal = refuse_second(roles=roles, is_proposer=is_proposer)
        assert (refusal.detail if refusal else "") == detail
