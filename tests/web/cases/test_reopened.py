"""A case that a person sends back to verification is verified again, from the system itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from reviews.readback.operations import claimed_batches
from tests.support.api_tenant import Clock, Workshop


@pytest.mark.req("R-SM-18")
def test_a_returned_case_is_verified_again_and_settles(shop: Workshop, clock: Clock, tmp_path: Path):
    case = shop.held(clock)
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    body = {"resolution": "VERIFY_AGAIN", "reason": "It is gone now.", "evidence": ["the folder, 12:04"]}
    answer = shop.operator.post(f"/reviews/{case['case_id']}/resolve", body)
    assert answer.json()["state"] == "RESOLVED", answer.content
    assert shop.state(case["action_id"]) == "PENDING"
    [claim] = claimed_batches.claim_batches(at=clock.now(), lanes=5)
    assert [str(each.action_id) for each in claim.due] == [case["action_id"]]
    assert shop.read_back(case["action_id"], clock) == "RECONCILED_SUCCESS"
    assert shop.report(case["action_id"])["completed"] is True
