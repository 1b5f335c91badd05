"""Exports: whole or filtered, made piece by piece, on record, and true to the last byte."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from base64 import b64encode
from datetime import timedelta
from uuid import uuid4

import boto3
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from moto import mock_aws

from console import tasks
from console.edge.settings_files import load_witness_policy
from console.exports import bundle_information
from console.settings import _bucket
from counterfoil_tlog import notes
from ledger.db import tenancy
from ledger.exports.operations import bundles as files
from ledger.exports.operations import exports
from ledger.exports.operations.stores import StorageAway
from ledger.exports.rules.export_requests import BadExport
from ledger.log.operations import sequencer
from ledger.models import Export
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.rules.refusals import NotFound
from ledger.verification.queries import storage
from ledger.verify_bundle import Verdict
from tests.support import exported, seals
from tests.support.callers import found
from tests.support.exported import ask_for, bundle, judged, make, newest, now, policy, row_of
from tests.support.outside.authorities import Authority, desk
from tests.support.outside.witnesses import witness


@pytest.fixture(autouse=True)
def folder(settings, tmp_path, monkeypatch):
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    monkeypatch.setattr(exports, "PIECE", 7)
    return tmp_path / "exports"


@pytest.fixture
def tenant(db):
    """A tenant whose log has some forty signed entries, evidence among them."""
    made = found("orchid")
    for number in range(12):
        happen(made, f"note {number}")
    seals.seal_up()
    seals.seal_up()
    return made


def happen(tenant, text, *, kind="case"):
    head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind=kind)
    with tenancy(tenant):
        sealed = ledger.store_evidence(
            tenant_id=tenant,
            subject_id=head.id,
            purpose="note",
            data=text.encode(),
            media_type="text/plain",
            source="test",
            at=now(),
        )
        opened = ledger.NewEvent(kind="case_opened", to="OPEN", detail={"text": text}, evidence=(sealed,))
        head = ledger.append(head, opened, actor=ledger.SYSTEM, at=now())
        ledger.append(head, ledger.NewEvent(kind="commented"), actor=ledger.SYSTEM, at=now())
    return head.id


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def lines(data):
    return [
        json.loads(line)
        for name, part in members(data).items()
        if name.startswith("events/")
        for line in part.splitlines()
    ]


@pytest.mark.req("R-HO-12", "R-UI-14")
def test_a_complete_export_is_verified_and_includes_its_own_request(tenant):
    data = bundle(tenant)
    report = judged(data, policy(tenant))
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    assert report.facts["range"] == [0, newest(tenant).size]
    assert report.facts["request_is_in_range"]
    assert report.facts["counts"]["events"] == newest(tenant).size
    assert {"README.txt", "verify_bundle.py", "keys.json", "proof.json"} <= members(data).keys()
    assert members(data)["verify_bundle.py"] == files.offline_verifier()


def test_every_range_is_verified(tenant):
    size = newest(tenant).size
    for start, end in [(0, 1), (0, size), (3, size), (5, 6), (8, 24), (size - 1, size), (1, size - 1)]:
        report = judged(bundle(tenant, start=start, end=end), policy(tenant))
        assert (report.worst, report.facts["range"]) == (Verdict.VERIFIED, [start, end])


def test_the_same_parts_give_the_same_bytes(tmp_path):
    parts = {"README.txt": b"Read me.", "events/000000.jsonl": b"{}" * 1000}
    first, second = (files.write_zip(tmp_path / name, parts) for name in ("one.zip", "other.zip"))
    assert first == second


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        ({"kind": "commented"}, {"commented"}),
        ({"subject_kind": "case"}, {"case_opened", "commented"}),
        ({"subject_kind": "case", "kind": "case_opened"}, {"case_opened"}),
        ({"tool": "nothing_does_this"}, set()),
    ],
)
def test_a_filtered_export_withholds_the_rest_and_counts_it(tenant, filters, kinds):
    data = bundle(tenant, end=newest(tenant).size, filters=filters)
    report = judged(data, policy(tenant))
    assert report.worst is Verdict.VERIFIED
    shown = {json.loads(line["envelope"])["kind"] for line in lines(data) if "envelope" in line}
    assert shown - {"log_opened"} == kinds
    manifest = json.loads(members(data)["manifest.json"])
    assert manifest["withheld"] == report.facts["counts"]["withheld"] > 0
    assert manifest["withheld"] + report.facts["counts"].get("events", 0) == newest(tenant).size


def test_an_export_of_one_subject_discloses_only_that_subject(tenant):
    subject = happen(tenant, "this one")
    seals.seal_up()
    data = bundle(tenant, end=newest(tenant).size, filters={"subject": str(subject)})
    shown = [json.loads(line["envelope"]) for line in lines(data) if "envelope" in line]
    assert [each["kind"] for each in shown if each["subject"]["kind"] != "log"] == ["case_opened", "commented"]
    assert judged(data, policy(tenant)).worst is Verdict.VERIFIED


def test_payloads_are_disclosed_with_their_salts_or_withheld(tenant):
    size = newest(tenant).size
    whole, bare = bundle(tenant, end=size), bundle(tenant, end=size, payloads=False)
    assert b"note 7" in members(whole)["events/000003.jsonl"] + members(whole)["events/000002.jsonl"]
    texts = [one for line in lines(whole) for one in line.get("open", []) if one.get("text") == "note 7"]
    assert len(texts) == 1
    report = judged(bare, policy(tenant))
    assert (report.worst, report.facts["counts"]["not disclosed"]) == (Verdict.VERIFIED, 12)
    gone = [one for line in lines(bare) for one in line.get("open", []) if one.get("gone") == "withheld"]
    assert len(gone) == 12


def test_a_range_may_be_given_as_times(tenant):
    at = now()
    happen(tenant, "later")
    seals.seal_up()
    size = newest(tenant).size
    before = judged(bundle(tenant, end=at.isoformat()), policy(tenant))
    after = judged(bundle(tenant, start=at.isoformat(), end=size), policy(tenant))
    assert (before.worst, after.worst) == (Verdict.VERIFIED, Verdict.VERIFIED)
    assert before.facts["range"][1] == after.facts["range"][0]
    assert after.facts["counts"]["events"] == size - after.facts["range"][0] >= 2


def test_an_export_proves_consistency_with_a_kept_checkpoint(tenant):
    kept = newest(tenant)
    for number in range(9):
        happen(tenant, f"more {number}")
    seals.seal_up()
    size = newest(tenant).size
    late = {"start": kept.size + 3, "end": size}
    assert judged(bundle(tenant, **late), policy(tenant), kept.note).worst in (Verdict.VERIFIED, Verdict.INCOMPLETE)
    report = judged(bundle(tenant, **late, since=kept.size), policy(tenant), kept.note)
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    assert judged(bundle(tenant, end=size), policy(tenant), kept.note).worst is Verdict.VERIFIED


@pytest.mark.req("R-UI-14", "R-LE-21")
def test_every_export_and_every_download_is_recorded(tenant):
    by = ledger.Actor("auditor", uuid4())
    with tenancy(tenant):
        row = exports.request_export(tenant_id=tenant, wanted={"to": 9, "format": "jsonl"}, by=by, at=now())
    made = make(tenant, row.id)
    with tenancy(tenant):
        exports.fetch_bundle(tenant_id=tenant, export_id=row.id, by=by, at=now()).close()
        events = storage.stored_events(tenant, after=(row.id, 0), upto=row.id, limit=10)
    assert [each.columns["kind"] for each in events] == ["export_requested", "export_finished", "export_fetched"]
    assert [each.columns["actor_id"] == str(by.id) for each in events] == [True, False, True]
    finished = json.loads(events[1].detail or b"{}")
    assert (finished["from"], finished["to"], finished["sha256"]) == (0, 9, made.sha256)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"start": 9, "end": 5}, "empty"),
        ({"start": -1}, "indexes"),
        ({"start": 1.5}, "indexes"),
        ({"start": True}, "indexes"),
        ({"start": "yesterday"}, "indexes"),
        ({"start": "2026-11-21T12:00:00"}, "zone"),
        ({"format": "xml"}, "format"),
        ({"filters": {"colour": "red"}}, "no filter colour"),
        ({"filters": {"kind": ""}}, "must be a text"),
        ({"filters": {"action": "x"}}, "must be an id"),
    ],
)
def test_a_meaningless_export_request_is_refused(tenant, wanted, reason):
    with pytest.raises(BadExport, match=reason):
        ask_for(tenant, **wanted)


@pytest.mark.parametrize("wanted", [{"end": 10_000}, {"start": 40, "end": "2020-01-01T00:00:00+00:00"}])
def test_an_export_of_a_range_outside_the_log_fails_with_the_reason(tenant, wanted):
    export_id = ask_for(tenant, **wanted)
    row = make(tenant, export_id)
    assert row.state == "FAILED"
    assert row.reason in (
        f"The log has only {newest(tenant).signed_size} signed entries.",
        "There is nothing in this range.",
    )
    with pytest.raises(exports.NotFinished):
        exported.fetch(tenant, export_id)


@pytest.mark.unsealed
def test_an_export_up_to_now_waits_until_its_own_request_is_sealed(tenant):
    export_id = ask_for(tenant)
    assert make(tenant, export_id).log == 0
    seals.seal_up()
    assert make(tenant, export_id).state == "FINISHED"


@pytest.mark.unsealed
def test_an_export_up_to_now_contains_its_request_though_that_is_signed_between_two_looks(tenant, monkeypatch):
    export_id, read_logs, signed = ask_for(tenant), exports.log.logs, []

    def sign_after(tenant_id):
        found = read_logs(tenant_id)
        if not signed:
            signed.append(tenant_id)
            seals.seal_up()
        return found

    monkeypatch.setattr(exports.log, "logs", sign_after)
    for _ in range(2):
        make(tenant, export_id)
    report = judged(exported.fetch(tenant, export_id), policy(tenant))
    assert report.facts["request_is_in_range"]


@pytest.mark.unsealed
def test_without_a_sequencer_an_export_uses_the_signed_part_of_the_log(tenant):
    export_id = ask_for(tenant)
    later = now() + timedelta(minutes=2)
    while bundle_information.advance_export(tenant_id=tenant, export_id=export_id, clock=lambda: later):
        pass
    assert row_of(tenant, export_id).end == newest(tenant).signed_size
    assert judged(exported.fetch(tenant, export_id), policy(tenant)).worst is Verdict.VERIFIED


class Killed(BaseException):
    """The worker is no more."""


@pytest.mark.parametrize("place", ["write_file", "write_zip"])
@pytest.mark.parametrize("kept", [False, True], ids=["lost", "kept"])
def test_an_export_survives_the_death_of_its_worker(tenant, monkeypatch, place, kept):
    """Killed at every piece, with the file lost and with it kept: nothing is missing and nothing is there twice."""
    export_id = ask_for(tenant, end=newest(tenant).size)
    real, deaths = getattr(files, place), []

    def dies(*values):
        if len(deaths) % 2 == 0:
            deaths.append("killed")
            if kept:
                real(*values)
            raise Killed
        deaths.append("lived")
        return real(*values)

    monkeypatch.setattr(files, place, dies)
    for _ in range(100):
        try:
            if not bundle_information.advance_export(tenant_id=tenant, export_id=export_id, clock=now):
                break
        except Killed:
            continue
    assert deaths.count("killed") >= (5 if place == "write" else 1)
    assert row_of(tenant, export_id).state == "FINISHED"
    data = exported.fetch(tenant, export_id)
    assert judged(data, policy(tenant)).worst is Verdict.VERIFIED
    assert [line["index"] for line in lines(data)] == list(range(newest(tenant).size))


def test_missing_pieces_are_made_again(tenant, folder):
    export_id = ask_for(tenant, end=newest(tenant).size)
    for _ in range(4):
        bundle_information.advance_export(tenant_id=tenant, export_id=export_id, clock=now)
    assert row_of(tenant, export_id).chunks == 3
    (folder / tenant.hex / f"{export_id}.parts" / "000001.jsonl").unlink()
    assert make(tenant, export_id).state == "FINISHED"
    assert judged(exported.fetch(tenant, export_id), policy(tenant)).worst is Verdict.VERIFIED


def test_progress_is_counted_and_an_expired_result_is_removed(tenant, folder):
    export_id = ask_for(tenant, end=21)
    seen = []
    while bundle_information.advance_export(tenant_id=tenant, export_id=export_id, clock=now):
        row = row_of(tenant, export_id)
        seen.append((row.done, row.end))
    assert seen == [(0, 21), (7, 21), (14, 21), (21, 21), (21, 21)]
    row = row_of(tenant, export_id)
    file = folder / tenant.hex / f"{export_id}.zip"
    assert file.stat().st_size == row.size
    assert (folder / tenant.hex).stat().st_mode & 0o077 == 0
    assert not (folder / tenant.hex / f"{export_id}.parts").exists()
    assert exports.remove_expired(tenant_id=tenant, at=now()) == 0
    assert exports.remove_expired(tenant_id=tenant, at=row.expires_at) == 1
    with pytest.raises(exports.NotFinished):
        exported.fetch(tenant, export_id)


def test_the_number_of_exports_at_once_is_limited(tenant):
    for _ in range(exports.MOST_RUNNING):
        ask_for(tenant)
    with pytest.raises(exports.TooManyExports):
        ask_for(tenant)


def test_parquet_tables_contain_the_same_events_as_the_lines(tenant, tmp_path):
    import duckdb

    data = bundle(tenant, end=newest(tenant).size, format="parquet")
    assert judged(data, policy(tenant)).worst is Verdict.VERIFIED
    for name, part in members(data).items():
        if name.startswith("tables/"):
            (tmp_path / name.replace("/", "-")).write_bytes(part)
    with duckdb.connect(":memory:") as database:
        found = database.execute(
            'SELECT "index", kind, subject_id, seq, envelope FROM read_parquet(?) ORDER BY "index"',
            [str(tmp_path / "tables-*.parquet")],
        ).fetchall()
    envelopes = [(line["index"], json.loads(line["envelope"])) for line in lines(data)]
    assert [row[:4] for row in found] == [(i, e["kind"], e["subject"]["id"], e["seq"]) for i, e in envelopes]
    assert [json.loads(row[4]) for row in found] == [each for _, each in envelopes]


@pytest.mark.req("R-UI-14")
def test_csv_tables_contain_the_same_events_as_the_lines(tenant):
    data = bundle(tenant, end=newest(tenant).size, format="csv")
    assert judged(data, policy(tenant)).worst is Verdict.VERIFIED
    tables = [part.decode() for name, part in sorted(members(data).items()) if name.startswith("tables/")]
    found = [row for table in tables for row in csv.DictReader(io.StringIO(table))]
    envelopes = [(line["index"], line["leaf"], json.loads(line["envelope"])) for line in lines(data)]
    assert [(row["index"], row["leaf"], row["kind"], row["subject_id"], row["at"]) for row in found] == [
        (str(index), leaf, each["kind"], each["subject"]["id"], each["at"]) for index, leaf, each in envelopes
    ]


def test_without_its_package_parquet_is_refused_in_one_sentence(tenant, monkeypatch):
    monkeypatch.setattr(files, "has_parquet", lambda: False)
    with pytest.raises(exports.ParquetUnavailable, match="needs the package duckdb"):
        ask_for(tenant, format="parquet")
    ask_for(tenant, format="jsonl")


def test_highly_compressible_data_is_stored_uncompressed(tmp_path):
    size, _ = files.write_zip(tmp_path / "x.zip", {"README.txt": b"\0" * 3_000_000})
    assert size > 3_000_000
    with zipfile.ZipFile(tmp_path / "x.zip") as file:
        assert file.read("README.txt") == b"\0" * 3_000_000


def test_a_tenant_cannot_fetch_what_another_exported(tenant, other_tenant):
    export_id = ask_for(tenant, end=5)
    make(tenant, export_id)
    with pytest.raises(NotFound, match="Export not found"):
        exported.fetch(other_tenant, export_id)
    assert not bundle_information.advance_export(tenant_id=other_tenant, export_id=export_id, clock=now)
    assert events_queries.tenants()


# Vouched for from outside


@pytest.fixture
def outsiders(tenant, settings, tmp_path, monkeypatch):
    """A witness and an authority that this installation asks, and the lines by which an auditor trusts them."""
    monkeypatch.setattr(sequencer, "KEPT_EVERY", timedelta(0))
    authority = Authority(tmp_path / "authority")
    log_key = policy(tenant).split()[1].decode()
    with witness(tmp_path / "witness", [log_key]) as running, desk(authority) as stamping:
        key = f"witness one {notes.write_vkey(running.key)}"
        (tmp_path / "policy").write_text(f"{key} {running.url}\nquorum one\n")
        settings.COUNTERFOIL_WITNESSES = load_witness_policy(tmp_path / "policy")
        settings.COUNTERFOIL_TSA_URL = stamping.url
        settings.COUNTERFOIL_TSA_ROOTS = (authority.root.certificate,)
        root = b64encode(authority.root.certificate.public_bytes(Encoding.DER)).decode()
        yield running, (key, f"tsa root {root}", "stamp required")


@pytest.mark.req("R-HO-12")
def test_an_export_is_cosigned_and_stamped_before_it_is_handed_out(tenant, outsiders):
    """Its head is cosigned and stamped at once, whatever the intervals, and an auditor who asks for both is content."""
    _, trusted = outsiders
    for _ in range(2):
        data = bundle(tenant)
        report = judged(data, policy(tenant, *trusted, quorum="one"))
        assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
        assert report.facts["anchored"] >= report.facts["range"][1]


def test_an_export_without_a_witness_is_reported_as_not_anchored(tenant, outsiders):
    """L21: the witness is away: the bundle is whole, and its tail is not anchored."""
    running, trusted = outsiders
    bundle(tenant)
    running.process.kill()
    running.process.wait()
    happen(tenant, "more")
    report = judged(bundle(tenant), policy(tenant, *trusted, quorum="one"))
    assert report.worst == Verdict.UNANCHORED
    assert 0 <= report.facts["anchored"] < report.facts["range"][1]


# In a bucket


@pytest.fixture
def bucket(settings, monkeypatch):
    """A bucket of moto, a simulator of S3 in this process; no real storage is asked."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "simulated")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="exports")
        options = {"bucket_name": "exports", "location": "console", "default_acl": None, "file_overwrite": True}
        settings.COUNTERFOIL_EXPORT_BUCKET = options
        backend = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}
        settings.STORAGES = settings.STORAGES | {"exports": backend}
        yield lambda: [each["Key"] for each in client.list_objects_v2(Bucket="exports").get("Contents", [])]


def test_a_bundle_in_a_bucket_is_the_same_and_is_in_no_folder(tenant, folder, bucket):
    data = bundle(tenant, end=20)
    assert judged(data, policy(tenant)).worst is Verdict.VERIFIED
    assert [key.rpartition(".")[2] for key in bucket()] == ["zip"]
    assert [each for each in folder.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_worker_on_another_host_goes_on_with_the_pieces_in_the_bucket(tenant, settings, tmp_path, bucket, form):
    export_id = ask_for(tenant, end=20, format=form)
    make(tenant, export_id, most=3)
    before = row_of(tenant, export_id)
    assert before.chunks == 2
    settings.COUNTERFOIL_EXPORTS = tmp_path / "another host"
    make(tenant, export_id, most=1)
    assert row_of(tenant, export_id).chunks == 3
    settings.COUNTERFOIL_EXPORTS = tmp_path / "a third host"
    assert make(tenant, export_id).state == "FINISHED"
    assert judged(exported.fetch(tenant, export_id), policy(tenant)).worst is Verdict.VERIFIED
    assert len(bucket()) == 1


def test_expired_and_failed_exports_are_removed_from_the_bucket(tenant, bucket):
    kept, failed = ask_for(tenant, end=20), ask_for(tenant, end=20)
    row = make(tenant, kept)
    make(tenant, failed, most=2)
    with tenancy(tenant):
        Export.objects.filter(id=failed).update(state="FAILED")
    assert len(bucket()) == 2
    assert exports.remove_expired(tenant_id=tenant, at=now()) == 1
    assert [key.endswith(f"{kept}.zip") for key in bucket()] == [True]
    assert exports.remove_expired(tenant_id=tenant, at=row.expires_at) == 1
    assert bucket() == []
    with tenancy(tenant), pytest.raises(exports.NotFinished):
        exports.finished_bundle(tenant_id=tenant, export_id=kept, at=now())


def test_while_the_bucket_is_away_an_export_waits_and_a_finished_one_is_refused_for_now(
    tenant, settings, monkeypatch, bucket
):
    finished, running, failed = (ask_for(tenant, end=20) for _ in range(3))
    make(tenant, finished)
    make(tenant, failed, most=2)
    with tenancy(tenant):
        Export.objects.filter(id=failed).update(state="FAILED")
    there, before = settings.STORAGES, make(tenant, running, most=2)
    monkeypatch.setenv("COUNTERFOIL_EXPORT_BUCKET", "s3://exports/console")
    monkeypatch.setenv("COUNTERFOIL_EXPORT_BUCKET_URL", "http://127.0.0.1:1")
    away = {**there["exports"], "OPTIONS": _bucket("COUNTERFOIL_EXPORT_BUCKET")}
    settings.STORAGES = there | {"exports": away}
    assert tasks._advance_export(tenant, running) is False
    with pytest.raises(StorageAway, match="no export is lost"):
        exported.fetch(tenant, finished)
    assert row_of(tenant, running).chunks == before.chunks
    tasks.tidy()

    settings.STORAGES = there
    assert make(tenant, running).state == "FINISHED"
    assert judged(exported.fetch(tenant, finished), policy(tenant)).worst is Verdict.VERIFIED
    assert exports.remove_expired(tenant_id=tenant, at=now()) == 1, "what failed was still there"
