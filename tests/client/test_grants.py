"""Grants as an executor verifies them for itself, and its loop, which presents none that does not hold."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil.canonical import digest, encode_canonical
from counterfoil.execution.grants import (
    GrantHolder,
    GrantRefused,
    KeySet,
    KeysUnknown,
    UsedGrants,
    check_payload,
    verify_grant,
)
from counterfoil.executor import Executor, NotStarted, Order
from counterfoil.proof import ExecutorKey, encode_base64url
from counterfoil.work import succeeded
from tests.client.consoles import JWKS, KEY, PAYLOAD, Answer, claims_of, granted, stand_in, started
from tests.support.tables import every_row

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "grants.json").read_text())
THIEF = ExecutorKey(Ed25519PrivateKey.from_private_bytes(b"t" * 32))
HOLDER = GrantHolder("https://console.example", "runner", "T" * 43)
BOUND = {"issuer": HOLDER.issuer, "executor_id": HOLDER.executor_id, "thumbprint": HOLDER.thumbprint}
NOW = time.time()


def claims(**changes):
    return claims_of(**BOUND, **changes)


def judged(token, *, keys=None, holder=HOLDER, at=None):
    return verify_grant(token, keys=keys or KeySet(lambda: JWKS), holder=holder, at=time.time() if at is None else at)


def code(token, **options):
    with pytest.raises(GrantRefused) as refusal:
        judged(token, **options)
    return refusal.value.code


def test_a_grant_for_this_executor_holds():
    assert judged(granted(claims()))["jti"] == "jti-1"


@every_row("vector", VECTORS["vectors"])
def test_the_shared_vectors_give_the_recorded_results(vector):
    """The console's own rules are held against the same file (tests/rules/execution/test_grants.py)."""
    holder = GrantHolder(VECTORS["issuer"], VECTORS["executor_id"], VECTORS["thumbprint"], VECTORS["environment"])
    keys = KeySet(lambda: VECTORS["jwks"])
    if vector["code"] is None:
        assert verify_grant(vector["token"], keys=keys, holder=holder, at=VECTORS["at"])
    else:
        with pytest.raises(GrantRefused) as refusal:
            verify_grant(vector["token"], keys=keys, holder=holder, at=VECTORS["at"])
        assert refusal.value.code == vector["code"]


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "EdDSA"},
        {"typ": "JWT"},
        {"kid": "nobody"},
        {"kid": None},
        {"crit": ["exp"]},
        {"jku": "https://evil.example/keys"},
        {"jwk": THIEF.public_jwk},
        {"x5u": "https://evil.example/cert"},
    ],
)
def test_a_header_that_asks_for_anything_else_is_refused(header):
    """B25: algorithm confusion and keys that the token brings itself."""
    assert code(granted(claims(), **header)) == "GRANT_INVALID"


def test_a_mac_made_with_the_public_key_is_refused():
    """B25: HS256 with the public key as its secret."""
    head = {"alg": "HS256", "kid": KEY.thumbprint, "typ": "counterfoil-grant+jwt"}
    signed = f"{encode_base64url(encode_canonical(head))}.{encode_base64url(encode_canonical(claims()))}"
    mac = hmac.HMAC(KEY.private.public_key().public_bytes_raw(), hashes.SHA256())
    mac.update(signed.encode())
    assert code(f"{signed}.{encode_base64url(mac.finalize())}") == "GRANT_INVALID"


@pytest.mark.parametrize(
    "damage",
    [
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token.rpartition(".")[0] + ".",
        lambda token: token + "." + token,
        lambda token: token + "=",
        lambda token: token + "A" * 20_000,
        lambda token: "é" * 50,
        lambda token: "",
    ],
)
def test_a_token_of_another_form_is_refused(damage):
    assert code(damage(granted(claims()))) == "GRANT_INVALID"


def test_a_name_that_appears_twice_is_refused():
    """B25: two readers could read two grants."""
    whole = encode_canonical(claims()).decode()[:-1] + ',"sub":"act-2"}'
    header = encode_base64url(
        encode_canonical({"alg": "Ed25519", "kid": KEY.thumbprint, "typ": "counterfoil-grant+jwt"})
    )
    signed = f"{header}.{encode_base64url(whole.encode())}"
    assert code(f"{signed}.{encode_base64url(KEY.private.sign(signed.encode()))}") == "GRANT_INVALID"


@pytest.mark.parametrize("name", sorted(claims_of(**BOUND)))
def test_a_missing_claim_is_refused(name):
    """B25: aud, and every other one."""
    rest = {each: value for each, value in claims().items() if each != name}
    assert code(granted(rest)) == "GRANT_INVALID"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"aud": "runner-2"}, "GRANT_WRONG_EXECUTOR"),
        ({"cnf": {"jkt": "U" * 43}}, "GRANT_WRONG_EXECUTOR"),
        ({"iss": "https://staging.example"}, "GRANT_INVALID"),
        ({"environment": "staging"}, "GRANT_INVALID"),
        ({"uses": 2}, "GRANT_INVALID"),
        ({"payload": {}}, "GRANT_INVALID"),
    ],
)
def test_a_grant_for_another_executor_or_another_order_is_refused(change, expected):
    """B7: another executor, another key, another installation, another environment."""
    assert code(granted(claims() | change)) == expected


def test_a_grant_that_has_expired_or_lives_too_long_is_refused():
    token = granted(claims())
    assert code(token, at=time.time() + 121) == "GRANT_EXPIRED"
    assert code(token, at=time.time() - 30) == "GRANT_INVALID"
    assert code(granted(claims(exp=int(time.time()) + 900))) == "GRANT_INVALID"


def test_a_payload_that_is_not_the_granted_one_is_refused():
    """B6: another payload with a valid grant."""
    held = judged(granted(claims()))
    check_payload(held, PAYLOAD)
    for other in (PAYLOAD | {"amount": 125000}, {}, PAYLOAD | {"note": ""}, PAYLOAD | {"amount": 12.5}):
        with pytest.raises(GrantRefused, match="PAYLOAD_HASH_MISMATCH"):
            check_payload(held, other)


# Keys


class Issuer:
    """An issuer whose keys change, or who is away."""

    def __init__(self, *keys):
        self.keys, self.asked, self.away, self.now = list(keys), 0, False, 1000.0

    def fetch(self):
        self.asked += 1
        if self.away:
            raise TimeoutError("no answer")
        return {"keys": self.keys}

    def set(self, **options):
        return KeySet(self.fetch, clock=lambda: self.now, **options)


def published(key, **window):
    return {**key.public_jwk, "kid": key.thumbprint, "alg": "Ed25519", "use": "sig", "nbf": 0} | window


def test_a_new_key_is_fetched_at_once_and_an_unknown_one_is_not_fetched_repeatedly():
    """B26: a verifier with a stale set reads it again when it meets a key that it does not know."""
    issuer = Issuer(published(KEY))
    keys = issuer.set()
    assert judged(granted(claims()), keys=keys)
    issuer.keys.append(published(THIEF))
    issuer.now += 6
    assert judged(granted(claims(), key=THIEF, kid=THIEF.thumbprint), keys=keys)
    asked = issuer.asked
    for _ in range(5):
        assert code(granted(claims(), kid="nobody"), keys=keys) == "GRANT_INVALID"
    assert issuer.asked == asked


def test_a_retired_key_is_trusted_no_longer_than_the_key_set_is_cached():
    """B26: the set is read again after its maximum age."""
    issuer = Issuer(published(KEY), published(THIEF))
    keys = issuer.set(max_age_s=300)
    stolen = granted(claims(), key=THIEF, kid=THIEF.thumbprint)
    assert judged(stolen, keys=keys)
    issuer.keys.pop()
    issuer.now += 299
    assert judged(stolen, keys=keys)
    issuer.now += 2
    assert code(stolen, keys=keys) == "GRANT_INVALID"


def test_an_expired_key_set_that_cannot_be_fetched_again_verifies_nothing():
    """B26: an executor that is cut off from its issuer stops; a moment away harms nothing."""
    issuer = Issuer(published(KEY))
    keys = issuer.set(max_age_s=300)
    assert judged(granted(claims()), keys=keys)
    issuer.away = True
    issuer.now += 299
    assert judged(granted(claims()), keys=keys)
    issuer.now += 2
    with pytest.raises(KeysUnknown):
        judged(granted(claims()), keys=keys)


@pytest.mark.parametrize(
    "jwk",
    [
        published(KEY, exp=int(NOW) - 86_400),
        published(KEY, nbf=int(NOW) + 86_400),
        published(KEY, alg="EdDSA"),
        published(KEY, kid="another"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": KEY.thumbprint, "alg": "Ed25519"},
    ],
)
def test_a_key_outside_its_validity_or_of_another_kind_verifies_nothing(jwk):
    """B26: rotated out, not yet valid, or not such a key at all."""
    token = granted(claims())
    assert code(token, keys=KeySet(lambda: {"keys": [jwk]})) in ("GRANT_INVALID", "KEYS_UNKNOWN")


# The loop


@pytest.fixture
def console():
    with stand_in() as server:
        server.plan("/executions", started())
        server.plan("/observations", Answer(202, {"state": "PENDING"}))
        server.plan("/heartbeat", Answer(200, {}))
        yield server


@pytest.fixture
def executor(console, tmp_path):
    made = Executor(
        url=console.url,
        key="cf_exec_test",
        executor_id="runner",
        key_file=tmp_path / "executor.jwk",
        handlers={"refund": lambda work: succeeded("refund/1", "refund")},
        report_for_s=5.0,
        wait_s=1,
    )
    yield made
    made._connection.close()


def ours(console, executor, **changes):
    bound = {"issuer": console.url, "executor_id": "runner", "thumbprint": executor._key.thumbprint}
    token = granted(claims_of(**bound) | changes)
    return Order("act-1", "refund", "1.0.0", token, "2999-01-01T00:00:00Z")


def test_the_loop_executes_the_order_of_its_grant(console, executor):
    assert executor.execute(ours(console, executor)).status == "success"


@pytest.mark.parametrize(
    "changes", [{"aud": "other"}, {"sub": "act-2"}, {"iss": "https://x.example"}, {"environment": "staging"}]
)
def test_the_loop_presents_no_invalid_grant(console, executor, changes):
    with pytest.raises(NotStarted, match="refund of action act-1 did not start: GRANT_"):
        executor.execute(ours(console, executor, **changes))
    assert console.to("/executions") == []


def test_a_refused_start_names_the_difference_of_a_wrong_clock(console, executor):
    console.ahead_s = 600.0
    console.plan("/executions/ready", Answer(200, {"items": []}))
    executor.ready()
    with pytest.raises(NotStarted) as refused:
        executor.execute(ours(console, executor))
    assert refused.value.code == "GRANT_EXPIRED"
    assert str(refused.value).endswith(" The console's clock is 600 s ahead of this host's.")


def test_the_loop_runs_no_payload_but_the_granted_one(console, executor):
    """B6, B29: the console's answer names another payload with a hash that fits it; the grant does not."""
    other = PAYLOAD | {"amount": 125000}
    console.plan("/executions", started(payload=other, payload_hash=digest(other)))
    assert executor.execute(ours(console, executor)).error.code == "PAYLOAD_HASH_MISMATCH"


def test_the_loop_uses_no_grant_twice(console, executor):
    """B16: a console that was set back starts the grant again; the executor remembers it for its life."""
    order = ours(console, executor)
    assert executor.execute(order).status == "success"
    with pytest.raises(NotStarted, match="GRANT_"):
        executor.execute(order)
    assert len(console.to("/executions")) == 1


def test_a_used_grant_is_forgotten_after_it_expires():
    memory, grant = UsedGrants(), claims()
    memory.spend(grant, at=grant["iat"])
    with pytest.raises(GrantRefused, match="GRANT_CONSUMED"):
        memory.spend(grant, at=grant["iat"] + 100)
    memory.spend(claims(jti="jti-2"), at=grant["iat"] + 300)
    assert list(memory._until) == ["jti-2"]
