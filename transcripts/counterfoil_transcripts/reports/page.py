"""The report as one self-contained page: no script, nothing loaded, for any number of conversations.

Only the most severe conversations are shown, each up to a limit, so that the page's size is bounded. Everything from a
recording is stripped of control characters and escaped by the template.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from django.template import Context, Engine, Template

from console.recordings.rules import BY
from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.reading.records import TranscriptFault
from counterfoil_transcripts.reports.printed import CATEGORIES, FURTHER, printable_text
from counterfoil_transcripts.reports.totals import AuditTotals

MOST_CONVERSATIONS = 200
MOST_ROWS = 20
MOST_KEPT = 50
MOST_TOOLS = 60
MOST_BARS = 12
MOST_FILES = 10

_LOOKS = {
    "valid": "good",
    "valid_execution_failed": "mid",
    "argument_hallucination": "bad",
    "phantom": "bad",
    "gate_rejection": "grey",
    "read": "good",
    "answer": "calm",
}


@dataclass
class WorstConversations:
    """The most severe conversations, as parts of the report's JSON."""

    most: int = MOST_CONVERSATIONS
    _heap: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    _count: int = 0

    def would_take(self, severity: int) -> bool:
        """Return whether a conversation of that severity would be included."""
        return severity > 0 and (len(self._heap) < self.most or severity > self._heap[0][0])

    def add(self, one: dict[str, Any]) -> None:
        """Add one, shortened for display; the least severe one is dropped when the list is full."""
        self._count += 1
        heapq.heappush(self._heap, (one["severity"], -self._count, _trim(one)))
        if len(self._heap) > self.most:
            heapq.heappop(self._heap)

    def listed(self) -> list[dict[str, Any]]:
        """The conversations, most severe first; of equals, the earlier one first."""
        return [one for _, _, one in sorted(self._heap, key=lambda held: (-held[0], -held[1]))]


def _trim(one: dict[str, Any]) -> dict[str, Any]:
    told = [call for call in one["calls"] if call["differences"] or _call(call) is not None or _is_false(call)]
    return {
        **one,
        "made": len(one["calls"]),
        "calls": told[:MOST_KEPT],
        "claims": [claim for claim in one["claims"] if claim["code"]][:MOST_KEPT],
        "false": sum(bool(claim["code"]) for claim in one["claims"]),
        "corrected": [],
        "receipts": one["receipts"][:MOST_ROWS],
    }


def _is_false(call: dict[str, Any]) -> bool:
    return any(one["holds"] == "FALSE" for one in call["predicates"])


def render_page(
    totals: AuditTotals,
    gravest: list[dict[str, Any]],
    *,
    names: list[str],
    trust: TrustRequirement,
    faults: list[TranscriptFault],
) -> str:
    """The page."""
    tools = sorted(totals.tools.items(), key=lambda held: (-held[1].false_claims, -held[1].calls, held[0]))
    context = {
        "files": [printable_text(name, 120) for name in names[:MOST_FILES]],
        "more_files": len(names) - MOST_FILES if len(names) > MOST_FILES else 0,
        "trust": str(trust),
        "figures": _figures(totals),
        "charts": [chart for chart in _charts(totals) if chart["bars"]],
        "tools": [{"name": printable_text(name, 80), **vars(one)} for name, one in tools[:MOST_TOOLS]],
        "more_tools": len(tools) - MOST_TOOLS if len(tools) > MOST_TOOLS else 0,
        "shown": len(gravest),
        "with_findings": totals.with_findings,
        "conversations": [_conversation(one) for one in gravest],
        "faults": [printable_text(one.line, 400) for one in faults[:MOST_ROWS]],
    }
    return _template().render(Context(context))


def _figures(totals: AuditTotals) -> list[dict[str, Any]]:
    share = totals.phantom_share
    return [
        {"label": "Conversations", "value": f"{totals.conversations:,}"},
        {"label": "Messages", "value": f"{totals.messages:,}"},
        {"label": "Calls", "value": f"{totals.calls:,}"},
        {"label": "Claims", "value": f"{sum(totals.claims.values()):,}"},
        {"label": "Unsupported claims", "value": f"{totals.all_false:,}", "bad": totals.all_false > 0},
        {"label": "Phantom calls", "value": "none" if share is None else f"{share:.1%}", "bad": (share or 0) >= 0.02},
    ]


def _charts(totals: AuditTotals) -> list[dict[str, Any]]:
    failing = Counter({name: one.failed for name, one in totals.tools.items() if one.failed})
    basis = {"read": "shown by a later read", "answer": "tool's answer only", "nothing": "none"}
    return [
        _chart("Unsupported claims", totals.false_claims, {}, "bad"),
        _chart("Calls", totals.categories, CATEGORIES, "grey"),
        _chart("Refused calls", totals.refusals, {}, "bad"),
        _chart("Failures by tool", failing, {}, "mid"),
        _chart("Basis of supported claims", totals.basis, basis, "grey"),
        _chart("Other findings", totals.further, FURTHER, "calm"),
        _chart("Patterns of false success", totals.patterns, {}, "bad"),
    ]


def _chart(title: str, counts: Counter[str], labels: dict[str, str], look: str) -> dict[str, Any]:
    most = max(counts.values(), default=0)
    bars = [
        {
            "label": labels.get(name, printable_text(name, 80)),
            "count": f"{count:,}",
            "width": f"{max(0.5, 100 * count / most):.2f}",
            "look": _LOOKS.get(name, look),
        }
        for name, count in counts.most_common(MOST_BARS)
        if count
    ]
    return {"title": title, "bars": bars}


def _conversation(one: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {
            "call": call["number"],
            "tool": printable_text(call["tool"], 60),
            "field": printable_text(each["field"], 60),
            "asked": printable_text(each["asked"], 120),
            "shown": printable_text(each["shown"], 120),
            "by": BY[each["where"]],
        }
        for call in one["calls"]
        for each in call["differences"]
    ]
    return {
        "id": printable_text(one["id"], 80),
        "file": printable_text(one["file"], 120),
        "messages": one["messages"],
        "made": one["made"],
        "false": one["false"],
        "claims": [_claim(claim) for claim in one["claims"][:MOST_ROWS]],
        "differences": rows[:MOST_ROWS],
        "receipts": [
            {
                "turn": each["turn"],
                "said": printable_text(each["said"], 600),
                "lines": [printable_text(line, 300) for line in each["lines"]],
            }
            for each in one["receipts"][:MOST_ROWS]
        ],
        "calls": [each for call in one["calls"] if (each := _call(call)) is not None][:MOST_ROWS],
    }


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    """Return a claim with its sentence cut around the claiming words."""
    sentence, quote = printable_text(claim["sentence"], 400), printable_text(claim["quote"], 300)
    before, found, after = sentence.partition(quote)
    if not found:
        before, after = "", ""
    return {
        "before": before,
        "quote": quote,
        "after": after,
        "code": claim["code"],
        "turn": claim["turn"],
        "call": claim["calls"][0] if claim["calls"] else None,
        "detail": printable_text(claim["detail"]),
    }


def _call(call: dict[str, Any]) -> dict[str, Any] | None:
    shown = {"number": call["number"], "tool": printable_text(call["tool"], 60), "code": ""}
    if not call["gate"]["accepted"]:
        text = f"{call['gate']['message']} {call['gate']['hint']}"
        return {**shown, "code": call["gate"]["code"], "text": printable_text(text, 300)}
    if call["category"] == "valid_execution_failed":
        return {**shown, "text": f"failed: {printable_text(call['answer']['reason'])}"}
    if call["silent_over"]:
        return {**shown, "text": f"continued after call {call['silent_over'][0]['call']} without mentioning it"}
    return {**shown, "text": f"repeats the change of call {call['repeats']}"} if call["repeats"] else None


@lru_cache(maxsize=1)
def _template() -> Template:
    text = files("counterfoil_transcripts.reports").joinpath("page.html").read_text(encoding="utf-8")
    return Engine().from_string(text)
