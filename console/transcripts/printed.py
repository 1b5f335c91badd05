"""The report as lines for a terminal: totals first, then the gravest conversations with what was found in each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from console.transcripts.acts import TrustRequirement
from console.transcripts.records import TranscriptFault
from console.transcripts.totals import HEALTHY_PHANTOMS, AuditTotals

CATEGORIES = {
    "valid": "valid, answered",
    "valid_execution_failed": "valid, the tool failed",
    "argument_hallucination": "arguments made up or misspelt",
    "phantom": "tool does not exist",
    "gate_rejection": "refused by a rule",
}
FURTHER = {
    "value_mismatch": "changes whose answer or later read shows other values",
    "predicate_false": "changes with a predicate of the contract that is false",
    "silent_step": "changes made over a failed or open one, without a word",
    "repeated_change": "changes made a second time with the same arguments",
    "no_answer": "calls without a recorded answer",
    "untyped_success": "changes whose success is told by nothing typed",
    "seen_by_a_later_read": "changes that a later read shows",
    "fraction": "calls with fractions, which the product takes as texts",
}
BY = {"answer": "the answer", "read": "a later read"}
_BASIS = {
    "read": "a later read in the conversation shows it",
    "answer": "only the tool's own answer says so",
    "nothing": "nothing",
}
_CONTROL = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029), " ") | dict.fromkeys(
    (*range(0x202A, 0x202F), *range(0x2066, 0x206A)), ""
)


def printable_text(text: object, most: int = 200) -> str:
    """A text out of a recording, safe to print: no control characters, no reversed directions, one line."""
    shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
    shown = " ".join(shown.translate(_CONTROL).split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def total_lines(found: AuditTotals, trust: TrustRequirement) -> Iterator[str]:
    """The lines of the totals."""
    yield (
        f"{_many(found.conversations, 'conversation')}, {_many(found.messages, 'message')}"
        f" ({found.spoken} of the agent), {_many(found.calls, 'call')} ({found.changes} that change something)"
    )
    yield ""
    yield "Calls"
    yield from _table(found.categories, CATEGORIES, found.calls)
    share = found.phantom_share
    if share is not None and share >= HEALTHY_PHANTOMS:
        yield f"  {share:.1%} of the calls name a tool that does not exist; below {HEALTHY_PHANTOMS:.0%} is healthy."
        yield "  Look at three things: too many tools offered, a tool that was renamed, a model that is too weak."
    if found.refusals:
        yield "  refused: " + _listed(found.refusals)
    if found.answers:
        yield "  answers: " + _listed(found.answers)
    for name, text in FURTHER.items():
        if found.further[name]:
            yield f"  {found.further[name]:>7}  {text}"
    yield from _claims(found, trust)
    if found.open_conversations:
        yield ""
        yield (
            f"{_many(found.open_conversations, 'conversation')} came without a tool list and without --contracts:"
            " every tool that was called is taken to exist."
        )


def _claims(found: AuditTotals, trust: TrustRequirement) -> Iterator[str]:
    made = sum(found.claims.values())
    yield ""
    kinds = f" ({_listed(found.claims)})" if made else ""
    yield f"Claims of the agent: {made}{kinds}, of which {found.all_false} are unsupported"
    for code, count in found.false_claims.most_common():
        yield f"  {count:>7}  {code}"
    if found.basis:
        yield "  Behind the claims that something was done, and that stand:"
        for name, text in _BASIS.items():
            if found.basis[name]:
                yield f"  {found.basis[name]:>7}  {text}"
    if found.patterns:
        yield "  patterns: " + _listed(found.patterns)
    if trust is TrustRequirement.ANSWERS:
        yield "  Nothing here is verified: a tool's answer was taken at its word (--trust reads asks for more)."


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
            f"{where}: {printable_text(one['field'], 60)}: asked {printable_text(one['asked'], 60)}, "
            f"{BY[one['where']]} shows"
            f" {printable_text(one['shown'], 60)}"
        )
    for one in call["predicates"]:
        if one["holds"] == "FALSE":
            yield f"{where}: not true by {BY[one['where']]}: {printable_text(one['text'])}"
    for one in call["silent_over"]:
        yield f"{where}: went on over call {one['call']}. {printable_text(one['because'])}"
    if call["repeats"]:
        yield f"{where}: the same change as call {call['repeats']}, once more"


def fault_lines(found: list[TranscriptFault]) -> Iterator[str]:
    """The lines of what could not be read."""
    for one in found:
        yield printable_text(one.line, 400)


def _table(counts: Counter[str], labels: dict[str, str], whole: int) -> Iterable[str]:
    for name, label in labels.items():
        if counts[name]:
            yield f"  {counts[name]:>7}  {label} ({counts[name] / whole:.1%})"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
