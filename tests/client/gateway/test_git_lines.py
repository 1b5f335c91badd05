"""The lines and the pack of a push, read from bytes: of git's own making, and broken ones."""

from __future__ import annotations

import io
import random
import subprocess
import zlib

import pytest

from counterfoil.gateway.git_lines import (
    NoPush,
    pkt_line,
    read_push,
    read_report,
    refusal_report,
)
from counterfoil.gateway.git_pack import UnreadablePack, is_forward, read_commits
from tests.support.outside import git_server

OLD, NEW = "1" * 40, "2" * 40
PACK = b"PACK" + (2).to_bytes(4, "big") + (0).to_bytes(4, "big")
UPDATE = f"{OLD} {NEW} refs/heads/main".encode()
CAPABILITIES = b"\0 report-status side-band-64k agent=git/2"


def body(*lines, rest=b"0000" + PACK):
    return b"".join(map(pkt_line, lines)) + rest


def read(data):
    return read_push(io.BytesIO(data))


def test_a_push_is_read_with_its_options_and_its_pack():
    push = read(body(UPDATE + CAPABILITIES + b" push-options", rest=b"0000" + pkt_line(b"ci.skip") + b"0000" + PACK))
    assert push is not None
    (update,) = push.updates
    assert (update.ref, update.old, update.new) == ("refs/heads/main", OLD, NEW)
    assert (push.options, push.objects, push.sideband) == (("ci.skip",), 0, True)


def test_the_flush_packet_with_which_git_probes_a_connection_is_not_a_push():
    assert read(b"0000") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"00",
        b"0001",
        b"zzzz",
        b"0004",
        b"+004",
        b"fff0short",
        body(UPDATE + CAPABILITIES, rest=b"0000"),
        body(UPDATE + CAPABILITIES, rest=b"0000" + PACK[:8]),
        body(UPDATE + CAPABILITIES, rest=b"0000" + b"KCAP" + PACK[4:]),
        body(UPDATE + CAPABILITIES, rest=b""),
        body(UPDATE + b"\0 report-status teleport"),
        body(UPDATE + b"\0 side-band-64k"),
        body(UPDATE + CAPABILITIES, UPDATE),
        body(UPDATE + CAPABILITIES, UPDATE.replace(b"main", b"other") + CAPABILITIES),
        body(b"shallow " + OLD.encode()),
        body(b"hello"),
        body(UPDATE.replace(b"main", b"\xff") + CAPABILITIES),
        body(UPDATE + CAPABILITIES, *(f"{OLD} {NEW} refs/heads/{n}".encode() for n in range(100))),
    ],
)
def test_an_incomplete_push_is_refused(data):
    with pytest.raises(NoPush):
        read(data)


def test_a_report_is_read_and_a_truncated_one_is_rejected():
    told = refusal_report(["refs/heads/main"], "waits\nfor approval", sideband=True)
    assert read_report(told, sideband=True) == {"refs/heads/main": "waits for approval"}
    for end in range(len(told) - 4):
        with pytest.raises(NoPush):
            read_report(told[:end], sideband=True)


def packed(folder, *revisions):
    said = "\n".join(revisions).encode()
    words = ["git", "pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"]
    return subprocess.run(words, cwd=folder, input=said, capture_output=True, check=True).stdout


def test_a_push_is_called_fast_forward_only_where_git_agrees(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    git_server.git(folder, "init", "-q", "-b", "main")
    chance, made = random.Random(7), [git_server.commit(folder, "0")]
    tree = git_server.git(folder, "rev-parse", "HEAD^{tree}")
    for number in range(1, 25):
        parents = chance.sample(made, k=min(len(made), chance.choice([1, 1, 1, 2])))
        words = [word for parent in parents for word in ("-p", parent)]
        made.append(git_server.git(folder, "commit-tree", tree, "-m", str(number), *words))
    proven = ancestors = 0
    for _ in range(60):
        old, new = chance.sample(made, k=2)
        commits = read_commits(io.BytesIO(packed(folder, new, f"^{old}")), long_hash=False)
        ancestor = ["git", "merge-base", "--is-ancestor", old, new]
        really = subprocess.run(ancestor, cwd=folder, check=False).returncode == 0
        assert is_forward(commits, old, new) <= really
        proven += is_forward(commits, old, new)
        ancestors += really
    assert proven == ancestors > 5


def test_a_broken_pack_is_rejected():
    start = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big")
    whole = start + bytes([(1 << 4) | 5]) + zlib.compress(b"12345")
    assert len(read_commits(io.BytesIO(whole), long_hash=False)) == 1
    longer = start + bytes([(1 << 4) | 4]) + zlib.compress(b"12345")
    unknown = start + bytes([(5 << 4) | 5]) + zlib.compress(b"12345")
    for data in (whole[:-3], longer, unknown, start, b"KCAP" + whole[4:], whole[:13] + b"no zlib at all"):
        with pytest.raises(UnreadablePack):
            read_commits(io.BytesIO(data), long_hash=False)
