"""The old corpus: invented messages with tools and records, and every report in them labelled. It gives the benchmark
its messages, and a detector of reports its sentences; the guard itself is measured on conversations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE
from reviews.guarding.rules.records import Ground, Record, Tool
from reviews.reporting.rules.report import ALLOWED, StatusCode
from tests.rules.reporting.test_report import told
from tests.support.pure.facts import doubt

CORPUS = Path(__file__).parent / "corpus"
Span = tuple[int, int]


def cases(name: str) -> list[dict[str, Any]]:
    """The messages of a corpus file."""
    return [json.loads(line) for line in (CORPUS / name).read_text().splitlines()]


def ground_of(case: Mapping[str, Any]) -> Ground:
    """What is on record in a case."""
    tools = tuple(
        Tool(
            tool["name"],
            tool.get("description", ""),
            tool.get("mutating", True),
            tuple(tool.get("claims", {}).get("done", ())),
            tuple(tool.get("claims", {}).get("object", ())),
            tool.get("target_resource") or "",
        )
        for tool in case["tools"]
    )
    return Ground(tools, tuple(record_of(action) for action in case["actions"]))


def record_of(action: Mapping[str, Any]) -> Record:
    """One action of a case with the report that its state has."""
    state = action["state"]
    contradicted = action.get("contradicted", False)
    code = ALLOWED[State(state)][0] if state else StatusCode.NOT_EXECUTED
    return Record(
        action_id=action["action_id"],
        tool=action["tool"],
        target=action["target"],
        arguments=action["arguments"],
        state=state,
        completed=code is StatusCode.COMPLETED and not contradicted,
        code=str(StatusCode.FINAL_STATE_UNKNOWN if contradicted else code),
        text=told(State(state) if state else State.PROPOSED, doubt=doubt() if contradicted else None).text,
        reason=action.get("reason", ""),
        evidence=tuple(action["evidence"]),
        contradicted=contradicted,
        stale=action.get("stale", False),
        outcome=str(BY_STATE[State(state)]) if state else "BLOCKED",
    )


def labels_of(case: Mapping[str, Any]) -> list[tuple[Span, str, str]]:
    """(span, kind, code) of the labelled claims; equal quotes stand one after the other."""
    seen: dict[str, int] = defaultdict(int)
    found = []
    for claim in case["claims"]:
        start = case["message"].find(claim["quote"], seen[claim["quote"]])
        start = start if start >= 0 else case["message"].find(claim["quote"])
        seen[claim["quote"]] = start + 1
        found.append(((start, start + len(claim["quote"])), claim["kind"], claim["code"]))
    return found
