"""Run API views in one transaction of the caller's tenant, and each idempotency key once."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from kombu.exceptions import OperationalError
from ninja.parser import Parser
from ninja.utils import contribute_operation_callback
from pydantic_core import to_json

from approvals.gate.rules.proposals import read_batch
from approvals.voting.operations.refusal_records import write_refusal_records
from console.accounts import operations as accounts_operations
from console.accounts import queries as accounts_queries
from console.accounts.step_up import run_with_proof
from console.edge.auth import Caller, caller_of, copy_annotations, readmit
from console.edge.schemas import Answer
from ledger.db import tenancy
from ledger.log import newest_heads
from ledger.record.rules.canonical import NotCanonical, read
from ledger.record.rules.refusals import IdempotencyConflict, RefusalRecord, Refused

if TYPE_CHECKING:
    from celery import Task

log = logging.getLogger(__name__)


class StrictParser(Parser):
    """Request bodies in the strict profile: anything hashed later must be unambiguous.

    Of a batch of calls, one outside the profile is refused by the gate alone, so that it is on record and the others
    go on (R-MC-06).
    """

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            return read(request.body)
        except NotCanonical:
            batch = read_batch(request.body) if request.path.endswith("/calls") else None
            if batch is None:
                raise
            return batch


def json_response(answer: object, status: int = 200) -> HttpResponse:
    """A JSON answer. Fields without a value are omitted, since some answers contain less for some callers."""
    if isinstance(answer, Answer):
        content = answer.__pydantic_serializer__.to_json(answer, by_alias=True, exclude_unset=True)
    else:
        content = to_json(answer, by_alias=True)
    return HttpResponse(content, status=status, content_type="application/json")


READS = frozenset({"GET", "HEAD"})
CHECKPOINT = "Counterfoil-Checkpoint"
"""The header with the newest signed checkpoint of the caller's tenant, in Base64: of this record in an answer, and of
what the caller has seen in a claim and a start.
"""


@contextmanager
def request_tenancy(request: Any, tenant_id: UUID) -> Iterator[None]:
    """The transaction of one request. Of a read, the database refuses every write but the access record.

    What was read goes on record in a transaction of its own, after the reading and before the answer leaves. If we
    crash between the two, nobody was answered.
    """
    request.accesses = []
    is_read = request.method in READS
    with tenancy(tenant_id, reads_only=is_read, plans_once=not is_read):
        yield
    if request.accesses:
        with tenancy(tenant_id):
            for write in request.accesses:
                write()


def note_access(request: Any, write: Callable[..., object], **facts: Any) -> None:
    """Let `write` record what this request has read: at once in a writing request, else after the reading."""
    if request.method in READS:
        request.accesses.append(partial(write, **facts))
    else:
        write(**facts)


def record_read(request: HttpRequest, kind: str, thing_id: UUID, about_id: UUID | None = None) -> None:
    """Note that this caller has read something."""
    caller = caller_of(request)
    note_access(
        request,
        accounts_operations.record_sighting,
        tenant_id=caller.tenant_id,
        by=caller.actor,
        kind=kind,
        thing_id=thing_id,
        about_id=about_id,
        at=timezone.now(),
    )


def in_tenancy(view: Callable[..., Any]) -> Callable[..., Any]:
    """Run a view inside the caller's tenant; a write with an `Idempotency-Key` is carried out once.

    The view returns its answer, which is sent with the status that the operation declares.
    """
    declared: list[int] = []

    @wraps(view)
    def run(request: Any, *args: Any, **kwargs: Any) -> Any:
        return run_once(request, lambda: view(request, *args, **kwargs), status=declared[0])

    contribute_operation_callback(run, lambda operation: declared.extend(operation.response_models))
    return copy_annotations(view, run)


def run_once(
    request: Any,
    write: Callable[[], Answer | HttpResponse | None],
    *,
    status: int = 200,
    bound_to: str = "",
    proof: str | None = None,
) -> HttpResponse | None:
    """Run `write` in the caller's tenant, or return the answer that its `Idempotency-Key` got before.

    The reservation, the write and its answer are one transaction. If we crash before the commit, none of it happened
    and the repeat does it; if we crash after, the repeat gets the first answer. `bound_to` is what else must be the
    same in a repeat; the id of a `proof` of possession is spent first, for a repeat too. A `write` that returns None
    has nothing to answer yet: what it wrote stays, the key is free. `status` is sent with an answer that is no response
    yet.
    """
    caller = caller_of(request)
    body = request.body if request.method == "POST" else b""
    key = request.headers.get("Idempotency-Key") if request.method == "POST" else None

    def respond() -> HttpResponse | None:
        answer = write()
        return answer if answer is None or isinstance(answer, HttpResponseBase) else json_response(answer, status)

    def write_once() -> HttpResponse | None:
        with request_tenancy(request, caller.tenant_id):
            if key:
                answer = _once(caller, key, f"{request.path}\n{bound_to}\n".encode() + body, respond, proof)
            else:
                if proof is not None:
                    accounts_operations.consume_proof(tenant_id=caller.tenant_id, jti=proof, at=timezone.now())
                answer = respond()
            note = newest_heads.newest_checkpoint(caller.tenant_id) if answer is not None else None
            if answer is not None and note is not None:
                answer[CHECKPOINT] = b64encode(note).decode()
            return answer

    try:
        if caller.kind != "person":
            return write_once()
        return run_with_proof(request, write_once, read_caller=lambda: readmit(request))
    except Refused as refusal:
        record_refusal(caller.tenant_id, refusal.records)
        raise


def record_refusal(tenant_id: UUID, records: Collection[RefusalRecord]) -> None:
    """Write the records of a refused request, in their own transaction after the rollback.

    If we crash between the two, the refused request has done nothing and nobody was answered: it is as if it had never
    come, and a repeat is refused and recorded anew. What else a refusal leads to is found again in the same way: the
    challenge can be answered until it runs out, by its own key alone; a copied key shows its counter at its next use;
    a changed target is seen by the next vote, and by the claim and the start before anything is done.
    """
    if records:
        with tenancy(tenant_id):
            write_refusal_records(tenant_id, records)


def _once(
    caller: Caller, key: str, request: bytes, write: Callable[[], HttpResponse | None], proof: str | None
) -> HttpResponse | None:
    of: dict[str, Any] = {"tenant_id": caller.tenant_id, "caller": caller.actor.id, "key": key}
    if accounts_operations.reserve_answer(**of, request=request, proof=proof, at=timezone.now()):
        response = write()
        if response is None:
            accounts_operations.release_answer(**of)
        else:
            accounts_operations.store_answer(**of, status=response.status_code, body=response.content)
        return response
    first = accounts_queries.stored_answer(**of, request=request)
    if first is None:
        raise IdempotencyConflict
    status, content = first
    kind = "application/problem+json" if status >= 400 else "application/json"
    return HttpResponse(content, status=status, content_type=kind)


def after_commit(task: Task[..., Any], *args: str) -> None:
    """Hint a worker once this transaction has committed; a tick covers lost hints."""

    def hint() -> None:
        try:
            task.apply_async(args=args, retry=False)
        except (OSError, OperationalError):
            log.warning("the broker did not take a hint for %s", task.name)

    transaction.on_commit(hint)
