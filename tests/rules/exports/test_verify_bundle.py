"""The offline verifier: what it says of true bundles, and of bundles in which one thing is wrong."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import verify_bundle
from ledger.exports.rules.bundles import OpenedCommitment, lost_line
from ledger.record.rules import envelope, lifecycle
from ledger.record.rules.envelope import instant
from ledger.verify_bundle import Report, Verdict, consistent, verify
from tests.support import bundles
from tests.support.bundles import (
    LOG_KEY,
    ORIGIN,
    OTHER_KEY,
    PERSON,
    SYSTEM,
    WITNESS_2,
    WITNESS_KEY,
    Draft,
    Event,
    Log,
    day,
    draft,
    growth,
    policy,
    tree,
    vkey,
    witness,
)

FILE = Path(verify_bundle.__file__)


def checked(made: Draft | bytes, trusted: bytes | None = None, old: bytes | None = None) -> Report:
    data = made.pack() if isinstance(made, Draft) else made
    return verify(io.BytesIO(data), policy() if trusted is None else trusted, old)


def first(report: Report) -> tuple[Verdict, str, int | None]:
    """The verdict, and the stage and index of the finding that it names."""
    finding = report.of(report.worst)
    return report.worst, finding.stage if finding else "", finding.index if finding else None


def text(report: Report) -> str:
    return str(report.of(report.worst))


# True bundles


def test_an_untampered_bundle_passes_every_stage():
    report = checked(draft(day()))
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    stages = {stage["name"]: stage["result"] for stage in report.document()["stages"]}
    assert stages.pop("time stamps") == "not checked"
    assert set(stages.values()) == {"ok"}
    assert report.facts["root"] == tree(day().leaves).hex()
    assert report.facts["log_events"][0]["kind"] == "log_opened"
    assert report.facts["counts"]["subjects"] == 4
    assert checked(draft(day()), old=day().checkpoint()).worst is Verdict.VERIFIED


@pytest.mark.parametrize("start", range(11))
def test_every_range_of_the_log_is_verified_under_its_newest_checkpoint(start):
    log = day()
    for end in range(start + 1, 12):
        assert first(checked(draft(log, start, end))) == (Verdict.VERIFIED, "", None)


def test_older_checkpoints_in_the_bundle_belong_to_the_same_history():
    log = day()
    for size in range(1, 11):
        made = draft(log, 4, 8, checkpoints=[log.checkpoint(size), log.checkpoint()])
        assert checked(made, old=log.checkpoint(size)).worst is Verdict.VERIFIED


def test_a_filtered_bundle_counts_what_it_withholds():
    report = checked(draft(day(), withheld=frozenset({2, 3, 7})))
    assert report.worst is Verdict.VERIFIED
    assert report.facts["counts"]["withheld"] == 3
    assert "3 withheld by the filter" in report.looked["range"]


def test_undisclosed_payloads_are_counted():
    log = day()
    log.events[2] = replace(log.events[2], opened=[log.events[2].opened[0], OpenedCommitment(gone="withheld")])
    report = checked(draft(log))
    assert (report.worst, report.looked["commitments"]) == (Verdict.VERIFIED, "16 opened, 1 not disclosed")


def test_the_verifier_has_the_rules_of_the_console():
    steps = {kind: verify_bundle.steps(rule) for kind, rule in verify_bundle.MACHINES.items()}
    assert steps.items() >= lifecycle.MACHINES.items()
    pairs = {f"{start}>{target}": set(map(str, grounds)) for (start, target), grounds in lifecycle.NEEDS.items()}
    assert {pair: set(grounds.split()) for pair, grounds in verify_bundle.NEEDS.items()} == pairs


# One file, nothing else


def test_the_verifier_imports_only_the_standard_library_and_cryptography():
    tree = ast.parse(FILE.read_text())
    named = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    named += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    tops = {name.split(".")[0] for name in named}
    assert tops - sys.stdlib_module_names == {"cryptography"}
    assert not tops & {"socket", "urllib", "http", "ssl", "subprocess", "ctypes", "importlib", "pickle"}
    assert not {"eval", "exec", "__import__", "compile"} & {
        node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def run(folder: Path, made: bytes, *options: str, trusted: bytes | None = None) -> subprocess.CompletedProcess[str]:
    (folder / "bundle.zip").write_bytes(made)
    (folder / "policy").write_bytes(policy() if trusted is None else trusted)
    command = [sys.executable, "-I", str(FILE), "bundle.zip", "--policy", "policy", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.whole
def test_the_command_exits_with_the_code_of_its_verdict_and_writes_a_report(tmp_path):
    ran = run(tmp_path, draft(day()).pack(), "--json", "report.json")
    assert (ran.returncode, ran.stdout.splitlines()[-1], ran.stderr) == (0, "verified", "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["exit"], report["range"]) == ("verified", 0, [0, 12])
    ran = run(tmp_path, draft(day()).pack()[:-1])
    assert ran.returncode == 40
    assert ran.stdout.splitlines()[-1].startswith("malformed bundle: ")


@pytest.mark.whole
def test_invalid_files_of_the_auditor_are_refused(tmp_path):
    made = draft(day()).pack()
    assert run(tmp_path, made, trusted=b"quorum none\n").returncode == 2
    assert run(tmp_path, made, "--checkpoint", "nowhere").returncode == 2
    (tmp_path / "old").write_bytes(day().checkpoint(signed_by=(OTHER_KEY,)))
    ran = run(tmp_path, made, "--checkpoint", "old")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no log key of the policy" in ran.stderr


def test_the_exit_codes_are_distinct():
    codes = [verdict.value[1] for verdict in Verdict]
    assert sorted(codes) == sorted(set(codes))
    assert 2 not in codes
    assert 1 not in codes


# Attacks on the stored record, as they show in a bundle that was exported after them (L24)


def sealed(log: Log | None = None) -> tuple[Log, bytes]:
    """A log and the checkpoint that was signed before anything was done to it; leaf hashes are in its tiles."""
    log = log or day()
    note = log.checkpoint()
    log.events = [replace(event, stated=event.leaf) for event in log.events]
    return log, note


def edit(event: Event) -> Event:
    return event.changed(at="2026-11-21T12:00:59.000000Z")


@pytest.mark.parametrize("index", [0, 4, 10])
def test_an_edited_envelope_is_broken_at_its_index(index):
    """L24: edit an envelope."""
    log, note = sealed()
    log.events[index] = edit(log.events[index])
    report = checked(draft(log, checkpoints=[note]))
    assert first(report) == (Verdict.BROKEN, "leaf hashes", index)
    assert "not the one that was sealed here" in text(report)
    told = verify_bundle.told(report).splitlines()
    place = next(number for number, line in enumerate(told) if line.startswith("  leaf hashes"))
    assert told[place + 1].strip() == text(report)


def test_a_deleted_event_is_reported_at_its_index():
    """L24: delete a row."""
    log, note = sealed()
    made = draft(log, checkpoints=[note])
    lines = made.lines()
    lines[6] = {"index": 6, "leaf": lines[6]["leaf"], "lost": "event"}
    report = checked(made.put(lines))
    assert first(report) == (Verdict.BROKEN, "range", 6)
    assert "gone from the record" in text(report)
    assert report.facts["counts"]["lost"] == 1


def test_an_inserted_event_is_broken_at_its_index():
    """L24: insert a row."""
    log, note = sealed()
    leaves = [event.stated for event in log.events]
    log.events.insert(5, replace(edit(log.events[5])))
    log.events = [replace(event, stated=leaf) for event, leaf in zip(log.events, leaves, strict=False)]
    report = checked(draft(log, 0, 11, checkpoints=[note]))
    assert first(report) == (Verdict.BROKEN, "leaf hashes", 5)


def test_two_swapped_events_are_both_named():
    """L24: swap two."""
    log, note = sealed()
    one, other = log.events[3], log.events[8]
    log.events[3], log.events[8] = replace(other, stated=one.stated), replace(one, stated=other.stated)
    report = checked(draft(log, checkpoints=[note]))
    assert first(report) == (Verdict.BROKEN, "leaf hashes", 3)
    assert "was sealed at index 8" in text(report)
    assert "was sealed at index 3" in str([str(each) for each in report.findings])


def test_a_changed_leaf_hash_is_distinguished_from_a_changed_event():
    """L24: change leaf hash, change tile of level 0."""
    log, note = sealed()
    log.events[7] = replace(log.events[7], stated=bytes(32))
    report = checked(draft(log, checkpoints=[note]))
    assert first(report) == (Verdict.BROKEN, "leaf hashes", 7)
    assert "the event is the one that was sealed" in text(report)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_changed_tile_above_the_range_does_not_lead_to_the_root(side):
    """L24: change tile of a higher level."""
    made = draft(day(), 4, 8)
    proof = json.loads(made.members["proof.json"])
    proof[side][0] = "00" * 32
    made.members["proof.json"] = json.dumps(proof).encode()
    assert first(checked(made)) == (Verdict.BROKEN, "root", None)


def test_a_changed_checkpoint_fails_its_signature():
    """L24: replace checkpoint."""
    log, note = sealed()
    made = draft(log)
    made.members["checkpoints/11"] = note.replace(note.split(b"\n")[2], b"A" * 43 + b"=")
    report = checked(made)
    assert first(report) == (Verdict.BROKEN, "log signature", None)
    assert "does not hold" in text(report)


def test_a_checkpoint_of_another_size_does_not_match():
    """L24: replace checkpoint, by a true one of another history."""
    log, _ = sealed()
    log.events[4] = edit(log.events[4])
    made = draft(log, checkpoints=[log.checkpoint(root=tree(day().leaves[:10] + day().leaves[:1]))])
    assert first(checked(made)) == (Verdict.BROKEN, "leaf hashes", 4)
    log.events[4] = replace(log.events[4], stated=log.events[4].leaf)
    report = checked(made.put(draft(log).lines()))
    assert (report.worst, report.failed["root"], report.failed["leaf hashes"]) == (Verdict.BROKEN, 1, 0)


def test_a_record_signed_again_with_another_key_is_not_trusted():
    """L24: re-sign everything with another key."""
    log = day()
    log.events[4] = edit(log.events[4])
    report = checked(draft(log, checkpoints=[log.checkpoint(signed_by=(OTHER_KEY,))]))
    assert first(report) == (Verdict.UNTRUSTED, "log signature", None)


def test_a_truncated_log_is_detected_with_a_kept_checkpoint():
    """L24: truncate the tail. Without a newer checkpoint it cannot be seen."""
    log, note = sealed()
    made = draft(log, 0, 8, checkpoints=[log.checkpoint(8)])
    assert checked(made).worst is Verdict.VERIFIED
    report = checked(made, old=note)
    assert first(report) == (Verdict.INCOMPLETE, "consistency", None)
    assert "newer than the newest of the bundle (8)" in text(report)


def rewritten() -> Log:
    """The same day with another vote, every hash and chain made anew."""
    log = Log()
    for event in day().events:
        value = event.value
        subject = f"{value['subject']['kind']}/{value['subject']['id']}"
        log.add(subject, value["kind"], value["to"], by=(value["actor"]["kind"], value["actor"]["id"]))
    log.events = [
        replace(made, opened=event.opened).changed(
            commitments=event.value["commitments"], at=event.value["at"].replace("2026", "2025")
        )
        for made, event in zip(log.events, day().events, strict=True)
    ]
    return chained(log)


def chained(log: Log) -> Log:
    heads: dict[str, str] = {}
    for place, event in enumerate(log.events):
        subject = event.value["subject"]["id"]
        log.events[place] = event.changed(prev=heads.get(subject))
        heads[subject] = log.events[place].leaf.hex()
    return log


def test_a_consistent_rewrite_with_the_real_key_is_not_detected_without_an_anchor():
    """L24: re-write with the real key. Nobody kept a head and no witness is demanded, so nobody can know."""
    assert first(checked(draft(rewritten()))) == (Verdict.VERIFIED, "", None)


def test_a_consistent_rewrite_with_the_real_key_is_proven_with_a_kept_checkpoint():
    """L24, L18: both heads are printed: together they are the proof."""
    for size in (3, 11):
        report = checked(draft(rewritten()), old=day().checkpoint(size))
        assert first(report) == (Verdict.EQUIVOCATION, "consistency", None)
        assert report.heads == [day().checkpoint(size).decode(), rewritten().checkpoint().decode()]
        assert report.heads[0] in verify_bundle.told(report)


def test_a_rewrite_without_a_witness_is_not_anchored():
    """L24: after an external anchor the witness does not sign another history."""
    trusted = policy(witness(), quorum="w.example")
    seen = day().checkpoint(cosigned_by={"w.example": WITNESS_KEY})
    assert checked(draft(day(), checkpoints=[seen]), trusted).worst is Verdict.VERIFIED
    report = checked(draft(rewritten()), trusted)
    assert first(report) == (Verdict.UNANCHORED, "witness quorum", None)
    assert "w.example; anchored are 0" in text(report)


# Payloads (L25) and ranges (L26)


def at(log: Log, index: int, opened: list[OpenedCommitment]) -> Log:
    log.events[index] = replace(log.events[index], opened=opened)
    return log


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one._replace(data=b'{"amount":99}'),
        lambda one: one._replace(salt=bytes(32)),
        lambda one: one._replace(salt=(one.salt or b"")[:31]),
        lambda one: one._replace(data=b""),
    ],
    ids=["payload", "salt", "short salt", "nothing"],
)
def test_a_changed_payload_or_salt_is_broken_at_its_event(change):
    """L25: payload changed, salt changed."""
    log = day()
    entry, payload = log.events[2].opened
    assert first(checked(draft(at(log, 2, [entry, change(payload)])))) == (Verdict.BROKEN, "commitments", 2)


def test_payloads_swapped_between_two_events_are_broken_at_both():
    """L25: payload exchanged."""
    log = day()
    one, other = log.events[2].opened, log.events[8].opened
    report = checked(draft(at(at(log, 2, [one[0], other[1]]), 8, [other[0], one[1]])))
    assert {each.index for each in report.findings} == {2, 8}
    assert first(report) == (Verdict.BROKEN, "commitments", 2)


def test_a_missing_payload_without_an_erasure_makes_the_bundle_incomplete():
    log = day()
    report = checked(draft(at(log, 2, [log.events[2].opened[0], OpenedCommitment()])))
    assert first(report) == (Verdict.INCOMPLETE, "commitments", 2)


OTHER_PERSON = ("person", "p-2")


def erased(upto: int = 9, *, confirmed_by: tuple[str, str] = OTHER_PERSON) -> Log:
    """The payload of the first event of an action is erased, by two people, after all that happened."""
    log = day()
    log.add("erasure/er-1", "erasure_requested", "REQUESTED", by=PERSON)
    log.add("erasure/er-1", "erasure_confirmed", "CONFIRMED", by=confirmed_by)
    subjects = [{"id": "ac-1", "kind": "action", "events": upto, "evidence": []}]
    log.add("erasure/er-1", "erased", detail={"count": 1, "subjects": subjects})
    log.add("erasure/er-1", "erasure_done", "DONE")
    return at(log, 2, [log.events[2].opened[0], OpenedCommitment(gone="erased", by="er-1")])


def test_an_erased_payload_leaves_every_proof_valid():
    """L32: erase, then verify."""
    report = checked(draft(erased()))
    assert (first(report), report.facts["counts"]["erased"]) == ((Verdict.ERASED, "erasures", 2), 1)
    assert checked(draft(erased(upto=1))).worst is Verdict.ERASED
    both = at(erased(), 8, [*erased().events[8].opened[:1], OpenedCommitment(gone="erased", by="er-1")])
    assert checked(draft(both)).facts["counts"]["erased"] == 2


def test_an_erasure_without_a_record_is_not_accepted():
    unproven = (Verdict.INCOMPLETE, "erasures", None)
    log = day()
    assert (
        first(checked(draft(at(log, 2, [log.events[2].opened[0], OpenedCommitment(gone="erased", by="er-1")]))))
        == unproven
    )
    assert first(checked(draft(erased(upto=0)))) == unproven
    of_another = at(erased(), 5, [erased().events[5].opened[0], OpenedCommitment(gone="erased", by="er-1")])
    assert first(checked(draft(of_another))) == unproven
    assert first(checked(draft(erased(), 0, 14))) == unproven


@pytest.mark.parametrize(("upto", "verdict"), [(8, Verdict.ERASED), (7, Verdict.INCOMPLETE)])
def test_an_erasure_covers_only_the_events_that_it_names(upto, verdict):
    log = erased(upto)
    log.add("action/ac-1", "commented", detail={"text": "Later."})
    assert checked(draft(at(log, 16, [OpenedCommitment(gone="erased", by="er-1")]))).worst is verdict


def test_an_erasure_needs_a_second_person():
    report = checked(draft(erased(confirmed_by=PERSON)))
    assert first(report) == (Verdict.BROKEN, "subjects", 13)
    assert "second person" in text(report)


def by_policy(*, agreed_by: tuple[str, str] = OTHER_PERSON, state: str = "ACTIVE", named: str = "re-1") -> Log:
    """The same, asked for and confirmed by a policy that two people put in force."""
    log = day()
    log.add("retention/re-1", "retention_proposed", "PROPOSED", by=PERSON, detail={"standing": True})
    log.add("retention/re-1", "retention_confirmed", "ACTIVE", by=agreed_by)
    if state != "ACTIVE":
        log.add("retention/re-1", "retention_superseded", state, by=PERSON)
    log.add("erasure/er-1", "erasure_requested", "REQUESTED", detail={"retention": named})
    log.add("erasure/er-1", "erasure_confirmed", "CONFIRMED", detail={"retention": named})
    subjects = [{"id": "ac-1", "kind": "action", "events": 9, "evidence": []}]
    log.add("erasure/er-1", "erased", detail={"count": 1, "subjects": subjects})
    return at(log, 2, [log.events[2].opened[0], OpenedCommitment(gone="erased", by="er-1")])


def test_a_policy_confirmed_by_two_people_can_erase():
    assert first(checked(draft(by_policy()))) == (Verdict.ERASED, "erasures", 2)
    assert first(checked(draft(by_policy(agreed_by=PERSON)))) == (Verdict.BROKEN, "subjects", 13)
    assert checked(draft(by_policy(agreed_by=PERSON))).failed["subjects"] == 2
    assert checked(draft(by_policy(), 13)).worst is Verdict.VERIFIED
    assert first(checked(draft(by_policy(agreed_by=SYSTEM)))) == (Verdict.BROKEN, "subjects", 13)
    assert first(checked(draft(by_policy(state="SUPERSEDED")))) == (Verdict.BROKEN, "subjects", 16)
    assert first(checked(draft(by_policy(named="re-2")))) == (Verdict.BROKEN, "subjects", 15)
    late = draft(by_policy(), 14)
    assert checked(late).worst is Verdict.VERIFIED
    hidden = draft(by_policy(), withheld=frozenset({11, 12}))
    assert checked(hidden).worst is Verdict.ERASED


def pruned(count: int = 2, whole_from: int = 3, by: str = "re-1") -> Draft:
    """Two events went under a policy; the tree still holds their leaves."""
    log = day()
    log.add("retention/re-1", "retention_proposed", "PROPOSED", by=PERSON)
    log.add("retention/re-1", "retention_confirmed", "ACTIVE", by=OTHER_PERSON)
    places = [{"log": 1, "index": whole_from}]
    log.add("retention/re-1", "pruned", detail={"events": count, "subjects": 1, "whole_from": places})
    made = draft(log)
    lines = made.lines()
    for index in (1, 2):
        lines[index] = json.loads(lost_line(index, log.events[index].leaf, by))
    return made.put(lines)


def test_pruning_leaves_every_proof_valid():
    """L36: envelopes go, leaf hashes stay, and the policy's event says how many went and from where on all is there."""
    report = checked(pruned())
    assert (first(report), report.facts["counts"]["pruned"]) == ((Verdict.ERASED, "erasures", 1), 2)
    for wrong in (pruned(count=1), pruned(whole_from=2), pruned(by="re-2")):
        assert first(checked(wrong)) == (Verdict.INCOMPLETE, "erasures", None)


@pytest.mark.parametrize("index", [0, 5, 10])
def test_an_omitted_entry_makes_the_bundle_incomplete_at_its_index(index):
    """L26: one entry left out of a range."""
    made = draft(day())
    lines = made.lines()
    del lines[index]
    report = checked(made.put(lines))
    assert first(report) == (Verdict.INCOMPLETE, "range", index)
    assert "one entry is left out" in text(report)
    del lines[3:5]
    assert " entries are left out" in lines_of(checked(made.put(lines)))


def test_entries_that_close_the_gap_do_not_lead_to_the_root():
    """L26: one entry left out, the others moved up."""
    made = draft(day())
    lines = made.lines()
    del lines[5]
    made.put([{**line, "index": place} for place, line in enumerate(lines)])
    made.manifest["to"] = 11
    made.members["proof.json"] = json.dumps({"left": [], "right": ["00" * 32]}).encode()
    assert checked(made).worst is Verdict.BROKEN


@pytest.mark.parametrize("said", [0, 1, 3])
def test_a_false_count_of_withheld_entries_makes_the_bundle_incomplete(said):
    """L26: falsified withheld count."""
    made = draft(day(), withheld=frozenset({2, 3}))
    made.manifest["withheld"] = said
    report = checked(made)
    assert first(report) == (Verdict.INCOMPLETE, "range", None)
    assert f"withholds {said} entries; it withholds 2" in text(report)


def test_withheld_entries_require_a_filter():
    made = draft(day(), withheld=frozenset({3}))
    made.manifest["request"]["filters"] = {}
    assert first(checked(made)) == (Verdict.INCOMPLETE, "range", 3)


def asked_for(**changes: object) -> Draft:
    log = day()
    wanted = {"from": None, "to": None, "filters": {"tool": "refund"}, "format": "jsonl", "payloads": True}
    event = log.add("export/x-1", "export_requested", "REQUESTED", detail=wanted)
    return draft(log, withheld=frozenset({3}), request={"event": event, **changes})


def test_the_export_request_on_record_must_match_the_bundle():
    report = checked(asked_for())
    assert (report.worst, report.facts["request_is_in_range"]) == (Verdict.VERIFIED, True)
    assert first(checked(asked_for(filters={"tool": "other"}))) == (Verdict.BROKEN, "range", 12)
    assert first(checked(asked_for(id="x-2"))) == (Verdict.BROKEN, "range", 12)


# Envelopes and steps


def test_an_envelope_of_an_unknown_version_is_never_verified():
    log = day()
    log.events[3] = log.events[3].changed(v=2)
    assert first(checked(draft(log))) == (Verdict.UNKNOWN, "envelopes", 3)


def test_a_bundle_of_an_unknown_version_is_reported_as_such():
    made = draft(day())
    made.manifest["version"] = 2
    assert first(checked(made)) == (Verdict.UNKNOWN, "structure", None)


def test_a_subject_of_an_unknown_kind_is_never_verified():
    log = day()
    log.add("spaceship/s-1", "launched", "FLYING")
    assert first(checked(draft(log))) == (Verdict.UNKNOWN, "subjects", 12)


@pytest.mark.parametrize(
    "members",
    [
        {"origin": 5},
        {"seq": 0},
        {"seq": 1},
        {"prev": None},
        {"prev": "AB" * 32},
        {"at": "2026-11-21T12:00:59Z"},
        {"at": "2026-13-21T12:00:59.000000Z"},
        {"causation": 1},
        {"digests": {"contract": "x"}},
        {"digests": []},
        {"commitments": [{"purpose": "entry"}]},
        {"commitments": {}},
        {"subject": {"kind": "action"}},
        {"actor": "me"},
        {"more": 1},
    ],
    ids=repr,
)
def test_an_envelope_of_another_form_is_broken_at_its_index(members):
    log = day()
    log.events[3] = log.events[3].changed(**members)
    assert first(checked(draft(log))) == (Verdict.BROKEN, "envelopes", 3)


def test_an_envelope_in_another_encoding_is_broken():
    log = day()
    log.events[3] = replace(log.events[3], data=json.dumps(log.events[3].value).encode())
    assert first(checked(draft(log))) == (Verdict.BROKEN, "envelopes", 3)
    log.events[3] = replace(log.events[3], data=b"\xff\xfe")
    assert first(checked(draft(log))) == (Verdict.BROKEN, "envelopes", 3)


def test_an_envelope_of_another_log_is_broken():
    log = day()
    log.events[1] = log.events[1].changed(origin="elsewhere.example/1")
    assert first(checked(draft(log))) == (Verdict.BROKEN, "envelopes", 1)


def lines_of(report: Report) -> str:
    return "\n".join(map(str, report.findings))


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"prev": "ab" * 32}, "does not continue"),
        ({"seq": 3}, "event 2 of its subject is missing"),
        ({"from": "EXECUTING", "to": "PENDING"}, "starts from a state in which its subject was not"),
        ({"to": "EXECUTING"}, "no step of a action"),
        ({"to": "COMMITTED"}, "no step of a action"),
    ],
)
def test_an_invalid_chain_or_transition_is_broken_at_its_index(members, says):
    log = day()
    log.events[3] = log.events[3].changed(**members)
    report = checked(draft(log))
    assert first(report) == (Verdict.BROKEN, "subjects", 3)
    assert says in lines_of(report)


def story(*steps: tuple[str, str, str, dict[str, object]]) -> Report:
    """What is found in a log of these events."""
    return checked(draft(written(*steps)))


def written(*steps: tuple[str, str, str, dict[str, object]]) -> Log:
    """A log of these events: subject, kind, state, and what is said of it."""
    log = Log()
    for subject, kind, to, said in steps:
        log.add(subject, kind, to, **said)  # type: ignore[arg-type]
    return log


BEGUN = [
    ("action/a", "proposed", "PROPOSED", {"entry": {"action_id": "a"}}),
    ("action/a", "validated", "VALIDATED", {"entry": {"action_id": "a"}}),
    ("action/a", "grant_minted", "VALIDATED", {"detail": {"jti": "g"}}),
]
START = {"by": ("executor", "e"), "detail": {"attempt": 1, "jti": "g", "grounds": ["released"]}}
GATED = {"action_id": "a", "approval": {"required": True, "approval_id": "p", "payload_hash": "ab"}}
ASKED = ("approval/p", "approval_requested", "REQUESTED", {"detail": {"payload_hash": "ab"}})
VOTED = ("approval/p", "approved", "APPROVED", {"by": ("person", "x")})
SPENT = ("approval/p", "approval_consumed", "CONSUMED", {"detail": {"action_id": "a"}})


def started(**changes: object) -> tuple[str, str, str, dict[str, object]]:
    return ("action/a", "execution_started", "EXECUTING", {"entry": {"action_id": "a"}, **START, **changes})


def test_a_start_without_its_executor_or_grounds_is_broken():
    assert story(*BEGUN, started()).worst is Verdict.VERIFIED
    wrong = [
        (started(by=SYSTEM), "without an executor"),
        (("action/a", "begun", "EXECUTING", START), "without an executor"),
        (started(detail={"attempt": 1, "jti": "g"}), "needs grounds that it does not name: released"),
        (started(detail={"attempt": 2, "jti": "g", "grounds": ["released"]}), "attempt is not number 1"),
        (started(detail={"attempt": 1, "grounds": ["released"]}), "without a grant"),
        (started(entry={"action_id": "b"}), "about another action"),
        (started(entry=GATED), "without an approval that was consumed for it"),
    ]
    for step, says in wrong:
        report = story(*BEGUN, step)
        assert first(report) == (Verdict.BROKEN, "subjects", 3)
        assert says in lines_of(report)


def test_a_start_with_an_unrecorded_grant_is_detected():
    """B29: a stolen grant key signs a grant that was never minted here."""
    assert "not the one that was minted for it last" in lines_of(story(*BEGUN[:2], started()))
    another = ("action/a", "grant_minted", "VALIDATED", {"detail": {"jti": "h"}})
    assert "not the one that was minted for it last" in lines_of(story(*BEGUN, another, started()))


def test_withheld_content_does_not_count_against_an_event():
    log = written(*BEGUN, started())
    hidden = [OpenedCommitment(gone="withheld")] * 2
    assert checked(draft(at(log, 3, hidden[:2]))).worst is Verdict.VERIFIED
    bare = ("action/a", "execution_started", "EXECUTING", {"by": ("executor", "e")})
    assert "needs grounds" in lines_of(story(*BEGUN, bare))


def test_a_gated_start_requires_its_own_consumed_approval():
    gated = started(entry=GATED)
    assert story(*BEGUN, ASKED, VOTED, SPENT, gated).worst is Verdict.VERIFIED
    assert "without an approval" in lines_of(story(*BEGUN, ASKED, VOTED, gated))
    for_another = ("approval/p", "approval_consumed", "CONSUMED", {"detail": {"action_id": "b"}})
    assert "for something else" in lines_of(story(*BEGUN, ASKED, VOTED, for_another, gated))
    of_another = ("approval/p", "approval_requested", "REQUESTED", {"detail": {"payload_hash": "cd"}})
    assert "of another payload" in lines_of(story(*BEGUN, of_another, VOTED, SPENT, gated))
    by_machine = ("approval/p", "approved", "APPROVED", {"by": SYSTEM})
    assert "only the vote of a person" in lines_of(story(*BEGUN, ASKED, by_machine, SPENT, gated))


def test_only_a_read_only_tool_may_commit_without_a_reading():
    for side_effects, says in (("READ_ONLY", ""), ("HIGH_RISK_EXTERNAL", "its tool can change something")):
        entry = {"action_id": "a", "side_effect_class": side_effects}
        done = ("action/a", "committed", "COMMITTED", {"entry": entry, "detail": {"grounds": ["changes_nothing"]}})
        assert lines_of(story(*BEGUN, started(), done)).endswith(says)
        assert story(*BEGUN, started(), done).worst is (Verdict.BROKEN if says else Verdict.VERIFIED)


def standing(kind: str, to: str, person: str, *, human: str = "") -> tuple[str, str, str, dict[str, object]]:
    said = {"by": ("person", person)} | ({"detail": {"person": human}} if human else {})
    return ("standing_approval/s", f"standing_approval_{kind}", to, said)


OFFERED = standing("proposed", "PROPOSED", "x", human="human-x")
AGREED = standing("agreed", "ACTIVE", "y", human="human-y")
PASSED = ("approval/p", "standing_approval_passed", "APPROVED", {"detail": {"standing_approval_id": "s"}})


def test_a_standing_approval_requires_two_people():
    assert story(OFFERED, AGREED).worst is Verdict.VERIFIED
    assert story(standing("proposed", "PROPOSED", "x"), standing("agreed", "ACTIVE", "y")).worst is Verdict.VERIFIED
    by_machine = ("standing_approval/s", "standing_approval_agreed", "ACTIVE", {"by": SYSTEM})
    alone = standing("agreed", "ACTIVE", "x")
    same_human = standing("agreed", "ACTIVE", "y", human="human-x")
    for agreed in (by_machine, alone, same_human):
        report = story(OFFERED, agreed)
        assert first(report) == (Verdict.BROKEN, "subjects", 1)
        assert "a standing approval takes two persons" in lines_of(report)


def test_an_action_without_votes_needs_a_standing_approval_in_force():
    report = story(OFFERED, AGREED, ASKED, PASSED)
    assert report.worst is Verdict.VERIFIED
    assert report.looked["subjects"] == "2 subjects"
    paused = ("standing_approval/s", "standing_approval_paused", "PAUSED", {})
    assert "that was not in force" in lines_of(story(OFFERED, AGREED, paused, ASKED, PASSED))
    assert "that was not in force" in lines_of(story(OFFERED, ASKED, PASSED))
    assert "that is not there" in lines_of(story(ASKED, PASSED))
    hidden = checked(draft(written(OFFERED, AGREED, ASKED, PASSED), withheld=frozenset({0, 1})))
    assert hidden.worst is Verdict.VERIFIED
    assert hidden.looked["subjects"] == "1 passes whose standing approval is not visible, 1 subjects"


def boxed(*, seconds: float = 3600, most: object = 2, **said: object) -> tuple[str, str, str, dict[str, object]]:
    """The first event of a log: a time-boxed pass for so many seconds. Each event is one second after the other."""
    detail = {"person": "human-x", "ends_at": instant(bundles.START + timedelta(seconds=seconds)), "max_count": most}
    return ("standing_approval/s", "time_boxed_pass_given", "ACTIVE", {"by": ("person", "x"), "detail": detail} | said)


USED = ("standing_approval/s", "standing_approval_used", "ACTIVE", {"by": SYSTEM, "detail": {"action_id": "a"}})


def test_an_action_under_a_time_boxed_pass_rests_on_one_person():
    report = story(boxed(), PASSED, USED)
    assert report.worst is Verdict.VERIFIED
    assert report.looked["subjects"] == "2 subjects"


def test_a_forged_time_boxed_pass_is_refused():
    paused = ("standing_approval/s", "standing_approval_paused", "PAUSED", {})
    proposed = ("standing_approval/s", "standing_approval_resume_proposed", "PROPOSED", {"by": ("person", "x")})
    begins = "a standing approval begins as a proposal, or as the time-boxed pass of a person"
    for says, steps in (
        ("a time-boxed pass lasts for an hour at most", [boxed(seconds=3601)]),
        ("a time-boxed pass lasts for an hour at most", [boxed(seconds=0)]),
        ("a time-boxed pass lasts for an hour at most", [boxed(detail={"max_count": 2})]),
        ("a time-boxed pass is for a number of calls", [boxed(most=0)]),
        ("a time-boxed pass is for a number of calls", [boxed(most=None)]),
        (begins, [boxed(by=SYSTEM)]),
        (begins, [AGREED]),
        ("it passed under a time-boxed pass that was over", [boxed(seconds=1), PASSED]),
        ("it passed under a time-boxed pass that was over", [boxed(seconds=1), USED]),
        ("more passed under a time-boxed pass than it allows", [boxed(), USED, USED, USED]),
        ("a time-boxed pass is never resumed", [boxed(), paused, proposed]),
    ):
        report = story(*steps)
        assert report.worst is Verdict.BROKEN, says
        assert says in lines_of(report)


def test_the_bounds_of_a_withheld_time_boxed_pass_are_unknown_and_not_a_fault():
    hidden = checked(draft(written(boxed(seconds=9000), PASSED, USED), withheld=frozenset({0})))
    assert hidden.worst is Verdict.VERIFIED


def test_a_second_start_requires_a_new_grant_and_approval():
    again = [
        ("action/a", "failed", "FAILED", {"detail": {"grounds": ["nothing_sent"]}}),
        ("action/a", "retried", "VALIDATED", {"detail": {"grounds": ["retry_allowed"]}}),
        ("action/a", "grant_minted", "VALIDATED", {"detail": {"jti": "h"}}),
    ]
    second = {"attempt": 2, "jti": "h", "grounds": ["released"]}
    assert story(*BEGUN, started(), *again, started(detail=second)).worst is Verdict.VERIFIED
    assert "grant was spent before" in lines_of(story(*BEGUN, started(), *again, started()))
    gated = [ASKED, VOTED, SPENT, started(entry=GATED), *again, started(entry=GATED, detail=second)]
    assert "for something else" in lines_of(story(*BEGUN, *gated))


def test_only_a_person_takes_an_action_out_of_review():
    held = ("action/a", "held", "REVIEW_REQUIRED", {})
    grounds = {"detail": {"grounds": ["nothing_executed", "reason_and_evidence"]}}
    by_person = ("action/a", "released", "VALIDATED", {"by": ("person", "x"), **grounds})
    assert story(*BEGUN, held, by_person).worst is Verdict.VERIFIED
    assert "only a person" in lines_of(story(*BEGUN, held, ("action/a", "released", "VALIDATED", grounds)))


def test_a_vote_must_cover_its_own_approval_payload_and_voter():
    log = day()
    other = json.loads(log.events[5].opened[1].data or b"{}")
    for covers, vote in (({"approval_id": "ap-2"}, {}), ({"payload_hash": "cd" * 32}, {}), ({}, {"voter": "p-2"})):
        made = Log()
        statement = json.dumps(
            {"version": 1, "covers": other["covers"] | covers, "vote": other["vote"] | vote}
        ).encode()
        asked = {"payload_hash": "ab" * 32}
        made.add("approval/ap-1", "approval_requested", "REQUESTED", detail=asked)
        by = ("person", "p-1")
        made.add("approval/ap-1", "approved", "APPROVED", by=by, detail={}, evidence={"statement": statement})
        assert "about something else" in lines_of(checked(draft(made)))
    log.events[5] = log.events[5].changed(kind="approved")
    assert checked(draft(log)).worst is Verdict.VERIFIED


def test_entries_hidden_by_a_filter_are_not_a_break():
    for hidden in ({2}, {3}, {2, 3, 9}, {0, 1, 4, 5, 6}, {6}, {5, 6}):
        assert checked(draft(day(), withheld=frozenset(hidden))).worst is Verdict.VERIFIED
    report = checked(draft(day(), withheld=frozenset({4, 5, 6})))
    assert report.facts["counts"]["starts whose approval is not visible"] == 1


def test_a_gap_beyond_the_withheld_entries_is_detected():
    log = day()
    log.events[7] = log.events[7].changed(seq=5)
    assert "event 3 of its subject is missing" in lines_of(checked(draft(log, withheld=frozenset({5}))))


def test_a_log_opened_after_a_restore_continues_subjects_of_the_earlier_one():
    log = day()
    later = Log(origin=f"{ORIGIN}/2", heads=dict(log.heads))
    later.add("log/l-2", "restored", "OPEN")
    later.add("action/ac-1", "commented")
    trusted = policy(f"log {vkey(OTHER_KEY, later.origin)}")
    made = draft(later, checkpoints=[later.checkpoint(signed_by=(OTHER_KEY,))])
    assert first(checked(made, trusted)) == (Verdict.VERIFIED, "", None)


# Keys over time (L23)

ROTATED = policy(
    f"log {vkey(OTHER_KEY)}",
    f"valid {vkey(LOG_KEY).rpartition('+')[0]} until 6",
    f"valid {vkey(OTHER_KEY).rpartition('+')[0]} from 6",
)


@pytest.mark.parametrize(
    ("size", "signed_by", "verdict"),
    [
        (5, (LOG_KEY,), Verdict.VERIFIED),
        (6, (LOG_KEY,), Verdict.VERIFIED),
        (6, (LOG_KEY, OTHER_KEY), Verdict.VERIFIED),
        (6, (OTHER_KEY,), Verdict.VERIFIED),
        (9, (OTHER_KEY,), Verdict.VERIFIED),
        (9, (LOG_KEY, OTHER_KEY), Verdict.VERIFIED),
        (5, (OTHER_KEY,), Verdict.UNTRUSTED),
        (7, (LOG_KEY,), Verdict.UNTRUSTED),
    ],
)
def test_a_key_counts_only_for_the_sizes_that_the_policy_allows(size, signed_by, verdict):
    """L23: the old key before its end, the new key before its start, the retired key after its end."""
    log = day()
    made = draft(log, 0, size, checkpoints=[log.checkpoint(size, signed_by=signed_by)])
    assert checked(made, ROTATED).worst is verdict


def test_bundles_from_before_and_after_a_key_rotation_are_verified():
    """L23: old bundles verify, and the new head continues the old one."""
    log = day()
    old, new = log.checkpoint(5), log.checkpoint(signed_by=(OTHER_KEY,))
    assert checked(draft(log, 5, checkpoints=[old, new]), ROTATED, old).worst is Verdict.VERIFIED


def test_a_bad_signature_of_a_known_key_is_broken():
    log = day()
    wrong = log.checkpoint(signed_by=(LOG_KEY, OTHER_KEY)).splitlines(keepends=True)
    other = log.checkpoint(10, signed_by=(OTHER_KEY,)).splitlines(keepends=True)
    note = b"".join([*wrong[:-1], other[-1]])
    assert first(checked(draft(log, checkpoints=[note]), ROTATED)) == (Verdict.BROKEN, "log signature", None)


# Witnesses

TWO_OF_TWO = policy(witness(), witness("v.example", WITNESS_2), "group both all w.example v.example", quorum="both")


def test_the_tail_behind_the_newest_witnessed_checkpoint_is_not_anchored():
    """L21: the policy demands witnesses; the report says which have not signed, and up to where it is anchored."""
    log = day()
    by = {"w.example": WITNESS_KEY, "v.example": WITNESS_2}
    seen, half = log.checkpoint(6, cosigned_by=by), log.checkpoint(cosigned_by={"w.example": WITNESS_KEY})
    report = checked(draft(log, checkpoints=[seen, half]), TWO_OF_TWO)
    assert first(report) == (Verdict.UNANCHORED, "witness quorum", None)
    assert f"these have not signed for {report.facts['size']} entries: v.example; anchored are 6" in text(report)
    assert report.facts["anchored"] == 6
    assert checked(draft(log, checkpoints=[log.checkpoint(cosigned_by=by)]), TWO_OF_TWO).worst is Verdict.VERIFIED


def test_a_bad_cosignature_of_a_known_witness_is_broken_and_an_unknown_one_ignored():
    log = day()
    note = log.checkpoint(cosigned_by={"w.example": WITNESS_2})
    assert checked(draft(log, checkpoints=[note])).worst is Verdict.VERIFIED
    trusted = policy(witness(), quorum="w.example")
    assert checked(draft(log, checkpoints=[note]), trusted).worst is Verdict.UNANCHORED
    good = log.checkpoint(cosigned_by={"w.example": WITNESS_KEY}).splitlines(keepends=True)
    of_another = log.checkpoint(10, cosigned_by={"w.example": WITNESS_KEY}).splitlines(keepends=True)
    made = draft(log, checkpoints=[b"".join([*good[:-1], of_another[-1]])])
    assert first(checked(made, trusted)) == (Verdict.BROKEN, "log signature", None)


# The tree


@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(0, 40))
def test_consistency_proofs_match_the_reference_implementation(old, size):
    leaves = [bytes([number + 1]) * 32 for number in range(size)]
    if old > size:
        assert not consistent(old, size, bytes(32), tree(leaves), [])
        return
    proof = growth(old, leaves) if old else []
    assert consistent(old, size, tree(leaves[:old]), tree(leaves), proof)
    assert not consistent(old, size, tree(leaves[:old]), tree(leaves), [*proof, bytes(32)])
    assert not consistent(old, size, bytes(32), tree(leaves), proof)
    for place in range(len(proof)):
        changed = [*proof[:place], bytes(32), *proof[place + 1 :]]
        assert not consistent(old, size, tree(leaves[:old]), tree(leaves), changed)
        assert not consistent(old, size, tree(leaves[:old]), tree(leaves), proof[:place] + proof[place + 1 :])


def test_an_invalid_consistency_proof_is_broken():
    log = day()
    made = draft(log, 6, checkpoints=[log.checkpoint(3), log.checkpoint()])
    made.members["consistency/3.json"] = json.dumps({"hashes": ["00" * 32]}).encode()
    assert first(checked(made)) == (Verdict.BROKEN, "consistency", None)
    assert "does not show" in text(checked(made))


def test_a_kept_checkpoint_without_a_proof_makes_the_bundle_incomplete():
    log = day()
    report = checked(draft(log, 6), old=log.checkpoint(3))
    assert first(report) == (Verdict.INCOMPLETE, "consistency", None)
    assert "ask for an export since 3" in text(report)
    trusted = policy(f"log {vkey(OTHER_KEY, 'other.example/1')}")
    other = replace(log, origin="other.example/1").checkpoint(3, signed_by=(OTHER_KEY,))
    assert "is of another log" in text(checked(draft(log), trusted, other))


def test_two_inconsistent_checkpoints_in_one_bundle_are_equivocation():
    log = day()
    made = draft(log, checkpoints=[log.checkpoint(4, root=bytes(32)), log.checkpoint()])
    assert first(checked(made)) == (Verdict.EQUIVOCATION, "consistency", None)


def test_the_verifier_reads_the_envelope_that_the_console_writes():
    for event in day().events:
        assert verify_bundle.read_envelope(event.data) == event.value
        assert envelope.parse(event.data)
