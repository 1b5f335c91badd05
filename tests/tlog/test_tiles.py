"""Tiles: the same tree as the textbook's, at every size, however it grew."""

from __future__ import annotations

import hashlib
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil_tlog import merkle, tiles
from counterfoil_tlog.merkle import EMPTY_ROOT, root_of, verify_consistency, verify_inclusion
from counterfoil_tlog.tiles import (
    WIDTH,
    NoTilePath,
    TileAddress,
    extend,
    parse_path,
    path,
    prove_consistency,
    prove_inclusion,
    right_edge,
    root_hash,
    tiles_for_consistency,
    tiles_for_inclusion,
    width,
)

LARGEST = 100_000
LEAVES = [hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(LARGEST)]
CORNERS = (255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, 65_792, 65_793, 99_999, 100_000)


@pytest.fixture
def _each_node_hashed_once(monkeypatch):
    """Small trees have few nodes, which all pairs ask for again and again."""
    remembered = cache(merkle.node_hash)
    monkeypatch.setattr(merkle, "node_hash", remembered)
    monkeypatch.setattr(tiles, "_root_of_complete", cache(tiles._root_of_complete))


@cache
def everything() -> dict[TileAddress, bytes]:
    return extend(0, {}, LEAVES).changed


@cache
def textbook(start: int, end: int) -> bytes:
    """MTH(D[start:end]) as RFC 6962 section 2.1 writes it."""
    if end == start:
        return EMPTY_ROOT
    if end - start == 1:
        return LEAVES[start]
    k = 1
    while k * 2 < end - start:
        k *= 2
    return merkle.node_hash(textbook(start, start + k), textbook(start + k, end))


def textbook_path(m: int, start: int, end: int) -> list[bytes]:
    """PATH(m, D[start:end]) of RFC 6962 section 2.1.1."""
    n = end - start
    if n == 1:
        return []
    k = 1
    while k * 2 < n:
        k *= 2
    if m < k:
        return [*textbook_path(m, start, start + k), textbook(start + k, end)]
    return [*textbook_path(m - k, start + k, end), textbook(start, start + k)]


def textbook_proof(m: int, start: int, end: int, whole: bool) -> list[bytes]:
    """SUBPROOF(m, D[start:end], whole) of RFC 6962 section 2.1.2."""
    n = end - start
    if m == n:
        return [] if whole else [textbook(start, end)]
    k = 1
    while k * 2 < n:
        k *= 2
    if m <= k:
        return [*textbook_proof(m, start, start + k, whole), textbook(start + k, end)]
    return [*textbook_proof(m - k, start + k, end, False), textbook(start, start + k)]


def exactly(size: int, asked) -> dict[TileAddress, bytes]:
    """The tiles asked for, each as wide as the log of this size has it, and no other."""
    return {tile: everything()[tile][: width(tile, size) * 32] for tile in asked}


@pytest.mark.usefixtures("_each_node_hashed_once")
def test_every_tree_of_up_to_300_leaves_equals_the_reference():
    """L2: for every n ≤ 300 the root by tiles is the textbook's, and so is the root of the stream."""
    for size in range(301):
        assert root_hash(size, exactly(size, right_edge(size))) == textbook(0, size) == root_of(LEAVES[:size])


@pytest.mark.whole
@pytest.mark.usefixtures("_each_node_hashed_once")
def test_every_leaf_of_every_tree_of_up_to_300_leaves_is_proved():
    """L2: all inclusion proofs verify, and are the textbook's."""
    for size in range(1, 301):
        for index in range(size):
            proof = prove_inclusion(index, size, everything())
            assert proof == textbook_path(index, 0, size)
            verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=proof, root=textbook(0, size))


@pytest.mark.whole
@pytest.mark.usefixtures("_each_node_hashed_once")
def test_every_growth_of_up_to_300_leaves_is_proved():
    """L2: for every pair m ≤ n ≤ 300 the consistency proof verifies, and is the textbook's."""
    for new in range(301):
        for old in range(new + 1):
            proof = prove_consistency(old, new, everything())
            assert proof == (textbook_proof(old, 0, new, True) if old else [])
            roots = {"old_root": textbook(0, old), "new_root": textbook(0, new)}
            verify_consistency(old_size=old, new_size=new, proof=proof, **roots)


SIZES = st.sampled_from(CORNERS) | st.integers(1, LARGEST)


@given(st.data())
@settings(max_examples=60)
def test_proofs_of_any_size_need_only_the_named_tiles(data):
    """L2: random sizes up to 100,000 and those around full tiles."""
    size = data.draw(SIZES)
    index = data.draw(st.integers(0, size - 1) | st.sampled_from([0, size - 1, (size - 1) // WIDTH * WIDTH]))
    old = data.draw(st.integers(0, size) | st.sampled_from([each for each in CORNERS if each <= size] or [size]))
    tree, before = textbook(0, size), textbook(0, old)
    assert root_hash(size, exactly(size, right_edge(size))) == tree
    proof = prove_inclusion(index, size, exactly(size, tiles_for_inclusion(index, size)))
    verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=proof, root=tree)
    proof = prove_consistency(old, size, exactly(size, tiles_for_consistency(old, size)))
    verify_consistency(old_size=old, new_size=size, old_root=before, new_root=tree, proof=proof)


@pytest.mark.parametrize("size", CORNERS)
def test_roots_and_proofs_hold_around_full_tiles(size):
    """L2: 255/256/257, 65,535/65,536/65,537 and others."""
    tree = textbook(0, size)
    assert root_hash(size, exactly(size, right_edge(size))) == tree == root_of(LEAVES[:size])
    for index in {0, 254, 255, 256, size // 2, size - 2, size - 1} & set(range(size)):
        proof = prove_inclusion(index, size, exactly(size, tiles_for_inclusion(index, size)))
        verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=proof, root=tree)
    for old in {0, 1, 255, 256, 257, 65_535, 65_536, 65_537, size - 1, size} & set(range(size + 1)):
        proof = prove_consistency(old, size, exactly(size, tiles_for_consistency(old, size)))
        roots = {"old_root": textbook(0, old), "new_root": tree}
        verify_consistency(old_size=old, new_size=size, proof=proof, **roots)


@pytest.mark.parametrize("size", [1, 300, 65_537, LARGEST])
def test_a_tile_that_has_grown_since_is_accepted(size):
    index = size // 3
    named = exactly(size, tiles_for_inclusion(index, size))
    wider = {tile: everything()[tile] for tile in named}
    assert prove_inclusion(index, size, wider) == prove_inclusion(index, size, named)


@pytest.mark.parametrize("size", [300, 65_537, LARGEST])
def test_a_tile_that_is_too_narrow_or_missing_raises_an_error(size):
    named = exactly(size, right_edge(size))
    with pytest.raises(ValueError, match="narrower"):
        root_hash(size, {tile: content[:-32] for tile, content in named.items()})
    with pytest.raises(KeyError):
        root_hash(size, {})


def test_a_proof_of_any_size_needs_only_a_few_tiles():
    for size in (10**4, 10**6, 10**9, 2**62 - 1):
        assert len(tiles_for_inclusion(size // 3, size)) <= 2 * 8
        assert len(tiles_for_consistency(size // 3, size)) <= 3 * 8


def test_leaves_outside_the_log_are_not_proved():
    for index, size in [(0, 0), (5, 5), (-1, 5)]:
        with pytest.raises(ValueError, match="no such leaf"):
            prove_inclusion(index, size, everything())
    for old, new in [(6, 5), (-1, 5)]:
        with pytest.raises(ValueError, match="not smaller"):
            prove_consistency(old, new, everything())


# Growth


@given(st.lists(st.integers(0, 700), max_size=12), st.sampled_from([0, 250, 65_000, 65_530]))
@settings(max_examples=60)
def test_a_log_does_not_depend_on_the_steps_in_which_it_grew(steps, start):
    """L2: step by step or at once, the same tiles and the same root, from no more than the right edge."""
    kept = exactly(start, [tile for tile in everything() if width(tile, start)])
    size = start
    for step in steps:
        growth = extend(size, {tile: kept[tile] for tile in right_edge(size)}, LEAVES[size : size + step])
        assert growth.size == size + step
        frozen = {tile for tile in kept if width(tile, size) == WIDTH}
        assert frozen.isdisjoint(growth.changed), "a full tile never changes"
        kept |= growth.changed
        size = growth.size
        assert growth.root == textbook(0, size)
    assert kept == exactly(size, [tile for tile in everything() if width(tile, size)])


def test_an_empty_extension_changes_nothing():
    for size in (0, 1, 256, 300):
        assert extend(size, exactly(size, right_edge(size)), []) == (size, textbook(0, size), {})


def test_a_leaf_hash_of_another_length_raises_an_error():
    with pytest.raises(ValueError, match="32 bytes"):
        extend(0, {}, [b"short"])


def test_the_tile_widths_equal_those_of_the_specification():
    """The example of C2SP tlog-tiles: a tree of 70,000 leaves."""
    wide = {tile: width(tile, 70_000) for tile in everything()}
    assert sum(tile.level == 0 and w == 256 for tile, w in wide.items()) == 273
    partial = {(tile.level, w) for tile, w in wide.items() if 0 < w < 256}
    assert partial == {(0, 112), (1, 17), (2, 1)}
    assert [width(TileAddress(level, 0), 256) for level in range(3)] == [256, 1, 0]
    assert right_edge(70_000) == {TileAddress(0, 273), TileAddress(1, 1), TileAddress(2, 0)}
    assert right_edge(256) == {TileAddress(1, 0)}
    assert right_edge(0) == frozenset()


# Paths


@pytest.mark.parametrize(
    ("tile", "wide", "text"),
    [
        (TileAddress(0, 0), 256, "tile/0/000"),
        (TileAddress(0, 999), 256, "tile/0/999"),
        (TileAddress(1, 1000), 1, "tile/1/x001/000.p/1"),
        (TileAddress(0, 1_234_067), 256, "tile/0/x001/x234/067"),
        (TileAddress(63, 1_234_067), 255, "tile/63/x001/x234/067.p/255"),
    ],
)
def test_the_tile_paths_equal_those_of_the_specification(tile, wide, text):
    """The example of C2SP tlog-tiles: index 1234067 is x001/x234/067."""
    assert path(tile, wide) == text
    assert parse_path(text) == (tile, wide)


@given(st.integers(0, 63), st.integers(0, 2**63), st.integers(1, 256))
def test_a_written_tile_path_is_read_back(level, index, wide):
    assert parse_path(path(TileAddress(level, index), wide)) == (TileAddress(level, index), wide)


@pytest.mark.parametrize(
    "text",
    [
        *("", "tile", "tile/0", "tile/0/", "tile/0/0", "tile/0/00", "tile/0/0000", "tile/00/000", "tile/64/000"),
        *("tile/0/x000/000", "tile/0/001/000", "tile/0/x001", "tile/0/x01/000", "tile/-1/000", "tile/0/-01"),
        *("tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/", "tile/0/000.p/1000"),
        *("tile/0/000\n", " tile/0/000", "tile/0/\u0660\u0660\u0661", "tile/1/000/", "/tile/0/000", "tile/0/X001/000"),
        "tile/0/" + "x001/" * 7 + "000",
    ],
)
def test_every_other_spelling_of_a_path_is_refused(text):
    with pytest.raises(NoTilePath, match="This is not the path of a tile"):
        parse_path(text)


def test_a_proof_does_not_depend_on_what_is_beside_the_named_tiles():
    """Bytes of the named tiles that the size does not cover are never read."""
    size, chance = 70_000, random.Random(7)
    named = exactly(size, tiles_for_inclusion(69_999, size))
    padded = {tile: content + chance.randbytes(8192 - len(content)) for tile, content in named.items()}
    assert prove_inclusion(69_999, size, padded) == prove_inclusion(69_999, size, named)
