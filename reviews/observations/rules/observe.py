"""Observations: the answer of a tool or its runtime, as evidence (R-OB-01 to R-OB-05, R-OB-11).

1. The status is one of success, failed, partial, pending, accepted, timeout; anything else, and an
   answer that contradicts itself (a success with an error or with text in the form of one, a failure
   with evidence; R-TC-12), is MALFORMED (R-OB-02). The answer is kept, never repaired.
2. No answer changes what is believed (R-OB-03): it decides only where to look next.
3. `failed` is proof of nothing, also where the executor says that nothing left it (`error.phase` is `before_send`): it
   is read back (R-EX-09, R-EX-24). Only where no system can be read does the executor's word end the action as FAILED,
   and the record says that it is no more than that.
4. `accepted` waits in ACCEPTED, `timeout` is UNKNOWN (R-EX-07), everything else is verified.
5. `failed` with the phase `rolled_back` is a tool's word that its local transaction left nothing. The action
   stays EXECUTING until a reading shows that (R-RP-36); outside a local transaction it is a failure like any.
6. An answer after the lease is taken all the same: it moves UNKNOWN to PENDING. Later still it changes
   no state and counts as late truth (R-OB-13).
7. A result may name the `next_tool`. That is evidence too: it counts only where the tool's contract chains to that one
   and the session discloses it; else it is dropped, and that it was is recorded (R-MC-12, C-34).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ledger.record.rules.lifecycle import Ground, State
from reviews.verification.rules.steps import KINDS, Changes, Entry, LifecycleStep, entry_changes

BEFORE_SEND = "before_send"
ROLLED_BACK = "rolled_back"


class ReportedStatus(StrEnum):
    """The status that an answer reports."""

    SUCCESS = "success"
    FAILED = "failed"
    PARTIAL = "partial"
    PENDING = "pending"
    ACCEPTED = "accepted"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"


SPOKEN = frozenset(ReportedStatus) - {ReportedStatus.MALFORMED}
# The forms in which programs write errors: a name such as `FileNotFoundError`, or one of a few words, then a colon and
# what is the matter. Counts (`Failed: 0`) and prose have other forms.
_ERROR_FORM = re.compile(
    r"\W{0,4}(?:mcp )?(?:[\w.]*(?:error|exception|failure)|fatal|failed|panic"
    r"|e(?:noent|acces|perm|exist|isdir|notdir|notempty|rofs|busy|timedout|conn[a-z]+))"
    r"(?: (?:executing|calling|in|while|at) [^:]{1,80}| [-\w.]*\d[-\w.]*| ?[(\[][^)\]]{1,40}[)\]])?:[*_`]{0,3} (?!\d)"
    r"|Traceback \(most recent call last\)",
    re.IGNORECASE,
)
STILL_WORKING = frozenset({ReportedStatus.PENDING, ReportedStatus.ACCEPTED})


@dataclass(frozen=True, kw_only=True)
class ParsedObservation:
    """A tool answer in normalised form; `fault` is the reason for a MALFORMED one."""

    status: ReportedStatus
    error_code: str | None = None
    error_message: str | None = None
    error_phase: str | None = None
    evidence: Any = None
    side_effects: tuple[Any, ...] = ()
    sub_results: tuple[Any, ...] = field(default=())
    fault: str = ""

    @property
    def claimed_success(self) -> bool:
        """Return whether the tool reported complete success."""
        return self.status is ReportedStatus.SUCCESS

    @property
    def nothing_sent(self) -> bool:
        """Return True if the executor attests that nothing was sent, and the answer does not contradict it
        (R-EX-09).
        """
        silent = not self.side_effects and not self.sub_results
        return self.status is ReportedStatus.FAILED and self.error_phase == BEFORE_SEND and silent

    @property
    def undone(self) -> bool:
        """Return True if the tool attests that it rolled everything back, and the answer does not contradict it."""
        silent = not self.side_effects and not self.sub_results
        return self.status is ReportedStatus.FAILED and self.error_phase == ROLLED_BACK and silent


def parse_result(result: Any, *, tool: str, sub_results: Any = None) -> ParsedObservation:
    """The observation in a tool's result as it came (rule 1)."""
    fault = _fault(result, tool=tool, sub_results=sub_results)
    if fault:
        return ParsedObservation(status=ReportedStatus.MALFORMED, fault=fault)
    error = result.get("error") or {}
    return ParsedObservation(
        status=ReportedStatus(result["status"]),
        error_code=error.get("code"),
        error_message=error.get("message"),
        error_phase=error.get("phase"),
        evidence=result.get("evidence"),
        side_effects=tuple(result.get("side_effects") or ()),
        sub_results=tuple(sub_results or ()),
    )


def _fault(result: Any, *, tool: str, sub_results: Any) -> str:
    if not isinstance(result, Mapping):
        return "The result is not an object."
    status, named = result.get("status"), result.get("tool")
    if not isinstance(status, str) or status not in SPOKEN:
        return f"The status {status!r:.60} is not one of: {', '.join(sorted(SPOKEN))}."
    if named is not None and named != tool:
        return f"The result names the tool {named!r:.80}, but {tool} was called."
    return _part_fault(result, sub_results) or _contradiction(result)


def _part_fault(result: Mapping[str, Any], sub_results: Any) -> str:
    error = result.get("error")
    if error is not None and not isinstance(error, Mapping):
        return "The error is not an object."
    if any(not isinstance(part, str | None) for part in _error_parts(error)):
        return "A part of the error is not text."
    if not isinstance(result.get("side_effects"), list | tuple | None):
        return "The side effects are not a list."
    if not isinstance(sub_results, list | tuple | None):
        return "The sub-results are not a list."
    return ""


def _error_parts(error: Mapping[str, Any] | None) -> list[Any]:
    return [(error or {}).get(name) for name in ("code", "message", "phase")]


def _contradiction(result: Mapping[str, Any]) -> str:
    if result["status"] == ReportedStatus.SUCCESS and result.get("error"):
        return "The result says success and carries an error."
    if result["status"] == ReportedStatus.SUCCESS and (text := _error_text(result.get("evidence"))):
        return f"The tool answered with text; it gave no sign of an error and did not state an outcome: “{text}”"
    if result["status"] == ReportedStatus.FAILED and result.get("evidence"):
        return "The result says failed and carries evidence of an effect."
    return ""


def _error_text(evidence: object) -> str:
    """Return the beginning of evidence in the form of a runtime's error message; otherwise empty."""
    text = " ".join(evidence.split()) if isinstance(evidence, str) else ""
    return text[:200] if _ERROR_FORM.match(text) else ""


def observation_bindings(observation: ParsedObservation | None) -> dict[str, Any]:
    """Return the answer as expressions see it (`so`); empty without an answer, so that it decides nothing."""
    if observation is None:
        return {}
    error = dict(zip(("code", "message", "phase"), _parts(observation), strict=True))
    return {
        "status": str(observation.status),
        "success": observation.claimed_success,
        "error": {name: part for name, part in error.items() if part is not None},
        "side_effects": list(observation.side_effects),
        **({"evidence": observation.evidence} if observation.evidence is not None else {}),
    }


def _parts(observation: ParsedObservation) -> tuple[str | None, str | None, str | None]:
    return observation.error_code, observation.error_message, observation.error_phase


def deciding_observation(observations: Sequence[ParsedObservation]) -> ParsedObservation | None:
    """Return the answer that a reading is compared with, of several in the order of their arrival.

    A claim of success is not taken back by a later answer: absence then contradicts it and is held for a
    person, instead of becoming FAILED. Without a claim, the newest answer tells.
    """
    claims = [one for one in observations if one.claimed_success]
    return claims[-1] if claims else next(reversed(observations), None)


def next_state(
    observation: ParsedObservation, state: State, *, local: bool = False, readable: bool = False
) -> State | None:
    """Return the state that an answer leads to, or None if it changes none (rules 3 to 6)."""
    if state is State.UNKNOWN:
        return State.PENDING
    if state is State.ACCEPTED:
        return None if observation.status is ReportedStatus.ACCEPTED else State.PENDING
    if state is not State.EXECUTING:
        return None
    if observation.nothing_sent and not readable:
        return State.FAILED
    if observation.undone and local:
        return None
    return {ReportedStatus.ACCEPTED: State.ACCEPTED, ReportedStatus.TIMEOUT: State.UNKNOWN}.get(
        observation.status, State.PENDING
    )


def answer_step(
    observation: ParsedObservation,
    *,
    state: State,
    entry: Entry,
    pointer: str,
    at: datetime,
    local: bool = False,
    readable: bool = False,
) -> LifecycleStep:
    """Return the event that records an answer, and its step; `pointer` leads to the stored answer (R-OB-12).

    `local`: the tool's whole effect lies inside one local transaction. `readable`: what it changes can be read back.
    """
    seen: Changes = {"execution": {"observation_pointer": pointer}}
    after = next_state(observation, state, local=local, readable=readable)
    if after is None:
        return LifecycleStep(
            state=state, kind="observed", reason=describe_observation(observation), moves=False, entry=seen
        )
    changes = entry_changes(after, entry, at=at)
    if after is State.FAILED:
        changes = _never_ran(entry)
    changes["execution"] = {**changes["execution"], **seen["execution"]}
    return LifecycleStep(
        state=after,
        kind="observed" if after is not State.FAILED else KINDS[after],
        reason=describe_observation(observation),
        grounds=frozenset({Ground.NOTHING_SENT}) if after is State.FAILED else frozenset(),
        entry=changes,
    )


def _never_ran(entry: Entry) -> Changes:
    """Handle an attempt of which nothing was sent, by the executor's statement: nothing to verify (C-41, C-59); the key
    may be used again.
    """
    changes: Changes = {
        "execution": {"status": "FAILED"},
        "verification": {"status": "NOT_REQUIRED"},
        "reconciliation": {"status": "NOT_STARTED"},
    }
    if "idempotency" in entry:
        changes["idempotency"] = {"status": "FAILED_RETRYABLE"}
    return changes


def next_tool(result: object, *, chained: Collection[str], disclosed: Collection[str]) -> dict[str, Any] | None:
    """Return the next tool that a result names, and whether it is used (rule 7); None if it names none."""
    name = result.get("next_tool") if isinstance(result, Mapping) else None
    if name is None:
        return None
    if not isinstance(name, str):
        return {"name": "", "taken": False, "why": "NOT_A_NAME"}
    why = "NOT_CHAINED" if name not in chained else "NOT_DISCLOSED" if name not in disclosed else ""
    # A name that leads nowhere is the tool's free text; it is in the evidence and goes no further.
    return {"name": name if not why else "", "taken": not why, "why": why}


def describe_observation(observation: ParsedObservation) -> str:
    """Return one sentence on the answer, as evidence."""
    if observation.status is ReportedStatus.MALFORMED:
        return f"The answer cannot be used: {observation.fault}"
    if observation.nothing_sent:
        return "The executor says that it failed before anything was sent; that is its word, and no reading."
    if observation.undone:
        return "The tool says that it rolled everything back; a reading must show that."
    detail = f" ({observation.error_code})" if observation.error_code else ""
    return f"The tool answered {observation.status}{detail}; that is evidence, not yet the outcome."
