from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from reviews.observations.rules import webhooks
from reviews.observations.rules.webhooks import BadMapping, BadSecret, SignatureInvalid, SignedHeaders

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"a secret of at least 24 bytes").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of many bytes").decode()
BODY = b'{"data": {"id": "ch_1"}}'


def signed(secret: str = SECRET, body: bytes = BODY, **changes: str) -> SignedHeaders:
    given = {"id": "msg_1", "timestamp": str(int(AT.timestamp()))} | changes
    made = webhooks.signature(
        webhooks.decode_secret(secret), webhook_id=given["id"], timestamp=given["timestamp"], body=body
    )
    return SignedHeaders(given["id"], given["timestamp"], changes.get("signature", made))


def test_the_published_example_of_standard_webhooks_verifies():
    key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    given = SignedHeaders(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )
    webhooks.verify_signature(
        given, b'{"test": 2432232314}', secrets=[key], at=datetime.fromtimestamp(1614265330, tz=UTC)
    )


def test_a_signature_with_one_of_the_secrets_passes():
    webhooks.verify_signature(signed(), BODY, secrets=[SECRET], at=AT)
    webhooks.verify_signature(signed(), BODY, secrets=[OTHER, SECRET], at=AT)


def test_one_valid_signature_among_others_passes():
    both = f"v1a,xxx {signed(OTHER).signature} {signed().signature}"
    webhooks.verify_signature(signed(signature=both), BODY, secrets=[SECRET], at=AT)


@pytest.mark.parametrize(
    ("given", "body"),
    [
        (signed(OTHER), BODY),
        (signed(), BODY + b" "),
        (signed(signature="v1,"), BODY),
        (signed(signature=""), BODY),
        (signed(signature="v2," + "A" * 44), BODY),
        (signed(signature="v1,ü"), BODY),
        (SignedHeaders("msg_2", signed().timestamp, signed().signature), BODY),
        (SignedHeaders("", signed().timestamp, signed().signature), BODY),
        (SignedHeaders("m" * 257, signed().timestamp, signed().signature), BODY),
        (SignedHeaders("msg_1", "now", signed().signature), BODY),
        (SignedHeaders("msg_1", "\u0661\u0667", signed().signature), BODY),
        (SignedHeaders("msg_1", "9" * 400, signed().signature), BODY),
    ],
)
def test_invalid_signatures_are_refused(given, body):
    with pytest.raises(SignatureInvalid):
        webhooks.verify_signature(given, body, secrets=[SECRET], at=AT)


def test_a_hook_without_secrets_refuses_everything():
    with pytest.raises(SignatureInvalid):
        webhooks.verify_signature(signed(), BODY, secrets=[], at=AT)


@pytest.mark.parametrize("off", [-301, 301])
def test_a_signature_outside_the_time_window_is_refused(off):
    with pytest.raises(SignatureInvalid):
        webhooks.verify_signature(signed(), BODY, secrets=[SECRET], at=AT + timedelta(seconds=off))


@pytest.mark.parametrize("off", [-299, 299])
def test_clocks_may_differ_by_five_minutes(off):
    webhooks.verify_signature(signed(), BODY, secrets=[SECRET], at=AT + timedelta(seconds=off))


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_!!", "abc", SECRET[6:], "whsec_" + "QUJD", "whsec_" + "A" * 400]
)
def test_malformed_secrets_are_refused(secret):
    with pytest.raises(BadSecret):
        webhooks.decode_secret(secret)


def test_an_action_is_identified_by_pointers_into_the_body():
    mapping = {"idempotency_key": "/data/keys/0", "target": "charge/{/data/charge}/{/n~1o}", "action_id": "/nowhere"}
    document = {"data": {"keys": ["k-1"], "charge": "ch_1"}, "n/o": 7}
    assert webhooks.named_identifiers(mapping, document) == {"idempotency_key": "k-1", "target": "charge/ch_1/7"}


@pytest.mark.parametrize("document", [None, [], "text", 5, {"data": {"keys": {}}}, {"data": {"keys": [True, 1.5]}}])
def test_a_body_of_another_shape_identifies_nothing(document):
    mapping = {"idempotency_key": "/data/keys/0", "action_id": "/data/keys/01a", "target": "x/{/data/keys/1}"}
    assert webhooks.named_identifiers(mapping, document) == {}


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ("/data/id", "an object"),
        ({"state": "/data/id"}, "unknown field `state`"),
        ({"action_id": "data.id"}, "JSON Pointer"),
        ({"action_id": "/data/~2"}, "JSON Pointer"),
        ({"action_id": 5}, "JSON Pointer"),
        ({"target": "charge"}, "in braces"),
        ({"target": "charge/{data}"}, "in braces"),
    ],
)
def test_an_invalid_mapping_is_refused_with_the_reason(mapping, said):
    with pytest.raises(BadMapping, match=said):
        webhooks.parse_mapping({"webhook": mapping})
