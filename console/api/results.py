"""Reading a tool's result as an executor sends it: nothing that came back is ever lost for being malformed (C-31)."""

from __future__ import annotations

import json
from typing import Any

from ledger.rules.refusals import Refused


class NotAnObservation(Refused):
    """The body is not a JSON object with a `result`."""

    code = "NOT_JSON"
    status = 400


def read_result(body: bytes) -> tuple[dict[str, Any], bytes | None]:
    """The observation in a body, and its raw output apart.

    Numbers with fractions become text: they are evidence, and evidence is shown as it came. A result of any shape is
    taken; the rules call it malformed where it is.
    """
    try:
        document = json.loads(body, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise NotAnObservation from None
    if not isinstance(document, dict):
        raise NotAnObservation
    raw = document.pop("raw", None)
    if raw is None:
        return document, None
    return document, (raw if isinstance(raw, str) else json.dumps(raw)).encode("utf-8", "replace")
