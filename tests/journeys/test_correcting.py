"""Too much was paid: an operator proposes the correction, a reviewer approves it, and a reading closes the case."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("case", "there"),
    [("duplicate", "refund 2 times instead of once"), ("wrong_amount", "amount {more} instead of {one}")],
)
def test_what_was_paid_too_much_is_charged_again_and_the_case_closes(busy_ground, case, there):
    ground, operator = busy_ground, busy_ground.person("operator")
    sent = ground.send(case)
    amount, order = sent.arguments["amount"], sent.arguments["order_id"]
    ground.wait_for(sent.action_id, "REVIEW_REQUIRED", within_s=120)
    [case_row] = ground.cases(sent.action_id)
    path = f"/reviews/{case_row['case_id']}"
    shown = operator.get(path)
    refunds = ground.rows("refunds", order)
    assert shown["rows"] == [f"refund {each['id']}" for each in refunds]
    assert "CORRECT" in {each["resolution"] for each in shown["allowed"]}
    body = {
        "resolution": "CORRECT",
        "reason": "The customer got too much.",
        "evidence": ["the reading"],
        "covers": shown["covers_digest"],
        "password": ground.password("operator"),
    }
    assert operator.post(f"{path}/resolve", body).json()["state"] == "OPEN"
    ground.until(lambda: operator.get(path)["corrections"][0]["action_id"], lambda: operator.get(path))
    [correction] = operator.get(path)["corrections"]
    assert (correction["tool"], correction["target"]) == ("charge_again", f"refund/{refunds[-1]['id']}")
    ground.approve(correction["action_id"])
    ground.wait_for(sent.action_id, "RECONCILED_SUCCESS", within_s=120)
    [charge] = ground.rows("charges", order)
    assert sum(each["amount"] for each in refunds) - charge["amount"] == amount
    closed = operator.get(path)
    assert (closed["state"], closed["resolution"]) == ("RESOLVED", "CORRECT")
    report = ground.agent.report(sent.action_id)
    assert (report.code, report.completed) == ("COMPLETED", True)
    money = {"one": f"{amount / 100:.2f} EUR", "more": f"{amount / 10:.2f} EUR"}
    assert report.text == (
        "Done after a correction, and confirmed in the system of record. At first it was not as requested:"
        f" {there.format(**money)}."
    )
    ground.verify_ledger()
