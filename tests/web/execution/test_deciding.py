"""A plug-in's place at the console: it asks about each call, keeps what waits on disk, and reports what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from approvals.tasks import lapse
from counterfoil.gating.deciding import Decider, DecidingSettings
from counterfoil.gating.settings import BadSettings, ConsoleSettings
from counterfoil.work import failed, succeeded
from tests.support.api_tenant import DELETE, GOAL, Clock, Workshop, document
from tests.support.seals import seal_up
from tests.web.edge.test_docs_examples import into_the_console

NOTE = document("notes/today.md", "Quiet.")


@pytest.fixture(autouse=True)
def own_address(settings: Any) -> None:
    settings.COUNTERFOIL_PUBLIC_URL = "http://testserver"


def decider(shop: Workshop, folder: Path, **changes: Any) -> Decider:
    keys = {"agent_key": shop.agent, "executor_key": shop.executor}
    held = {name: caller.headers["Authorization"].removeprefix("Bearer ") for name, caller in keys.items()}
    console = ConsoleSettings(url="http://testserver", agent_id="librarian", executor_id="proxy", **held)
    wish = DecidingSettings(**({"goal": GOAL, "timeout_s": 20, "give_up_s": 0.5, "state": str(folder)} | changes))
    return Decider(console, wish, http=httpx.Client(transport=httpx.MockTransport(into_the_console)))


def starts(shop: Workshop, action_id: str | None) -> int:
    return [event["event"] for event in shop.history(str(action_id))].count("execution_started")


def test_an_allowed_call_has_its_work_and_its_outcome_is_reported(shop: Workshop, tmp_path: Path):
    plugin = decider(shop, tmp_path)
    decided = plugin.decide("write_document", NOTE)
    assert decided.decision is not None
    assert decided.work is not None
    assert (decided.decision.decision, decided.message, dict(decided.work.payload)) == ("allow", "", NOTE)
    with plugin.hold_lease(decided.work):
        decided.work.lease.require()
    plugin.tell_outcome(decided.work, succeeded("written"))
    assert shop.state(decided.work.action_id) == "PENDING"


def test_a_refused_call_has_no_work_and_says_what_would_be_accepted(shop: Workshop, tmp_path: Path):
    decided = decider(shop, tmp_path).decide("write_documents", NOTE)
    assert decided.work is None
    assert decided.message.startswith("Not executed. ")
    assert "write_document" in decided.message


def test_a_call_that_waits_is_the_same_decision_after_a_restart_and_runs_once(shop: Workshop, tmp_path: Path):
    waiting = decider(shop, tmp_path).decide("delete_document", DELETE, caller="ann").decision
    assert waiting is not None
    plugin = decider(shop, tmp_path)
    again = plugin.decide("delete_document", DELETE, caller="ann")
    assert again.decision is not None
    assert (again.decision.decision, again.decision.decision_id) == ("wait", waiting.decision_id)
    assert again.message.startswith(f"Not executed yet (task {waiting.decision_id}). It waits for approval.")
    shop.vote(shop.approval_of(str(waiting.decision_id)))
    seal_up()
    allowed = decider(shop, tmp_path).decide("delete_document", DELETE, caller="ann")
    assert allowed.work is not None
    assert allowed.work.action_id == waiting.decision_id
    assert starts(shop, waiting.decision_id) == 1


def test_another_caller_s_equal_call_is_a_decision_of_its_own(shop: Workshop, tmp_path: Path):
    plugin = decider(shop, tmp_path)
    first = plugin.decide("delete_document", DELETE, caller="ann").decision
    other = plugin.decide("delete_document", DELETE, caller="bob").decision
    assert first is not None
    assert other is not None
    assert first.decision_id != other.decision_id


def test_a_plugin_that_dies_after_it_was_allowed_is_not_allowed_again(
    shop: Workshop, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    plugin = decider(shop, tmp_path)
    waiting = plugin.decide("delete_document", DELETE).decision
    assert waiting is not None
    shop.vote(shop.approval_of(str(waiting.decision_id)))
    seal_up()
    with monkeypatch.context() as patch:
        # It dies between the answer and what it does with it.
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            plugin.decide("delete_document", DELETE)
    again = decider(shop, tmp_path).decide("delete_document", DELETE)
    assert again.work is None
    assert again.decision is not None
    assert again.decision.code == "ALREADY_ALLOWED"
    clock.forward(seconds=21)
    lapse()
    assert shop.state(str(waiting.decision_id)) == "UNKNOWN"
    assert starts(shop, waiting.decision_id) == 1


def test_without_the_console_nothing_runs(shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plugin = decider(shop, tmp_path)
    plugin.decide("write_document", NOTE)

    def be_away(*_: Any, **__: Any) -> Any:
        raise httpx.ConnectError("away")

    monkeypatch.setattr("tests.web.edge.test_docs_examples.new_client", be_away)
    decided = plugin.decide("write_document", document("notes/b.md", "B."))
    assert (decided.decision, decided.work) == (None, None)
    assert decided.message.startswith("Not executed. The console gave no decision:")


def test_a_failure_before_anything_was_sent_is_reported_as_such(shop: Workshop, tmp_path: Path):
    plugin = decider(shop, tmp_path)
    work = plugin.decide("write_document", NOTE).work
    assert work is not None
    plugin.tell_outcome(work, failed("EDITED", "The approved bytes are others.", phase="before_send"))
    assert shop.report(work.action_id)["completed"] is False


@pytest.mark.parametrize("name", ["goal", "state"])
def test_a_missing_setting_is_named(shop: Workshop, tmp_path: Path, name: str):
    with pytest.raises(BadSettings, match=f"`{name}` is missing."):
        decider(shop, tmp_path, **{name: ""})
