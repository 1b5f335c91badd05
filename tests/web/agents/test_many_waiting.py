"""An agent that has left ten thousand actions is stopped as fast as one that has left few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from approvals import tasks
from tests.support.api_tenant import workshop
from tests.web.execution.grown import Grown

MANY = 10_000


@pytest.mark.long
@pytest.mark.req("R-CR-14")
def test_ten_thousand_actions_do_not_delay_stopping_an_agent(
    committed_db: Any, superuser_connection: psycopg.Connection, tmp_path: Path
) -> None:
    shop = workshop("orchid").set_up(tmp_path)
    approval = shop.approval_of(shop.propose())
    assert shop.vote(approval).status_code == 201
    [order] = shop.claim()
    Grown(shop, superuser_connection).copy(order["action_id"], approval["approval_id"], up_to=MANY)
    told = shop.operator_key.post("/agents/librarian/revoke", {"reason": "It deletes what nobody asked for."})
    assert told.status_code == 200, told.content
    assert told.json()["stopped"]["left"] == 100
    assert shop.start(order).json()["code"] == "AGENT_NOT_REGISTERED"
    assert shop.claim() == []
    before = told.json()["stopped"]["actions"]
    assert tasks.end_stopped_work() == tasks.PORTIONS
    after = shop.operator_key.get("/agents/librarian/revocation").json()["stopped"]
    assert after["actions"] == before * (1 + tasks.PORTIONS)
    assert after["left"] == 100
