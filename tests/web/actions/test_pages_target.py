"""The page of a target: its state as last read, everything that was done to it, what stops it, and its cases."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from tests.support import settling
from tests.support.api_tenant import Clock, Workshop, result
from tests.support.browser_users import visitor, words
from tests.support.scenes import now


def target_of(stage, action_id):
    with tenancy(stage.tenant):
        return actions.action(stage.tenant, action_id).target


def test_a_target_shows_what_was_read_last_and_every_action_on_it(stage):
    action_id = stage.done()
    target = target_of(stage, action_id)
    stage.propose(order_id=target.removeprefix("order/"), amount=500)
    operator = visitor(stage, "operator")
    page = operator.page("target", name=target)
    told = words(page)
    assert "from shop" in told
    assert "It may have changed since." in told
    assert "2 actions" in told
    assert "130.00 EUR requested in total" in told
    assert page.count("<tr data-item") == 2
    assert f"/t/{stage.slug}/target?name=" in operator.page(f"actions/{action_id}")
    assert operator.get("target", name="order/nobody").status_code == 404


@pytest.mark.req("R-UI-05")
def test_a_case_and_a_freeze_of_the_target_stand_on_its_page(stage):
    case = stage.case()
    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant, scope="target", value=case.target, reason="Under dispute.", actor=SYSTEM, at=now()
        )
    operator = visitor(stage, "operator")
    told = words(operator.page("target", name=case.target))
    assert "Under dispute." in told
    assert "Cases open" in told
    assert "Read now" not in told


def test_a_target_is_read_again_for_an_effect_that_is_not_settled(stage):
    action_id = stage.propose()
    stage.approve(action_id)
    stage.execute(action_id)
    target = target_of(stage, action_id)
    operator = visitor(stage, "operator")
    assert "Read now" in words(operator.page("target", name=target))
    answer = operator.post("target/read", name=target)
    assert "The target is being read." in words(operator.client.get(answer.url).content.decode())


def test_the_page_of_a_target_asks_no_more_of_the_database_for_more_actions(stage):
    target = target_of(stage, stage.done())
    operator = visitor(stage, "operator")
    operator.page("target", name=target)
    stage.propose(order_id=target.removeprefix("order/"), amount=501)

    counts = []
    for each in range(2):
        with CaptureQueriesContext(connection) as asked:
            operator.page("target", name=target)
        counts.append(len(asked))
        stage.propose(order_id=target.removeprefix("order/"), amount=510 + each)
        stage.propose(order_id=target.removeprefix("order/"), amount=520 + each)
    assert counts[0] == counts[1]


@pytest.mark.req("R-VD-02")
def test_a_local_write_that_went_wrong_marks_its_workspace_dirty_until_it_is_written_well(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    (tmp_path / "documents" / "notes").mkdir()
    file = tmp_path / "documents" / "notes" / "today.md"

    def written(text: str) -> str:
        action_id = shop.propose("write_document")
        started = shop.start(next(each for each in shop.claim() if each["action_id"] == action_id)).json()
        file.write_text(text)
        shop.observe(started, result=result(tool="write_document"))
        clock.forward(seconds=90)
        shop.read_back(action_id, clock)
        return action_id

    def shown(path: str) -> str:
        return words(shop.reviewer.client.get(f"/t/{shop.slug}/{path}").content.decode())

    def dirty_by(action_id: str) -> str | None:
        by: str | None = shop.agent.get(f"/actions/{action_id}").json()["workspace_dirty_by"]
        return by

    target = f"target?{urlencode({'name': 'document/notes/today.md'})}"
    wrong = written("Loud.")
    assert shop.state(wrong) == "REVIEW_REQUIRED"
    assert dirty_by(wrong) == wrong
    assert "this action left document/notes/today.md in a state that nobody can vouch for" in shown(f"actions/{wrong}")
    assert "Workspace dirty for" in shown(target)

    case = shop.case_of(wrong)
    assert case is not None
    settled = settling.settle(shop.operator, case["case_id"], "ABANDON")
    assert settled.status_code == 200, settled.content
    assert dirty_by(wrong) == wrong, "closing the case unresolved cleans nothing"
    right = written("Quiet.")
    assert shop.state(right) == "RECONCILED_SUCCESS"
    assert (dirty_by(wrong), dirty_by(right)) == (None, None)
    assert "Workspace dirty" not in shown(f"actions/{wrong}") + shown(target)
