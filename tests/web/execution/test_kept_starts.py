"""Starts that executors kept of a part of the record that is gone: effects without a record."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.callers import key_for
from tests.support.seals import seal_up
from tests.web.execution.test_after_restore import claimable, declare_restored, documents, take_readings

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


def test_a_start_that_the_record_has_is_nothing_new(shop: Workshop, clock: Clock):
    started = shop.started()
    assert tell(shop, kept(started["action_id"], clock)).json() == {"unrecorded": 0}
    assert unrecorded(shop) == []


def test_a_start_of_an_action_that_is_gone_is_listed_and_people_are_told_once(shop: Workshop, clock: Clock):
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


def test_an_action_of_which_an_executor_kept_a_start_does_not_run_again_by_itself(
    shop: Workshop, documents: Any, clock: Clock
):
    """The reading finds nothing, and yet: the executor knows that it started it."""
    action_id = shop.propose("write_document")
    seal_up()
    assert tell(shop, kept(action_id, clock)).json() == {"unrecorded": 1}
    declare_restored(clock)
    assert claimable(shop) == []
    take_readings(clock)
    assert claimable(shop) == []
    assert shop.state(action_id) == "REVIEW_REQUIRED"


def test_only_its_own_key_tells_an_executor_s_starts(shop: Workshop, clock: Clock):
    other = key_for(shop.tenant, "exec")
    answer = other.post("/executors/runner/kept", {"starts": [kept(str(uuid4()), clock)]})
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
