"""Releasing to a system that cannot be verified: irreversible actions wait, and fail cleanly in the end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from console.tasks import lapse
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from reviews.readback.operations import systems
from reviews.readback.operations.systems import ReadAttempt
from tests.support.api_tenant import Clock, Workshop
from tests.support.callers import key_for, person_for

POLICY = {"lease_s": 60}


def away(shop: Workshop, clock: Clock, *, times: int = 5) -> None:
    """The documents' system does not answer, as often as opens its circuit."""
    at = clock.now()
    with tenancy(shop.tenant):
        system = catalogue_queries.system(shop.tenant, "documents")
        assert system is not None
        asked = [ReadAttempt(began_at=at, took_ms=1, unanswered="No route to it.") for _ in range(times)]
        systems.record_attempts(tenant_id=shop.tenant, system_id=system.id, asked=asked, at=at)


def back(shop: Workshop, clock: Clock) -> None:
    with tenancy(shop.tenant):
        system = catalogue_queries.system(shop.tenant, "documents")
        assert system is not None
        asked = [ReadAttempt(began_at=clock.now(), took_ms=1)]
        systems.record_attempts(tenant_id=shop.tenant, system_id=system.id, asked=asked, at=clock.now())


def waits(shop: Workshop, action_id: str, tool: str = "delete_document") -> list[str]:
    items = shop.executor.get(f"/executions/ready?tools={tool}").json()["items"]
    [ours] = [each for each in items if each["action_id"] == action_id]
    return list(ours["waiting_for"])


def policy(shop: Workshop, **parts: Any) -> None:
    body = {"version": "2", "document": POLICY | parts}
    assert shop.operator_key.release("verification", body).status_code == 201


def system(shop: Workshop) -> dict[str, Any]:
    [shown] = shop.operator_key.get("/systems").json()["items"]
    return dict(shown["health"])


class TestOpenCircuit:
    @pytest.mark.req("R-FB-10", "R-EX-14")
    def test_an_irreversible_action_is_not_released_while_the_circuit_is_open(self, shop: Workshop, clock: Clock):
        action_id = shop.approved()
        assert waits(shop, action_id) == []
        away(shop, clock)
        assert waits(shop, action_id) == ["verification"]
        assert shop.claim() == []
        back(shop, clock)
        assert [order["action_id"] for order in shop.claim()] == [action_id]

    def test_a_reversible_action_is_released_despite_an_open_circuit(self, shop: Workshop, clock: Clock):
        action_id = shop.propose("write_document")
        away(shop, clock)
        assert waits(shop, action_id, "write_document") == []
        assert [order["action_id"] for order in shop.claim()] == [action_id]

    @pytest.mark.req("R-FB-10")
    def test_a_grant_from_before_cannot_start_after_the_circuit_opened(self, shop: Workshop, clock: Clock):
        order = shop.claimed()
        away(shop, clock)
        answer = shop.start(order)
        assert (answer.status_code, answer.json()["code"]) == (409, "SYSTEM_UNVERIFIABLE")
        assert shop.state(order["action_id"]) == "VALIDATED"
        back(shop, clock)
        assert shop.start(order).status_code == 201

    def test_a_policy_may_ignore_the_open_circuit(self, shop: Workshop, clock: Clock):
        policy(shop, stop_release={"open_circuit": False})
        action_id = shop.approved()
        away(shop, clock)
        assert waits(shop, action_id) == []

    @pytest.mark.req("R-RP-18", "R-EX-14")
    def test_an_action_that_waited_past_its_release_deadline_fails_without_execution(
        self, shop: Workshop, clock: Clock
    ):
        action_id = shop.approved()
        away(shop, clock)
        clock.forward(hours=2)
        lapse()
        assert shop.state(action_id) == "FAILED"
        shown = shop.operator_key.get(f"/actions/{action_id}").json()
        assert shown["entry"]["reconciliation"]["recovery_decision"] == "RT-18 DEFER_OR_FAIL_CLEANLY"
        assert shown["entry"]["execution"]["status"] == "NOT_EXECUTED"
        assert shown["entry"]["verification"]["status"] == "NOT_REQUIRED"
        assert shop.history(action_id)[-1]["event"] == "provider_outage"

    def test_an_action_not_started_in_time_is_not_an_outage(self, shop: Workshop, clock: Clock):
        action_id = shop.approved()
        away(shop, clock)
        back(shop, clock)
        clock.forward(hours=2)
        lapse()
        assert shop.history(action_id)[-1]["event"] == "approval_expired"

    def test_an_unapproved_action_expires(self, shop: Workshop, clock: Clock):
        action_id = shop.propose()
        away(shop, clock)
        clock.forward(days=2)
        lapse()
        assert shop.history(action_id)[-1]["event"] == "approval_expired"


class TestDebt:
    def test_too_many_unverified_actions_stop_the_next_release(self, shop: Workshop, clock: Clock):
        policy(shop, stop_release={"waiting": 1})
        started = shop.started()
        shop.observe(started)
        action_id = shop.approved(path="other.md")
        assert waits(shop, action_id) == ["verification"]
        assert system(shop)["not_releasing"] == "TOO_MANY_WAIT"

    def test_an_action_unverified_for_too_long_stops_the_next_release(self, shop: Workshop, clock: Clock):
        policy(shop, stop_release={"oldest_s": 30})
        started = shop.started()
        shop.observe(started)
        action_id = shop.approved(path="other.md")
        assert waits(shop, action_id) == []
        clock.forward(seconds=31)
        assert waits(shop, action_id) == ["verification"]

    def test_the_system_list_shows_what_waits(self, shop: Workshop, clock: Clock):
        clock.stop()
        started = shop.started()
        shop.observe(started)
        shown = system(shop)
        assert (shown["waiting"], shown["due"], shown["circuit"]) == (1, 0, "CLOSED")
        assert shown["oldest_at"] is not None
        clock.forward(seconds=10)
        assert system(shop)["due"] == 1


class TestSwitch:
    def test_a_person_stops_and_resumes_releases_with_a_reason(self, shop: Workshop, clock: Clock):
        action_id = shop.approved()
        path = "/systems/documents"
        answer = shop.operator.post(f"{path}/stop-releasing", {"reason": "They migrate tonight."})
        assert answer.json() == {"name": "documents", "stopped": True}
        assert waits(shop, action_id) == ["verification"]
        assert system(shop)["stopped_because"] == "They migrate tonight."
        assert shop.operator.post(f"{path}/stop-releasing", {"reason": "Again."}).json()["code"] == "ALREADY_STOPPED"
        assert shop.operator.post(f"{path}/resume-releasing", {"reason": "Done."}).json()["stopped"] is False
        assert waits(shop, action_id) == []
        assert shop.operator.post(f"{path}/resume-releasing", {"reason": "Again."}).status_code == 409
        with tenancy(shop.tenant):
            row = catalogue_queries.system(shop.tenant, "documents")
            assert row is not None
            events = [event.kind for event, _, _ in events_queries.history(shop.tenant, row.id)]
        assert events[-2:] == ["releasing_stopped", "releasing_resumed"]

    def test_no_policy_overrides_a_stop_by_a_person(self, shop: Workshop, clock: Clock):
        action_id = shop.approved()
        shop.operator_key.post("/systems/documents/stop-releasing", {"reason": "Stop."})
        policy(shop, stop_release={"open_circuit": False})
        assert system(shop)["not_releasing"] == "BY_PERSON"
        assert waits(shop, shop.approved(path="b.md")) == ["verification"]
        assert shop.state(action_id) == "VALIDATED"

    @pytest.mark.parametrize("role", ["reviewer", "compliance"])
    def test_other_roles_cannot_stop_releases(self, shop: Workshop, role: str):
        person = person_for(shop.tenant, role, name=f"{role}@switch")
        assert person.post("/systems/documents/stop-releasing", {"reason": "Stop."}).status_code == 403

    @pytest.mark.parametrize("kind", ["agent", "exec", "audit"])
    def test_other_keys_cannot_stop_releases(self, shop: Workshop, kind: str):
        assert key_for(shop.tenant, kind).post("/systems/documents/stop-releasing", {"reason": "x"}).status_code == 403

    def test_an_unknown_system_is_not_found(self, shop: Workshop):
        assert shop.operator.post("/systems/nowhere/stop-releasing", {"reason": "Stop."}).status_code == 404


def test_a_circuit_is_half_open_once_its_probe_is_due(shop: Workshop, clock: Clock):
    away(shop, clock)
    assert system(shop)["circuit"] == "OPEN"
    clock.forward(seconds=timedelta(minutes=1).total_seconds())
    assert system(shop)["circuit"] == "HALF_OPEN"
