"""What a witness decides about a head: every answer, from the rules alone."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from counterfoil_tlog import checkpoint, notes, submission
from counterfoil_tlog.checkpoint import BadCheckpoint, CheckpointBody
from counterfoil_tlog.cosignature import cosign
from counterfoil_tlog.merkle import EMPTY_ROOT, ProofFails, leaf_hash, root_of
from counterfoil_tlog.notes import COSIGNATURE, BadNote, Note, UntrustedNote
from counterfoil_tlog.submission import (
    NOTHING_YET,
    BadSubmission,
    CosignedHead,
    ForkedLog,
    StaleSize,
    Submission,
    UnknownLog,
    add_cosignatures,
    advance_head,
    verify_submission,
)
from counterfoil_tlog.tiles import extend, prove_consistency

ORIGIN = "console.example.org/log"
KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
WITNESS = Ed25519PrivateKey.from_private_bytes(b"\x03" * 32)
LOGS = [notes.verifier(ORIGIN, KEY.public_key())]
LEAVES = [leaf_hash(bytes([number])) for number in range(40)]
TILES = extend(0, {}, LEAVES).changed


def signed(size: int, *, origin: str = ORIGIN, key: Ed25519PrivateKey = KEY, root: bytes | None = None) -> bytes:
    text = checkpoint.text(CheckpointBody(origin, size, root or root_of(LEAVES[:size])))
    return notes.write(Note(text, (notes.sign(text, name=origin, key=key),)))


def body(old: int, new: int, **changes) -> bytes:
    proof = changes.pop("proof", tuple(prove_consistency(old, new, TILES)) if old <= new else ())
    return submission.write(Submission(old, proof, signed(new, **changes)))


def head(size: int) -> CosignedHead:
    return CosignedHead(size, root_of(LEAVES[:size])) if size else NOTHING_YET


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_head_is_accepted_only_if_it_continues_the_last_one(stored, new):
    """L20: whatever the witness has, the proof is from there or it is not taken."""
    for old in range(new + 1):
        said = verify_submission(body(old, new), LOGS)
        if old == stored:
            assert advance_head(said, head(stored)) == head(new)
        else:
            with pytest.raises(StaleSize) as refused:
                advance_head(said, head(stored))
            assert refused.value.size == stored


def test_the_same_head_is_accepted_again():
    assert advance_head(verify_submission(body(7, 7), LOGS), head(7)) == head(7)
    assert advance_head(verify_submission(body(0, 0), LOGS), NOTHING_YET) == NOTHING_YET


def test_another_root_at_the_same_size_is_a_fork():
    with pytest.raises(ForkedLog):
        advance_head(verify_submission(body(7, 7, root=bytes(32)), LOGS), head(7))


def test_a_proof_of_another_history_fails():
    other = extend(0, {}, [leaf_hash(b"other"), *LEAVES[1:9]])
    said = verify_submission(
        submission.write(Submission(7, tuple(prove_consistency(7, 9, other.changed)), signed(9))), LOGS
    )
    with pytest.raises(ProofFails):
        advance_head(said, head(7))
    for proof in ((), (bytes(32),)):
        with pytest.raises(ProofFails):
            advance_head(verify_submission(body(7, 9, proof=proof), LOGS), head(7))
    with pytest.raises(ProofFails):
        advance_head(verify_submission(body(0, 9, proof=(bytes(32),)), LOGS), NOTHING_YET)


def test_an_unknown_log_is_refused_before_its_signature_is_checked():
    for key in (KEY, OTHER):
        with pytest.raises(UnknownLog):
            verify_submission(body(0, 5, origin="other.example/log", key=key), LOGS)


def test_a_head_that_the_log_did_not_sign_is_refused():
    with pytest.raises(UntrustedNote):
        verify_submission(body(0, 5, key=OTHER), LOGS)
    again = Note(checkpoint.text(CheckpointBody(ORIGIN, 6, root_of(LEAVES[:6]))), notes.parse(signed(5)).signatures)
    with pytest.raises(UntrustedNote):
        verify_submission(submission.write(Submission(0, (), notes.write(again))), LOGS)


def test_a_log_may_have_two_keys_during_a_rotation():
    both = [*LOGS, notes.verifier(ORIGIN, OTHER.public_key())]
    for key in (KEY, OTHER):
        assert verify_submission(body(0, 5, key=key), both).head.size == 5


def test_an_old_size_above_the_new_one_is_refused():
    with pytest.raises(BadSubmission):
        verify_submission(body(9, 7), LOGS)


GOOD = body(7, 9)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"old 7",
        GOOD.replace(b"old 7", b"old 07"),
        GOOD.replace(b"old 7", b"old -7"),
        GOOD.replace(b"old 7", b"old  7"),
        GOOD.replace(b"old 7", b"old"),
        GOOD.replace(b"old 7", b"Old 7"),
        GOOD.replace(b"old 7\n", b""),
        GOOD.replace(b"old 7", b"old 9223372036854775808"),
        GOOD.replace(b"old 7\n", b"old 7\r\n"),
        GOOD.replace(b"old 7\n", b"old 7\nnot a hash\n"),
        GOOD.replace(b"old 7\n", b"old 7\n" + base64.b64encode(bytes(31)) + b"\n"),
        GOOD.replace(b"old 7\n", b"old 7\n" + (base64.b64encode(bytes(32)) + b"\n") * 60),
        GOOD.replace(b"old 7\n", b"old 7\n\n"),
        GOOD.replace(b"old 7\n", "old 7\né\n".encode()),
        GOOD[:-1],
        GOOD + b"\n",
        GOOD.replace(b"\n9\n", b"\n09\n"),
        b"\n" + GOOD,
        GOOD.replace(ORIGIN.encode(), ORIGIN.encode() + b"\0"),
    ],
)
def test_a_submission_in_any_other_form_is_refused(data):
    """L20: 400."""
    assert verify_submission(GOOD, LOGS).old_size == 7
    with pytest.raises((BadSubmission, BadNote, BadCheckpoint)) as refused:
        verify_submission(data, LOGS)
    assert refused.value.status == 400


@given(st.integers(0, 2**63 - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=63), st.binary(max_size=50))
def test_a_written_submission_is_read_back(old, proof, note):
    made = Submission(old, tuple(proof), note)
    assert submission.parse(submission.write(made)) == made


# The answer


def test_a_valid_cosignature_is_added_to_the_note():
    note = notes.parse(signed(9))
    by = notes.verifier("w.example", WITNESS.public_key(), COSIGNATURE)
    line = cosign(note.text, name="w.example", key=WITNESS, seconds=5)
    stranger = notes.Signature("stranger.example", b"abcd", bytes(72))
    joined = add_cosignatures(notes.write_signatures([stranger, line]).encode(), note, [by])
    assert joined.signatures == (*note.signatures, line)
    assert add_cosignatures(notes.write_signatures([line]).encode(), joined, [by]) == joined


def test_an_answer_without_a_valid_cosignature_is_refused():
    note = notes.parse(signed(9))
    by = notes.verifier("w.example", WITNESS.public_key(), COSIGNATURE)
    other = cosign(checkpoint.text(CheckpointBody(ORIGIN, 1, EMPTY_ROOT)), name="w.example", key=WITNESS, seconds=5)
    for lines in (b"", b"\n", b"hello\n", b"\xff\n", notes.write_signatures([other]).encode(), signed(9)):
        with pytest.raises((BadNote, UntrustedNote)):
            add_cosignatures(lines, note, [by])
