"""The trust ladder: what lifts an action, and what is missing."""

from __future__ import annotations

import pytest

from reviews.rules.trust import missing_bindings, trust
from tests.rules.runs import entry


def proven(**blocks):
    """An entry of an action that reached level 4 once its event is in the log."""
    plain = entry()
    plain["execution"] |= {"status": "COMMITTED", "observation_pointer": "ob-1"}
    plain["verification"] |= {"status": "VERIFIED", "verified_state_pointer": "ev-2"}
    plain["reconciliation"]["status"] = "RECONCILED_SUCCESS"
    for block, fields in blocks.items():
        plain[block] = {**plain[block], **fields} if isinstance(fields, dict) else fields
    return plain


def level(found, *, sealed=True, **flags):
    return trust(found, sealed=sealed, **flags).level


@pytest.mark.req("R-OB-05", "R-OB-06", "R-OB-07", "R-OB-08")
def test_the_five_levels():
    assert level(entry()) == 0
    answered = entry()
    answered["execution"]["observation_pointer"] = "ob-1"
    assert level(answered) == 1
    answered["verification"]["verified_state_pointer"] = "ev-2"
    assert level(answered) == 2
    assert level(proven(), sealed=False) == 3
    assert level(proven()) == 4


def test_a_reading_needs_no_answer_of_the_tool():
    assert level(proven(execution={"observation_pointer": None})) == 4


def test_success_by_attestation_alone_is_not_reconciled():
    assert level(proven(verification={"verified_state_pointer": None})) == 1


def test_a_contradiction_takes_the_upper_rungs():
    found = trust(proven(), sealed=True, contradicted=True)
    assert found.level == 2
    assert "contradicts" in found.rungs[3].because


@pytest.mark.req("R-OB-08")
@pytest.mark.parametrize(
    ("blocks", "missing"),
    [
        ({"trace": {"trace_id": ""}}, "trace evidence"),
        ({"policy_context": {"recovery_policy_version": ""}}, "policy version"),
        ({"idempotency": {"key_hash": None}}, "idempotency record"),
        ({"approval": {"approver_id": None}}, "approval records"),
        ({"approval": {"payload_hash": "f" * 64}}, "approval records"),
    ],
)
def test_without_one_binding_the_level_is_three_and_the_want_is_named(blocks, missing):
    found = trust(proven(**blocks), sealed=True)
    assert found.level == 3
    assert missing in found.rungs[4].because
    assert missing_bindings(proven(**blocks), sealed=True) == (missing,)


def test_what_needs_no_key_or_approval_does_not_miss_it():
    read = proven(side_effect_class="READ_ONLY", approval={"required": False, "approver_id": None})
    del read["idempotency"]
    assert level(read) == 4


def test_every_rung_says_why():
    for found in (entry(), proven()):
        rungs = trust(found, sealed=False).rungs
        assert [rung.level for rung in rungs] == [0, 1, 2, 3, 4]
        assert all(rung.name and rung.because for rung in rungs)
