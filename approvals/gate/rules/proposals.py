"""Proposals: parses one call of an agent, ignoring every privilege that it claims for itself.

A shape that is wrong becomes the proposal's `fault`; its neighbours in the batch go on (R-MC-06), also where a call is
outside the profile in which requests are read (`read_batch`). Only the fields of api.md are read: roles, approvals and
privileges that a call claims to have are not even looked at (R-CR-11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from approvals.gate.rules import agent_evidence, stale_reads
from approvals.gate.rules.agent_evidence import EvidenceItem
from approvals.gate.rules.stale_reads import NamedRead
from ledger.catalogue.rules.targets import normal_form
from ledger.record.rules.canonical import NotCanonical, read
from ledger.record.rules.refusals import RateExceeded

MAX_CALL_ID = 128
MAX_NAMED = 100


@dataclass(frozen=True)
class Proposal:
    """A call as the agent sent it; `fault` says why it could not be read at all."""

    call_id: str = ""
    tool: str = ""
    arguments: Any = None
    goal: str | None = None
    pin_hash: str | None = None
    target_resource: str | None = None
    outcome_target: str | None = None
    outcome_predicates: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    acknowledges: frozenset[str] = frozenset()
    dry_run: bool = False
    supersedes: str | None = None
    based_on: tuple[NamedRead, ...] = ()
    evidence: tuple[EvidenceItem, ...] = ()
    fault: str = ""


_FAULT = "\x00fault"
# Only says where a value ends: what it is, `read` says.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def read_batch(data: bytes) -> dict[str, Any] | None:
    """Return the body of a batch in which single calls are outside the profile; None if the fault is elsewhere too.

    The arguments of such a call are kept as the text that was sent, which the gate reads or refuses for itself; a fault
    in the rest of a call becomes its `fault`.
    """
    try:
        text = data.decode("utf-8").strip()
        _DECODER.decode(text)
        members = list(_members(text))
        body = {name: read(value) for name, value in members if name != "calls"}
        calls = [one for name, value in members if name == "calls" for one in _elements(value)]
    except (ValueError, IndexError, RecursionError, NotCanonical):
        return None
    if len(body) + 1 != len(members) or not calls:
        return None
    return body | {"calls": [_read_single_call(one) for one in calls]}


def _read_single_call(source: str) -> dict[str, Any] | None:
    """One call of a batch, from its text; None if it is no object, which no other call suffers from."""
    if not source.startswith("{"):
        return None
    call: dict[str, Any] = {}
    for name, value in _members(source):
        if name in call:
            call[_FAULT] = "A call names each of its members once."
        try:
            call[name] = read(value)
        except NotCanonical as refusal:
            call[name] = value if name == "arguments" else None
            if name != "arguments":
                call[_FAULT] = f"A part of the call beside its arguments cannot be read: {refusal.detail}"
    return call


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Name of each member of an object, and its value as text."""
    at = _next(text, 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        start = _next(text, _next(text, end) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield name, text[start:end]
        at = _after_comma(text, end)


def _elements(text: str) -> Iterator[str]:
    """Each element of a list as text."""
    at = _next(text, 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _after_comma(text, end)


def _after_comma(text: str, at: int) -> int:
    at = _next(text, at)
    return _next(text, at + 1) if text[at] == "," else at


def _next(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


def read_call(raw: object) -> Proposal:
    """The call in one element of a batch; a shape that is wrong becomes its `fault`, its neighbours go on (R-MC-06)."""
    if not isinstance(raw, dict):
        return Proposal(fault="A call is an object.")
    call_id, tool = raw.get("call_id"), raw.get("tool")
    known = Proposal(
        call_id=call_id if isinstance(call_id, str) else "",
        tool=tool if isinstance(tool, str) else "",
        arguments=raw.get("arguments"),
    )
    if _FAULT in raw:
        return replace(known, fault=str(raw[_FAULT]))
    outcome = raw.get("intended_outcome")
    reads, evidence = stale_reads.parse_reads(raw.get("based_on")), agent_evidence.read_evidence(raw.get("evidence"))
    fault = _shape_fault(raw, {} if outcome is None else outcome)
    if fault or reads is None or evidence is None:
        return replace(known, fault=fault or (stale_reads.SHAPE if reads is None else agent_evidence.SHAPE))
    outcome = outcome or {}
    return replace(
        known,
        goal=raw.get("goal"),
        pin_hash=raw.get("pin_hash"),
        target_resource=_target(raw.get("target_resource")),
        outcome_target=_target(outcome.get("target_resource")),
        outcome_predicates=tuple(outcome.get("expected_predicates") or ()),
        depends_on=tuple(raw.get("depends_on") or ()),
        acknowledges=frozenset(raw.get("acknowledges") or ()),
        dry_run=bool(raw.get("dry_run")),
        supersedes=raw.get("supersedes"),
        based_on=reads,
        evidence=evidence,
    )


def _target(named: str | None) -> str | None:
    return None if named is None else normal_form(named)


def _shape_fault(raw: dict[str, Any], outcome: Any) -> str:
    if not isinstance(raw.get("call_id", ""), str) or not isinstance(raw.get("tool"), str):
        return "A call names its `tool`, and its `call_id` is text."
    if len(raw.get("call_id", "")) > MAX_CALL_ID:
        return f"`call_id` is longer than {MAX_CALL_ID} characters."
    for name in ("goal", "pin_hash", "target_resource", "supersedes"):
        if not isinstance(raw.get(name, ""), str | None):
            return f"`{name}` must be text."
    # Whoever asks for a trial in a form that nobody reads must not get the real thing.
    if not isinstance(raw.get("dry_run"), bool | None):
        return "`dry_run` is true or false."
    for name in ("depends_on", "acknowledges"):
        if not _texts(raw.get(name)):
            return f"`{name}` must be a list of at most {MAX_NAMED} action ids."
    if not isinstance(outcome, dict) or not isinstance(outcome.get("target_resource", ""), str | None):
        return "`intended_outcome` is an object with `target_resource` and `expected_predicates`."
    return "" if _texts(outcome.get("expected_predicates")) else "`expected_predicates` must be a list of text."


def _texts(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and len(value) <= MAX_NAMED and all(isinstance(one, str) for one in value)


MINUTE = timedelta(minutes=1)


def is_flood(open_now: int, *, most: int) -> bool:
    """Return whether an agent has as many approvals waiting as the limit allows (B38); 0 means no limit.

    Further calls are refused until people have caught up. Earlier requests keep their place in the queue.
    """
    return 0 < most <= open_now


def check_voting_rate(votes: Sequence[datetime], *, most: int, at: datetime) -> None:
    """Refuse another vote if the person has given as many as allowed in the last minute (B38); 0 means no limit."""
    if 0 < most <= sum(at - MINUTE < given <= at for given in votes):
        raise RateExceeded("You have voted too many times in the last minute; wait a moment.", retry_after_s=60)
