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


BY_KEY = {"lookup": {"of": {"charge": "sr.charge"}, "match": {"metadata.operation": "scope.idempotency_key"}}}
BY_ID = {
    "lookup": {"id": "so.evidence.refund"},
    "checks": {"idempotency_key": {"not_applicable": "The refund's own id singles it out."}},
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=names)
def test_a_gated_refund_is_told_as_verified_only_where_it_is_right(desk: Desk, situation: Situation):
    desk.open_gate(**(BY_ID if situation.by_id else BY_KEY))
    started = desk.start(**situation.claim)
    situation.bring_about(desk.processor, started["idempotency_key"])
    desk.observe(started, **({"refund": desk.processor.last()["id"]} if situation.by_id else {}))
    for seconds in (2, 6, 60):
        told = desk.action(started["action_id"], seconds=seconds)
        assert (told["outcome"] == "VERIFIED") is situation.is_safe, told["user_status"]
        report = desk.shop.agent.get(f"/actions/{started['action_id']}/report").json()
        assert report["completed"] is situation.is_safe, report
    assert told["outcome"] == situation.gated, told["user_status"]
