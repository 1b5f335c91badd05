"""Sample arguments that fit a schema, to test a system before its first action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAME = "connection-test"
"""What every text is called, so that whoever meets it in the system's own log knows where it comes from."""


def sample_value(schema: object) -> Any:
    """Return a value for a JSON Schema: of its type if it names one, from its list if it lists values."""
    if not isinstance(schema, Mapping):
        return NAME
    if "const" in schema:
        return schema["const"]
    for listed in ("enum", "examples"):
        if isinstance(schema.get(listed), list) and schema[listed]:
            return schema[listed][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return {name: sample_value(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [sample_value(schema.get("items"))]
    if kind in ("integer", "number"):
        return max(1, int(schema.get("minimum", 1)))
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    return _text(schema)


def _text(schema: Mapping[str, Any]) -> str:
    formats = {"uuid": "00000000-0000-4000-8000-000000000000", "date": "2000-01-01", "email": f"{NAME}@example.org"}
    formats |= {"date-time": "2000-01-01T00:00:00Z", "uri": f"https://example.org/{NAME}"}
    text = formats.get(str(schema.get("format")), NAME)
    return text.ljust(int(schema.get("minLength", 0)), "-")[: int(schema.get("maxLength", len(text) + 512))]
