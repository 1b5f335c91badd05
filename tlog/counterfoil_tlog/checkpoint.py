"""Checkpoints: origin, size and root of a log (C2SP tlog-checkpoint).

    example.org/counterfoil/0190…   the origin of the log
    20852163                        its size
    CsUYapGGPo4dkMgIAUqom/…         its root, in Base64

The text is signed as a note (`counterfoil_tlog.notes`). Further lines are read, because other logs may have them, but
ours have none: no monitor can audit them.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

from counterfoil_tlog.merkle import EMPTY_ROOT, HASH_BYTES, LARGEST_SIZE
from counterfoil_tlog.refusals import Refused

_SIZE = re.compile("0|[1-9][0-9]{0,18}")


class BadCheckpoint(Refused):
    """The text of the note is not a checkpoint."""

    code = "BAD_CHECKPOINT"
    status = 400


class CheckpointBody(NamedTuple):
    """The head of a log at one size."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()


def text(checkpoint: CheckpointBody) -> str:
    """The text that is signed."""
    root = base64.b64encode(checkpoint.root).decode()
    lines = (checkpoint.origin, str(checkpoint.size), root, *checkpoint.extensions)
    written = "".join(f"{line}\n" for line in lines)
    if parse(written) != checkpoint:
        raise ValueError("this head cannot be written as a checkpoint")
    return written


def parse(text: str) -> CheckpointBody:
    """The checkpoint whose text is exactly this one."""
    lines = text.split("\n")
    if len(lines) < 4 or lines.pop() != "" or "" in lines:
        raise BadCheckpoint
    origin, size, root, *extensions = lines
    checkpoint = CheckpointBody(origin, parse_size(size), parse_hash(root), tuple(extensions))
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise BadCheckpoint("An empty log has one root, and this is another.")
    return checkpoint


def parse_size(text: str) -> int:
    """A number of leaves: decimal ASCII without leading zeros, below 2^63."""
    if _SIZE.fullmatch(text) is None or int(text) > LARGEST_SIZE:
        raise BadCheckpoint("A size is a decimal number without leading zeros, below 2^63.")
    return int(text)


def parse_hash(text: str) -> bytes:
    """A SHA-256 hash in standard Base64, spelled in the one way."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadCheckpoint("A hash is 32 bytes in standard Base64.") from None
    if len(content) != HASH_BYTES or base64.b64encode(content).decode() != text:
        raise BadCheckpoint("A hash is 32 bytes in standard Base64.")
    return content
