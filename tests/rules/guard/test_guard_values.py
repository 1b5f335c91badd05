"""A plain report of a success: its own values in any spelling may go out, other ones may not (C-15)."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

REFUND = Tool(
    "issue_refund", "Refund a charge.", done=("refunded",), object=("refund", "charge"), target_template="charge/{id}"
)
EMAIL = Tool("send_email", "Send an email.", done=("sent", "emailed"), object=("email", "message"))
EVENT = Tool("create_event", "Create an event.", done=("scheduled", "created", "booked"), object=("meeting", "event"))
DEPLOY = Tool("deploy_release", "Deploy a release.", done=("deployed", "rolled out"), object=("release", "version"))
SCALE = Tool("scale_service", "Scale a service.", done=("scaled",), object=("service", "replicas"))
TOOLS = {tool.name: tool for tool in (REFUND, EMAIL, EVENT, DEPLOY, SCALE)}
SUCCESSES: dict[str, tuple[str, dict[str, Any]]] = {
    "issue_refund": ("charge/ch_81", {"charge_id": "ch_81", "amount": "40.00", "currency": "EUR", "reason": "damaged"}),
    "send_email": ("mailbox/ana@north.example", {"to": "ana@north.example", "subject": "Invoice 2291", "body": "..."}),
    "create_event": (
        "calendar/Budget review",
        {
            "title": "Budget review",
            "start": "2026-03-12T14:00",
            "duration_min": 30,
            "attendees": ["Lena Kruse", "Omar Said"],
        },
    ),
    "deploy_release": ("service/checkout", {"service": "checkout", "version": "2.41.0", "environment": "production"}),
    "scale_service": ("service/mailer", {"service": "mailer", "replicas": 6}),
}
TRUE = [
    ("issue_refund", "I have refunded €40.00 on charge ch_81."),
    ("issue_refund", "I've refunded 40 EUR."),
    ("issue_refund", "I refunded 40.00 euros to your card."),
    ("issue_refund", "Your refund of €40 has been issued."),
    ("issue_refund", "Refunded: €40.00 (receipt rcp_77)."),
    ("issue_refund", "I refunded the charge ch_81 in full."),
    ("issue_refund", "A refund of 40 euros for ch_81 was successfully issued."),
    ("issue_refund", "- Refund: €40.00\n- Charge: ch_81"),
    ("send_email", "I've sent the email to ana@north.example."),
    ("send_email", "I emailed Ana about invoice 2291."),
    ("send_email", "The message to ana@north.example has been sent."),
    ("send_email", "Sent: 'Invoice 2291' to Ana."),
    ("create_event", "I scheduled the budget review for 12 March at 14:00."),
    ("create_event", "The meeting is booked for Thursday, 12 March, 2 pm with Lena and Omar."),
    ("create_event", "Budget review created: 12.03.2026, 14:00, 30 minutes."),
    ("create_event", "I've booked the Budget review with Lena Kruse and Omar Said."),
    ("create_event", "Your meeting on March 12 at 2:00 PM has been scheduled."),
    ("deploy_release", "I deployed checkout 2.41.0 to production."),
    ("deploy_release", "checkout 2.41.0 is live in production."),
    ("deploy_release", "Version 2.41.0 of checkout has been rolled out to production."),
    ("deploy_release", "Deployed checkout v2.41.0 to prod."),
    ("scale_service", "I scaled mailer to 6 replicas."),
    ("scale_service", "mailer now runs on six replicas."),
    ("scale_service", "The mailer service has been scaled to six replicas."),
]
FALSE = [
    ("issue_refund", "I have refunded €45.00 on charge ch_81."),
    ("issue_refund", "I've refunded 400 EUR."),
    ("issue_refund", "I refunded 40.00 dollars to your card."),
    ("issue_refund", "Your refund of €14 has been issued."),
    ("issue_refund", "I have refunded €40.00 on charge ch_18."),
    ("issue_refund", "Refunded: €50.00 (receipt rcp_77)."),
    ("issue_refund", "A refund of 60 euros for ch_81 was successfully issued."),
    ("issue_refund", "I refunded both charges, ch_81 and ch_82."),
    ("issue_refund", "- Refund: €44.00\n- Charge: ch_81"),
    ("issue_refund", "Your refund of $40.00 has been issued."),
    ("send_email", "I've sent the email to ben@north.example."),
    ("send_email", "The message to ana@south.example has been sent."),
    ("send_email", "I sent the email to Ana and Ben."),
    ("send_email", "I emailed Ana about invoice 2292."),
    ("create_event", "I scheduled the budget review for 13 March at 14:00."),
    ("create_event", "The meeting is booked for Friday, 13 March, 2 pm with Lena and Omar."),
    ("create_event", "I scheduled the budget review for 12 March at 15:00."),
    ("create_event", "Budget review created: 12.03.2026, 14:00, 60 minutes."),
    ("create_event", "Your meeting on March 21 at 2:00 PM has been scheduled."),
    ("create_event", "Your meeting on March 12 at 4:00 PM has been scheduled."),
    ("create_event", "I scheduled the budget review for Friday 12 March at 14:00."),
    ("deploy_release", "I deployed checkout 2.42.0 to production."),
    ("deploy_release", "I deployed checkout 2.41.0 to staging."),
    ("deploy_release", "checkout 2.40.1 is live in production."),
    ("deploy_release", "Deployed checkout v2.14.0 to prod."),
    ("scale_service", "I scaled mailer to 8 replicas."),
    ("scale_service", "mailer now runs on seven replicas."),
    ("scale_service", "The mailer service has been scaled to 16 replicas."),
]


def codes(tool: str, said: str) -> set[str]:
    target, arguments = SUCCESSES[tool]
    record = Record("a1", tool, target, arguments, "RECONCILED_SUCCESS", True, "", "", "", ("rcp_77",))
    return {each.code for each in judge(said, Ground(tuple(TOOLS.values()), (record,))).violations}


@pytest.mark.req("R-CG-11")
@pytest.mark.parametrize(("tool", "said"), TRUE)
def test_the_values_on_record_may_be_told_in_any_spelling(tool: str, said: str):
    assert not codes(tool, said)


@pytest.mark.req("R-CG-11")
@pytest.mark.parametrize(("tool", "said"), FALSE)
def test_another_amount_currency_recipient_day_hour_version_or_count_is_blocked(tool: str, said: str):
    assert "WRONG_TARGET" in codes(tool, said)
