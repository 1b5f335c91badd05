"""What a month has cost, from the record and the price list: on the page, as CSV and over HTTP, and who is notified."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from approvals.models import ModelUsage
from console.models import CostBudget, Message, Price
from console.tasks import read_before, tell_people, watch_budgets
from ledger.db import execute, savepoint, tenancy
from ledger.management.commands import verify_ledger
from ledger.record.operations import new_id
from ledger.record.queries import events
from reviews import tasks
from reviews.models import VerificationRun
from tests.support.api_tenant import Clock, Workshop, contract, document, result

READING = {"kind": "reading", "amount": "0.25", "currency": "EUR", "payer": "Library"}


def set_price(shop: Workshop, **changes: Any) -> dict[str, Any]:
    made = shop.operator_key.post("/prices", READING | changes)
    assert made.status_code == 201, made.content
    return dict(made.json())


def costs(shop: Workshop, kind: str = "", query: str = "") -> list[dict[str, Any]]:
    items = shop.operator_key.get(f"/costs?{query}").json()["items"]
    return [each for each in items if not kind or each["kind"] == kind]


def sentence(shop: Workshop, query: str = "") -> str:
    html = shop.operator.client.get(f"/t/{shop.slug}/costs?{query}").content.decode()
    (said,) = re.findall(r'data-part="sentence">(.*?)</p>', html, re.S)
    return " ".join(unescape(re.sub("<[^>]+>", "", said)).split())


def settled(shop: Workshop, clock: Clock, tmp_path: Path) -> str:
    """An action that was verified by one reading."""
    action_id = shop.call("write_document", document("notes/today.md", "Quiet."))["action_id"]
    (order,) = shop.claim()
    started = shop.start(order).json()
    shop.observe(started, result=result(tool="write_document"))
    (tmp_path / "documents" / "notes").mkdir(exist_ok=True)
    (tmp_path / "documents" / "notes" / "today.md").write_text("Quiet.")
    clock.forward(seconds=1.5)
    assert tasks.verify_due() == 1
    assert shop.state(action_id) == "RECONCILED_SUCCESS"
    return str(action_id)


def assert_intact(shop: Workshop) -> None:
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    with tenancy(shop.tenant):
        origin = events.tenant_by_id(shop.tenant).origin
    verify_ledger.verify(shop.tenant, origin)


@pytest.mark.req("R-CX-12")
def test_a_reading_has_the_price_of_its_time_and_its_agent_and_payer(shop: Workshop, clock: Clock, tmp_path: Path):
    settled(shop, clock, tmp_path)
    (unpriced,) = costs(shop)
    assert (unpriced["quantity"], unpriced["amount"], unpriced.get("payer")) == (1, None, None)
    assert sentence(shop).endswith("is priced. Not priced: 1 reading.")
    clock.forward(seconds=1)
    set_price(shop)
    clock.forward(seconds=1)
    settled(shop, clock, tmp_path)
    priced, before = costs(shop)
    assert before["amount"] is None
    assert (priced["about"], priced["agent"], priced["payer"]) == ("documents", "librarian", "Library")
    assert (priced["quantity"], priced["price"], priced["amount"], priced["currency"]) == (1, "0.25", "0.25", "EUR")
    clock.forward(seconds=1)
    set_price(shop, amount="9")
    assert costs(shop) == [priced, before], "a change of a price re-prices nothing"
    assert_intact(shop)


@pytest.mark.req("R-MT-11", "R-CX-12")
def test_readings_without_an_event_of_their_own_are_told_by_the_next_run(shop: Workshop, clock: Clock, tmp_path: Path):
    clock.stop()
    patient = contract("write_document") | {"version": "1.1.0"}
    patient["verification"] |= {"settle_s": 600}
    patient["verification"]["polling"] |= {"sla_s": 3600}
    shop.operator_key.release_contract(patient)
    action_id = shop.call("write_document", document("notes/late.md", "Quiet."))["action_id"]
    (order,) = shop.claim()
    shop.observe(shop.start(order).json(), result=result(tool="write_document"))
    for _ in range(3):
        clock.forward(seconds=10)
        tasks.verify_due()
    with tenancy(shop.tenant):
        (first,) = VerificationRun.objects.filter(tenant_id=shop.tenant)
    assert first.asked == {"documents": 1}
    assert costs(shop, "reading")[0]["quantity"] == 1
    (tmp_path / "documents" / "notes").mkdir()
    (tmp_path / "documents" / "notes" / "late.md").write_text("Quiet.")
    clock.forward(seconds=10)
    tasks.verify_due()
    assert shop.state(action_id) == "RECONCILED_SUCCESS"
    with tenancy(shop.tenant):
        asked = [run.asked for run in VerificationRun.objects.filter(tenant_id=shop.tenant).order_by("id")]
    assert asked == [{"documents": 1}, {"documents": 3}]
    (line,) = costs(shop, "reading")
    assert line["quantity"] == 4
    assert_intact(shop)


def test_a_reading_before_a_start_is_a_reading_too(shop: Workshop, clock: Clock):
    newer = contract("write_document") | {"version": "1.1.0"}
    newer["verification"]["predicates"].append("!pre.exists")
    shop.operator_key.release_contract(newer)
    set_price(shop)
    clock.forward(seconds=1)
    action_id = shop.propose("write_document")
    assert shop.claim() == []
    read_before()
    assert [event["event"] for event in shop.history(action_id)].count("reading_taken") == 1
    (line,) = costs(shop)
    assert (line["about"], line["agent"], line["quantity"], line["amount"]) == ("documents", "librarian", 1, "0.25")


def test_tokens_are_priced_by_the_million_and_what_an_agent_left_out_is_not_stated(shop: Workshop, clock: Clock):
    set_price(shop, kind="input_tokens", about="acme/large-1", amount="3", currency="USD", payer="Research")
    set_price(shop, kind="model_call", amount="0.0001", currency="USD", payer="Research")
    session = shop.session()["session_id"]
    clock.forward(seconds=1)
    report = {"model": "acme/large-1", "calls": 2, "input_tokens": 1234567, "reference": "req-1"}
    made = shop.agent.post(f"/sessions/{session}/model-usage", report)
    assert made.status_code == 201, made.content
    assert (made.json()["input_tokens"], made.json()["output_tokens"]) == (1234567, None)
    (tokens,), (calls,), (written,) = (costs(shop, kind) for kind in ("input_tokens", "model_call", "output_tokens"))
    assert (tokens["quantity"], tokens["amount"], tokens["payer"]) == (1234567, "3.703701", "Research")
    assert (calls["quantity"], calls["amount"]) == (2, "0.0002")
    assert (written["quantity"], written["unstated"], written["amount"]) == (None, 1, None)
    assert sentence(shop).endswith("Not stated: 1 report of a model without its output tokens.")
    with tenancy(shop.tenant), pytest.raises(DatabaseError), savepoint():
        ModelUsage.objects.filter(tenant_id=shop.tenant).update(calls=1)
    assert_intact(shop)


def test_a_report_is_of_the_agents_own_session_and_counts_once(shop: Workshop):
    session = shop.session()["session_id"]
    path, report = f"/sessions/{session}/model-usage", {"model": "m-1"}
    assert shop.operator_key.post(path, report).status_code == 403
    other = shop.agent.post(f"/sessions/{new_id(events_now())}/model-usage", report)
    assert other.status_code == 404
    key = {"Idempotency-Key": "the-same-call"}
    shop.agent.post(f"/sessions/{session}/close")
    first, again = (shop.agent.post(path, report, **key) for _ in range(2))
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert costs(shop, "model_call")[0]["quantity"] == 1
    for wrong in ({}, {"model": ""}, {"model": "m", "calls": 0}, {"model": "m", "input_tokens": -1}, {"model": "a b"}):
        assert shop.agent.post(path, wrong).status_code == 422, wrong


def events_now() -> Any:
    from django.utils import timezone

    return timezone.now()


def test_the_time_of_people_is_told_by_claims_and_otherwise_not_stated(shop: Workshop, clock: Clock):
    clock.stop()
    set_price(shop, kind="vote_minute", amount="1.5", payer="Review desk")
    clock.forward(seconds=1)
    claimed = shop.approval_of(shop.propose())
    assert shop.reviewer.post(f"/approvals/{claimed['approval_id']}/claim").status_code == 200
    clock.forward(minutes=2, seconds=1)
    assert shop.vote(claimed).status_code == 201
    unclaimed = shop.approval_of(shop.propose(path="policies/other.md"))
    assert shop.vote(unclaimed, verdict="reject").status_code == 201
    (line,) = costs(shop, "vote_minute")
    assert (line["quantity"], line["unstated"], line["amount"]) == (3, 1, "4.50")
    assert (line["agent"], line["payer"]) == ("librarian", "Review desk")
    assert "Not stated: 1 vote without a claim." in sentence(shop)


def test_a_price_of_the_past_or_of_nobody_is_refused_and_none_changes(shop: Workshop, clock: Clock):
    early = shop.operator_key.post("/prices", READING | {"valid_from": (clock.now() - timedelta(days=1)).isoformat()})
    assert (early.status_code, early.json()["code"]) == (422, "PRICE_OF_THE_PAST")
    named = shop.operator_key.post("/prices", READING | {"kind": "vote_minute", "about": "documents"})
    assert (named.status_code, named.json()["code"]) == (422, "NOT_PRICED_BY_NAME")
    for wrong in (
        {"amount": "1,5"},
        {"amount": "-1"},
        {"amount": "1e3"},
        {"currency": "eur"},
        {"payer": ""},
        {"kind": "x"},
    ):
        assert shop.operator_key.post("/prices", READING | wrong).status_code == 422, wrong
    made = UUID(set_price(shop)["price_id"])
    with tenancy(shop.tenant):
        for change in ({"amount": 1}, {"valid_from": clock.now()}, {"payer": "Others"}):
            with pytest.raises(DatabaseError), savepoint():
                Price.objects.filter(tenant_id=shop.tenant, id=made).update(**change)
        with pytest.raises(DatabaseError), savepoint():
            Price.objects.filter(tenant_id=shop.tenant, id=made).delete()


def test_an_ended_price_keeps_what_it_priced(shop: Workshop, clock: Clock, tmp_path: Path):
    price = set_price(shop)["price_id"]
    clock.forward(seconds=1)
    settled(shop, clock, tmp_path)
    clock.forward(seconds=1)
    assert shop.operator_key.post(f"/prices/{price}/end", {"reason": "Free now."}).status_code == 200
    clock.forward(seconds=1)
    settled(shop, clock, tmp_path)
    assert [line["amount"] for line in costs(shop)] == ["0.25", None]
    assert shop.operator_key.post(f"/prices/{price}/end", {"reason": "Again."}).status_code == 404
    assert_intact(shop)


def test_a_budget_notifies_once_at_its_share_and_once_past_it(shop: Workshop, clock: Clock, tmp_path: Path):
    tell_people()
    set_price(shop, amount="4")
    made = shop.operator_key.post("/cost-budgets", {"amount": "5", "currency": "EUR", "share": 80})
    assert made.status_code == 201, made.content
    clock.forward(seconds=1)
    assert watch_budgets() == 0
    settled(shop, clock, tmp_path)
    assert watch_budgets() == 1
    assert watch_budgets() == 0
    assert "1.00 EUR of the monthly budget of 5.00 EUR is left." in sentence(shop)
    settled(shop, clock, tmp_path)
    assert watch_budgets() == 1
    assert watch_budgets() == 0
    assert "That is 3.00 EUR more than the monthly budget of 5.00 EUR." in sentence(shop)
    (budget,) = shop.operator_key.get("/cost-budgets").json()["items"]
    assert budget["said"].startswith("8.00 EUR of priced costs exceed the budget of 5.00 EUR for ")
    tell_people()
    with tenancy(shop.tenant):
        told = list(Message.objects.filter(tenant_id=shop.tenant, about_kind="cost_budget").order_by("id"))
    assert {each.kind for each in told} == {"budget_share_reached", "budget_passed"}
    # In the next month it begins anew.
    clock.forward(days=31)
    assert watch_budgets() == 0
    settled(shop, clock, tmp_path)
    assert watch_budgets() == 1
    assert_intact(shop)


def test_another_budget_replaces_the_one_of_its_currency_only(shop: Workshop):
    for currency, amount in (("EUR", "5"), ("USD", "7"), ("EUR", "6")):
        assert shop.operator_key.post("/cost-budgets", {"amount": amount, "currency": currency}).status_code == 201
    shown = shop.operator_key.get("/cost-budgets").json()["items"]
    assert [(each["currency"], each["amount"], each["share"]) for each in shown] == [
        ("EUR", "6.00", 80),
        ("USD", "7.00", 80),
    ]
    assert shop.operator_key.post("/cost-budgets", {"amount": "0.00", "currency": "EUR"}).status_code == 422
    with tenancy(shop.tenant), pytest.raises(DatabaseError), savepoint():
        CostBudget.objects.filter(tenant_id=shop.tenant).update(ended_at=None)
    assert_intact(shop)


def test_page_and_csv_say_what_is_not_priced_and_not_stated(shop: Workshop, clock: Clock, tmp_path: Path):
    settled(shop, clock, tmp_path)
    session = shop.session()["session_id"]
    shop.agent.post(f"/sessions/{session}/model-usage", {"model": "m-1"})
    text = shop.operator.client.get(f"/t/{shop.slug}/costs.csv").content.decode()
    rows = {row["Cost"]: row for row in csv.DictReader(io.StringIO(text))}
    assert (rows["Readings"]["Payer"], rows["Readings"]["Amount"]) == ("not priced", "not priced")
    assert rows["Input tokens"]["Quantity"] == "not stated"
    earlier = f"month={clock.now() - timedelta(days=62):%Y-%m}"
    assert costs(shop, query=earlier) == []
    assert sentence(shop, earlier).startswith("Nothing that could have a price is on record for ")
    assert shop.operator_key.get("/costs?month=2026-13").status_code == 422


def test_costs_of_one_tenant_are_no_others(shop: Workshop, clock: Clock, tmp_path: Path):
    from tests.support.api_tenant import workshop

    set_price(shop)
    clock.forward(seconds=1)
    settled(shop, clock, tmp_path)
    other = workshop("tulip")
    assert costs(other) == []
    assert other.operator_key.get("/prices").json()["items"] == []
