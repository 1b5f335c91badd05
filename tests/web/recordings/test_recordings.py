"""Recorded conversations in the console: the import, what it leaves alone, and the pages on which they are browsed."""

from __future__ import annotations

import gzip
import json
import re
from html import unescape

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from approvals.models import Call, Session
from console.models import PageView, RecordedConversation, RecordedMessage, RecordedWord, Recording
from console.recordings import operations as recordings_operations
from console.recordings import queries as recordings_queries
from console.recordings.queries import RecordingQuery
from console.recordings.rules import MOST_VALUE
from counterfoil_transcripts.commands import recording_rows
from ledger.db import tenancy
from ledger.models import Action, Event
from ledger.record.queries import events
from reviews.models import GuardVerdict
from tests.support.browser_users import visitor, words
from tests.support.erasing import erase_here
from tests.support.scenes import PASSWORD
from tests.transcripts.imports import BAD, GOOD, imported, recording
from tests.transcripts.recordings import TOOLS, agent, asks, user


@pytest.fixture
def reader(stage):
    return visitor(stage, "reviewer")


def rows(stage, model=Recording):
    with tenancy(stage.tenant):
        return list(model.objects.filter(tenant_id=stage.tenant))


def address(out):
    """Where the command says that the recording is, below the tenant's pages."""
    return re.search(r"/t/orchid/(recordings/[0-9a-f-]{36})", out).group(1)


# The import


def test_a_recording_is_imported_with_every_finding_of_the_audit(stage, reader, tmp_path):
    code, out, err = imported(recording(tmp_path, GOOD, BAD))

    assert (code, err) == (0, "")
    assert "2 conversations, 12 messages:" in out
    [row] = rows(stage)
    assert (row.file_name, row.conversations, row.messages, row.calls) == ("recording.jsonl", 2, 12, 4)
    assert (row.with_findings, row.faults) == (1, 0)
    assert row.false_claims == sum(each.false_claims for each in rows(stage, RecordedConversation)) > 0
    page = words(reader.page(f"{address(out)}/2"))
    assert "I have cancelled your reservation ABC123." in page
    assert "MISREAD" in page
    assert "Did you mean `cancel_reservation`?" in page
    assert "amount 100 50 the answer" in page


def test_an_import_is_one_event_with_its_person_bytes_and_result(stage, tmp_path):
    member = stage.person("operator", name="ines@orchid")
    file = recording(tmp_path, GOOD, BAD)
    before = len(rows(stage, Event))
    assert imported(file, "--as", "ines@orchid")[0] == 0

    [row] = rows(stage)
    with tenancy(stage.tenant):
        [event] = Event.objects.filter(tenant_id=stage.tenant, subject_kind="recording")
        _, _, detail = events.event_with_detail(stage.tenant, row.id, 1)
    assert len(rows(stage, Event)) == before + 1
    assert (event.subject_id, event.kind, event.state, event.actor_kind) == (
        row.id,
        "recording_imported",
        "IMPORTED",
        "system",
    )
    told = json.loads(detail) if isinstance(detail, str | bytes) else detail
    assert told["digest"] == row.digest
    assert told["named"] == str(member.actor_id)
    assert (told["file_name"], told["conversations"], told["false_claims"]) == ("recording.jsonl", 2, row.false_claims)
    assert told["audit"] == {"version": 1, "trust": "answers", "contracts": ""}


def test_a_recording_creates_no_action_session_or_figure(stage, tmp_path):
    kept_apart = (Action, Session, Call, GuardVerdict)
    before = [len(rows(stage, model)) for model in kept_apart]
    imported(recording(tmp_path, BAD, BAD))
    assert [len(rows(stage, model)) for model in kept_apart] == before


def test_a_recording_with_the_same_bytes_is_imported_once(stage, tmp_path):
    file = recording(tmp_path, BAD)
    first = address(imported(file)[1])
    before = len(rows(stage, Event))
    code, out, err = imported(file.rename(tmp_path / "another-name.jsonl"))

    assert (code, err) == (0, "")
    assert "was already imported on" in out
    assert address(out) == first
    assert len(rows(stage, Event)) == before
    assert len(rows(stage)) == 1


def test_two_tenants_may_import_the_same_file(stage, other_tenant, tmp_path):
    file = recording(tmp_path, BAD)
    assert imported(file)[0] == imported(file, tenant="willow")[0] == 0
    with tenancy(other_tenant):
        assert recordings_queries.recordings(other_tenant, limit=5)[0].conversations == 1
        assert [each.tenant_id for each in Recording.objects.all()] == [other_tenant]


def test_the_database_refuses_the_later_of_two_concurrent_imports(stage, tmp_path, monkeypatch):
    file = recording(tmp_path, BAD)
    imported(file)
    monkeypatch.setattr(recordings_queries, "recording_with_digest", lambda *_: None)
    code, _, err = imported(file)
    assert code == 1
    assert "A file of exactly these bytes was imported already." in err
    assert len(rows(stage)) == 1


def test_a_broken_file_keeps_its_readable_part_and_names_the_fault(stage, reader, tmp_path):
    file = recording(tmp_path, GOOD, BAD)
    file.write_text(file.read_text() + '{"messages": [{"role": "user", "content": "cut')
    code, out, err = imported(file)

    assert code == 1
    assert "line 3" in err
    [row] = rows(stage)
    assert (row.conversations, row.faults) == (2, 1)
    page = words(reader.page(address(out)))
    assert "line 3" in page
    assert "This is no JSON" in page


def test_a_truncated_compressed_file_is_read_up_to_its_end(stage, tmp_path):
    whole = gzip.compress("".join(json.dumps({"messages": GOOD}) + "\n" for _ in range(3000)).encode(), 0)
    file = tmp_path / "half.jsonl.gz"
    file.write_bytes(whole[: len(whole) // 2])
    code, _, err = imported(file)
    assert code == 1
    assert "ends or breaks in the middle" in err
    [row] = rows(stage)
    assert row.conversations > 100
    assert row.unread[-1]["reason"].startswith("The file ends or breaks in the middle")


@pytest.mark.parametrize("text", ["", "no recording", "[1, 2, 3]", '{"a": {"b": 1}}', "\x00\xff" * 50])
def test_a_file_that_is_not_a_recording_is_refused_and_leaves_nothing(stage, tmp_path, text):
    file = tmp_path / "rubbish.json"
    file.write_text(text)
    before = len(rows(stage, Event))
    code, out, err = imported(file)
    assert code == 2
    assert "was not imported. There is no conversation in this file that could be read." in err
    assert " was imported:" not in out
    assert (rows(stage), rows(stage, RecordedMessage), len(rows(stage, Event))) == ([], [], before)


def test_a_file_that_changes_during_the_import_is_not_imported(stage, tmp_path, monkeypatch):
    file = recording(tmp_path, BAD)
    digests = iter(["a" * 64, "b" * 64])
    monkeypatch.setattr("counterfoil_transcripts.commands.importing.sha256_of_file", lambda _: next(digests))
    code, _, err = imported(file)
    assert code == 1
    assert "The file changed while it was read; nothing of it was imported." in err
    assert rows(stage) == []


def test_a_failed_write_leaves_nothing_of_its_file_and_keeps_earlier_files(stage, tmp_path, monkeypatch):
    first, second = recording(tmp_path, GOOD), recording(tmp_path, BAD, name="second.jsonl")
    append, appended = recordings_operations.ledger.append, []

    def once(*args, **options):
        if appended:
            raise IntegrityError("the record is full")
        appended.append(append(*args, **options))

    monkeypatch.setattr(recordings_operations.ledger, "append", once)
    code, _, err = imported(first, second)
    assert code == 1
    assert "second.jsonl: nothing was imported. the record is full" in err
    assert [row.file_name for row in rows(stage)] == ["recording.jsonl"]
    assert {row.recording_id for row in rows(stage, RecordedMessage)} == {rows(stage)[0].id}


def test_missing_arguments_are_reported(stage, tmp_path):
    file = recording(tmp_path, BAD)
    assert imported(file, tenant="nowhere") == (2, "", "There is no tenant nowhere.")
    assert imported(file, "--as", "nobody")[2] == "There is no member nobody in the tenant orchid."
    assert imported(file, tenant="")[2] == "--import needs --tenant."
    assert rows(stage) == []


def test_the_size_of_a_recording_is_limited(stage, tmp_path, monkeypatch):
    monkeypatch.setattr(recordings_operations, "MOST_MESSAGES", 10)
    code, _, err = imported(recording(tmp_path, GOOD, BAD))
    assert code == 1
    assert "split the file" in err
    assert rows(stage) == []


def test_long_texts_are_truncated_with_the_number_of_omitted_characters(stage, reader, tmp_path):
    long = [
        user("x" * (recording_rows.MOST_TEXT + 5)),
        *asks("send_email", {"ok": True}, to="a@b.c", body="y" * 100_000),
    ]
    out = imported(recording(tmp_path, long))[1]
    message, call, _ = sorted(rows(stage, RecordedMessage), key=lambda row: row.number)
    assert (len(message.text), message.length) == (recording_rows.MOST_TEXT, recording_rows.MOST_TEXT + 5)
    assert len(call.calls[0]["arguments"]) == MOST_VALUE
    assert "5 more characters in the file" in words(reader.page(f"{address(out)}/1"))


def test_characters_that_no_database_stores_are_removed_without_moving_quotes(stage, reader, tmp_path):
    said = "Ok\x00 \ud800 then. I have cancelled your reservation ABC123."
    talk = [user("Cancel it."), *asks("cancel_reservation", "Error: no", reservation_id="ABC123"), agent(said)]
    out = imported(recording(tmp_path, talk))[1]
    page = reader.page(f"{address(out)}/1")
    assert re.findall(r"<del>(.*?)</del>", page) == ["I have cancelled your reservation ABC123."]


def test_rows_cannot_be_changed_deleted_or_read_without_a_tenant(stage, tmp_path):
    imported(recording(tmp_path, BAD))
    for model in (Recording, RecordedConversation, RecordedMessage, RecordedWord):
        with pytest.raises(Exception, match=r"append-only|permission denied"), tenancy(stage.tenant):
            model.objects.filter(tenant_id=stage.tenant).delete()
        with transaction.atomic():
            assert list(model.objects.all()) == []


# Erasing


@pytest.mark.req("R-LE-21")
def test_a_recording_is_erased_by_two_people_and_may_be_imported_again(stage, tmp_path, run):
    file = recording(tmp_path, BAD)
    path = address(imported(file)[1])
    first, second = visitor(stage, "compliance", name="a@orchid"), visitor(stage, "compliance", name="b@orchid")
    assert first.post(f"{path}/erase", legal_basis="", reason="").status_code == 422
    assert first.post(f"{path}/erase", legal_basis="GDPR Art. 17", reason="Asked for.").status_code == 302
    [(erasure,)] = _ask(stage, "SELECT id FROM ledger_erasure")
    assert second.post(f"audit/erasures/{erasure}/answer", to="confirm", password=PASSWORD).status_code == 302
    erase_here(run, stage.tenant, erasure)

    [row] = rows(stage)
    assert (row.file_name, row.digest, row.totals, row.unread) == ("", "", {}, [])
    assert {(each.text, each.corrected) for each in rows(stage, RecordedMessage)} == {("", "")}
    assert rows(stage, RecordedConversation)[0].label == ""
    assert {(each.word, tuple(each.conversations)) for each in rows(stage, RecordedWord)} == {("", ())}
    with tenancy(stage.tenant):
        assert recordings_queries.recordings(stage.tenant, RecordingQuery(words="refund"), limit=5) == []
    for page in (path, f"{path}/1"):
        answer = first.get(page)
        assert answer.status_code == 410
        assert "Erased recording" in answer.content.decode()
    assert "Erased" in words(first.page("recordings"))
    assert "ABC123" not in str(_ask(stage, "SELECT * FROM ledger_entry"))
    call_command("verify_ledger", verbosity=0)
    assert imported(file)[0] == 0
    assert len(rows(stage)) == 2


def test_only_compliance_can_request_an_erasure(stage, reader, tmp_path):
    path = address(imported(recording(tmp_path, BAD))[1])
    assert reader.post(f"{path}/erase", legal_basis="x", reason="y").status_code == 403
    assert "Request erasure" not in reader.page(path)


def _ask(stage, statement):
    with tenancy(stage.tenant), connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


# The pages


def test_every_page_states_that_it_was_recorded_elsewhere(stage, reader, tmp_path):
    path = address(imported(recording(tmp_path, GOOD, BAD))[1])
    for page in ("recordings", path, f"{path}/1", f"{path}/2"):
        assert "Recorded elsewhere. Nothing here was gated or verified by this console." in words(reader.page(page))


def test_every_role_can_browse_recordings_and_each_access_is_recorded(stage, tmp_path):
    path = address(imported(recording(tmp_path, BAD))[1])
    for role in ("reviewer", "operator", "compliance", "administrator"):
        person = visitor(stage, role)
        assert "recording.jsonl" in person.page("recordings")
        person.page(f"{path}/1")
    with tenancy(stage.tenant):
        seen = PageView.objects.filter(tenant_id=stage.tenant, kind="recording").values_list("actor_id", flat=True)
        assert len(set(seen)) == 4
    assert "Recording" in words(visitor(stage, "compliance").page("audit/sightings"))


def test_an_empty_list_explains_how_to_import_a_recording(stage, reader):
    assert "counterfoil-transcripts audit FILE --import --tenant orchid" in words(reader.page("recordings"))
    assert reader.get("recordings/00000000-0000-7000-8000-000000000001").status_code == 404


def test_conversations_are_filtered_by_kind_code_finding_and_words(stage, reader, tmp_path):
    talk = [user("My parrot died."), agent("I am sorry.")]
    path = address(imported(recording(tmp_path, GOOD, BAD, talk))[1])

    def listed(**query):
        return re.findall(r"/recordings/[0-9a-f-]+/(\d+)\"", reader.page(path, **query))

    assert listed() == ["2", "1", "3"], "the gravest first"
    assert listed(order="file") == ["1", "2", "3"]
    assert listed(findings="yes") == ["2"]
    assert listed(kind="phantom") == listed(code="MISREAD") == listed(kind="value_mismatch") == ["2"]
    assert listed(words="PARROT") == ["3"]
    assert listed(words="talk-1") == ["1"]
    assert listed(words="talk-1 anything") == ["1"]
    assert listed(words="parrot anything") == listed(words="arrot") == listed(words="% _") == []
    assert listed(words="cancel_reservaton") == listed(findings="failures") == listed(findings="blocked") == ["2"]
    assert listed(code="NO_SUCH_CODE") == []


def test_recordings_are_found_by_name_day_findings_and_words(stage, reader, tmp_path):
    imported(recording(tmp_path, GOOD, name="good.jsonl"))
    imported(recording(tmp_path, BAD, GOOD, name="bad.jsonl"))

    def listed(**query):
        return re.findall(r"(\w+\.jsonl)</a>", reader.page("recordings", **query))

    assert listed() == ["bad.jsonl", "good.jsonl"]
    assert listed(words="anything else") == ["bad.jsonl", "good.jsonl"]
    assert listed(words="REFUND") == listed(which="blocked") == listed(which="failures") == ["bad.jsonl"]
    assert listed(words="refund nobody") == listed(until="2020-01-01") == listed(file="%") == []
    assert listed(file="GOOD", since="2020-01-01") == ["good.jsonl"]
    assert "No recording matches" in reader.page("recordings", file="none")


def test_the_filters_of_a_list_of_recordings_are_kept_on_further_pages(stage, reader, tmp_path, monkeypatch):
    monkeypatch.setattr("console.recordings.views.PAGE", 1)
    for name in ("first.jsonl", "second.jsonl", "other.txt"):
        imported(recording(tmp_path, [user(name)], name=name))
    page = reader.page("recordings", file="jsonl", words="jsonl")
    further = unescape(re.search(r'href="/t/orchid/([^"]+)" rel="next"', page).group(1))
    page = reader.page(further)
    assert "first.jsonl" in page
    assert 'rel="next"' not in page
    assert 'href="/t/orchid/recordings?file=jsonl&amp;words=jsonl"' in page


def test_a_row_quotes_the_message_and_a_search_result_links_to_it(stage, reader, tmp_path):
    long = f"{'Well. ' * 100}My parrot_1 died. {'So it is. ' * 100}"
    path = address(imported(recording(tmp_path, [user("Hello there."), agent("Yes?"), user(long)]))[1])
    assert "Hello there." in words(reader.page(path))
    page = reader.page(path, words="parrot_1 hello")
    assert f'href="/t/orchid/{path}/1?from=0#message-0"' in page
    page = reader.page(path, words="parrot")
    assert f'href="/t/orchid/{path}/1?from=2#message-2"' in page
    assert re.search(r"message 2 : …Well. [^…]*My parrot_1 died. [^…]*…", words(page))
    assert "message 0" not in words(reader.page(path, words="talk-1"))


def test_a_conversation_links_to_its_neighbours(stage, reader, tmp_path):
    path = address(imported(recording(tmp_path, GOOD, BAD, GOOD))[1])

    def beside(number):
        return re.findall(rf'href="/t/orchid/{path}/(\d)"', reader.page(f"{path}/{number}"))

    assert (beside(1), beside(2), beside(3)) == (["2"], ["1", "3"], ["2"])


def test_long_answers_and_arguments_are_folded(stage, reader, tmp_path):
    talk = [user("Send it."), *asks("send_email", {"ok": "z" * 1500}, to="a@b.c", body="y" * 5000), agent("Well.")]
    page = words(reader.page(f"{address(imported(recording(tmp_path, talk, GOOD))[1])}/1"))
    assert "Answer to call 1, 1510 characters" in page
    assert "Arguments, the first 4000 characters" in page
    assert "z" * 1500 in page


def test_each_figure_links_to_the_list_of_what_it_counts(stage, reader, tmp_path):
    path = address(imported(recording(tmp_path, GOOD, BAD))[1])
    page = unescape(reader.page(path))
    doors = re.findall(rf'href="/t/orchid/({path}\?(?:kind|code|findings)=[^"]+)"', page)
    assert len(doors) >= 6
    for door in doors:
        assert reader.get(door).status_code == 200
    assert reader.get(f"{path}?after=no.place&kind=unknown&words={'x' * 300}").status_code == 200
    for number in ("0", "3", "99999999999999999999"):
        assert reader.get(f"{path}/{number}").status_code == 404


def test_lists_continue_where_the_previous_page_ended(stage, reader, tmp_path, monkeypatch):
    monkeypatch.setattr("console.recordings.views.PAGE", 2)
    talks = [[user(f"number {number}"), agent("Yes." if number % 4 else "A parrot.")] for number in range(9)]
    path = address(imported(recording(tmp_path, *talks, BAD))[1])

    def all_of(query):
        seen, page = [], reader.page(f"{path}?{query}")
        while True:
            seen += re.findall(r"/recordings/[0-9a-f-]+/(\d+)\"", page)
            further = re.search(r'href="/t/orchid/([^"]+)" rel="next"', page)
            if further is None:
                return seen
            page = reader.page(unescape(further.group(1)))

    assert all_of("") == ["10", *map(str, range(1, 10))]
    assert all_of("order=file") == [*map(str, range(1, 11))]
    assert all_of("words=parrot") == ["1", "5", "9"]
    assert all_of("words=parrot&order=file") == ["1", "5", "9"]


def test_long_conversations_are_paged(stage, reader, tmp_path, monkeypatch):
    monkeypatch.setattr("console.recordings.views.MESSAGES", 4)
    path = address(imported(recording(tmp_path, [user(f"line {number}.") for number in range(10)]))[1])
    first, middle = reader.page(f"{path}/1"), reader.page(f"{path}/1?from=4")
    assert ("line 3." in first, "line 4." in first) == (True, False)
    assert re.search(r'href="[^"]*from=4#message-4" rel="next"', first)
    assert re.search(r'href="[^"]*from=0#message-0" rel="prev"', middle)
    assert re.search(r'href="[^"]*from=8#message-8" rel="next"', middle)
    assert "No further messages." in reader.page(f"{path}/1?from=11")


def test_hostile_text_is_shown_and_does_nothing(stage, reader, tmp_path):
    evil = '<script>alert(1)</script>\u202ebackwards\u2066 {{ 7|add:7 }} javascript:alert(1) "><img src=x onerror=x>'
    talk = [
        user(evil),
        *asks("cancel_reservation", {evil: evil}, reservation_id=evil),
        agent(f"{evil} I have cancelled your reservation."),
    ]
    file = tmp_path / "<b>bold\u202e.jsonl"
    file.write_text(json.dumps({"id": evil, "messages": talk, "tools": TOOLS}) + "\n")
    path = address(imported(file)[1])
    for page in ("recordings", path, f"{path}/1"):
        text = reader.page(page)
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "<b>bold" not in text
        assert "\u202e" not in text
        assert "\u2066" not in text
    assert "U+202E" in words(reader.page(f"{path}/1"))


def test_false_claims_are_struck_out_beside_a_corrected_version(stage, reader, tmp_path):
    path = address(imported(recording(tmp_path, BAD))[1])
    page = reader.page(f"{path}/1")
    assert re.findall(r"<del>(.*?)</del>", page) == ["I have cancelled your reservation ABC123."]
    [instead] = re.findall(r"<ins>(.*?)</ins>", page, re.DOTALL)
    assert "I have cancelled" not in instead
    assert "Is there anything else?" in instead
    findings = re.findall(r'href="(/t/orchid/recordings/[^"]+from=\d+#message-\d+)"', page)
    assert findings
    assert all(f'id="{each.split("#")[1]}"' in page for each in findings)


def test_a_fragment_is_the_page_without_its_frame(stage, reader, tmp_path):
    path = address(imported(recording(tmp_path, BAD))[1])
    for page in ("recordings", path, f"{path}/1"):
        fragment = reader.fragment(page).content.decode()
        assert "<html" not in fragment
        assert "Recorded elsewhere" in fragment
