"""Exports: requested by a person, made piece by piece, and recorded from the request to each download.

A piece is one file of lines, written whole and then counted in one transaction. If a worker dies before the commit,
the piece is written again, over the old one; if it dies after, the next piece is next: nothing is lost and nothing is
there twice. Putting the pieces together can be repeated as often as it takes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import DatabaseError

from counterfoil_tlog import tiles
from counterfoil_tlog.merkle import leaf_hash
from ledger.db import tenancy
from ledger.exports import queries
from ledger.exports.operations import bundles as files
from ledger.exports.operations import stores
from ledger.exports.rules import bundles, export_requests
from ledger.log.operations import anchoring
from ledger.log.queries import log
from ledger.models import Export
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused
from ledger.retention import queries as retention_queries
from ledger.verification.queries import storage

logger = logging.getLogger(__name__)
PIECE = 512
KEPT = timedelta(days=7)
PATIENCE = timedelta(minutes=1)
GIVEN_UP = timedelta(days=1)
MOST_RUNNING = 10

Information = Callable[[UUID, Sequence[Path]], Mapping[str, bytes]]
"""Members by name, of a tenant and the files of its disclosed events."""


class TooManyExports(Refused):
    """Too many exports are running; wait until one finishes."""

    code = "TOO_MANY_EXPORTS"


class NotFinished(Refused):
    """The export is not finished, or its result has been removed."""

    code = "NOT_FINISHED"


class ParquetUnavailable(Refused):
    """Parquet needs the package duckdb; choose JSON lines, or install the extra `export`."""

    code = "PARQUET_UNAVAILABLE"
    status = 422


def request_export(*, tenant_id: UUID, wanted: Mapping[str, Any], by: ledger.Actor, at: datetime) -> Export:
    """Record the request for an export; a worker makes the bundle."""
    asked = export_requests.validate_request(wanted)
    if asked["format"] == "parquet" and not files.has_parquet():
        raise ParquetUnavailable
    if len(queries.running_exports(tenant_id)) >= MOST_RUNNING:
        raise TooManyExports
    head = ledger.append(
        ledger.SubjectHead(tenant_id=tenant_id, id=ledger.new_id(at), kind="export"),
        ledger.NewEvent(kind="export_requested", to="REQUESTED", detail=asked),
        actor=by,
        at=at,
    )
    assert head.event_id is not None
    return Export.objects.create(
        tenant_id=tenant_id,
        id=head.id,
        state="REQUESTED",
        wanted=asked,
        event_id=head.event_id,
        requested_by=by.id,
        requester_kind=by.kind,
        requested_at=at,
    )


def advance_export(
    *,
    tenant_id: UUID,
    export_id: UUID,
    clock: Callable[[], datetime],
    information: Information = lambda *_: {"keys.json": b"{}\n"},
) -> bool:
    """Make the next piece of an export, or finish it; return False if there is nothing to do now.

    `information` makes the members that the bundle holds beside its evidence, for whoever works with it.
    """
    _anchor_newest_checkpoint(tenant_id, export_id, clock)
    with tenancy(tenant_id):
        at = clock()
        row = (
            Export.objects.select_for_update(skip_locked=True)
            .filter(tenant_id=tenant_id, id=export_id, state="REQUESTED")
            .first()
        )
        if row is None:
            return False
        if row.log == 0:
            return _fix_range(row, at=at)
        head = _head(tenant_id, row.log)
        if row.done < row.end:
            _make_piece(row, head)
        else:
            _finish(row, head, information, at=at)
        return True


def _anchor_newest_checkpoint(tenant_id: UUID, export_id: UUID, clock: Callable[[], datetime]) -> None:
    """Have witnesses and the time-stamp authority sign the newest checkpoint before the bundle is packed.

    Where they do not answer, the bundle says so.
    """
    if settings.COUNTERFOIL_WITNESSES is None and settings.COUNTERFOIL_TSA_URL is None:
        return
    with tenancy(tenant_id):
        row = queries.export(tenant_id, export_id)
    if row is None or row.state != "REQUESTED" or row.log == 0 or row.done < row.end:
        return
    try:
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock, at_once=True)
    except (DatabaseError, Refused):
        logger.exception("outsiders could not be asked to vouch for export %s", export_id)


def fetch_bundle(*, tenant_id: UUID, export_id: UUID, by: ledger.Actor, at: datetime) -> IO[bytes]:
    """Open the file of a finished export, and record the download."""
    file = finished_bundle(tenant_id=tenant_id, export_id=export_id, at=at)
    record_fetch(tenant_id=tenant_id, export_id=export_id, by=by, at=at)
    return file


def finished_bundle(*, tenant_id: UUID, export_id: UUID, at: datetime) -> IO[bytes]:
    """Open the file of a finished export, as long as it is kept."""
    row = queries.export(tenant_id, export_id)
    if row is None:
        raise NotFound("Export")
    if row.state != "FINISHED" or (row.expires_at and row.expires_at <= at):
        raise NotFinished
    file = stores.open_kept(_folder(tenant_id) / f"{export_id}.zip")
    if file is None:
        raise NotFinished
    return file


def record_fetch(*, tenant_id: UUID, export_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Record the person who downloads a bundle."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=export_id, kind="export")
    ledger.append(head, ledger.NewEvent(kind="export_fetched"), actor=by, at=at)


def remove_expired(*, tenant_id: UUID, at: datetime) -> int:
    """Remove the files of exports that have expired or failed, and return how many there were."""
    with tenancy(tenant_id):
        ended = queries.ended_exports(tenant_id, at=at)
    if not ended:
        return 0
    folder = _folder(tenant_id)
    kept = stores.kept_names(folder)
    places = {export_id: (f"{export_id}.zip", f"{export_id}.parts") for export_id in ended}
    removed = {export_id: [name for name in names if name in kept] for export_id, names in places.items()}
    for name in chain.from_iterable(removed.values()):
        stores.remove(folder / name)
    return sum(map(bool, removed.values()))


# The beginning: what the range is


def _fix_range(row: Export, *, at: datetime) -> bool:
    """Fix the range; False while the log is not signed far enough, and it is worth waiting."""
    wanted, waited = row.wanted, at - row.requested_at
    # Before the head: what is signed between the two statements must not be taken for a part of it.
    place = log.event_position(row.tenant_id, row.id, 1)
    head = next((h for h in log.logs(row.tenant_id) if wanted["log"] in (None, h.number)), None)
    if head is None or head.signed_size == 0:
        if waited > GIVEN_UP:
            _fail(row, "Nothing of this log has been signed.", at=at)
        return False
    # Until now means: with this very request.
    until_now = wanted["to"] is None and wanted["log"] is None
    if until_now and waited < PATIENCE and (place is None or not place.sealed):
        return False
    start = _resolve_bound(row, head, wanted["from"], otherwise=0)
    end = _resolve_bound(row, head, wanted["to"], otherwise=head.signed_size)
    if max(end, wanted["since"] or 0) > head.signed_size:
        _fail(row, f"The log has only {head.signed_size} signed entries.", at=at)
    elif start >= end:
        _fail(row, "There is nothing in this range.", at=at)
    else:
        Export.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
            log=head.number, start=start, end=end, done=start
        )
    return True


def _resolve_bound(row: Export, head: log.LogHead, bound: Any, *, otherwise: int) -> int:
    if bound is None:
        return otherwise
    time = export_requests.bound_time(bound)
    if time is None:
        return int(bound)
    return queries.first_index_since(row.tenant_id, head.number, time, size=head.signed_size)


def _fail(row: Export, reason: str, *, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="export")
    failed = ledger.NewEvent(kind="export_failed", to="FAILED", detail={"reason": reason})
    ledger.append(head, failed, actor=ledger.SYSTEM, at=at)
    Export.objects.filter(tenant_id=row.tenant_id, id=row.id).update(state="FAILED", reason=reason, finished_at=at)


# Pieces


def _make_piece(row: Export, head: log.LogHead) -> None:
    staged = _staging_folder(row.tenant_id, row.id)
    if not all(stores.fetch(file) for file in _piece_files(row)):
        # Pieces that were made elsewhere and are not kept in a bucket, or were removed, are made again.
        restart = {"done": row.start, "chunks": 0, "withheld": 0}
        Export.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**restart)
        return
    piece = ExportPiece(row, head, row.done, min(row.done + PIECE, row.end))
    lines = list(piece.lines())
    files.write_file(staged / _lines_file(row.chunks), b"".join(lines))
    if row.wanted["format"] in files.TABLES:
        files.TABLES[row.wanted["format"]](staged / _lines_file(row.chunks), staged / _table_file(row, row.chunks))
        stores.keep(staged / _table_file(row, row.chunks))
    stores.keep(staged / _lines_file(row.chunks))
    Export.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        done=piece.end, chunks=row.chunks + 1, withheld=row.withheld + piece.withheld
    )


@dataclass
class ExportPiece:
    """The lines of a few indexes."""

    row: Export
    head: log.LogHead
    start: int
    end: int
    withheld: int = 0
    erased: Mapping[UUID, Any] = field(default_factory=dict)

    def lines(self) -> Iterator[bytes]:
        """Every index of the piece, in order."""
        tenant_id, number = self.row.tenant_id, self.head.number
        told = queries.leaf_events(tenant_id, number, self.start, self.end)
        shown = self._disclosed_indexes(told)
        kept = queries.event_contents(tenant_id, [told[index] for index in shown])
        leaves = queries.leaf_hashes(tenant_id, number, self.start, self.end)
        self.erased = retention_queries.erased_subjects(tenant_id, {each.subject_id for each in told.values()})
        pruned = retention_queries.pruned_leaves(tenant_id, number, range(self.start, self.end))
        run: list[bytes] = []
        for index in range(self.start, self.end):
            if index in told and index not in shown and index in leaves:
                run.append(leaves[index])
                continue
            yield from self._flush(index, run)
            if index in kept:
                data = kept[index].envelope
                opened = self._open_commitments(told[index], kept[index])
                yield bundles.event_line(index, leaves.get(index) or leaf_hash(data), data, opened)
            elif index in leaves:
                by = pruned.get(index)
                yield bundles.lost_line(index, leaves[index], str(by) if by is not None else None)
        yield from self._flush(self.end, run)

    def _flush(self, index: int, run: list[bytes]) -> Iterator[bytes]:
        yield from bundles.withheld_lines(index - len(run), run)
        self.withheld += len(run)
        run.clear()

    def _disclosed_indexes(self, told: Mapping[int, export_requests.LeafEvent]) -> set[int]:
        filters = self.row.wanted["filters"]
        subjects = queries.matching_subjects(self.row.tenant_id, (each.subject_id for each in told.values()), filters)
        return {
            index
            for index, each in told.items()
            if each.subject_id == self.row.id or export_requests.discloses(filters, each, subjects)
        }

    def _open_commitments(
        self, told: export_requests.LeafEvent, kept: queries.EventContent
    ) -> list[bundles.OpenedCommitment]:
        """Open the commitments of an event; empty if its envelope cannot be read."""
        try:
            promises = [(each["purpose"], each["pointer"]) for each in orjson.loads(kept.envelope)["commitments"]]
        except (ValueError, KeyError, TypeError):
            return []
        own = {"entry": (kept.entry_salt, kept.entry), "detail": (kept.detail_salt, kept.detail)}
        gone = self._missing_content(told)
        evidence = self._evidence([pointer for _, pointer in promises if storage.is_uuid(str(pointer))])
        found = [
            evidence.get(pointer, bundles.OpenedCommitment())
            if pointer
            else bundles.OpenedCommitment(*own.get(purpose, (None, None)))
            for purpose, pointer in promises
        ]
        return [each if each.gone or each.data is not None else gone for each in found]

    def _missing_content(self, told: export_requests.LeafEvent) -> bundles.OpenedCommitment:
        """Explain why content of an event is missing: it was erased, or the reason is unknown."""
        erased = self.erased.get(told.subject_id)
        if erased is None or told.seq > erased.seq:
            return bundles.OpenedCommitment()
        return bundles.OpenedCommitment(gone="erased", by=str(erased.erasure_id))

    def _evidence(self, pointers: list[str]) -> dict[str, bundles.OpenedCommitment]:
        if not pointers:
            return {}
        stored = storage.stored_evidence(self.row.tenant_id, pointers)
        if not self.row.wanted["payloads"]:
            withheld = bundles.OpenedCommitment(gone="withheld")
            return {pointer: withheld for pointer, each in stored.items() if not each.emptied}
        return {pointer: bundles.OpenedCommitment(each.salt, each.data) for pointer, each in stored.items()}


# The end: everything in one file


def _finish(row: Export, head: log.LogHead, information: Information, *, at: datetime) -> None:
    folder, staged = _folder(row.tenant_id), _staging_folder(row.tenant_id, row.id)
    for file in _piece_files(row):
        stores.fetch(file)
    proven = _proof_files(row, head)
    parts: dict[str, bytes | Path] = {
        "README.txt": files.README.encode(),
        "verify_bundle.py": files.offline_verifier(),
        **information(row.tenant_id, [staged / _lines_file(n) for n in range(row.chunks)]),
        **proven,
        **{f"events/{n:06}.jsonl": staged / _lines_file(n) for n in range(row.chunks)},
    }
    if row.wanted["format"] in files.TABLES:
        parts |= {f"tables/{_table_file(row, n)}": staged / _table_file(row, n) for n in range(row.chunks)}
    manifest = bundles.manifest(
        origin=head.origin,
        within=bundles.LeafRange(row.start, row.end),
        withheld=row.withheld,
        request=_request(row),
        files=[files.manifest_entry(name, part) for name, part in parts.items()],
    )
    size, sha256 = files.write_zip(folder / f"{row.id}.zip", {"manifest.json": manifest, **parts})
    stores.keep_elsewhere(folder / f"{row.id}.zip")
    made = {"from": row.start, "to": row.end, "withheld": row.withheld, "size": size, "sha256": sha256}
    subject = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="export")
    finished = ledger.NewEvent(kind="export_finished", to="FINISHED", detail=made)
    ledger.append(subject, finished, actor=ledger.SYSTEM, at=at)
    Export.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        state="FINISHED", size=size, sha256=sha256, finished_at=at, expires_at=at + KEPT
    )
    stores.remove(staged)


def _request(row: Export) -> dict[str, Any]:
    selection = {name: row.wanted[name] for name in ("from", "to", "filters", "format", "payloads")}
    by = f"{row.requester_kind}/{row.requested_by}"
    return {"id": str(row.id), "event": str(row.event_id), "by": by, "at": instant(row.requested_at), **selection}


def _proof_files(row: Export, head: log.LogHead) -> dict[str, bytes]:
    """Checkpoints, time stamps, and the proofs that lead from the range to the newest checkpoint."""
    tenant_id, number, since = row.tenant_id, head.number, row.wanted["since"]
    least = max(row.end, since or 0)
    newest = queries.anchored_size(tenant_id, number, least=least) or head.signed_size
    wanted = {
        newest,
        queries.anchored_size(tenant_id, number),
        queries.last_signed_size(tenant_id, number, row.start),
        since,
    }
    notes = {size: queries.cosigned_note(tenant_id, head, size) for size in sorted(size for size in wanted if size)}
    if notes[newest] is None:
        newest = head.signed_size
        notes[newest] = queries.cosigned_note(tenant_id, head, newest)
    signed = {size: note for size, note in notes.items() if note is not None and size <= newest}
    parts = {f"checkpoints/{size}": note for size, note in signed.items()}
    outside = {size for size in {*signed, since or 0} if 0 < size < row.start or row.end < size < newest}
    for size in sorted(outside):
        found = log.tiles(tenant_id, number, tiles.tiles_for_consistency(size, newest))
        parts[f"consistency/{size}.json"] = bundles.consistency_line(tiles.prove_consistency(size, newest, found))
    stamps: dict[int, int] = {}
    for size, evidence in queries.time_stamps(tenant_id, number, signed):
        stamps[size] = stamps.get(size, 0) + 1
        parts[f"timestamps/{size}-{stamps[size]}.tsr"] = evidence
    sides = bundles.covering_subtrees(0, row.start), bundles.covering_subtrees(row.end, newest)
    found = log.tiles(tenant_id, number, bundles.subtree_tiles(sides[0]) | bundles.subtree_tiles(sides[1]))
    return parts | {"proof.json": bundles.range_proof_line(*(bundles.subtree_hashes(side, found) for side in sides))}


def _head(tenant_id: UUID, number: int) -> log.LogHead:
    return next(each for each in log.logs(tenant_id) if each.number == number)


def _folder(tenant_id: UUID) -> Path:
    folder = Path(settings.COUNTERFOIL_EXPORTS) / tenant_id.hex
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _staging_folder(tenant_id: UUID, export_id: UUID) -> Path:
    return _folder(tenant_id) / f"{export_id}.parts"


def _piece_files(row: Export) -> list[Path]:
    """The files of the pieces that were made so far."""
    names = [_lines_file(number) for number in range(row.chunks)]
    if row.wanted["format"] in files.TABLES:
        names += [_table_file(row, number) for number in range(row.chunks)]
    return [_staging_folder(row.tenant_id, row.id) / name for name in names]


def _lines_file(number: int) -> str:
    return f"{number:06}.jsonl"


def _table_file(row: Export, number: int) -> str:
    return f"{number:06}.{row.wanted['format']}"
