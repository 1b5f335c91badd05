"""On a running console: a reading costs what its price says, and a lookup that finds too much is never registered."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from console.local.installation import ROOT

CONTRACT = ROOT / "client" / "example" / "contracts" / "refund_small_amount.json"


@pytest.mark.req("R-CX-12")
def test_a_reading_costs_what_was_set_and_the_payer_is_named(busy_ground):
    ground, owner = busy_ground, busy_ground.person("administrator")
    price = {"kind": "reading", "about": "shop", "amount": "0.40", "currency": "EUR", "payer": "Support"}
    assert owner.post("/prices", price).status_code == 201
    assert owner.post("/cost-budgets", {"amount": "500", "currency": "EUR", "share": 80}).status_code == 201
    ground.wait_for(ground.send("small_refund").action_id, "RECONCILED_SUCCESS", within_s=120)
    lines = [each for each in owner.items("/costs") if each["payer"] == "Support"]
    assert {each["about"] for each in lines} == {"shop"}
    spent = sum(Decimal(each["amount"]) for each in lines)
    assert spent == sum(each["quantity"] for each in lines) * Decimal("0.40") > 0
    shown = owner.http.get("/t/example/costs").text
    assert f"Support pays {spent:.2f} EUR." in shown
    assert f"{500 - spent:.2f} EUR of the monthly budget of 500.00 EUR is left." in shown


def test_a_lookup_is_tried_on_the_real_shop_before_its_contract_is_registered(busy_ground):
    ground, operator = busy_ground, busy_ground.machine("oper")
    sent = ground.send("small_refund")
    ground.wait_for(sent.action_id, "RECONCILED_SUCCESS", within_s=120)
    [refund] = ground.rows("refunds", sent.arguments["order_id"])
    samples = {
        "present": {"arguments": sent.arguments, "idempotency_key": refund["idempotency_key"]},
        "absent": {"arguments": sent.arguments, "idempotency_key": "nobody"},
    }
    document: dict[str, Any] = json.loads(CONTRACT.read_text()) | {"name": "refund_tried", "dry_run": samples}
    wide = json.loads(json.dumps(document))
    wide["verification"]["lookup"]["effects"]["refund"]["where"] = {"order_id": "sr.order_id"}
    refused = operator.post("/contracts", wide)
    assert refused.status_code == 422
    assert "the lookup is too wide" in json.dumps(refused.json()["errors"])
    assert operator.http.get("/api/v1/contracts/refund_tried/1.0.0").status_code == 404
    assert operator.post("/contracts", document).status_code == 201
