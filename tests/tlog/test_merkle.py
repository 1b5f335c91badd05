"""The Merkle tree and its proofs: what verifies, and everything that must not."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil_tlog import merkle, tiles
from counterfoil_tlog.merkle import (
    EMPTY_ROOT,
    ProofFails,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from counterfoil_tlog.tiles import extend, prove_consistency, prove_inclusion

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "merkle.json").read_text())
LEAVES = [leaf_hash(bytes.fromhex(each)) for each in VECTORS["entries"]]
MANY = [leaf_hash(bytes([number])) for number in range(20)]


@cache
def recursion(start: int, end: int) -> bytes:
    """MTH as RFC 6962 section 2.1 writes it, over the leaf hashes of `MANY`."""
    if end == start:
        return hashlib.sha256().digest()
    if end - start == 1:
        return MANY[start]
    k = 1
    while k * 2 < end - start:
        k *= 2
    return hashlib.sha256(b"\x01" + recursion(start, start + k) + recursion(start + k, end)).digest()


def stored(size: int) -> dict[tiles.TileAddress, bytes]:
    return extend(0, {}, MANY[:size]).changed


def inclusion(index: int, size: int) -> dict:
    proof = prove_inclusion(index, size, stored(size))
    return {"leaf": MANY[index], "index": index, "size": size, "proof": proof, "root": recursion(0, size)}


def consistency(old: int, new: int) -> dict:
    proof = prove_consistency(old, new, stored(new))
    sizes = {"old_size": old, "new_size": new}
    return {**sizes, "old_root": recursion(0, old), "new_root": recursion(0, new), "proof": proof}


def holds(verify, claim: dict) -> bool:
    try:
        verify(**claim)
    except ProofFails:
        return False
    return True


# Vectors


@pytest.mark.parametrize("size", range(9))
def test_the_roots_equal_those_of_the_reference_tree(size):
    """L1: the empty root and the eight-leaf reference tree."""
    assert root_of(LEAVES[:size]).hex() == VECTORS["roots"][size]
    assert extend(0, {}, LEAVES[:size]).root.hex() == VECTORS["roots"][size]


def test_the_hashes_equal_those_of_the_specification():
    """L1: no variation of RFC 6962 section 2.1."""
    assert hashlib.sha256(b"").digest() == EMPTY_ROOT
    assert leaf_hash(b"ab") == hashlib.sha256(b"\x00ab").digest()
    assert node_hash(MANY[0], MANY[1]) == hashlib.sha256(b"\x01" + MANY[0] + MANY[1]).digest()


@pytest.mark.parametrize("vector", VECTORS["inclusion"], ids=lambda v: f"{v['index']} of {v['size']}")
def test_the_inclusion_proofs_equal_those_of_the_reference_tree(vector):
    """L1: audit paths of the reference tree."""
    index, size = vector["index"], vector["size"]
    proof = prove_inclusion(index, size, extend(0, {}, LEAVES[:size]).changed)
    assert [each.hex() for each in proof] == vector["proof"]
    verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=proof, root=root_of(LEAVES[:size]))


@pytest.mark.parametrize("vector", VECTORS["consistency"], ids=lambda v: f"{v['old']} to {v['new']}")
def test_the_consistency_proofs_equal_those_of_the_reference_tree(vector):
    """L1: consistency proofs of the reference tree."""
    old, new = vector["old"], vector["new"]
    proof = prove_consistency(old, new, extend(0, {}, LEAVES[:new]).changed)
    assert [each.hex() for each in proof] == vector["proof"]
    roots = {"old_root": root_of(LEAVES[:old]), "new_root": root_of(LEAVES[:new])}
    verify_consistency(old_size=old, new_size=new, proof=proof, **roots)


# Damage to a proof of inclusion


PLACES = [(index, size) for size in range(1, 21) for index in range(size)]
GROWTHS = [(old, new) for new in range(21) for old in range(new + 1)]


@pytest.mark.req("R-LE-02")
def test_a_flipped_bit_anywhere_in_an_inclusion_proof_is_refused():
    """L3: every bit of every element, of the leaf and of the root."""
    for index, size in [(0, 1), (0, 8), (6, 7), (10, 11), (19, 20), (5, 13)]:
        claim = inclusion(index, size)
        assert holds(verify_inclusion, claim)
        for bit in range(256):
            assert not holds(verify_inclusion, claim | {"leaf": flipped(claim["leaf"], bit)})
            assert not holds(verify_inclusion, claim | {"root": flipped(claim["root"], bit)})
            for place in range(len(claim["proof"])):
                assert not holds(verify_inclusion, claim | {"proof": with_flipped(claim["proof"], place, bit)})


@pytest.mark.req("R-LE-02")
def test_an_inclusion_proof_with_elements_dropped_added_or_swapped_is_refused():
    """L3: drop, add, swap, repeat."""
    for index, size in PLACES:
        claim = inclusion(index, size)
        for other in misshapen(claim["proof"]):
            assert not holds(verify_inclusion, claim | {"proof": other}), (index, size)


def test_an_inclusion_proof_holds_for_its_own_index_only():
    """L3: wrong index."""
    for index, size in PLACES:
        claim = inclusion(index, size)
        for other in range(-1, size + 2):
            assert holds(verify_inclusion, claim | {"index": other}) == (other == index)


def test_an_inclusion_proof_against_the_root_of_another_size_is_refused():
    """L3: wrong size, size 0, a proof for n against the root of n + 1."""
    for index, size in PLACES:
        claim = inclusion(index, size)
        for other in range(21):
            if other != size:
                assert not holds(verify_inclusion, claim | {"root": recursion(0, other)})
                assert not holds(verify_inclusion, claim | {"size": other, "root": recursion(0, other)})
        for other in (0, -1, index, 2**63, 2**80):
            assert not holds(verify_inclusion, claim | {"size": other})


def test_a_path_may_also_verify_with_another_size_of_the_same_shape():
    """A size is believed only from a signed checkpoint: the path alone does not always tell two sizes apart."""
    claim = inclusion(0, 7)
    assert holds(verify_inclusion, claim | {"size": 8})
    assert claim["root"] != recursion(0, 8)


@pytest.mark.req("R-LE-02")
def test_a_node_presented_as_a_leaf_is_refused():
    """L3: second pre-image: neither a node's hash as a leaf's, nor the bytes of a node as an entry."""
    left, right = MANY[0], MANY[1]
    above = prove_inclusion(0, 4, stored(4))[1:]
    root = recursion(0, 4)
    node = {"leaf": node_hash(left, right), "index": 0, "proof": above, "root": root}
    assert holds(verify_inclusion, node | {"size": 2}), "the arithmetic alone would follow"
    assert not holds(verify_inclusion, node | {"size": 4})
    assert leaf_hash(left + right) != node_hash(left, right)
    for size in range(1, 9):
        assert not holds(verify_inclusion, node | {"leaf": leaf_hash(left + right), "size": size})
        assert not holds(verify_inclusion, node | {"leaf": leaf_hash(b"\x01" + left + right), "size": size})


def test_a_proof_of_64_elements_is_refused():
    """L3: no tree has such a path, whatever it says its size is."""
    long = {"leaf": MANY[0], "index": 0, "size": 2**63, "proof": [MANY[1]] * 64}
    reached = MANY[0]
    for _ in range(64):
        reached = node_hash(reached, MANY[1])
    assert not holds(verify_inclusion, long | {"root": reached})
    assert not holds(verify_inclusion, long | {"root": reached, "size": 2**64})
    growth = {"old_size": 1, "new_size": 2**64, "old_root": MANY[0], "new_root": reached, "proof": [MANY[1]] * 64}
    assert not holds(verify_consistency, growth)


def test_a_proof_of_63_elements_is_accepted():
    """The longest one that a log of at most 2^63 - 1 leaves needs."""
    reached = MANY[0]
    for _ in range(63):
        reached = node_hash(reached, MANY[1])
    claim = {"leaf": MANY[0], "index": 0, "size": 2**63 - 1, "proof": [MANY[1]] * 63, "root": reached}
    assert holds(verify_inclusion, claim)


@pytest.mark.parametrize("wrong", [b"", b"\x00" * 31, b"\x00" * 33], ids=len)
def test_an_element_of_another_length_is_refused(wrong):
    claim = inclusion(3, 7)
    assert not holds(verify_inclusion, claim | {"proof": [wrong, *claim["proof"][1:]]})
    assert not holds(verify_inclusion, claim | {"leaf": wrong})
    assert not holds(verify_inclusion, inclusion(0, 1) | {"leaf": wrong, "root": wrong})
    growth = consistency(3, 7)
    assert not holds(verify_consistency, growth | {"proof": [wrong, *growth["proof"][1:]]})
    same = consistency(4, 4)
    assert not holds(verify_consistency, same | {"old_root": wrong, "new_root": wrong})


# Damage to a proof of consistency


@pytest.mark.req("R-LE-02")
def test_a_flipped_bit_anywhere_in_a_consistency_proof_is_refused():
    """L3: every bit of every element and of both roots."""
    for old, new in [(1, 2), (4, 8), (3, 7), (6, 8), (7, 20), (16, 17), (5, 5)]:
        claim = consistency(old, new)
        assert holds(verify_consistency, claim)
        for bit in range(256):
            assert not holds(verify_consistency, claim | {"old_root": flipped(claim["old_root"], bit)})
            assert not holds(verify_consistency, claim | {"new_root": flipped(claim["new_root"], bit)})
            for place in range(len(claim["proof"])):
                assert not holds(verify_consistency, claim | {"proof": with_flipped(claim["proof"], place, bit)})


@pytest.mark.req("R-LE-02")
def test_a_consistency_proof_with_elements_dropped_added_or_swapped_is_refused():
    """L3: drop, add, swap, repeat."""
    for old, new in GROWTHS:
        claim = consistency(old, new)
        assert holds(verify_consistency, claim)
        for other in misshapen(claim["proof"]):
            assert not holds(verify_consistency, claim | {"proof": other}), (old, new)


def test_a_consistency_proof_is_refused_for_the_roots_of_other_sizes():
    """L3: wrong sizes, sizes in the wrong order."""
    for old, new in GROWTHS:
        claim = consistency(old, new)
        for other in range(1, 21):
            if other != old and old != 0:
                assert not holds(verify_consistency, claim | {"old_root": recursion(0, other)})
                assert not holds(verify_consistency, claim | {"old_size": other, "old_root": recursion(0, other)})
            if other != new and old != 0:
                assert not holds(verify_consistency, claim | {"new_root": recursion(0, other)})
                assert not holds(verify_consistency, claim | {"new_size": other, "new_root": recursion(0, other)})
        for sizes in ({"old_size": new + 1}, {"old_size": -1}, {"new_size": -1}, {"new_size": 2**63}):
            assert not holds(verify_consistency, claim | sizes)


def test_the_empty_tree_accepts_only_an_empty_proof():
    """L3: size 0."""
    claim = {"old_size": 0, "new_size": 7, "old_root": EMPTY_ROOT, "new_root": recursion(0, 7), "proof": []}
    assert holds(verify_consistency, claim)
    assert not holds(verify_consistency, claim | {"proof": [MANY[0]]})
    assert not holds(verify_consistency, claim | {"old_root": MANY[0]})
    nothing = claim | {"new_size": 0, "new_root": EMPTY_ROOT}
    assert holds(verify_consistency, nothing)
    assert not holds(verify_consistency, nothing | {"old_root": MANY[0], "new_root": MANY[0]})


def test_a_rewritten_tree_is_not_consistent_with_its_predecessor():
    """L3: one leaf changed among the old ones leaves no proof that verifies."""
    for place in range(6):
        changed = [*MANY[:place], MANY[19], *MANY[place + 1 : 11]]
        other = extend(0, {}, changed)
        claim = consistency(6, 11) | {"new_root": other.root}
        for proof in (claim["proof"], prove_consistency(6, 11, other.changed)):
            assert not holds(verify_consistency, claim | {"proof": proof})


@given(st.data())
def test_no_proof_of_random_hashes_verifies(data):
    """L3: whatever is claimed, hashes that come from nowhere prove nothing."""
    hashes = st.binary(min_size=32, max_size=32)
    size = data.draw(st.integers(0, 70))
    proof = data.draw(st.lists(hashes, max_size=8))
    index = data.draw(st.integers(-2, 72))
    assert not holds(
        verify_inclusion,
        {"leaf": data.draw(hashes), "index": index, "size": size, "proof": proof, "root": EMPTY_ROOT},
    )
    roots = {"old_root": data.draw(hashes), "new_root": recursion(0, 20)}
    assert not holds(verify_consistency, {"old_size": max(index, 1), "new_size": 20, "proof": proof, **roots})


def test_the_root_of_a_stream_is_computed_from_an_iterator():
    """Constant memory: the leaves come once, one at a time."""
    assert root_of(iter(MANY)) == recursion(0, 20)
    assert root_of(iter([])) == EMPTY_ROOT


def flipped(value: bytes, bit: int) -> bytes:
    damaged = bytearray(value)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def with_flipped(proof: list[bytes], place: int, bit: int) -> list[bytes]:
    return [*proof[:place], flipped(proof[place], bit), *proof[place + 1 :]]


def misshapen(proof: list[bytes]):
    for place in range(len(proof)):
        yield [*proof[:place], *proof[place + 1 :]]
        yield [*proof[: place + 1], *proof[place:]]
    for place in range(len(proof) + 1):
        yield [*proof[:place], merkle.EMPTY_ROOT, *proof[place:]]
    for place in range(len(proof) - 1):
        yield [*proof[:place], proof[place + 1], proof[place], *proof[place + 2 :]]
    if proof:
        yield []
