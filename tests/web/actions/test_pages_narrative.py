"""The narrative of an action or a case: its story in sentences, each an event; on a page and on paper."""

from __future__ import annotations

import re

import pytest

from ledger.db import tenancy
from tests.support.browser_users import visitor, words


@pytest.mark.req("R-LE-10", "R-UI-13")
def test_the_narrative_tells_who_asked_who_approved_what_ran_and_what_was_found(stage):
    from ledger.actions.queries import actions

    case = stage.case()
    page = visitor(stage, "compliance").page(f"actions/{case.action_id}/narrative")
    said = words(page)
    approval = stage.approval(case.action_id)
    with tenancy(stage.tenant):
        order = actions.action(stage.tenant, case.action_id).target
    for part in (
        f"support requested: refund {order}, with issue_refund",
        f"The SHA-256 of the payload is {approval.payload_hash}.",
        f"Reviewer approved the payload with SHA-256 {approval.payload_hash}, by session and password",
        "The reason given: “The photo shows the damage.”",
        f"runner started attempt 1 on the stored payload with SHA-256 {approval.payload_hash}.",
        "the tool answered “success”. That is evidence, and not the outcome.",
        "Read back from shop:",
        "Compared with what was intended:",
        "It was classified as no-op failure.",
        "A case was opened:",
        "events not sealed yet",
    ):
        assert part in said, part


def test_every_sentence_is_an_event_with_its_hash_and_its_page(stage):
    from ledger.record.queries import events as events_queries

    action_id = stage.done()
    reader = visitor(stage, "reviewer")
    page = reader.page(f"actions/{action_id}/narrative")
    events = set(re.findall(r'href="/t/orchid/(events/[0-9a-f-]+/\d+)"', page))
    with tenancy(stage.tenant):
        subjects = [action_id, stage.approval(action_id).id]
        rows = [row for each in subjects for row, _, _ in events_queries.history(stage.tenant, each)]
    assert {f"events/{row.subject_id}/{row.seq}" for row in rows} < events
    for row in rows:
        assert bytes(row.entry_hash).hex() in page
    for path in events:
        assert reader.get(path).status_code == 200


def test_a_case_leads_to_the_narrative_of_its_action(stage):
    case = stage.case()
    answer = visitor(stage, "operator").get(f"cases/{case.id}/narrative")
    assert answer["Location"] == f"/t/orchid/actions/{case.action_id}/narrative"
    answer = visitor(stage, "operator").get(f"cases/{case.id}/narrative.pdf")
    assert answer["Location"] == f"/t/orchid/actions/{case.action_id}/narrative.pdf"


def test_a_story_whose_bytes_were_changed_says_so_in_its_place(stage, monkeypatch):
    from ledger.record.queries import events as events_queries

    action_id, real = stage.done(), events_queries.history

    def damaged(tenant_id, subject_id):
        rows = real(tenant_id, subject_id)
        if subject_id == action_id:
            event = rows[2][0]
            event.envelope = bytes(event.envelope).replace(b'"seq":3', b'"seq":4')
        return rows

    monkeypatch.setattr(events_queries, "history", damaged)
    said = words(visitor(stage, "compliance").page(f"actions/{action_id}/narrative"))
    assert "1 event below does not fit its hash. Do not rely on this narrative." in said
    assert said.count("The stored envelope does not have the stored hash.") == 1


def test_an_erased_entry_is_marked_and_its_hash_still_fits(stage, monkeypatch):
    from ledger.record.queries import events as events_queries

    action_id, real = stage.done(), events_queries.history
    monkeypatch.setattr(events_queries, "history", lambda *asked: [(event, None, None) for event, _, _ in real(*asked)])
    page = visitor(stage, "compliance").page(f"actions/{action_id}/narrative")
    said = words(page)
    assert "Proposed. Its content was erased; its envelope, hash and log position remain." in said
    assert "None" not in said
    assert "does not fit" not in said
    assert visitor(stage, "compliance").get(f"actions/{action_id}/narrative.pdf").status_code == 200


# On paper


def printed(stage, action_id):
    answer = visitor(stage, "compliance").get(f"actions/{action_id}/narrative.pdf")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/pdf")
    assert "attachment" in answer["Content-Disposition"]
    return answer.content


@pytest.mark.req("R-HO-12")
def test_the_same_story_is_the_same_bytes_on_paper(stage):
    action_id = stage.done()
    first = printed(stage, action_id)
    assert first.startswith(b"%PDF-")
    assert printed(stage, action_id) == first


def test_a_story_cannot_inject_markup_into_the_pdf():
    from datetime import UTC, datetime
    from uuid import UUID

    from console.narratives.narrative import Narrative, NarrativeLine
    from console.narratives.pdf import narrative_pdf

    nasty = '#panic("read as code") *bold* $x$ #include "/etc/passwd" @label <tag> \\ ] [ \u202e \U0001f600'
    line = NarrativeLine(
        at=datetime(2026, 11, 1, tzinfo=UTC),
        text=nasty,
        who=nasty,
        subject=nasty,
        subject_id=UUID(int=1),
        seq=1,
        state=nasty,
        hash="0" * 64,
        href="",
        place=None,
        evidence=[{"word": nasty, "digest": nasty, "href": ""}],
        broken=nasty,
    )
    told = Narrative(
        title=nasty, lines=[line], facts=[(nasty, nasty)], origin=nasty, people=[(nasty, nasty)], sealed=0, unsealed=1,
        broken=1,
    )  # fmt: skip
    assert narrative_pdf(told).startswith(b"%PDF-")
