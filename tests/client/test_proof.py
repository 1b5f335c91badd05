from __future__ import annotations

import base64
import hashlib
import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from counterfoil.proof import KeyNotPrivate, decode_base64url, load_key, read_claims


def _parts(proof):
    header, claims, signature = proof.split(".")
    return json.loads(decode_base64url(header)), json.loads(decode_base64url(claims)), decode_base64url(signature)


@pytest.fixture
def key(tmp_path):
    return load_key(tmp_path / "executor.jwk")


def _proof(key):
    return key.proof(method="post", url="http://h:1/a/b?x=1#y", token="grant", at=1_700_000_000.9)


def test_a_proof_has_the_header_and_claims_of_rfc_9449(key):
    header, claims, _ = _parts(_proof(key))
    assert header == {"alg": "Ed25519", "typ": "dpop+jwt", "jwk": key.public_jwk}
    assert claims["htm"] == "POST"
    assert claims["htu"] == "http://h:1/a/b"
    assert claims["iat"] == 1_700_000_000
    expected = base64.urlsafe_b64encode(hashlib.sha256(b"grant").digest()).rstrip(b"=").decode()
    assert claims["ath"] == expected


def test_the_signature_verifies_with_the_key_in_the_header(key):
    proof = _proof(key)
    header, _, signature = _parts(proof)
    public = Ed25519PublicKey.from_public_bytes(decode_base64url(header["jwk"]["x"]))
    public.verify(signature, proof.rpartition(".")[0].encode())


def test_one_changed_byte_breaks_the_signature(key):
    proof = _proof(key)
    header, _, signature = _parts(proof)
    signed = bytearray(proof.rpartition(".")[0].encode())
    signed[-1] ^= 1
    public = Ed25519PublicKey.from_public_bytes(decode_base64url(header["jwk"]["x"]))
    with pytest.raises(InvalidSignature):
        public.verify(signature, bytes(signed))


def test_no_two_proofs_share_an_identifier(key):
    identifiers = {_parts(_proof(key))[1]["jti"] for _ in range(20)}
    assert len(identifiers) == 20


def test_the_private_half_is_not_in_the_public_key(key):
    assert set(key.public_jwk) == {"crv", "kty", "x"}


def test_the_key_file_is_kept_and_private(tmp_path):
    file = tmp_path / "deep" / "executor.jwk"
    first = load_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_key(file).public_jwk == first.public_jwk
    assert [path.name for path in file.parent.iterdir()] == ["executor.jwk"]


def test_a_key_file_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "executor.jwk"
    load_key(file)
    file.chmod(0o640)
    with pytest.raises(KeyNotPrivate):
        load_key(file)


def test_the_thumbprint_is_that_of_rfc_8037(key):
    # RFC 8037 appendix A.3, with its example key.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from counterfoil.proof import ExecutorKey

    private = decode_base64url("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
    example = ExecutorKey(Ed25519PrivateKey.from_private_bytes(private))
    assert example.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_threads_that_start_together_share_one_key(tmp_path):
    file = tmp_path / "executor.jwk"
    load_key(file)
    with ThreadPoolExecutor(4) as threads:
        keys = list(threads.map(lambda _: load_key(file).thumbprint, range(8)))
    assert len(set(keys)) == 1


def test_the_claims_of_an_invalid_token_are_empty():
    assert read_claims("nonsense") == {}
    assert read_claims("a.b.c") == {}
