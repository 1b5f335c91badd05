"""Witnesses as processes of their own, and a log that asks them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil_tlog import checkpoint, notes, submission
from counterfoil_tlog.checkpoint import CheckpointBody
from counterfoil_tlog.merkle import leaf_hash, root_of
from counterfoil_tlog.notes import Note, Verifier
from counterfoil_tlog.submission import Submission
from counterfoil_tlog.tiles import extend, prove_consistency

ROOT = Path(__file__).resolve().parents[3]
NAME = "witness.example.org/one"


@dataclass
class SomeLog:
    """A log with its key and its leaves, all in memory."""

    origin: str = "console.example.org/log"
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    leaves: list[bytes] = field(default_factory=lambda: [leaf_hash(bytes([number])) for number in range(250)])

    def __post_init__(self) -> None:
        self.tiles = extend(0, {}, self.leaves).changed

    @property
    def vkey(self) -> str:
        return notes.vkey(self.origin, self.key.public_key())

    def signed(self, size: int, root: bytes | None = None) -> bytes:
        text = checkpoint.text(CheckpointBody(self.origin, size, root or root_of(self.leaves[:size])))
        return notes.write(Note(text, (notes.sign(text, name=self.origin, key=self.key),)))

    def body(self, old: int, new: int) -> bytes:
        return submission.write(Submission(old, tuple(prove_consistency(old, new, self.tiles)), self.signed(new)))


@dataclass
class RunningWitness:
    """One that answers."""

    url: str
    key: Verifier
    process: subprocess.Popen[str]
    client: httpx.Client

    def post(self, body: bytes, path: str = submission.PATH) -> httpx.Response:
        return self.client.post(self.url + path, content=body)


def command(folder: Path, *options: str) -> list[str]:
    if find_spec("counterfoil_witness") is None:
        pytest.skip("counterfoil-witness is not installed")
    return [sys.executable, "-m", "counterfoil_witness", "--folder", str(folder), *options]


def environment() -> dict[str, str]:
    """Nothing of ours: no settings, no database, no broker."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    argv = command(folder, *options)
    return subprocess.run(
        argv, cwd=folder.parent, env=environment(), capture_output=True, text=True, timeout=30, check=False
    )


@contextmanager
def witness(folder: Path, logs: Sequence[str], *, name: str = NAME, port: int = 0) -> Iterator[RunningWitness]:
    """A witness of these logs; what it remembers stays in the folder."""
    listed = folder.with_suffix(".logs")
    listed.write_text("# the logs that this witness watches\n\n" + "".join(f"{each}\n" for each in logs))
    options = ("--name", name, "--logs", str(listed), "--port", str(port))
    argv = command(folder, *options)
    with (
        httpx.Client(trust_env=False, timeout=20) as client,
        subprocess.Popen(argv, cwd=folder.parent, env=environment(), stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            vkey, where = process.stdout.readline().strip(), process.stdout.readline()
            address = where.split()[2].rstrip(",")
            yield RunningWitness(f"http://{address}", notes.read_vkey(vkey), process, client)
        finally:
            process.terminate()
            process.wait(timeout=20)
