"""The proof of one entry in a separate file (C2SP tlog-proof), for anyone with a policy and the entry.

c2sp.org/tlog-proof@v1
extra <Base64>                       what else the reader needs; vouched for by nobody
index 73894
gSKyXoYZUgZ6jduWYrkDOARinOMGJ…       the audit path, the leaf's sibling first

… the signed checkpoint …
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from counterfoil_tlog.checkpoint import BadCheckpoint, parse_hash, parse_size
from counterfoil_tlog.merkle import LONGEST_PROOF, verify_inclusion
from counterfoil_tlog.refusals import Refused
from counterfoil_tlog.witness_policy import CheckpointStatus, WitnessPolicy, evaluate_checkpoint

HEADER = "c2sp.org/tlog-proof@v1"
LARGEST_PROOF = 2**21


class BadLogProof(Refused):
    """This is not the proof of an entry in a log."""

    code = "BAD_LOG_PROOF"
    status = 422


class LogProof(NamedTuple):
    """An entry's index, the path from it to the root, and the signed head with that root."""

    index: int  # type: ignore[assignment]  # tuples have a method of this name that nobody calls
    proof: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None


def write(proof: LogProof) -> bytes:
    """The bytes of the file."""
    extra = "" if proof.extra is None else f"extra {base64.b64encode(proof.extra).decode()}\n"
    path = "".join(f"{base64.b64encode(each).decode()}\n" for each in proof.proof)
    return f"{HEADER}\n{extra}index {proof.index}\n{path}\n".encode() + proof.checkpoint


def parse(data: bytes) -> LogProof:
    """The proof whose bytes are exactly these."""
    before, separator, checkpoint = data.partition(b"\n\n")
    try:
        header, *lines = before.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise BadLogProof from None
    extra = lines.pop(0) if lines and lines[0].startswith("extra ") else None
    if len(data) > LARGEST_PROOF or not separator or header != HEADER:
        raise BadLogProof
    if not lines or not lines[0].startswith("index ") or len(lines) > 1 + LONGEST_PROOF:
        raise BadLogProof
    try:
        index, path = parse_size(lines[0][6:]), tuple(parse_hash(each) for each in lines[1:])
        proof = LogProof(index, path, checkpoint, None if extra is None else base64.b64decode(extra[6:], validate=True))
    except (BadCheckpoint, binascii.Error):
        raise BadLogProof from None
    if write(proof) != data:
        raise BadLogProof
    return proof


def check_proof(proof: LogProof, *, leaf: bytes, policy: WitnessPolicy) -> CheckpointStatus:
    """Check the proof for an entry with this leaf hash: refused unless it is in the log, under a signed head.

    Size and root come from the signed head alone. Whether enough witnesses saw that head is in the answer.
    """
    found = evaluate_checkpoint(policy, proof.checkpoint)
    verify_inclusion(leaf=leaf, index=proof.index, size=found.head.size, proof=proof.proof, root=found.head.root)
    return found
