"""Malformed calls by the thousand: none is a server error, goes unrecorded, reaches an executor or is misnamed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from approvals.models import Call
from approvals.rules.layers import CODES
from ledger.tenancy import tenancy
from tests.malice import KINDS, Malice, Sent
from tests.workshop import Workshop

BATCH = 50
PER_SESSION = 10


def run(shop: Workshop, count: int, seed: int) -> Counter[str]:
    """Send so many calls; how many of each kind were answered as they should be."""
    chance, met = random.Random(seed), Counter[str]()
    session: dict[str, Any] = {}
    for number in range(count // BATCH):
        if number % PER_SESSION == 0:
            session = shop.session(tools=["delete_document"])
        batch = Malice(session["pin"]["hash"], "write_document", chance).batch(BATCH)
        path = f"/sessions/{session['session_id']}/calls"
        answer = shop.agent.post(path, {"calls": [each.raw for each in batch]})
        assert answer.status_code == 200, (seed, number, answer.status_code, answer.content[:300])
        results = answer.json()["results"]
        assert len(results) == len(batch)
        for sent, result in zip(batch, results, strict=True):
            judge(sent, result)
            met[sent.kind] += 1
    return met


def judge(sent: Sent, result: dict[str, Any]) -> None:
    assert result["accepted"] is False, sent
    code = result["result"]["error"]["code"]
    # A call id that came before is a conflict, which is no decision of the gate.
    assert code in CODES | {"IDEMPOTENCY_CONFLICT"}, (sent, result)
    assert not sent.codes or code in sent.codes, (sent, result)
    assert code != "GATE_FAULT", (sent, result)
    if isinstance(sent.raw, dict) and isinstance(sent.raw.get("call_id"), str) and len(sent.raw["call_id"]) <= 128:
        assert result["call_id"] == sent.raw["call_id"].replace("\x00", "\ufffd")


def nothing_happened(shop: Workshop, met: Counter[str]) -> None:
    """Every call is on the gate's record, and no executor has anything to do."""
    with tenancy(shop.tenant):
        kept = Call.objects.filter(tenant_id=shop.tenant)
        replayed = sum(met.values()) - kept.count()
        assert not kept.filter(accepted=True).exists()
        assert not kept.filter(layer="").exists()
    # Only what names a call that is on record already is not recorded once more.
    assert 0 <= replayed <= met["arbitrary"] // 20
    assert shop.claim() == []


@pytest.mark.req("R-MC-21", "R-TG-03", "R-TG-04", "R-MC-05")
def test_a_thousand_wrong_calls_are_each_answered_recorded_and_named(shop: Workshop):
    met = run(shop, 1_000, seed=6)
    assert set(met) == {*KINDS, "arbitrary"}
    nothing_happened(shop, met)


@pytest.mark.long
@pytest.mark.req("R-MC-21", "R-TG-03", "R-TG-04", "R-MC-05")
def test_a_hundred_thousand_wrong_calls_are_each_answered_recorded_and_named(shop: Workshop):
    met = Counter[str]()
    for seed in range(20):
        met += run(shop, 5_000, seed=seed)
    assert sum(met.values()) == 100_000
    nothing_happened(shop, met)


def test_no_body_is_a_server_error(shop: Workshop):
    chance = random.Random(6)
    session = shop.session(tools=["delete_document"])
    malice = Malice(session["pin"]["hash"], "write_document", chance)
    path = f"/api/v1/sessions/{session['session_id']}/calls"
    for _ in range(300):
        body = bytearray(malice.noise().encode() if chance.random() < 0.5 else b'{"calls": [' + malice.noise().encode())
        for _ in range(chance.randrange(3)):
            body.insert(chance.randrange(len(body) + 1), chance.randrange(256))
        answer = shop.agent.client.post(path, bytes(body), "application/json", headers=shop.agent.headers)
        assert answer.status_code in (400, 422), (bytes(body), answer.status_code)
        assert answer["Content-Type"] == "application/problem+json"
