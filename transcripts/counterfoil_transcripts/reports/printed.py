"""The report as lines for a terminal: totals first, then the most severe conversations with their findings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from console.recordings.rules import BY
from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.reading.records import TranscriptFault
from counterfoil_transcripts.reports.totals import HEALTHY_PHANTOMS, AuditTotals

CATEGORIES = {
    "valid": "valid, answered",
    "valid_execution_failed": "valid, the tool failed",
    "argument_hallucination": "invented or misspelt arguments",
    "phantom": "tool does not exist",
    "gate_rejection": "refused by a rule",
}
FURTHER = {
    "value_mismatch": "changes whose answer or later read shows other values",
    "predicate_false": "changes with a predicate of the contract that is false",
    "silent_step": "changes made after a failed or open one that was not mentioned",
    "repeated_change": "changes repeated with the same arguments",
    "no_answer": "calls without a recorded answer",
    "untyped_success": "changes whose success is not stated by a typed field",
    "seen_by_a_later_read": "changes shown by a later read",
    "fraction": "calls with fractional numbers, which are handled as text",
}
_BASIS = {
    "read": "a later read in the conversation shows it",
    "answer": "only the tool's own answer shows it",
    "nothing": "no basis",
}
_CONTROL = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029), " ") | dict.fromkeys(
    (*range(0x202A, 0x202F), *range(0x2066, 0x206A)), ""
)


def printable_text(text: object, most: int = 200) -> str:
    """A text out of a recording, safe to print: no control characters, no reversed directions, one line."""
    shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
    shown = " ".join(shown.translate(_CONTROL).split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def total_lines(totals: AuditTotals, trust: TrustRequirement) -> Iterator[str]:
    """The lines of the totals."""
    yield (
        f"{_many(totals.conversations, 'conversation')}, {_many(totals.messages, 'message')}"
        f" ({totals.spoken} of the agent), {_many(totals.calls, 'call')} ({totals.changes} that change something)"
    )
    yield ""
    yield "Calls"
    yield from _table(totals.categories, CATEGORIES, totals.calls)
    share = totals.phantom_share
    if share is not None and share >= HEALTHY_PHANTOMS:
        yield f"  {share:.1%} of the calls name a tool that does not exist; below {HEALTHY_PHANTOMS:.0%} is normal."
        yield "  Likely causes: too many tools offered, a renamed tool, a model that is too weak."
    if totals.refusals:
        yield "  refused: " + _format_counts(totals.refusals)
    if totals.answers:
        yield "  answers: " + _format_counts(totals.answers)
    for name, text in FURTHER.items():
        if totals.further[name]:
            yield f"  {totals.further[name]:>7}  {text}"
    yield from _claims(totals, trust)
    if totals.open_conversations:
        yield ""
        yield (
            f"{_many(totals.open_conversations, 'conversation')} had no tool list and no --contracts:"
            " every called tool is assumed to exist."
        )


def _claims(totals: AuditTotals, trust: TrustRequirement) -> Iterator[str]:
    made = sum(totals.claims.values())
    yield ""
    kinds = f" ({_format_counts(totals.claims)})" if made else ""
    yield f"Claims of the agent: {made}{kinds}, of which {totals.all_false} are unsupported"
    for code, count in totals.false_claims.most_common():
        yield f"  {count:>7}  {code}"
    if totals.basis:
        yield "  Basis of the supported claims that something was done:"
        for name, text in _BASIS.items():
            if totals.basis[name]:
                yield f"  {totals.basis[name]:>7}  {text}"
    if totals.patterns:
        yield "  patterns: " + _format_counts(totals.patterns)
    if trust is TrustRequirement.ANSWERS:
        yield "  Nothing here is verified: tools' answers were taken as true (--trust reads is stricter)."


def conversation_lines(one: dict[str, Any]) -> Iterator[str]:
    """The lines of one conversation, from its part of the report."""
    counts = f"({one['messages']} messages, {one['made']} calls)"
    yield f"{printable_text(one['file'])}  {printable_text(one['id'], 80)}  {counts}"
    for claim in one["claims"]:
        if claim["code"]:
            about = f", call {claim['calls'][0]}" if claim["calls"] else ""
            yield f"  message {claim['turn']}: {claim['code']}{about}: “{printable_text(claim['sentence'])}”"
    for call in one["calls"]:
        yield from _call(call)
    for fault in one["faults"][:5]:
        yield f"  not read: {printable_text(fault['path'])}: {printable_text(fault['reason'])}"


def _call(call: dict[str, Any]) -> Iterator[str]:
    where = f"  call {call['number']} ({printable_text(call['tool'], 60)})"
    if not call["gate"]["accepted"]:
        hint = f" {printable_text(call['gate']['hint'])}" if call["gate"]["hint"] else ""
        yield f"{where}: {call['gate']['code']}: {printable_text(call['gate']['message'])}{hint}"
    elif call["category"] == "valid_execution_failed":
        yield f"{where}: failed: {printable_text(call['answer']['reason'])}"
    for one in call["differences"]:
        yield (
            f"{where}: {printable_text(one['field'], 60)}: requested {printable_text(one['asked'], 60)}, "
            f"{BY[one['where']]} shows"
            f" {printable_text(one['shown'], 60)}"
        )
    for one in call["predicates"]:
        if one["holds"] == "FALSE":
            yield f"{where}: false by {BY[one['where']]}: {printable_text(one['text'])}"
    for one in call["silent_over"]:
        yield f"{where}: continued after call {one['call']}. {printable_text(one['because'])}"
    if call["repeats"]:
        yield f"{where}: repeats the change of call {call['repeats']}"


def fault_lines(found: list[TranscriptFault]) -> Iterator[str]:
    """The lines about unread parts."""
    for one in found:
        yield printable_text(one.line, 400)


def _table(counts: Counter[str], labels: dict[str, str], whole: int) -> Iterable[str]:
    for name, label in labels.items():
        if counts[name]:
            yield f"  {counts[name]:>7}  {label} ({counts[name] / whole:.1%})"


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
