"""`counterfoil-tlog`, as the program that a person runs on files."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog import checkpoint, notes, proof
from counterfoil_tlog.checkpoint import CheckpointBody
from counterfoil_tlog.cosignature import cosign
from counterfoil_tlog.merkle import leaf_hash, root_of
from counterfoil_tlog.notes import COSIGNATURE, Note
from counterfoil_tlog.tiles import extend, prove_inclusion

ORIGIN, WITNESS = "log.example.org/one", "witness.example.org/one"
ENTRIES = [b"refund 1", b"refund 2", b"refund 3"]
LOG_KEY, WITNESS_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A policy that asks for one witness, a head that this witness cosigned, and the proof of the second entry."""
    leaves = [leaf_hash(entry) for entry in ENTRIES]
    text = checkpoint.text(CheckpointBody(ORIGIN, len(leaves), root_of(leaves)))
    signed = notes.sign(text, name=ORIGIN, key=LOG_KEY)
    cosigned = cosign(text, name=WITNESS, key=WITNESS_KEY, seconds=1_780_000_000)
    (tmp_path / "alone").write_bytes(notes.write(Note(text, (signed,))))
    (tmp_path / "head").write_bytes(notes.write(Note(text, (signed, cosigned))))
    path = prove_inclusion(1, 3, extend(0, {}, leaves).changed)
    (tmp_path / "proof").write_bytes(proof.write(proof.LogProof(1, tuple(path), (tmp_path / "head").read_bytes())))
    (tmp_path / "entry").write_bytes(ENTRIES[1])
    log, witness = notes.vkey(ORIGIN, LOG_KEY.public_key()), notes.vkey(WITNESS, WITNESS_KEY.public_key(), COSIGNATURE)
    (tmp_path / "policy").write_text(f"log {log}\nwitness w {witness}\nquorum w\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counterfoil_tlog", "--policy", "policy", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_head_that_its_log_signed_and_the_quorum_cosigned_holds(files: Path):
    done = run(files, "head")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"origin  {ORIGIN}\nsize    3\nroot    {root_of([leaf_hash(entry) for entry in ENTRIES]).hex()}\n"
        "cosigned by w at 2026-05-28T20:26:40Z\n"
    )


def test_a_head_without_its_quorum_is_told_apart(files: Path):
    done = run(files, "alone")
    assert done.returncode == 1
    assert done.stdout.endswith("The quorum of the policy is not met: other histories may have been shown to others.\n")


def test_an_entry_is_checked_by_its_proof_and_another_entry_is_refused(files: Path):
    assert run(files, "--entry", "entry", "proof").returncode == 0
    (files / "entry").write_bytes(ENTRIES[2])
    done = run(files, "--entry", "entry", "proof")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "counterfoil-tlog: The proof does not lead from what it starts with to the root.\n"


def test_a_head_with_another_root_is_refused(files: Path):
    head = (files / "head").read_bytes()
    other = b64encode(leaf_hash(b"refund 4"))
    (files / "head").write_bytes(head.replace(head.split(b"\n")[2], other))
    done = run(files, "head")
    assert done.returncode == 2
    assert done.stderr == f"counterfoil-tlog: The signature of {ORIGIN} on this note is not good.\n"


def test_a_missing_file_and_a_wrong_policy_are_named(files: Path):
    assert "No such file" in run(files, "nowhere").stderr
    (files / "policy").write_text("quorum nobody\n")
    assert run(files, "head").stderr == "counterfoil-tlog: Line 1 of the policy file is wrong or in the wrong place.\n"
