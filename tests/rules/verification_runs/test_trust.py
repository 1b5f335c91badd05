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
def test_each_trust_level_has_its_evidence():
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
def test_a_strong_reading_of_the_effect_gives_level_two_despite_other_faults(found):
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
def test_a_reading_that_does_not_show_the_effect_does_not_raise_the_level(found, because):
    ladder = trust_ladder(found, sealed=True)
    assert ladder.level == 1
    assert {rung.because for rung in ladder.rungs[2:4]} == {because}


def test_a_reversed_action_keeps_the_level_of_its_reading():
    ladder = trust_ladder(read("COMPENSATED", discrepancy_class="VALUE_MISMATCH"), sealed=True)
    assert (ladder.level, ladder.rungs[3].because) == (2, "It was reversed afterwards.")


def test_a_reading_counts_without_an_answer_of_the_tool():
    assert level(proven(execution={"observation_pointer": None})) == 4


def test_attestation_alone_does_not_reach_the_level_of_a_reading():
    assert level(proven(verification={"verified_state_pointer": None})) == 1


def test_a_contradiction_withdraws_the_level_of_a_reading():
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
def test_a_missing_binding_limits_the_level_to_three_and_is_named(blocks, missing):
    found = trust_ladder(proven(**blocks), sealed=True)
    assert found.level == 3
    assert missing in found.rungs[4].because
    assert missing_bindings(proven(**blocks), sealed=True) == (missing,)


def test_a_critical_completion_requires_every_binding_except_an_unsent_trace():
    own_trace = {"trace": {"parent_span_id": None}}
    assert trust_ladder(proven(**own_trace), sealed=True).completes_critical
    assert not trust_ladder(proven(**own_trace), sealed=False).completes_critical
    for lacking in ({"idempotency": {"key_hash": None}}, {"approval": {"approver_id": None}}):
        assert not trust_ladder(proven(**lacking), sealed=True).completes_critical
    assert not trust_ladder(read("REVIEW_REQUIRED", discrepancy_class="VALUE_MISMATCH"), sealed=True).completes_critical


def test_a_key_or_approval_that_is_not_required_is_not_missing():
    read = proven(side_effect_class="READ_ONLY", approval={"required": False, "approver_id": None})
    del read["idempotency"]
    assert level(read) == 4


def test_every_trust_level_states_its_reason():
    for found in (entry(), proven()):
        rungs = trust_ladder(found, sealed=False).rungs
        assert [rung.level for rung in rungs] == [0, 1, 2, 3, 4]
        assert all(rung.name and rung.because for rung in rungs)
