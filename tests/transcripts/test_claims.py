"""What the agent says, held against what is recorded before it."""

from __future__ import annotations

import pytest

from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.audit import sentence_around
from counterfoil_transcripts.reading.notes import HookNote, SystemReading
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
def test_each_claim_is_compared_with_what_happened_before_it(before, message, code):
    assert codes(before, message) == [code]


def test_an_action_after_a_message_does_not_support_it():
    assert codes(DONE, CANCELLED) == ["PHANTOM"]


def test_a_message_beside_a_call_is_judged_with_that_call_in_progress():
    beside = [{**CANCELLED[0], "content": f"I have cancelled your reservation {ID}."}, CANCELLED[1]]
    going = [{**CANCELLED[0], "content": f"I am cancelling your reservation {ID} now."}, CANCELLED[1]]

    assert codes(beside) == ["PREMATURE"]
    assert set(codes(going)) <= {""}


def test_a_claim_about_another_value_than_shown_is_a_wrong_target():
    paid = asks("issue_refund", {"refund_id": "re_1", "amount": 50}, reservation_id=ID, amount=100)

    assert codes(paid, agent("Your refund of $100 has been issued.")) == ["WRONG_TARGET"]
    assert codes(paid, agent("Your refund of $50 has been issued.")) == [""]


def test_a_report_states_the_support_of_a_claim_and_strict_trust_requires_a_read():
    change = asks("update_reservation", "ok", reservation_id=ID, cabin="business")
    read = asks("get_reservation", {"reservation_id": ID, "cabin": "business"}, reservation_id=ID)
    told = agent(f"I have updated your reservation {ID}.")

    assert [(one.code, one.basis) for one in run(change, told).claims] == [("", "answer")]
    assert [(one.code, one.basis) for one in run(change, read, told).claims] == [("", "read")]
    assert codes(change, told, trust=TrustRequirement.READS) == ["PREMATURE"]
    assert codes(change, read, told, trust=TrustRequirement.READS) == [""]


def test_a_step_after_a_reported_failure_is_not_silent():
    refund = asks("issue_refund", {"refund_id": "re_1"}, reservation_id=ID, amount=5)
    told = agent(f"I could not cancel your reservation {ID}.")

    assert run(FAILED, refund).acts[1].silent_over
    assert not run(FAILED, told, refund).acts[1].silent_over


def test_a_blocked_message_gets_a_corrected_version():
    found = run(user("Cancel it."), FAILED, agent(f"Good news. I have cancelled your reservation {ID}."))

    assert list(found.corrected) == [3]
    assert "Good news." in found.corrected[3]
    assert f"cancelled your reservation {ID}." not in found.corrected[3]


def test_a_claim_without_a_matching_tool_is_a_phantom_where_nothing_was_changed():
    assert codes(agent("I have booked a table at the restaurant for you.")) == ["PHANTOM"]
    assert codes(agent("A table is booked for you.")) == []


def test_without_a_tool_list_a_claim_without_a_call_is_not_a_phantom():
    said = agent(f"I have cancelled your reservation {ID}.")
    read = asks("get_reservation", {"reservation_id": ID}, reservation_id=ID)

    assert codes(read, said) == ["PHANTOM"]
    assert codes(read, said, tools=()) == []


def test_the_whole_sentence_of_a_claim_is_quoted():
    text = "Hello. I have cancelled it, as you asked!\nMore words."

    assert sentence_around(text, (15, 24)) == "I have cancelled it, as you asked!"
    assert len(sentence_around("a" * 5_000, (2_000, 2_010))) == 300


def test_a_claim_contradicted_by_a_hook_reading_shows_that_reading():
    reading = SystemReading(as_asked=False, text=f"reservation {ID} is open")
    notes = {"c": HookNote("cancel_reservation", {"reservation_id": ID}, reading)}
    claim = run(user("Cancel it."), CANCELLED, DONE, notes=notes).claims[0]

    assert claim.code == "UNKNOWN_FLATTENED"
    assert claim.detail == (
        "Outcome not stated: cancel reservation ABC123."
        " The system was read after it: reservation ABC123 is open. Confirmation: C-778."
    )


def test_a_claimed_deletion_is_contradicted_by_a_later_read_of_the_object():
    read = asks("read_file", {"path": "/a.txt", "text": "x"}, path="/a.txt")
    claim = run(user("Delete it."), asks("delete_file", "ok", path="/a.txt"), read, agent("I deleted /a.txt.")).claims[
        0
    ]

    assert claim.code == "UNKNOWN_FLATTENED"
    assert claim.detail.endswith("A later read shows that it is still there.")


def test_the_detail_of_a_claim_comes_from_its_own_call():
    phantom = asks("cancel_reservaton", "Error: unknown tool", reservation_id=ID)
    first = run(user("Cancel it."), FAILED, phantom, DONE).claims[0]

    assert (first.code, first.acts) == ("MISREAD", (1,))
    assert first.detail.startswith("Failed: cancel reservation ABC123. The tool answered that it failed. Reason: ")
