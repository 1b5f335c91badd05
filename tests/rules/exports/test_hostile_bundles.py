"""Bundles made to deceive or to break the verifier (L28): always a verdict, never "verified"."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import verify_bundle
from ledger.verify_bundle import Report, Verdict, verify
from tests.support.bundles import (
    LOG_KEY,
    ORIGIN,
    OTHER_KEY,
    Draft,
    Log,
    day,
    draft,
    encoded,
    packed,
    policy,
    tree,
    vkey,
    witness,
)
from tests.support.tables import every_row

FINE = {Verdict.VERIFIED, Verdict.ERASED, Verdict.UNANCHORED}
TRUE = draft(day()).pack()


def judged(data: bytes) -> Report:
    return verify(io.BytesIO(data), policy())


def first_manifest() -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(TRUE)) as file:
        return dict(json.loads(file.read("manifest.json")))


def repacked(change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> bytes:
    """The members of a true bundle, changed, under a manifest that lists what there is."""
    made = draft(day())
    made.members = change(made.members)
    return made.pack()


def with_manifest(**members: Any) -> bytes:
    made = draft(day())
    return packed({"manifest.json": json.dumps({**first_manifest(), **members}).encode(), **made.members})


def with_lines(change: Callable[[list[Any]], list[Any]]) -> bytes:
    made = draft(day())
    return made.put(change(made.lines())).pack()


def with_line(place: int, **members: Any) -> bytes:
    return with_lines(lambda lines: [line | members if line["index"] == place else line for line in lines])


def raw_lines(data: bytes) -> bytes:
    return repacked(lambda members: {**members, "events/000000.jsonl": data})


def with_checkpoint(note: bytes, name: str = "checkpoints/12") -> bytes:
    made = draft(day())
    del made.members["checkpoints/12"]
    made.members = {name: note, **made.members}
    return made.pack()


def twice() -> bytes:
    file = io.BytesIO()
    made = draft(day())
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("manifest.json", json.dumps(first_manifest()))
        for name in made.members:
            out.writestr(name, made.members[name])
        out.filelist.append(out.getinfo("proof.json"))
    return file.getvalue()


def swollen() -> bytes:
    return raw_lines(b" " * 40_000_000 + b"\n")


def overlapping() -> bytes:
    """Two directory entries that point at the same member."""
    data = bytearray(TRUE)
    start = struct.unpack("<I", data[-6:-2])[0]
    second = data.find(b"PK\x01\x02", start + 4)
    data[second + 42 : second + 46] = data[start + 42 : start + 46]
    return bytes(data)


def encrypted() -> bytes:
    data = bytearray(TRUE)
    start = struct.unpack("<I", data[-6:-2])[0]
    data[start + 8] |= 1
    return bytes(data)


def gapped() -> bytes:
    """Bytes between the members and the directory that no member owns."""
    start = struct.unpack("<I", TRUE[-6:-2])[0]
    whole = TRUE[:start] + b"hidden" + TRUE[start:]
    return whole[:-6] + struct.pack("<I", start + 6) + whole[-2:]


def streamed() -> bytes:
    """A zip file with sizes behind the data, as one writes that cannot seek."""

    class OneWay(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.data += bytes(data)
            return len(data)

    file = OneWay()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("manifest.json", b"{}")
    return bytes(file.data)


def packed_as(kind: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as out:
        out.writestr("manifest.json", json.dumps(first_manifest()))
    return file.getvalue()


NOTE = day().checkpoint()
BODY = NOTE.partition(b"\n\n")[0] + b"\n"
DEEP = "[" * 50_000 + "]" * 50_000

MALFORMED: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no zip": lambda: b"x" * 1000,
    "only an end": lambda: b"PK\x05\x06" + bytes(18),
    "cut off": lambda: TRUE[:-1],
    "cut in half": lambda: TRUE[: len(TRUE) // 2],
    "something behind it": lambda: TRUE + b"\n",
    "something before it": lambda: b"#!/bin/sh\n" + TRUE,
    "a comment": lambda: TRUE[:-2] + b"\x05\0hello",
    "encrypted": encrypted,
    "overlapping members": overlapping,
    "a gap": gapped,
    "streamed": streamed,
    "another packing": lambda: packed_as(zipfile.ZIP_LZMA),
    "a member twice": twice,
    "a member that climbs": lambda: repacked(lambda members: {**members, "events/../../etc/passwd": b""}),
    "an absolute member": lambda: repacked(lambda members: {**members, "/etc/passwd": b""}),
    "a backslash": lambda: repacked(lambda members: {**members, "events\\000001.jsonl": b""}),
    "an unknown member": lambda: repacked(lambda members: {**members, "policy": policy()}),
    "a bomb": swollen,
    "no manifest": lambda: packed(draft(day()).members),
    "a manifest that is not first": lambda: packed({**draft(day()).members, "manifest.json": b"{}"}),
    "an empty manifest": lambda: packed({"manifest.json": b"{}"}),
    "a manifest that is no JSON": lambda: packed({"manifest.json": b"PK"}),
    "a deep manifest": lambda: packed({"manifest.json": DEEP.encode()}),
    "a manifest with a name twice": lambda: packed({"manifest.json": b'{"format":1,"format":2}'}),
    "another format": lambda: with_manifest(format="other"),
    "one more member of the manifest": lambda: with_manifest(policy="trust me"),
    "a range that is empty": lambda: with_manifest(**{"to": 0}),
    "a range that runs back": lambda: with_manifest(**{"from": 5, "to": 3}),
    "a range of text": lambda: with_manifest(**{"to": "12"}),
    "a negative range": lambda: with_manifest(**{"from": -1}),
    "a range that is a float": lambda: with_manifest(**{"to": 12.0}),
    "a range that is true": lambda: with_manifest(**{"from": False}),
    "a range without end": lambda: with_manifest(**{"to": 2**80}),
    "a range beyond the checkpoint": lambda: with_manifest(**{"to": 13}),
    "no request": lambda: with_manifest(request=None),
    "a lone surrogate": lambda: with_manifest(request={**first_manifest()["request"], "by": "\ud800"}),
    "no files": lambda: with_manifest(files={}),
    "fewer files": lambda: with_manifest(files=first_manifest()["files"][:-1]),
    "a file twice": lambda: with_manifest(files=[*first_manifest()["files"], first_manifest()["files"][0]]),
    "a wrong digest": lambda: with_manifest(
        files=[{**each, "sha256": "00" * 32} for each in first_manifest()["files"]]
    ),
    "a wrong size": lambda: with_manifest(files=[{**each, "size": 1} for each in first_manifest()["files"]]),
    "no checkpoint": lambda: repacked(lambda members: {k: v for k, v in members.items() if "checkpoints" not in k}),
    "a checkpoint of another size than its name": lambda: with_checkpoint(NOTE, "checkpoints/13"),
    "no proof": lambda: repacked(lambda members: {k: v for k, v in members.items() if k != "proof.json"}),
    "a proof of text": lambda: repacked(lambda members: {**members, "proof.json": b'{"left":"","right":""}'}),
    "a proof that is too long": lambda: repacked(
        lambda members: {**members, "proof.json": json.dumps({"left": [], "right": ["00" * 32]}).encode()}
    ),
    "a proof of a thousand hashes": lambda: repacked(
        lambda members: {**members, "proof.json": json.dumps({"left": ["00" * 32] * 1000, "right": []}).encode()}
    ),
    "a hash of 31 bytes": lambda: repacked(
        lambda members: {**members, "consistency/3.json": json.dumps({"hashes": ["00" * 31]}).encode()}
    ),
    "a hash in upper case": lambda: with_line(3, leaf="AB" * 32),
    "no events file": lambda: repacked(lambda members: {**members, "events/000002.jsonl": b""}),
    "a line without end": lambda: raw_lines(b'{"index":0}'),
    "a line that is no JSON": lambda: raw_lines(b"}{\n"),
    "a line that is not UTF-8": lambda: raw_lines(b"\xff\xfe\n"),
    "a deep line": lambda: raw_lines(f'{{"index":{DEEP}}}\n'.encode()),
    "a line that is a list": lambda: raw_lines(b"[]\n"),
    "a line without index": lambda: raw_lines(b"{}\n"),
    "an index twice": lambda: with_lines(lambda lines: [lines[0], *lines]),
    "an index out of order": lambda: with_lines(lambda lines: [lines[1], lines[0], *lines[2:]]),
    "an index that is true": lambda: with_line(0, index=True),
    "an index that is a float": lambda: raw_lines(b'{"index":0.0}\n'),
    "an index that is huge": lambda: with_lines(lambda lines: [*lines[:-1], lines[-1] | {"index": 2**53 - 1}]),
    "an index beyond every bound": lambda: raw_lines(b'{"index":' + b"9" * 10_000 + b"}\n"),
    "an entry beyond the range": lambda: with_lines(lambda lines: [*lines, lines[-1] | {"index": 12}]),
    "a member of a line too many": lambda: with_line(3, more=1),
    "a member of a line twice": lambda: raw_lines(b'{"index":0,"index":0}\n'),
    "an empty run": lambda: with_lines(lambda lines: [{"index": 0, "leaves": []}, *lines[1:]]),
    "a run that is too long": lambda: with_lines(lambda lines: [{"index": 0, "leaves": ["00" * 32] * 1025}]),
    "a run that is a text": lambda: with_lines(lambda lines: [{"index": 0, "leaves": "00"}]),
    "no leaf": lambda: with_line(3, leaf=None),
    "an envelope that is a number": lambda: with_line(3, envelope=7),
    "too little opened": lambda: with_line(3, open=[]),
    "opened in another way": lambda: with_line(3, open={"entry": 1}),
    "opened with nothing": lambda: with_line(2, open=[None, None]),
    "opened with base64 that is none": lambda: with_line(2, open=[{"salt": "!", "text": ""}] * 2),
    "opened with base64 that is odd": lambda: with_line(2, open=[{"salt": "AB==", "text": ""}] * 2),
    "opened twice over": lambda: with_line(2, open=[{"salt": encoded(bytes(32)), "text": "", "base64": ""}] * 2),
    "gone without a reason": lambda: with_line(2, open=[{"gone": "fishing"}] * 2),
    "erased by nothing": lambda: with_line(2, open=[{"gone": "erased"}] * 2),
}


@every_row("name", MALFORMED)
def test_a_malformed_bundle_is_reported_as_malformed(name):
    """L28: the corpus, each of which must end with this verdict."""
    report = judged(MALFORMED[name]())
    assert report.worst is Verdict.MALFORMED, verify_bundle.told(report)
    assert verify_bundle.told(report).splitlines()[-1].startswith("malformed bundle: ")


def as_zip64(*, record: bytes = b"PK\x06\x06", locator: bytes = b"PK\x06\x07") -> bytes:
    """The same bundle with the directory's end as large files have it."""
    tail = TRUE[-22:]
    count, size, start = struct.unpack("<HII", tail[10:20])
    end = record + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, start)
    end += locator + struct.pack("<IQI", 0, start + size, 1)
    return TRUE[:-22] + end + tail[:8] + b"\xff" * 12 + tail[20:]


def test_a_zip64_bundle_is_read():
    assert len(as_zip64()) == len(TRUE) + 76
    assert judged(as_zip64()).worst is Verdict.VERIFIED
    assert judged(as_zip64(record=b"PK\x06\x05")).worst is Verdict.MALFORMED
    assert judged(as_zip64(locator=b"PK\x06\x05")).worst is Verdict.MALFORMED
    assert judged(as_zip64()[-98:]).worst is Verdict.MALFORMED


def test_uncompressed_members_are_read():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, data in contents(TRUE).items():
            out.writestr(name, data)
    assert judged(file.getvalue()).worst is Verdict.VERIFIED


def test_informational_files_are_compared_with_the_manifest_too():
    made = draft(day())
    made.members["README.txt"] = b"Read me."
    assert judged(made.pack()).worst is Verdict.VERIFIED
    whole = contents(made.pack())
    assert judged(packed({**whole, "README.txt": b"Read us."})).worst is Verdict.MALFORMED


def test_a_bundle_with_an_empty_range_is_malformed():
    made = draft(day(), 12, 12)
    assert judged(made.pack()).worst is Verdict.MALFORMED
    assert "its range is empty" in str(judged(made.pack()).of(Verdict.MALFORMED))


@pytest.mark.whole
def test_a_large_file_is_accepted_and_a_zip_bomb_refused():
    large = random.Random(1).randbytes(2_000_000)
    assert judged(repacked(lambda members: {**members, "keys.json": large})).worst is Verdict.VERIFIED
    said = str(judged(swollen()).of(Verdict.MALFORMED))
    assert "expands too much when unpacked" in said


NOTES = {
    "nothing": b"",
    "no text": b"\n\n" + NOTE.partition(b"\n\n")[2],
    "no signature": BODY + b"\n",
    "CRLF": NOTE.replace(b"\n", b"\r\n"),
    "no last newline": NOTE[:-1],
    "a control character": NOTE.replace(b"/", b"\x07", 1),
    "no UTF-8": NOTE.replace(b"/", b"\xff", 1),
    "another dash": NOTE.replace("—".encode(), b"-"),
    "a line too many": NOTE.replace(b"\n\n", b"\nextension\n\n"),
    "a leading zero": NOTE.replace(b"\n12\n", b"\n012\n"),
    "a sign": NOTE.replace(b"\n12\n", b"\n+12\n"),
    "a size beyond every bound": NOTE.replace(b"\n12\n", b"\n" + b"9" * 30 + b"\n"),
    "Arabic digits": NOTE.replace(b"\n12\n", "\n\u0661\u0662\n".encode()),
    "a short root": BODY.replace(BODY.split(b"\n")[2], b"AAAA") + NOTE[len(BODY) :],
    "an odd root": BODY.replace(b"=\n", b"\n") + NOTE[len(BODY) :],
    "a signature without end": NOTE[:-10] + b"\n",
    "the same signature twice": NOTE + NOTE.partition(b"\n\n")[2],
    "too many signatures": NOTE + b"".join(f"— other{n} AAAAAAAAAAAAAAAA\n".encode() for n in range(64)),
    "another size": NOTE.replace(b"\n12\n", b"\n13\n"),
    "another origin": NOTE.replace(ORIGIN.encode(), b"evil.example/1", 1),
}


@pytest.mark.parametrize("name", NOTES)
def test_an_invalid_checkpoint_fails_its_signature(name):
    report = judged(with_checkpoint(NOTES[name]))
    assert report.worst in (Verdict.BROKEN, Verdict.UNTRUSTED), verify_bundle.told(report)
    assert report.failed["log signature"] == 1
    assert "root" not in report.looked


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "quorum none",
        f"log {vkey(LOG_KEY)}",
        f"log {vkey(LOG_KEY)}\nquorum none\nquorum none",
        f"log {vkey(LOG_KEY)}\nlog {vkey(LOG_KEY)}\nquorum none",
        f"log {vkey(LOG_KEY)} a b\nquorum none",
        f"log {vkey(LOG_KEY)[:-4]}AAAA\nquorum none",
        f"log {vkey(LOG_KEY, kind=4)}\nquorum none",
        f"log {vkey(LOG_KEY)}\nquorum nobody",
        f"log {vkey(LOG_KEY)}\n{witness()}\n{witness()}\nquorum none",
        f"log {vkey(LOG_KEY)}\n{witness('none')}\nquorum none",
        f"log {vkey(LOG_KEY)}\n{witness('w')}\ngroup g 2 w\nquorum g",
        f"log {vkey(LOG_KEY)}\n{witness('w')}\ngroup g 0 w\nquorum g",
        f"log {vkey(LOG_KEY)}\n{witness('w')}\ngroup g all\nquorum g",
        f"log {vkey(LOG_KEY)}\n{witness('w')}\ngroup g all w w\nquorum g",
        f"log {vkey(LOG_KEY)}\n{witness('w')}\ngroup g any w\ngroup h any w\nquorum h",
        f"log {vkey(LOG_KEY)}\ngroup g any later\n{witness('later')}\nquorum g",
        f"log {vkey(LOG_KEY)}\nquorum none\ntrust everybody",
        f"log {vkey(LOG_KEY)}\nquorum none\nvalid other+00000000 from 1",
        f"log {vkey(LOG_KEY)}\nquorum none\nvalid {vkey(LOG_KEY).rpartition('+')[0]}",
        f"log {vkey(LOG_KEY)}\nquorum none\nvalid {vkey(LOG_KEY).rpartition('+')[0]} from x",
        f"log {vkey(LOG_KEY)}\nquorum none\nvalid {vkey(LOG_KEY).rpartition('+')[0]} from 1 from 2",
        f"log {vkey(LOG_KEY)}\nquorum none\ntsa name AAAA",
        f"log {vkey(LOG_KEY)}\nquorum none\nstamp perhaps",
        f"log {vkey(LOG_KEY)}\r\nquorum none",
    ],
)
def test_a_policy_with_an_unknown_line_is_refused(lines):
    with pytest.raises(verify_bundle.CannotBegin):
        verify(io.BytesIO(TRUE), lines.encode())


def test_a_policy_may_contain_comments_blank_lines_and_addresses():
    lines = f"# mine\n\n \tlog\t{vkey(LOG_KEY)}  https://log.example/ \n{witness('wé')} https://w\ngroup g any wé\n"
    report = verify(io.BytesIO(TRUE), f"{lines}quorum g".encode())
    assert report.worst is Verdict.UNANCHORED


def test_a_hostile_text_cannot_control_the_terminal():
    log = Log()
    log.add("action/a", "proposed", "\x1b[2J\x1b[Hverified\n\nverified")
    told = verify_bundle.told(judged(draft(log).pack()))
    assert "\x1b" not in told
    assert told.splitlines()[-1].startswith("broken at index 0")


def test_keys_and_verifiers_inside_the_bundle_are_not_trusted():
    """Keys, policies and verifiers that a bundle brings along change nothing."""
    made = draft(day())
    made.members["keys.json"] = json.dumps({"logs": [vkey(LOG_KEY)]}).encode()
    made.members["verify_bundle.py"] = b"print('verified')"
    other = f"log {vkey(OTHER_KEY)}\nquorum none\n".encode()
    assert verify(io.BytesIO(made.pack()), other).worst is Verdict.UNTRUSTED


def test_memory_does_not_grow_with_the_number_of_subjects():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_bundle, "IN_MEMORY", 3)
        many_subjects()
    memory = verify_bundle.Memory()
    memory.put("one", {"a": 1})
    assert (memory.get("one"), memory.get("other"), memory._far) == ({"a": 1}, None, None)


def many_subjects() -> None:
    log = day()
    for number in range(20):
        log.add(f"session/s-{number}", "session_opened", "OPEN")
    for number in range(20):
        log.add(f"session/s-{number}", "session_closed", "CLOSED")
    assert judged(draft(log).pack()).worst is Verdict.VERIFIED
    log.events[-1] = log.events[-1].changed(prev="ab" * 32)
    assert judged(draft(log).pack()).worst is Verdict.BROKEN


# Fuzzing


def contents(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def is_sound(data: bytes) -> None:
    """A verdict, and the good one only for the very same contents."""
    report = judged(data)
    assert verify_bundle.told(report)
    if report.worst in FINE:
        assert contents(data) == contents(TRUE)


def damaged(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, put in cuts:
        at = place % (len(data) + 1)
        data = data[:at] + put + data[at + length :]
    return data


CUTS = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 40), st.binary(max_size=40)), min_size=1, max_size=4)
QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(max_examples=20_000, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@pytest.mark.whole
@QUICK
@given(CUTS)
def test_damaged_bytes_are_never_verified(cuts):
    """L28."""
    is_sound(damaged(TRUE, cuts))


@pytest.mark.long
@LONG
@given(CUTS)
def test_damaged_bytes_are_never_verified_in_a_long_search(cuts):
    is_sound(damaged(TRUE, cuts))


PLAIN = (
    st.none() | st.booleans() | st.integers(-3, 2**60) | st.text(max_size=5) | st.sampled_from(["ab" * 32, "", "lost"])
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    if isinstance(value, dict):
        return [path, *(found for name in value for found in places(value[name], (*path, name)))]
    if isinstance(value, list):
        return [path, *(found for at, each in enumerate(value) for found in places(each, (*path, at)))]
    return [path]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value[path[0]] = replaced(value[path[0]], path[1:], new)
    return value


DOCUMENT = {
    "manifest": {k: v for k, v in first_manifest().items() if k != "files"},
    "lines": draft(day(), 2, 9).lines(),
    "proof": json.loads(draft(day(), 2, 9).members["proof.json"]),
}
DOCUMENT["manifest"] |= {"from": 2, "to": 9}
EVERYWHERE = places(DOCUMENT)


def is_sound_inside(path: tuple[Any, ...], value: Any) -> None:
    """A well-formed zip file whose documents say something else somewhere."""
    document = replaced(copy.deepcopy(DOCUMENT), path, value)
    made = draft(day(), 2, 9)
    if not isinstance(document, dict) or not isinstance(document.get("manifest"), dict):
        return
    made.members["proof.json"] = json.dumps(document.get("proof")).encode()
    lines = document.get("lines")
    made.put(lines if isinstance(lines, list) else [lines])
    report = judged(Draft(made.members, document["manifest"]).pack())
    told = verify_bundle.told(report)
    assert "it cannot be read (" not in told, told
    if report.worst in FINE:
        same = json.dumps(document, sort_keys=True) == json.dumps(DOCUMENT, sort_keys=True)
        assert same or path[:2] == ("manifest", "request"), (path, value)


def test_a_boolean_is_not_accepted_as_a_version():
    is_sound_inside(("manifest", "version"), True)


@pytest.mark.whole
@QUICK
@given(st.sampled_from(EVERYWHERE), VALUES)
def test_a_changed_document_is_never_verified(path, value):
    """L28."""
    is_sound_inside(path, value)


@pytest.mark.long
@LONG
@given(st.sampled_from(EVERYWHERE), VALUES)
def test_a_changed_document_is_never_verified_in_a_long_search(path, value):
    is_sound_inside(path, value)


def test_an_empty_log_has_no_bundle():
    log = Log()
    note = log.checkpoint(0)
    made = draft(day())
    made.members = {"checkpoints/0": note} | {k: v for k, v in made.members.items() if "checkpoints" not in k}
    assert judged(made.pack()).worst is Verdict.MALFORMED
    assert tree([])
