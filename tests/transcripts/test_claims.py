"""What the agent says, held against what is recorded before it."""

from __future__ import annotations

import pytest

from console.transcripts.acts import TrustRequirement
from console.transcripts.audit import sentence_around
from console.transcripts.notes import HookNote, SystemReading
from tests.transcripts.recordings import agent, asks, run, user

ID = "ABC123"
CANCELLED = asks("cancel_reservation", {"confirmation": "C-778"}, reservation_id=ID)
FAILED = asks("cancel_reservation", "Error: the flight has left", reservation_id=ID)
SENT = asks("send_email", {"id": "m-1"}, to="ada@example.org", body="Hello")
DONE = agent(f"I have cancelled your reservation {ID}.")


def codes(*messages, **more):
    return [claim.code for claim in run(user("Cancel it."), *messages, **more).claims]


@pytest.mark.req("R-CG-03", "R-CG-04", "R-CG-06", "R-CG-11")
@pytest.mark.parametrize(
    ("before", "message", "code"),
    [
        ([], DONE, "PHANTOM"),
        (FAILED, DONE, "MISREAD"),
        (asks("cancel_reservation", reservation_id=ID), DONE, "PREMATURE"),
        (asks("cancel_reservation", {"status": "queued"}, reservation_id=ID), DONE, "PREMATURE"),
        (asks("cancel_reservation", "Error: timed out", reservation_id=ID), DONE, "UNKNOWN_FLATTENED"),
        (SENT, agent("I have sent the e-mail to mia@example.org."), "WRONG_TARGET"),
        (CANCELLED, DONE, ""),
        (FAILED, agent(f"I could not cancel your reservation {ID}."), ""),
    ],
)
def test_each_claim_is_held_against_what_had_happened(before, message, code):
    assert codes(before, message) == [code]


def test_an_act_after_a_message_does_not_bear_it_out():
    assert codes(DONE, CANCELLED) == ["PHANTOM"]


def test_words_beside_a_call_are_judged_with_that_call_under_way():
    beside = [{**CANCELLED[0], "content": f"I have cancelled your reservation {ID}."}, CANCELLED[1]]
    going = [{**CANCELLED[0], "content": f"I am cancelling your reservation {ID} now."}, CANCELLED[1]]

    assert codes(beside) == ["PREMATURE"]
    assert set(codes(going)) <= {""}


def test_a_claim_about_another_value_than_the_answer_shows_does_not_stand():
    paid = asks("issue_refund", {"refund_id": "re_1", "amount": 50}, reservation_id=ID, amount=100)

    assert codes(paid, agent("Your refund of $100 has been issued.")) == ["WRONG_TARGET"]
    assert codes(paid, agent("Your refund of $50 has been issued.")) == [""]


def test_the_report_says_what_stands_behind_a_claim_and_strict_trust_asks_for_a_read():
    change = asks("update_reservation", "ok", reservation_id=ID, cabin="business")
    read = asks("get_reservation", {"reservation_id": ID, "cabin": "business"}, reservation_id=ID)
    told = agent(f"I have updated your reservation {ID}.")

    assert [(one.code, one.basis) for one in run(change, told).claims] == [("", "answer")]
    assert [(one.code, one.basis) for one in run(change, read, told).claims] == [("", "read")]
    assert codes(change, told, trust=TrustRequirement.READS) == ["PREMATURE"]
    assert codes(change, read, told, trust=TrustRequirement.READS) == [""]


def test_a_failure_that_was_reported_lets_the_next_step_be_no_silent_one():
    refund = asks("issue_refund", {"refund_id": "re_1"}, reservation_id=ID, amount=5)
    told = agent(f"I could not cancel your reservation {ID}.")

    assert run(FAILED, refund).acts[1].silent_over
    assert not run(FAILED, told, refund).acts[1].silent_over


def test_a_blocked_message_comes_with_what_might_have_been_said():
    found = run(user("Cancel it."), FAILED, agent(f"Good news. I have cancelled your reservation {ID}."))

    assert list(found.corrected) == [3]
    assert "Good news." in found.corrected[3]
    assert f"cancelled your reservation {ID}." not in found.corrected[3]


def test_a_claim_that_no_tool_has_words_for_is_a_phantom_where_nothing_was_changed():
    assert codes(agent("I have booked a table at the restaurant for you.")) == ["PHANTOM"]
    assert codes(agent("A table is booked for you.")) == []


def test_without_a_tool_list_what_no_call_did_may_have_been_done_all_the_same():
    said = agent(f"I have cancelled your reservation {ID}.")
    read = asks("get_reservation", {"reservation_id": ID}, reservation_id=ID)

    assert codes(read, said) == ["PHANTOM"]
    assert codes(read, said, tools=()) == []


def test_the_sentence_around_a_claim_is_quoted_whole():
    text = "Hello. I have cancelled it, as you asked!\nMore words."

    assert sentence_around(text, (15, 24)) == "I have cancelled it, as you asked!"
    assert len(sentence_around("a" * 5_000, (2_000, 2_010))) == 300


def test_a_claim_that_a_hook_reading_contradicts_says_what_the_system_showed():
    reading = SystemReading(as_asked=False, text=f"reservation {ID} is open")
    notes = {"c": HookNote("cancel_reservation", {"reservation_id": ID}, reading)}
    claim = run(user("Cancel it."), CANCELLED, DONE, notes=notes).claims[0]

    assert claim.code == "UNKNOWN_FLATTENED"
    assert claim.detail == (
        "Outcome not stated: cancel reservation ABC123."
        " The system was read after it: reservation ABC123 is open. Confirmation: C-778."
    )


def test_a_claim_of_a_deletion_says_that_a_later_read_shows_the_thing():
    read = asks("read_file", {"path": "/a.txt", "text": "x"}, path="/a.txt")
    claim = run(user("Delete it."), asks("delete_file", "ok", path="/a.txt"), read, agent("I deleted /a.txt.")).claims[
        0
    ]

    assert claim.code == "UNKNOWN_FLATTENED"
    assert claim.detail.endswith("A later read shows that it is still there.")


def test_a_detail_is_that_of_the_claims_own_call():
    phantom = asks("cancel_reservaton", "Error: unknown tool", reservation_id=ID)
    first = run(user("Cancel it."), FAILED, phantom, DONE).claims[0]

    assert (first.code, first.acts) == ("MISREAD", (1,))
    assert first.detail.startswith("Failed: cancel reservation ABC123. The tool answered that it failed. Reason: ")
