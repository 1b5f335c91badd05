"""Cosignatures, policies and proofs in files: who saw a head, and whether that is enough."""

from __future__ import annotations

import itertools

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from counterfoil_tlog import checkpoint, notes, witness_policy
from counterfoil_tlog import proof as proof_rules
from counterfoil_tlog.checkpoint import CheckpointBody
from counterfoil_tlog.cosignature import Cosignature, cosign, verify_cosignatures
from counterfoil_tlog.merkle import ProofFails, leaf_hash, root_of
from counterfoil_tlog.notes import COSIGNATURE, Note, Signature, UntrustedNote
from counterfoil_tlog.proof import BadLogProof, LogProof
from counterfoil_tlog.refusals import Refused
from counterfoil_tlog.tiles import extend, prove_inclusion
from counterfoil_tlog.witness_policy import BadWitnessPolicy, evaluate_checkpoint, is_satisfied
from tests.support.tables import every_row

ORIGIN = "console.example.org/log"
LEAVES = [leaf_hash(bytes([number])) for number in range(20)]
HEAD = CheckpointBody(ORIGIN, 20, root_of(LEAVES))
TEXT = checkpoint.text(HEAD)


def key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


LOG = key(1)
WITNESSES = {f"w{number}": key(10 + number) for number in range(1, 6)}
VKEYS = {name: notes.vkey(f"{name}.example", each.public_key(), COSIGNATURE) for name, each in WITNESSES.items()}
LOG_KEY = notes.vkey(ORIGIN, LOG.public_key())


def signed(*names: str, seconds: int = 1_700_000_000) -> bytes:
    lines = [cosign(TEXT, name=f"{name}.example", key=WITNESSES[name], seconds=seconds) for name in names]
    return notes.write(Note(TEXT, (notes.sign(TEXT, name=ORIGIN, key=LOG), *lines)))


def policy(*lines: str, logs: str = f"log {LOG_KEY}\n") -> bytes:
    witnesses = "".join(f"witness {name} {vkey}\n" for name, vkey in VKEYS.items())
    return (logs + witnesses + "".join(f"{line}\n" for line in lines)).encode()


# Cosignatures


def test_a_cosignature_states_its_time():
    note = notes.parse(signed("w1", seconds=1_679_315_147))
    by = notes.read_vkey(VKEYS["w1"])
    assert verify_cosignatures(note, [by]) == (Cosignature(by, 1_679_315_147),)


def test_the_signed_bytes_equal_those_of_the_specification():
    """C2SP tlog-cosignature: header, time, the whole text."""
    line = cosign(TEXT, name="w1.example", key=WITNESSES["w1"], seconds=7)
    assert line.signature[:8] == (7).to_bytes(8, "big")
    WITNESSES["w1"].public_key().verify(line.signature[8:], b"cosignature/v1\ntime 7\n" + TEXT.encode())


def test_a_cosignature_with_another_time_is_refused():
    note = notes.parse(signed("w1"))
    log, line = note.signatures
    later = line._replace(signature=(1_800_000_000).to_bytes(8, "big") + line.signature[8:])
    with pytest.raises(UntrustedNote):
        verify_cosignatures(note._replace(signatures=(log, later)), [notes.read_vkey(VKEYS["w1"])])


def test_a_time_beyond_the_specification_is_refused():
    with pytest.raises(UntrustedNote):
        verify_cosignatures(notes.parse(signed("w1", seconds=2**63)), [notes.read_vkey(VKEYS["w1"])])


def test_a_witness_counts_once_with_its_latest_time():
    lines = [cosign(TEXT, name="w1.example", key=WITNESSES["w1"], seconds=seconds) for seconds in (5, 9, 7)]
    by = notes.read_vkey(VKEYS["w1"])
    assert verify_cosignatures(Note(TEXT, tuple(lines)), [by]) == (Cosignature(by, 9),)


def test_unknown_witnesses_are_ignored():
    assert verify_cosignatures(notes.parse(signed("w1", "w2")), []) == ()
    assert [
        each.by.name for each in verify_cosignatures(notes.parse(signed("w1", "w2")), [notes.read_vkey(VKEYS["w2"])])
    ] == ["w2.example"]


def test_a_log_does_not_witness_itself():
    """A signature of type 0x01 is no cosignature, whatever key made it."""
    same = notes.verifier(ORIGIN, LOG.public_key(), COSIGNATURE)
    assert verify_cosignatures(notes.parse(signed()), [same, notes.read_vkey(LOG_KEY)]) == ()


# Policies


@pytest.mark.parametrize(
    ("lines", "enough", "short"),
    [
        (["quorum none"], [[], ["w1"]], []),
        (["quorum w1"], [["w1"], ["w1", "w2"]], [[], ["w2"]]),
        (["group any any w1 w2", "quorum any"], [["w1"], ["w2"]], [[], ["w3"]]),
        (["group g all w1 w2 w3", "quorum g"], [["w1", "w2", "w3"]], [["w1", "w2"], ["w4", "w5", "w1"]]),
        (["group g 2 w1 w2 w3", "quorum g"], [["w1", "w3"], ["w1", "w2", "w3"]], [["w1"], ["w1", "w4"]]),
        (
            ["group X 2 w1 w2 w3", "group Y any w4 w5", "group both all X Y", "quorum both"],
            [["w1", "w2", "w4"], ["w2", "w3", "w5"]],
            [["w1", "w2"], ["w1", "w4"], ["w4", "w5"], ["w1", "w2", "w3"]],
        ),
        (
            ["group X all w1 w2", "group mixed 2 X w3 w4", "quorum mixed"],
            [["w1", "w2", "w3"], ["w3", "w4"]],
            [["w1", "w3"], ["w1", "w2"]],
        ),
    ],
)
def test_a_quorum_requires_as_many_witnesses_as_the_policy_states(lines, enough, short):
    read = witness_policy.read(policy(*lines))
    for names in enough:
        assert is_satisfied(read, names)
        assert evaluate_checkpoint(read, signed(*names)).satisfied
    for names in short:
        assert not is_satisfied(read, names)
        assert not evaluate_checkpoint(read, signed(*names)).satisfied


@given(st.data())
def test_an_additional_witness_never_breaks_a_quorum(data):
    names = list(VKEYS)
    threshold = data.draw(st.sampled_from(["all", "any", "1", "2", "3"]))
    read = witness_policy.read(policy("group X 2 w1 w2 w3", f"group Y {threshold} X w4 w5", "quorum Y"))
    for count in range(len(names)):
        for some in itertools.combinations(names, count):
            if is_satisfied(read, some):
                assert all(is_satisfied(read, (*some, more)) for more in names)


def test_a_name_that_is_not_a_witness_does_not_count():
    read = witness_policy.read(policy("group X 2 w1 w2 w3", "quorum X"))
    assert not is_satisfied(read, ["X", "w1", "somebody"])


def test_a_policy_is_read_with_comments_tabs_and_addresses():
    text = (
        f"# who may\n\n \tlog\t{LOG_KEY}  https://log.example \n  # indented\n"
        f"witness é {VKEYS['w1']} https://w\nquorum é"
    )
    read = witness_policy.read(text.encode())
    assert read.logs[0].url == "https://log.example"
    assert (read.witnesses[0].name, read.witnesses[0].url, read.quorum) == ("é", "https://w", "é")
    assert evaluate_checkpoint(read, signed("w1")).cosigned == {"é": 1_700_000_000}


def test_names_are_compared_as_bytes():
    """The Kelvin sign is not the letter K, and octets that are no UTF-8 mean themselves."""
    lines = f"witness K {VKEYS['w1']}\nwitness \u212a {VKEYS['w2']}\n".encode()
    odd = lines + b"witness \xff " + VKEYS["w3"].encode() + b"\ngroup g all K \xe2\x84\xaa \xff\nquorum g\n"
    assert len(witness_policy.read(odd).groups[0].members) == 3


@every_row(
    "text",
    [
        policy(),
        policy("quorum none", "quorum none"),
        policy("quorum w9"),
        policy("quorum"),
        policy("quorum w1 w2"),
        policy("group g any w1 w9", "quorum g"),
        policy("quorum g", "group g any w1"),
        policy("group g any", "quorum g"),
        policy("group g", "quorum w1"),
        policy("group g 0 w1", "quorum g"),
        policy("group g 3 w1 w2", "quorum g"),
        policy("group g 01 w1 w2", "quorum g"),
        policy("group g +1 w1 w2", "quorum g"),
        policy("group g most w1 w2", "quorum g"),
        policy("group g any w1 w1", "quorum g"),
        policy("group g any w1", "group h any w1", "quorum h"),
        policy("group g any g", "quorum g"),
        policy("group w1 any w2", "quorum w1"),
        policy("group none any w2", "quorum none"),
        policy("group g any none", "quorum g"),
        policy(f"witness w1 {notes.vkey('other.example', key(40).public_key(), COSIGNATURE)}", "quorum none"),
        policy(f"witness other {VKEYS['w1']}", "quorum none"),
        policy(
            f"witness other {notes.vkey('renamed.example', WITNESSES['w1'].public_key(), COSIGNATURE)}", "quorum w1"
        ),
        policy(f"witness other {LOG_KEY}", "quorum none"),
        policy(f"log {VKEYS['w1']}", "quorum none"),
        policy(f"log {LOG_KEY}", "quorum none"),
        policy(f"log {notes.vkey('renamed.example', LOG.public_key())}", "quorum none"),
        policy(f"log {LOG_KEY} https://a https://b", "quorum none", logs=""),
        policy("log", "quorum none"),
        policy("witness w9", "quorum none"),
        policy("trust everybody", "quorum none"),
        policy("Quorum none"),
        policy("quorum none\r"),
        policy("quorum\x0bnone"),
        policy("quorum none # really"),
        policy("quorum none").replace(b"quorum", b"\xef\xbb\xbfquorum"),
        b"witness \xff" + VKEYS["w1"].encode() + b"\nquorum none\n",
        b"log \xff" + LOG_KEY.encode() + b"\nquorum none\n",
        b"#" * 2**16 + b"\nquorum none\n",
        b"",
    ],
)
def test_an_invalid_policy_is_refused(text):
    with pytest.raises(BadWitnessPolicy):
        witness_policy.read(text)


def test_a_head_without_a_signature_of_a_listed_log_is_refused():
    other = notes.vkey("other.example/log", key(50).public_key())
    for logs in (f"log {other}\n", "", f"log {notes.vkey(ORIGIN, key(51).public_key())}\n"):
        with pytest.raises(UntrustedNote):
            evaluate_checkpoint(witness_policy.read(policy("quorum none", logs=logs)), signed("w1"))


def test_a_bad_cosignature_of_a_listed_witness_refuses_the_head():
    """However many others are good."""
    note = notes.parse(signed("w1", "w2", "w3"))
    bad = note.signatures[1]._replace(signature=bytes(72))
    damaged = notes.write(note._replace(signatures=(note.signatures[0], bad, *note.signatures[2:])))
    read = witness_policy.read(policy("group g any w1 w2 w3", "quorum g"))
    with pytest.raises(UntrustedNote):
        evaluate_checkpoint(read, damaged)


def test_a_head_signed_only_by_witnesses_is_refused():
    note = notes.parse(signed("w1"))
    with pytest.raises(UntrustedNote):
        evaluate_checkpoint(
            witness_policy.read(policy("quorum w1")), notes.write(note._replace(signatures=note.signatures[1:]))
        )


# A proof in a file


def proof(index: int = 7, extra: bytes | None = None) -> LogProof:
    path = prove_inclusion(index, 20, extend(0, {}, LEAVES).changed)
    return LogProof(index, tuple(path), signed("w1"), extra)


@pytest.mark.parametrize("extra", [None, b"", b"opaque", bytes(range(256))], ids=repr)
def test_a_written_proof_is_read_back(extra):
    assert proof_rules.parse(proof_rules.write(proof(extra=extra))) == proof(extra=extra)


def test_a_proof_holds_for_its_own_entry_only():
    read = witness_policy.read(policy("quorum w1"))
    for index in range(20):
        found = proof_rules.check_proof(proof(index), leaf=LEAVES[index], policy=read)
        assert found.head == HEAD
        assert found.satisfied
        with pytest.raises(ProofFails):
            proof_rules.check_proof(proof(index), leaf=LEAVES[(index + 1) % 20], policy=read)


def test_a_proof_without_its_witness_is_not_satisfied():
    read = witness_policy.read(policy("quorum w2"))
    assert not proof_rules.check_proof(proof(), leaf=LEAVES[7], policy=read).satisfied


def believed(data: bytes, leaf: bytes, read: witness_policy.WitnessPolicy) -> bool:
    try:
        return proof_rules.check_proof(proof_rules.parse(data), leaf=leaf, policy=read).satisfied
    except Refused:
        return False


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_in_a_proof_is_refused(bit):
    read = witness_policy.read(policy("quorum w1"))
    written = proof_rules.write(proof())
    for place in range(len(written)):
        damaged = bytearray(written)
        damaged[place] ^= 1 << bit
        assert not believed(bytes(damaged), LEAVES[7], read)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"@v1", b"@v2"),
        (b"index 7", b"index 07"),
        (b"index 7", b"index -7"),
        (b"index 7", b"index"),
        (b"index 7", b"index 7 "),
        (b"index 7", b"extra !\nindex 7"),
        (b"index 7", b"extra YQ=\nindex 7"),
        (b"index 7", b"extra  YQ==\nindex 7"),
        (b"index 7", b"extra YQ==\nextra YQ==\nindex 7"),
        (b"index 7\n", b"index 7\n" + b"A" * 43 + b"=\n" * 1 + (b"A" * 43 + b"=\n") * 63),
        (b"\n\n", b"\n\xc3\xa9\n"),
        (b"c2sp", b" c2sp"),
        (b"index 7", "index \u0667".encode()),
    ],
)
def test_an_invalid_proof_file_is_refused(old, new):
    written = proof_rules.write(proof())
    assert believed(written, LEAVES[7], witness_policy.read(policy("quorum w1")))
    with pytest.raises(BadLogProof):
        proof_rules.parse(written.replace(old, new, 1))


def test_unknown_signatures_beside_a_proof_do_not_count():
    """Twenty strangers are worth nothing."""
    strangers = tuple(Signature(f"s{number}.example", bytes([number] * 4), bytes(72)) for number in range(20))
    note = notes.parse(signed())
    data = notes.write(note._replace(signatures=(*note.signatures, *strangers)))
    assert not evaluate_checkpoint(witness_policy.read(policy("group g any w1 w2", "quorum g")), data).satisfied


def test_a_written_policy_requires_the_same_witnesses_when_it_is_read_back():
    asked = witness_policy.read(policy("group two 2 w1 w2", "quorum two"))
    again = witness_policy.read(witness_policy.write([LOG_KEY], asked).encode())
    assert (again.witnesses, again.groups, again.quorum) == (asked.witnesses, asked.groups, asked.quorum)
    assert witness_policy.read(witness_policy.write([LOG_KEY], None).encode()).quorum is None
