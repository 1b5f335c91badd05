"""The edge of the API: one transaction of the caller's tenant around a view, and one answer per idempotency key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from kombu.exceptions import OperationalError
from ninja.parser import Parser

from console import operations, queries
from console.api.caller import Caller, with_types_of
from ledger.rules.canonical import digest, read
from ledger.rules.refusals import Refused
from ledger.tenancy import tenancy

log = logging.getLogger(__name__)


class IdempotencyConflict(Refused):
    """This idempotency key was used with another body."""

    code = "IDEMPOTENCY_CONFLICT"


class NotFound(Refused):
    """There is no such thing here."""

    code = "NOT_FOUND"
    status = 404


class StrictParser(Parser):
    """Request bodies in the strict profile: what is hashed later must mean one thing."""

    def parse_body(self, request: HttpRequest) -> Any:
        return read(request.body)


def answer(value: Any, status: int = 200) -> HttpResponse:
    """A JSON answer; ids and times become text."""
    return HttpResponse(
        orjson.dumps(value, default=_text, option=orjson.OPT_UTC_Z), status=status, content_type="application/json"
    )


def _text(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def in_tenancy(view: Callable[..., Any]) -> Callable[..., Any]:
    """Run a view inside the caller's tenant; a write with an `Idempotency-Key` is carried out once.

    The reservation, the write and its answer are one transaction. If we crash before the commit, none of it happened
    and the repeat does it; if we crash after, the repeat gets the first answer.
    """

    @wraps(view)
    def run(request: Any, *args: Any, **kwargs: Any) -> Any:
        caller: Caller = request.auth
        key = request.headers.get("Idempotency-Key") if request.method == "POST" else None
        with tenancy(caller.tenant_id):
            if not key:
                return view(request, *args, **kwargs)
            return _once(request, caller, digest(key.encode()), lambda: view(request, *args, **kwargs))

    return with_types_of(view, run)


def _once(request: Any, caller: Caller, key_hash: str, write: Callable[[], HttpResponse]) -> HttpResponse:
    request_hash = digest(f"{request.path}\n".encode() + request.body)
    tenant_id, by = caller.tenant_id, caller.actor.id
    if operations.reserve_answer(
        tenant_id=tenant_id, caller=by, key_hash=key_hash, request_hash=request_hash, at=timezone.now()
    ):
        response = write()
        operations.store_answer(
            tenant_id=tenant_id, caller=by, key_hash=key_hash, status=response.status_code, body=response.content
        )
        return response
    first = queries.answered(tenant_id, by, key_hash)
    if first is None or first.request_hash != request_hash:
        raise IdempotencyConflict
    return HttpResponse(bytes(first.body), status=first.status, content_type="application/json")


def after_commit(task: Any) -> None:
    """Hint a worker once this transaction has committed; the sweeper finds what a lost hint would have told."""

    def hint() -> None:
        try:
            task.apply_async(retry=False)
        except (OSError, OperationalError):
            log.warning("the broker did not take a hint for %s", task.name)

    transaction.on_commit(hint)
