"""What was written from documentation is not verified: a described system settles nothing before a dry run there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.management.commands import verify_ledger
from ledger.models import Tenant
from ledger.record.queries import events
from reviews import queries as after
from reviews.systems.descriptions import shipped_descriptions
from tests.support.api_tenant import PASSWORD, Clock
from tests.support.browser_users import Visitor, words
from tests.support.callers import person_for
from tests.support.outside.described_systems import FakeSystem, served
from tests.support.refund_shop import Counter, refund_contract

CAVEAT = (
    "money answered as UNDECLARED, which settles nothing. Its description was written from documentation and is not"
    " verified here: until a dry run in this installation has found a known object and missed another, its readings"
    " settle nothing."
)
UNTRIED = "Not verified here: until a dry run has found a known object and missed another, its readings are undeclared"
TRIED = "A dry run here has found a known object and missed another."
KEY = "/metadata/idempotency_key"
OF_ORDER = {"/metadata/order_id": "EX-1001"}
CHARGE = "ch_1NirD82eZvKYlo2CIvbtLWuY"
SAMPLE = {"order_id": "EX-1001", "amount": 1000, "currency": "USD"}
DRY_RUN = {
    "present": {"arguments": SAMPLE, "idempotency_key": "sample"},
    "absent": {"arguments": SAMPLE, "idempotency_key": "nobody"},
}


@pytest.fixture
def money():
    with served("stripe_refunds") as system:
        system.add("sample", number=1, **OF_ORDER)
        yield system


@pytest.fixture
def cashier(counter: Counter, secrets_dir: Path, money: FakeSystem) -> Counter:
    """A tenant in which the described system is registered, with a contract that was never tried there."""
    folder = secrets_dir / "systems" / counter.slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "money.json").write_text(json.dumps({"url": money.url, **money.data["credential"]}))
    body = {"name": "money", "pattern": "stripe_refunds", "settings": {}}
    assert counter.operator_key.post("/systems", body).status_code == 201
    return counter.open(secrets_dir, contract())


def contract(**changes: Any) -> dict[str, Any]:
    found = refund_contract(**changes)
    effect = {
        "of": {"charge": f"'{CHARGE}'"},
        "match": {"key": "scope.idempotency_key"},
        "amount": "sr.amount",
        "currency": "sr.currency",
        "fields": {"order": "/metadata/order_id"},
    }
    found["verification"] |= {
        "pattern": "stripe_refunds",
        "system": "money",
        "lookup": {"effects": {"refund": effect}},
        "predicates": [
            "sa.amount == sr.amount",
            "sa.currency == sr.currency",
            "sa.state == 'succeeded'",
            "sa.order == sr.order_id",
        ],
    }
    return found


def is_tried(counter: Counter) -> bool:
    (found,) = (each for each in counter.operator_key.get("/systems").json()["items"] if each["name"] == "money")
    return bool(found["tried"])


def refunded(counter: Counter, clock: Clock, money: FakeSystem) -> str:
    """A refund that the tool made and claims, read once."""
    started = counter.begun(**SAMPLE)
    money.add(started["idempotency_key"], number=2, **OF_ORDER)
    counter.tell(started)
    clock.forward(seconds=10)
    counter.read_back(started["action_id"], clock)
    return str(started["action_id"])


def evidence_page(counter: Counter, action_id: str) -> str:
    with tenancy(counter.tenant):
        (run,) = (each for each in after.recent_runs(counter.tenant, limit=5) if str(each.action_id) == action_id)
    pointer = run.pointer
    return words(counter.reviewer.client.get(f"/t/{counter.slug}/evidence/{pointer}").content.decode())


def test_an_untried_description_settles_no_high_risk_action_and_the_evidence_says_why(
    cashier: Counter, clock: Clock, money: FakeSystem
):
    action_id = refunded(cashier, clock, money)
    assert cashier.state(action_id) == "PENDING"
    assert CAVEAT in evidence_page(cashier, action_id)


def test_a_dry_run_that_finds_one_and_misses_another_verifies_the_description(
    cashier: Counter, clock: Clock, money: FakeSystem
):
    assert not is_tried(cashier)
    answer = cashier.operator_key.post("/contracts", contract(name="refund_slowly", dry_run=DRY_RUN))
    assert answer.status_code == 201, answer.content
    assert is_tried(cashier)
    with tenancy(cashier.tenant):
        row = catalogue_queries.system(cashier.tenant, "money")
        event, _, detail = events.history(cashier.tenant, row.id)[-1]
    digest = shipped_descriptions()["stripe_refunds"].digest
    assert (event.kind, row.tried) == ("description_tried", digest)
    assert detail == {"digest": digest, "contract": "refund_slowly", "version": "1"}
    action_id = refunded(cashier, clock, money)
    assert cashier.state(action_id) == "RECONCILED_SUCCESS"
    verify_ledger.verify(cashier.tenant, Tenant.objects.get(id=cashier.tenant).origin)
    assert "not verified here" not in evidence_page(cashier, action_id)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({KEY: "another"}, "/dry_run/present"),
        ({"/status": "unheard_of"}, "/dry_run/present"),
        ({"/amount": 7}, "/dry_run/present"),
    ],
    ids=["not found", "unknown state", "wrong amount"],
)
def test_a_dry_run_that_fails_verifies_nothing(cashier: Counter, money: FakeSystem, changes: Any, found: str):
    money.objects.clear()
    money.add("sample", **(OF_ORDER | changes))
    answer = cashier.operator_key.post("/contracts", contract(name="refund_slowly", dry_run=DRY_RUN))
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, found)
    assert not is_tried(cashier)


def test_a_move_of_the_system_takes_the_verification_back(cashier: Counter, money: FakeSystem):
    cashier.operator_key.post("/contracts", contract(name="refund_slowly", dry_run=DRY_RUN))
    assert is_tried(cashier)
    moved = {"name": "money", "pattern": "stripe_refunds", "settings": {"account": "another"}}
    assert cashier.operator_key.post("/systems", moved).json()["waits"]
    assert is_tried(cashier)
    word = {"confirm": True, "reason": "As agreed.", "password": PASSWORD}
    answer = person_for(cashier.tenant, "administrator", name="ada@orchid").post("/systems/money/answer", word)
    assert answer.status_code == 200, answer.content
    assert not is_tried(cashier)


def test_a_limit_may_change_without_a_new_dry_run(cashier: Counter):
    cashier.operator_key.post("/contracts", contract(name="refund_slowly", dry_run=DRY_RUN))
    slower = {"name": "money", "pattern": "stripe_refunds", "settings": {"limits": {"reads_per_minute": 5}}}
    assert cashier.operator_key.post("/systems", slower).status_code == 201
    assert is_tried(cashier)


def test_the_page_of_a_system_says_whether_its_description_is_verified_and_the_connection_test_tries_it(
    cashier: Counter, money: FakeSystem
):
    operator = Visitor(person_for(cashier.tenant, "operator", name="olga@orchid").client, cashier.slug)
    said = words(operator.page("systems"))
    assert f"Stripe refunds, written from public documentation. {UNTRIED}" in said
    for each in shipped_descriptions()["stripe_refunds"].document["cannot_prove"]:
        assert each in said
    cashier.operator_key.post("/contracts", contract(name="refund_slowly", dry_run=DRY_RUN))
    with tenancy(cashier.tenant):
        row = catalogue_queries.system(cashier.tenant, "money")
        # As after an upgrade that reads the system in another way.
        type(row).objects.filter(tenant_id=cashier.tenant, id=row.id).update(tried="0" * 64)
    assert UNTRIED in words(operator.page("systems"))
    made, money.objects = money.objects, []
    said = words(operator.post(f"systems/{row.id}/connection").content.decode())
    assert "The dry run did not verify the description: money: `refund` was not found, and the sample names one" in said
    assert not is_tried(cashier)
    money.objects = made
    answer = operator.post(f"systems/{row.id}/connection")
    assert TRIED in words(answer.content.decode())
    assert is_tried(cashier)
