"""Go's checksum database as a judge of our trees and notes: golang.org/x/mod/sumdb, which nobody here wrote.

It is built from Debian's packages, unpacked under `var/peers`. The question of `recorded` has an answer that is kept
in `tests/vectors/sumdb.json`, so that the bounded suite reads what Go said without having Go.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil_tlog.merkle import leaf_hash
from counterfoil_tlog.tiles import TileAddress, extend, path, prove_consistency, prove_inclusion, width
from tests.peers.support.environment import debian_tree

VECTORS = Path(__file__).parents[2] / "vectors" / "sumdb.json"
SIZES = (1, 2, 3, 7, 8, 100, 255, 256, 257, 300)
KEY = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
TEXTS = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
    "console.example.org/log\n300\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
    "a text\n\nwith an empty line and an umlaut: ü\n",
)
_PACKAGES = ("golang-1.19-go", "golang-1.19-src", "golang-golang-x-mod-dev")

Ask = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="session")
def sumdb() -> Ask:
    """Asks the program one question."""
    program = _built()

    def ask(question: dict[str, Any]) -> dict[str, Any]:
        asked = json.dumps(question).encode()
        said = subprocess.run([str(program)], input=asked, capture_output=True, timeout=300, check=False)
        assert said.returncode == 0, said.stderr.decode()
        answer: dict[str, Any] = json.loads(said.stdout)
        return answer

    return ask


def entries(count: int) -> list[bytes]:
    """What the trees of these tests hold."""
    return [f"entry {number}".encode() for number in range(count)]


def written(data: bytes) -> str:
    """Bytes as Go reads them from JSON."""
    return base64.b64encode(data).decode()


def hashes(proof: list[str] | None) -> list[bytes]:
    """The hashes of a proof that Go wrote."""
    return [base64.b64decode(each) for each in proof or ()]


def question(sizes: tuple[int, ...], places: list[tuple[int, int]], growths: list[tuple[int, int]]) -> dict[str, Any]:
    """Our proofs and tiles, to be checked; Go answers with its own."""
    leaves = [leaf_hash(each) for each in entries(max(sizes))]
    tiles = extend(0, {}, leaves).changed
    roots = {size: written(extend(0, {}, leaves[:size]).root) for size in sizes}
    return {
        "Entries": [written(each) for each in entries(max(sizes))],
        "Sizes": sizes,
        "Inclusion": [
            {
                "Index": index,
                "Size": size,
                "Hashes": [written(each) for each in prove_inclusion(index, size, tiles)],
                "Leaf": written(leaves[index]),
                "Root": roots[size],
            }
            for index, size in places
        ],
        "Consistency": [
            {
                "Old": old,
                "Size": new,
                "Hashes": [written(each) for each in prove_consistency(old, new, tiles)],
                "From": roots[old],
                "Root": roots[new],
            }
            for old, new in growths
        ],
        "Tiles": served(sizes, tiles),
    }


def served(sizes: tuple[int, ...], tiles: dict[TileAddress, bytes]) -> dict[str, str]:
    """Every tile of the trees of these sizes, at its path."""
    return {
        path(tile, wide): written(content[: wide * 32])
        for size in sizes
        for tile, content in tiles.items()
        if (wide := width(tile, size))
    }


def recorded() -> dict[str, Any]:
    """The question whose answer is kept in the vectors."""
    places = [(index, size) for size in SIZES for index in sorted({0, size // 2, size - 1})]
    growths = [(old, new) for new in SIZES for old in SIZES if old <= new]
    return question(SIZES, places, growths) | {"Sign": [{"Key": KEY, "Text": text} for text in TEXTS]}


def _built() -> Path:
    """The program, compiled on the first call."""
    folder = debian_tree(_PACKAGES)
    root, program = folder / "usr" / "lib" / "go-1.19", folder / "sumdb"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GOROOT": str(root),
        "GOPATH": str(folder / "usr" / "share" / "gocode"),
        "GOCACHE": str(folder / "cache"),
        "GO111MODULE": "off",
        "CGO_ENABLED": "0",
    }
    build = [str(root / "bin" / "go"), "build", "-o", str(program), str(Path(__file__).with_suffix(".go"))]
    subprocess.run(build, env=environment, check=True, capture_output=True, timeout=300)
    return program
