"""The pages about agents, their calls and their contracts."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from approvals import tasks
from approvals.models import Agent
from console import tasks as notices
from console.models import PageView
from console.notifications.facts import load_facts
from console.notifications.messages import render_message
from console.notifications.rules import Occasion
from ledger.db import tenancy
from ledger.record.queries import events
from tests.support.api_tenant import Clock, Workshop, contract, workshop
from tests.web.agents.test_watching import calls


def page(person: Any, path: str, status: int = 200) -> str:
    answer = person.client.get(f"/t/orchid/{path}")
    assert answer.status_code == status, answer.content[:500]
    return unescape(answer.content.decode())


def links(text: str, starting: str) -> list[str]:
    return re.findall(rf'href="(/t/orchid/{starting}[^"]*)"', text)


def flagged(shop: Workshop) -> None:
    calls(shop, *["delete_document"] * 57, *["erase_document"] * 3)
    tasks.watch_agents()


@pytest.mark.req("R-MC-15", "R-TG-07")
def test_a_flagged_agent_comes_first_on_agents_and_home_until_it_is_healthy(shop: Workshop):
    shop.operator_key.post("/agents", {"agent_id": "archivist", "version": "1", "tools": ["delete_document"]})
    flagged(shop)
    listed = page(shop.operator, "agents")
    assert listed.index("Needs attention") < listed.index("librarian") < listed.index("archivist")
    assert "Calls unknown tools" in listed
    home = page(shop.operator, "")
    assert "librarian" in home
    assert "check the tools loaded, renames and the model tier" in home
    detail = page(shop.operator, "agents/librarian")
    assert "3 of 60 calls named a tool that does not exist" in detail
    calls(shop, *["delete_document"] * 100)
    tasks.watch_agents()
    assert "Calls unknown tools" not in page(shop.operator, "agents")
    assert "the model tier" not in page(shop.operator, "")


@pytest.mark.req("R-RB-08")
def test_a_notice_of_unknown_tools_links_to_the_runbook_with_its_causes(shop: Workshop):
    told = shop.person("administrator", name="admin@orchid")
    flagged(shop)
    notices.tell_people()
    book = "/t/orchid/runbooks#phantom-rate"
    for path in ("", "agents/librarian", "notices"):
        assert book in links(page(told, path), "runbooks"), path
    with tenancy(shop.tenant):
        line = {"kind": Occasion.AGENT_FLAGGED, "about_kind": "agent", "about": str(Agent.objects.get().id)}
        [fact] = load_facts(events.tenant_by_id(shop.tenant), [line])
    [mail] = render_message([fact], tenant="orchid", personal=True, at=timezone.now()).paragraphs
    assert "Check loaded tools, renames and the model tier." in mail
    assert mail.endswith(book)
    section = page(told, "runbooks").split('id="phantom-rate"')[1].split("</section>")[0]
    steps = re.findall(r"<li>(\w+ cause: [^.]*)", section)
    assert steps == [
        "First cause: the agent was shown another list of tools than its session has",
        "Second cause: a tool was renamed, removed or versioned",
        "Third cause: the model invents tools, after a change of model, temperature or context length",
    ]


@pytest.mark.req("R-MC-15", "R-MC-16", "R-MT-03")
def test_the_dashboard_shows_the_trend_the_checklist_and_a_list_behind_every_number(shop: Workshop):
    tier = {"agent_id": "librarian", "version": "2", "tools": ["delete_document"], "model_tier": "small"}
    shop.operator_key.post("/agents", tier)
    calls(shop, "delete_document", "erase_document", "write_document")
    text = page(shop.reviewer, "calls/hallucinations?by=tier")
    assert "is above 2 %" in text
    assert 'class="limit"' in text
    for cause in ("Tools loaded", "Renames", "Model tier"):
        assert cause in text
    assert "small" in text
    doors = [href for href in links(text, "calls") if "outcome=phantom" in href and "tier=small" in href]
    behind = unescape(shop.reviewer.client.get(doors[0]).content.decode())
    assert "erase_document" in behind
    assert "write_document" not in behind
    for by, word in (("agent", "librarian"), ("tool", "erase_document"), ("disclosed", "0 to 5")):
        assert word in page(shop.reviewer, f"calls/hallucinations?by={by}")


def test_every_link_of_the_dashboard_opens(shop: Workshop):
    calls(shop, "delete_document", "erase_document")
    told = page(shop.reviewer, "calls/hallucinations?by=disclosed") + page(shop.reviewer, "agents")
    for href in set(links(told, "calls")):
        assert shop.reviewer.client.get(href).status_code == 200, href


def test_without_calls_there_is_no_share(shop: Workshop):
    text = page(shop.reviewer, "calls/hallucinations")
    assert "No calls in the last" in text
    assert "is above 2 %" not in text


@pytest.mark.req("R-CR-17")
def test_a_tool_is_demonstrated_once_it_reached_a_verified_success(shop: Workshop, clock: Clock, tmp_path: Any):
    before = page(shop.operator, "agents/librarian")
    assert "never verified" in before
    started = shop.started()
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    assert shop.state(started["action_id"]) == "RECONCILED_SUCCESS", shop.path(started["action_id"])
    assert "verified</span>" in page(shop.operator, "agents/librarian")
    agent = shop.operator_key.get("/agents/librarian").json()
    assert agent["demonstrated_tools"] == ["delete_document"]


def test_an_agent_is_stopped_in_two_steps_exactly_once(shop: Workshop):
    shop.session()
    path = "/t/orchid/agents/librarian/revoke"
    assert shop.reviewer.client.post(path, {"reason": "x", "confirmed": "librarian"}).status_code == 403
    asked = shop.operator.client.post(path, {"reason": "It probes."})
    assert "1 open session" in unescape(asked.content.decode())
    assert not revoked(shop)
    for _ in range(2):
        done = shop.operator.client.post(path, {"reason": "It probes.", "confirmed": "librarian"})
        assert done.status_code == 302
    assert revoked(shop)
    with tenancy(shop.tenant):
        agent = Agent.objects.get(agent_id="librarian")
        kinds = [event.kind for event, _, _ in events.history(shop.tenant, agent.id)]
    assert kinds == ["agent_registered", "agent_revoked", "agent_work_ended"]


@pytest.mark.req("R-UI-18")
def test_the_registry_page_lists_versions_verifies_fingerprints_and_revokes(
    committed_db: Any, superuser_connection: psycopg.Connection
):
    shop = workshop("orchid").set_up()
    version = {"agent_id": "librarian", "version": "2", "tools": ["delete_document"]}
    fingerprint = shop.operator_key.post("/agents", version).json()["fingerprint"]
    assert "/t/orchid/agents/librarian" in links(page(shop.operator, "agents"), "agents/")

    def versions() -> list[tuple[str, str]]:
        rows = page(shop.operator, "agents/librarian").split('id="versions"')[1].split("</section>")[0]
        return re.findall(r'<th scope="row">(\d+).*?(intact|broken)</span>', rows, re.DOTALL)

    assert versions() == [("2", "intact"), ("1", "intact")]
    assert f'title="{fingerprint}"' in page(shop.operator, "agents/librarian")
    with superuser_connection.transaction():
        superuser_connection.execute("ALTER TABLE approvals_agentversion DISABLE TRIGGER ALL")
        superuser_connection.execute("UPDATE approvals_agentversion SET tools = '[\"everything\"]' WHERE version = '1'")
    assert versions() == [("2", "intact"), ("1", "broken")]
    shop.operator.client.post("/t/orchid/agents/librarian/revoke", {"reason": "It probes.", "confirmed": "librarian"})
    assert revoked(shop)
    assert re.search(r"stopped\s*</span>", page(shop.operator, "agents"))


def revoked(shop: Workshop) -> bool:
    told: bool = shop.operator_key.get("/agents/librarian").json()["revoked"]
    return told


def test_a_contract_shows_its_findings_and_what_changed(shop: Workshop):
    poor = contract("write_document") | {"version": "2.0.0", "description": "Writes."}
    assert shop.operator_key.post("/contracts", poor).status_code == 201
    text = page(shop.operator, "contracts/write_document/2.0.0?since=1.0.0")
    assert "Add a sentence that begins with `Use when:`." in text
    assert "/description" in text[text.index("Changes since 1.0.0") :]
    assert "Description: " in text
    assert "became Writes." in text
    assert "1 change<" in text
    assert links(page(shop.operator, "contracts"), "contracts/write_document/2.0.0")


def test_a_predicate_can_be_evaluated_on_a_stored_reading_and_that_is_recorded(shop: Workshop, clock: Clock):
    started = shop.started()
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    asked = f"contracts/delete_document/1.0.0?action={started['action_id']}&predicate="
    assert "test a check" not in page(shop.reviewer, asked + "sa.exists").lower()
    held, failed = page(shop.operator, asked + "sa.exists"), page(shop.operator, asked + "!sa.exists")
    broken = page(shop.operator, asked + "sa.exists+%3D%3D")
    outcomes = [re.findall(r'data-outcome="(\w+)"', each)[-1] for each in (held, failed, broken)]
    assert sorted(outcomes[:2]) == ["false", "true"]
    assert outcomes[2] == "undecidable"
    with tenancy(shop.tenant):
        assert PageView.objects.filter(kind="evidence").exists()


@pytest.mark.req("R-RB-11")
def test_an_agent_with_mostly_refused_calls_links_to_the_runbook_for_review_or_replacement(shop: Workshop):
    calls(shop, *[f"guess_{number}" for number in range(50)])
    tasks.watch_agents()
    detail = page(shop.operator, "agents/librarian")
    assert "/t/orchid/runbooks#agent-acceptance" in links(detail, "runbooks")
    assert "Review or replace it: open the runbook" in detail
    assert 'id="agent-acceptance"' in page(shop.operator, "runbooks")
