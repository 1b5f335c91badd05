"""Ungated effects: what changed in a real system and belongs to no action is told to a person, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from reviews import tasks
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter

AUDIT = {
    "table": "audit",
    "id_column": "id",
    "at_column": "at",
    "operation_column": "operation",
    "actor_column": "actor",
    "key_column": "key",
    "target_column": "order_id",
    "target_kind": "order",
}


@pytest.fixture
def watched(counter: Counter, secrets_dir: Path) -> Counter:
    """The till, watched from now on; what was there before is nobody's business."""
    counter.till.refund("long-ago")
    counter.open(secrets_dir, settings={"till": {"changes": AUDIT}})
    assert tasks.watch_changes() == 0
    return counter


def strays(counter: Counter) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = counter.operator.get("/reviews").json()["items"]
    return [each for each in cases if each["reason"] == "UNGATED_EFFECT"]


def test_a_refund_outside_the_gate_opens_one_case_with_the_change_as_evidence(watched: Counter):
    watched.till.refund("a-strangers-key", order_id="EX-1001")
    assert tasks.watch_changes() == 1
    assert tasks.watch_changes() == 0
    (case,) = strays(watched)
    assert case["action_id"] is None
    page = watched.operator.client.get(f"/t/orchid/cases/{case['case_id']}").content.decode()
    assert "without a recorded action" in page
    assert "a-strangers-key" in page
    for part in (
        "Change without a recorded action",
        "Find out who wrote it",
        "Add freeze",
        "Open incident",
    ):
        assert part in page, part
    assert "UNGATED_EFFECT" not in page
    queue = watched.operator.client.get("/t/orchid/cases").content.decode()
    assert "Change without a recorded action" in queue


def test_the_change_of_an_action_itself_is_never_ungated(watched: Counter, clock: Clock):
    started = watched.begun()
    watched.till.refund(started["idempotency_key"])
    assert tasks.watch_changes() == 0
    watched.tell(started)
    clock.forward(seconds=10)
    watched.read_back(started["action_id"], clock)
    assert tasks.watch_changes() == 0
    assert strays(watched) == []


def test_an_unattributed_change_waits_while_an_action_runs_on_that_order(watched: Counter, clock: Clock):
    started = watched.begun()
    watched.till.till.execute(
        "INSERT INTO audit (operation, order_id, actor, at)"
        " VALUES ('note', 'EX-1001', 'someone', now() - interval '1 day')"
    )
    assert tasks.watch_changes() == 0
    clock.forward(hours=3)
    assert tasks.watch_changes() == 1
    assert watched.state(started["action_id"]) == "EXECUTING"


def test_a_person_states_who_made_an_ungated_change(watched: Counter):
    watched.till.refund("by-hand")
    tasks.watch_changes()
    (case,) = strays(watched)
    path = f"/reviews/{case['case_id']}"
    assert watched.operator.post(f"{path}/claim").status_code == 200
    assert watched.operator.post(f"{path}/comments", {"text": "Ines did it."}).status_code == 201
    allowed = watched.operator.get(path).json()["allowed"]
    assert [each["resolution"] for each in allowed] == ["ACKNOWLEDGE"]
    body = {"resolution": "ACKNOWLEDGE", "reason": "Ines, at the desk.", "evidence": ["her note"]}
    assert settling.settle(watched.operator, case["case_id"], **body).json()["state"] == "RESOLVED"
    page = watched.operator.client.get(f"/t/orchid/cases/{case['case_id']}").content.decode()
    assert "Ines, at the desk." in page
    assert tasks.watch_changes() == 0


def test_after_an_outage_reading_continues_from_the_last_position(watched: Counter, secrets_dir: Path):
    credential = secrets_dir / "systems" / "orchid" / "till.json"
    kept = credential.read_text()
    credential.unlink()
    watched.till.refund("meanwhile")
    assert tasks.watch_changes() == 0
    credential.write_text(kept)
    assert tasks.watch_changes() == 1


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("databases", {"table": "audit"}),
        ("databases", {"table": "audit; drop", "id_column": "id"}),
        ("databases", {**AUDIT, "colour": "red"}),
        ("queues_events", {}),
        ("filesystems", {"table": "audit"}),
    ],
)
def test_an_invalid_watch_is_refused(counter: Counter, pattern: str, part: dict[str, Any]):
    body = {"name": "odd", "pattern": pattern, "settings": {"changes": part}}
    answer = counter.operator_key.post("/systems", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "NOT_WATCHABLE")


def test_a_message_that_was_published_outside_the_gate_is_ungated(counter: Counter, secrets_dir: Path, valkey_url: str):
    counter.open(secrets_dir)
    part = {"stream": "shop:events", "key_field": "key", "operation_field": "event"}
    body = {"name": "events", "pattern": "queues_events", "settings": {"changes": part}}
    assert counter.operator_key.post("/systems", body).status_code == 201
    (secrets_dir / "systems" / "orchid" / "events.json").write_text(f'{{"url": "{valkey_url}"}}')
    with redis.Redis.from_url(valkey_url) as client:
        client.xadd("shop:events", {"event": "packed", "key": "before"})
        assert tasks.watch_changes() == 0
        started = counter.begun()
        client.xadd("shop:events", {"event": "packed", "key": started["idempotency_key"]})
        client.xadd("shop:events", {"event": "packed", "key": "a-strangers-key"})
    assert tasks.watch_changes() == 1
    assert tasks.watch_changes() == 0
    assert len(strays(counter)) == 1
