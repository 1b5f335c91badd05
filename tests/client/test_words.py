"""What the scripted agent would tell its user."""

from __future__ import annotations

from dataclasses import replace

from example.stage import Sent
from example.tools import hasty

SENT = Sent(
    case="clean_refund",
    goal="Refund.",
    session_id="s",
    call_id="c",
    tool="issue_refund",
    arguments={"order_id": "EX-1", "amount": 2400, "currency": "EUR", "reason": "late"},
    target="order/EX-1",
    accepted=True,
    code=None,
    action_id="a",
    state="VALIDATED",
    approval_required=True,
)


def test_the_hasty_agent_names_the_amount_and_the_order_that_it_sent():
    assert "24.00 EUR on order EX-1" in (hasty(SENT) or "")


def test_the_hasty_agent_says_nothing_about_a_malformed_call():
    assert hasty(replace(SENT, arguments={"order": "EX-1"})) is None
    assert hasty(replace(SENT, arguments={**SENT.arguments, "amount": "24"})) is None
    assert hasty(replace(SENT, tool="publish_order_event")) is None
