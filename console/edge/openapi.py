"""The OpenAPI document beyond the views' declarations: problems, headers, and the admitted callers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

_TEXT: Final = {"type": "string"}
_ERROR: Final = {
    "type": "object",
    "required": ["path", "code", "detail"],
    "properties": {"path": _TEXT, "code": _TEXT, "detail": _TEXT},
    "additionalProperties": False,
}
PROBLEM: Final[dict[str, Any]] = {
    "title": "Problem",
    "description": "What was refused, and why (RFC 9457). `code` is stable.",
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "code": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
        "detail": _TEXT,
        "hint": _TEXT,
        "errors": {"type": "array", "items": _ERROR},
    },
    "additionalProperties": False,
}
PROBLEMS: Final = {
    "400": "The body does not parse.",
    "401": "The key or session is missing or has ended.",
    "403": "This key or role is not allowed to do that.",
    "404": "Not found.",
    "408": "The body did not arrive in time; nothing was done.",
    "409": "The current state does not allow it.",
    "410": "It was erased on request.",
    "413": "The body is larger than 1 MiB; nothing was stored.",
    "422": "It breaks the schema or a rule.",
    "429": "The key exceeded its rate limit.",
    "500": "Server error; nothing was done.",
    "503": "The database is unavailable or the console is overloaded; nothing was done.",
}
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "Idempotency-Key": {
        "description": "Identifies this write. A repeat with the same body gets the first answer.",
        "schema": {"type": "string", "minLength": 1},
    },
    "X-Tenant": {
        "description": "The tenant's id, for people who are members of several; a key belongs to one.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "traceparent": {"description": "W3C trace context; stored with the action and passed on.", "schema": _TEXT},
    "webhook-id": {"description": "Identifies the webhook; it is accepted once.", "schema": _TEXT, "required": True},
    "webhook-timestamp": {
        "description": "Seconds since 1970, at most five minutes from now.",
        "schema": _TEXT,
        "required": True,
    },
    "webhook-signature": {
        "description": "`v1,` and HMAC-SHA-256 over id, timestamp and body in Base64 (Standard Webhooks).",
        "schema": _TEXT,
        "required": True,
    },
    "DPoP": {
        "description": "A proof of possession (RFC 9449) by the executor's registered key.",
        "schema": _TEXT,
        "required": True,
    },
    "Executor-Authorization": {
        "description": "With `start`: `Bearer` and the key of the executor that starts the call at once.",
        "schema": _TEXT,
    },
    "Executor-DPoP": {
        "description": "With `start`: a proof of possession by the executor's registered key; `ath` is over that key.",
        "schema": _TEXT,
    },
}
_ALSO: Final = {
    "sessions_propose": ["traceparent", "Executor-Authorization", "Executor-DPoP"],
    "decisions_decide": ["traceparent", "Executor-Authorization", "Executor-DPoP"],
    "execution_start": ["DPoP"],
    "systems_receive": ["webhook-id", "webhook-timestamp", "webhook-signature"],
}
_ALSO_REFUSED: Final = {
    # No checkpoint of the log has been signed yet; what a query names is not in it.
    "ledger_checkpoint": ["409"],
    "ledger_entries": ["409"],
    "ledger_tile": ["409"],
    "ledger_inclusion": ["404", "409"],
    "ledger_consistency": ["404", "409"],
    "ledger_events": ["409", "410"],
    "exports_get_bundle": ["409"],
}
_RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["result"],
    "properties": {
        "result": {
            "type": "object",
            "description": "The tool's answer; anything else is kept and reported as malformed.",
            "required": ["tool", "status"],
            "properties": {
                "tool": _TEXT,
                "status": {"enum": ["success", "failed", "partial", "pending", "accepted", "timeout"]},
                "evidence": {},
                "error": {
                    "type": ["object", "null"],
                    "properties": {"code": _TEXT, "message": _TEXT, "phase": {"enum": ["before_send", None]}},
                },
                "timestamp": {"type": "string", "format": "date-time"},
                "side_effects": {"type": "array"},
                "next_tool": _TEXT
                | {"description": "A tool to call next; counts where the contract's `next_tools` has it."},
            },
        },
        "sub_results": {"type": "array"},
        "raw": {"description": "The raw output, kept apart; only compliance can open it."},
    },
}


_ACTION: Final = {"action_id": {"type": "string", "format": "uuid"}}
_EVIDENCE: Final[dict[str, Any]] = {
    "EvidenceText": {
        "type": "object",
        "required": ["action_id", "text"],
        "properties": _ACTION | {"text": _TEXT | {"maxLength": 500_000}, "media_type": _TEXT},
        "additionalProperties": False,
    },
    "EvidenceFile": {
        "type": "object",
        "required": ["action_id", "file"],
        "properties": _ACTION | {"file": {"type": "string", "format": "binary"}},
    },
}


def request_body(schema: str, *, file: str = "") -> dict[str, Any]:
    """The body of a view that reads it from its bytes: JSON, or a form with a file."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    if file:
        content["multipart/form-data"] = {"schema": {"$ref": f"#/components/schemas/{file}"}}
    return {"requestBody": {"required": True, "content": content}}


def response_content(kind: str) -> dict[str, Any]:
    """The content of an answer that is not JSON."""
    schema = {"type": "string"} if kind.startswith("text/") else {"type": "string", "format": "binary"}
    return {"responses": {200: {"description": "OK", "content": {kind: {"schema": schema}}}}}


def complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """The document with everything that holds for all operations alike."""
    components = document["components"]
    contract, parts = _contract_schema()
    components["schemas"] |= {
        "Problem": PROBLEM,
        "Observation": _RESULT,
        "ContractDocument": contract,
        **parts,
        **_EVIDENCE,
    }
    components["responses"] = {f"Problem{status}": _problem(status, text) for status, text in PROBLEMS.items()}
    components["parameters"] = {
        name.replace("-", ""): {"name": name, "in": "header", "required": False} | said
        for name, said in _HEADERS.items()
    }
    for method, operation in _operations(document):
        _complete(method, operation)
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for methods in document["paths"].values():
        yield from methods.items()


def _complete(method: str, operation: dict[str, Any]) -> None:
    secured, webhook = "security" in operation, operation["operationId"] == "systems_receive"
    in_path = any(parameter["in"] == "path" for parameter in operation["parameters"])
    asked = method == "post" or any(parameter["in"] == "query" for parameter in operation["parameters"])
    statuses = {
        "400": method == "post",
        "401": secured,
        "403": secured or webhook,
        "404": in_path or method == "post",
        "408": method == "post",
        "409": method == "post",
        "410": in_path,
        "413": method == "post",
        "422": asked,
        "429": secured or webhook,
        "500": True,
        "503": True,
    }
    statuses |= dict.fromkeys(_ALSO_REFUSED.get(operation["operationId"], []), True)
    declared = {str(status): said for status, said in operation["responses"].items()}
    for said in declared.values():
        if len(said.get("content", {})) > 1:
            # Ninja describes every answer as JSON; what `response_content` says stands beside it.
            del said["content"]["application/json"]
    refusals = {
        status: {"$ref": f"#/components/responses/Problem{status}"}
        for status, possible in statuses.items()
        if possible and status not in declared
    }
    operation["responses"] = declared | refusals
    headers = ["Idempotency-Key"] if method == "post" and not webhook else []
    headers += ["X-Tenant"] if "people" in operation.get("description", "") else []
    headers += _ALSO.get(operation["operationId"], [])
    operation["parameters"] += [{"$ref": f"#/components/parameters/{name.replace('-', '')}"} for name in headers]


def _problem(status: str, text: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "description": text,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in ("429", "503"):
        told["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return told


def _contract_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """The contract's own schema, its definitions moved to where the document keeps all of them."""
    text = files("ledger.catalogue.rules").joinpath("contract.schema.json").read_text()
    schema = json.loads(text.replace("#/$defs/", "#/components/schemas/contract_"))
    del schema["$schema"]
    return schema, {f"contract_{name}": part for name, part in schema.pop("$defs").items()}
