"""Effect receipts, checked as an outsider would: by the libraries of in-toto and DSSE, with the published key."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from counterfoil_tlog import checkpoint, merkle, notes
from tests.support.api_tenant import Clock, Workshop
from tests.support.seals import seal_up


def published_keys(shop: Workshop) -> list[SSlibKey]:
    """The keys of the JWKS, as the library has them."""
    keys = shop.operator.client.get("/.well-known/jwks.json").json()["keys"]
    return [
        SSlibKey(each["kid"], "ed25519", "ed25519", {"public": base64.urlsafe_b64decode(f"{each['x']}=").hex()})
        for each in keys
    ]


def envelope_of(shop: Workshop, action_id: str) -> Envelope:
    answer = shop.auditor.get(f"/actions/{action_id}/effect-receipt")
    assert answer.status_code == 200, answer.content
    return Envelope.from_dict(answer.json())


def checked(shop: Workshop, action_id: str) -> dict[str, Any]:
    """The statement of a receipt that both libraries accept."""
    envelope = envelope_of(shop, action_id)
    envelope.verify(published_keys(shop), 1)
    assert envelope.payload_type == "application/vnd.in-toto+json"
    message = json_format.Parse(envelope.payload, statement_pb2.Statement())
    Statement.copy_from_pb(message).validate()
    return dict(json.loads(envelope.payload))


def test_a_verified_deletion_says_who_allowed_it_what_ran_what_was_read_and_where_it_is_sealed(
    shop: Workshop, clock: Clock, tmp_path: Any
):
    started = shop.started()
    action_id = started["action_id"]
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(started)
    clock.forward(seconds=60)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    seal_up()
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
    log = said["log"]
    root = checkpoint.parse(notes.parse(log["checkpoint"].encode()).text).root
    proof = [bytes.fromhex(each) for each in log["path"]]
    merkle.verify_inclusion(
        leaf=bytes.fromhex(log["entry_hash"]), index=log["index"], size=log["size"], proof=proof, root=root
    )
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
    envelope = envelope_of(shop, shop.propose())
    for payload, kind in (
        (envelope.payload.replace(b'"verified":false', b'"verified":true'), envelope.payload_type),
        (envelope.payload, "application/json"),
    ):
        touched = Envelope(payload, kind, envelope.signatures)
        with pytest.raises(VerificationError):
            touched.verify(published_keys(shop), 1)


def test_the_same_receipt_is_a_download_of_the_actions_page(shop: Workshop):
    action_id = shop.propose()
    page = f"/t/{shop.slug}/actions/{action_id}"
    assert "Download signed effect receipt" in shop.operator.client.get(page).content.decode()
    answer = shop.operator.client.get(f"{page}/effect-receipt.json")
    assert answer["Content-Disposition"] == f'attachment; filename="effect-receipt-{action_id}.json"'
    Envelope.from_dict(answer.json()).verify(published_keys(shop), 1)


def test_an_agent_gets_no_receipt(shop: Workshop):
    assert shop.agent.get(f"/actions/{shop.propose()}/effect-receipt").status_code == 403
