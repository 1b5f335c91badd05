"""The client library judges effect receipts as the published vectors say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterfoil.connection import Connection
from counterfoil.execution.effect_receipts import EffectReceipt, ReceiptInvalid, effect_receipt
from counterfoil.execution.grants import KeySet, KeysUnknown

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "outcome-receipt.vectors.json").read_text())
# The library does not hold a statement against its schema or the log.
SIGNED = {"valid", "invalid: the predicate does not fit its schema"}


def published_keys() -> KeySet:
    return KeySet(lambda: VECTORS["jwks"])


@pytest.mark.parametrize("vector", VECTORS["receipts"], ids=lambda each: each["name"])
def test_a_receipt_that_its_issuer_did_not_sign_as_one_is_refused(vector: dict[str, Any]):
    receipt = EffectReceipt(vector["receipt"])
    if vector["judgement"] in SIGNED:
        assert receipt.statement(published_keys())["predicateType"] == "urn:counterfoil:effect-receipt:v1"
    else:
        with pytest.raises(ReceiptInvalid):
            receipt.statement(published_keys())


def test_without_the_issuers_keys_nothing_is_said_of_a_receipt():
    def away() -> dict[str, Any]:
        raise httpx.ConnectError("nobody there")

    with pytest.raises(KeysUnknown):
        EffectReceipt(VECTORS["receipts"][0]["receipt"]).statement(KeySet(away))


def test_a_receipt_is_asked_for_by_the_id_of_its_action():
    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("GET", "/api/v1/actions/7/effect-receipt")
        return httpx.Response(200, json=VECTORS["receipts"][0]["receipt"])

    http = httpx.Client(transport=httpx.MockTransport(answer))
    connection = Connection(url="http://console.test", key="cf_audit_x", http=http)
    receipt = connection.send(effect_receipt("7"))
    assert receipt.statement(published_keys())["predicate"]["ended"]["verified"] is False
