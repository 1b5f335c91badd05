"""What a policy would have touched in the last month, and what of that proved wrong later."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ledger.catalogue.rules.policies import default_policy
from tests.support.api_tenant import Clock, Workshop
from tests.support.refund_shop import Counter
from tests.web.recovery.test_recovery_path import cancelling, lesser, wrong

LARGE = {"name": "large", "when": "amount.minor >= 1", "outcome": "hold"}
NONE_OF = "calls decided by the policies in this period, none would have been decided differently."


@pytest.fixture
def refunded(counter: Counter, clock: Clock, secrets_dir: Path) -> str:
    """A refund that went through without a person, and of which the shop then showed another amount."""
    action_id = wrong(counter.open(secrets_dir, lesser(), cancelling()), clock)
    clock.forward(seconds=1)
    return action_id


def simulated(shop: Workshop, kind: str, clock: Clock, **body: Any) -> Any:
    answer = shop.auditor.post(f"/policies/{kind}/simulation", {"to": clock.now().isoformat()} | body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def spoken(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_a_draft_is_compared_with_past_decisions_and_their_outcomes(counter: Counter, refunded: str, clock: Clock):
    for kind in ("approval", "autonomy"):
        same = simulated(counter, kind, clock, version="1")
        assert same["text"] == f"Of {same['decided']} {NONE_OF}"
        assert same["decided"] >= 1
        assert (same["left_out"], same["figures"], same["touched"]) == (0, [], [])

    draft = default_policy("approval") | {"rules": [LARGE]}
    held = simulated(counter, "approval", clock, document=draft)
    assert {"then": "LET_THROUGH", "now": "HELD", "actions": 1, "proved_wrong": 1} in held["figures"]
    assert "1 would have been held and were let through, 1 of which later proved wrong" in held["text"]
    [one] = [each for each in held["touched"] if each["action_id"] == refunded]
    assert one["text"] == "It was let through and would have been held: rule “large”"
    assert one["proved_wrong"] == "value mismatch, had to be reversed"

    outside = [{"name": "refunds", "tools": ["refund_order"], "reason": "Nobody refunds."}]
    refused = simulated(counter, "autonomy", clock, document={"boundary": "disclosed_tools", "outside": outside})
    [one] = [each for each in refused["touched"] if each["action_id"] == refunded]
    assert one["text"] == "It was let through and would have been refused: Nobody refunds."
    judged = simulated(
        counter, "recovery", clock, document=default_policy("recovery") | {"hold": ["RT-03"], "version": "9"}
    )
    [one] = judged["touched"]
    assert one["text"] == (
        "It was judged without a person and would have been held: Under recovery policy 9 run 1 would have been held:"
        " The recovery policy holds RT-03 for a person."
    )
    assert judged["figures"] == [{"then": "WENT_ON", "now": "HELD", "actions": 1, "proved_wrong": 1}]
    before = simulated(
        counter, "approval", clock, document=draft, **{"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"}
    )
    assert before["text"] == f"Of 0 {NONE_OF}"
    for kind, body, status in (
        ("approval", {"document": {"rules": [{"name": "x"}]}}, 422),
        ("approval", {"version": "7"}, 404),
        ("approval", {}, 404),
        ("moon", {"document": {}}, 404),
        ("recovery", {"document": {"hold": ["RT-77"]}}, 422),
    ):
        assert counter.auditor.post(f"/policies/{kind}/simulation", body).status_code == status, (kind, body)


def test_the_page_of_a_version_links_to_the_actions_that_it_would_have_affected(
    counter: Counter, refunded: str, clock: Clock
):
    body = {"version": "2", "document": default_policy("approval") | {"rules": [LARGE]}, "reason": "Too much went."}
    assert counter.operator_key.release("approval", body).status_code == 201
    clock.forward(seconds=1)
    base, pages = f"/t/{counter.slug}", counter.operator.client
    shown = pages.get(f"{base}/policies/approval/2").content.decode()
    assert f'href="{base}/policies/approval/2/touched"' in shown
    touched = pages.get(f"{base}/policies/approval/2/touched").content.decode()
    assert f'href="{base}/actions/{refunded}"' in touched
    said = spoken(touched)
    assert "1 would have been held and were let through, 1 of which later proved wrong" in said
    assert "It was let through and would have been held: rule “large”" in said
    assert "Later proved wrong: value mismatch, had to be reversed" in said
    assert pages.get(f"{base}/policies/approval/9/touched").status_code == 404


def test_a_call_of_a_phantom_name_counts_as_an_undisclosed_attempt_for_policies_and_their_simulations(
    shop: Workshop, clock: Clock
):
    session = shop.session()

    def call(tool: str, path: str = "") -> Any:
        arguments = {"path": path, "reason": "It is old."}
        body = {"call_id": uuid4().hex, "tool": tool, "arguments": arguments, "pin_hash": session["pin"]["hash"]}
        answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]})
        return answer.json()["results"][0]

    assert call("delete_document", "old/one.md")["accepted"]
    assert call("open_vault")["result"]["error"]["code"] == "PHANTOM_TOOL"
    assert call("delete_document", "old/two.md")["accepted"]
    stray = {"name": "strays", "when": "session.undisclosed_attempts > 0", "outcome": "refuse", "reason": "It strays."}
    draft = default_policy("approval") | {"rules": [stray]}
    clock.forward(seconds=1)
    would = simulated(shop, "approval", clock, document=draft)
    assert (would["decided"], [each["text"] for each in would["touched"]]) == (
        2,
        ["It was held and would have been refused: It strays."],
    )
    assert shop.operator_key.release("approval", {"version": "2", "document": draft}).status_code == 201
    assert call("delete_document", "old/three.md")["result"]["error"]["message"] == "It strays."
