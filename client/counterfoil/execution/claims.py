"""Verification of what was done without the gate: is it safe to claim that it was?

connection = Connection(url=url, key=key_of_an_operator)
found = connection.send(verify("payments", "refund", operation="re_123", expected={"amount": 4000}, said_by="support"))
found.safe_to_claim, found.sentence

`Agent.verify` and `AsyncAgent.verify` send the same. Nothing is done in any system: it is read, and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.answers import Verification
from counterfoil.transport.reading import read_verification
from counterfoil.transport.request import Request

Value = str | int | bool


def verify(
    system: str,
    effect: str,
    *,
    said_by: str,
    operation: str = "",
    target: str = "",
    expected: Mapping[str, Value] | None = None,
    statement: str = "",
    wait_s: int = 10,
    **options: Any,
) -> Request[Verification]:
    """Have `effect` (such as `refund`) read in a registered system, and compared with the `expected` fields.

    It is found by `operation` (the system's own id of it, or the key that it carries there) or `target`. `said_by` says
    that it was done, in the words of `statement`. The console waits up to `wait_s` seconds (at most 20) for a reading
    that settles it; ask again with `claim`. `options` are the other members of `POST /verify`.
    """
    body: dict[str, Any] = {"system": system, "effect": effect, "said_by": said_by}
    body |= {"operation": operation, "target": target, "expected": dict(expected or {}), "statement": statement}
    body |= {"wait_s": wait_s, **options}
    return Request("POST", "/verify", read_verification, body, patience_s=wait_s)


def claim(claim_id: str) -> Request[Verification]:
    """The present standing of a claim."""
    return Request("GET", f"/claims/{claim_id}", read_verification)
