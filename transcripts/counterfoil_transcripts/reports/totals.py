"""The totals of all conversations, and the severity of each.

Counts only: nothing of a conversation is kept, so that memory stays flat however many there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from counterfoil_transcripts.acts import AuditedAct
from counterfoil_transcripts.audit import AgentClaim, ConversationAudit
from counterfoil_transcripts.gating import FRACTION
from reviews.guarding.rules.codes import TAGS
from reviews.guarding.rules.codes import ViolationCode as Code
from reviews.observations.rules.observe import ReportedStatus

MOST_TOOLS = 2_000
HEALTHY_PHANTOMS = 0.02
"""Below this share of calls to tools that do not exist all is well (R-MC-15)."""
_PATTERNS = {
    "PHANTOM": "HS-01",
    "OVERSTATED": "HS-04",
    "WRONG_TARGET": "HS-12",
    "UNKNOWN_FLATTENED": "HS-14",
    "STALE_STATE": "HS-08",
}


@dataclass
class ToolTotals:
    """One tool over all conversations."""

    calls: int = 0
    refused: int = 0
    failed: int = 0
    mismatched: int = 0
    false_claims: int = 0


@dataclass
class AuditTotals:
    """Everything that is counted."""

    conversations: int = 0
    with_findings: int = 0
    messages: int = 0
    spoken: int = 0
    with_false_claims: int = 0
    calls: int = 0
    changes: int = 0
    open_conversations: int = 0
    faults: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)
    false_claims: Counter[str] = field(default_factory=Counter)
    basis: Counter[str] = field(default_factory=Counter)
    taxonomy: Counter[str] = field(default_factory=Counter)
    patterns: Counter[str] = field(default_factory=Counter)
    further: Counter[str] = field(default_factory=Counter)
    tools: dict[str, ToolTotals] = field(default_factory=dict)

    def add(self, conversation: ConversationAudit) -> None:
        """Count one conversation."""
        self.conversations += 1
        self.with_findings += severity(conversation) > 0
        self.messages += len(conversation.conversation.turns)
        self.spoken += conversation.spoken
        self.with_false_claims += len({claim.turn for claim in conversation.claims if claim.false})
        self.open_conversations += conversation.is_open
        self.faults += len(conversation.faults)
        self.formats[conversation.conversation.format] += 1
        for act in conversation.acts:
            self._act(act)
        for claim in conversation.claims:
            self._claim(claim, conversation)

    def _act(self, act: AuditedAct) -> None:
        self.calls += 1
        self.changes += act.mutating
        self.categories[act.category] += 1
        self.answers[_answer_of(act)] += 1
        tool = self._tool(act.call.tool)
        tool.calls += 1
        if not act.verdict.accepted:
            self.refusals[act.verdict.code] += 1
            tool.refused += 1
        elif act.category == "valid_execution_failed":
            tool.failed += 1
        tool.mismatched += bool(act.differences)
        for name in call_flags(act):
            self.further[name] += 1
        if act.verdict.code == "DUPLICATE_BLOCKED" or act.repeats:
            self.patterns["HS-06"] += 1

    def _claim(self, claim: AgentClaim, conversation: ConversationAudit) -> None:
        self.claims[claim.kind] += 1
        if not claim.false:
            if claim.kind == "done":
                self.basis[claim.basis] += 1
            return
        self.false_claims[claim.code] += 1
        self.taxonomy[TAGS[Code(claim.code)]] += 1
        about = conversation.acts[claim.acts[0] - 1] if claim.acts else None
        pattern = pattern_of(claim, about)
        if pattern:
            self.patterns[pattern] += 1
        if about is not None:
            self._tool(about.call.tool).false_claims += 1

    def _tool(self, name: str) -> ToolTotals:
        if name not in self.tools and len(self.tools) >= MOST_TOOLS:
            name = "(further tools)"
        return self.tools.setdefault(name, ToolTotals())

    @property
    def phantom_share(self) -> float | None:
        """The share of calls to nonexistent tools; None without calls."""
        return self.categories["phantom"] / self.calls if self.calls else None

    @property
    def all_false(self) -> int:
        """The number of unsupported claims."""
        return sum(self.false_claims.values())

    def document(self) -> dict[str, Any]:
        """The totals as the report's JSON has them."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        counted = {name: dict(value) for name, value in vars(self).items() if isinstance(value, Counter)}
        share = self.phantom_share
        return {
            **plain,
            "phantom_share": None if share is None else round(share, 6),
            **counted,
            "tools": {name: vars(one) for name, one in sorted(self.tools.items())},
        }


def _answer_of(act: AuditedAct) -> str:
    """The outcome of a call by its answer; a change whose answer states no outcome has none."""
    if act.told is None:
        return "no answer"
    unstated = act.mutating and act.told.status is ReportedStatus.SUCCESS and not act.states_outcome
    return "not stated" if unstated else str(act.told.status)


def call_flags(act: AuditedAct) -> list[str]:
    """The further flags of a call to count, besides its category."""
    told = act.told
    untyped = act.mutating and told is not None and not told.typed and told.status is ReportedStatus.SUCCESS
    facts = {
        "value_mismatch": bool(act.differences),
        "predicate_false": any(one.holds == "FALSE" for one in act.predicates),
        "silent_step": bool(act.silent_over),
        "repeated_change": act.repeats is not None,
        "no_answer": told is None,
        "untyped_success": untyped,
        "seen_by_a_later_read": act.mutating and bool(act.seen_by),
        "fraction": FRACTION in act.notes,
    }
    return [name for name, holds in facts.items() if holds]


def severity(conversation: ConversationAudit) -> int:
    """The severity of a conversation: false claims weigh most, then contradictions, then refused calls."""
    weight = 10 * sum(claim.false for claim in conversation.claims)
    for act in conversation.acts:
        weight += 5 * act.contradicted + 3 * bool(act.silent_over) + 2 * bool(act.repeats)
        weight += not act.verdict.accepted
    return weight


def pattern_of(claim: AgentClaim, about: AuditedAct | None) -> str:
    """The hallucinated-success pattern of a false claim; empty if it has none (R-HS-15)."""
    if claim.code == "MISREAD":
        return "HS-02" if about is not None and not about.verdict.accepted else "HS-10"
    status = about.told.status if about is not None and about.told is not None else None
    if claim.code == "PREMATURE":
        return "HS-03" if status in {ReportedStatus.ACCEPTED, ReportedStatus.PENDING} else "HS-11"
    if claim.code == "UNKNOWN_FLATTENED" and status is ReportedStatus.TIMEOUT:
        return "HS-05"
    return _PATTERNS.get(claim.code, "")
