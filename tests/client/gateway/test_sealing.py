"""Bodies, answers and states on disk are sealed: any damage is found, and a lost key sends nothing."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace

import pytest

from counterfoil.gateway.held import HeldState, needed_keys, read_held
from counterfoil.gateway.sealing import PIECE, HeldKeys, KeyLost, SealBroken, SealedFile, key_id
from counterfoil.gating.settings import BadSettings
from tests.client.gateway.test_held import ONE, keep, opened

__all__ = ["opened"]
HEAD = 48
SEALED = PIECE + 16


@pytest.fixture
def keys(tmp_path):
    made = HeldKeys(tmp_path / "held.keys")
    made.create()
    return made


def seal(keys, path, content, place="one/body"):
    file = SealedFile(path, place, keys)
    with file.write() as writer:
        for at in range(0, len(content), 10_000):
            writer.write(content[at : at + 10_000])
        writer.finish()
    return file


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7])
def test_what_was_sealed_is_read_as_it_was_from_any_place(keys, tmp_path, size):
    content = os.urandom(size)
    file = seal(keys, tmp_path / "body", content)
    assert file.read_bytes() == content
    if size > 20:
        assert content[:20] not in (tmp_path / "body").read_bytes()
    with file.open() as stored:
        for at in (0, size // 2, max(0, size - 3), size):
            assert stored.seek(at) == at
            assert stored.read(5) == content[at : at + 5]
        assert stored.seek(0, io.SEEK_END) == size


def pieces(raw):
    return [raw[:HEAD], *(raw[at : at + SEALED] for at in range(HEAD, len(raw), SEALED))]


DAMAGES = {
    "cut to nothing": lambda raw: b"",
    "cut to its head": lambda raw: raw[:HEAD],
    "cut after a piece": lambda raw: raw[: HEAD + 2 * SEALED],
    "cut within a piece": lambda raw: raw[: HEAD + SEALED + 100],
    "cut within a tag": lambda raw: raw[: HEAD + SEALED + 15],
    "cut to a tag of nothing": lambda raw: raw[: HEAD + 2 * SEALED + 16],
    "without its first piece": lambda raw: b"".join([pieces(raw)[0], *pieces(raw)[2:]]),
    "two pieces in the other order": lambda raw: b"".join(pieces(raw)[each] for each in (0, 2, 1, 3)),
    "a piece twice": lambda raw: b"".join(pieces(raw)[each] for each in (0, 1, 1, 2, 3)),
    "bytes added": lambda raw: raw + b"x",
    "the last piece added again": lambda raw: raw + pieces(raw)[-1],
    "a bit changed in a piece": lambda raw: raw[:5000] + bytes([raw[5000] ^ 1]) + raw[5001:],
    "a bit changed in the last tag": lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
    "a bit changed in its salt": lambda raw: raw[:20] + bytes([raw[20] ^ 1]) + raw[21:],
    "another kind of file": lambda raw: b"x" * len(raw),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_sealed_file_that_was_cut_reordered_or_changed_is_not_read(keys, tmp_path, damage):
    path = tmp_path / "body"
    file = seal(keys, path, os.urandom(2 * PIECE + 100))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SealBroken):
        file.read_bytes()


def test_a_file_that_was_never_finished_is_not_read(keys, tmp_path):
    file = SealedFile(tmp_path / "body", "one/body", keys)
    with file.write() as writer:
        writer.write(b"x" * 3 * PIECE)
    with pytest.raises(SealBroken):
        file.read_bytes()


def test_files_of_two_requests_or_of_two_kinds_cannot_be_swapped(keys, tmp_path):
    seal(keys, tmp_path / "one", b"the one", "one/body")
    for place in ("two/body", "one/answer"):
        with pytest.raises(SealBroken, match=f"{place} was changed"):
            SealedFile(tmp_path / "one", place, keys).read_bytes()


def test_a_new_key_seals_from_then_on_and_older_ones_stay_while_something_needs_them(tmp_path, opened):
    held = opened(tmp_path)
    keep(held)
    keys = HeldKeys(tmp_path / "held.keys")
    first = key_id(held.body("one").path.read_bytes())
    for _ in range(3):
        keys.create()
        keys.forget_others(needed_keys(tmp_path))
    assert held.body("one").read_bytes() == b"abc"
    keep(held, replace(ONE, id="two"))
    assert key_id(held.body("two").path.read_bytes()) != first
    held.write(held.get("one"), HeldState.REFUSED)
    keys.create()
    assert keys.forget_others(needed_keys(tmp_path)) > 0
    assert first not in needed_keys(tmp_path)
    assert (tmp_path / "held.keys").stat().st_mode & 0o777 == 0o600
    assert {each.id: each.unreadable for each in read_held(tmp_path, keys)} == {"one": False, "two": False}


@pytest.mark.parametrize("state", list(HeldState))
def test_a_request_whose_key_is_lost_is_unknown_unless_it_had_ended(tmp_path, opened, state, caplog):
    held = opened(tmp_path)
    held.write(keep(held), state, action_id="a1", attempt="1")
    held.close()
    keys = HeldKeys(tmp_path / "held.keys")
    keys.file.unlink()
    with pytest.raises(
        BadSettings, match=r"held\.keys is missing, and 1 request is sealed under its keys\. Put it back"
    ):
        opened(tmp_path)
    keys.create()
    found = opened(tmp_path).get("one")
    ended = {
        HeldState.RECEIVED: HeldState.REFUSED,
        HeldState.REPORTED: HeldState.REPORTED,
        HeldState.REFUSED: HeldState.REFUSED,
        HeldState.SETTLED: HeldState.SETTLED,
    }
    assert found.state is ended.get(state, HeldState.UNKNOWN)
    assert found.why == f"it is not sent: the key of one/state is not in {keys.file}"
    assert (found.action_id, found.attempt, found.arguments) == ("a1", "1", {})
    assert f"request one is {found.state}: it is not sent: the key" in caplog.text


def test_a_key_that_is_put_back_brings_the_request_back(tmp_path, opened):
    held = opened(tmp_path)
    keep(held)
    held.close()
    file = tmp_path / "held.keys"
    kept = file.read_bytes()
    file.unlink()
    HeldKeys(file).create()
    opened(tmp_path).close()
    file.write_bytes(kept)
    assert replace(opened(tmp_path).get("one"), changed_at=0.0) == ONE


def test_a_state_that_was_changed_on_disk_is_unknown(tmp_path, opened):
    held = opened(tmp_path)
    held.write(keep(held), HeldState.UNKNOWN, action_id="a1")
    held.close()
    file = tmp_path / "held/one/state.json"
    document = json.loads(file.read_text())
    document["clear"]["state"] = "proposed"
    file.write_text(json.dumps(document))
    found = opened(tmp_path).get("one")
    assert (found.state, found.unreadable, found.why) == (
        "unknown",
        True,
        "it is not sent: one/state was changed",
    )


def test_a_file_that_is_no_state_stops_the_start_and_is_named(tmp_path, opened):
    held = opened(tmp_path)
    keep(held)
    held.close()
    file = tmp_path / "held/one/state.json"
    file.write_text(file.read_text()[:50])
    with pytest.raises(BadSettings, match=r"state\.json is no state of a request: look at the host"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: file.chmod(0o640), "can be read by others; set its mode to 0600"),
        (lambda file: file.write_text("short\n"), "holds no keys of this gateway"),
        (lambda file: file.write_text(""), "holds no keys of this gateway"),
        (lambda file: file.write_bytes(b"\xff"), "is no text"),
    ],
)
def test_a_key_file_that_others_may_read_or_that_holds_no_keys_stops_the_start(tmp_path, opened, change, says):
    opened(tmp_path).close()
    change(tmp_path / "held.keys")
    with pytest.raises(BadSettings, match=says):
        opened(tmp_path)


def test_a_key_is_found_again_after_the_file_was_replaced(keys, tmp_path):
    file = seal(keys, tmp_path / "body", b"abc")
    HeldKeys(keys.file).create()
    assert file.read_bytes() == b"abc"
    other = HeldKeys(tmp_path / "other.keys")
    other.create()
    with pytest.raises(KeyLost):
        replace(file, keys=other).read_bytes()


def test_only_ids_digests_and_times_stand_in_clear(tmp_path, opened):
    held = opened(tmp_path)
    words = {
        "arguments": {"note": "marker-1"},
        "path": "marker-2",
        "query": "marker-3",
        "headers": (("accept", "marker-4"),),
        "shape": {"refs": ["marker-5"]},
    }
    one = held.write(keep(held, replace(ONE, **words)), HeldState.PROPOSED, approval={"text": "marker-6"})
    held.write(one, HeldState.UNKNOWN, result={"raw": "marker-7"}, why="marker-8", answer_type="marker-9")
    held.close()
    assert b"marker" not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
