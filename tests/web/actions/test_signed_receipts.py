"""Signed receipts, checked as docs/outcome-receipt.md tells an outsider to: by packages that are not ours."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.utils import timezone

from approvals.execution.operations import grant_keys
from console.actions.routes.signed_receipts import policy_digest, receipt_hash, sign_receipt
from ledger.record.rules.canonical import canonical, digest
from tests.support.api_tenant import Clock, Workshop

ROOT = Path(__file__).parents[3]
PUBLISHED = json.loads((ROOT / "tests" / "vectors" / "signed_receipts.json").read_text())
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
"""RFC 8785, appendix B: the bits of a number, and how it is written."""
SIGNATURES = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
"""RFC 8032, section 7.1: secret, public, message, signature."""


def documented_check() -> Any:
    """The function that the page has an outsider run, as it stands there."""
    page = (ROOT / "docs" / "outcome-receipt.md").read_text()
    [block] = [each for each in page.split("```python\n")[1:] if "def outcome(" in each]
    names: dict[str, Any] = {}
    exec(block.partition("```")[0], names)
    return names["outcome"]


outcome = documented_check()


def published_keys(shop: Workshop) -> list[dict[str, Any]]:
    return list(shop.operator.client.get("/.well-known/acta-keys.json").json()["keys"])


def receipts_of(shop: Workshop, action_id: str) -> list[dict[str, Any]]:
    answer = shop.auditor.get(f"/actions/{action_id}/signed-receipts")
    assert answer.status_code == 200, answer.content
    found = list(answer.json()["receipts"])
    assert [outcome(each, published_keys(shop)) for each in found] == ["valid"] * len(found)
    return found


def test_a_started_action_has_two_receipts_that_other_libraries_verify(shop: Workshop, clock: Clock, tmp_path: Path):
    started = shop.started()
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(started)
    clock.forward(seconds=60)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    decision, effect = receipts_of(shop, started["action_id"])
    said, ran = decision["payload"], effect["payload"]
    assert (said["type"], said["tool_name"]) == ("protectmcp:decision", "delete_document")
    assert (said["decision"], said["reason"]) == ("allow", "approved_by_people")
    assert said["payload_digest"]["hash"] == started["payload_hash"]
    assert [vote["verdict"] for vote in said["allowed"]["votes"]] == ["approve"]
    assert {"ran", "ended"}.isdisjoint(said)
    assert (ran["type"], ran["previousReceiptHash"]) == ("counterfoil:effect", receipt_hash(decision))
    assert ran["ran"][0]["executor_id"] == "runner"
    assert ran["shown"][0]["sources"][0]["source"] == "documents"
    assert (ran["ended"]["text"], ran["ended"]["verified"]) == (
        "Done, and confirmed in the system of record.",
        True,
    )
    assert "returns.md" not in json.dumps([decision, effect]).replace(shop.report(started["action_id"])["text"], "")


def test_before_a_start_there_is_only_the_decision_receipt_which_says_what_is_open(shop: Workshop):
    action_id = shop.propose()
    [waiting] = receipts_of(shop, action_id)
    assert (waiting["payload"]["decision"], waiting["payload"]["reason"]) == ("require_approval", "waiting_for_people")
    assert "previousReceiptHash" not in waiting["payload"]
    shop.vote(shop.approval_of(action_id), verdict="reject", reason="Not this one.")
    [rejected] = receipts_of(shop, action_id)
    assert (rejected["payload"]["decision"], rejected["payload"]["reason"]) == ("deny", "rejected")


def test_the_policy_digest_can_be_recomputed_from_the_document_in_the_api(shop: Workshop):
    [receipt] = receipts_of(shop, shop.propose())
    policy = shop.auditor.get("/policies").json()["approval"]
    assert receipt["payload"]["policy_digest"] == policy_digest(digest(rfc8785.dumps(policy["document"])))


def test_a_receipt_that_was_altered_or_signed_with_another_key_is_invalid(shop: Workshop):
    [receipt] = receipts_of(shop, shop.propose())
    keys = published_keys(shop)
    touched = receipt | {"payload": receipt["payload"] | {"decision": "allow"}}
    assert outcome(touched, keys) == "invalid: the signature does not verify"
    forged = sign_receipt(receipt["payload"], Ed25519PrivateKey.generate())
    assert outcome(forged, keys) == "invalid: the signature does not verify"
    assert outcome(receipt, []) == "undecidable: no key of that name"


def test_a_receipt_is_neither_a_grant_nor_a_dsse_envelope(shop: Workshop):
    action_id = shop.propose()
    [receipt] = receipts_of(shop, action_id)
    envelope = shop.auditor.get(f"/actions/{action_id}/effect-receipt").json()
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    public = grant_keys.signing_key(timezone.now()).public_key()
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)
    with pytest.raises(InvalidSignature):
        public.verify(bytes.fromhex(receipt["signature"]["sig"]), signed)
    with pytest.raises(InvalidSignature):
        public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), rfc8785.dumps(receipt["payload"]))


def test_the_receipts_can_be_downloaded_from_the_page_of_the_action(shop: Workshop):
    action_id = shop.propose()
    page = f"/t/{shop.slug}/actions/{action_id}"
    assert "Download signed receipts (RFC 8785)" in shop.operator.client.get(page).content.decode()
    answer = shop.operator.client.get(f"{page}/signed-receipts.jsonl")
    assert answer["Content-Disposition"] == f'attachment; filename="signed-receipts-{action_id}.jsonl"'
    [line] = answer.content.splitlines()
    assert outcome(json.loads(line), published_keys(shop)) == "valid"


def test_an_agent_cannot_read_receipts(shop: Workshop):
    assert shop.agent.get(f"/actions/{shop.propose()}/signed-receipts").status_code == 403


@pytest.mark.parametrize("case", PUBLISHED["receipts"], ids=lambda each: each["name"])
def test_the_published_vectors_give_the_published_results(case: dict[str, Any]):
    assert outcome(case["receipt"], PUBLISHED["keys"]) == case["outcome"]


@pytest.mark.parametrize(("secret", "public", "message", "signature"), SIGNATURES, ids=["1", "2", "3"])
def test_signatures_equal_those_of_rfc_8032(secret: str, public: str, message: str, signature: str):
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    assert key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex() == public
    assert key.sign(bytes.fromhex(message)).hex() == signature


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_are_written_as_in_appendix_b_of_rfc_8785(bits: str, text: str):
    assert rfc8785.dumps(struct.unpack(">d", bytes.fromhex(bits))[0]) == text.encode()


def test_the_examples_of_rfc_8785_are_written_as_in_the_standard():
    example = json.loads(
        '{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
        '"string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/", "literals": [null, true, false]}'
    )
    assert rfc8785.dumps(example).hex() == (
        "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b3333333333333333332e333333333333"
        "332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c75303030665c6e4127425c225c5c5c5c5c"
        "222f227d"
    )
    names = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(json.loads(rfc8785.dumps(names)).values()) == [2, 4, 6, 7, 1, 5, 3]


def test_a_receipt_has_the_same_bytes_in_the_canonical_form_of_the_record(shop: Workshop):
    [receipt] = receipts_of(shop, shop.propose())
    assert canonical(receipt) == rfc8785.dumps(receipt)
