"""Reads a recorded answer as an observation.

Recordings hold whatever a tool returned: objects, words, errors. Nothing of it is proof (R-OB-03). It gets one of the
six statuses by marks that can be named, and `reviews.observations.rules.observe` takes it from there:

1. The recording's own mark (is_error, status error) means failed; an error that names a time-out is a time-out.
2. An object with an error in it, `success: false`, an exit code other than 0, or a status code from 400 up has failed;
   202 is accepted, and an exit code of 0 is a success.
3. A word such as `pending` under `status` counts only if the object is a result and not a thing: the status of an order
   that a tool returned is the order's. An object that holds lists and objects is a thing, and so is anything that a
   read-only tool returns.
4. Text that begins like an error has failed. Any other answer states no outcome (`typed` False): free text that says
   "completed" adds nothing (HS-10). It is believed as far as `--trust` goes, and reported as not stated.
5. Ids, receipts, confirmation numbers and addresses in the answer can be cited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil_transcripts.reading.records import TranscriptAnswer
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus, parse_result

MOST_EVIDENCE = 12
_STATUS = {
    **dict.fromkeys(
        ("success", "succeeded", "ok", "completed", "complete", "done", "confirmed"), ReportedStatus.SUCCESS
    ),
    **dict.fromkeys(("failed", "failure", "error", "rejected", "denied", "declined", "refused"), ReportedStatus.FAILED),
    **dict.fromkeys(("pending", "processing", "in_progress", "in progress", "running"), ReportedStatus.PENDING),
    **dict.fromkeys(("accepted", "queued", "submitted", "enqueued", "received"), ReportedStatus.ACCEPTED),
    **dict.fromkeys(
        ("partial", "partially_completed", "partial_success", "partially completed"), ReportedStatus.PARTIAL
    ),
    **dict.fromkeys(("timeout", "timed_out", "timed out", "deadline_exceeded"), ReportedStatus.TIMEOUT),
}
_ERRORS = ("error", "errors", "error_message", "errorMessage", "error_code", "exception", "fault")
_FLAGS = ("success", "ok", "succeeded", "successful")
_EXITS = ("exit_code", "exitCode", "returncode", "return_code")
_FAILED = ("isError", "is_error", "interrupted", "cancelled", "timed_out", "timedOut")
_CODES = ("status_code", "statusCode", "http_status", "httpStatus")
_BAD = re.compile(
    r"^\W*(error|exception|traceback|failed|failure|fatal|invalid|unauthori[sz]ed|forbidden|not found|denied|"
    r"cannot|can't|could not|unable to|permission denied|unknown tool|no such|tool \S+ (not found|does not exist)|"
    r"\w*(error|exception)\b\s*[:(]|(an? )?(unexpected |internal )?error (occurred|executing|calling|while))",
    re.IGNORECASE,
)
_LATE = re.compile(r"\btim(ed|e)[ -]?out\b|\bdeadline exceeded\b", re.IGNORECASE)
_CITABLE = re.compile(
    r"(^|_)(id|ids|number|no|receipt|confirmation|reference|ref|url|uri|link|href|sha|etag|code|path|ticket|key)$", re.I
)
_IN_TEXT = re.compile(r"https?://[^\s)\"'>\]]+|#?\b[A-Za-z]{1,12}[-_]?\d[\w-]{2,}\b|\b\d{5,}\b")


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """One answer: its stated status, whether it is typed, and its citable values."""

    observation: ParsedObservation
    typed: bool
    evidence: tuple[str, ...]
    content: Any
    reason: str = ""
    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def status(self) -> ReportedStatus:
        """The status in the answer."""
        return self.observation.status


def parse_answer(answer: TranscriptAnswer, tool: str, *, mutating: bool = True) -> ParsedAnswer:
    """Parse an answer to a call of this tool."""
    content = answer.content
    status, typed = _status(content, answer.failed, mutating)
    reason = _reason(content) if status in {ReportedStatus.FAILED, ReportedStatus.TIMEOUT} else ""
    error = {"message": reason} if reason else None
    done, still = _parts(content) if status is ReportedStatus.PARTIAL else ((), ())
    seen = parse_result({"tool": tool, "status": str(status), "error": error, "evidence": None}, tool=tool)
    return ParsedAnswer(seen, typed, tuple(_evidence(content)), content, reason, done, still)


def _status(content: Any, mark: bool | None, mutating: bool) -> tuple[ReportedStatus, bool]:
    if mark:
        late = isinstance(content, str) and _LATE.search(content[:500])
        return (ReportedStatus.TIMEOUT if late else ReportedStatus.FAILED), True
    if isinstance(content, dict):
        found = _of_object(content, mutating)
        return (found, True) if found is not None else (ReportedStatus.SUCCESS, mark is False)
    if isinstance(content, str):
        found = _of_words(content)
        return (found, False) if found is not None else (ReportedStatus.SUCCESS, mark is False)
    return ReportedStatus.SUCCESS, mark is False


def _of_object(content: Mapping[str, Any], mutating: bool) -> ReportedStatus | None:
    error = next((content[name] for name in _ERRORS if content.get(name)), None)
    flag = next((content[name] for name in _FLAGS if isinstance(content.get(name), bool)), None)
    code = next((content[name] for name in _CODES if isinstance(content.get(name), int)), 0)
    exit_code = next((content[name] for name in _EXITS if _is_number(content.get(name))), None)
    mark = next((name for name in _FAILED if content.get(name) is True), "")
    if mutating and _halves(content):
        return ReportedStatus.PARTIAL
    if error is not None and flag is not True:
        return ReportedStatus.TIMEOUT if _LATE.search(str(error)[:500]) else ReportedStatus.FAILED
    if code in {408, 504}:
        return ReportedStatus.TIMEOUT
    if mark.startswith("timed"):
        return ReportedStatus.TIMEOUT
    if flag is False or code >= 400 or mark or exit_code:
        return ReportedStatus.FAILED
    if exit_code == 0:
        return ReportedStatus.SUCCESS
    word = _word(content) if mutating else None
    if word is None and code == 202:
        return ReportedStatus.ACCEPTED
    return word if word is not None else ReportedStatus.SUCCESS if flag else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _word(content: Mapping[str, Any]) -> ReportedStatus | None:
    """The status of a result, and not of an object that was returned (rule 3)."""
    named = content.get("status", content.get("state"))
    found = _STATUS.get(named.strip().lower()) if isinstance(named, str) else None
    inner = content.keys() - {"result", "data", "error", "errors", "evidence", "side_effects", "details", "meta"}
    is_thing = any(isinstance(content[name], list | dict) for name in inner)
    return None if is_thing else found


def _halves(content: Mapping[str, Any]) -> bool:
    done, still = _parts(content)
    return bool(done and still)


def _parts(content: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts that a result names as done and as not done."""
    if not isinstance(content, dict):
        return (), ()
    done = _named_members(content, ("succeeded", "completed", "done", "successes", "sent"))
    return done, _named_members(content, ("failed", "failures", "errors", "open", "remaining", "not_sent"))


def _named_members(content: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    listed = next((content[name] for name in names if isinstance(content.get(name), list)), ())
    return tuple(str(one.get("id", one.get("name", ""))) if isinstance(one, dict) else str(one) for one in listed)[:20]


def _of_words(content: str) -> ReportedStatus | None:
    start = content[:300]
    if not _BAD.match(start):
        return ReportedStatus.TIMEOUT if len(content) < 200 and _LATE.search(start) else None
    return ReportedStatus.TIMEOUT if _LATE.search(start) else ReportedStatus.FAILED


def _reason(content: Any) -> str:
    """Return the reason of a failure, in one line of the answer's own text."""
    if isinstance(content, dict):
        found = next(
            (
                content[name]
                for name in (*_ERRORS, "message", "detail", "reason", "stderr", "output")
                if content.get(name)
            ),
            "",
        )
        return _reason(found) if found else ""
    if isinstance(content, list):
        return _reason(content[0]) if content else ""
    return " ".join(str(content).split())[:300] if content is not None else ""


def _evidence(content: Any) -> Iterator[str]:
    found = _citable_values(content, 0) if isinstance(content, dict | list) else _IN_TEXT.findall(str(content)[:2000])
    for number, one in enumerate(dict.fromkeys(found)):
        if number >= MOST_EVIDENCE:
            return
        yield one[:200]


def _citable_values(content: Any, depth: int) -> Iterator[str]:
    if isinstance(content, list):
        for one in content[:10]:
            yield from _citable_values(one, depth + 1)
        return
    if not isinstance(content, dict):
        return
    for name, value in list(content.items())[:60]:
        if isinstance(value, str | int) and not isinstance(value, bool) and _CITABLE.search(str(name)):
            yield str(value)
        elif isinstance(value, dict | list) and depth < 2:
            yield from _citable_values(value, depth + 1)
