"""Dirty workspaces: which action left the target of local writes in doubt, and what ends that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ledger.record.rules.workspaces import dirtying_action


def write(state: str, *, of: str = "EPHEMERAL_WRITE", **changes: Any) -> Any:
    known = {"state": state, "reached_by": "", "side_effect_class": of, "approval_id": None, "discrepancy": ""}
    return SimpleNamespace(**known | {"contradicted": False, "reversed": False} | changes)


@pytest.mark.req("R-VD-02")
@pytest.mark.parametrize(
    "state", ["UNKNOWN", "REVIEW_REQUIRED", "PARTIALLY_COMMITTED", "COMPENSATION_FAILED", "ABANDONED"]
)
def test_an_end_in_doubt_leaves_the_workspace_dirty_until_a_later_write_is_verified(state: str):
    doubtful = write(state)
    assert dirtying_action([doubtful]) is doubtful
    assert dirtying_action([write("RECONCILED_SUCCESS"), doubtful]) is None
    assert dirtying_action([doubtful, write("RECONCILED_SUCCESS")]) is doubtful
    assert dirtying_action([write("ROLLED_BACK"), doubtful]) is None
    assert dirtying_action([write("RECONCILED_SUCCESS", discrepancy="NO_OP_SUCCESS"), doubtful]) is None


@pytest.mark.req("R-VD-02")
@pytest.mark.parametrize("state", ["PROPOSED", "VALIDATED", "EXECUTING", "PENDING", "FAILED"])
def test_a_write_that_has_not_ended_or_came_to_nothing_changes_nothing(state: str):
    assert dirtying_action([write(state)]) is None
    doubtful = write("UNKNOWN")
    assert dirtying_action([write(state), doubtful]) is doubtful


@pytest.mark.req("R-VD-02")
def test_a_verified_write_that_is_contradicted_later_is_dirty_again():
    assert dirtying_action([write("RECONCILED_SUCCESS", contradicted=True)]) is not None


def test_actions_of_other_classes_leave_no_workspace_dirty():
    assert dirtying_action([write("UNKNOWN", of="HIGH_RISK_EXTERNAL")]) is None
    assert dirtying_action([]) is None
