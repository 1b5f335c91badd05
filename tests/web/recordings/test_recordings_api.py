"""Recorded conversations in the API: the facts of the report by the report's names, for those who may read."""

from __future__ import annotations

import json
from importlib.resources import files
from uuid import UUID, uuid4

import jsonschema_rs
import pytest
from django.core.management import call_command
from django.utils import timezone

from console.models import PageView, RecordedMessage
from counterfoil_transcripts.commands.audit import Command
from ledger.db import tenancy
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import Actor
from ledger.retention.operations import erasure
from tests.support.api_tenant import Workshop
from tests.support.callers import person_for
from tests.support.erasing import erase_here
from tests.transcripts.imports import BAD, GOOD, imported, keep, recording
from tests.transcripts.recordings import agent, asks, user

SCHEMA = json.loads(files("counterfoil_transcripts.reports").joinpath("report.schema.json").read_text())


def schema_of(name):
    """A part of the report's schema, its values as text."""
    text = json.dumps(SCHEMA["$defs"][name] | {"$defs": SCHEMA["$defs"]})
    return jsonschema_rs.Draft202012Validator(json.loads(text))


@pytest.fixture
def reader(shop: Workshop):
    return shop.auditor


def brought(shop, tmp_path, *conversations, name="recording.jsonl"):
    """Where the API has a file with these conversations."""
    code, out, err = imported(recording(tmp_path, *conversations, name=name), tenant=shop.slug)
    assert code == 0, err
    return f"/recordings/{out.rsplit('/recordings/', 1)[1].strip()}"


def reported(tmp_path, *conversations):
    """What the report says of them."""
    out = tmp_path / "report.json"
    file = recording(tmp_path, *conversations)
    call_command(Command(), str(file), "--json", str(out), verbosity=0)
    return json.loads(out.read_text())


def test_the_api_uses_the_same_names_as_the_report(shop, reader, tmp_path):
    path, report = brought(shop, tmp_path, GOOD, BAD), reported(tmp_path, GOOD, BAD)

    told = reader.get(path).json()
    assert told["totals"] == report["totals"]
    assert (told["file"], told["trust"], told["version"]) == ("recording.jsonl", report["trust"], report["version"])
    for number, wanted in enumerate(report["conversations"], 1):
        found = reader.get(f"{path}/conversations/{number}").json()
        for name in ("id", "path", "format", "messages", "tools_known", "severity", "corrected"):
            assert found[name] == wanted[name], name
        assert found["claims"] == wanted["claims"]
        for call, other in zip(found["calls"], wanted["calls"], strict=True):
            sent = call.pop("arguments")
            assert json.loads(sent) or sent == "{}"
            assert call | {"differences": []} == other | {"differences": []}
            assert [str(one["asked"]) for one in other["differences"]] == [one["asked"] for one in call["differences"]]
            schema_of("call").validate(call)
        for claim in found["claims"]:
            schema_of("claim").validate(claim)


def test_a_conversation_has_calls_by_category_mismatches_and_claims_with_verdict_and_quote(shop, reader, tmp_path):
    found = reader.get(f"{brought(shop, tmp_path, BAD)}/conversations/1").json()
    assert found["categories"] == {"phantom": 1, "valid": 1, "valid_execution_failed": 1}
    [mismatch] = [one for call in found["calls"] for one in call["differences"]]
    assert mismatch == {"field": "amount", "asked": "100", "shown": "50", "where": "answer"}
    [claim] = [each for each in found["claims"] if each["verdict"] == "BLOCK"]
    assert (claim["code"], claim["quote"]) == ("MISREAD", "I have cancelled your reservation ABC123.")
    text = found["turns"][claim["turn"]]["text"]
    assert text[slice(*claim["span"])] == claim["quote"]
    assert "I have cancelled" not in found["corrected"][0]["text"]
    assert [each["answers"][0]["call"] for each in found["turns"] if each["answers"]] == [1, 2, 3]


def test_recordings_are_filtered_by_day_name_findings_and_words(shop, reader, tmp_path):
    good = brought(shop, tmp_path, GOOD, name="good.jsonl")
    bad = brought(shop, tmp_path, BAD, name="bad.jsonl")

    def found(query=""):
        return [f"/recordings/{each['recording_id']}" for each in reader.get(f"/recordings?{query}").json()["items"]]

    assert found() == [bad, good]
    assert found("file=GOOD") == found("failures=false") == found("blocked=false") == [good]
    assert found("failures=true") == found("blocked=true") == found("q=refund") == [bad]
    assert found("from=2020-01-01T00:00:00Z") == [bad, good]
    assert found("to=2020-01-01T00:00:00Z") == found("q=nobody") == found("file=nothing") == found("q=%25") == []


def test_conversations_are_filtered_by_finding_code_and_words(shop, reader, tmp_path):
    path = brought(shop, tmp_path, GOOD, BAD, [user("My parrot died."), agent("I am sorry.")])

    def found(query=""):
        return [each["number"] for each in reader.get(f"{path}/conversations?{query}").json()["items"]]

    assert found() == [2, 1, 3]
    assert found("order=file") == [1, 2, 3]
    assert found("kind=phantom") == found("code=MISREAD") == found("blocked=true") == found("failures=true") == [2]
    assert found("findings=false") == found("blocked=false&failures=false") == [1, 3]
    assert found("q=PARROT") == [3]
    assert found("q=parrot&kind=phantom") == []


@pytest.mark.parametrize("order", ["gravest", "file"])
def test_lists_continue_where_the_previous_page_ended(shop, reader, tmp_path, order):
    path = brought(shop, tmp_path, *[[user(f"number {number}")] for number in range(5)], BAD)
    seen, cursor = [], ""
    while cursor is not None:
        page = reader.get(f"{path}/conversations?limit=2&order={order}&cursor={cursor}").json()
        assert len(page["items"]) == 2
        seen += [each["number"] for each in page["items"]]
        cursor = page["next"]
    assert seen == ([6, 1, 2, 3, 4, 5] if order == "gravest" else [1, 2, 3, 4, 5, 6])

    page = reader.get("/recordings?limit=1").json()
    assert page["next"] is None
    brought(shop, tmp_path, GOOD)
    page = reader.get("/recordings?limit=1").json()
    assert reader.get(f"/recordings?limit=1&cursor={page['next']}").json()["items"][0]["recording_id"] in path


def test_a_long_conversation_is_paged(shop, reader, tmp_path):
    talk = [user("Go."), *asks("send_email", {"ok": True}, to="a@b.c"), *asks("send_email", {"ok": True}, to="d@e.f")]
    path = f"{brought(shop, tmp_path, talk)}/conversations/1"
    first = reader.get(f"{path}?limit=3").json()
    second = reader.get(f"{path}?limit=3&cursor={first['next']}").json()
    assert [each["turn"] for each in first["turns"] + second["turns"]] == [0, 1, 2, 3, 4]
    assert ([each["number"] for each in first["calls"]], [each["number"] for each in second["calls"]]) == ([1], [2])
    assert first["categories"] == second["categories"]
    assert sum(first["categories"].values()) == 2
    assert second["next"] is None


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("?cursor=nowhere", 422, "BAD_CURSOR"),
        ("?limit=0", 422, "INVALID"),
        ("/00000000-0000-7000-8000-000000000001", 404, "NOT_FOUND"),
        ("/{id}/conversations?cursor=1.x", 422, "BAD_CURSOR"),
        ("/{id}/conversations?kind=unheard", 422, "INVALID"),
        ("/{id}/conversations/0", 404, "NOT_FOUND"),
        ("/{id}/conversations/99999999999999", 404, "NOT_FOUND"),
        ("/{id}/conversations/1?cursor=9999999999", 422, "BAD_CURSOR"),
    ],
)
def test_an_unanswerable_request_is_refused_with_a_problem(shop, reader, path, status, code):
    answer = reader.get(f"/recordings{path.format(id=keep(shop.slug))}")
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert code == "INVALID" or answer.json()["code"] == code


def test_agents_and_executors_cannot_read_recordings_and_each_access_is_recorded(shop, tmp_path):
    path = brought(shop, tmp_path, BAD)
    for caller in (shop.agent, shop.executor):
        for below in ("/recordings", path, f"{path}/conversations", f"{path}/conversations/1"):
            assert caller.get(below).json()["code"] == "FORBIDDEN"
    people = [person_for(shop.tenant, role, name=f"{role}@x") for role in ("compliance", "administrator")]
    for caller in (shop.operator_key, shop.auditor, *people):
        assert caller.get(f"{path}/conversations/1").status_code == 200
    with tenancy(shop.tenant):
        looks = PageView.objects.filter(tenant_id=shop.tenant, kind="recording").values_list("actor_id", flat=True)
        assert len(set(looks)) == 4


def erased(shop, run, path):
    wish = erasure.ErasureRequest(
        subjects=(UUID(path.removeprefix("/recordings/")),), legal_basis="Art. 17", reason="Asked for."
    )
    first, second = (Actor("person", uuid4()) for _ in range(2))
    with tenancy(shop.tenant):
        row = erasure.request_erasure(tenant_id=shop.tenant, request=wish, by=first, at=timezone.now())
        erasure.answer_erasure(
            tenant_id=shop.tenant,
            erasure_id=row.id,
            answer=Answer.CONFIRM,
            by=second,
            is_proven=True,
            at=timezone.now(),
        )
    assert erase_here(run, shop.tenant, row.id) == 1


@pytest.mark.req("R-LE-21")
def test_an_erased_recording_keeps_its_numbers(shop, reader, run, tmp_path):
    path = brought(shop, tmp_path, BAD)
    erased(shop, run, path)
    for below in ("", "/conversations", "/conversations/1"):
        answer = reader.get(f"{path}{below}")
        assert (answer.status_code, answer.json()["code"]) == (410, "ERASED")
    [row] = reader.get("/recordings").json()["items"]
    assert (row["file"], row["digest"], row["erased"], row["totals"]) == ("", "", True, None)
    for query in ("q=refund", "q=cancelled", "file=recording", "q=talk"):
        assert reader.get(f"/recordings?{query}").json()["items"] == []


def test_fields_missing_from_an_older_import_are_empty(shop, reader, tmp_path, monkeypatch):
    made = RecordedMessage.objects.bulk_create

    def earlier(rows):
        late = ("suggestion", "errors", "target", "state", "typed", "depends_on", "because", "notes")
        for row in rows:
            row.calls = [{name: value for name, value in each.items() if name not in late} for each in row.calls]
            row.claims = [{name: value for name, value in each.items() if name != "sentence"} for each in row.claims]
        return made(rows)

    monkeypatch.setattr(RecordedMessage.objects, "bulk_create", earlier)
    found = reader.get(f"{brought(shop, tmp_path, BAD)}/conversations/1").json()
    assert [(each["target"], each["state"], each["gate"]["errors"]) for each in found["calls"]] == [("", None, [])] * 3
    assert all(each["sentence"] == each["quote"] for each in found["claims"])
