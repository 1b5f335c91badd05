"""A gateway says which of a server's tools it holds back: on the session's record, by the API and on its page."""

from __future__ import annotations

import pytest

from ledger.db import tenancy
from ledger.record.queries import events
from tests.support.api_tenant import Workshop

CHANGED = {"tool": "delete_document", "fate": "changed", "why": "texts differ from what was registered"}
EXTRA = {"tool": "wipe_disk", "fate": "unregistered", "why": ""}


def report(shop: Workshop, session: str, *withheld: dict[str, str]):
    return shop.agent.post(f"/sessions/{session}/surface", {"withheld": list(withheld)})


def told(shop: Workshop, session: str) -> list[list[str]]:
    with tenancy(shop.tenant):
        history = events.history(shop.tenant, session)
    said = [detail["withheld"] for event, _, detail in history if event.kind == "surface_withheld"]
    return [[each["tool"] for each in one] for one in said]


@pytest.fixture
def session(shop: Workshop) -> str:
    return str(shop.session()["session_id"])


def test_withheld_tools_are_recorded_and_can_be_read(shop: Workshop, session: str):
    assert shop.agent.get(f"/sessions/{session}").json()["surface"] == {"withheld": [], "at": None}
    answer = report(shop, session, EXTRA, CHANGED)
    assert answer.status_code == 200
    assert answer.json()["withheld"] == [CHANGED, EXTRA]
    for reader in (shop.agent, shop.operator_key, shop.auditor, shop.reviewer):
        assert reader.get(f"/sessions/{session}").json()["surface"]["withheld"] == [CHANGED, EXTRA]
    assert told(shop, session) == [["delete_document", "wipe_disk"]]


def test_the_same_report_is_recorded_once_and_so_is_its_end(shop: Workshop, session: str):
    report(shop, session)
    assert told(shop, session) == []
    first = report(shop, session, CHANGED).json()
    assert report(shop, session, CHANGED).json() == first
    report(shop, session)
    report(shop, session)
    assert told(shop, session) == [["delete_document"], []]
    assert shop.agent.get(f"/sessions/{session}").json()["surface"]["withheld"] == []


def test_a_surface_report_does_not_count_as_a_call(shop: Workshop, session: str):
    report(shop, session, CHANGED, EXTRA)
    state = shop.agent.get(f"/sessions/{session}").json()
    assert (state["calls_accepted"], state["calls_refused"], state["attempted_undisclosed"]) == (0, 0, 0)
    assert state["flags"] == []


def test_the_session_page_shows_withheld_tools_beside_the_contract_as_plain_text(shop: Workshop, session: str):
    page = f"/t/{shop.slug}/sessions/{session}"
    assert "Withheld tools" not in shop.reviewer.client.get(page).content.decode()
    report(shop, session, CHANGED, EXTRA | {"tool": "<script>alert(1)</script>"})
    shown = shop.reviewer.client.get(page).content.decode()
    assert "Withheld tools" in shown
    assert CHANGED["why"] in shown
    assert "<script>alert" not in shown
    report(shop, session)
    assert 'Withheld tools</dt><dd data-part="surface">none' in shop.reviewer.client.get(page).content.decode()


def test_only_the_agent_of_the_session_can_report_for_it(shop: Workshop, session: str):
    path, body = f"/sessions/{session}/surface", {"withheld": [CHANGED]}
    for other in (shop.operator_key, shop.auditor, shop.executor):
        assert other.post(path, body).status_code == 403
    assert told(shop, session) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"withheld": [CHANGED | {"fate": "offered"}]},
        {"withheld": [CHANGED | {"tool": ""}]},
        {"withheld": [CHANGED | {"role": "admin"}]},
        {"withheld": [CHANGED] * 201},
    ],
)
def test_a_malformed_report_is_refused(shop: Workshop, session: str, body):
    assert shop.agent.post(f"/sessions/{session}/surface", body).status_code == 422
    assert told(shop, session) == []
