"""Signed notes and checkpoints: one spelling each, and no signature that is better than it looks."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.checkpoint import BadCheckpoint, CheckpointBody
from counterfoil_tlog.merkle import EMPTY_ROOT
from counterfoil_tlog.notes import (
    COSIGNATURE,
    BadNote,
    BadVerifierKey,
    Note,
    Signature,
    UntrustedNote,
    read_signatures,
    read_vkey,
    sign,
    verifier,
    verify_signatures,
    vkey,
    write_vkey,
)
from tests.support.tables import every_row

# The example of C2SP signed-note, section "Verifier keys".
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
# The example of C2SP signed-note, section "Format": a text with an empty line.
POEM = (
    "Ognuno sta solo sul cuor della terra\n"
    "trafitto da un raggio di sole:\n"
    "\n"
    "ed è subito sera.\n\n"
    "— quasimodo.example/salvatore "
    "NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
)
# The example of C2SP tlog-checkpoint with a cosignature (tlog-cosignature).
HEAD = (
    "example.com/behind-the-sofa\n"
    "20852163\n"
    "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZ"
    "qhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)

KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
NAME = "console.example.org/log"
TEXT = "console.example.org/log\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
OURS = verifier(NAME, KEY.public_key())
SIGNED = Note(TEXT, (sign(TEXT, name=NAME, key=KEY),))


def unknown(number: int) -> Signature:
    return Signature(f"unknown.example/{number}", number.to_bytes(4, "big"), bytes(64))


# The examples of the specification


def test_the_example_of_the_specification_verifies():
    """L4: the C2SP example key and note."""
    note = notes.parse(EXAMPLE.encode())
    key = read_vkey(EXAMPLE_KEY)
    assert (key.name, key.key_id.hex(), key.kind) == ("example.com/foo", "530d903a", 1)
    assert verify_signatures(note, [key]) == note.signatures
    assert note.text == "This is an example message.\n"
    assert notes.write(note) == EXAMPLE.encode()
    assert write_vkey(key) == EXAMPLE_KEY


@every_row("place", range(len(EXAMPLE.encode())))
def test_a_flipped_bit_anywhere_in_the_example_is_refused(place):
    """L4: each bit of text and signature."""
    for bit in range(8):
        damaged = bytearray(EXAMPLE.encode())
        damaged[place] ^= 1 << bit
        with pytest.raises((BadNote, UntrustedNote)):
            verify_signatures(notes.parse(bytes(damaged)), [read_vkey(EXAMPLE_KEY)])


def test_the_key_of_a_public_witness_is_read():
    """L4: a verifier key of type 0x04 that others published, with the key id that they computed."""
    published = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"
    assert read_vkey(published)[:3] == ("remora.n621.de", bytes.fromhex("da77ade7"), COSIGNATURE)
    assert write_vkey(read_vkey(published)) == published


def test_the_text_of_a_note_may_contain_empty_lines():
    """L4: the last empty line is the one that counts."""
    note = notes.parse(POEM.encode())
    assert note.text.endswith("\n\ned è subito sera.\n")
    assert [each.name for each in note.signatures] == ["quasimodo.example/salvatore"]
    assert notes.write(note) == POEM.encode()


def test_the_example_checkpoint_is_read():
    """L4: the C2SP example checkpoint, with the log's signature and a cosignature."""
    note = notes.parse(HEAD.encode())
    head = checkpoint.parse(note.text)
    assert head.origin == "example.com/behind-the-sofa"
    assert head.size == 20852163
    assert base64.b64encode(head.root) == b"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    assert checkpoint.text(head) == note.text
    assert notes.write(note) == HEAD.encode()
    log, witness = note.signatures
    assert len(log.signature) == 64
    assert int.from_bytes(witness.signature[:8], "big") == 1679315147


# Who signed


def test_a_signature_verifies_with_its_own_key():
    assert verify_signatures(notes.parse(notes.write(SIGNED)), [OURS]) == SIGNED.signatures
    assert vkey(NAME, KEY.public_key()) == write_vkey(OURS)
    assert read_vkey(vkey(NAME, KEY.public_key())) == OURS


def test_signatures_of_unknown_keys_are_ignored():
    """L4: even where they share the name or the id, but not both, with a known key."""
    same_name = Signature(NAME, b"none", bytes(64))
    same_id = Signature("other.example", OURS.key_id, bytes(64))
    note = Note(TEXT, (unknown(1), same_name, same_id, *SIGNED.signatures, unknown(2)))
    assert verify_signatures(notes.parse(notes.write(note)), [OURS]) == SIGNED.signatures


def test_a_bad_signature_of_a_known_key_refuses_the_note():
    """L4: known but bad, beside a good one of the same key and beside one of another."""
    bad = SIGNED.signatures[0]._replace(signature=bytes(64))
    other = sign(TEXT, name="other.example", key=OTHER)
    both = [OURS, verifier("other.example", OTHER.public_key())]
    for signatures in ((bad,), (bad, *SIGNED.signatures), (*SIGNED.signatures, bad), (other, bad)):
        with pytest.raises(UntrustedNote):
            verify_signatures(Note(TEXT, signatures), both)


def test_a_note_without_a_signature_of_a_known_key_is_refused():
    """L4: none known."""
    for signatures, known in [((unknown(1),), [OURS]), (SIGNED.signatures, []), ((unknown(1), unknown(2)), [])]:
        with pytest.raises(UntrustedNote):
            verify_signatures(Note(TEXT, signatures), known)


def test_a_signature_is_valid_only_for_its_own_text_name_and_type():
    other_text = Note(TEXT.replace("\n7\n", "\n8\n"), SIGNED.signatures)
    with pytest.raises(UntrustedNote):
        verify_signatures(other_text, [OURS])
    renamed = Note(TEXT, (SIGNED.signatures[0]._replace(name="other.example"),))
    with pytest.raises(UntrustedNote):
        verify_signatures(renamed, [OURS, verifier("other.example", KEY.public_key())])
    witness = verifier(NAME, KEY.public_key(), COSIGNATURE)
    assert witness.key_id != OURS.key_id
    retyped = Note(TEXT, (SIGNED.signatures[0]._replace(key_id=witness.key_id),))
    with pytest.raises(UntrustedNote):
        verify_signatures(retyped, [witness])


@pytest.mark.parametrize("length", [1, 8, 63, 65, 72])
def test_a_signature_of_another_length_is_refused(length):
    cut = (SIGNED.signatures[0].signature * 2)[:length]
    for kind in (notes.ED25519, COSIGNATURE):
        key = verifier(NAME, KEY.public_key(), kind)
        with pytest.raises(UntrustedNote):
            verify_signatures(Note(TEXT, (Signature(NAME, key.key_id, cut),)), [key])


# The form


@pytest.mark.parametrize("count", [1, 16, 17, 33, 100])
def test_a_note_may_have_many_signatures(count):
    """L4: 17 signatures. A policy may list 32 witnesses beside the log, so the limit of 16 would be too low."""
    note = Note(TEXT, (*(unknown(number) for number in range(1, count)), *SIGNED.signatures))
    assert verify_signatures(notes.parse(notes.write(note)), [OURS]) == SIGNED.signatures


def test_notes_have_a_size_limit():
    lines = notes.write_signatures([unknown(number) for number in range(101)])
    with pytest.raises(BadNote):
        notes.parse(f"{TEXT}\n{lines}".encode())
    with pytest.raises(BadNote):
        notes.parse(b"x" * 2**20 + EXAMPLE.encode())


@pytest.mark.parametrize(
    "data",
    {
        "nothing": b"",
        "no signature": TEXT.encode(),
        "no signature after the empty line": TEXT.encode() + b"\n",
        "missing last newline": EXAMPLE.encode()[:-1],
        "a line too many": EXAMPLE.encode() + b"\n",
        "CRLF": EXAMPLE.replace("\n", "\r\n").encode(),
        "CR in the text": EXAMPLE.replace("example message", "example\rmessage").encode(),
        "tab": EXAMPLE.replace("example message", "example\tmessage").encode(),
        "NUL": EXAMPLE.replace("example message", "example\0message").encode(),
        "escape": EXAMPLE.replace("example message", "example\x1bmessage").encode(),
        "not UTF-8": EXAMPLE.encode().replace(b"example message", b"example\xffmessage"),
        "surrogate": EXAMPLE.encode().replace(b"example message", b"\xed\xa0\x80"),
        "hyphens for the dash": EXAMPLE.replace("—", "--").encode(),
        "no dash": EXAMPLE.replace("— ", "").encode(),
        "no name": EXAMPLE.replace("example.com/foo ", "").encode(),
        "empty name": EXAMPLE.replace("example.com/foo", "").encode(),
        "plus in the name": EXAMPLE.replace("example.com/foo", "example.com+foo").encode(),
        "hard space in the name": EXAMPLE.replace("example.com/foo", "example.com\u00a0foo").encode(),
        "two spaces": EXAMPLE.replace("foo Uw2Q", "foo  Uw2Q").encode(),
        "space at the end": EXAMPLE.replace("aQM=\n", "aQM= \n").encode(),
        "no padding": EXAMPLE.replace("aQM=\n", "aQM\n").encode(),
        "stray bits": EXAMPLE.replace("aQM=\n", "aQN=\n").encode(),
        "URL alphabet": POEM.replace("IS+Z/", "IS-Z_").encode(),
        "not Base64": EXAMPLE.replace("Uw2QO", "Uw2Q!").encode(),
        "only a key id": (TEXT + "\n— a AAAAAA==\n").encode(),
        "something else between": EXAMPLE.replace("\n\n—", "\n\nhello\n—").encode(),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_note_in_any_other_form_is_refused(data):
    """L4: CRLF, missing newline, control characters and every other spelling."""
    with pytest.raises(BadNote):
        notes.parse(data[1])


@given(st.text(max_size=40), st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=12)), max_size=4))
def test_a_note_that_can_be_written_is_read_back_equal(text, signatures):
    note = Note(text + "\n", tuple(Signature(name, content[:4], content[4:]) for name, content in signatures))
    try:
        written = notes.write(note)
    except (BadNote, ValueError):
        return
    assert notes.parse(written) == note


@given(st.binary(max_size=300))
def test_a_parsed_note_has_only_one_encoding(data):
    for content in (data, EXAMPLE.encode()[: len(data) % 40] + data, TEXT.encode() + b"\n" + data):
        try:
            note = notes.parse(content)
        except BadNote:
            continue
        assert notes.write(note) == content


def test_signature_lines_alone_are_written_and_read():
    lines = notes.write_signatures([unknown(1), unknown(2)])
    assert read_signatures(lines) == (unknown(1), unknown(2))
    for wrong in ("", "\n", lines[:-1], lines + "\n", lines.replace("—", "-")):
        with pytest.raises(BadNote):
            read_signatures(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo",
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("530d903a", "0530d903a"),
        EXAMPLE_KEY.replace("foo", "bar"),
        EXAMPLE_KEY.replace("/foo", " foo"),
        EXAMPLE_KEY + "\n",
        EXAMPLE_KEY[:-4],
        EXAMPLE_KEY + "AAAA",
        EXAMPLE_KEY.replace("AekyeRrm", "AukyeRrm"),
        EXAMPLE_KEY.replace("AekyeRrm", "BukyeRrm"),
        EXAMPLE_KEY[:-1] + "!",
    ],
)
def test_every_other_verifier_key_is_refused(text):
    with pytest.raises(BadVerifierKey):
        read_vkey(text)


def test_an_invalid_name_raises_an_error():
    for name in ("", "two words", "one+one"):
        with pytest.raises(ValueError, match="name"):
            sign(TEXT, name=name, key=KEY)


# Checkpoints

ROOT = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="


@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1),
    st.integers(1, 2**63 - 1),
    st.binary(min_size=32, max_size=32),
)
def test_a_written_checkpoint_is_read_back(origin, size, root):
    head = CheckpointBody(origin, size, root)
    assert checkpoint.parse(checkpoint.text(head)) == head


@pytest.mark.parametrize(
    "text",
    {
        "nothing": "",
        "two lines": f"o\n{ROOT}\n",
        "no root": "o\n7\n",
        "missing last newline": f"o\n7\n{ROOT}",
        "empty origin": f"\n7\n{ROOT}\n",
        "empty line at the end": f"o\n7\n{ROOT}\n\n",
        "empty line between": f"o\n7\n{ROOT}\n\nmore\n",
        "leading zero": f"o\n07\n{ROOT}\n",
        "two zeros": f"o\n00\n{ROOT}\n",
        "plus sign": f"o\n+7\n{ROOT}\n",
        "negative": f"o\n-7\n{ROOT}\n",
        "space": f"o\n 7\n{ROOT}\n",
        "other digits": f"o\n\u0667\n{ROOT}\n",
        "underscore": f"o\n1_0\n{ROOT}\n",
        "not a number": f"o\nseven\n{ROOT}\n",
        "too large": f"o\n{2**63}\n{ROOT}\n",
        "far too large": f"o\n{10**30}\n{ROOT}\n",
        "CRLF": f"o\r\n7\r\n{ROOT}\r\n",
        "short root": f"o\n7\n{base64.b64encode(bytes(31)).decode()}\n",
        "long root": f"o\n7\n{base64.b64encode(bytes(33)).decode()}\n",
        "root without padding": f"o\n7\n{ROOT[:-1]}\n",
        "root with stray bits": f"o\n7\n{ROOT[:-2]}J=\n",
        "root in hex": f"o\n7\n{EMPTY_ROOT.hex()}\n",
        "an empty log with another root": f"o\n0\n{ROOT}\n",
    }.items(),
    ids=lambda item: item[0],
)
def test_every_other_checkpoint_is_refused(text):
    """L4: leading zeros, CRLF, missing newline and every other spelling."""
    with pytest.raises(BadCheckpoint):
        checkpoint.parse(text[1])


def test_extension_lines_of_a_checkpoint_are_kept():
    text = f"o\n7\n{ROOT}\nmore\nand more\n"
    assert checkpoint.parse(text).extensions == ("more", "and more")
    assert checkpoint.text(checkpoint.parse(text)) == text


def test_an_empty_log_can_have_a_checkpoint():
    head = CheckpointBody("o", 0, EMPTY_ROOT)
    assert checkpoint.parse(checkpoint.text(head)) == head
    for wrong in (
        CheckpointBody("o", -1, EMPTY_ROOT),
        CheckpointBody("a\nb", 1, EMPTY_ROOT),
        CheckpointBody("o", 1, b"short"),
    ):
        with pytest.raises((ValueError, BadCheckpoint)):
            checkpoint.text(wrong)
