"""Recordings as the API tells them: what the report of `audit_transcripts --json` says, by the same names.

Values and texts are those that the console kept (`console.transcripts.recordings.recording_rows`), cut where it cut
them. What earlier
imports did not keep is empty or null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from console.models import RecordedConversation, RecordedMessage, Recording
from console.transcripts.recordings.operations import RetentionStatus


def recording_document(row: Recording) -> dict[str, Any]:
    """A recording in a list; of one that was erased, numbers alone."""
    totals = {name: value for name, value in row.totals.items() if name != "tools"}
    return {
        "recording_id": str(row.id),
        "file": row.file_name,
        "digest": row.digest,
        "size": row.size,
        "trust": row.trust,
        "version": row.version,
        "contracts": row.contracts,
        "imported_at": row.at,
        "named": str(row.named) if row.named else None,
        "erased": not row.digest,
        "totals": totals or None,
    }


def recording_detail(row: Recording, keeping: RetentionStatus) -> dict[str, Any]:
    """One recording, with its tools, what of its file could not be read, and how long it is kept."""
    tools = {each["name"]: {name: each[name] for name in each if name != "name"} for each in row.totals["tools"]}
    told = recording_document(row)
    return told | {
        "totals": told["totals"] | {"tools": tools},
        "faults": _faults(row, "", row.unread),
        "retention": {
            "payload_days": keeping.days,
            "kept_until": keeping.until,
            "standing": keeping.standing,
            "holds": [str(each) for each in keeping.holds],
            "erasure_requested": keeping.waiting,
        },
    }


def conversation_row(row: RecordedConversation) -> dict[str, Any]:
    """A conversation in a list."""
    return {
        "recording_id": str(row.recording_id),
        "number": row.number,
        "id": row.label,
        "path": row.path,
        "format": row.format,
        "messages": row.messages,
        "tools_known": row.tools_known,
        "severity": row.severity,
        "kinds": row.kinds,
        "codes": row.codes,
    }


def conversation_detail(
    row: Recording,
    one: RecordedConversation,
    categories: Mapping[str, int],
    messages: Iterable[RecordedMessage],
    *,
    following: int | None,
) -> dict[str, Any]:
    """A conversation with these of its messages and all that was found of them."""
    read = list(messages)
    return conversation_row(one) | {
        "file": row.file_name,
        "categories": categories,
        "calls": [_call(call, each.number) for each in read for call in each.calls],
        "claims": [_claim(claim, each.number) for each in read for claim in each.claims],
        "corrected": [{"turn": each.number, "text": each.corrected} for each in read if each.corrected],
        "faults": _faults(row, one.label, one.unread),
        "turns": [_turn(each) for each in read],
        "next": None if following is None else str(following),
    }


def _turn(message: RecordedMessage) -> dict[str, Any]:
    return {
        "turn": message.number,
        "role": message.role,
        "text": message.text,
        "length": message.length,
        "answers": message.answers,
    }


def _call(call: Mapping[str, Any], turn: int) -> dict[str, Any]:
    because = [*call.get("because", []), *[""] * len(call["silent_over"])]
    return {
        **{name: call[name] for name in ("number", "tool", "arguments", "mutating", "category", "basis")},
        **{name: call[name] for name in ("differences", "seen_by", "contradicted", "repeats")},
        "turn": turn,
        "target": call.get("target", ""),
        "gate": {
            **{name: call[name] for name in ("accepted", "code", "message", "hint")},
            "suggestion": call.get("suggestion"),
            "errors": call.get("errors", []),
        },
        "answer": _answer(call),
        "state": call.get("state"),
        "predicates": [{"holds": "FALSE"} | each for each in call["predicates"]],
        "depends_on": call.get("depends_on", []),
        "silent_over": [
            {"call": number, "because": said} for number, said in zip(call["silent_over"], because, strict=False)
        ],
        "notes": call.get("notes", []),
    }


def _answer(call: Mapping[str, Any]) -> dict[str, Any] | None:
    if call["answered"] is None:
        return None
    return {
        "turn": call["answered"],
        "status": call["status"],
        "typed": call.get("typed", False),
        "reason": call["reason"],
    }


def _claim(claim: Mapping[str, Any], turn: int) -> dict[str, Any]:
    return {
        **claim,
        "turn": turn,
        "sentence": claim.get("sentence", claim["quote"]),
        "verdict": "BLOCK" if claim["code"] else "ALLOW",
    }


def _faults(row: Recording, conversation: str, unread: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{"file": row.file_name, "conversation": conversation, **each} for each in unread]
