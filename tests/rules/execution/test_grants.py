from __future__ import annotations

import base64
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from approvals.execution.rules import dpop, grants, jws
from approvals.execution.rules.grants import (
    ApprovalReference,
    GrantClaims,
    GrantExpired,
    GrantInvalid,
    GrantKey,
    GrantTerms,
    GrantWrongExecutor,
    LogReference,
)
from approvals.voting.rules.binding import ContractChanged, PolicyChanged
from ledger.record.rules.refusals import Refused
from tests.support.tables import every_row

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
KEYS = [GrantKey(KEY.public_key(), NOW - timedelta(days=1))]
ISSUER = "https://console.example"
APPROVED = ApprovalReference(
    approval_id="p-1",
    rule="IRREVERSIBLE",
    terms_digest="55" * 32,
    votes=("66" * 32, "77" * 32),
    logged=LogReference(origin="console.example/log", index=40, size=42),
)
TERMS = GrantTerms(
    tenant="t-1",
    environment="production",
    epoch=3,
    action_id="a-1",
    revision=1,
    attempt=1,
    payload_hash="11" * 32,
    payload_length=120,
    tool="refund",
    tool_version="1.0.0",
    contract_digest="22" * 32,
    target="order/1",
    precondition="88" * 32,
    side_effect_class="HIGH_RISK_EXTERNAL",
    reversibility="IRREVERSIBLE",
    limits={"amount": "1250", "currency": "EUR"},
    agent="support",
    agent_version="7",
    run_id="run-1",
    policy_digests={"approval": "33" * 32},
    approval=APPROVED,
    idempotency="99" * 32,
    executor="refunds-1",
    thumbprint="T" * 43,
)
GRANT = GrantClaims(issuer=ISSUER, jti="j-1", issued_at=NOW, expires_at=NOW + timedelta(seconds=120), terms=TERMS)


def verify(token, *, at=NOW, keys=KEYS, issuer=ISSUER):
    return grants.verify_token(token, keys=keys, issuer=issuer, at=at)


def parts(token):
    header, claims, _ = token.split(".")
    return json.loads(jws.decode(header)), json.loads(jws.decode(claims))


def forged(*, header=None, claims=None, key=KEY):
    """A token that our own key signed, with anything at all in header and claims."""
    good_header, good_claims = parts(grants.mint_token(GRANT, key=KEY))
    return jws.write_token(header=header or good_header, claims=claims or good_claims, sign=key.sign)


def signed_text(header, claims):
    signed = f"{jws.encode(header.encode())}.{jws.encode(claims.encode())}"
    return f"{signed}.{jws.encode(KEY.sign(signed.encode()))}"


@pytest.mark.req("R-AP-06")
def test_a_verified_grant_equals_the_minted_one():
    assert verify(grants.mint_token(GRANT, key=KEY)) == GRANT


def words(least=0):
    return st.text(min_size=least, max_size=20, alphabet=st.characters(exclude_categories=["Cs"]))


NUMBERS = st.integers(0, 2**53 - 1)
APPROVALS = st.builds(
    ApprovalReference,
    approval_id=words(1),
    rule=words(),
    terms_digest=words(1),
    votes=st.lists(words(1), max_size=4).map(tuple),
    logged=st.none() | st.builds(LogReference, origin=words(1), index=NUMBERS, size=NUMBERS),
)
ANY_TERMS = st.builds(
    GrantTerms,
    **dict.fromkeys(("epoch", "revision", "attempt", "payload_length"), NUMBERS),
    **dict.fromkeys(("target", "precondition", "agent_version", "run_id", "idempotency"), words()),
    limits=st.dictionaries(st.sampled_from(["amount", "currency"]), words()),
    policy_digests=st.dictionaries(st.sampled_from(["approval", "recovery"]), words(1)),
    approval=st.none() | APPROVALS,
    **dict.fromkeys(("tenant", "environment", "action_id", "payload_hash", "tool", "tool_version"), words(1)),
    **dict.fromkeys(("contract_digest", "side_effect_class", "reversibility", "agent"), words(1)),
    **dict.fromkeys(("executor", "thumbprint"), words(1)),
)


@given(ANY_TERMS)
def test_verification_returns_the_minted_terms_for_any_terms(terms):
    grant = replace(GRANT, terms=terms)

    assert verify(grants.mint_token(grant, key=KEY)) == grant


def test_a_grant_with_any_changed_character_is_refused():
    token = grants.mint_token(GRANT, key=KEY)

    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(GrantInvalid):
            verify(token[:place] + other + token[place + 1 :])


@pytest.mark.req("R-AP-08")
def test_a_grant_is_refused_from_its_expiry_on():
    token = grants.mint_token(GRANT, key=KEY)

    assert verify(token, at=NOW + timedelta(seconds=119))
    with pytest.raises(GrantExpired):
        verify(token, at=NOW + timedelta(seconds=120))


@pytest.mark.parametrize("life", [0, -1, 301])
def test_a_grant_with_an_invalid_lifetime_is_not_minted(life):
    with pytest.raises(ValueError, match="300"):
        grants.mint_token(replace(GRANT, expires_at=NOW + timedelta(seconds=life)), key=KEY)


def test_a_correctly_signed_grant_that_lives_too_long_is_refused():
    _, claims = parts(grants.mint_token(GRANT, key=KEY))

    with pytest.raises(GrantInvalid):
        verify(forged(claims=claims | {"exp": claims["iat"] + 3600}))
    with pytest.raises(GrantInvalid):
        verify(
            forged(claims=claims | {"iat": claims["iat"] + 60, "nbf": claims["iat"] + 60, "exp": claims["iat"] + 120})
        )


def test_a_grant_of_another_installation_is_refused():
    with pytest.raises(GrantInvalid):
        verify(grants.mint_token(GRANT, key=KEY), issuer="https://staging.example")


def test_a_grant_under_an_unknown_key_is_refused():
    with pytest.raises(GrantInvalid):
        verify(grants.mint_token(GRANT, key=OTHER))
    with pytest.raises(GrantInvalid):
        verify(grants.mint_token(GRANT, key=KEY), keys=[])


def test_a_grant_signed_by_another_key_than_its_kid_is_refused():
    with pytest.raises(GrantInvalid):
        verify(forged(key=OTHER))


@pytest.mark.parametrize(
    ("since", "until"),
    [(timedelta(seconds=1), None), (timedelta(days=-2), timedelta(seconds=-1))],
)
def test_a_key_verifies_only_within_its_validity(since, until):
    keys = [GrantKey(KEY.public_key(), NOW + since, until and NOW + until)]

    with pytest.raises(GrantInvalid):
        verify(grants.mint_token(GRANT, key=KEY), keys=keys)


@pytest.mark.parametrize(
    "change",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "EdDSA"},
        {"alg": "ed25519"},
        {"alg": "ES256"},
        {"alg": None},
        {"typ": "JWT"},
        {"typ": "dpop+jwt"},
        {"typ": "COUNTERFOIL-GRANT+JWT"},
        {"kid": "nobody"},
        {"kid": None},
        {"kid": ["x"]},
        {"crit": ["exp"]},
        {"jku": "https://evil.example/keys"},
        {"jwk": dpop.public_jwk(OTHER.public_key())},
        {"x5u": "https://evil.example/cert"},
        {"b64": False},
    ],
)
def test_a_header_with_another_type_or_algorithm_is_refused(change):
    header, _ = parts(grants.mint_token(GRANT, key=KEY))

    with pytest.raises(GrantInvalid):
        verify(forged(header=header | change))


@pytest.mark.parametrize("name", ["alg", "typ", "kid"])
def test_a_header_without_a_field_is_refused(name):
    header, _ = parts(grants.mint_token(GRANT, key=KEY))
    del header[name]

    with pytest.raises(GrantInvalid):
        verify(forged(header=header))


def test_a_mac_made_with_the_public_key_is_refused():
    header, claims = parts(grants.mint_token(GRANT, key=KEY))

    def mac(data):
        code = hmac.HMAC(KEY.public_key().public_bytes_raw(), hashes.SHA256())
        code.update(data)
        return code.finalize()

    with pytest.raises(GrantInvalid):
        verify(jws.write_token(header=header | {"alg": "HS256"}, claims=claims, sign=mac))
    with pytest.raises(GrantInvalid):
        verify(jws.write_token(header=header, claims=claims, sign=mac))


@pytest.mark.parametrize("name", sorted(parts(grants.mint_token(GRANT, key=KEY))[1]))
def test_a_missing_claim_is_refused(name):
    _, claims = parts(grants.mint_token(GRANT, key=KEY))
    del claims[name]

    with pytest.raises(GrantInvalid):
        verify(forged(claims=claims))


@pytest.mark.parametrize(
    "change",
    [
        {"admin": True},
        {"revision": "1"},
        {"revision": True},
        {"attempt": -1},
        {"uses": 2},
        {"uses": True},
        {"exp": "soon"},
        {"exp": 2**53 - 1, "iat": 2**53 - 100, "nbf": 2**53 - 100},
        {"nbf": 0},
        {"aud": ["refunds-1"]},
        {"aud": ""},
        {"cnf": {}},
        {"cnf": {"jkt": 1}},
        {"cnf": {"jkt": "x", "jwk": {}}},
        {"policies": []},
        {"policies": {"approval": 1}},
        {"payload": {"hash": "11" * 32}},
        {"payload": {"hash": "11" * 32, "length": "120"}},
        {"limits": {"amount": 1250}},
        {"approval": {}},
        {"approval": "p-1"},
        {"approval": {"id": "p-1", "rule": "", "terms": "x", "votes": "66", "log": None}},
        {"approval": {"id": "p-1", "rule": "", "terms": "x", "votes": [], "log": {"index": 1, "size": 2}}},
        {"sub": ""},
        {"iss": None},
    ],
)
def test_an_unknown_or_mistyped_claim_is_refused(change):
    _, claims = parts(grants.mint_token(GRANT, key=KEY))

    with pytest.raises(GrantInvalid):
        verify(forged(claims=claims | change))


def test_a_duplicate_name_is_refused():
    header, claims = (json.dumps(part) for part in parts(grants.mint_token(GRANT, key=KEY)))

    assert verify(signed_text(header, claims)) == GRANT
    with pytest.raises(GrantInvalid):
        verify(signed_text(header, claims[:-1] + ', "sub": "a-2"}'))
    with pytest.raises(GrantInvalid):
        verify(signed_text(header[:-1] + ', "alg": "Ed25519"}', claims))


@pytest.mark.parametrize(
    "damage",
    [
        lambda token: token + "=",
        lambda token: token + ".",
        lambda token: "." + token,
        lambda token: token.rpartition(".")[0],
        lambda token: token.rpartition(".")[0] + ".",
        lambda token: token + ".AAAA",
        lambda token: token.replace(".", ". ", 1),
        lambda token: " " + token,
        lambda token: token + "\n",
        lambda token: token.replace("-", "+").replace("_", "/") + "/",
        lambda token: "",
        lambda token: "..",
        lambda token: "é" * 100,
        lambda token: token + "A" * 20_000,
        lambda token: base64.b64encode(token.encode()).decode(),
    ],
)
def test_a_token_of_another_form_is_refused(damage):
    with pytest.raises(GrantInvalid):
        verify(damage(grants.mint_token(GRANT, key=KEY)))


def test_stray_bits_in_the_last_character_are_refused():
    token = grants.mint_token(GRANT, key=KEY)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]

    assert base64.urlsafe_b64decode(twin.split(".")[2] + "==") == base64.urlsafe_b64decode(token.split(".")[2] + "==")
    with pytest.raises(GrantInvalid):
        verify(twin)


@given(st.text(max_size=300))
def test_any_malformed_text_is_refused_as_a_grant(text):
    with pytest.raises(GrantInvalid):
        verify(text)


# What the grant is for


def test_a_grant_for_the_present_terms_is_accepted():
    grants.check_terms(GRANT, TERMS)


OTHERS = {
    "tenant": "t-2",
    "environment": "staging",
    "epoch": 4,
    "action_id": "a-2",
    "revision": 2,
    "attempt": 2,
    "payload_hash": "44" * 32,
    "payload_length": 121,
    "tool": "refund_all",
    "tool_version": "1.0.1",
    "contract_digest": "44" * 32,
    "target": "order/2",
    "precondition": "",
    "side_effect_class": "CRITICAL_MUTATION",
    "reversibility": "REVERSIBLE",
    "limits": {"amount": "12500", "currency": "EUR"},
    "agent": "sales",
    "agent_version": "8",
    "run_id": "run-2",
    "policy_digests": {"approval": "33" * 32, "recovery": "33" * 32},
    "approval": None,
    "idempotency": "",
    "executor": "refunds-2",
    "thumbprint": "U" * 43,
}
NAMED = {
    "contract_digest": ContractChanged,
    "policy_digests": PolicyChanged,
    "executor": GrantWrongExecutor,
    "thumbprint": GrantWrongExecutor,
}


@pytest.mark.req("R-AP-06")
@pytest.mark.parametrize("name", [each.name for each in fields(GrantTerms)])
def test_a_grant_with_one_changed_term_is_refused(name):
    """B1: each field that a grant binds, changed on either side; a field that is added later is in this test."""
    changed = replace(TERMS, **{name: OTHERS[name]})

    with pytest.raises(NAMED.get(name, GrantInvalid)):
        grants.check_terms(GRANT, changed)
    with pytest.raises(NAMED.get(name, GrantInvalid)):
        grants.check_terms(replace(GRANT, terms=changed), TERMS)


def test_a_grant_from_before_a_restore_is_refused_as_such():
    with pytest.raises(GrantInvalid, match="made before the database was restored; claim the order again"):
        grants.check_terms(GRANT, replace(TERMS, epoch=OTHERS["epoch"]))


@pytest.mark.parametrize(
    "change",
    [
        {"approval_id": "p-2"},
        {"rule": "CONTRACT"},
        {"terms_digest": "44" * 32},
        {"votes": ("66" * 32,)},
        {"votes": ("66" * 32, "77" * 32, "88" * 32)},
        {"votes": ("77" * 32, "66" * 32)},
        {"logged": None},
        {"logged": LogReference(origin="console.example/log/2", index=40, size=42)},
        {"logged": LogReference(origin="console.example/log", index=39, size=42)},
        {"logged": LogReference(origin="console.example/log", index=40, size=41)},
    ],
)
def test_a_grant_with_one_changed_approval_term_is_refused(change):
    """B1: the approval, its rule and terms, each vote, and where the log has them."""
    with pytest.raises(GrantInvalid):
        grants.check_terms(GRANT, replace(TERMS, approval=replace(APPROVED, **change)))


def test_a_log_that_has_grown_since_does_not_void_the_grant():
    grown = replace(APPROVED, logged=replace(APPROVED.logged, size=900))
    early = replace(GRANT, terms=replace(TERMS, approval=replace(APPROVED, logged=None)))

    grants.check_terms(GRANT, replace(TERMS, approval=grown))
    grants.check_terms(early, TERMS)


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ({"amount": 1250, "currency": "EUR"}, {"amount": "1250", "currency": "EUR"}),
        ({"amount": "12.50"}, {"amount": "12.50"}),
        ({"amount": None, "currency": True}, {}),
        ({"amount": [1]}, {}),
        ({"other": 1}, {}),
    ],
)
def test_the_limits_of_a_grant_are_the_amounts_in_the_payload(payload, found):
    assert grants.amount_limits(payload, ("amount", "currency")) == found
    assert grants.amount_limits(payload, ()) == {}


def test_an_oversized_grant_is_not_minted():
    many = replace(APPROVED, votes=("66" * 32,) * 300)

    with pytest.raises(ValueError, match="too long"):
        grants.mint_token(replace(GRANT, terms=replace(TERMS, approval=many)), key=KEY)


@pytest.mark.req("R-AP-21")
def test_a_stored_grant_does_not_contain_its_token():
    token = grants.mint_token(GRANT, key=KEY)

    assert len(grants.token_hash(token)) == 64
    assert token not in grants.token_hash(token)


def test_the_key_set_publishes_only_public_keys_and_validity():
    retired = GrantKey(OTHER.public_key(), NOW - timedelta(days=9), NOW)
    published = grants.jwks([*KEYS, retired])["keys"]

    assert {"d"} & {name for key in published for name in key} == set()
    assert published[0]["kid"] == parts(grants.mint_token(GRANT, key=KEY))[0]["kid"]
    assert "exp" not in published[0]
    assert published[1]["exp"] == int(NOW.timestamp())


VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "grants.json").read_text())


def listed(jwk):
    window = [datetime.fromtimestamp(jwk[name], UTC) if name in jwk else None for name in ("nbf", "exp")]
    return GrantKey(dpop.public_key({name: jwk[name] for name in ("kty", "crv", "x")}), *window)


@every_row("vector", VECTORS["vectors"])
def test_the_shared_vectors_give_the_recorded_results(vector):
    """B25, B26: the executors' own verifier is held against the same file (tests/client/test_grants.py)."""
    keys, at = [listed(jwk) for jwk in VECTORS["jwks"]["keys"]], datetime.fromtimestamp(VECTORS["at"], UTC)
    ours = {"executor": VECTORS["executor_id"]} | {name: VECTORS[name] for name in ("environment", "thumbprint")}

    def judge():
        grant = verify(vector["token"], at=at, keys=keys, issuer=VECTORS["issuer"])
        grants.check_terms(grant, replace(grant.terms, **ours))

    if vector["code"] is None:
        judge()
    else:
        with pytest.raises(Refused) as refusal:
            judge()
        assert refusal.value.code == vector["code"]


def test_the_signature_vector_of_rfc_8037_verifies():
    """Appendix A.4 and A.3: the key, the thumbprint and the signature of the published example."""
    key = Ed25519PrivateKey.from_private_bytes(jws.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
    signed = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"

    assert dpop.public_jwk(key.public_key())["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert dpop.thumbprint(dpop.public_jwk(key.public_key())) == ("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
    assert jws.encode(key.sign(signed)) == (
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    )
