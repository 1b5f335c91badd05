"""Effect receipts: how one action ended, as a signed in-toto statement for somebody without access to the console.

connection = Connection(url=url, key=key_of_an_auditor)
receipt = connection.send(effect_receipt(action_id))
receipt.statement(KeySet(connection.keys))["predicate"]["ended"]["verified"]
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature

from counterfoil.canonical import parse_json
from counterfoil.execution.grants import GrantRefused, KeySet, KeysUnknown
from counterfoil.transport.request import Request

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:counterfoil:effect-receipt:v1"


class ReceiptInvalid(Exception):
    """The receipt is not signed by its issuer, or is of another kind."""


@dataclass(frozen=True)
class EffectReceipt:
    """A receipt as the console gave it: a DSSE envelope, to be stored and passed on as it is."""

    envelope: Mapping[str, Any]

    def statement(self, keys: KeySet) -> Mapping[str, Any]:
        """The in-toto statement, if one of the issuer's keys signed it within its life.

        Raises `ReceiptInvalid` if none did, and `KeysUnknown` where the keys cannot be read. The predicate is not
        compared with its schema (docs/outcome-receipt.schema.json).
        """
        try:
            return self._checked_statement(keys)
        except KeysUnknown:
            raise
        except (GrantRefused, InvalidSignature):
            raise ReceiptInvalid("No key of the issuer signed it.") from None
        except (KeyError, TypeError, ValueError):
            raise ReceiptInvalid("It is no effect receipt.") from None

    def _checked_statement(self, keys: KeySet) -> Mapping[str, Any]:
        kind, payload = self.envelope["payloadType"], base64.b64decode(self.envelope["payload"], validate=True)
        [signature] = self.envelope["signatures"]
        key = keys.key(signature["keyid"])
        signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
        key.public.verify(base64.b64decode(signature["sig"], validate=True), signed)
        statement: Mapping[str, Any] = parse_json(payload)
        if (kind, statement["_type"], statement["predicateType"]) != (PAYLOAD_TYPE, STATEMENT, PREDICATE):
            raise ValueError("another kind of statement")
        [_] = statement["subject"]
        issued = datetime.fromisoformat(statement["predicate"]["issued_at"]).timestamp()
        if issued < key.begins or (key.ends is not None and issued >= key.ends):
            raise ValueError("issued outside the life of its key")
        return statement


def effect_receipt(action_id: str) -> Request[EffectReceipt]:
    """The receipt of an action as it is on record now; the key must be an operator's or an auditor's."""
    return Request("GET", f"/actions/{action_id}/effect-receipt", EffectReceipt)
