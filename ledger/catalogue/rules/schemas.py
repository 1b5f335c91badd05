"""Validation with untrusted JSON Schemas: compiled once, formats asserted, nothing fetched.

A schema arrives from a tenant. Left alone, a validator would follow a `$ref` to any address or file
that it names; here the retriever refuses, unknown formats are errors instead of passing everything,
and patterns run on an engine without backtracking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import orjson
import rfc8785
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError


def compile_schema(schema: Mapping[str, Any]) -> Draft202012Validator:
    """A validator for `schema`; `ValueError` when it is not a draft 2020-12 schema."""
    try:
        # Nobody sees these bytes; they only tell one schema from another.
        return _validator(orjson.dumps(dict(schema), option=orjson.OPT_SORT_KEYS))
    except TypeError:
        return _validator(rfc8785.dumps(dict(schema)))


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Draft202012Validator:
    return Draft202012Validator(
        json.loads(schema),
        retriever=_never_fetch,
        validate_formats=True,
        ignore_unknown_formats=False,
        pattern_options=RegexOptions(size_limit=1_000_000),
    )


def first_fault(schema: Mapping[str, Any], value: object) -> str:
    """The first place where a value breaks a schema, and how; empty where it fits."""
    validator = compile_schema(schema)
    if validator.is_valid(value):
        return ""
    fault = next(iter(validator.iter_errors(value)))
    return f"/{'/'.join(map(str, fault.instance_path))}: {fault.message}"[:300]


def schema_faults(schema: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every place where a document breaks one of our own schemas, with what is allowed there; empty if it fits.

    An unknown name stands at its own place. The schema must hold no `$ref`.
    """
    return [fault for problem in compile_schema(schema).iter_errors(document) for fault in _faults(schema, problem)]


def _faults(schema: Any, problem: ValidationError) -> Iterator[dict[str, str]]:
    path = "".join(f"/{part}" for part in problem.instance_path)
    if problem.kind.name != "additionalProperties":
        yield {"path": path, "code": "SCHEMA", "detail": problem.message[:300]}
        return
    for part in problem.schema_path[:-1]:
        schema = schema[part]
    allowed = ", ".join(sorted(schema.get("properties", ()))) or "none"
    for name in problem.kind.as_dict()["unexpected"]:
        yield {
            "path": f"{path}/{name}",
            "code": "SCHEMA",
            "detail": f"“{name:.100}” is not a name that is allowed here. Allowed: {allowed}.",
        }


def _never_fetch(uri: str) -> NoReturn:
    raise ValueError(f"schemas are not fetched: {uri[:100]}")
