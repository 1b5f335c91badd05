"""Trees and notes beside code that nobody here wrote, in both directions (L6).

Our proofs and notes are verified by metamorphic-log, a C2SP verifier in Rust. The other way round, what the checksum
database of Go made (recorded in `vectors/sumdb.json`; `make test-long` asks it anew) is verified by us.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.checkpoint import CheckpointBody
from counterfoil_tlog.merkle import ProofFails, leaf_hash, root_of, verify_consistency, verify_inclusion
from counterfoil_tlog.tiles import extend, prove_consistency, prove_inclusion

GO = json.loads((Path(__file__).parents[1] / "vectors" / "sumdb.json").read_text())
GO_SIZES = (1, 2, 3, 7, 8, 100, 255, 256, 257, 300)
LEAVES = [leaf_hash(f"entry {number}".encode()) for number in range(1000)]
TILES = extend(0, {}, LEAVES).changed
ROOTS = {size: root_of(LEAVES[:size]) for size in (*GO_SIZES, 511, 512, 513, 999, 1000)}
PLACES = [(index, size) for size in ROOTS for index in sorted({0, size // 3, size // 2, size - 1})]
GROWTHS = [(old, new) for new in ROOTS for old in ROOTS if old <= new]

KEY = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)
NAME = "console.example.org/log"
VKEY = notes.vkey(NAME, KEY.public_key())
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"


@pytest.fixture
def rust():
    return pytest.importorskip("metamorphic_log", reason="metamorphic-log has no wheel for this platform")


def signed(size: int) -> str:
    text = checkpoint.text(CheckpointBody(NAME, size, ROOTS[size]))
    return notes.write(notes.Note(text, (notes.sign(text, name=NAME, key=KEY),))).decode()


# Ours, verified by others


def test_another_implementation_verifies_our_proofs(rust):
    """L6: inclusion and consistency, against roots that we computed."""
    for index, size in PLACES:
        rust.verify_inclusion(index, size, LEAVES[index], prove_inclusion(index, size, TILES), ROOTS[size])
    for old, new in GROWTHS:
        rust.verify_consistency(old, new, prove_consistency(old, new, TILES), ROOTS[old], ROOTS[new])


def test_another_implementation_refuses_the_proofs_that_we_refuse(rust):
    """L6: the judge is awake, and of the same mind: damaged proofs pass nowhere."""
    refused = (rust.VerifyError, rust.InternalError)
    for index, size in PLACES:
        proof = prove_inclusion(index, size, TILES)
        for bad in ([*proof, LEAVES[0]], proof[:-1] if proof else [LEAVES[0]], [leaf_hash(b"another"), *proof[1:]]):
            with pytest.raises(refused):
                rust.verify_inclusion(index, size, LEAVES[index], bad, ROOTS[size])
            with pytest.raises(ProofFails):
                verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=bad, root=ROOTS[size])
    for old, new in GROWTHS:
        proof = prove_consistency(old, new, TILES)
        for bad in ([*proof, LEAVES[0]], proof[:-1] if proof else [LEAVES[0]]):
            with pytest.raises(refused):
                rust.verify_consistency(old, new, bad, ROOTS[old], ROOTS[new])
            with pytest.raises(ProofFails):
                verify_consistency(old_size=old, new_size=new, old_root=ROOTS[old], new_root=ROOTS[new], proof=bad)


def test_another_implementation_verifies_our_checkpoints(rust):
    """L6: note, verifier key and checkpoint together with a proof."""
    for size in ROOTS:
        head = rust.checkpoint_verify(signed(size), [VKEY])
        assert (head.origin, head.size, head.root, head.extensions) == (NAME, size, ROOTS[size], [])
    rust.checkpoint_verify_inclusion(signed(300), [VKEY], 256, LEAVES[256], prove_inclusion(256, 300, TILES))
    rust.checkpoint_verify_consistency(signed(255), signed(300), [VKEY], prove_consistency(255, 300, TILES))


def test_another_implementation_refuses_a_checkpoint_that_we_did_not_sign(rust):
    refused = (rust.VerifyError, rust.InternalError)
    for damaged in (signed(300).replace("\n300\n", "\n301\n"), signed(300)[:-1], signed(300).replace("— ", "— x")):
        with pytest.raises(refused):
            rust.checkpoint_verify(damaged, [VKEY])
    with pytest.raises(refused):
        rust.checkpoint_verify(signed(300), [PETER])


# Others' own, verified by us


def hashes(proof: list[str]) -> list[bytes]:
    return [base64.b64decode(each) for each in proof]


def test_our_roots_equal_those_of_go():
    """L6: golang.org/x/mod/sumdb/tlog, recorded."""
    assert [base64.b64decode(each) for each in GO["Roots"]] == [ROOTS[size] for size in GO_SIZES]


def test_proofs_made_by_go_are_verified():
    """L6: and they are ours, hash for hash."""
    assert len(GO["Inclusion"]) > 20
    assert len(GO["Consistency"]) > 50
    for each in GO["Inclusion"]:
        index, size, proof = each["Index"], each["Size"], hashes(each["Hashes"])
        verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=proof, root=ROOTS[size])
        assert proof == prove_inclusion(index, size, TILES)
    for each in GO["Consistency"]:
        old, new, proof = each["Old"], each["Size"], hashes(each["Hashes"])
        verify_consistency(old_size=old, new_size=new, old_root=ROOTS[old], new_root=ROOTS[new], proof=proof)
        assert proof == prove_consistency(old, new, TILES)


def test_notes_signed_by_go_are_verified():
    """L6: golang.org/x/mod/sumdb/note, recorded; the same key and text give the same bytes here."""
    assert len(GO["Signed"]) == 3
    for each in GO["Signed"]:
        data = base64.b64decode(each)
        note = notes.parse(data)
        assert notes.verify_signatures(note, [notes.read_vkey(PETER)]) == note.signatures
        assert notes.write(note) == data
        with pytest.raises(notes.UntrustedNote):
            notes.verify_signatures(note._replace(text=note.text + "more\n"), [notes.read_vkey(PETER)])
