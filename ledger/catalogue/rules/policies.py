"""The four kinds of policy, their validation, and the default of each for a new tenant.

Policies are data with versions (D10): `autonomy` (what an agent may propose at all), `approval` (who must agree, and
for how long), `verification` (how long to look), `recovery` (which row of the table decides). Each entry of the ledger
names the four that decided last, by version and digest (R-LE-13): at first those that were in force at the proposal,
then those under which it was approved, read and recovered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ledger.catalogue.rules import schemas as rules_schemas
from ledger.catalogue.rules.effects import DEFAULT_SLA_S, SideEffectClass
from ledger.record.rules import record_schemas
from ledger.record.rules.refusals import Refused

POLICY_KINDS = ("autonomy", "approval", "verification", "recovery")

_DEFAULTS: dict[str, dict[str, Any]] = {
    "autonomy": {"boundary": "disclosed_tools"},
    "approval": {
        "version": "1",
        "decide_within_s": 86_400,
        "release_within_s": 3_600,
        "grant_life_s": 120,
        "step_up": "C",
    },
    "verification": {
        "lease_s": 60,
        "first_after_s": 1,
        "backoff": 2,
        "max_interval_s": 60,
        "sla_s": {str(kind): seconds for kind, seconds in DEFAULT_SLA_S.items()},
        "repeat_limit": 3,
        "idempotency_ttl_s": 2_592_000,
        "schemas": {name: dict(reference) for name, reference in record_schemas.BUILT_IN.items()},
    },
    "recovery": {
        "table": "built-in",
        "automatic": ["COMPENSATING", "FORWARD_RECOVERY", "ROLLED_BACK"],
        "hold": [],
        "max_attempts": 1,
        "max_read_attempts": 3,
    },
}


_VERSION: dict[str, Any] = {"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$"}
_MESSAGES: dict[str, Any] = {"uncited": {"enum": ["pass", "mark", "hold"]}, "guarded": {"type": "boolean"}}
_SCHEMA_REFERENCE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "digest"],
    "properties": {
        "version": {"type": "integer", "minimum": 1, "maximum": 1000},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    },
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "verification": {
        "lease_s": {"type": "integer", "minimum": 5, "maximum": 3600},
        "first_after_s": {"type": "integer", "minimum": 0, "maximum": 86400},
        "backoff": {"type": "integer", "minimum": 1, "maximum": 10},
        "max_interval_s": {"type": "integer", "minimum": 1, "maximum": 86400},
        "sla_s": {
            "type": "object",
            "propertyNames": {"enum": [str(kind) for kind in SideEffectClass]},
            "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 2592000},
        },
        "repeat_limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "idempotency_ttl_s": {"type": "integer", "minimum": 60, "maximum": 315_360_000},
        "schemas": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(record_schemas.BUILT_IN, _SCHEMA_REFERENCE),
        },
        "stop_release": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "open_circuit": {"type": "boolean"},
                "waiting": {"type": "integer", "minimum": 1, "maximum": 10_000},
                "oldest_s": {"type": "integer", "minimum": 1, "maximum": 2592000},
            },
        },
        "messages": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **_MESSAGES,
                "agents": {
                    "type": "object",
                    "maxProperties": 1000,
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": _MESSAGES,
                    },
                },
            },
        },
        "budget": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "readings_per_hour": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
                "readings_per_day": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
            },
        },
    },
    # The rows themselves are checked by `reviews`, which owns their vocabulary.
    "recovery": {
        "table": {"anyOf": [{"const": "built-in"}, {"type": "array", "minItems": 1, "maxItems": 500}]},
        "automatic": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": ["COMPENSATING", "FORWARD_RECOVERY", "ROLLED_BACK"]},
        },
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": 10},
        "max_read_attempts": {"type": "integer", "minimum": 1, "maximum": 10},
        "hold": {"type": "array", "uniqueItems": True, "maxItems": 500, "items": {"type": "string", "maxLength": 16}},
    },
}


class DecidingPolicy(Protocol):
    """A version of a policy under which something was decided."""

    @property
    def kind(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def document(self) -> Any: ...


def context_field(kind: str) -> str:
    """The field of an entry's `policy_context` for a kind of policy."""
    return "autonomy_boundary" if kind == "autonomy" else f"{kind}_policy"


def policy_context(policies: Iterable[DecidingPolicy]) -> dict[str, str]:
    """An entry's `policy_context`: version and digest of each policy that decided (R-LE-13, R-VD-17, R-RP-24)."""
    context: dict[str, str] = {}
    for each in policies:
        name = context_field(each.kind)
        context |= {f"{name}_version": each.version, f"{name}_digest": each.digest}
    return context


@dataclass(frozen=True)
class VerificationNumbers:
    """The numbers of a verification policy (R-VD-13, C-46): SLA by class, poll interval, back-off, repeat limit."""

    first_after_s: int
    backoff: int
    max_interval_s: int
    sla_s: Mapping[SideEffectClass, int]
    repeat_limit: int


class BadPolicy(Refused):
    """The policy is not valid."""

    code = "BAD_POLICY"
    status = 422


def check_policy(kind: str, document: Mapping[str, Any]) -> None:
    """Refuse a document that is not a policy of this kind; unknown names too, so that a misspelt limit is noticed.

    Of approval and autonomy policies only the version is looked at here: `approvals` owns their rules. A schema of the
    record that this program cannot write is refused (R-RG-10).
    """
    schema: dict[str, Any] = {"type": "object", "properties": {"version": _VERSION} | _SCHEMAS.get(kind, {})}
    schema["additionalProperties"] = kind not in _SCHEMAS
    faults = rules_schemas.schema_faults(schema, dict(document))
    if not faults:
        faults = [
            {
                "path": f"/schemas/{name}",
                "code": "SCHEMA_UNKNOWN",
                "detail": "This program does not write this version.",
            }
            for name, wanted in document.get("schemas", {}).items()
            if kind == "verification" and wanted not in record_schemas.WRITABLE[name]
        ]
    if faults:
        raise BadPolicy(errors=faults)


def default_policy(kind: str) -> dict[str, Any]:
    """The document of version 1 of a kind of policy."""
    return dict(_DEFAULTS[kind])


def verification_numbers(document: Mapping[str, Any]) -> VerificationNumbers:
    """The numbers of a verification policy; omitted ones in older versions are the built-in ones."""
    given = _DEFAULTS["verification"] | dict(document)
    slas = DEFAULT_SLA_S | {SideEffectClass(kind): seconds for kind, seconds in given["sla_s"].items()}
    return VerificationNumbers(
        first_after_s=given["first_after_s"],
        backoff=given["backoff"],
        max_interval_s=given["max_interval_s"],
        sla_s=slas,
        repeat_limit=given["repeat_limit"],
    )


@dataclass(frozen=True)
class ReleaseStop:
    """The conditions under which irreversible actions are not released to a system: an open circuit, or verification
    debt.
    """

    open_circuit: bool = True
    waiting: int | None = None
    oldest_s: int | None = None


@dataclass(frozen=True)
class ReadingBudget:
    """The readings that a tenant may make per hour and per day before they are delayed; None means unlimited."""

    readings_per_hour: int | None = None
    readings_per_day: int | None = None


def release_stop_rule(document: Mapping[str, Any]) -> ReleaseStop:
    """The rule of a verification policy for releasing actions to a system that cannot be verified."""
    return ReleaseStop(**document.get("stop_release", {}))


@dataclass(frozen=True)
class MessageRule:
    """The rules for an agent's messages: what happens to a report that is not cited and that the record does not
    support, and whether each message after a change must pass the guard.
    """

    uncited: str = "pass"
    guarded: bool = False


def message_rule(document: Mapping[str, Any], agent_id: str) -> MessageRule:
    """The rule of a verification policy for the messages of an agent."""
    said = dict(document.get("messages", {}))
    return MessageRule(**(said | said.pop("agents", {}).get(agent_id, {})))


def reading_budget(document: Mapping[str, Any]) -> ReadingBudget:
    """The budget for readings in a verification policy."""
    return ReadingBudget(**document.get("budget", {}))


BUILT_IN_NUMBERS = verification_numbers({})
