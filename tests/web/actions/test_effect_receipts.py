"""Effect receipts, checked as docs/outcome-receipt.md tells an outsider to: by libraries that are not ours."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from console.actions.effect_schemas import predicate_schema
from tests.support import seals
from tests.support.api_tenant import Clock, Workshop
from tests.support.exported import newest

DOCS = Path(__file__).resolve().parents[3] / "docs"
SCHEMA = json.loads((DOCS / "outcome-receipt.schema.json").read_text())
VECTORS = json.loads((DOCS / "outcome-receipt.vectors.json").read_text())


def documented(name: str) -> Any:
    """A function that the page has an outsider run, as it stands there."""
    [block] = [
        each for each in (DOCS / "outcome-receipt.md").read_text().split("```python\n")[1:] if f"def {name}(" in each
    ]
    names: dict[str, Any] = {}
    exec(block.partition("```")[0], names)
    return names[name]


_judge = documented("judge")


def judge(receipt: dict[str, Any], keys: dict[str, Any]) -> str:
    return str(_judge(json.dumps(receipt), keys, SCHEMA))


@pytest.fixture
def is_in_log() -> Any:
    pytest.importorskip("metamorphic_log", reason="metamorphic-log has no wheel for this platform")
    return documented("is_in_log")


def published_keys(shop: Workshop) -> dict[str, Any]:
    return dict(shop.operator.client.get("/.well-known/jwks.json").json())


def receipt_of(shop: Workshop, action_id: str) -> dict[str, Any]:
    answer = shop.auditor.get(f"/actions/{action_id}/effect-receipt")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def checked(shop: Workshop, action_id: str) -> dict[str, Any]:
    """The statement of a receipt that all three libraries accept."""
    receipt = receipt_of(shop, action_id)
    assert judge(receipt, published_keys(shop)) == "valid"
    return dict(json.loads(base64.b64decode(receipt["payload"])))


def test_a_verified_deletion_says_who_allowed_it_what_ran_what_was_read_and_where_it_is_sealed(
    shop: Workshop, clock: Clock, tmp_path: Any, is_in_log: Any
):
    started = shop.started()
    action_id = started["action_id"]
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(started)
    clock.forward(seconds=60)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    seals.seal_up()
    statement = checked(shop, action_id)
    said = statement["predicate"]
    shown = shop.operator_key.get(f"/actions/{action_id}").json()
    assert statement["subject"] == [
        {"name": "delete_document document/policies/returns.md", "digest": {"sha256": started["payload_hash"]}}
    ]
    assert (said["allowed"]["by"], said["allowed"]["decision"]) == ("people", "APPROVED")
    [vote] = said["allowed"]["votes"]
    assert (vote["verdict"], vote["assurance"], len(vote["statement_sha256"])) == ("approve", "C", 64)
    [ran] = said["ran"]
    assert (ran["attempt"], ran["executor_id"]) == (1, "runner")
    assert said["shown"][0]["sources"][0]["source"] == "documents"
    assert said["ended"]["text"] == shop.report(action_id)["text"] == "Done, and confirmed in the system of record."
    assert (said["ended"]["outcome"], said["ended"]["verified"]) == ("VERIFIED", True)
    assert said["log"]["entry_hash"] == shown["entry_hash"]
    with seals.signer() as signer:
        vkey = signer.vkey(newest(shop.tenant).origin)
    assert is_in_log(said["log"], vkey)
    assert not is_in_log(said["log"] | {"entry_hash": "0" * 64}, vkey)
    assert "returns.md" not in json.dumps(said)


def test_an_unread_effect_is_not_verified(shop: Workshop):
    started = shop.started()
    shop.observe(started)
    said = checked(shop, started["action_id"])["predicate"]
    assert (said["shown"], said["ended"]["verified"]) == ([], False)
    assert said["ended"]["text"] == "The tool has answered. Whether it is so is still being checked."


def test_a_persons_statement_is_no_verification(shop: Workshop, clock: Clock):
    from tests.web.cases.test_cases import settled

    case = shop.held(clock)
    settled(shop, case, "ATTEST_PRESENT")
    ended = checked(shop, case["action_id"])["predicate"]["ended"]
    assert (ended["state"], ended["outcome"], ended["verified"]) == ("RECONCILED_SUCCESS", "ATTESTED", False)


def test_a_receipt_that_somebody_touched_is_refused_by_the_library(shop: Workshop):
    receipt, keys = receipt_of(shop, shop.propose()), published_keys(shop)
    payload = base64.b64decode(receipt["payload"]).replace(b'"verified":false', b'"verified":true')
    touched = receipt | {"payload": base64.b64encode(payload).decode()}
    assert payload != base64.b64decode(receipt["payload"])
    for each in (touched, receipt | {"payloadType": "application/json"}):
        assert judge(each, keys) == "invalid: no key of the issuer signed it"
    assert judge(receipt, {"keys": []}) == "invalid: no key of the issuer signed it"


def test_the_published_schema_is_the_one_that_receipts_are_made_by():
    Draft202012Validator.check_schema(SCHEMA)
    assert predicate_schema() == SCHEMA


@pytest.mark.parametrize("vector", VECTORS["receipts"], ids=lambda each: each["name"])
def test_a_published_receipt_is_judged_as_the_vectors_say(vector: dict[str, Any]):
    assert judge(vector["receipt"], VECTORS["jwks"]) == vector["judgement"]


def test_a_place_in_the_log_is_proven_where_the_vectors_say_so(is_in_log: Any):
    told = [
        (json.loads(base64.b64decode(each["receipt"]["payload"]))["predicate"]["log"], each["in_log"])
        for each in VECTORS["receipts"]
        if "in_log" in each
    ]
    assert [is_in_log(place, VECTORS["log_key"]) for place, _ in told] == [expected for _, expected in told]
    assert {True, False} == {expected for _, expected in told}


def test_the_same_receipt_is_a_download_of_the_actions_page(shop: Workshop):
    action_id = shop.propose()
    page = f"/t/{shop.slug}/actions/{action_id}"
    assert "Download signed effect receipt" in shop.operator.client.get(page).content.decode()
    answer = shop.operator.client.get(f"{page}/effect-receipt.json")
    assert answer["Content-Disposition"] == f'attachment; filename="effect-receipt-{action_id}.json"'
    assert judge(answer.json(), published_keys(shop)) == "valid"


def test_an_agent_gets_no_receipt(shop: Workshop):
    assert shop.agent.get(f"/actions/{shop.propose()}/effect-receipt").status_code == 403
