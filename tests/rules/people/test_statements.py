"""The statements that people sign, byte for byte: votes, settlements, and the agreement of a second person."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from approvals.voting.rules import binding, passkeys
from ledger import verify_bundle
from ledger.people.rules.statements import challenge_bytes, confirmation_code, coverage_digest, statement_hash
from reviews.cases.rules import settlements
from reviews.cases.rules.resolutions import UNGATED, Resolution
from reviews.cases.rules.settlements import Act
from tests.rules.cases.test_signed_settlements import HELD
from tests.support.tables import every_row

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "statements.json").read_text())
STATEMENTS = VECTORS["statements"]
SIGNED = [each for each in STATEMENTS if "assertion" in each]
PARTY = passkeys.RelyingParty(id=VECTORS["rp_id"], origins=frozenset({VECTORS["origin"]}))
KINDS = {"verdict": binding.VoteChoice, "act": Act, "resolution": Resolution}
INSTANTS = {"issued_at", "not_before", "expires_at"}
HELD_ACTIONS = {"held": HELD, "ungated": UNGATED}


def typed(plain: dict[str, Any]) -> dict[str, Any]:
    """The members as the rules hold them."""
    instants = {
        name: datetime.fromisoformat(plain[name]) for name in plain if name.endswith("_at") or name == "not_before"
    }
    lists = {name: tuple(value) for name, value in plain.items() if isinstance(value, list)}
    return plain | instants | lists | {name: kind(plain[name]) for name, kind in KINDS.items() if name in plain}


def write(vector: dict[str, Any]) -> bytes:
    covers, said = typed(vector["covers"]), typed(vector["said"])
    if vector["kind"] == "vote":
        vote = binding.VoteStatement(**said)
        return binding.statement(binding.Coverage(**covers), vote, version=vector["version"])
    held = HELD_ACTIONS[vector["held"]]
    return settlements.statement(settlements.Coverage(**covers), settlements.Settlement(**said), held=held)


@every_row("vector", STATEMENTS)
def test_a_statement_equals_the_bytes_of_its_vector(vector: dict[str, Any]):
    assert write(vector) == vector["text"].encode()


@every_row("vector", STATEMENTS)
def test_a_vector_is_parsed_to_its_coverage_and_statement(vector: dict[str, Any]):
    rules = binding if vector["kind"] == "vote" else settlements
    covers, said = rules.read_statement(vector["text"].encode())
    assert (vars(covers), vars(said)) == (typed(vector["covers"]), typed(vector["said"]))
    assert coverage_digest(covers) == vector["covers_digest"]
    assert statement_hash(vector["text"].encode()) == vector["hash"]


@every_row("vector", STATEMENTS)
def test_the_challenge_and_the_code_equal_those_of_the_vector(vector: dict[str, Any]):
    text = vector["text"].encode()
    assert challenge_bytes(text).hex() == vector["challenge"]
    assert confirmation_code(text) == vector["code"]
    assert hashlib.sha256(b"counterfoil/approval-challenge/2\x00" + text).hexdigest() == vector["challenge"]


@every_row("vector", SIGNED)
def test_the_signature_of_a_vector_verifies_here_and_in_the_offline_verifier(vector: dict[str, Any]):
    text, document, public_key = vector["text"].encode(), vector["assertion"], bytes.fromhex(vector["public_key"])
    parts = [passkeys.unbase64url(document[name]) for name in ("clientDataJSON", "authenticatorData", "signature")]
    assertion = passkeys.Assertion(
        credential_id=document["id"], client_data=parts[0], authenticator_data=parts[1], signature=parts[2]
    )
    key = passkeys.EnrolledKey(
        credential_id=vector["said"]["credential_id"], public_key=public_key, sign_count=0, backup_eligible=False
    )
    passkeys.verify_assertion(assertion, key=key, party=PARTY, statement=text)
    verify_bundle.check_passkey(public_key, document, text, VECTORS["rp_id"])
    with pytest.raises(passkeys.AssertionInvalid):
        passkeys.verify_assertion(assertion, key=key, party=PARTY, statement=text + b" ")
    with pytest.raises(verify_bundle.Bad):
        verify_bundle.check_passkey(public_key, document, text + b" ", VECTORS["rp_id"])
