"""Files, from the proposal to the decision: what a tool leaves on a real disk, and what is made of it."""

from __future__ import annotations

import hashlib

import pytest

from tests.peers.errand import Errand
from tests.peers.path import succeeded

TEXT = "Quiet."
HASH = hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "notes").mkdir(parents=True)
    (tmp_path / "root" / "kept").mkdir()
    (tmp_path / "root" / "kept" / "law.md").write_text("Law.")
    return tmp_path / "root"


def writing(root, *, path="notes/today.md", **part):
    usual = {"path": "sr.path", "sha256": "sr.sha256", "mode": "'0640'"}
    return Errand(
        pattern="filesystems",
        settings={"root": str(root), "protected": ["kept"]},
        arguments={"path": path, "sha256": HASH, "size": len(TEXT)},
        lookup={"effects": {"write": usual | part}},
        predicates=("sa.sha256 == sr.sha256", "sa.size == sr.size"),
        target="document/{path}",
        reading={"allow_extensions": [".md"]},
    )


def write(root, *, path="notes/today.md", text=TEXT, mode=0o640):
    (root / path).write_text(text)
    (root / path).chmod(mode)


@pytest.mark.req("R-CP-02", "R-VD-02")
def test_a_file_that_was_written_is_a_success(office, root):
    succeeded(office.carry_out(writing(root), lambda work: write(root)))
