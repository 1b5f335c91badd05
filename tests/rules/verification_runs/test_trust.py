"""The trust ladder: what lifts an action, and what is missing."""

from __future__ import annotations

import pytest

from reviews.verification.rules.trust import missing_bindings, trust_ladder
from tests.support.verification_runs import entry


def proven(**blocks):
    """An entry of an action that reached level 4 once its event is in the log."""
    plain = entry()
    plain["execution"] |= {"status": "COMMITTED", "observation_pointer": "ob-1"}
    plain["verification"] |= {"status": "VERIFIED", "verified_state_pointer": "ev-2"}
    plain["reconciliation"]["status"] = "RECONCILED_SUCCESS"
    plain["trace"]["parent_span_id"] = "b" * 16
    for block, fields in blocks.items():
        plain[block] = {**plain[block], **fields} if isinstance(fields, dict) else fields
    return plain


def level(found, *, sealed=True, **flags):
    return trust_ladder(found, sealed=sealed, **flags).level


READ = {"verification": {"status": "VERIFIED", "verified_state_pointer": "ev-2"}}


def read(status, *, execution="COMMITTED", **reconciliation):
    """An entry of an action that was answered and read, and did not succeed by that."""
    return proven(
        **READ,
        execution={"status": execution},
        reconciliation={"status": status, "discrepancy_class": None} | reconciliation,
    )


@pytest.mark.req("R-OB-05", "R-OB-06", "R-OB-07", "R-OB-08")
def test_the_five_levels():
    assert level(entry()) == 0
    answered = entry()
    answered["execution"]["observation_pointer"] = "ob-1"
    assert level(answered) == 1
    assert level(read("NOT_STARTED")) == 2
    assert level(proven(), sealed=False) == 3
    assert level(proven()) == 4


EXISTS = ("VALUE_MISMATCH", "PARTIAL_APPLICATION", "DUPLICATE_SIDE_EFFECT", "COMPENSATION_REQUIRED", "NO_OP_SUCCESS")


@pytest.mark.req("R-OB-06")
@pytest.mark.parametrize("found", EXISTS)
def test_a_strong_reading_that_shows_the_effect_is_level_two_whatever_else_is_wrong(found):
    ladder = trust_ladder(read("REVIEW_REQUIRED", discrepancy_class=found), sealed=True)
    assert ladder.level == 2
    assert ladder.rungs[2].because == "A strong reading of the system of record shows that it exists."
    assert ladder.rungs[3].because == "Not every predicate holds."


ABSENT = read("RECONCILED_FAILURE", execution="FAILED")
CLAIMED_AND_ABSENT = read("REVIEW_REQUIRED", discrepancy_class="NO_OP_FAILURE")
ELSEWHERE = read("REVIEW_REQUIRED", discrepancy_class="WRONG_TARGET_MODIFIED")
REPLICA = read("UNKNOWN", execution="PENDING", discrepancy_class="UNVERIFIABLE_STATE")
ATTESTED = read("RECONCILED_SUCCESS", recovery_decision="HUMAN_ATTESTATION")


@pytest.mark.req("R-OB-06")
@pytest.mark.parametrize(
    ("found", "because"),
    [
        (ABSENT, "The system of record was read, and shows no effect."),
        (CLAIMED_AND_ABSENT, "What was read does not confirm it."),
        (ELSEWHERE, "What was read does not confirm it."),
        (REPLICA, "What was read does not confirm it."),
        (ATTESTED, "A person's word settled it, and not a reading."),
        (proven(verification={"verified_state_pointer": None}), "No authoritative source has been read."),
    ],
)
def test_a_reading_that_does_not_show_the_effect_lifts_to_no_level(found, because):
    ladder = trust_ladder(found, sealed=True)
    assert ladder.level == 1
    assert {rung.because for rung in ladder.rungs[2:4]} == {because}


def test_an_observation_that_was_reversed_later_stays_verified():
    ladder = trust_ladder(read("COMPENSATED", discrepancy_class="VALUE_MISMATCH"), sealed=True)
    assert (ladder.level, ladder.rungs[3].because) == (2, "It was reversed afterwards.")


def test_a_reading_needs_no_answer_of_the_tool():
    assert level(proven(execution={"observation_pointer": None})) == 4


def test_success_by_attestation_alone_is_not_reconciled():
    assert level(proven(verification={"verified_state_pointer": None})) == 1


def test_a_contradiction_takes_back_what_a_reading_had_shown():
    found = trust_ladder(proven(), sealed=True, contradicted=True)
    assert found.level == 1
    assert found.rungs[2].because == found.rungs[3].because == "It was contradicted after it was settled."


@pytest.mark.req("R-OB-08")
@pytest.mark.parametrize(
    ("blocks", "missing"),
    [
        ({"trace": {"trace_id": ""}}, "trace evidence"),
        ({"trace": {"parent_span_id": None}}, "trace evidence"),
        ({"policy_context": {"recovery_policy_version": ""}}, "policy version"),
        ({"idempotency": {"key_hash": None}}, "idempotency record"),
        ({"approval": {"approver_id": None}}, "approval records"),
        ({"approval": {"payload_hash": "f" * 64}}, "approval records"),
    ],
)
def test_without_one_binding_the_level_is_three_and_the_want_is_named(blocks, missing):
    found = trust_ladder(proven(**blocks), sealed=True)
    assert found.level == 3
    assert missing in found.rungs[4].because
    assert missing_bindings(proven(**blocks), sealed=True) == (missing,)


def test_a_critical_completion_needs_every_binding_but_a_trace_that_its_agent_did_not_send():
    own_trace = {"trace": {"parent_span_id": None}}
    assert trust_ladder(proven(**own_trace), sealed=True).completes_critical
    assert not trust_ladder(proven(**own_trace), sealed=False).completes_critical
    for lacking in ({"idempotency": {"key_hash": None}}, {"approval": {"approver_id": None}}):
        assert not trust_ladder(proven(**lacking), sealed=True).completes_critical
    assert not trust_ladder(read("REVIEW_REQUIRED", discrepancy_class="VALUE_MISMATCH"), sealed=True).completes_critical


def test_an_action_that_needs_no_key_or_approval_does_not_miss_it():
    read = proven(side_effect_class="READ_ONLY", approval={"required": False, "approver_id": None})
    del read["idempotency"]
    assert level(read) == 4


def test_every_rung_says_why():
    for found in (entry(), proven()):
        rungs = trust_ladder(found, sealed=False).rungs
        assert [rung.level for rung in rungs] == [0, 1, 2, 3, 4]
        assert all(rung.name and rung.because for rung in rungs)
