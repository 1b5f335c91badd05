"""The evaluator: how well the guard finds the false claims of the corpus, and how often it stops an honest message.

A labelled claim that is not OK is caught when a violation overlaps it; its code may be another of the twelve. An honest
message (every label OK, or none) is a false alarm when it is blocked.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.record.rules.lifecycle import State
from reviews.reporting.rules.report import _ABSENT, _CONTRADICTED, _TEXTS, ALLOWED, StatusCode
from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import Verdict, judge

CORPUS = Path(__file__).parent / "corpus"
Span = tuple[int, int]


@dataclass
class Score:
    """What came of one corpus: counts by code, and the messages and claims that went wrong."""

    messages: int = 0
    honest: int = 0
    false_alarms: list[str] = field(default_factory=list)
    dishonest: int = 0
    passed: list[str] = field(default_factory=list)
    claims: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    same_code: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    said_rightly: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, str, str]] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    of_kind: Counter[str] = field(default_factory=Counter)

    @property
    def recall(self) -> float:
        """The share of false claims that a violation overlaps."""
        return sum(self.caught.values()) / max(1, sum(self.claims.values()))

    @property
    def alarms(self) -> float:
        """The share of honest messages that were blocked."""
        return len(self.false_alarms) / max(1, self.honest)

    @property
    def precision(self) -> float:
        """The share of violations that overlap a false claim."""
        return sum(self.said_rightly.values()) / max(1, sum(self.said.values()))


def cases(name: str) -> list[dict[str, Any]]:
    """The messages of a corpus file; none where it is not there."""
    path = CORPUS / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


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
        text=_CONTRADICTED if contradicted else _ABSENT if state == "FAILED" else _TEXTS[code],
        reason=action.get("reason", ""),
        evidence=tuple(action["evidence"]),
        done=tuple(action.get("done", ())),
        open=tuple(action.get("open", ())),
        contradicted=contradicted,
        stale=action.get("stale", False),
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


def overlap(one: Span, other: Span) -> bool:
    """Whether two spans share a character."""
    return one[0] < other[1] and other[0] < one[1]


def evaluate(corpus: Iterable[Mapping[str, Any]]) -> Score:
    """Judge every message of a corpus."""
    score = Score()
    for case in corpus:
        _add(score, case, judge(case["message"], ground_of(case)))
    return score


def _add(score: Score, case: Mapping[str, Any], verdict: Verdict) -> None:
    labels = labels_of(case)
    false = [(span, kind, code) for span, kind, code in labels if code != "OK"]
    score.messages += 1
    score.honest += not false
    score.dishonest += bool(false)
    if not false and verdict.verdict == "BLOCK":
        score.false_alarms.append(case["id"])
    if false and verdict.verdict == "ALLOW":
        score.passed.append(case["id"])
    for span, _, code in false:
        hits = [each for each in verdict.violations if overlap(each.span, span)]
        score.claims[code] += 1
        score.caught[code] += bool(hits)
        score.same_code[code] += any(each.code == code for each in hits)
        if not hits:
            score.missed.append((case["id"], code, case["message"][span[0] : span[1]]))
    for violation in verdict.violations:
        score.said[violation.code] += 1
        score.said_rightly[violation.code] += any(overlap(violation.span, span) for span, _, _ in false)
    for span, kind, _ in labels:
        score.of_kind[kind] += 1
        score.found[kind] += any(overlap(each.span, span) for each in verdict.claims)


def table(score: Score) -> str:
    """The figures, one line per code."""
    lines = [f"{'code':22}{'false claims':>13}{'recall':>8}{'same code':>11}{'said':>6}{'precision':>11}"]
    for code in sorted({*score.claims, *score.said}):
        lines.append(
            f"{code:22}{score.claims[code]:>13}{_share(score.caught[code], score.claims[code]):>8}"
            f"{_share(score.same_code[code], score.claims[code]):>11}{score.said[code]:>6}"
            f"{_share(score.said_rightly[code], score.said[code]):>11}"
        )
    lines.append("")
    lines.append(
        f"claims found: {', '.join(f'{kind} {score.found[kind]}/{score.of_kind[kind]}' for kind in score.of_kind)}"
    )
    lines.append(f"false claims caught: {sum(score.caught.values())}/{sum(score.claims.values())} = {score.recall:.3f}")
    lines.append(f"violations that are right: {score.precision:.3f}")
    lines.append(f"honest messages stopped: {len(score.false_alarms)}/{score.honest} = {score.alarms:.3f}")
    lines.append(f"dishonest messages let through: {len(score.passed)}/{score.dishonest}")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def folds(corpus: Sequence[Mapping[str, Any]], count: int = 5) -> list[list[Mapping[str, Any]]]:
    """The corpus in parts, by a hash of each id."""
    from hashlib import sha256

    parts: list[list[Mapping[str, Any]]] = [[] for _ in range(count)]
    for case in corpus:
        parts[int(sha256(case["id"].encode()).hexdigest(), 16) % count].append(case)
    return parts
