"""Malformed calls by the thousand: none is a server error, goes unrecorded, reaches an executor or is misnamed."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg
import pytest

from approvals.gate.rules.layers import CODES
from approvals.models import Call, Grant
from ledger.db import tenancy
from ledger.models import Action
from tests.support.api_tenant import Workshop, workshop
from tests.support.bad_calls import KINDS, Malice, Sent

BATCH = 50
PER_SESSION = 10
SEEDS, PER_SEED = 20, 5_000
# A call id that came before is a conflict, which is no decision of the gate and is recorded no second time.
REUSED = "IDEMPOTENCY_CONFLICT"


@dataclass
class Met:
    """What was sent, by kind, and what was answered, by code."""

    kinds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    # Of these, the very same call once more: it got the first one's answer, and is recorded no second time.
    repeated: Counter[str] = field(default_factory=Counter)
    actions: set[str] = field(default_factory=set)

    def add(self, other: Met) -> None:
        self.kinds += other.kinds
        self.codes += other.codes
        self.repeated += other.repeated

    def __str__(self) -> str:
        lines = [f"{sum(self.kinds.values()):,} calls; sent:", *_listed(self.kinds), "answered:", *_listed(self.codes)]
        lines += ["of these the same call once more:", *_listed(self.repeated)]
        return "\n".join(lines)


def _listed(counted: Counter[str]) -> list[str]:
    return [f"{count:>9,}  {name}" for name, count in counted.most_common()]


@pytest.fixture
def shop(committed_db: Any) -> Workshop:
    """What is committed call by call, as the product does it: one transaction for all would be another database."""
    return workshop("orchid").set_up()


def tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}")
        sys.stdout.flush()


def run(shop: Workshop, count: int, seed: int) -> Met:
    """Send so many calls, and judge each answer; then what is on record of them."""
    chance, met, opened = random.Random(seed), Met(), []
    session: dict[str, Any] = {}
    named: set[str] = set()
    for number in range(count // BATCH):
        if number % PER_SESSION == 0:
            session = shop.session(tools=["delete_document"])
            opened.append(UUID(session["session_id"]))
            named.clear()
        batch = Malice(session["pin"]["hash"], "write_document", chance).batch(BATCH)
        path = f"/sessions/{session['session_id']}/calls"
        answer = shop.agent.post(path, {"calls": [each.raw for each in batch]})
        assert answer.status_code == 200, (seed, number, answer.status_code, answer.content[:300])
        results = answer.json()["results"]
        assert len(results) == len(batch)
        for sent, result in zip(batch, results, strict=True):
            note(met, sent, result, named)
    nothing_happened(shop, opened, met)
    return met


def note(met: Met, sent: Sent, result: dict[str, Any], named: set[str]) -> None:
    """Count a call; `named` are those of its session that have an id."""
    code = result["result"]["error"]["code"]
    judge(sent, result, code)
    if result["call_id"] and code != REUSED:
        text = json.dumps(sent.raw, sort_keys=True)
        met.repeated[code] += text in named
        named.add(text)
    met.kinds[sent.kind] += 1
    met.codes[code] += 1
    if result["action_id"]:
        met.actions.add(result["action_id"])


def judge(sent: Sent, result: dict[str, Any], code: str) -> None:
    assert result["accepted"] is False, sent
    assert code in CODES | {REUSED}, (sent, result)
    assert not sent.codes or code in sent.codes, (sent, result)
    assert code != "GATE_FAULT", (sent, result)
    assert result["state"] in (None, "FAILED"), (sent, result)
    if isinstance(sent.raw, dict) and isinstance(sent.raw.get("call_id"), str) and len(sent.raw["call_id"]) <= 128:
        assert result["call_id"] == sent.raw["call_id"].replace("\x00", "\ufffd")


def nothing_happened(shop: Workshop, sessions: list[UUID], met: Met) -> None:
    """Every call is on the gate's record under the code that was answered, and no executor has anything to do."""
    with tenancy(shop.tenant):
        kept = list(Call.objects.filter(tenant_id=shop.tenant, session_id__in=sessions))
        actions = list(Action.objects.filter(tenant_id=shop.tenant, session_id__in=sessions))
        assert not Grant.objects.filter(tenant_id=shop.tenant).exists()
    recorded = met.codes - met.repeated
    reused = recorded.pop(REUSED, 0)
    assert Counter(call.code for call in kept) == recorded
    assert not [call for call in kept if call.accepted or not call.layer or not call.reason]
    # Only what is sent at random comes upon an id that came before, and that seldom.
    assert reused + met.repeated.total() <= met.kinds["arbitrary"] // 20
    # What resolved to the tool is an action that failed before anything was sent, and its agent was told.
    assert {str(action.id) for action in actions} == met.actions
    assert {(action.state, action.attempt_count, action.noticed) for action in actions} <= {("FAILED", 0, True)}
    assert shop.claim() == []


@pytest.mark.req("R-MC-21", "R-TG-03", "R-TG-04", "R-MC-05")
def test_a_thousand_wrong_calls_are_each_answered_recorded_and_named(shop: Workshop):
    assert set(run(shop, 1_000, seed=6).kinds) == {*KINDS, "arbitrary"}


@pytest.mark.long
@pytest.mark.req("R-MC-21", "R-TG-03", "R-TG-04", "R-MC-05")
def test_a_hundred_thousand_wrong_calls_are_each_answered_recorded_and_named(
    shop: Workshop, superuser_connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
):
    """Twenty seeds of five thousand; `FUZZ_FROM=7` goes on with the eighth."""
    first, met, began = int(os.environ.get("FUZZ_FROM", "0")), Met(), monotonic()
    for seed in range(first, SEEDS):
        met.add(run(shop, PER_SEED, seed))
        superuser_connection.execute("ANALYZE")
        tell(capsys, f"seed {seed}: {sum(met.kinds.values()):,} calls, {monotonic() - began:,.0f} s")
    tell(capsys, f"{met}\neach was refused, recorded under its code and reached no executor")
    assert sum(met.kinds.values()) == (SEEDS - first) * PER_SEED
    assert set(met.kinds) == {*KINDS, "arbitrary"}


def test_no_request_body_causes_a_server_error(shop: Workshop):
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
