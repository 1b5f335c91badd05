"""Webhooks: verifies signatures and finds the action that a webhook is about (R-OB-13, R-OB-14).

1. The signature is that of Standard Webhooks: HMAC-SHA-256 over `id.timestamp.body` with a secret `whsec_…`, as
   `v1,<base64>`; several may stand in the header, and several secrets may be good while one replaces another.
2. The timestamp is no further from now than five minutes, either way.
3. A system's settings may say under `webhook` where in the body an action is named, by JSON Pointers: its
   `action_id`, the `idempotency_key` that was sent with it, or its `target`, as text with pointers in braces
   (`charge/{/data/charge}`). The first that is found counts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ledger.record.rules.refusals import Refused
from reviews.readback.rules.shapes import Shape, member, object_schema

TOLERANCE = timedelta(minutes=5)
PREFIX = "whsec_"
_KEY_BYTES = (24, 64)
_POINTER = r"(?:/(?:[^~/{}]|~[01])*)+"
_PLACE = re.compile(r"\{([^{}]*)\}")
MAPPING: Final = Shape(
    object_schema(
        {},
        {
            **{
                name: member(
                    {
                        "type": "string",
                        "pattern": f"^{_POINTER}$",
                        "fault": "must be a JSON Pointer, such as /data/id.",
                    },
                    label,
                )
                for name, label in (("action_id", "Place of the action's id"), ("idempotency_key", "Place of its key"))
            },
            "target": member(
                {
                    "type": "string",
                    "pattern": f"^(?:[^{{}}]|\\{{{_POINTER}\\}})*\\{{{_POINTER}\\}}[^{{}}]*$",
                    "fault": "must hold at least one JSON Pointer in braces, such as charge/{/data/charge}.",
                },
                "Its target",
            ),
        },
    )
)
"""The settings that say where a webhook's body names an action."""
_LONGEST = 512


class SignatureInvalid(Refused):
    """The webhook is not signed with a secret of this hook, or its time is not now."""

    code = "SIGNATURE_INVALID"
    status = 403


class BadSecret(Refused):
    """A webhook secret is `whsec_` and 24 to 64 bytes in Base64."""

    code = "BAD_SECRET"
    status = 422


class BadMapping(Refused):
    """The webhook mapping of the system is not valid."""

    code = "BAD_MAPPING"
    status = 422


@dataclass(frozen=True)
class SignedHeaders:
    """The three headers of a webhook as they came."""

    id: str
    timestamp: str
    signature: str


def decode_secret(secret: str) -> bytes:
    """Return the bytes of a secret; raise `BadSecret` if it is malformed."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret from None
    if not secret.startswith(PREFIX) or not _KEY_BYTES[0] <= len(key) <= _KEY_BYTES[1]:
        raise BadSecret
    return key


def signature(key: bytes, *, webhook_id: str, timestamp: str, body: bytes) -> str:
    """The signature of a body under one key (rule 1)."""
    signed = b".".join((webhook_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def verify_signature(signed: SignedHeaders, body: bytes, *, secrets: Sequence[str], at: datetime) -> None:
    """Refuse a webhook that was not signed with one of the secrets just now (rules 1 and 2)."""
    if not 1 <= len(signed.id) <= 256 or not signed.timestamp.isascii() or not signed.timestamp.isdigit():
        raise SignatureInvalid
    if len(signed.timestamp) > 12 or abs(at.timestamp() - int(signed.timestamp)) > TOLERANCE.total_seconds():
        raise SignatureInvalid
    given = [one.encode() for one in signed.signature.split(" ")]
    for secret in secrets:
        expected = signature(
            decode_secret(secret), webhook_id=signed.id, timestamp=signed.timestamp, body=body
        ).encode()
        if any(hmac.compare_digest(expected, one) for one in given):
            return
    raise SignatureInvalid


def parse_mapping(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths at which a webhook names its action, from the settings; raise `BadMapping` with the faults (rule
    3).
    """
    given = settings.get("webhook", {})
    faults = [
        {"path": f"/settings/webhook{fault.pointer}", "code": "MAPPING", "detail": fault.sentence("webhook")}
        for fault in MAPPING.problems(given)
    ]
    if faults:
        raise BadMapping(faults[0]["detail"], errors=faults)
    return dict(given)


def named_identifiers(mapping: Mapping[str, str], document: object) -> dict[str, str]:
    """The identifiers of its action that a webhook's body contains."""
    found = {name: _fill(name, text, document) for name, text in mapping.items()}
    return {name: value for name, value in found.items() if value is not None}


def _fill(name: str, text: str, document: Any) -> str | None:
    if name != "target":
        return _text_at(text, document)
    parts = {pointer: _text_at(pointer, document) for pointer in _PLACE.findall(text)}
    if None in parts.values():
        return None
    return _PLACE.sub(lambda place: str(parts[place.group(1)]), text)


def _text_at(pointer: str, document: Any) -> str | None:
    here = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isascii() and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    if isinstance(here, bool) or not isinstance(here, str | int) or len(str(here)) > _LONGEST:
        return None
    return str(here)
