"""The check of a whole log: it holds as it was made, and the first entry that was changed is named."""

from __future__ import annotations

import json
import pickle
from hashlib import sha256

import pytest

from counterfoil_tlog.merkle import leaf_hash, root_of
from counterfoil_tlog.tiles import TileAddress, extend
from ledger.log.rules import log_check
from ledger.log.rules.log_check import BLOCK, LogBroken, TreeBuilder


class Kept:
    """A log as it is stored, and what it takes to check it."""

    def __init__(self, size, marks=()):
        self.size = size
        self.rows = [(index, b"%d" % index, leaf_hash(b"%d" % index)) for index in range(size)]
        hashes = [row[2] for row in self.rows]
        growth = extend(0, {}, hashes)
        self.tiles = dict(growth.changed)
        self.root = growth.root
        self.heads = {mark: root_of(hashes[:mark]) for mark in marks}

    def replace(self, index, data):
        """Rewrite an entry together with its hash."""
        self.rows[index] = (index, data, leaf_hash(data))

    def rebuild(self):
        """Rewrite all that stands above the entries, too."""
        growth = extend(0, {}, [row[2] for row in self.rows])
        self.tiles, self.root = dict(growth.changed), growth.root

    def check(self, *, in_steps=False):
        above = {tile: hashes for tile, hashes in self.tiles.items() if tile.level >= 2}
        summit = TreeBuilder(above, self.heads)
        for places in log_check.leaf_blocks(self.size):
            marks = [size for size in self.heads if places.start < size <= places.stop]
            rows = [row for row in self.rows if row[0] in places]
            walked = log_check.check_block(places, rows, self.tiles, marks)
            summit.add(pickle.loads(pickle.dumps(walked)))
            if in_steps:
                kept, summit = json.loads(json.dumps(summit.kept())), TreeBuilder(above, self.heads)
                summit.go_on(kept)
        summit.finish(self.root)
        return summit.holds

    def broken(self):
        with pytest.raises(LogBroken) as found:
            self.check()
        return pickle.loads(pickle.dumps(found.value))


LARGE = [pytest.param(size, marks=pytest.mark.whole) for size in (BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 300)]


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 700, *LARGE])
def test_an_intact_log_passes(size):
    marks = sorted({mark for mark in (1, 2, 255, 256, 257, 511, BLOCK - 1, BLOCK, BLOCK + 1, size) if 0 < mark <= size})
    assert Kept(size, marks).check() == size


@pytest.mark.whole
def test_a_check_can_be_continued_from_its_saved_state():
    log = Kept(2 * BLOCK + 300, [1, BLOCK, BLOCK + 7, 2 * BLOCK + 300])
    assert log.check(in_steps=True) == log.size
    log.root = sha256(b"another").digest()
    with pytest.raises(LogBroken):
        log.check(in_steps=True)


@pytest.mark.parametrize("index", [0, 1, 255, 256, 511, 698])
def test_a_changed_entry_is_named(index):
    log = Kept(699)
    log.rows[index] = (index, b"other", log.rows[index][2])
    assert log.broken().index == index


def test_the_first_of_several_broken_leaves_is_named():
    log = Kept(699)
    for index in (600, 300, 301):
        log.replace(index, b"other")
    assert log.broken().index == 300


@pytest.mark.parametrize("index", [0, 256, 698])
def test_an_entry_rewritten_with_its_hash_is_found_in_the_tiles(index):
    log = Kept(699)
    log.replace(index, b"other")
    assert log.broken().index == index


@pytest.mark.parametrize("index", [0, 300, 698])
def test_a_missing_leaf_and_a_missing_event_are_named(index):
    log = Kept(699)
    del log.rows[index]
    assert log.broken().what == "it is not there."
    log = Kept(699)
    log.rows[index] = (index, None, None)
    found = log.broken()
    assert (found.index, found.what) == (index, "its event is not there.")


def test_two_swapped_entries_are_named():
    log = Kept(699)
    one, two = log.rows[17], log.rows[400]
    log.rows[17], log.rows[400] = (17, *two[1:]), (400, *one[1:])
    assert log.broken().index == 17


@pytest.mark.whole
def test_each_level_of_tiles_is_compared():
    size = BLOCK * 2 + 300
    for tile, index in (
        (TileAddress(0, 3), 768),
        (TileAddress(1, 0), 0),
        (TileAddress(1, 1), BLOCK),
        (TileAddress(2, 0), 0),
    ):
        log = Kept(size)
        log.tiles[tile] = sha256(b"other").digest() + log.tiles[tile][32:]
        assert log.broken().index == index, tile
        del log.tiles[tile]
        assert log.broken().index == index, tile


def test_a_consistent_rewrite_is_found_after_the_last_matching_signed_head():
    """L24: events, hashes, tiles and tip were rewritten; what was signed before cannot be."""
    log = Kept(3000, marks=(100, 1500, 2048, 3000))
    log.replace(1700, b"other")
    log.rebuild()
    assert log.broken().index == 1500
    log.heads = {100: log.heads[100], 1500: log.heads[1500]}
    # Nothing was signed since: nobody can know.
    assert log.check() == 1500


def test_a_tip_with_another_root_is_found():
    log = Kept(700, marks=(600,))
    log.root = sha256(b"other").digest()
    assert log.broken().index == 600


def test_a_tile_that_has_grown_since_is_accepted():
    grown, log = Kept(900), Kept(700, marks=(700,))
    log.tiles = grown.tiles
    assert log.check() == 700
