from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from approvals.execution.rules import dpop, jws
from approvals.execution.rules.dpop import BadKey, ProofInvalid
from counterfoil.proof import ExecutorKey

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = Ed25519PrivateKey.from_private_bytes(b"e" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
JWK = dpop.public_jwk(KEY.public_key())
URL = "https://console.example/api/v1/actions/a-1/executions"
GRANT = "header.claims.signature"
JTI = "0123456789abcdef"


def prove(*, header=None, claims=None, key=KEY):
    """A proof as an honest executor makes it, with the given parts put in its place."""
    whole_header = {"typ": "dpop+jwt", "alg": "Ed25519", "jwk": JWK} | (header or {})
    whole_claims = {
        "htm": "POST",
        "htu": URL,
        "iat": int(NOW.timestamp()),
        "jti": JTI,
        "ath": dpop.grant_hash(GRANT),
    } | (claims or {})
    present = {name: value for name, value in whole_claims.items() if value is not None}
    return jws.write_token(header=whole_header, claims=present, sign=key.sign)


def verify(proof, *, method="POST", url=URL, grant=GRANT, at=NOW):
    return dpop.verify_proof(proof, method=method, url=url, grant=grant, at=at)


def test_a_valid_proof_is_accepted_and_names_its_key():
    proof = verify(prove())

    assert proof.jti == JTI
    assert proof.thumbprint == dpop.thumbprint(JWK)
    assert proof.forget_at > NOW + dpop.WINDOW


def test_a_proof_signed_by_another_key_than_it_names_is_refused():
    with pytest.raises(ProofInvalid):
        verify(prove(key=OTHER))


def test_a_proof_with_another_key_has_another_thumbprint():
    stolen = verify(prove(header={"jwk": dpop.public_jwk(OTHER.public_key())}, key=OTHER))

    assert stolen.thumbprint != dpop.thumbprint(JWK)


@pytest.mark.parametrize(
    "request_made",
    [
        {"method": "GET"},
        {"url": URL + "/1/observations"},
        {"url": URL.replace("a-1", "a-2")},
        {"url": URL.replace("https", "http")},
        {"url": URL.replace("console.example", "evil.example")},
        {"url": URL.replace("console.example", "console.example:8443")},
        {"grant": GRANT + "x"},
    ],
)
def test_a_proof_for_another_request_is_refused(request_made):
    with pytest.raises(ProofInvalid):
        verify(prove(), **request_made)


@pytest.mark.parametrize(
    "url",
    [
        URL + "?wait=1",
        URL + "#part",
        URL.replace("https://console", "HTTPS://CONSOLE"),
        URL.replace("console.example", "console.example:443"),
        URL.replace("a-1", "%61%2D1"),
    ],
)
def test_an_address_in_another_spelling_matches(url):
    assert verify(prove(), url=url)


@pytest.mark.parametrize(
    "htu", [URL + "?a=1", URL + "#x", URL + "?", "/actions", "ftp://x/y", "https://u@x/", "", "https://[", URL + "\n"]
)
def test_a_malformed_htu_is_refused(htu):
    with pytest.raises(ProofInvalid):
        verify(prove(claims={"htu": htu}), url=htu)


@pytest.mark.parametrize("seconds", [-61, 11, 10**9, -(10**9), 10**14])
def test_a_proof_outside_the_time_window_is_refused(seconds):
    with pytest.raises(ProofInvalid):
        verify(prove(claims={"iat": int(NOW.timestamp()) + seconds}))


def test_proofs_of_the_client_library_are_accepted():
    executor = ExecutorKey(KEY)
    proof = verify(executor.proof(method="post", url=URL + "?wait=1", token=GRANT, at=NOW.timestamp()))

    assert proof.thumbprint == executor.thumbprint == dpop.thumbprint(executor.public_jwk)


@pytest.mark.parametrize("seconds", [-60, 0, 10])
def test_a_proof_within_the_time_window_is_accepted(seconds):
    assert verify(prove(claims={"iat": int(NOW.timestamp()) + seconds}))


def test_a_proof_is_remembered_as_long_as_it_could_be_replayed():
    early = verify(prove(claims={"iat": int(NOW.timestamp()) + 10}))

    with pytest.raises(ProofInvalid):
        verify(prove(claims={"iat": int(NOW.timestamp()) + 10}), at=early.forget_at + timedelta(seconds=1))


@pytest.mark.parametrize(
    "claims",
    [
        {"htm": "post"},
        {"htm": None},
        {"htu": None},
        {"iat": None},
        {"jti": None},
        {"ath": None},
        {"iat": "1893456000"},
        {"iat": True},
        {"jti": "short"},
        {"jti": "x" * 129},
        {"jti": 5},
        {"ath": "é"},
        {"nonce": "surprise"},
    ],
)
def test_a_missing_mistyped_or_unknown_claim_is_refused(claims):
    with pytest.raises(ProofInvalid):
        verify(prove(claims=claims))


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "JWT"},
        {"typ": "counterfoil-grant+jwt"},
        {"alg": "none"},
        {"alg": "ES256"},
        {"kid": "x"},
        {"crit": ["b64"]},
        {"jwk": "key"},
        {"jwk": {}},
        {"jwk": {**JWK, "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}},
    ],
)
def test_a_header_with_another_type_or_algorithm_is_refused(header):
    with pytest.raises(ProofInvalid):
        verify(prove(header=header))


@given(st.text(max_size=300))
def test_any_malformed_text_is_refused_as_a_proof(text):
    with pytest.raises(ProofInvalid):
        verify(text)


# Keys


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {**JWK, "kty": "EC"},
        {**JWK, "crv": "X25519"},
        {**JWK, "crv": "Ed448"},
        {**JWK, "x": JWK["x"] + "="},
        {**JWK, "x": JWK["x"][:-2]},
        {**JWK, "x": 5},
        {**JWK, "x": ""},
        {**JWK, "y": JWK["x"]},
        {**JWK, "d": "secret"},
        {"kty": "oct", "k": "c2VjcmV0"},
    ],
)
def test_only_one_public_ed25519_key_is_accepted(jwk):
    with pytest.raises(BadKey):
        dpop.public_key(jwk)


def test_a_key_of_small_order_is_refused():
    identity = bytes([1]) + bytes(31)
    signature = identity + bytes(32)

    for sign_bit in (0, 0x80):
        x = jws.encode(identity[:31] + bytes([sign_bit]))
        with pytest.raises(BadKey):
            dpop.public_key({"kty": "OKP", "crv": "Ed25519", "x": x})
        forged = prove(header={"jwk": {"kty": "OKP", "crv": "Ed25519", "x": x}}).rpartition(".")[0]
        with pytest.raises(ProofInvalid):
            verify(f"{forged}.{jws.encode(signature)}")


def test_the_thumbprint_ignores_fields_outside_the_key():
    assert dpop.thumbprint(JWK | {"kid": "k", "use": "sig"}) == dpop.thumbprint(JWK)
