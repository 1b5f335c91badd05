"""The log over HTTP, as C2SP tlog-tiles has it: checkpoint, tiles, entries; and proofs and events by index.

What lies behind the newest signed checkpoint is not told here: nobody could check it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.execution import queries as execution_queries
from approvals.execution.operations.release_check import stop_of_starts
from console.edge.auth import admits, caller_of, copy_annotations
from console.edge.openapi import response_content
from console.edge.transaction import in_tenancy, record_read
from console.ledger import schemas, verbs
from console.verbs.verb import add_verbs
from counterfoil_tlog import tiles
from counterfoil_tlog.merkle import HASH_BYTES
from ledger.actions.queries import readings
from ledger.exports import queries as stored
from ledger.log.queries import log as logs
from ledger.log.rules.epoch import EpochUnknown
from ledger.log.rules.signing import NotSigned
from ledger.record.rules.refusals import NotFound, Refused
from ledger.retention import queries as retention_queries

router = Router(tags=["Ledger"])
READERS = ("audit", "compliance")


_NO_SUCH_ENTRY = "This entry is not in the log, or its event no longer exists."


class Pruned(Refused):
    """The event of this entry was pruned under a retention policy."""

    code = "PRUNED"
    status = 410


def _reads_log(view: Callable[..., Any]) -> Callable[..., Any]:
    """Give a view the newest log of its caller's tenant, and record the reader."""

    @wraps(view)
    def read(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        caller = caller_of(request)
        head = logs.current_log(caller.tenant_id)
        if head is None or head.note is None:
            raise NotSigned("No checkpoint of this log has been signed yet.")
        request.log = head  # type: ignore[attr-defined]
        record_read(request, "log", head.id)
        return view(request, *args, **kwargs)

    return copy_annotations(view, read)


def _log_of(request: HttpRequest) -> logs.LogHead:
    head: logs.LogHead = request.log  # type: ignore[attr-defined]
    return head


@router.get(
    "/ledger/checkpoint",
    summary="The newest signed checkpoint",
    openapi_extra=response_content("text/plain"),
    response=str,
)
@admits(*READERS)
@in_tenancy
@_reads_log
def checkpoint(request: HttpRequest) -> HttpResponse:
    head, tenant_id = _log_of(request), caller_of(request).tenant_id
    note = stored.cosigned_note(tenant_id, head, head.signed_size)
    return HttpResponse(note, content_type="text/plain; charset=utf-8")


@router.get(
    "/ledger/tile/entries/{path:place}",
    summary="The envelopes of 256 entries, each preceded by its length (C2SP tlog-tiles)",
    openapi_extra=response_content("application/octet-stream"),
    response=str,
)
@admits(*READERS)
@in_tenancy
@_reads_log
def entries(request: HttpRequest, place: str) -> HttpResponse:
    head, tenant_id = _log_of(request), caller_of(request).tenant_id
    tile, width = tiles.parse_path(f"tile/0/{place}")
    _check_width(tile, width, head)
    start = tile.index * tiles.WIDTH
    found = stored.event_contents(
        tenant_id, list(stored.leaf_events(tenant_id, head.number, start, start + width).values())
    )
    data = [found[index].envelope for index in range(start, start + width) if index in found]
    _refuse_pruned(tenant_id, head, range(start, start + width))
    if len(data) < width or any(len(each) > 0xFFFF for each in data):
        raise NotFound(detail=_NO_SUCH_ENTRY)
    body = b"".join(len(each).to_bytes(2, "big") + each for each in data)
    return _immutable(body)


@router.get(
    "/ledger/tile/{int:level}/{path:place}",
    summary="A tile of the tree: up to 256 hashes (C2SP tlog-tiles)",
    openapi_extra=response_content("application/octet-stream"),
    response=str,
)
@admits(*READERS)
@in_tenancy
@_reads_log
def tile(request: HttpRequest, level: int, place: str) -> HttpResponse:
    head, tenant_id = _log_of(request), caller_of(request).tenant_id
    wanted, width = tiles.parse_path(f"tile/{level}/{place}")
    _check_width(wanted, width, head)
    hashes = logs.tiles(tenant_id, head.number, [wanted]).get(wanted, b"")[: width * HASH_BYTES]
    if len(hashes) < width * HASH_BYTES:
        raise NotFound(detail=_NO_SUCH_ENTRY)
    return _immutable(hashes)


@router.get("/ledger/proof/inclusion", summary="The audit path of one entry", response=schemas.Inclusion)
@admits(*READERS)
@in_tenancy
@_reads_log
def inclusion(request: HttpRequest, wanted: Query[schemas.InclusionWanted]) -> schemas.Inclusion:
    head, tenant_id = _log_of(request), caller_of(request).tenant_id
    size = head.signed_size if wanted.size is None else wanted.size
    if size > head.signed_size:
        raise NotSigned("No checkpoint of that size has been signed yet.")
    if wanted.index >= size:
        raise NotFound(detail=_NO_SUCH_ENTRY)
    found = logs.tiles_to_prove(tenant_id, head.number, tiles.tiles_for_inclusion(wanted.index, size))
    leaf = stored.leaf_hashes(tenant_id, head.number, wanted.index, wanted.index + 1).get(wanted.index)
    if leaf is None:
        raise NotFound(detail=_NO_SUCH_ENTRY)
    proof = tiles.prove_inclusion(wanted.index, size, found)
    hashes = [each.hex() for each in proof]
    return schemas.Inclusion(origin=head.origin, index=wanted.index, size=size, leaf_hash=leaf.hex(), hashes=hashes)


@router.get(
    "/ledger/proof/consistency",
    summary="Consistency proof between two sizes of the log",
    response=schemas.Growth,
)
@admits(*READERS)
@in_tenancy
@_reads_log
def consistency(request: HttpRequest, wanted: Query[schemas.ConsistencyWanted]) -> schemas.Growth:
    head, tenant_id = _log_of(request), caller_of(request).tenant_id
    size = head.signed_size if wanted.upto is None else wanted.upto
    if size > head.signed_size:
        raise NotSigned("No checkpoint of that size has been signed yet.")
    if wanted.since > size:
        raise NotFound(detail=f"{wanted.since} is more than {size}.")
    found = logs.tiles_to_prove(tenant_id, head.number, tiles.tiles_for_consistency(wanted.since, size))
    proof = tiles.prove_consistency(wanted.since, size, found)
    hashes = [each.hex() for each in proof]
    return schemas.Growth(origin=head.origin, since=wanted.since, upto=size, hashes=hashes)


@router.get("/ledger/events", summary="Canonical envelopes, by index or of one action", response=schemas.LedgerEvents)
@admits(*READERS)
@in_tenancy
@_reads_log
def events(request: HttpRequest, wanted: Query[schemas.EventsWanted]) -> schemas.LedgerEvents:
    head, tenant_id = _log_of(request), caller_of(request).tenant_id
    end = min(head.signed_size if wanted.upto is None else wanted.upto, head.signed_size)
    if wanted.action is not None:
        told = stored.subject_leaf_events(
            tenant_id, head.number, wanted.action, wanted.since, end, limit=wanted.limit + 1
        )
    else:
        told = stored.leaf_events(tenant_id, head.number, wanted.since, min(end, wanted.since + wanted.limit))
        _refuse_pruned(tenant_id, head, range(wanted.since, min(end, wanted.since + wanted.limit)))
    shown = sorted(told.values(), key=lambda each: each.index)[: wanted.limit]
    kept = stored.event_contents(tenant_id, shown)
    items = [schemas.LedgerEvent.at(each.index, kept[each.index].envelope) for each in shown]
    if wanted.action is not None:
        following = shown[-1].index + 1 if len(told) > wanted.limit else None
    else:
        following = wanted.since + wanted.limit if wanted.since + wanted.limit < end else None
    return schemas.LedgerEvents(items=items, next=following)


def _refuse_pruned(tenant_id: UUID, head: logs.LogHead, indexes: range) -> None:
    gone = retention_queries.pruned_leaves(tenant_id, head.number, indexes)
    if gone:
        index, policy = min(gone.items())
        raise Pruned(f"Entry {index} was pruned under policy {policy}; its hash and proofs remain.")


def _check_width(tile: tiles.TileAddress, width: int, head: logs.LogHead) -> None:
    if width > tiles.width(tile, head.signed_size):
        raise NotFound(detail=_NO_SUCH_ENTRY)


def _immutable(data: bytes) -> HttpResponse:
    # A tile of one width never changes; it is for this caller's eyes all the same.
    response = HttpResponse(data, content_type="application/octet-stream")
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    return response


@router.get(
    "/ledger/standing", summary="Whether actions start on this record, and if not, why", response=schemas.Standing
)
@admits("person", "oper", "audit", "exec")
@in_tenancy
def read_standing(request: HttpRequest) -> schemas.Standing:
    tenant_id = caller_of(request).tenant_id
    stop: Refused | None
    try:
        stop = stop_of_starts(tenant_id)
    except EpochUnknown as unknown:
        stop = unknown
    return schemas.Standing(
        starts=stop is None,
        code=stop.code if stop else None,
        detail=stop.detail if stop else None,
        overrides=[
            schemas.Override.of(each) for each in execution_queries.overrides_in_force(tenant_id, at=timezone.now())
        ],
        unrecorded_starts=[schemas.UnrecordedStart(**each) for each in readings.unrecorded_starts(tenant_id)],
    )


add_verbs(router, __name__, (verbs.PLACE_OVERRIDE, verbs.END_OVERRIDE))
