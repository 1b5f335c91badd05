"""The log over HTTP: what a stranger needs to check it, and exports from the request to the bundle."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any
from uuid import UUID, uuid4

import pytest

from console.models import PageView
from counterfoil_tlog import checkpoint, merkle, notes, tiles
from counterfoil_tlog.tiles import TileAddress
from ledger.db import tenancy
from ledger.verify_bundle import Verdict
from reviews.reconciliation.rules.discrepancies import Discrepancy
from tests.support import exported, seals
from tests.support.api_tenant import Clock, Workshop
from tests.support.callers import key_for, person_for


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Any) -> None:
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"


@pytest.fixture
def worked(shop: Workshop, clock: Clock) -> Workshop:
    """A tenant in which an action was approved, carried out and read back, all of it sealed."""
    started = shop.started()
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    seals.seal_up()
    seals.seal_up()
    return shop


def head_of(shop: Workshop) -> checkpoint.CheckpointBody:
    answer = shop.auditor.get("/ledger/checkpoint")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8")
    trusted = exported.policy(shop.tenant).decode().split()[1]
    note = notes.parse(answer.content)
    assert notes.verify_signatures(note, [notes.read_vkey(trusted)])
    return checkpoint.parse(note.text)


def test_checkpoint_tiles_and_entries_match_each_other(worked: Workshop):
    head = head_of(worked)
    assert head.size > 20
    tile = worked.auditor.get(f"/ledger/{tiles.path(TileAddress(0, 0), head.size)}").content
    leaves = [tile[at : at + 32] for at in range(0, len(tile), 32)]
    assert merkle.root_of(leaves) == head.root
    entries = worked.auditor.get(f"/ledger/tile/entries/000.p/{head.size}").content
    read = []
    while entries:
        length = int.from_bytes(entries[:2], "big")
        read.append(entries[2 : 2 + length])
        entries = entries[2 + length :]
    assert [merkle.leaf_hash(each) for each in read] == leaves


def test_proofs_equal_those_of_the_tree(worked: Workshop):
    head = head_of(worked)
    for size in (head.size, 7):
        for index in (0, 3, 6):
            said = worked.auditor.get(f"/ledger/proof/inclusion?index={index}&size={size}").json()
            if size == head.size:
                path = [bytes.fromhex(each) for each in said["hashes"]]
                leaf = bytes.fromhex(said["leaf_hash"])
                merkle.verify_inclusion(leaf=leaf, index=index, size=size, proof=path, root=head.root)
    tile = worked.auditor.get("/ledger/tile/0/000.p/7").content
    old = merkle.root_of(tile[at : at + 32] for at in range(0, len(tile), 32))
    said = worked.auditor.get("/ledger/proof/consistency?from=7").json()
    assert (said["from"], said["to"]) == (7, head.size)
    proof = [bytes.fromhex(each) for each in said["hashes"]]
    merkle.verify_consistency(old_size=7, new_size=head.size, old_root=old, new_root=head.root, proof=proof)


def test_events_are_returned_as_the_hashed_bytes(worked: Workshop):
    first = worked.auditor.get("/ledger/events?limit=5").json()
    assert [each["index"] for each in first["items"]] == [0, 1, 2, 3, 4]
    assert first["next"] == 5
    for each in first["items"]:
        assert merkle.leaf_hash(each["envelope"].encode()).hex() == each["leaf_hash"]
    action = worked.auditor.get("/actions").json()["items"][0]["action_id"]
    history = worked.auditor.get(f"/actions/{action}/history").json()["items"]
    found, start = [], 0
    while start is not None:
        page = worked.auditor.get(f"/ledger/events?action={action}&from={start}&limit=2").json()
        found += [json.loads(each["envelope"])["kind"] for each in page["items"]]
        start = page["next"]
    assert found == [each["event"] for each in history]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("tile/0/001", 404, "NOT_FOUND"),
        ("tile/0/000.p/256", 404, "NOT_FOUND"),
        ("tile/0/0", 404, "NOT_FOUND"),
        ("tile/0/000.p/250", 404, "NOT_FOUND"),
        ("tile/9/000.p/1", 404, "NOT_FOUND"),
        ("tile/entries/x001/000", 404, "NOT_FOUND"),
        ("tile/entries/..%2F000", 404, "NOT_FOUND"),
        ("proof/inclusion?index=100000", 404, "NOT_FOUND"),
        ("proof/inclusion?index=0&size=100000", 409, "NOT_SIGNED"),
        ("proof/inclusion", 422, None),
        ("proof/inclusion?index=-1", 422, None),
        ("proof/consistency?from=1&to=100000", 409, "NOT_SIGNED"),
        ("proof/consistency?from=9&to=2", 404, "NOT_FOUND"),
        ("events?limit=501", 422, None),
    ],
)
def test_a_missing_entry_is_not_found(worked: Workshop, path: str, status: int, code: str | None):
    answer = worked.auditor.get(f"/ledger/{path}")
    assert answer.status_code == status, answer.content
    assert code in (None, answer.json()["code"])


def test_a_log_without_a_checkpoint_is_reported_as_not_signed(shop: Workshop):
    answer = shop.auditor.get("/ledger/checkpoint")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_SIGNED")


def test_only_auditors_and_compliance_can_read_the_log_and_export(worked: Workshop):
    paths = ("/ledger/checkpoint", "/ledger/events", "/exports", f"/exports/{uuid4()}", "/ledger/tile/0/000.p/1")
    others = [worked.agent, worked.executor, worked.operator_key, worked.reviewer, worked.operator]
    for path in paths:
        assert [each.get(path).status_code for each in others] == [403] * 5, path
    assert [each.post("/exports", {}).status_code for each in others] == [403] * 5
    compliance = person_for(worked.tenant, "compliance")
    assert [compliance.get(path).status_code for path in paths] == [200, 200, 200, 404, 200]


def test_reading_the_log_is_recorded(worked: Workshop):
    for _ in range(3):
        worked.auditor.get("/ledger/checkpoint")
    with tenancy(worked.tenant):
        assert PageView.objects.filter(tenant_id=worked.tenant, kind="log").count() == 1


@pytest.mark.req("R-HO-12", "R-UI-14")
def test_a_bundle_of_real_work_is_verified_offline(worked: Workshop):
    """Everything that happened, from the contract to the verdict, holds together for somebody who has only the file."""
    asked = worked.auditor.post("/exports", {})
    assert asked.status_code == 202
    export = asked.json()["export_id"]
    assert (asked.json()["state"], asked.json()["total"]) == ("REQUESTED", 0)
    assert worked.auditor.get(f"/exports/{export}/bundle").json()["code"] == "NOT_FINISHED"
    seals.seal_up()
    exported.make(worked.tenant, UUID(export))
    told = worked.auditor.get(f"/exports/{export}").json()
    assert (told["state"], told["done"], told["total"]) == ("FINISHED", told["end"], told["end"])
    answer = worked.auditor.get(f"/exports/{export}/bundle")
    data = answer.getvalue()
    assert (answer["Content-Type"], len(data)) == ("application/zip", told["size"])
    report = exported.judged(data, exported.policy(worked.tenant))
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    assert report.facts["counts"]["starts"] == report.facts["counts"]["votes"] == 1
    assert re.fullmatch(
        r'attachment; filename="orchid-everything-asked-\d{8}-\d{4}\.zip"', answer["Content-Disposition"]
    )


@pytest.mark.req("R-HO-14")
def test_a_bundle_names_who_answers_for_each_step_what_was_signed_and_the_policies_in_force(worked: Workshop):
    export = worked.auditor.post("/exports", {}).json()["export_id"]
    seals.seal_up()
    exported.make(worked.tenant, UUID(export))
    bundle = zipfile.ZipFile(io.BytesIO(worked.auditor.get(f"/exports/{export}/bundle").getvalue()))
    manifest = json.loads(bundle.read("manifest.json"))
    lines = [json.loads(line) for line in bundle.read("events/000000.jsonl").splitlines()]
    events = [(json.loads(line["envelope"]), [each["text"] for each in line["open"]]) for line in lines]
    by_kind = {envelope["kind"]: (envelope, opened) for envelope, opened in events}

    boundary = (manifest["from"], manifest["to"], manifest["withheld"], manifest["request"]["filters"])
    assert boundary == (0, len(events), 0, {})
    assert manifest["request"]["by"].startswith("auditor/")
    accountable = {
        "contract_registered": "operator",
        "proposed": "agent",
        "approved": "person",
        "execution_started": "executor",
        "observed": "executor",
        "verified": "system",
    }
    assert {kind: by_kind[kind][0]["actor"]["kind"] for kind in accountable} == accountable

    vote, texts = by_kind["approved"]
    detail, statement = map(json.loads, texts)
    entry = json.loads(by_kind["held"][1][0])
    assert vote["actor"]["id"] == entry["approval"]["approver_id"] == statement["vote"]["voter"]
    assert (statement["vote"]["verdict"], detail["reason"]) == ("approve", "I have read it.")
    assert statement["covers"]["payload_hash"] == entry["requested_operation"]["validated_payload_hash"]

    context, names = entry["policy_context"], {"autonomy": "autonomy_boundary"}
    activated = [
        (envelope, json.loads(texts[0])) for envelope, texts in events if envelope["kind"] == "policy_activated"
    ]
    released = {
        policy["kind"]: (policy["version"], envelope["digests"][policy["kind"]]) for envelope, policy in activated
    }
    assert released.keys() == {"autonomy", "approval", "verification", "recovery"}
    for kind, known in released.items():
        name = names.get(kind, f"{kind}_policy")
        assert (context[f"{name}_version"], context[f"{name}_digest"]) == known
    assert (statement["covers"]["policy_version"], statement["covers"]["policy_digest"]) == released["approval"]


@pytest.mark.req("R-DC-15")
def test_the_class_of_a_discrepancy_in_an_exported_entry_is_null_or_one_of_the_twelve(stage: Any):
    stage.done()
    for read in ({"count": 0}, {"count": 2}, {"amount": 99}, {"hit": "EX-0"}):
        stage.case(**read)
    bundle = zipfile.ZipFile(io.BytesIO(exported.bundle(stage.tenant)))
    lines = [json.loads(line) for line in bundle.read("events/000000.jsonl").splitlines()]
    texts = [each["text"] for line in lines for each in line["open"] if each["text"].startswith('{"action_id"')]
    entries = [entry for entry in map(json.loads, texts) if "reconciliation" in entry]
    classes = {entry["reconciliation"]["discrepancy_class"] for entry in entries}
    assert classes == {None, "NO_OP_FAILURE", "DUPLICATE_SIDE_EFFECT", "VALUE_MISMATCH", "WRONG_TARGET_MODIFIED"}
    assert classes <= {None, *Discrepancy}


def test_the_actions_of_one_agent_can_be_exported_separately(worked: Workshop):
    action = worked.auditor.get("/actions").json()["items"][0]["action_id"]
    export = worked.auditor.post("/exports", {"filters": {"action": action}}).json()["export_id"]
    seals.seal_up()
    row = exported.make(worked.tenant, UUID(export))
    report = exported.judged(exported.fetch(worked.tenant, row.id), exported.policy(worked.tenant))
    assert (report.worst, row.state) == (Verdict.VERIFIED, "FINISHED")
    assert report.facts["counts"]["withheld"] == row.withheld > 5
    assert report.facts["counts"]["starts"] == report.facts["counts"]["votes"] == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"from": 5, "to": 5}, 422),
        ({"from": -1}, 422),
        ({"from": 1.5}, 422),
        ({"from": "yesterday"}, 422),
        ({"format": "xml"}, 422),
        ({"filters": {"colour": "red"}}, 422),
        ({"filters": {"tool": 5}}, 422),
        ({"filters": ["tool"]}, 422),
        ({"more": 1}, 422),
        ({"log": 7}, 202),
        ({"from": "2026-01-01T00:00:00Z", "to": None}, 202),
    ],
)
def test_a_meaningless_request_is_refused(shop: Workshop, body: Any, status: int):
    answer = shop.auditor.post("/exports", body)
    assert answer.status_code == status, answer.content


def test_a_repeated_export_request_creates_one_export(shop: Workshop):
    first, second = (shop.auditor.post("/exports", {}, **{"Idempotency-Key": "one"}).json() for _ in range(2))
    assert first == second
    other = key_for(shop.tenant, "audit")
    assert len(other.get("/exports").json()["items"]) == 1
