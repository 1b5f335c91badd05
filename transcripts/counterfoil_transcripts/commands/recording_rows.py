"""The rows that the console keeps of an audited conversation; a page can show them, however large the file was.

1. A conversation is one row with its findings, and a row for each message with its calls, its answers, its claims, and
   what might have been said instead.
2. Everything out of a recording is text of a bounded length: `MOST_TEXT` characters of a message, `MOST_VALUE` of a
   value. The length in the file is kept beside a message, so that a page can say what it leaves out; spans of claims
   are places in the whole text.
3. What PostgreSQL cannot store in a text (a NUL, half a character) becomes one other character, so that no span moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

import orjson

from console.recordings.rules import MOST_NAME, MOST_VALUE, storable_text
from counterfoil_transcripts.acts import AuditedAct, TrustRequirement
from counterfoil_transcripts.audit import ConversationAudit
from counterfoil_transcripts.reading.records import TranscriptFault, TranscriptTurn
from counterfoil_transcripts.reports import document
from counterfoil_transcripts.reports.totals import AuditTotals, call_flags, severity

MOST_TEXT = 10_000
MOST_SAID = 600
MOST_PARTS = 50
MOST_FINDINGS = 40
MOST_FAULTS = 100
MOST_TOOLS = 200
FINDINGS = ("value_mismatch", "predicate_false", "silent_step", "repeated_change")
"""What is found of a call beside its category, as a conversation is filtered by it."""


@dataclass(eq=False)
class RowSpool:
    """The rows of one recording, in their order, buffered in unnamed temporary files until the import is complete.

    The database is then written to in one short transaction, and memory holds one conversation, whatever the size of
    the recording. The files are gone with the process, however it ends.
    """

    _trust: TrustRequirement
    _conversations: IO[bytes]
    _messages: IO[bytes]
    count: int = 0

    def add(self, found: ConversationAudit) -> None:
        """Add one conversation completely or, if it cannot be written, not at all."""
        number = self.count + 1
        # Made before anything is written, so that what fails here leaves no half of it.
        head = orjson.dumps(conversation_row(found, number))
        rows = [orjson.dumps(each) for each in message_rows(found, number, self._trust)]
        self._conversations.write(head + b"\n")
        self._messages.writelines(row + b"\n" for row in rows)
        self.count = number

    def conversations(self) -> Iterator[dict[str, Any]]:
        """The rows of the conversations."""
        return _rows(self._conversations)

    def messages(self) -> Iterator[dict[str, Any]]:
        """The rows of their messages."""
        return _rows(self._messages)


@contextmanager
def open_spool(trust: TrustRequirement) -> Iterator[RowSpool]:
    """A temporary store for the rows of one recording."""
    with TemporaryFile() as conversations, TemporaryFile() as messages:
        yield RowSpool(trust, conversations, messages)


def _rows(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    file.seek(0)
    for line in file:
        yield orjson.loads(line)


def conversation_row(conversation: ConversationAudit, number: int) -> dict[str, Any]:
    """The row of a conversation (rule 1)."""
    kinds = {act.category for act in conversation.acts} | {
        mark for act in conversation.acts for mark in call_flags(act) if mark in FINDINGS
    }
    codes = {act.verdict.code for act in conversation.acts if not act.verdict.accepted}
    return {
        "number": number,
        "label": storable_text(conversation.conversation.id, MOST_NAME),
        "path": storable_text(conversation.conversation.path, MOST_NAME),
        "format": storable_text(conversation.conversation.format, 32),
        "messages": len(conversation.conversation.turns),
        "calls": len(conversation.acts),
        "false_claims": sum(claim.false for claim in conversation.claims),
        "severity": severity(conversation),
        "tools_known": not conversation.is_open,
        "kinds": sorted(kinds),
        "codes": sorted((codes | {claim.code for claim in conversation.claims}) - {""}),
        "findings": conversation_findings(conversation),
        "unread": [fault_row(each) for each in conversation.faults[:MOST_FAULTS]],
    }


def message_rows(conversation: ConversationAudit, number: int, trust: TrustRequirement) -> Iterator[dict[str, Any]]:
    """The rows of a conversation's messages, in their order."""
    made, answered, claimed = defaultdict(list), defaultdict(list), defaultdict(list)
    for act in conversation.acts:
        made[act.turn].append(act)
        answered[act.answered_at].append(act)
    for claim in conversation.claims:
        claimed[claim.turn].append(claim)
    for turn in conversation.conversation.turns:
        yield {
            "conversation": number,
            "number": turn.number,
            "role": storable_text(turn.role, 16),
            "text": storable_text(turn.text, MOST_TEXT),
            "length": len(turn.text),
            "calls": [_call(act, trust) for act in made[turn.number][:MOST_PARTS]],
            "answers": _answers(turn, answered[turn.number]),
            "claims": [_claim(document.claim_document(claim)) for claim in claimed[turn.number][:MOST_PARTS]],
            "corrected": storable_text(conversation.corrected.get(turn.number, ""), MOST_TEXT),
        }


def totals_row(totals: AuditTotals) -> dict[str, Any]:
    """The figures of a whole recording; of its tools the ones that were called most."""
    told = totals.document()
    most = sorted(told["tools"].items(), key=lambda held: (-held[1]["calls"], held[0]))[:MOST_TOOLS]
    return told | {"tools": [{"name": storable_text(name, MOST_NAME), **figures} for name, figures in most]}


def fault_row(one: TranscriptFault) -> dict[str, str]:
    """An unreadable place."""
    return {"path": storable_text(one.path, MOST_NAME), "reason": storable_text(one.reason, MOST_SAID)}


def conversation_findings(conversation: ConversationAudit) -> list[dict[str, Any]]:
    """The findings of a conversation in order, each with its message."""
    found: list[dict[str, Any]] = [
        {"turn": claim.turn, "code": claim.code, "text": storable_text(claim.sentence, MOST_SAID), "tool": ""}
        for claim in conversation.claims
        if claim.false
    ]
    for act in conversation.acts:
        about = {"turn": act.turn, "tool": storable_text(act.call.tool, MOST_NAME)}
        found += [about | {"code": code, "text": storable_text(said, MOST_SAID)} for code, said in _faults_of(act)]
    return sorted(found, key=lambda each: int(each["turn"]))[:MOST_FINDINGS]


def _faults_of(act: AuditedAct) -> Iterator[tuple[str, str]]:
    """Yield the faults of a call: a code and a text."""
    if not act.verdict.accepted:
        yield act.verdict.code, f"{act.verdict.message} {act.verdict.hint}".strip()
    elif act.category == "valid_execution_failed" and act.told is not None:
        yield "valid_execution_failed", act.told.reason
    if act.differences:
        yield "value_mismatch", ", ".join(one.name for one in act.differences)
    if act.silent_over:
        yield "silent_step", f"It continued after call {act.silent_over[0][0]}."
    if act.repeats:
        yield "repeated_change", f"Duplicate of the change in call {act.repeats}."


def _call(act: AuditedAct, trust: TrustRequirement) -> dict[str, Any]:
    """A call as the report has it, with its arguments as the agent sent them."""
    told = document.call_document(act, trust)
    gate, answer = told["gate"], told["answer"]
    return {
        "number": act.number,
        "tool": storable_text(act.call.tool, MOST_NAME),
        "arguments": storable_text(act.call.arguments, MOST_VALUE),
        "mutating": act.mutating,
        "category": act.category,
        "accepted": gate["accepted"],
        "code": storable_text(gate["code"], 64),
        "message": storable_text(gate["message"], MOST_SAID),
        "hint": storable_text(gate["hint"], MOST_SAID),
        "suggestion": None if gate["suggestion"] is None else storable_text(gate["suggestion"], MOST_SAID),
        "errors": [_plain(one) for one in gate["errors"][:MOST_PARTS]],
        "target": storable_text(told["target"], MOST_NAME),
        "state": told["state"],
        "answered": None if answer is None else answer["turn"],
        "status": "" if answer is None else answer["status"],
        "typed": answer is not None and answer["typed"],
        "reason": "" if answer is None else storable_text(answer["reason"], MOST_SAID),
        "basis": told["basis"],
        "differences": [_difference(one) for one in told["differences"][:MOST_PARTS]],
        "predicates": [_predicate(one) for one in told["predicates"][:MOST_PARTS]],
        "repeats": told["repeats"],
        "depends_on": told["depends_on"][:MOST_PARTS],
        "silent_over": [one["call"] for one in told["silent_over"][:MOST_PARTS]],
        "because": [storable_text(one["because"], MOST_SAID) for one in told["silent_over"][:MOST_PARTS]],
        "contradicted": told["contradicted"],
        "seen_by": told["seen_by"][:MOST_PARTS],
        "notes": [storable_text(one, MOST_SAID) for one in told["notes"][:MOST_PARTS]],
    }


def _difference(one: Mapping[str, Any]) -> dict[str, str]:
    return {
        "field": storable_text(one["field"], MOST_NAME),
        "asked": storable_text(one["asked"], MOST_SAID),
        "shown": storable_text(one["shown"], MOST_SAID),
        "where": one["where"],
    }


def _predicate(one: Mapping[str, Any]) -> dict[str, str]:
    said = {name: storable_text(one[name], MOST_SAID) for name in ("text", "reason")}
    return said | {"holds": one["holds"], "where": one["where"]}


def _plain(one: Mapping[str, Any]) -> dict[str, str]:
    return {storable_text(name, MOST_NAME): storable_text(value, MOST_SAID) for name, value in one.items()}


def _claim(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "span": one["span"],
        "quote": storable_text(one["quote"], MOST_SAID),
        "sentence": storable_text(one["sentence"], MOST_SAID),
        "kind": one["kind"],
        "code": one["code"],
        "detail": storable_text(one["detail"], MOST_SAID),
        "calls": one["calls"][:MOST_PARTS],
        "basis": one["basis"],
        "rule": storable_text(one["rule"], 64),
    }


def _answers(turn: TranscriptTurn, waiting: list[AuditedAct]) -> list[dict[str, Any]]:
    """The answers of a message, each with the number of its call; None if it matches no call."""
    found = []
    for answer in turn.answers[:MOST_PARTS]:
        own = next((act for act in waiting if answer.call_id in ("", act.call.id)), None)
        if own is not None:
            waiting.remove(own)
        content = storable_text(answer.content, MOST_VALUE)
        found.append(
            {"call": own.number if own else None, "tool": storable_text(answer.tool, MOST_NAME), "content": content}
        )
    return found
