"""Submissions of a log to a witness (C2SP tlog-witness, add-checkpoint).

    old 20852014
    PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=    the consistency proof, a hash a line, none when old is 0

    … the signed checkpoint …

`verify_submission` and `advance_head` are everything that a witness decides. They know nothing of storage: the caller
passes the head that was cosigned last, and must store the new one before anybody else can read it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.checkpoint import BadCheckpoint, CheckpointBody, parse_hash, parse_size
from counterfoil_tlog.merkle import EMPTY_ROOT, LONGEST_PROOF, verify_consistency
from counterfoil_tlog.notes import Note, Verifier
from counterfoil_tlog.refusals import Refused

PATH = "/add-checkpoint"
SIZE_TYPE = "text/x.tlog.size"


class BadSubmission(Refused):
    """This is not a submission to a witness."""

    code = "BAD_SUBMISSION"
    status = 400


class UnknownLog(Refused):
    """This witness does not watch that log."""

    code = "UNKNOWN_LOG"
    status = 404


class StaleSize(Refused):
    """The witness has cosigned another size of this log; it says which."""

    code = "STALE_SIZE"
    status = 409

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


class ForkedLog(Refused):
    """The witness has cosigned another root of this log at the same size."""

    code = "FORKED_LOG"
    status = 409


class CosignedHead(NamedTuple):
    """The last head of a log that a witness cosigned."""

    size: int
    root: bytes


NOTHING_YET = CosignedHead(0, EMPTY_ROOT)


class Submission(NamedTuple):
    """A head to cosign, and the proof that it continues the one of `old_size`."""

    old_size: int
    proof: tuple[bytes, ...]
    note: bytes


class VerifiedSubmission(NamedTuple):
    """A submission that was read and whose log is known and did sign it."""

    old_size: int
    proof: tuple[bytes, ...]
    note: Note
    head: CheckpointBody


def write(submission: Submission) -> bytes:
    """The body of the request."""
    proof = "".join(f"{base64.b64encode(each).decode()}\n" for each in submission.proof)
    return f"old {submission.old_size}\n{proof}\n".encode() + submission.note


def parse(body: bytes) -> Submission:
    """The submission whose bytes are exactly these."""
    lines, separator, note = body.partition(b"\n\n")
    try:
        first, *hashes = lines.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise BadSubmission from None
    if not separator or not first.startswith("old ") or len(hashes) > LONGEST_PROOF:
        raise BadSubmission
    try:
        return Submission(parse_size(first[4:]), tuple(parse_hash(each) for each in hashes), note)
    except BadCheckpoint as wrong:
        raise BadSubmission(wrong.detail) from None


def verify_submission(body: bytes, logs: Iterable[Verifier]) -> VerifiedSubmission:
    """A submission of one of these logs, each known by a key whose name is the log's origin."""
    submission = parse(body)
    note = notes.parse(submission.note)
    head = checkpoint.parse(note.text)
    keys = [each for each in logs if each.name == head.origin]
    if not keys:
        raise UnknownLog
    notes.verify_signatures(note, keys)
    if submission.old_size > head.size:
        raise BadSubmission("The old size is larger than the new one.")
    return VerifiedSubmission(submission.old_size, submission.proof, note, head)


def advance_head(submission: VerifiedSubmission, latest: CosignedHead) -> CosignedHead:
    """Return the head to be stored and cosigned; refuse one that does not continue `latest`."""
    if submission.old_size != latest.size:
        raise StaleSize(latest.size)
    if submission.head.size == latest.size and submission.head.root != latest.root:
        raise ForkedLog
    verify_consistency(
        old_size=latest.size,
        new_size=submission.head.size,
        old_root=latest.root,
        new_root=submission.head.root,
        proof=submission.proof,
    )
    return CosignedHead(submission.head.size, submission.head.root)


def add_cosignatures(lines: bytes, note: Note, witnesses: Sequence[Verifier]) -> Note:
    """The note with the good signatures out of a witness's answer; refuses an answer with none.

    What else the answer says is dropped: it may carry signatures of keys that nobody knows.
    """
    try:
        given = notes.read_signatures(lines.decode())
    except UnicodeDecodeError:
        raise notes.BadNote from None
    good = notes.verify_signatures(Note(note.text, given), witnesses)
    return Note(note.text, (*note.signatures, *(each for each in good if each not in note.signatures)))
