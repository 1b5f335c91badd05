"""Trees, proofs, tiles and notes, in both directions between Go's checksum database and us (L6)."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.checkpoint import CheckpointBody
from counterfoil_tlog.merkle import leaf_hash, root_of, verify_consistency, verify_inclusion
from tests.peers.support.sumdb import KEY, VECTORS, entries, hashes, question, recorded, written

pytestmark = pytest.mark.long

LARGE = (1, 255, 256, 257, 511, 65_535, 65_536, 65_537, 70_000)
OURS = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)


def test_go_verifies_our_proofs_and_we_verify_its_own(sumdb):
    """L6: roots, inclusion and consistency up to 70,000 leaves; Go also reads our tiles and proves from them."""
    places = [(index, size) for size in LARGE for index in sorted({0, size // 3, size - 1})]
    growths = [(old, new) for new in LARGE for old in LARGE if old <= new]
    asked = question(LARGE, places, growths)
    said = sumdb(asked)
    assert said["Bad"] is None
    leaves = [leaf_hash(each) for each in entries(max(LARGE))]
    roots = {size: root_of(leaves[:size]) for size in LARGE}
    assert said["Roots"] == [written(roots[size]) for size in LARGE]
    for ours, theirs, read in zip(asked["Inclusion"], said["Inclusion"], said["FromTiles"], strict=True):
        assert ours["Hashes"] == theirs["Hashes"] == read["Hashes"]
        index, size = theirs["Index"], theirs["Size"]
        proof = hashes(theirs["Hashes"])
        verify_inclusion(leaf=leaves[index], index=index, size=size, proof=proof, root=roots[size])
    for ours, theirs in zip(asked["Consistency"], said["Consistency"], strict=True):
        assert ours["Hashes"] == theirs["Hashes"]
        old, new = theirs["Old"], theirs["Size"]
        proof = hashes(theirs["Hashes"])
        verify_consistency(old_size=old, new_size=new, old_root=roots[old], new_root=roots[new], proof=proof)


def test_go_refuses_our_invalid_proofs(sumdb):
    """L6: the judge is awake: a proof at the wrong place and a damaged tile do not pass."""
    asked = question((8, 300), [(3, 8), (250, 300)], [(8, 300)])
    asked["Inclusion"][0]["Index"] = 4
    asked["Consistency"][0]["Hashes"][0] = written(bytes(32))
    asked["Tiles"]["tile/1/000.p/1"] = written(bytes(32))
    assert len(sumdb(asked)["Bad"]) == 3


def test_go_opens_our_signed_notes(sumdb):
    """L6: checkpoints that we sign, alone and beside signatures that Go does not know."""
    text = checkpoint.text(CheckpointBody("console.example.org/log", 300, bytes(range(32))))
    name = "console.example.org/log"
    ours = notes.sign(text, name=name, key=OURS)
    witness = notes.verifier("witness.example", OURS.public_key(), notes.COSIGNATURE)
    other = notes.Signature(witness.name, witness.key_id, bytes(72))
    key = notes.vkey(name, OURS.public_key())
    good = [notes.write(notes.Note(text, signatures)) for signatures in ((ours,), (other, ours))]
    bad = notes.write(notes.Note(text, (ours._replace(signature=bytes(64)),)))
    said = sumdb({"Open": [{"Note": written(each), "Keys": [key]} for each in (*good, bad)]})
    assert said["Opened"][:2] == [text, text]
    assert said["Opened"][2].startswith("refused: invalid signature")


def test_every_note_that_we_accept_is_accepted_by_go(sumdb):
    """L6: one byte of a note replaced, dropped or doubled, everywhere."""
    name = "example.org/log"
    text = f"{name}\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    data = notes.write(notes.Note(text, (notes.sign(text, name=name, key=OURS),)))
    known = notes.verifier(name, OURS.public_key())
    variants = [data]
    for place in range(len(data)):
        before, after = data[:place], data[place + 1 :]
        replaced = [before + bytes([byte]) + after for byte in b"\0\n\r\t +=\xe2\xffAz09"]
        variants += [*replaced, before + after, data[: place + 1] + data[place:]]
    said = sumdb({"Open": [{"Note": written(each), "Keys": [notes.write_vkey(known)]} for each in variants]})
    accepted = [accepts(each, known) for each in variants]
    assert accepted[0]
    for ours, theirs in zip(accepted, said["Opened"], strict=True):
        assert not ours or not theirs.startswith(("refused", "key"))


def test_our_proofs_agree_with_the_go_implementation(sumdb):
    """L6: the vectors of the bounded suite are Go's answer, and ours agrees."""
    said = sumdb(recorded())
    assert said["Bad"] is None
    assert json.loads(VECTORS.read_text()) == {
        name: said[name] for name in ("Roots", "Inclusion", "Consistency", "Signed")
    }
    assert KEY.startswith("PRIVATE+KEY+PeterNeumann")


def accepts(data: bytes, known: notes.Verifier) -> bool:
    try:
        notes.verify_signatures(notes.parse(data), [known])
    except (notes.BadNote, notes.UntrustedNote):
        return False
    return True
