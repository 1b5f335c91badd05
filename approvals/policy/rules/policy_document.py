"""Validation of an approval policy: its schema, and every fault of a document with its path.

An unknown name is refused, so that a misspelt limit cannot silently be none. No field lets silence approve anything,
and no duration may be zero or left open: what is left out has a default that ends (peers' trap: zero meant for ever).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from approvals.policy.rules import allowed_hours, policy_facts
from approvals.voting.rules.quorum import INDEPENDENCE, Risk
from ledger.catalogue.rules import schemas as rules_schemas
from ledger.catalogue.rules.effects import EffectDomain, SideEffectClass
from ledger.catalogue.rules.expressions import BadExpression

_DAY = 24 * 3600
_GROUP = {"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z ._-]{0,63}$"}
_STEP_UP = {"enum": ["A", "B", "C"]}
_CLASSES = {"enum": [kind.value for kind in SideEffectClass]}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    fields = {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}
    return fields if required else fields | {"minProperties": 1}


def _list(items: Any, *, most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, "uniqueItems": True}


def _seconds(most: int, least: int = 1) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


_DEMANDS = {
    "decide_within_s": _seconds(30 * _DAY),
    "release_within_s": _seconds(_DAY),
    "step_up": _STEP_UP,
    "wait_for_seal": {"type": "boolean"},
    "independence": _list({"enum": list(INDEPENDENCE)}, most=len(INDEPENDENCE)),
    "thresholds": _list(
        _object(
            "group",
            "count",
            group=_GROUP,
            count={"type": "integer", "minimum": 1, "maximum": 20},
            deny={"type": "integer", "minimum": 1, "maximum": 20},
        ),
        least=1,
        most=10,
    ),
    "hours": _object(
        "from",
        "to",
        **{
            "days": _list({"enum": list(allowed_hours.DAYS)}, least=1, most=7),
            "from": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
            "to": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
            "zone": {"type": "string", "minLength": 1, "maxLength": 60},
        },
    ),
}
ONLY_OF_HOLDS = frozenset({*_DEMANDS, "risk"})
"""The parts that only a rule that requires approval can have."""
_RULE = _object(
    "name",
    "outcome",
    name={"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z ._-]{0,39}$"},
    when={"type": "string", "minLength": 1, "maxLength": 2000},
    outcome={"enum": ["auto", "hold", "refuse"]},
    reason={"type": "string", "minLength": 1, "maxLength": 300},
    risk={"enum": ["NORMAL", "HIGH"]},
    **_DEMANDS,
)
SCHEMA: dict[str, Any] = _object(
    "version",
    version={"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$"},
    grant_life_s=_seconds(300, 60),
    on_change={"enum": ["revalidate", "void"]},
    step_up_by_risk=_object(**{risk.value: _STEP_UP for risk in Risk}),
    escalate_after_s=_seconds(30 * _DAY),
    escalate_to=_GROUP,
    remind_before_s=_seconds(30 * _DAY),
    question_pause_s=_seconds(7 * _DAY),
    batch=_object(
        "most",
        "side_effect_classes",
        most={"type": "integer", "minimum": 1, "maximum": 50},
        side_effect_classes=_list(_CLASSES, least=1, most=len(SideEffectClass)),
    ),
    limits=_object(
        waiting_per_agent={"type": "integer", "minimum": 1, "maximum": 10_000},
        votes_per_minute={"type": "integer", "minimum": 1, "maximum": 600},
    ),
    break_glass=_object(
        "enabled",
        enabled={"type": "boolean"},
        groups=_list(_GROUP, least=1, most=20),
        review_within_s=_seconds(7 * _DAY, 60),
        reviewers={"type": "integer", "minimum": 1, "maximum": 10},
        step_up={"enum": ["A", "B", "C"]},
    ),
    standing_approvals={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "after": {"type": "integer", "minimum": 3, "maximum": 200},
            "most_passes": {"type": "integer", "minimum": 1, "maximum": 1000},
            "most_days": {"type": "integer", "minimum": 1, "maximum": 365},
            "irreversible": {"type": "boolean"},
            "always_ask": _list({"type": "string", "minLength": 1, "maxLength": 128}, most=100),
            "time_boxes": _object(
                "most_minutes",
                "most_count",
                most_minutes={"type": "integer", "minimum": 1, "maximum": 60},
                most_count={"type": "integer", "minimum": 1, "maximum": 1000},
            ),
        },
    },
    privacy=_object(
        reviewer_quality={"enum": ["off", "team", "person"]},
        reasons_to_agents={"type": "boolean"},
    ),
    min_dwell_s={"type": "integer", "minimum": 0, "maximum": 3600},
    require={
        "type": "array",
        "maxItems": 100,
        "items": _object(
            side_effect_class=_CLASSES,
            effect_domain={"enum": [domain.value for domain in EffectDomain]},
            tool={"type": "string", "minLength": 1, "maxLength": 128},
        ),
    },
    rules=_list(_RULE, most=200),
    **_DEMANDS,
)


def faults(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every fault of a document with its path; empty if it is valid."""
    return rules_schemas.schema_faults(SCHEMA, dict(document)) or list(_meaning(document))


def _meaning(document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Return the faults that no schema can find: conditions that do not compile, hours that never occur, settings
    without effect.
    """
    yield from _demands("", document)
    if "escalate_to" in document and "escalate_after_s" not in document:
        yield _fault("/escalate_to", "INCOMPLETE", "Say after how many seconds it is escalated: `escalate_after_s`.")
    if "escalate_after_s" in document and "escalate_to" not in document:
        yield _fault("/escalate_after_s", "INCOMPLETE", "Say to which group it is escalated: `escalate_to`.")
    rules = document.get("rules", [])
    names = Counter(rule["name"] for rule in rules)
    for index, rule in enumerate(rules):
        path = f"/rules/{index}"
        yield from _demands(path, rule)
        yield from _rule(path, rule)
        if names[rule["name"]] > 1:
            yield _fault(f"{path}/name", "NAME_TAKEN", "Another rule has this name.")


def _rule(path: str, rule: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if "when" in rule:
        try:
            policy_facts.compile_condition(rule["when"])
        except BadExpression as problem:
            yield _fault(f"{path}/when", problem.code, problem.detail)
    if rule["outcome"] != "hold":
        for name in sorted(set(rule) & ONLY_OF_HOLDS):
            yield _fault(f"{path}/{name}", "NO_EFFECT", "Only a rule that holds can ask for this.")
    if rule["outcome"] != "refuse" and "reason" in rule:
        yield _fault(f"{path}/reason", "NO_EFFECT", "Only a rule that refuses gives a reason.")


def _demands(path: str, document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if "hours" in document:
        try:
            allowed_hours.read(document["hours"])
        except ValueError as problem:
            yield _fault(f"{path}/hours", "BAD_HOURS", str(problem))
    groups = Counter(each["group"] for each in document.get("thresholds", []))
    for index, threshold in enumerate(document.get("thresholds", [])):
        if groups[threshold["group"]] > 1:
            yield _fault(f"{path}/thresholds/{index}/group", "NAME_TAKEN", "Another threshold asks the same group.")


def _fault(path: str, code: str, detail: str) -> dict[str, str]:
    return {"path": path, "code": code, "detail": detail}
