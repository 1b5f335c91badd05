"""The report as JSON, one conversation at a time, and as a file that is written while the conversations are read.

The shape is that of `report.schema.json` beside this file, version 1: fields may be added, and none will change its
meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, BinaryIO

import orjson

from counterfoil_transcripts.acts import AuditedAct, TrustRequirement, believed_state
from counterfoil_transcripts.audit import AgentClaim, ConversationAudit
from counterfoil_transcripts.reading.records import TranscriptFault
from counterfoil_transcripts.reports.totals import AuditTotals, severity

VERSION = 1
_OPTIONS = orjson.OPT_NON_STR_KEYS


def conversation_document(conversation: ConversationAudit, trust: TrustRequirement) -> dict[str, Any]:
    """One conversation of the report."""
    return {
        "file": conversation.conversation.file,
        "id": conversation.conversation.id,
        "path": conversation.conversation.path,
        "format": conversation.conversation.format,
        "messages": len(conversation.conversation.turns),
        "tools_known": not conversation.is_open,
        "severity": severity(conversation),
        "calls": [call_document(act, trust) for act in conversation.acts],
        "claims": [claim_document(each) for each in conversation.claims],
        "corrected": [{"turn": turn, "text": text} for turn, text in sorted(conversation.corrected.items())],
        "receipts": [
            {"turn": each.turn, "said": each.said, "lines": list(each.lines)} for each in conversation.receipts
        ],
        "faults": [fault_document(each) for each in conversation.faults],
    }


def call_document(act: AuditedAct, trust: TrustRequirement) -> dict[str, Any]:
    """One call of a conversation."""
    state, told = believed_state(act, trust), act.told
    return {
        "number": act.number,
        "turn": act.turn,
        "tool": act.call.tool,
        "target": act.verdict.target_resource,
        "mutating": act.mutating,
        "category": act.category,
        "gate": {
            "accepted": act.verdict.accepted,
            "code": act.verdict.code,
            "message": "" if act.verdict.accepted else act.verdict.message,
            "hint": act.verdict.hint,
            "suggestion": act.verdict.suggestion,
            "errors": [dict(error) for error in act.verdict.errors],
        },
        "answer": None
        if told is None
        else {"turn": act.answered_at, "status": str(told.status), "typed": told.typed, "reason": told.reason},
        "state": None if state is None else str(state),
        "basis": act.basis,
        "differences": [
            {"field": one.name, "asked": one.asked, "shown": one.shown, "where": str(one.source)}
            for one in act.differences
        ],
        "predicates": [
            {"text": one.text, "holds": one.holds, "where": one.where, "reason": one.reason} for one in act.predicates
        ],
        "seen_by": act.seen_by,
        "contradicted": act.contradicted,
        "repeats": act.repeats,
        "depends_on": list(act.depends_on),
        "silent_over": [{"call": number, "because": because} for number, because in act.silent_over],
        "notes": act.notes,
    }


def claim_document(one: AgentClaim) -> dict[str, Any]:
    """One claim of a conversation."""
    return {
        "turn": one.turn,
        "span": list(one.span),
        "quote": one.quote,
        "sentence": one.sentence,
        "kind": one.kind,
        "verdict": "BLOCK" if one.false else "ALLOW",
        "code": one.code,
        "detail": one.detail,
        "calls": list(one.acts),
        "basis": one.basis,
        "rule": one.rule,
    }


def fault_document(one: TranscriptFault) -> dict[str, str]:
    """Something that could not be read."""
    return {"file": one.file, "conversation": one.conversation, "path": one.path, "reason": one.reason}


class ReportWriter:
    """The report's file. Values that JSON does not allow (half a character, a huge number) are written as text."""

    def __init__(self, out: BinaryIO, *, files: Iterable[str], trust: TrustRequirement) -> None:
        self._out, self._trust, self._first = out, trust, True
        head = {"version": VERSION, "trust": str(trust), "files": list(files)}
        self._out.write(_bytes(head)[:-1] + b',"conversations":[')

    def add(self, conversation: ConversationAudit) -> None:
        """Write one conversation."""
        self._out.write(b"\n" if self._first else b",\n")
        self._first = False
        self._out.write(_bytes(conversation_document(conversation, self._trust)))

    def end(
        self, totals: AuditTotals, *, faults: list[TranscriptFault], drafted: Iterable[str], notes: Iterable[str]
    ) -> None:
        """Write the end of the file."""
        tail = {
            "faults": [fault_document(one) for one in faults],
            "contracts": {"drafted": sorted(drafted), "notes": list(notes)},
            "totals": totals.document(),
        }
        self._out.write(b"\n]," + _bytes(tail)[1:] + b"\n")

    def __enter__(self) -> ReportWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._out.close()


def _bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=str, option=_OPTIONS)
    except (TypeError, ValueError):
        return orjson.dumps(_writable(value), default=str, option=_OPTIONS)


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_writable(str(name)): _writable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(one) for one in value]
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value
