"""Starts that executors kept of a part of the record that is gone: effects without a record."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from ledger.db import tenancy
from reviews.reporting.queries import money_differences
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.callers import key_for
from tests.support.seals import seal_up
from tests.web.execution.test_after_restore import (
    SET_BACK,
    claimable,
    declare_restored,
    documents,
    notice_on,
    take_readings,
)

__all__ = ["documents"]


def kept(action_id: str, clock: Clock, **changes: Any) -> dict[str, Any]:
    return {
        "action_id": action_id,
        "attempt": 1,
        "tool": "write_document",
        "target": "document/notes/today.md",
        "payload_hash": "44" * 32,
        "started_at": clock.now().isoformat(),
        "status": "success",
    } | changes


def tell(shop: Workshop, *starts: dict[str, Any]) -> Any:
    return shop.executor.post("/executors/runner/kept", {"starts": list(starts)})


def unrecorded(shop: Workshop) -> list[dict[str, Any]]:
    starts: list[dict[str, Any]] = shop.operator.get("/ledger/standing").json()["unrecorded_starts"]
    return starts


def test_a_kept_start_that_is_on_record_is_ignored(shop: Workshop, clock: Clock):
    started = shop.started()
    assert tell(shop, kept(started["action_id"], clock)).json() == {"unrecorded": 0}
    assert unrecorded(shop) == []


def test_a_start_of_a_lost_action_is_listed_and_people_are_notified_once(shop: Workshop, clock: Clock):
    shop.approved()
    seal_up()
    start = kept(str(uuid4()), clock)
    assert tell(shop, start).json() == {"unrecorded": 1}
    assert tell(shop, start).json() == {"unrecorded": 0}
    [listed] = unrecorded(shop)
    told = {name: listed[name] for name in ("action_id", "attempt", "tool", "target", "status", "executor_id")}
    assert told == {name: start[name] for name in told if name != "executor_id"} | {"executor_id": "runner"}
    page = words(shop.operator.client.get(f"/t/{shop.slug}/ledger").content.decode())
    assert "Effects without a record" in page
    assert "The tool said success write_document document/notes/today.md" in page
    assert "Executors started 1 actions that this record does not have" in page


def test_an_action_whose_lost_start_an_executor_kept_is_not_started_automatically(
    shop: Workshop, documents: Any, clock: Clock
):
    """The reading finds nothing, and yet: the executor knows that it started it."""
    action_id = shop.propose("write_document")
    seal_up()
    assert tell(shop, kept(action_id, clock)).json() == {"unrecorded": 1}
    declare_restored(clock)
    assert claimable(shop) == []
    take_readings(clock)
    known = "An executor started it, which this record does not have: it may have been done (told then)."
    assert notice_on(shop, f"actions/{action_id}") == f"{SET_BACK}{known} It is held for review."
    assert claimable(shop) == []
    assert shop.state(action_id) == "REVIEW_REQUIRED"
    shown = words(shop.operator.client.get(f"/t/{shop.slug}/actions/{action_id}").content.decode())
    assert "nothing was executed" not in shown
    assert "Not checked yet: the system of record has not been read." in shown
    with tenancy(shop.tenant):
        assert money_differences(shop.tenant, [UUID(action_id)]) == {}, "whether money went is not known"


def test_the_handoff_lists_each_lost_start_and_if_its_action_is_on_record(shop: Workshop, clock: Clock):
    """For who owns the system: no target and no payload in it, but what must be looked for there."""
    action_id, gone = shop.propose("write_document"), str(uuid4())
    seal_up()
    assert tell(shop, kept(gone, clock, status=""), kept(action_id, clock)).json() == {"unrecorded": 2}
    handoff = shop.auditor.get("/handoffs/unrecorded")
    assert b"today.md" not in handoff.content
    rows = {row["action_id"]: row for row in handoff.json()["rows"]}
    assert {name: (row["tool_status"], row["action_state"]) for name, row in rows.items()} == {
        gone: (None, None),
        action_id: ("success", "VALIDATED"),
    }
    same = {"attempt": 1, "executor_id": "runner", "tool": "write_document", "payload_hash": "44" * 32}
    assert same.items() <= rows[gone].items()
    assert rows[gone]["started_at"] <= rows[gone]["reported_at"]
    earlier = shop.auditor.get("/handoffs/unrecorded?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z").json()
    assert earlier["rows"] == []


def test_only_the_key_of_an_executor_can_report_its_starts(shop: Workshop, clock: Clock):
    other = key_for(shop.tenant, "exec")
    answer = other.post("/executors/runner/kept", {"starts": [kept(str(uuid4()), clock)]})
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
