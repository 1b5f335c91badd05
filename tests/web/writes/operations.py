"""The writes about alerts, costs, event export and notices."""

from __future__ import annotations

from django.utils import timezone

from console.models import Notice
from ledger.db import tenancy
from ledger.record.operations import new_id
from tests.support.probes import Day
from tests.web.writes.write import REASON, Ids, Write, post, proposer

THRESHOLDS = {"raise_at": 1000, "clear_at": 500, "least_cases": 1, "hold_min": 0}
PERCENT = THRESHOLDS | {"raise_at": "10", "clear_at": "5"}
RULE = {"metric": "M-17", "window_h": 24}


def _rule(day: Day) -> Ids:
    return post(day, "/alert-rules", RULE | THRESHOLDS, "alert_rule_id")


PRICE = {"kind": "reading", "amount": "0.25", "currency": "EUR", "payer": "Library"}
BUDGET = {"amount": "50", "currency": "CHF", "share": 80}


def _price(day: Day) -> Ids:
    return post(day, "/prices", PRICE, "price_id")


def _budget(day: Day) -> Ids:
    return post(day, "/cost-budgets", BUDGET, "budget_id")


COSTS = (
    Write(
        operation="costs_set_price",
        path="/prices",
        page="price-set",
        events=("price_set",),
        said="Price set. What happened before is not priced by it.",
        body=PRICE,
        form=PRICE,
        faults=(
            {},
            PRICE | {"amount": "1,50", "currency": "euro", "valid_from": "tomorrow"},
            PRICE | {"amount": "0.123456789", "currency": "eur", "payer": "p" * 101, "kind": "lunch"},
            PRICE | {"valid_from": "2020-01-01"},
            PRICE | {"kind": "case_minute", "about": "documents"},
        ),
    ),
    Write(
        operation="costs_end_price",
        path="/prices/{price_id}/end",
        page="price-end",
        events=("price_ended",),
        said="Price ended. What it priced until now stays priced.",
        begin=_price,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
    Write(
        operation="costs_set_budget",
        path="/cost-budgets",
        page="cost-budget-set",
        events=("cost_budget_set",),
        said="Budget set.",
        body=BUDGET,
        form=BUDGET,
        faults=({}, BUDGET | {"amount": "0.00"}, BUDGET | {"amount": "-3", "currency": "", "share": "0"}),
    ),
    Write(
        operation="costs_end_budget",
        path="/cost-budgets/{budget_id}/end",
        page="cost-budget-end",
        events=("cost_budget_ended",),
        said="Budget ended.",
        begin=_budget,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)

ALERTS = (
    Write(
        operation="metrics_alerts_make_rule",
        path="/alert-rules",
        page="alert-rule-make",
        events=("alert_rule_made",),
        said="Alert rule created.",
        body=RULE | THRESHOLDS,
        form=RULE | PERCENT,
        faults=(
            {},
            RULE | PERCENT | {"clear_at": "10"},
            RULE | PERCENT | {"raise_at": "100.5", "clear_at": "1.234", "least_cases": "0", "hold_min": "x"},
            RULE | PERCENT | {"metric": "M-99", "window_h": "2", "tool": "t" * 201, "side_effect_class": "none"},
        ),
    ),
    Write(
        operation="metrics_alerts_change_rule",
        path="/alert-rules/{alert_rule_id}/change",
        page="alert-rule-change",
        events=("alert_rule_changed",),
        said="Changed. The new thresholds also apply to an open alert.",
        begin=_rule,
        body=THRESHOLDS | {"clear_at": 200},
        form=PERCENT | {"clear_at": "2"},
        faults=({}, PERCENT | {"clear_at": "10"}, PERCENT | {"raise_at": "-1"}),
    ),
    Write(
        operation="metrics_alerts_end_rule",
        path="/alert-rules/{alert_rule_id}/end",
        page="alert-rule-end",
        events=("alert_rule_ended",),
        said="Alert rule ended.",
        begin=_rule,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)


def _running_export(day: Day) -> Ids:
    post(day, "/event-destinations/soc/start", {"start": "now"}, "name", proposer(day))
    return {"destination_name": "soc"}


EVENT_EXPORT = (
    Write(
        operation="event_export_stop",
        path="/event-destinations/{destination_name}/stop",
        page="event-export-stop",
        events=("event_export_stopped",),
        said="Event export to soc stopped.",
        begin=_running_export,
        body=REASON,
        form=REASON,
    ),
)


def _undelivered_notice(day: Day) -> Ids:
    """A message that was given up."""
    at = timezone.now()
    with tenancy(day.shop.tenant):
        row = Notice.objects.create(
            tenant_id=day.shop.tenant,
            id=new_id(at),
            channel="slack",
            kind="requested",
            about_id=new_id(at),
            raised_at=at,
            due_at=at,
            attempts=1,
            given_up_at=at,
            fault="HTTP 410",
        )
    return {"notice_id": str(row.id)}


NOTICES = (
    Write(
        operation="notices_read",
        path="/notices/read",
        page="notices-read",
        events=(),
        said="",
    ),
    Write(
        operation="notices_again",
        path="/notices/undelivered/{notice_id}/again",
        page="notice-again",
        events=("notice_sent_again",),
        said="Resent.",
        begin=_undelivered_notice,
        makes=True,
    ),
)
OVERRIDE = {"minutes": 5, "reason": "The shop is closed otherwise."}


def _override(day: Day) -> Ids:
    ids = post(day, "/ledger/overrides", OVERRIDE | {"tools": ["write_document"]}, "id", day.own["operator"])
    return {"override_id": ids["id"]}


OVERRIDES = (
    Write(
        operation="ledger_place_override",
        path="/ledger/overrides",
        page="start-override",
        events=("start_override_placed",),
        said="Actions of write_document start until the allowance ends or you end it.",
        body=OVERRIDE | {"tools": ["write_document"]},
        form=OVERRIDE | {"tools": "write_document"},
        faults=({}, OVERRIDE, OVERRIDE | {"tools": "write_document", "minutes": "0"}),
    ),
    Write(
        operation="ledger_end_override",
        path="/ledger/overrides/{override_id}/end",
        page="start-override-end",
        events=("start_override_ended",),
        said="Ended. Nothing of these tools starts on this record any more.",
        begin=_override,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
        makes=True,
    ),
)
