"""The tree of a log, stored as tiles of 256 hashes (C2SP tlog-tiles), and the proofs that are read from them.

Tile n of level l holds the roots of the complete subtrees of height 8·l from number 256·n on. Only the last tile of a
level can be narrower than 256; it is never hashed into the level above, and once full it never changes.

Any hash that a proof needs is the root of a few complete subtrees that stand side by side. A complete subtree of
height 8·l + r is a run of 2^r hashes inside one tile of level l: `tiles_for_inclusion` and `tiles_for_consistency`
name the tiles (a handful at any size), the caller reads them at once, and the proof is computed from their bytes. A
tile that has grown meanwhile serves as well, since its first hashes stay what they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from counterfoil_tlog.merkle import HASH_BYTES, join_subtrees
from counterfoil_tlog.refusals import Refused

WIDTH = 256
HEIGHT = 8
_PATH = re.compile(r"tile/([0-9]{1,2})/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([0-9]{1,3}))?")


class NoTilePath(Refused):
    """This is not the path of a tile."""

    code = "NOT_FOUND"
    status = 404


class TileAddress(NamedTuple):
    """The address of a tile."""

    level: int
    index: int  # type: ignore[assignment]  # tuples have a method of this name that nobody calls


class Growth(NamedTuple):
    """A log after more leaves: its size, its root, and every tile whose bytes changed."""

    size: int
    root: bytes
    changed: dict[TileAddress, bytes]


class _Subtree(NamedTuple):
    """The 2^height leaves from `start` on; `start` is a multiple of their number."""

    start: int
    height: int

    @property
    def tile(self) -> TileAddress:
        level = self.height // HEIGHT
        return TileAddress(level, self.start >> HEIGHT * (level + 1))

    @property
    def run(self) -> slice:
        """The position of its hashes in the bytes of the tile."""
        level, height = divmod(self.height, HEIGHT)
        first = (self.start >> HEIGHT * level) % WIDTH
        return slice(first * HASH_BYTES, (first + (1 << height)) * HASH_BYTES)


_Range = tuple[int, int]


def width(tile: TileAddress, size: int) -> int:
    """The number of hashes in a tile when the log has `size` leaves; 0 if there is no such tile yet."""
    return min(max((size >> HEIGHT * tile.level) - WIDTH * tile.index, 0), WIDTH)


def right_edge(size: int) -> frozenset[TileAddress]:
    """The narrower tiles at the right edge, which the root and the next leaf need."""
    return _tiles([(0, size)])


def root_hash(size: int, tiles: Mapping[TileAddress, bytes]) -> bytes:
    """The root of the log from the tiles of `right_edge(size)`."""
    return _hash((0, size), tiles)


def tiles_for_inclusion(index: int, size: int) -> frozenset[TileAddress]:
    """The tiles from which `prove_inclusion` reads."""
    return _tiles(_inclusion(index, size))


def tiles_for_consistency(old: int, new: int) -> frozenset[TileAddress]:
    """The tiles from which `prove_consistency` reads."""
    return _tiles(_consistency(old, new))


def prove_inclusion(index: int, size: int, tiles: Mapping[TileAddress, bytes]) -> list[bytes]:
    """PATH(index, D[0:size]) of RFC 6962 section 2.1.1, the leaf's sibling first."""
    return [_hash(each, tiles) for each in _inclusion(index, size)]


def prove_consistency(old: int, new: int, tiles: Mapping[TileAddress, bytes]) -> list[bytes]:
    """PROOF(old, D[0:new]) of RFC 6962 section 2.1.2."""
    return [_hash(each, tiles) for each in _consistency(old, new)]


def extend(size: int, tiles: Mapping[TileAddress, bytes], leaves: Iterable[bytes]) -> Growth:
    """Return the log of `size` leaves with more of them, from the tiles of `right_edge(size)`; complete in one pass."""
    changed: dict[TileAddress, bytes] = {}
    level, count, rising = 0, size, list(leaves)
    after = size + len(rising)
    while rising:
        index, kept = divmod(count, WIDTH)
        hashes = _bytes(tiles, TileAddress(level, index), slice(0, kept * HASH_BYTES)) + b"".join(rising)
        if len(hashes) != (kept + len(rising)) * HASH_BYTES:
            raise ValueError("a leaf hash has 32 bytes")
        rising = []
        for start in range(0, len(hashes), WIDTH * HASH_BYTES):
            content = hashes[start : start + WIDTH * HASH_BYTES]
            changed[TileAddress(level, index)] = content
            index += 1
            if len(content) == WIDTH * HASH_BYTES:
                rising.append(_root_of_complete(content))
        level, count = level + 1, count >> HEIGHT
    return Growth(after, root_hash(after, {**tiles, **changed}), changed)


def path(tile: TileAddress, width: int = WIDTH) -> str:
    """The path at which a tile of this width is served: `tile/0/x001/x234/067.p/8`."""
    digits = str(tile.index)
    groups = digits.zfill(len(digits) + -len(digits) % 3)
    parts = [groups[at : at + 3] for at in range(0, len(groups), 3)]
    number = "/".join([*(f"x{each}" for each in parts[:-1]), parts[-1]])
    return f"tile/{tile.level}/{number}" + ("" if width == WIDTH else f".p/{width}")


def parse_path(text: str) -> tuple[TileAddress, int]:
    """The tile at a path, and its width; refuses every spelling but the one of `path`."""
    found = _PATH.fullmatch(text)
    if found is not None:
        tile = TileAddress(int(found[1]), int(re.sub("[x/]", "", found[2])))
        wide = WIDTH if found[3] is None else int(found[3])
        if tile.level <= 63 and 1 <= wide <= WIDTH and path(tile, wide) == text:
            return tile, wide
    raise NoTilePath


def _inclusion(index: int, size: int) -> list[_Range]:
    if not 0 <= index < size:
        raise ValueError("no such leaf")
    found: list[_Range] = []
    low, high = 0, size
    while high - low > 1:
        middle = _split(low, high)
        if index < middle:
            found.append((middle, high))
            high = middle
        else:
            found.append((low, middle))
            low = middle
    return found[::-1]


def _consistency(old: int, new: int) -> list[_Range]:
    if not 0 <= old <= new:
        raise ValueError("the old tree is not smaller than the new one")
    found: list[_Range] = []
    if old == 0:
        return found
    low, high = 0, new
    while high != old:
        middle = _split(low, high)
        if old <= middle:
            found.append((middle, high))
            high = middle
        else:
            found.append((low, middle))
            low = middle
    if low > 0:
        # What is left is the right end of the old tree; where nothing stands before it, it is the whole old tree.
        found.append((low, high))
    return found[::-1]


def _split(low: int, high: int) -> int:
    """Return the largest power of two below the number of leaves, from `low` on."""
    return low + (1 << (high - low - 1).bit_length() - 1)


def _subtrees(leaves: _Range) -> Iterator[_Subtree]:
    low, high = leaves
    while low < high:
        height = (high - low).bit_length() - 1
        yield _Subtree(low, height)
        low += 1 << height


def _tiles(ranges: Iterable[_Range]) -> frozenset[TileAddress]:
    return frozenset(each.tile for leaves in ranges for each in _subtrees(leaves))


def _hash(leaves: _Range, tiles: Mapping[TileAddress, bytes]) -> bytes:
    return join_subtrees([_root_of_run(_bytes(tiles, each.tile, each.run)) for each in _subtrees(leaves)])


@lru_cache(maxsize=4096)
def _root_of_run(hashes: bytes) -> bytes:
    """Return the root of part of a tile, cached for parts high up in a tree and at its right edge, which every proof
    reads.
    """
    return _root_of_complete(hashes)


def _bytes(tiles: Mapping[TileAddress, bytes], tile: TileAddress, run: slice) -> bytes:
    content = tiles[tile][run] if run.stop else b""
    if len(content) != run.stop - run.start:
        raise ValueError(f"{path(tile)} is narrower than the log says")
    return content


def _root_of_complete(hashes: bytes) -> bytes:
    """Return the root above a power of two of hashes; `node_hash` is inlined because most time of a log
    is spent here.
    """
    for _ in range((len(hashes) // HASH_BYTES).bit_length() - 1):
        pairs = range(0, len(hashes), 2 * HASH_BYTES)
        hashes = b"".join([sha256(b"\x01" + hashes[at : at + 2 * HASH_BYTES]).digest() for at in pairs])
    return hashes
