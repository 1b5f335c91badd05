"""An errand: what an agent wants done on a peer, and the contract under which it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOOL = "carry_out"


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What an agent wants done in one registered system, and how that is read back."""

    pattern: str
    arguments: Mapping[str, Any]
    lookup: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    credential: Mapping[str, Any] = field(default_factory=dict)
    predicates: tuple[str, ...] = ("sa.exists",)
    target: str = ""
    reading: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def document(self, version: str) -> dict[str, Any]:
        """The contract, as an operator registers it."""
        kinds = {int: "integer", str: "string", bool: "boolean"}
        properties = {
            name: {"type": kinds[type(value)], "description": f"The {name}."} for name, value in self.arguments.items()
        }
        return {
            "name": TOOL,
            "version": version,
            "schema_version": "1",
            "wrapper_version": "1",
            "description": "Does one thing in one system. Use when: it is wanted. NOT for: anything else.",
            "arguments_schema": {
                "type": "object",
                "required": list(self.arguments),
                "additionalProperties": False,
                "properties": properties,
            },
            "side_effect_class": "MEDIUM_RISK_WRITE",
            "reversibility": "COMPENSABLE",
            "target_resource": self.target or f"thing/{{{next(iter(self.arguments))}}}",
            "verification": {
                "pattern": self.pattern,
                "system": "place",
                "lookup": self.lookup,
                "predicates": list(self.predicates),
                "polling": {"first_after_s": 1, "backoff": 1.5, "max_interval_s": 10, "sla_s": 7200},
                **self.reading,
            },
            **self.facts,
        }
