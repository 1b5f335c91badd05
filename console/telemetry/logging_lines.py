"""The fields of a log line, and what it may not contain.

A line names the request, its trace, its tenant or its task. No line holds a payload: the message of an exception may
quote input (a database quotes the row that it refuses), so only its type, its code and the places in our files are
logged. Everything else is in the ledger, sealed.
"""

from __future__ import annotations

import copy
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

_REQUEST_ID: Final = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
_TRACEPARENT: Final = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$")
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_MOST_CAUSES: Final = 8
# Celery tells of a task that failed with these, each of which may quote what was sent.
_CELERY_QUOTES: Final = frozenset({"exc", "traceback", "args", "kwargs", "return_value"})
_facts: ContextVar[dict[str, str] | None] = ContextVar("counterfoil_log_facts", default=None)


@contextmanager
def logged_with(**facts: str) -> Iterator[dict[str, str]]:
    """Every line logged inside has these fields and those of `add_log_facts`; yields the fields."""
    found = {**(_facts.get() or {}), **facts}
    token = _facts.set(found)
    try:
        yield found
    finally:
        _facts.reset(token)


def add_log_facts(**facts: str) -> None:
    """Add these facts to the log lines of the rest of this request or task."""
    known = _facts.get()
    if known is not None:
        known.update(facts)


def current_facts() -> Mapping[str, str]:
    return dict(_facts.get() or {})


def name_requests(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: lines name the request and its trace, and the answer names the request (`X-Request-ID`)."""
    if iscoroutinefunction(get_response):

        async def streamed(request: HttpRequest) -> HttpResponseBase:
            with logged_with(**_request_facts(request)) as facts:
                request.log_facts = facts  # type: ignore[attr-defined]
                return _add_request_id(await get_response(request), facts)

        markcoroutinefunction(streamed)
        return streamed

    def answered(request: HttpRequest) -> HttpResponseBase:
        with logged_with(**_request_facts(request)) as facts:
            # Django logs a refusal when all middleware has returned.
            request.log_facts = facts  # type: ignore[attr-defined]
            return _add_request_id(get_response(request), facts)

    return answered


name_requests.sync_capable = True  # type: ignore[attr-defined]
name_requests.async_capable = True  # type: ignore[attr-defined]


def _request_facts(request: HttpRequest) -> dict[str, str]:
    sent = request.headers.get("X-Request-ID", "")
    trace = _TRACEPARENT.match(request.headers.get("traceparent", ""))
    return {
        "request_id": sent if _REQUEST_ID.match(sent) else uuid4().hex,
        **({"trace_id": trace.group(1)} if trace else {}),
    }


def _add_request_id(response: HttpResponseBase, facts: Mapping[str, str]) -> HttpResponseBase:
    response["X-Request-ID"] = facts["request_id"]
    return response


# Lines without payloads


def without_payload(record: logging.LogRecord) -> logging.LogRecord:
    """The same line with only type, code and places of an exception; in `facts` and `faults`."""
    line = copy.copy(record)
    if isinstance(record.args, Mapping):
        line.args = {name: "…" if name in _CELERY_QUOTES else _safe(value) for name, value in record.args.items()}
    elif record.args:
        line.args = tuple(_safe(value) for value in record.args)
    if isinstance(record.msg, BaseException):
        line.msg = fault_name(record.msg)
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    line.facts = current_facts() or dict(getattr(getattr(record, "request", None), "log_facts", {}))
    line.faults = faults_of(error) if error is not None else []
    line.exc_info = None
    line.exc_text = None
    line.stack_info = None
    return line


def _safe(value: Any) -> Any:
    return fault_name(value) if isinstance(value, BaseException) else value


def fault_name(error: BaseException) -> str:
    """The type of an exception, with its code if it has one, without its message."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    code = getattr(error, "sqlstate", None) or getattr(error, "code", None) or getattr(error, "errno", None)
    return f"{name} {code}" if isinstance(code, str | int) and re.fullmatch(r"[A-Za-z0-9_]+", str(code)) else name


def faults_of(error: BaseException) -> list[dict[str, Any]]:
    """An exception and its causes, each with its places, innermost last."""
    found: list[dict[str, Any]] = []
    at: BaseException | None = error
    while at is not None and len(found) < _MOST_CAUSES:
        frames = traceback.extract_tb(at.__traceback__)
        places = [f"{each.filename.removeprefix(_ROOT).lstrip('/')}:{each.lineno} {each.name}" for each in frames]
        found.append({"type": fault_name(at), "frames": places})
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return found


class LineFormatter(logging.Formatter):
    """Lines for a terminal: time, level, logger, message, the fields, and below it the places of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = without_payload(record)
        facts = "".join(f" {name}={value}" for name, value in line.__dict__["facts"].items())
        faults = "".join("\n  " + "\n    ".join([fault["type"], *fault["frames"]]) for fault in line.__dict__["faults"])
        return super().format(line) + facts + faults
