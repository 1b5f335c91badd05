"""Files, from the proposal to the decision: what a tool leaves on a real disk, and what is made of it."""

from __future__ import annotations

import hashlib

import pytest

from tests.peers.support.errand import Errand
from tests.peers.support.path import fired, not_asked, succeeded

TEXT = "Quiet."
HASH = hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "notes").mkdir(parents=True)
    (tmp_path / "root" / "kept").mkdir()
    (tmp_path / "root" / "kept" / "law.md").write_text("Law.")
    return tmp_path / "root"


def writing(root, *, path="notes/today.md"):
    return Errand(
        pattern="filesystems",
        settings={"root": str(root), "protected": ["kept"]},
        arguments={"path": path, "sha256": HASH, "size": len(TEXT)},
        lookup={"effects": {"write": {"path": "sr.path", "sha256": "sr.sha256", "mode": "'0640'"}}},
        predicates=("sa.sha256 == sr.sha256", "sa.size == sr.size", "sa.mode == '0640'"),
        target="document/{path}",
        reading={"allow_extensions": [".md"]},
    )


def deleting(root, path):
    return Errand(
        pattern="filesystems",
        settings={"root": str(root), "protected": ["kept"]},
        arguments={"path": path},
        lookup={"effects": {"delete": {"path": "sr.path", "expect": "absent"}}},
        target="document/{path}",
    )


def write(root, *, path="notes/today.md", text=TEXT, mode=0o640):
    (root / path).write_text(text)
    (root / path).chmod(mode)


def write_outside(root):
    (root / "notes").rmdir()
    (root / "notes").symlink_to(root.parent / "outside")
    write(root)


@pytest.mark.req("R-CP-02", "R-VD-02")
def test_a_written_file_is_a_success(office, root):
    ended = office.carry_out(writing(root), lambda work: write(root))
    succeeded(ended)
    assert ended.effect["fields"]["path"] == "notes/today.md"
    assert not_asked(ended) == set()


@pytest.mark.req("R-CP-02", "R-CP-13", "R-CP-16", "R-VD-02")
@pytest.mark.parametrize(
    ("indicator", "effect", "path"),
    [
        ("file_missing", lambda root: None, "notes/today.md"),
        ("hash_mismatch", lambda root: write(root, text="Loud."), "notes/today.md"),
        ("unexpected_permission_mode", lambda root: write(root, mode=0o666), "notes/today.md"),
        ("unauthorized_extension", lambda root: write(root, path="notes/today.sh"), "notes/today.sh"),
        ("path_escapes_sandbox", write_outside, "notes/today.md"),
    ],
)
def test_a_wrong_file_raises_its_indicator(office, root, indicator, effect, path):
    fired(office.carry_out(writing(root, path=path), lambda work: effect(root)), indicator)


@pytest.mark.req("R-CP-02")
def test_a_deletion_of_a_protected_file_raises_an_indicator(office, root):
    ended = office.carry_out(deleting(root, "kept/law.md"), lambda work: (root / "kept" / "law.md").unlink())
    fired(ended, "destructive_operation_outside_policy")


def test_a_deleted_file_is_a_success(office, root):
    write(root)
    succeeded(office.carry_out(deleting(root, "notes/today.md"), lambda work: (root / "notes" / "today.md").unlink()))
