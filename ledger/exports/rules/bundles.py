"""Format of an exported bundle: lines, proofs, contents. docs/exports.md describes the format (R-HO-12).

1. One line for each index of the range, in order: an event with its envelope, or a run of leaf hashes that are
   withheld, or the leaf hash of an event that is lost. Nothing between them is left out (P7).
2. Each commitment of a disclosed event is answered in its order: opened with its salt, or said to be gone, and why.
3. `blocks` names the complete subtrees before and after the range, in order; their hashes and those of the range lead
   to the root of the checkpoint (RFC 6962 section 2.1).
4. The manifest lists every other member with size and SHA-256, and claims nothing that is not checked elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from counterfoil_tlog.merkle import HASH_BYTES, root_of
from counterfoil_tlog.tiles import HEIGHT, TileAddress

FORMAT = "counterfoil-bundle"
VERSION = 1
LONGEST_RUN = 256
Block = tuple[int, int]


class OpenedCommitment(NamedTuple):
    """One commitment opened: its salt and bytes, or the reason why they are missing (erased, withheld, lost)."""

    salt: bytes | None = None
    data: bytes | None = None
    gone: str = ""
    by: str | None = None


class Member(NamedTuple):
    """A file of a bundle."""

    name: str
    size: int
    sha256: str


class LeafRange(NamedTuple):
    """The indexes from `start` up to, not with, `end`."""

    start: int
    end: int


def event_line(index: int, leaf: bytes, envelope: bytes, opened: Sequence[OpenedCommitment]) -> bytes:
    """The line of a disclosed event (rules 1 and 2)."""
    spelling, text = _spelt("envelope", envelope)
    return _line(
        {"index": index, "leaf": leaf.hex(), spelling: text, "open": [_write_opening(each) for each in opened]}
    )


def withheld_lines(start: int, leaves: Sequence[bytes]) -> Iterator[bytes]:
    """The lines of a run of withheld events, from index `start` on."""
    for at in range(0, len(leaves), LONGEST_RUN):
        yield _line({"index": start + at, "leaves": [leaf.hex() for leaf in leaves[at : at + LONGEST_RUN]]})


def lost_line(index: int, leaf: bytes, pruned_by: str | None = None) -> bytes:
    """Return the line of a sealed event that is missing, with the policy under which it was pruned, if it was."""
    said = {"lost": "event"} if pruned_by is None else {"lost": "pruned", "by": pruned_by}
    return _line({"index": index, "leaf": leaf.hex(), **said})


def range_proof_line(left: Sequence[bytes], right: Sequence[bytes]) -> bytes:
    """The hashes of the blocks before and after the range (rule 3)."""
    return _line({"left": [each.hex() for each in left], "right": [each.hex() for each in right]})


def consistency_line(hashes: Sequence[bytes]) -> bytes:
    """A consistency proof from an older checkpoint to the newest of the bundle."""
    return _line({"hashes": [each.hex() for each in hashes]})


def manifest(
    *, origin: str, within: LeafRange, withheld: int, request: Mapping[str, Any], files: Sequence[Member]
) -> bytes:
    """The first member of a bundle (rule 4)."""
    return _line(
        {
            "format": FORMAT,
            "version": VERSION,
            "origin": origin,
            "from": within.start,
            "to": within.end,
            "withheld": withheld,
            "request": dict(request),
            "files": [each._asdict() for each in files],
        }
    )


def covering_subtrees(start: int, end: int) -> list[Block]:
    """Return (first leaf, height) of the widest complete subtrees of a range of leaves, in order (rule 3)."""
    found: list[Block] = []
    while start < end:
        height = (end - start).bit_length() - 1
        if start:
            height = min(height, (start & -start).bit_length() - 1)
        found.append((start, height))
        start += 1 << height
    return found


def subtree_tiles(wanted: Iterable[Block]) -> frozenset[TileAddress]:
    """The tiles that hold the hashes of these blocks."""
    return frozenset(_place(block)[0] for block in wanted)


def subtree_hashes(wanted: Iterable[Block], tiles: Mapping[TileAddress, bytes]) -> list[bytes]:
    """The hashes of these blocks, from the tiles that `subtree_tiles` names."""
    return [_hash(block, tiles) for block in wanted]


def _hash(block: Block, tiles: Mapping[TileAddress, bytes]) -> bytes:
    tile, first = _place(block)
    count = 1 << block[1] % HEIGHT
    content = tiles[tile][first * HASH_BYTES : (first + count) * HASH_BYTES]
    if len(content) != count * HASH_BYTES:
        raise ValueError("a tile is narrower than the log says")
    return root_of(content[at : at + HASH_BYTES] for at in range(0, len(content), HASH_BYTES))


def _place(block: Block) -> tuple[TileAddress, int]:
    start, height = block
    level = height // HEIGHT
    number = start >> HEIGHT * level
    return TileAddress(level, number >> HEIGHT), number % (1 << HEIGHT)


def _write_opening(each: OpenedCommitment) -> dict[str, str]:
    if each.gone or each.salt is None or each.data is None:
        said = {"gone": each.gone or "lost"}
        return {**said, "by": each.by} if each.by is not None else said
    spelling, text = _spelt("text", each.data)
    return {"salt": base64.b64encode(each.salt).decode(), spelling: text}


def _spelt(name: str, data: bytes) -> tuple[str, str]:
    """Return bytes as readable text if they are text, otherwise as base64."""
    try:
        return name, data.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(data).decode()


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
