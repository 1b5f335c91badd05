"""Anchors a log externally: witnesses cosign its newest checkpoint, an authority time-stamps it.

It is asked for at intervals, and only when it says something new: its own notes that it was anchored are not
news. All witnesses get the same checkpoint, or no quorum would ever stand under one. Nothing is believed before a rule
has verified it, and evidence, its digest in the log, and what is wrong are written in one transaction. If we die
between the answer and that transaction, the outsider knows more than we do; the next time it says so, and is asked to
vouch for the same head again.

A witness that has cosigned more of this log than is signed here, or another history, is believed: then this record was
set back or forked, and an alarm is raised.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import httpx
from cryptography import x509
from django.conf import settings
from psycopg.types.json import Jsonb
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

from counterfoil_tlog import notes, submission, tiles
from counterfoil_tlog.checkpoint import BadCheckpoint, parse_size
from counterfoil_tlog.notes import Note
from counterfoil_tlog.submission import SIZE_TYPE, Submission
from counterfoil_tlog.witness_policy import Witness, WitnessPolicy
from ledger.db import execute, insert, tenancy
from ledger.log.operations import logs
from ledger.log.queries import anchors as queries
from ledger.log.queries import log as log_queries
from ledger.log.queries.anchors import AUTHORITY, STAMP, WITNESS, KeptCheckpoint
from ledger.log.queries.log import LogHead
from ledger.log.rules import timestamps
from ledger.models import Anchor
from ledger.record import operations as ledger
from ledger.record.rules.refusals import Refused

PATIENCE = httpx.Timeout(5.0, connect=3.0)
WITHIN_S = 10.0
LARGEST = 2**16
AGENT = "counterfoil"


class NoAnswer(Exception):
    """There was no usable answer; the message is the sentence that a person reads."""


class Response(NamedTuple):
    """The response to a request."""

    status: int
    kind: str
    content: bytes


def post(url: str, content: bytes, headers: Mapping[str, str]) -> Response:
    """Send one request to a witness or the time-stamp authority, outside of any transaction.

    The answer is untrusted until a rule has verified it. The call has a time limit, follows no redirect, takes no proxy
    from the environment and reads at most `LARGEST` bytes.
    """
    until = time.monotonic() + WITHIN_S
    sent = {"User-Agent": AGENT, "Accept-Encoding": "identity", **headers}
    try:
        with (
            httpx.Client(trust_env=False, follow_redirects=False, timeout=PATIENCE) as client,
            client.stream("POST", url, content=content, headers=sent) as response,
        ):
            found = bytearray()
            for block in response.iter_raw():
                found += block
                if len(found) > LARGEST:
                    raise NoAnswer(f"The answer was longer than {LARGEST} bytes.")
                if time.monotonic() > until:
                    raise NoAnswer(f"The answer was not complete after {WITHIN_S:.0f} seconds.")
            if response.is_redirect:
                raise NoAnswer("The answer led somewhere else, and no redirect is followed.")
            return Response(response.status_code, response.headers.get("content-type", ""), bytes(found))
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        raise NoAnswer(f"No answer: {type(problem).__name__}.") from None


ROUNDS = 3
"""A witness may be behind or ahead of what we remember of it: it is told so, and asked again, but not for ever."""
SLACK = timedelta(minutes=5)
"""How far the authority's clock may be from ours."""

Evidence = Mapping[str, bytes]
Faults = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AnchorResults:
    """The answers of all providers of one kind: verified evidence, and faults, both by name."""

    evidence: Evidence
    faults: Faults
    disputes: Faults


class HistoryDisputed(Exception):
    """The witness has another history of this log; the message is the sentence that a person reads."""


def anchor_log(*, tenant_id: UUID, clock: Callable[[], datetime], at_once: bool = False) -> int:
    """Anchor a tenant's log where that is due; returns how many pieces of evidence were stored.

    Only the current log is anchored: it names the last head of the one before it. `at_once` does not wait for the next
    interval.
    """
    with tenancy(tenant_id):
        log = log_queries.current_log(tenant_id)
    stored = 0
    if log is not None and settings.COUNTERFOIL_WITNESSES is not None:
        every_s = 0 if at_once else settings.COUNTERFOIL_ANCHOR_EVERY_S
        stored += _collect_cosignatures(tenant_id, log, settings.COUNTERFOIL_WITNESSES, every_s, clock=clock)
    if log is not None and settings.COUNTERFOIL_TSA_URL is not None:
        every_s = 0 if at_once else settings.COUNTERFOIL_STAMP_EVERY_S
        stored += _collect_time_stamp(tenant_id, log, settings.COUNTERFOIL_TSA_URL, every_s, clock=clock)
    return stored


def _collect_cosignatures(
    tenant_id: UUID, log: LogHead, policy: WitnessPolicy, every_s: int, *, clock: Callable[[], datetime]
) -> int:
    at = clock()
    with tenancy(tenant_id):
        held = queries.quorum_anchor(tenant_id, log.number, policy)
        point = _claim_checkpoint(tenant_id, log, WITNESS, held[0] if held else 0, every_s, at=at)
        known = queries.newest_anchors(tenant_id, log.number, WITNESS)
    if point is None:
        return 0
    results = _ask_witnesses(tenant_id, log, policy.witnesses, point, {name: size for name, (size, _) in known.items()})
    stored = _store_results(tenant_id, log, WITNESS, point, results, at=clock())
    for name, text in results.disputes.items():
        logs.raise_alarm(tenant_id=tenant_id, kind="WITNESS_DISPUTES", detail=f"{name}: {text}", at=clock())
    return stored


def _collect_time_stamp(tenant_id: UUID, log: LogHead, url: str, every_s: int, *, clock: Callable[[], datetime]) -> int:
    at = clock()
    with tenancy(tenant_id):
        held = queries.newest_anchors(tenant_id, log.number, STAMP).get(AUTHORITY)
        point = _claim_checkpoint(tenant_id, log, STAMP, held[0] if held else 0, every_s, at=at)
    if point is None:
        return 0
    try:
        response = request_time_stamp(
            notes.parse(point.note).text.encode(), url=url, roots=settings.COUNTERFOIL_TSA_ROOTS, clock=clock
        )
        results = AnchorResults({AUTHORITY: response}, {}, {})
    except (NoAnswer, Refused) as problem:
        results = AnchorResults({}, {AUTHORITY: str(problem)}, {})
    return _store_results(tenant_id, log, STAMP, point, results, at=clock())


def _claim_checkpoint(
    tenant_id: UUID, log: LogHead, kind: str, held: int, every_s: int, *, at: datetime
) -> KeptCheckpoint | None:
    """Claim the checkpoint to anchor, if there is news and it is due; no other process asks during the interval.

    Without an interval it is always due.
    """
    if every_s and not queries.is_due(tenant_id, log.number, kind, at=at):
        return None
    point = queries.newest_checkpoint(tenant_id, log.number)
    if point is None or not queries.has_news(tenant_id, log.number, since=held, size=point.size):
        return None
    claimed = execute(
        "INSERT INTO ledger_anchoring AS a (tenant_id, log, kind, due_at, faults) VALUES ($1, $2, $3, $4, '{}')"
        " ON CONFLICT (tenant_id, log, kind) DO UPDATE SET due_at = greatest(a.due_at, excluded.due_at)"
        " WHERE a.due_at <= $5 OR $6 RETURNING true",
        *(tenant_id, log.number, kind, at + timedelta(seconds=every_s), at, every_s == 0),
    )
    return point if claimed else None


# Witnesses


def _ask_witnesses(
    tenant_id: UUID, log: LogHead, witnesses: Sequence[Witness], point: KeptCheckpoint, known: Mapping[str, int]
) -> AnchorResults:
    """Ask all witnesses in parallel, each from the size last known to it; repeat if it names another size."""
    evidence: dict[str, bytes] = {}
    faults: dict[str, str] = {}
    disputes: dict[str, str] = {}
    note = notes.parse(point.note)
    asked = {each.name: (each, min(known.get(each.name, 0), point.size)) for each in witnesses}
    for _ in range(ROUNDS):
        bodies = [
            (
                witness,
                submission.write(Submission(old, _consistency_proof(tenant_id, log, old, point.size), point.note)),
            )
            for witness, old in asked.values()
        ]
        with ThreadPoolExecutor(max_workers=8) as pool:
            answers = list(pool.map(lambda each: _submit(*each), bodies))
        asked = {}
        for (witness, _), answer in zip(bodies, answers, strict=True):
            try:
                read = _read_answer(answer, note, point.size, witness)
            except HistoryDisputed as problem:
                disputes[witness.name] = faults[witness.name] = str(problem)
            except (NoAnswer, Refused) as problem:
                faults[witness.name] = str(problem)
            else:
                if isinstance(read, bytes):
                    evidence[witness.name] = read
                else:
                    asked[witness.name] = (witness, read)
    faults |= dict.fromkeys(asked, "It names another size each time it is asked.")
    return AnchorResults(evidence, faults, disputes)


def _submit(witness: Witness, body: bytes) -> Response | NoAnswer:
    assert witness.url is not None
    try:
        return post(witness.url.rstrip("/") + submission.PATH, body, {"Content-Type": "text/plain; charset=utf-8"})
    except NoAnswer as problem:
        return problem


def _read_answer(answer: Response | NoAnswer, note: Note, size: int, witness: Witness) -> bytes | int:
    """The cosignature lines, or the size from which the witness wants a consistency proof."""
    if isinstance(answer, NoAnswer):
        raise answer
    if answer.status == 200:
        joined = submission.add_cosignatures(answer.content, note, [witness.key])
        return notes.write_signatures(joined.signatures[len(note.signatures) :]).encode()
    if answer.status == 409 and answer.kind.split(";")[0].strip() == SIZE_TYPE:
        theirs = _read_size(answer.content)
        if theirs > size:
            raise HistoryDisputed(
                f"It has cosigned {theirs} entries of this log, of which only {size} are signed here."
            )
        return theirs
    if answer.status in (409, 422):
        raise HistoryDisputed(f"It has cosigned a head that this log does not continue (answer {answer.status}).")
    raise NoAnswer(f"It answered {answer.status}.")


def _read_size(content: bytes) -> int:
    try:
        return parse_size(content.decode("ascii").removesuffix("\n"))
    except (UnicodeDecodeError, BadCheckpoint):
        raise NoAnswer("It answered with a size that is none.") from None


def _consistency_proof(tenant_id: UUID, log: LogHead, old: int, new: int) -> tuple[bytes, ...]:
    with tenancy(tenant_id):
        stored = log_queries.tiles(tenant_id, log.number, tiles.tiles_for_consistency(old, new))
    return tuple(tiles.prove_consistency(old, new, stored))


# Time stamps


def request_time_stamp(
    data: bytes, *, url: str, roots: Sequence[x509.Certificate], clock: Callable[[], datetime]
) -> bytes:
    """Request a time stamp of `data` from the authority at an address, and verify it."""
    request = TimestampRequestBuilder().data(data).hash_algorithm(HashAlgorithm.SHA256).build()
    asked_at = clock()
    answer = post(url, request.as_bytes(), {"Content-Type": "application/timestamp-query"})
    if answer.status != 200:
        raise NoAnswer(f"It answered {answer.status}.")
    timestamps.verify_response(
        answer.content, data, nonce=request.nonce, roots=roots, earliest=asked_at - SLACK, latest=clock() + SLACK
    )
    return answer.content


# What is kept


def _store_results(
    tenant_id: UUID, log: LogHead, kind: str, point: KeptCheckpoint, results: AnchorResults, *, at: datetime
) -> int:
    """Store evidence, its digests in the log, and faults, in one transaction; return the number of new pieces."""
    with tenancy(tenant_id):
        fresh = {name: each for name, each in results.evidence.items() if _is_new(tenant_id, log, kind, point, name)}
        if fresh:
            insert(
                *(
                    Anchor(
                        tenant_id=tenant_id,
                        id=ledger.new_id(at),
                        log=log.number,
                        size=point.size,
                        kind=kind,
                        name=name,
                        evidence=evidence,
                        at=at,
                    )
                    for name, evidence in sorted(fresh.items())
                )
            )
            _record_anchors(tenant_id, log, kind, point, fresh, at=at)
        since = queries.anchor_faults(tenant_id, log.number, kind)
        stored_faults = {
            name: {"since": since[name]["since"] if name in since else at.isoformat(), "text": text[:300]}
            for name, text in results.faults.items()
        }
        _store_faults(tenant_id, log, kind, stored_faults)
    return len(fresh)


def _record_anchors(
    tenant_id: UUID, log: LogHead, kind: str, point: KeptCheckpoint, evidence: Evidence, *, at: datetime
) -> None:
    """Record the digests of the evidence in the log itself: later events were provably written after it."""
    digests = {f"{kind} {name}": hashlib.sha256(each).hexdigest() for name, each in evidence.items()}
    digests["checkpoint"] = hashlib.sha256(notes.parse(point.note).text.encode()).hexdigest()
    event = ledger.NewEvent(
        kind="checkpoint_anchored",
        detail={"log": log.number, "size": point.size, "kind": kind, "by": sorted(evidence)},
        digests=digests,
    )
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=log.id, kind="log")
    ledger.append(head, event, actor=ledger.SYSTEM, at=at)


def _is_new(tenant_id: UUID, log: LogHead, kind: str, point: KeptCheckpoint, name: str) -> bool:
    return not execute(
        "SELECT 1 FROM ledger_anchor WHERE tenant_id = $1 AND log = $2 AND kind = $3 AND size = $4 AND name = $5",
        *(tenant_id, log.number, kind, point.size, name),
    )


def _store_faults(tenant_id: UUID, log: LogHead, kind: str, faults: Mapping[str, Mapping[str, str]]) -> None:
    execute(
        "UPDATE ledger_anchoring SET faults = $4 WHERE tenant_id = $1 AND log = $2 AND kind = $3",
        *(tenant_id, log.number, kind, Jsonb(faults)),
    )
