"""An empty console leads an administrator to the first action that was verified, step by step from the record."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from approvals.agents import queries as agents
from ledger.db import tenancy
from reviews.checks.filesystems import FilesystemCheck
from reviews.checks.interface import CheckFailed
from tests.support.api_tenant import Clock, Workshop, contract, result
from tests.support.browser_users import Visitor, words
from tests.support.callers import found, key_for, person_for

STEPS = [
    "Make the keys",
    "Register the system of record",
    "Register the tool's contract",
    "Test the connection",
    "Register the agent",
    "See the first call",
    "See the first verdict",
]


def guide(page: str) -> dict[str, str]:
    """The steps of the guide, and what stands before each."""
    part = page.partition('data-part="guide"')[2].partition("</ol>")[0]
    rows = [each.partition('<span class="main">') for each in part.split("<li>")[1:]]
    return {words(main.partition("</strong>")[0]).strip(): words(mark).strip() for mark, _, main in rows}


def unanswered(*_: Any, **__: Any) -> Any:
    raise CheckFailed("The disk is gone.", retryable=True)


def test_an_empty_console_shows_the_steps_and_ticks_those_already_done(db):
    tenant = found("grove")
    ada = Visitor(person_for(tenant, "administrator", name="ada@grove").client, "grove")
    page = ada.page()
    assert guide(page) == dict.fromkeys(STEPS, "To do") | {"Make the keys": "Next"}
    assert "7 steps left; shown until an action was verified" in words(page)
    assert 'curl -X POST http://testserver/api/v1/systems -H "Authorization: Bearer $OPERATOR_KEY"' in words(page)
    for kind in ("oper", "agent", "exec"):
        key_for(tenant, kind)
    assert guide(ada.page()) == dict.fromkeys(STEPS, "To do") | {"Make the keys": "Done", STEPS[1]: "Next"}
    reviewer = Visitor(person_for(tenant, "reviewer", name="rea@grove").client, "grove")
    assert (
        "Nothing was verified here yet. Ada (administrator) can set up the first tool;"
        " its requests and cases appear on this page." in words(reviewer.page())
    )
    assert guide(reviewer.page()) == {}


def test_the_guide_advances_with_each_step_and_disappears_after_the_first_verified_action(
    shop: Workshop, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ada = Visitor(shop.person("administrator", name="ada@orchid").client, "orchid")
    ticked = {"Test the connection": "Next", "See the first call": "To do", "See the first verdict": "To do"}
    assert guide(ada.page()) == dict.fromkeys(STEPS, "Done") | ticked
    [system] = [each for each in ada.page("systems").split('id="system-')[1:] if "documents" in each[:200]]
    connection = f"systems/{system.partition(chr(34))[0]}/connection"
    with monkeypatch.context() as down:
        down.setattr(FilesystemCheck, "read", unanswered)
        assert "No answer from documents. The disk is gone." in words(ada.post(connection).content.decode())
    assert guide(ada.page()) == dict.fromkeys(STEPS, "Done") | ticked, "a test that failed is no tick"
    assert "documents answered in" in words(ada.post(connection).content.decode())
    action_id = shop.propose("write_document")
    ticked = {"See the first verdict": "Next"}
    assert guide(ada.page()) == dict.fromkeys(STEPS, "Done") | ticked
    started = shop.start(shop.claim()[0]).json()
    file = tmp_path / "documents" / "notes" / "today.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("Quiet.")
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    assert 'data-part="guide"' not in ada.page()


def test_the_guide_can_be_hidden_for_oneself(db):
    tenant = found("grove")
    ada = Visitor(person_for(tenant, "administrator", name="ada@grove").client, "grove")
    hidden = ada.client.post("/preferences", {"guide": "off"}, headers={"Referer": "http://testserver/t/grove/"})
    assert hidden["Location"] == "http://testserver/t/grove/"
    assert 'data-part="guide"' not in ada.page()
    bert = Visitor(person_for(tenant, "administrator", name="bert@grove").client, "grove")
    assert "Make the keys" in guide(bert.page())


def test_the_programs_of_the_guide_are_filled_in_and_propose_and_execute(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ada = Visitor(shop.person("administrator", name="ada@orchid").client, "orchid")
    copied = [unescape(each) for each in re.findall(r'data-copy="([^"]*)"', ada.page())]
    agent = next(each for each in copied if "counterfoil.agent" in each)
    executor = next(each for each in copied if "counterfoil.executor" in each)
    for name, text in (("agent.py", agent), ("executor.py", executor)):
        compile(text, name, "exec")
    assert 'url="http://testserver"' in agent
    assert 'agent_id="librarian"' in agent
    with tenancy(shop.tenant):
        tools = agents.agent_version(shop.tenant, "librarian", "1").tools
    tool = json.loads(agent.partition("Call(")[2].partition(",")[0])
    assert tool in tools
    arguments = json.JSONDecoder().raw_decode(agent.partition("Call(")[2].partition(", ")[2])[0]
    assert set(arguments) >= set(contract(tool)["arguments_schema"]["required"])
    for effect in contract(tool)["required_effects"]:
        assert f'work.effect("{effect}")' in executor


def test_the_guide_names_the_file_with_the_first_keys_where_this_machine_has_it(
    shop: Workshop, tmp_path: Path, settings: Any
):
    ada = Visitor(shop.person("administrator", name="ada@orchid").client, "orchid")
    assert "The command that created the tenant, manage.py bootstrap, printed the first ones." in words(ada.page())
    settings.COUNTERFOIL_SECRETS_DIR = tmp_path
    file = tmp_path / "sign-in-orchid.json"
    file.write_text("{}")
    page = ada.page()
    assert f"The first ones are in {file} on the console's machine." in words(page)
    assert f'sys.argv[2]])" {file} oper)' in unescape(page)
