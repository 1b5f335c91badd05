"""Validation with untrusted JSON Schemas: compiled once, formats asserted, nothing fetched.

A schema arrives from a tenant. Left alone, a validator would follow a `$ref` to any address or file
that it names; here the retriever refuses, unknown formats are errors instead of passing everything,
and patterns run on an engine without backtracking.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

import orjson
import rfc8785
from jsonschema_rs import Draft202012Validator, RegexOptions


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


def _never_fetch(uri: str) -> NoReturn:
    raise ValueError(f"schemas are not fetched: {uri[:100]}")
