"""Agents whose calls go wrong: flags, their events, and how they end."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from approvals import tasks
from approvals.models import Agent
from console import tasks as console_tasks
from ledger.db import tenancy
from ledger.record.queries import events
from tests.support.api_tenant import DELETE, Clock, Workshop


def calls(shop: Workshop, *tools: str, session: dict[str, Any] | None = None) -> None:
    """Calls for these tools that change nothing, in one session."""
    opened = session or shop.session()
    made = [
        {"call_id": uuid4().hex, "tool": tool, "arguments": DELETE, "pin_hash": opened["pin"]["hash"], "dry_run": True}
        for tool in tools
    ]
    for start in range(0, len(made), 50):
        body = {"calls": made[start : start + 50]}
        assert shop.agent.post(f"/sessions/{opened['session_id']}/calls", body).status_code == 200


def flags(shop: Workshop) -> list[str]:
    return [each["flag"] for each in shop.operator_key.get("/agents/librarian").json()["flags"]]


def told(shop: Workshop) -> list[tuple[str, Any]]:
    """The events of the agent, with the flag that each is about."""
    with tenancy(shop.tenant):
        agent = Agent.objects.get(agent_id="librarian")
        history = events.history(shop.tenant, agent.id)
    return [(event.kind, (detail or {}).get("flag")) for event, _, detail in history]


@pytest.mark.req("R-MC-15", "R-MT-03")
def test_three_percent_of_unknown_tools_raise_a_flag_until_the_share_is_healthy(shop: Workshop):
    calls(shop, *["delete_document"] * 97, *["erase_document"] * 3)
    assert tasks.watch_agents() == 1
    assert flags(shop) == ["PHANTOM_SHARE"]
    [flag] = shop.operator_key.get("/agents/librarian").json()["flags"]
    assert flag["facts"] == {"phantom": 3, "calls": 100, "version": "1"}
    assert tasks.watch_agents() == 0
    calls(shop, *["delete_document"] * 60)
    assert tasks.watch_agents() == 1
    assert flags(shop) == []
    assert told(shop)[1:] == [("agent_flagged", "PHANTOM_SHARE"), ("agent_flag_cleared", "PHANTOM_SHARE")]


@pytest.mark.req("R-TG-07", "R-TG-11")
def test_fifty_different_unknown_names_raise_probing_and_a_low_rate(shop: Workshop):
    calls(shop, *[f"guess_{number}" for number in range(50)])
    tasks.watch_agents()
    assert flags(shop) == ["LOW_ACCEPTANCE", "PHANTOM_SHARE", "PROBING"]


@pytest.mark.req("R-TG-07")
def test_limits_of_the_tenant_replace_the_defaults(shop: Workshop):
    watch = {"least_calls": 5, "acceptance_floor_pct": 90, "probing_names": 3}
    document = {"boundary": "disclosed_tools", "watch": watch}
    assert shop.operator_key.release("autonomy", {"version": "2", "document": document}).status_code == 201
    calls(shop, *["delete_document"] * 4, "guess_a", "guess_b")
    tasks.watch_agents()
    assert flags(shop) == ["LOW_ACCEPTANCE", "PHANTOM_SHARE"]


def test_another_version_of_the_agent_starts_without_flags(shop: Workshop, clock: Clock):
    calls(shop, *[f"guess_{number}" for number in range(50)])
    tasks.watch_agents()
    clock.forward(seconds=5)
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["delete_document"]})
    clock.forward(seconds=5)
    tasks.watch_agents()
    assert flags(shop) == []


@pytest.mark.req("R-MC-15")
def test_operators_are_notified_once_of_the_causes_to_check(shop: Workshop, clock: Clock):
    console_tasks.tell_people()
    calls(shop, *["delete_document"] * 57, *["erase_document"] * 3)
    tasks.watch_agents()
    for _ in range(2):
        clock.forward(seconds=30)
        console_tasks.tell_people()
        tasks.watch_agents()
    told = shop.operator.client.get("/t/orchid/notices").content.decode()
    assert told.count("Agent flagged") == 1
    assert 'href="/t/orchid/agents"' in told
    assert "Agent flagged" not in shop.reviewer.client.get("/t/orchid/notices").content.decode()
