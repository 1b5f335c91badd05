"""The trace of an action: every step a span, one trace id from the agent's call to what was told, and no payload."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from approvals import tasks as before
from ledger.actions.queries import actions
from ledger.db import tenancy
from reviews.tasks import verify_due
from tests.support.api_tenant import Clock, Workshop, contract, result
from tests.support.refund_shop import Counter
from tests.web.recovery.test_recovery_path import cashier, wrong

__all__ = ["cashier"]

TRACE, PARENT = "a" * 32, "b" * 16
TWELVE = (
    *("action.id", "workflow.run_id", "tool.name", "tool.version", "verification.policy_version"),
    *("recovery.policy_version", "side_effect_class", "idempotency.key_hash", "approval.id", "reconciliation.status"),
    *("discrepancy.class", "ledger.entry_id"),
)
FOUR_MORE = ["tenant.id", "approval.policy_version", "autonomy_boundary.version", "trust.level"]


def trace(shop: Any, action_id: str) -> dict[str, Any]:
    answer = shop.operator_key.get(f"/actions/{action_id}/trace")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def stages(found: dict[str, Any]) -> list[str]:
    return [span["stage"] for span in found["spans"]]


def one(found: dict[str, Any], stage: str) -> dict[str, Any]:
    [span] = [each for each in found["spans"] if each["stage"] == stage]
    return span


def deleted(shop: Workshop, clock: Clock) -> dict[str, Any]:
    """A deletion that an agent asked for inside a trace of its own, that people approved, and that was verified."""
    shop.agent.headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"
    started = shop.started()
    (Path(shop.root) / "policies" / "returns.md").unlink()
    clock.forward(seconds=2)
    shop.observe(started)
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    shop.report(started["action_id"])
    return started


@pytest.mark.req("R-TR-01", "R-TR-04", "R-TR-06")
def test_every_step_of_an_action_is_a_span_under_the_span_of_the_agent(shop: Workshop, clock: Clock):
    started = deleted(shop, clock)
    found = trace(shop, started["action_id"])
    assert (found["trace_id"], found["parent_span_id"], found["parent"]) == (TRACE, PARENT, "agent")
    assert stages(found) == [
        *("action", "gate", "approval", "claim", "start", "effect", "observation"),
        *("readback", "reconciliation", "report"),
    ]
    known = {span["span_id"] for span in found["spans"]}
    assert len(known) == len(found["spans"])
    root = one(found, "action")
    assert root["parent_span_id"] == PARENT
    assert all(span["parent_span_id"] in known for span in found["spans"] if span is not root)
    assert one(found, "reconciliation")["parent_span_id"] == one(found, "readback")["span_id"]
    assert one(found, "observation")["parent_span_id"] == one(found, "effect")["span_id"]
    # The chain in the words of its source; its first link, the model's inference, is the agent's span above.
    chain = [span["attributes"]["counterfoil.chain"] for span in found["spans"]]
    assert [link for link in chain if link] == [
        *("tool_validation", "deterministic_wrapper", "tool_execution", "verification", "reconciliation"),
    ]


def test_a_span_lasts_as_long_as_its_step_and_is_ok_only_after_a_reading(shop: Workshop, clock: Clock):
    found = trace(shop, deleted(shop, clock)["action_id"])

    def took(stage: str) -> float:
        span = one(found, stage)
        return (datetime.fromisoformat(span["end"]) - datetime.fromisoformat(span["start"])).total_seconds()

    assert 2 <= took("effect") < 10
    assert took("action") >= 92
    assert {span["stage"] for span in found["spans"] if span["status"] == "ok"} == {"action", "reconciliation"}


@pytest.mark.req("R-TR-02", "R-TR-03")
def test_every_span_has_all_attributes_and_inapplicable_ones_are_empty(shop: Workshop, clock: Clock):
    started = deleted(shop, clock)
    found = trace(shop, started["action_id"])
    entries = {event["seq"]: event["entry_id"] for event in shop.history(started["action_id"])}
    for span in found["spans"]:
        assert {*TWELVE, *FOUR_MORE} <= span["attributes"].keys(), span["stage"]
        assert span["attributes"]["action.id"] == started["action_id"]
        assert span["attributes"]["ledger.entry_id"] == entries[span["seq"]]
    told = {name: one(found, "reconciliation")["attributes"][name] for name in (*TWELVE, *FOUR_MORE)}
    assert told["reconciliation.status"] == "RECONCILED_SUCCESS"
    assert told["approval.id"]
    assert re.fullmatch("[0-9a-f]{64}", told["idempotency.key_hash"])
    assert told["trust.level"] == 3
    assert one(found, "gate")["attributes"]["idempotency.key_hash"] == ""
    ungated = trace(shop, shop.propose("write_document"))
    for span in ungated["spans"]:
        assert span["attributes"]["approval.id"] == ""
        assert span["attributes"]["discrepancy.class"] == ""


def test_a_call_without_a_trace_gets_one_without_a_parent(shop: Workshop):
    found = trace(shop, shop.propose())
    assert re.fullmatch("[0-9a-f]{32}", found["trace_id"])
    assert (found["parent_span_id"], found["parent"]) == (None, None)
    assert stages(found) == ["action", "gate", "approval"]
    assert one(found, "approval")["end"] is None


def test_the_spans_of_an_executor_are_children_of_its_attempt(shop: Workshop):
    started = shop.started()
    effect = one(trace(shop, started["action_id"]), "effect")
    assert started["trace"]["span_id"] == effect["span_id"]
    assert effect["name"] == "execute_tool delete_document"
    assert effect["attributes"]["gen_ai.tool.name"] == "delete_document"


@pytest.mark.req("R-TR-07")
def test_a_second_attempt_and_a_silent_executor_have_their_own_spans(shop: Workshop, clock: Clock):
    order = shop.claimed()
    shop.run_out()
    [again] = [each for each in shop.claim() if each["action_id"] == order["action_id"]]
    shop.start(again)
    clock.forward(seconds=60)
    before.lapse(lambda _: set(), lambda *_, **__: 0)
    found = trace(shop, order["action_id"])
    assert stages(found) == ["action", "gate", "approval", "claim", "start", "start", "effect"]
    assert one(found, "effect")["end"] is not None
    assert [span["status"] for span in found["spans"] if span["stage"] == "start"] == ["error", "unset"]


@pytest.mark.req("R-TR-07")
def test_each_recorded_reading_has_its_own_span(shop: Workshop, clock: Clock, tmp_path: Path):
    newer = contract("write_document") | {"version": "1.2.0"}
    newer["verification"]["recheck_after"] = ["PT1H", "P1D"]
    shop.operator_key.release_contract(newer)
    action_id = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    file = tmp_path / "documents" / "notes" / "today.md"
    file.parent.mkdir()
    file.write_text("Quiet.")
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    file.unlink()
    clock.forward(days=3)
    assert verify_due() == 1
    found = trace(shop, action_id)
    assert stages(found).count("readback") == 2


@pytest.mark.req("R-TR-07")
def test_a_recovery_is_a_span_and_its_action_its_child(cashier: Counter, clock: Clock):
    parent = wrong(cashier, clock)
    before.propose_follow_ups()
    with tenancy(cashier.tenant):
        [child] = [str(each.id) for each in actions.actions(cashier.tenant, limit=9) if each.parent_id is not None]
    above, below = trace(cashier, parent), trace(cashier, child)
    assert below["trace_id"] == above["trace_id"]
    recovery = one(above, "recovery")
    assert (below["parent_span_id"], below["parent"]) == (recovery["span_id"], "recovery")
    assert recovery["attributes"]["counterfoil.chain"] == "recovery"
    assert one(above, "reconciliation")["status"] == "error"
    assert one(above, "reconciliation")["attributes"]["discrepancy.class"] == "VALUE_MISMATCH"


def test_no_span_contains_an_argument_an_answer_or_a_reason(shop: Workshop, clock: Clock):
    started = shop.started(reason="The canary sings at 5.")
    shop.observe(started, result=result(evidence={"said": "canary sings too"}))
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    shop.report(started["action_id"])
    assert "canary" not in str(trace(shop, started["action_id"]))


def test_an_agent_cannot_read_traces(shop: Workshop):
    assert shop.agent.get(f"/actions/{shop.propose()}/trace").status_code == 403


@pytest.mark.req("R-TR-05")
def test_the_trace_and_the_ledger_link_to_each_other(shop: Workshop, clock: Clock):
    action_id = deleted(shop, clock)["action_id"]
    home = f"/t/{shop.slug}/actions/{action_id}"
    page = shop.reviewer.client.get(home).content.decode()
    assert f'<a class="id" href="{home}/trace">{TRACE}</a>' in page
    shown = shop.reviewer.client.get(f"{home}/trace")
    assert shown.status_code == 200
    text = shown.content.decode()
    found = trace(shop, action_id)
    for span in found["spans"]:
        assert f'data-span="{span["span_id"]}"' in text
        assert f'href="{home}/entries/{span["seq"]}"' in text
    assert "With the executor" in text
    assert f'started in the agent&#x27;s span <span class="id">{PARENT}</span>' in text.replace("'", "&#x27;")
