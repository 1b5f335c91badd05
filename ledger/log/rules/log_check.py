"""Full check of a log: rehash every leaf, rebuild every tile, compare every signed checkpoint.

A log is walked from left to right in blocks of 65,536 leaves, the complete subtrees below one tile of level 1. A block
needs nothing of the blocks before it, so several processes can walk several blocks at once (`walk`); what it answers
is a few hashes, and `TreeBuilder` puts those together in order. Memory holds one tile of each level, whatever the size.

What is compared, and who is named first:

1. Leaves stand at 0, 1, 2 … without a gap, each of them an event that is there.
2. The bytes of an event have the hash that is stored with them.
3. The tiles hold these hashes, and above them the roots of what is below (C2SP tlog-tiles).
4. The tip's root is the root of all leaves.
5. Every checkpoint that was kept names the root that the log had at its size. An intruder who rewrote events, hashes,
   tiles and tip in harmony is found here: behind the last checkpoint that still holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from counterfoil_tlog.merkle import HASH_BYTES, join_subtrees, leaf_hash, node_hash
from counterfoil_tlog.tiles import HEIGHT, WIDTH, TileAddress
from ledger.record.rules.refusals import Refused

BLOCK = WIDTH * WIDTH
"""Leaves of one block."""

Row = tuple[int, bytes | None, bytes | None]
"""A leaf as it is stored: its index, and the bytes and the hash of its event, if that is there."""


class LogBroken(Refused):
    """What is stored is not the log that was signed."""

    code = "LOG_BROKEN"

    def __init__(self, index: int, what: str) -> None:
        self.index, self.what = index, what
        super().__init__(f"Entry {index} of the log: {what}")

    def __reduce__(self) -> tuple[type[LogBroken], tuple[int, str]]:
        # For the border of a process.
        return LogBroken, (self.index, self.what)


@dataclass(slots=True)
class CompactRange:
    """Adjacent complete subtrees, from the left: height and root."""

    found: list[tuple[int, bytes]] = field(default_factory=list)

    def push(self, height: int, root: bytes) -> None:
        """One more to the right; two of a height become one of the next."""
        while self.found and self.found[-1][0] == height:
            root = node_hash(self.found.pop()[1], root)
            height += 1
        self.found.append((height, root))

    def after(self, more: Iterable[tuple[int, bytes]]) -> CompactRange:
        """These with more to the right; these themselves stay as they are."""
        following = CompactRange(list(self.found))
        for height, root in more:
            following.push(height, root)
        return following

    @property
    def root(self) -> bytes:
        return join_subtrees([root for _, root in self.found])


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The result of checking a block: its leaves' subtrees, and those below each requested size."""

    start: int
    count: int
    peaks: list[tuple[int, bytes]]
    marks: dict[int, list[tuple[int, bytes]]]


def leaf_blocks(size: int) -> list[range]:
    """The leaves of a log in blocks."""
    return [range(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]


def check_block(
    places: range, rows: Iterable[Row], tiles: Mapping[TileAddress, bytes], marks: Sequence[int] = ()
) -> BlockResult:
    """Check one block; `rows` are its leaves in order, `tiles` those of levels 0 and 1 over it (rules 1 to 3)."""
    peaks, above, stream = CompactRange(), bytearray(), iter(rows)
    reached: dict[int, list[tuple[int, bytes]]] = {}
    wanted = sorted(set(marks), reverse=True)
    for first in range(places.start, places.stop, WIDTH):
        leaves = _leaves(range(first, min(first + WIDTH, places.stop)), stream)
        _compare(TileAddress(0, first // WIDTH), b"".join(leaves), tiles, first)
        while wanted and wanted[-1] < first + len(leaves):
            size = wanted.pop()
            reached[size] = peaks.after((0, each) for each in leaves[: size - first]).found
        if len(leaves) == WIDTH:
            root = _root(leaves)
            above += root
            peaks.push(HEIGHT, root)
        else:
            peaks = peaks.after((0, each) for each in leaves)
    reached |= dict.fromkeys(wanted, peaks.found)
    _compare(TileAddress(1, places.start // BLOCK), bytes(above), tiles, places.start)
    return BlockResult(places.start, len(places), peaks.found, reached)


class TreeBuilder:
    """The blocks of a log put together in order."""

    def __init__(self, tiles: Mapping[TileAddress, bytes], heads: Mapping[int, bytes]) -> None:
        """`tiles` are those of level 2 and above, `heads` the roots in checkpoints, by size."""
        self.tiles, self.heads = tiles, heads
        self.peaks = CompactRange()
        self.size = 0
        self.holds = 0
        self._levels: dict[int, list[bytes]] = {}
        self._full: dict[int, int] = {}

    def add(self, walked: BlockResult) -> None:
        """The next block (rules 3 and 5)."""
        assert walked.start == self.size
        for size in sorted(walked.marks):
            if self.peaks.after(walked.marks[size]).root != self.heads[size]:
                raise LogBroken(self.holds, f"from here on the log is not the one that was signed at {size} entries.")
            self.holds = size
        self.peaks = self.peaks.after(walked.peaks)
        self.size += walked.count
        if walked.count == BLOCK:
            self._add_root(2, walked.peaks[0][1])

    def finish(self, root: bytes) -> None:
        """Refuse unless everything led to this root (rule 4)."""
        for level, hashes in sorted(self._levels.items()):
            self._check(level, hashes)
        if self.peaks.root != root:
            raise LogBroken(self.holds, "from here on the log is not the one that its tip names.")

    def kept(self) -> dict[str, Any]:
        """The state for another run to continue from."""
        return {
            "size": self.size,
            "holds": self.holds,
            "peaks": [[height, root.hex()] for height, root in self.peaks.found],
            "levels": {str(level): [each.hex() for each in hashes] for level, hashes in self._levels.items()},
            "full": {str(level): count for level, count in self._full.items()},
        }

    def go_on(self, kept: Mapping[str, Any]) -> None:
        """Continue from the state of an earlier run."""
        self.size, self.holds = kept["size"], kept["holds"]
        self.peaks = CompactRange([(height, bytes.fromhex(root)) for height, root in kept["peaks"]])
        self._levels = {int(level): [bytes.fromhex(each) for each in found] for level, found in kept["levels"].items()}
        self._full = {int(level): count for level, count in kept["full"].items()}

    def _add_root(self, level: int, root: bytes) -> None:
        hashes = self._levels.setdefault(level, [])
        hashes.append(root)
        if len(hashes) == WIDTH:
            self._check(level, hashes)
            self._full[level] = self._full.get(level, 0) + 1
            self._levels[level] = []
            self._add_root(level + 1, _root(hashes))

    def _check(self, level: int, hashes: list[bytes]) -> None:
        tile = TileAddress(level, self._full.get(level, 0))
        _compare(tile, b"".join(hashes), self.tiles, (tile.index * WIDTH) << HEIGHT * level)


def _leaves(places: range, rows: Iterator[Row]) -> list[bytes]:
    """The hashes of the given number of leaves (rules 1 and 2)."""
    taken = list(islice(rows, len(places)))
    # Of a pruned event no byte is left (its envelope is empty), only the hash that the tree holds.
    hashes = [leaf_hash(row[1]) if row[1] else (row[2] or b"") if row[1] == b"" else b"" for row in taken]
    for place, row, computed in zip(places, taken, hashes, strict=False):
        if row[0] != place:
            raise LogBroken(place, "it is not there.")
        if computed != row[2]:
            missing = "its event is not there."
            raise LogBroken(place, missing if not computed else "the bytes of its event have another hash.")
    if len(taken) < len(places):
        raise LogBroken(places[len(taken)], "it is not there.")
    return hashes


def _compare(tile: TileAddress, hashes: bytes, tiles: Mapping[TileAddress, bytes], first: int) -> None:
    """Check that a stored tile begins with these hashes; one that has grown since has more."""
    stored = tiles.get(tile, b"")
    if stored[: len(hashes)] == hashes:
        return
    pairs = range(0, len(hashes), HASH_BYTES)
    differs = next(at for at in pairs if stored[at : at + HASH_BYTES] != hashes[at : at + HASH_BYTES]) // HASH_BYTES
    index = first + (differs << HEIGHT * tile.level)
    raise LogBroken(index, f"tile {tile.index} of level {tile.level} does not hold its hash.")


def _root(hashes: Sequence[bytes]) -> bytes:
    """Return the root above 256 hashes, unrolled because most time of a verification is spent here."""
    sha256, level = hashlib.sha256, hashes
    while len(level) > 1:
        level = [sha256(b"\x01" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0]
