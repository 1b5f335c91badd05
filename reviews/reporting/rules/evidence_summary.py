"""Summarises a run's evidence as answers to the five audit questions (R-CP-14).

What was done, where, by whom, under which authority, and how that is proved. Each answer is put together from what the
run knew; what nobody told is left out, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.predicates import PredicateOutcome
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.verdict import Verdict

QUESTIONS = {
    "what": "What",
    "where": "Where",
    "by_whom": "By whom",
    "under_which_authority": "Under which authority",
    "how_proved": "How proved",
}

_ACTORS = ("actor", "actors", "creator", "sender", "organizer", "requester", "approver")


def summarize_evidence(
    inputs: RunInputs, verdict: Verdict, *, contract_digest: str, policies: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """The answers, by question; `policies` are versions and digests of what allowed the action and judged this run."""
    entry = inputs.entry
    return {
        "what": {
            "operation": entry["requested_operation"]["operation_kind"],
            "payload_hash": entry["requested_operation"]["validated_payload_hash"],
            "result": str(verdict.result),
            "effects": [f"{one.name}: {one.found.lower()} ({one.count})" for one in verdict.effects],
        },
        "where": {
            "target": inputs.target_resource,
            "tenant": inputs.scope.get("tenant", ""),
            "sources": [f"{one.source}: {one.pointer}" for one in inputs.readings],
        },
        "by_whom": {
            "agent": inputs.scope.get("principal", ""),
            "principal": entry["principal_id"],
            "named_by_the_source": sorted(set(_actors(inputs.readings))),
        },
        "under_which_authority": {
            "contract": f"{entry['tool_contract']['name']} {entry['tool_contract']['version']}",
            "contract_digest": contract_digest,
            "approval": (entry.get("approval") or {}).get("approval_id") or "not required",
            "policies": dict(policies),
        },
        "how_proved": {
            "readings": [
                f"{one.source}, {one.trusted_as}, {one.freshness}, {one.observed_at.isoformat()}"
                for one in inputs.readings
            ],
            "sources": verdict.independence.reason if verdict.independence is not None else "",
            "predicates": _count_held(verdict),
            "indicators": sorted({key for one in inputs.readings for key in one.indicators}),
            "not_applicable": {key: why for one in inputs.readings for key, why in one.not_applicable.items()},
            "reason": verdict.reason,
        },
    }


def summary_lines(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the account in a run's evidence, one line for each question; empty without an account."""
    given = document.get("account")
    if not isinstance(given, Mapping):
        return []
    return [(QUESTIONS[key], _join_parts(given[key])) for key in QUESTIONS if isinstance(given.get(key), Mapping)]


def _join_parts(part: Mapping[str, Any]) -> str:
    return "; ".join(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in part.items() if value)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')}: {one}" for name, one in value.items() if one)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _actors(readings: tuple[Reading, ...]) -> Iterator[str]:
    """The actors that the sources name."""
    for reading in readings:
        shown = [effect.fields for effect in reading.effects]
        shown += [part for part in reading.context.values() if isinstance(part, Mapping)]
        for fields in shown:
            for name in _ACTORS:
                value = fields.get(name)
                yield from (str(one) for one in (value if isinstance(value, list | tuple) else [value]) if one)


def _count_held(verdict: Verdict) -> str:
    asked = [one for one in verdict.predicates if one.holds is not PredicateOutcome.NOT_APPLICABLE]
    held = sum(one.holds is PredicateOutcome.TRUE for one in asked)
    return f"{held} of {len(asked)} hold" if asked else ""
