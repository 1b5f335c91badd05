"""Twenty-one situations of a refund, told of an action that was gated and of a claim that was not."""

from __future__ import annotations

import pytest

from tests.web.claims.desk import Desk
from tests.web.claims.refund_situations import RIGHT, SITUATIONS, TRAPS, Situation


def names(situation: Situation) -> str:
    return situation.name.replace(" ", "-")


def test_the_set_has_fourteen_traps_and_seven_that_are_right():
    assert (len(TRAPS), len(RIGHT), len({each.name for each in SITUATIONS})) == (14, 7, 21)
    assert [each.is_safe for each in SITUATIONS] == [False] * 14 + [True] * 7


@pytest.mark.parametrize("situation", SITUATIONS, ids=names)
def test_an_ungated_refund_is_safe_to_claim_only_where_it_is_right(desk: Desk, situation: Situation):
    situation.bring_about(desk.processor, "op-1")
    located = {"operation": desk.processor.last()["id"], "target": None} if situation.by_id else {}
    claim_id = desk.claim(
        expected={"amount": 4000, "currency": "EUR", "customer": "cus_1"} | situation.claim, **located
    )
    for seconds in (0, 6, 60):
        told = desk.read(claim_id, seconds=seconds)
        assert told["safe_to_claim"] is situation.is_safe, told["sentence"]
        assert told["sentence"].startswith("Safe to claim: " if situation.is_safe else "Not safe to claim")
    assert told["outcome"] == situation.ungated, told["sentence"]
