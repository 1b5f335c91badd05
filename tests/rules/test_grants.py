from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from approvals.rules import grants, jws, possession
from approvals.rules.binding import ContractChanged, PolicyChanged
from approvals.rules.grants import Grant, GrantExpired, GrantInvalid, GrantKey, GrantWrongExecutor, Terms

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
KEYS = [GrantKey(KEY.public_key(), NOW - timedelta(days=1))]
ISSUER = "https://console.example"
TERMS = Terms(
    tenant="t-1",
    action_id="a-1",
    revision=1,
    attempt=1,
    payload_hash="11" * 32,
    contract_digest="22" * 32,
    policy_digests={"approval": "33" * 32},
    executor="refunds-1",
    thumbprint="T" * 43,
)
GRANT = Grant(issuer=ISSUER, jti="j-1", issued_at=NOW, expires_at=NOW + timedelta(seconds=120), terms=TERMS)


def verify(token, *, at=NOW, keys=KEYS, issuer=ISSUER):
    return grants.verify(token, keys=keys, issuer=issuer, at=at)


def parts(token):
    header, claims, _ = token.split(".")
    return json.loads(jws.decode(header)), json.loads(jws.decode(claims))


def forged(*, header=None, claims=None, key=KEY):
    """A token that our own key signed, with anything at all in header and claims."""
    good_header, good_claims = parts(grants.mint(GRANT, key=KEY))
    return jws.write(header=header or good_header, claims=claims or good_claims, sign=key.sign)


def signed_text(header, claims):
    signed = f"{jws.encode(header.encode())}.{jws.encode(claims.encode())}"
    return f"{signed}.{jws.encode(KEY.sign(signed.encode()))}"


@pytest.mark.req("R-AP-06")
def test_a_grant_says_after_verification_what_was_minted():
    assert verify(grants.mint(GRANT, key=KEY)) == GRANT


@given(
    st.builds(
        Terms,
        tenant=st.text(min_size=1, max_size=20, alphabet=st.characters(exclude_categories=["Cs"])),
        action_id=st.uuids().map(str),
        revision=st.integers(0, 2**53 - 1),
        attempt=st.integers(0, 2**53 - 1),
        payload_hash=st.just("11" * 32),
        contract_digest=st.just("22" * 32),
        policy_digests=st.dictionaries(st.sampled_from(["approval", "recovery"]), st.just("33" * 32)),
        executor=st.text(min_size=1, max_size=20, alphabet=st.characters(exclude_categories=["Cs"])),
        thumbprint=st.just("T" * 43),
    )
)
def test_reading_undoes_minting_for_any_terms(terms):
    grant = replace(GRANT, terms=terms)

    assert verify(grants.mint(grant, key=KEY)) == grant


def test_every_changed_character_is_refused():
    token = grants.mint(GRANT, key=KEY)

    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(GrantInvalid):
            verify(token[:place] + other + token[place + 1 :])


@pytest.mark.req("R-AP-08")
def test_an_expired_grant_is_refused_from_its_last_instant_on():
    token = grants.mint(GRANT, key=KEY)

    assert verify(token, at=NOW + timedelta(seconds=119))
    with pytest.raises(GrantExpired):
        verify(token, at=NOW + timedelta(seconds=120))


@pytest.mark.parametrize("life", [0, -1, 301])
def test_a_grant_of_an_impossible_life_is_not_minted(life):
    with pytest.raises(ValueError, match="300"):
        grants.mint(replace(GRANT, expires_at=NOW + timedelta(seconds=life)), key=KEY)


def test_a_long_life_is_refused_even_when_our_key_signed_it():
    _, claims = parts(grants.mint(GRANT, key=KEY))

    with pytest.raises(GrantInvalid):
        verify(forged(claims=claims | {"exp": claims["iat"] + 3600}))
    with pytest.raises(GrantInvalid):
        verify(forged(claims=claims | {"iat": claims["iat"] + 60, "exp": claims["iat"] + 120}))


def test_a_grant_of_another_installation_is_refused():
    with pytest.raises(GrantInvalid):
        verify(grants.mint(GRANT, key=KEY), issuer="https://staging.example")


def test_a_grant_under_an_unknown_key_is_refused():
    with pytest.raises(GrantInvalid):
        verify(grants.mint(GRANT, key=OTHER))
    with pytest.raises(GrantInvalid):
        verify(grants.mint(GRANT, key=KEY), keys=[])


def test_a_known_kid_over_another_keys_signature_is_refused():
    with pytest.raises(GrantInvalid):
        verify(forged(key=OTHER))


@pytest.mark.parametrize(
    ("since", "until"),
    [(timedelta(seconds=1), None), (timedelta(days=-2), timedelta(seconds=-1))],
)
def test_a_key_signs_only_within_its_window(since, until):
    keys = [GrantKey(KEY.public_key(), NOW + since, until and NOW + until)]

    with pytest.raises(GrantInvalid):
        verify(grants.mint(GRANT, key=KEY), keys=keys)


@pytest.mark.parametrize(
    "change",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "Ed25519"},
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
        {"jwk": possession.public_jwk(OTHER.public_key())},
        {"x5u": "https://evil.example/cert"},
        {"b64": False},
    ],
)
def test_a_header_that_asks_for_anything_else_is_refused(change):
    header, _ = parts(grants.mint(GRANT, key=KEY))

    with pytest.raises(GrantInvalid):
        verify(forged(header=header | change))


@pytest.mark.parametrize("name", ["alg", "typ", "kid"])
def test_a_header_without_a_field_is_refused(name):
    header, _ = parts(grants.mint(GRANT, key=KEY))
    del header[name]

    with pytest.raises(GrantInvalid):
        verify(forged(header=header))


def test_a_mac_made_with_the_public_key_is_refused():
    header, claims = parts(grants.mint(GRANT, key=KEY))

    def mac(data):
        code = hmac.HMAC(KEY.public_key().public_bytes_raw(), hashes.SHA256())
        code.update(data)
        return code.finalize()

    with pytest.raises(GrantInvalid):
        verify(jws.write(header=header | {"alg": "HS256"}, claims=claims, sign=mac))
    with pytest.raises(GrantInvalid):
        verify(jws.write(header=header, claims=claims, sign=mac))


@pytest.mark.parametrize("name", sorted(parts(grants.mint(GRANT, key=KEY))[1]))
def test_a_missing_claim_is_refused(name):
    _, claims = parts(grants.mint(GRANT, key=KEY))
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
        {"exp": "soon"},
        {"exp": 2**53 - 1, "iat": 2**53 - 100},
        {"cnf": {}},
        {"cnf": {"jkt": 1}},
        {"cnf": {"jkt": "x", "jwk": {}}},
        {"policy_digests": []},
        {"policy_digests": {"approval": 1}},
        {"sub": ""},
        {"iss": None},
    ],
)
def test_an_unknown_or_mistyped_claim_is_refused(change):
    _, claims = parts(grants.mint(GRANT, key=KEY))

    with pytest.raises(GrantInvalid):
        verify(forged(claims=claims | change))


def test_a_name_that_stands_twice_is_refused():
    header, claims = (json.dumps(part) for part in parts(grants.mint(GRANT, key=KEY)))

    assert verify(signed_text(header, claims)) == GRANT
    with pytest.raises(GrantInvalid):
        verify(signed_text(header, claims[:-1] + ', "sub": "a-2"}'))
    with pytest.raises(GrantInvalid):
        verify(signed_text(header[:-1] + ', "alg": "EdDSA"}', claims))


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
        lambda token: token + "A" * 5000,
        lambda token: base64.b64encode(token.encode()).decode(),
    ],
)
def test_a_token_of_another_form_is_refused(damage):
    with pytest.raises(GrantInvalid):
        verify(damage(grants.mint(GRANT, key=KEY)))


def test_stray_bits_in_the_last_character_are_refused():
    token = grants.mint(GRANT, key=KEY)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]

    assert base64.urlsafe_b64decode(twin.split(".")[2] + "==") == base64.urlsafe_b64decode(token.split(".")[2] + "==")
    with pytest.raises(GrantInvalid):
        verify(twin)


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text):
    with pytest.raises(GrantInvalid):
        verify(text)


# What the grant is for


def test_a_grant_for_exactly_what_holds_passes():
    grants.check(GRANT, TERMS)


@pytest.mark.req("R-AP-06")
@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"tenant": "t-2"}, GrantInvalid),
        ({"action_id": "a-2"}, GrantInvalid),
        ({"revision": 2}, GrantInvalid),
        ({"attempt": 2}, GrantInvalid),
        ({"payload_hash": "44" * 32}, GrantInvalid),
        ({"contract_digest": "44" * 32}, ContractChanged),
        ({"policy_digests": {"approval": "44" * 32}}, PolicyChanged),
        ({"policy_digests": {}}, PolicyChanged),
        ({"policy_digests": {"approval": "33" * 32, "recovery": "33" * 32}}, PolicyChanged),
        ({"executor": "refunds-2"}, GrantWrongExecutor),
        ({"thumbprint": "U" * 43}, GrantWrongExecutor),
    ],
)
def test_one_changed_term_is_refused(change, refusal):
    with pytest.raises(refusal):
        grants.check(GRANT, replace(TERMS, **change))


@pytest.mark.req("R-AP-21")
def test_what_is_stored_does_not_hold_the_token():
    token = grants.mint(GRANT, key=KEY)

    assert len(grants.token_hash(token)) == 64
    assert token not in grants.token_hash(token)


def test_the_key_set_publishes_public_parts_and_windows_only():
    retired = GrantKey(OTHER.public_key(), NOW - timedelta(days=9), NOW)
    published = grants.jwks([*KEYS, retired])["keys"]

    assert {"d"} & {name for key in published for name in key} == set()
    assert published[0]["kid"] == parts(grants.mint(GRANT, key=KEY))[0]["kid"]
    assert "exp" not in published[0]
    assert published[1]["exp"] == int(NOW.timestamp())


def test_the_signature_vector_of_rfc_8037_holds():
    """Appendix A.4 and A.3: the key, the thumbprint and the signature of the published example."""
    key = Ed25519PrivateKey.from_private_bytes(jws.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
    signed = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"

    assert possession.public_jwk(key.public_key())["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert possession.thumbprint(possession.public_jwk(key.public_key())) == (
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    )
    assert jws.encode(key.sign(signed)) == (
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    )
