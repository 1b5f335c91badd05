"""`POST /verify`: a claim is read by the workers, settled by what they read, and corrected by what they read later."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from console.claims.receipts import claim_predicate_schema
from ledger.db import tenancy
from ledger.models import System
from ledger.record.queries import events
from reviews import tasks
from reviews.models import Schedule, UngatedClaim
from reviews.systems.descriptions import shipped_descriptions
from tests.support.api_tenant import PASSWORD
from tests.support.browser_users import words
from tests.support.callers import key_for
from tests.support.outside.processor import TOKEN
from tests.web.actions.test_effect_receipts import DOCS, documented
from tests.web.claims.desk import Desk


def kinds(desk: Desk, claim_id: str) -> list[str]:
    with tenancy(desk.shop.tenant):
        return [event.kind for event, _, _ in events.history(desk.shop.tenant, UUID(claim_id))]


def page_of(desk: Desk, path: str) -> str:
    """A page as an operator reads it."""
    answer = desk.shop.operator.client.get(f"/t/{desk.shop.slug}/{path}")
    assert answer.status_code == 200, answer.content
    return words(answer.content.decode())


def case_of(desk: Desk, case_id: str) -> dict[str, Any]:
    answer = desk.shop.operator.get(f"/reviews/{case_id}")
    assert answer.status_code == 200, answer.content
    case: dict[str, Any] = answer.json()
    return case


def test_a_claim_is_not_safe_before_it_was_read(desk: Desk):
    desk.processor.refund(operation="op-1")
    told = desk.verify().json()
    assert (told["state"], told["outcome"], told["safe_to_claim"], told["reading"]) == (
        "OPEN",
        "VERIFYING",
        False,
        None,
    )
    assert told["sentence"] == "Not safe to claim yet: payments has not been read."


def test_a_verified_claim_says_what_was_read_and_what_nobody_knows(desk: Desk):
    desk.processor.refund(operation="op-1")
    told = desk.read(desk.claim())
    assert (told["state"], told["outcome"], told["safe_to_claim"]) == ("VERIFIED", "VERIFIED", True)
    assert told["sentence"].startswith("Safe to claim: payments shows the refund as claimed; read at ")
    assert told["reading"]["consistency"] == "STRONG"
    assert told["reading"]["fields"] == [
        {"name": "amount", "expected": 4000, "shown": 4000, "matches": True},
        {"name": "currency", "expected": "EUR", "shown": "EUR", "matches": True},
        {"name": "customer", "expected": "cus_1", "shown": "cus_1", "matches": True},
    ]
    assert "who did it" in told["not_known"]
    assert "whether it was approved" in told["not_known"]


@pytest.mark.parametrize(
    ("amount", "said"),
    [(1500, "payments shows amount 15.00 EUR instead of 40.00 EUR"), (None, "payments shows no such refund")],
)
def test_a_claim_that_does_not_match_has_a_case_that_a_person_settles(desk: Desk, amount: int | None, said: str):
    if amount:
        desk.processor.refund(operation="op-1", amount=amount)
    claim_id = desk.claim()
    told = desk.read(claim_id, seconds=6)
    assert told["sentence"].startswith(f"Not safe to claim: {said}; read at ")
    case = case_of(desk, told["case_id"])
    assert case["reason"] == "CLAIM_MISMATCH"
    [way] = case["allowed"]
    assert (way["resolution"], way["meaning"]) == (
        "ACKNOWLEDGE",
        "I have found out why what was claimed is not what the system of record shows, as I wrote.",
    )
    page = page_of(desk, f"cases/{told['case_id']}")
    assert "What was claimed is not what the system of record shows." in page
    assert said.removeprefix("payments shows ") in page
    settled = desk.shop.operator.post(
        f"/reviews/{told['case_id']}/resolve",
        {
            "resolution": "ACKNOWLEDGE",
            "reason": "The agent had read another order.",
            "evidence": ["its log of 12 March"],
            "covers": case["covers_digest"],
            "password": PASSWORD,
        },
    )
    assert settled.status_code == 200, settled.content
    assert desk.read(claim_id)["outcome"] == told["outcome"], "nobody's word changes how a claim stands"


def test_no_claim_of_a_missing_effect_is_refuted_before_it_had_time_to_appear(desk: Desk):
    claim_id = desk.claim(settle_s=60)
    assert desk.read(claim_id, seconds=30)["state"] == "OPEN"
    desk.processor.refund(operation="op-1")
    assert desk.read(claim_id, seconds=20)["state"] == "VERIFIED"


def test_a_refund_that_fails_after_success_contradicts_the_claim_and_opens_a_case(desk: Desk):
    desk.processor.refund(operation="op-1")
    claim_id = desk.claim()
    assert desk.read(claim_id)["safe_to_claim"]
    desk.processor.last().update(status="failed", failure_reason="lost_or_stolen_card")
    assert desk.read(claim_id, minutes=59)["safe_to_claim"], "it is read again after an hour"
    told = desk.read(claim_id, minutes=2)
    assert (told["outcome"], told["safe_to_claim"]) == ("CONTRADICTED", False)
    assert told["sentence"].startswith(
        "Not safe to claim: it was shown as claimed before, and now payments shows settlement failure; read at "
    )
    assert kinds(desk, claim_id) == ["claim_made", "claim_verified", "claim_contradicted"]
    assert case_of(desk, told["case_id"])["reason"] == "CLAIM_MISMATCH"


def test_what_arrives_late_verifies_a_claim_that_was_refuted(desk: Desk):
    claim_id = desk.claim()
    assert desk.read(claim_id, seconds=6)["outcome"] == "FAILED"
    desk.processor.refund(operation="op-1")
    told = desk.read(claim_id, minutes=61)
    assert (told["outcome"], told["safe_to_claim"]) == ("VERIFIED", True)
    assert kinds(desk, claim_id) == ["claim_made", "claim_refuted", "claim_verified"]


def test_a_provider_that_stays_away_leaves_a_claim_unknown_until_it_is_back(desk: Desk):
    desk.processor.refund(operation="op-1")
    desk.processor.is_away = True
    claim_id = desk.claim()
    told = desk.read(claim_id)
    assert told["sentence"].endswith("/v1/refunds answered 503.")
    for _ in range(4):
        told = desk.read(claim_id, minutes=30)
    assert (told["state"], told["outcome"]) == ("UNKNOWN", "UNKNOWN")
    assert told["sentence"].startswith("Not safe to claim: it is not known. No verdict came in time.")
    assert told["case_id"] is None
    desk.processor.is_away = False
    for _ in range(4):
        told = desk.read(claim_id, minutes=40)
    assert told["safe_to_claim"]


def test_a_reading_that_settles_nothing_takes_back_none_that_did(desk: Desk):
    desk.processor.refund(operation="op-1")
    claim_id = desk.claim()
    assert desk.read(claim_id)["safe_to_claim"]
    desk.processor.is_away = True
    told = desk.read(claim_id, minutes=61)
    assert told["safe_to_claim"]
    assert told["reading"]["result"] == "SUCCESS"


def test_anybody_who_may_claim_may_have_it_read_again_and_agents_only_their_own(desk: Desk):
    desk.processor.refund(operation="op-1")
    claim_id = desk.claim(by=desk.shop.agent)
    assert desk.read(claim_id, by=desk.shop.agent)["safe_to_claim"]
    desk.processor.last()["amount"] = 1
    assert desk.shop.agent.post(f"/claims/{claim_id}/verify").status_code == 200
    assert desk.read(claim_id, by=desk.shop.agent)["outcome"] == "CONTRADICTED"
    stranger = key_for(desk.shop.tenant, "agent")
    assert stranger.get(f"/claims/{claim_id}").status_code == 404
    assert stranger.post(f"/claims/{claim_id}/verify").status_code == 404


def test_an_agent_gets_no_receipt_and_may_give_no_lookup(desk: Desk):
    desk.processor.refund(operation="op-1")
    claim_id = desk.claim(by=desk.shop.agent)
    desk.read(claim_id)
    assert "receipt" not in desk.shop.agent.get(f"/claims/{claim_id}").json()
    assert desk.shop.agent.get(f"/claims/{claim_id}/receipt").status_code == 403
    refused = desk.verify(by=desk.shop.agent, lookup={"kind": "charge", "id": "'ch_1'"})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"system": "nowhere"}, 404, "NOT_FOUND"),
        ({"expected": {}}, 422, "NOTHING_EXPECTED"),
        ({"expected": {"amuont": 1}}, 422, "BAD_EXPECTATION"),
        ({"expected": {"amount == 1 || true": 1}}, 422, "BAD_EXPECTATION"),
        ({"operation": None, "target": None}, 422, "NOT_LOCATED"),
        ({"operation": "", "target": "order/o-17"}, 422, "NOT_LOCATED"),
        ({"target": "order/o-17"}, 422, "NOT_LOCATED"),
        ({"operation": "re_1", "target": "order/o-17"}, 422, "NOT_LOCATED"),
        ({"lookup": {"kind": "gift"}}, 422, "NOT_LOCATED"),
        ({"said_by": ""}, 422, "INVALID"),
        ({"expected": {"amount": 1.5}}, 422, None),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused_and_nothing_is_recorded(
    desk: Desk, changes: dict[str, Any], status: int, code: str | None
):
    answer = desk.verify(**changes)
    assert answer.status_code == status, answer.content
    assert code in (None, answer.json()["code"])
    with tenancy(desk.shop.tenant):
        assert UngatedClaim.objects.count() == Schedule.objects.count() == 0


def test_a_repeat_under_the_same_key_is_the_same_claim_as_it_stands_by_then(desk: Desk):
    desk.processor.refund(operation="op-1")
    body = {"system": "payments", "effect": "refund", "operation": "op-1", "expected": {"amount": 4000}}
    body |= {"said_by": "a night job", "wait_s": 0}
    first = desk.shop.operator_key.post("/verify", body, **{"Idempotency-Key": "one"}).json()
    tasks.verify_due()
    again = desk.shop.operator_key.post("/verify", body, **{"Idempotency-Key": "one"}).json()
    assert again["claim_id"] == first["claim_id"]
    assert (first["safe_to_claim"], again["safe_to_claim"]) == (False, True)


def test_a_refund_of_another_charge_is_not_safe_though_its_own_id_leads_to_it(desk: Desk):
    desk.processor.charge("ch_2", amount=4000)
    made = desk.processor.refund("ch_2")
    expected = {"amount": 4000, "currency": "EUR"}
    told = desk.read(desk.claim(operation=made["id"], target="charge/ch_1", expected=expected), seconds=6)
    assert told["sentence"].startswith("Not safe to claim: payments shows a change of another target; read at ")
    assert desk.read(desk.claim(operation=made["id"], target="charge/ch_2", expected=expected))["safe_to_claim"]


def test_the_schedule_row_of_a_claim_that_was_lost_is_made_again(desk: Desk):
    desk.processor.refund(operation="op-1")
    claim_id = desk.claim()
    Schedule.objects.all().delete()
    tasks.sweep()
    assert desk.read(claim_id)["safe_to_claim"]


def test_claims_are_no_verification_debt_of_a_system(desk: Desk):
    desk.claim(settle_s=3600)
    [system] = desk.shop.operator_key.get("/systems").json()["items"]
    assert system["health"]["waiting"] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reviews_claim SET said_by = 'somebody else'",
        "UPDATE reviews_claim SET target = ''",
        "UPDATE reviews_claim SET state = 'VERIFIED', result = 'SUCCESS'",
        "UPDATE reviews_claim SET state = 'DIFFERENT', pointer = document; UPDATE reviews_claim SET state = 'OPEN'",
        "UPDATE reviews_claim SET state = 'UNSURE', pointer = document",
        "UPDATE reviews_claim SET state = 'VERIFIED', result = 'PENDING', pointer = document",
    ],
)
def test_the_database_keeps_what_was_claimed_and_how_it_may_stand(desk: Desk, statement: str):
    desk.claim()
    with tenancy(desk.shop.tenant), transaction.atomic(), connection.cursor() as cursor:
        *before, refused = statement.split("; ")
        for each in before:
            cursor.execute(each)
        with pytest.raises(IntegrityError):
            cursor.execute(refused)
        transaction.set_rollback(True)


SCHEMA = json.loads((DOCS / "claim-receipt.schema.json").read_text())


def test_the_published_schema_is_the_one_of_the_product():
    assert claim_predicate_schema() == SCHEMA


def test_a_receipt_is_verified_by_libraries_of_others_and_says_what_is_not_known(desk: Desk):
    desk.processor.refund(operation="op-1")
    claim_id = desk.claim()
    desk.read(claim_id)
    receipt = desk.shop.auditor.get(f"/claims/{claim_id}/receipt").json()
    keys = dict(desk.shop.operator.client.get("/.well-known/jwks.json").json())
    assert documented("judge")(json.dumps(receipt), keys, SCHEMA) == "valid"
    said = json.loads(base64.b64decode(receipt["payload"]))["predicate"]
    assert (said["ended"]["verified"], said["ended"]["outcome"]) == (True, "VERIFIED")
    assert said["claim"]["said_by"] == "agent support"
    assert "who did it" in said["not_known"]
    assert not {"allowed", "ran"} & said.keys()
    damaged = json.loads(json.dumps(receipt).replace(receipt["payload"][:40], receipt["payload"][:39] + "A", 1))
    assert documented("judge")(json.dumps(damaged), keys, SCHEMA).startswith("invalid")


def test_the_record_of_claims_replays_and_their_rows_follow_from_their_events(desk: Desk):
    desk.processor.refund(operation="op-1")
    verified, absent = desk.claim(), desk.claim(operation="op-2")
    desk.read(verified, seconds=6)
    desk.read(absent, minutes=61)
    call_command("verify_ledger", verbosity=0)
    with tenancy(desk.shop.tenant):
        UngatedClaim.objects.filter(id=absent).update(discrepancy="")
    with pytest.raises(CommandError, match=r"reviews\.UngatedClaim has another discrepancy"):
        call_command("verify_ledger", verbosity=0)


def test_the_page_of_a_claim_tells_the_sentence_the_values_and_what_is_not_known(desk: Desk):
    desk.processor.refund(operation="op-1", amount=1500)
    claim_id = desk.claim()
    told = desk.read(claim_id)
    page = page_of(desk, f"claims/{claim_id}")
    for said in (
        told["sentence"],
        "said by agent support",
        "I refunded 40.00 EUR.",
        "It did not pass the gate, so no reading can say: who did it whether it was approved",
        "Claim does not match",
    ):
        assert said in page, said
    assert "refund charge/ch_1 Needs review no payments agent support" in page_of(desk, "claims")


def test_the_page_of_a_claim_that_was_not_read_says_so(desk: Desk):
    page = page_of(desk, f"claims/{desk.claim()}")
    assert "Not safe to claim yet: payments has not been read." in page
    assert "not read yet" in page


def test_home_tells_how_many_of_what_was_claimed_is_verified(desk: Desk):
    assert "claimed without the gate" not in page_of(desk, "")
    desk.processor.refund(operation="op-1")
    for each in [desk.claim(), desk.claim(operation="op-2"), desk.claim(operation="op-3", settle_s=600)]:
        desk.read(each, seconds=6)
    said = "1 verified of 3 claimed without the gate in the last seven days; 1 does not match."
    assert said in page_of(desk, "")


def test_a_described_system_settles_a_claim_only_once_its_description_was_tried(desk: Desk, secrets_dir: Path):
    made = desk.processor.refund()
    secret = json.dumps({"url": desk.processor.url, "token": TOKEN})
    (secrets_dir / "systems" / desk.shop.slug / "money.json").write_text(secret)
    body = {"name": "money", "pattern": "stripe_refunds", "settings": {"url": desk.processor.url}}
    assert desk.shop.operator_key.post("/systems", body).status_code == 201
    expected = {"amount": 4000, "currency": "eur"}
    claim_id = desk.claim(system="money", operation=made["id"], target=None, expected=expected)
    told = desk.read(claim_id, seconds=6)
    assert (told["outcome"], told["safe_to_claim"]) == ("VERIFYING", False)
    assert "which settles nothing" in told["sentence"]
    digest = shipped_descriptions()["stripe_refunds"].digest
    with tenancy(desk.shop.tenant):
        System.objects.filter(name="money").update(tried=digest)
    assert desk.read(claim_id, minutes=2)["safe_to_claim"]
