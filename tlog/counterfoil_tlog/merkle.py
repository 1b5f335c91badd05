"""The Merkle tree of a log: hashes and the two proofs (RFC 6962 section 2.1, RFC 9162 section 2.1).

    MTH({})     = SHA-256()
    MTH({d})    = SHA-256(0x00 ‖ d)                          a leaf
    MTH(D[0:n]) = SHA-256(0x01 ‖ MTH(D[0:k]) ‖ MTH(D[k:n]))  a node; k is the largest power of two below n

The first byte keeps leaves and nodes apart: no entry can be passed off as a node, nor a node as an entry. Sizes stay
below 2^63, as in C2SP, so that no proof has more than 63 hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from counterfoil_tlog.refusals import Refused

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256().digest()
LARGEST_SIZE = 2**63 - 1
LONGEST_PROOF = 63


class ProofFails(Refused):
    """The proof does not lead from what it starts with to the root."""

    code = "PROOF_FAILS"
    status = 422


def leaf_hash(data: bytes) -> bytes:
    """The hash of an entry's bytes (RFC 9162 section 2.1.1)."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of a node above two others (RFC 9162 section 2.1.1)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root above these leaf hashes (RFC 9162 section 2.1.2); keeps one hash per level, however many there are."""
    complete: list[bytes] = []
    for index, each in enumerate(leaves):
        # Each trailing 1 bit of the index is a complete subtree to the left, of the height reached so far.
        while index & 1:
            each = node_hash(complete.pop(), each)
            index >>= 1
        complete.append(each)
    return join_subtrees(complete)


def join_subtrees(subtrees: Sequence[bytes]) -> bytes:
    """The root above adjacent complete subtrees, each smaller than the one to its left."""
    if not subtrees:
        return EMPTY_ROOT
    root = subtrees[-1]
    for each in reversed(subtrees[:-1]):
        root = node_hash(each, root)
    return root


def verify_inclusion(*, leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Refuse unless the leaf hash is at `index` of the tree of `size` leaves (RFC 9162 section 2.1.3.2)."""
    _check(proof, leaf, root)
    if not 0 <= index < size <= LARGEST_SIZE:
        raise ProofFails
    here, last, reached = index, size - 1, leaf
    for each in proof:
        if last == 0:
            raise ProofFails
        if here & 1 or here == last:
            reached = node_hash(each, reached)
            here, last = _skip_levels(here, last)
        else:
            reached = node_hash(reached, each)
        here, last = here >> 1, last >> 1
    if last != 0 or reached != root:
        raise ProofFails


def verify_consistency(
    *, old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Refuse unless the new tree begins with the leaves of the old one (RFC 9162 section 2.1.4.2).

    Everything begins with the empty tree and a tree begins with itself: both need, and allow, no proof.
    """
    _check(proof, old_root, new_root)
    if not 0 <= old_size <= new_size <= LARGEST_SIZE:
        raise ProofFails
    if old_size == 0 or old_size == new_size:
        same = old_root == (new_root if old_size == new_size else EMPTY_ROOT)
        if proof or not same or (new_size == 0 and new_root != EMPTY_ROOT):
            raise ProofFails
        return
    _verify_growth(old_size, new_size, old_root, new_root, proof)


def _verify_growth(old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> None:
    hashes = list(proof)
    if old_size & (old_size - 1) == 0:
        # The old tree is one complete subtree of the new one: its root is where the proof starts.
        hashes.insert(0, old_root)
    if not hashes:
        raise ProofFails
    here, last = old_size - 1, new_size - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    old = new = hashes[0]
    for each in hashes[1:]:
        if last == 0:
            raise ProofFails
        if here & 1 or here == last:
            old, new = node_hash(each, old), node_hash(each, new)
            here, last = _skip_levels(here, last)
        else:
            new = node_hash(new, each)
        here, last = here >> 1, last >> 1
    if last != 0 or old != old_root or new != new_root:
        raise ProofFails


def _skip_levels(here: int, last: int) -> tuple[int, int]:
    """The node from which the next step to the left is taken; levels without a right sibling are skipped."""
    while here and not here & 1:
        here, last = here >> 1, last >> 1
    return here, last


def _check(proof: Sequence[bytes], *ends: bytes) -> None:
    if len(proof) > LONGEST_PROOF or any(len(each) != HASH_BYTES for each in (*ends, *proof)):
        raise ProofFails
