from __future__ import annotations

import pytest

from counterfoil_transcripts import contracts
from counterfoil_transcripts.acts import TrustRequirement, believed_state
from ledger.catalogue.rules import contract
from tests.transcripts.recordings import TOOLS, agent, asks, function, run, user

ID = "ABC123"


def only(found):
    assert len(found.acts) == 1
    return found.acts[0]


@pytest.mark.req("R-MC-01", "R-MC-14")
def test_a_tool_that_was_not_offered_is_a_phantom_with_the_nearest_name():
    act = only(run(asks("cancel_reservaton", "Error: unknown tool", reservation_id=ID)))

    assert (act.verdict.code, act.category) == ("PHANTOM_TOOL", "phantom")
    assert act.verdict.suggestion == "cancel_reservation"
    assert believed_state(act, TrustRequirement.ANSWERS) is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"reservation": ID}, "SCHEMA_DRIFT"),
        ({"reservation_id": 7}, "TYPE_COERCION"),
        ({"reservation_id": ID, "cabin": "first"}, "ARGUMENT_HALLUCINATION"),
        ({"args": {"reservation_id": ID}}, "TYPE_COERCION"),
    ],
)
def test_arguments_are_judged_as_in_a_live_session(arguments, code):
    act = only(run(asks("update_reservation", "Error: bad arguments", **arguments)))

    assert (act.verdict.code, act.category) == (code, "argument_hallucination")


def test_arguments_that_are_not_json_are_reported_as_such():
    call = asks("cancel_reservation")[0]
    call["tool_calls"][0]["function"]["arguments"] = '{"reservation_id": '

    assert only(run(call)).verdict.code == "UNPARSEABLE_ARGUMENTS"


def test_a_fraction_is_noted_and_is_not_a_mistake_of_the_agent():
    act = only(run(asks("issue_refund", {"refund_id": "re_1"}, reservation_id=ID, amount=12.5)))

    assert act.verdict.accepted
    assert act.notes == ["FRACTION"]
    assert act.verdict.target_resource == f"refund/{ID}"
    wrong = only(run(asks("issue_refund", "Error", reservation_id=7, amount=12.5)))
    assert wrong.verdict.code == "TYPE_COERCION"


def test_contracts_that_were_supplied_but_not_offered_are_undisclosed():
    catalogue = contracts.ContractCatalogue(closed=True)
    for tool in TOOLS:
        catalogue.add(tool, "here")
    found = run(asks("delete_file", "Error", path="a"), tools=TOOLS[:1], catalogue=catalogue)

    assert only(found).verdict.code == "UNDISCLOSED_TOOL"


def test_without_a_tool_list_no_tool_is_a_phantom_and_the_audit_is_open():
    found = run(asks("frobnicate", "fine", x=1), tools=())

    assert only(found).verdict.accepted
    assert found.is_open


STATUSES = [
    ({"status": "ok"}, "success", "RECONCILED_SUCCESS"),
    ({"refund_id": "re_1", "status": "pending"}, "pending", "PENDING"),
    ({"status": "queued"}, "accepted", "ACCEPTED"),
    ({"id": "x", "status": "failed"}, "failed", "FAILED"),
    ({"error": "no such reservation"}, "failed", "FAILED"),
    ({"error": {"message": "the request timed out"}}, "timeout", "UNKNOWN"),
    ({"success": False}, "failed", "FAILED"),
    ({"success": True}, "success", "RECONCILED_SUCCESS"),
    ({"status_code": 502, "body": ""}, "failed", "FAILED"),
    ({"status_code": 202}, "accepted", "ACCEPTED"),
    ({"succeeded": ["a"], "failed": ["b"]}, "partial", "PARTIALLY_COMMITTED"),
    ("Error: reservation not found", "failed", "FAILED"),
    ("ToolException: no", "failed", "FAILED"),
    ("Request timed out after 30 s", "timeout", "UNKNOWN"),
    ("Completed without problems", "success", "RECONCILED_SUCCESS"),
    # The status of a thing that was returned whole is the thing's.
    ({"reservation_id": ID, "status": "pending", "items": [{"id": 1}]}, "success", "RECONCILED_SUCCESS"),
]


@pytest.mark.req("R-OB-02")
@pytest.mark.parametrize(("answer", "status", "state"), STATUSES)
def test_an_answer_is_classified_by_named_marks(answer, status, state):
    act = only(run(asks("cancel_reservation", answer, reservation_id=ID)))

    assert act.told is not None
    assert str(act.told.status) == status
    assert str(believed_state(act, TrustRequirement.ANSWERS)) == state


def test_the_status_inside_a_record_is_not_the_status_of_the_read():
    act = only(run(asks("get_reservation", {"reservation_id": ID, "status": "failed"}, reservation_id=ID)))

    assert act.told is not None
    assert str(act.told.status) == "success"


def test_success_in_free_text_counts_as_untyped():
    act = only(run(asks("cancel_reservation", "The reservation was completed and cancelled.", reservation_id=ID)))

    assert act.told is not None
    assert not act.told.typed


def test_a_call_without_an_answer_is_in_progress():
    assert (
        str(believed_state(only(run(asks("cancel_reservation", reservation_id=ID))), TrustRequirement.ANSWERS))
        == "EXECUTING"
    )


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/srv/app/main.py", "file//srv/app/main.py"),
        ("../notes.txt", "file/../notes.txt"),
        (".", "file/."),
        ("a/b.txt", "file/a/b.txt"),
    ],
)
def test_a_drafted_contract_accepts_any_path(path, target):
    act = only(run(asks("delete_file", "ok", path=path)))

    assert act.verdict.accepted
    assert act.verdict.target_resource == target


def test_a_drafted_contract_accepts_long_texts_as_different_targets():
    found = run(*(asks("delete_file", "ok", path="long " * 200 + end) for end in ("a", "b")))

    assert all(act.verdict.accepted for act in found.acts)
    assert len({act.verdict.target_resource for act in found.acts}) == 2
    assert not only(run(asks("delete_file", "ok", path=" "))).verdict.accepted


def test_a_call_refused_by_the_gate_but_executed_by_the_tool_did_happen():
    act = only(run(asks("update_reservation", {"status": "ok"}, reservation_id=ID, cabin="first")))

    assert not act.verdict.accepted
    assert str(believed_state(act, TrustRequirement.ANSWERS)) == "RECONCILED_SUCCESS"


# What was asked, and what is shown


def differences(act):
    return [(one.name, one.asked, one.shown, one.source) for one in act.differences]


def test_an_answer_that_shows_another_value_contradicts_the_action():
    act = only(run(asks("issue_refund", {"refund_id": "re_1", "amount": 50}, reservation_id=ID, amount=100)))

    assert differences(act) == [("amount", 100, 50, "answer")]
    assert act.contradicted


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"amount": 100}, {"amount": "100.00"}),
        ({"amount": 100}, {"amount": 100.0}),
        ({"amount": 100}, {"refund": {"amount": 100}}),
        ({"amount": 100}, {"history": [{"amount": 3}, {"amount": 100}]}),
        ({"amount": 100}, {"history": [{"amount": 3}, {"amount": 4}]}),
        ({"amount": 100}, {"total": 3}),
        ({"amount": 100}, {}),
        ({"amount": 100}, ["re_1"]),
        ({"amount": 100}, "amount: 50"),
    ],
)
def test_other_spellings_and_missing_values_are_not_differences(asked, shown):
    assert differences(only(run(asks("issue_refund", shown, reservation_id=ID, **asked)))) == []


def test_a_later_read_of_the_same_object_confirms_or_contradicts_a_change():
    change = asks("update_reservation", "done", reservation_id=ID, cabin="business")
    for cabin, seen in (("Business", [3]), ("economy", [])):
        read = asks("get_reservation", {"reservation_id": ID, "cabin": cabin}, reservation_id=ID)
        act = run(change, read).acts[0]
        assert act.seen_by == seen
        assert act.contradicted is (not seen)
        assert act.basis == ("read" if seen else "answer")
        if not seen:
            assert differences(act) == [("cabin", "business", "economy", "read")]


def test_a_read_of_another_object_or_an_earlier_one_is_no_evidence():
    change = asks("update_reservation", "done", reservation_id=ID, cabin="business")
    other = asks("get_reservation", {"reservation_id": "XYZ999", "cabin": "economy"}, reservation_id="XYZ999")
    before = asks("get_reservation", {"reservation_id": ID, "cabin": "economy"}, reservation_id=ID)

    for messages, place in (((change, other), 0), ((before, change), 1)):
        act = run(*messages).acts[place]
        assert (act.seen_by, act.differences, act.contradicted) == ([], (), False)


def test_a_change_that_was_overwritten_is_not_contradicted():
    found = run(
        asks("update_reservation", "done", reservation_id=ID, cabin="business"),
        asks("update_reservation", "done", reservation_id=ID, cabin="economy"),
        asks("get_reservation", {"reservation_id": ID, "cabin": "economy"}, reservation_id=ID),
    )

    assert [act.contradicted for act in found.acts] == [False, False, False]
    assert found.acts[1].seen_by == [5]


@pytest.mark.parametrize(
    ("answer", "contradicted", "basis"),
    [({"path": "/a.txt", "text": "x"}, True, "answer"), ("Error: no such file", False, "read")],
)
def test_a_read_after_a_deletion_is_evidence_about_the_deletion(answer, contradicted, basis):
    found = run(asks("delete_file", "ok", path="/a.txt"), asks("read_file", answer, path="/a.txt"))

    assert found.acts[0].contradicted is contradicted
    assert found.acts[0].basis == basis


@pytest.mark.parametrize(
    ("trust", "expected"), [(TrustRequirement.ANSWERS, "RECONCILED_SUCCESS"), (TrustRequirement.READS, "PENDING")]
)
def test_the_required_trust_decides_if_an_answer_is_sufficient(trust, expected):
    change = asks("update_reservation", "done", reservation_id=ID, cabin="business")

    assert str(believed_state(run(change, trust=trust).acts[0], trust)) == expected
    seen = run(change, asks("get_reservation", {"cabin": "business", "id": ID}, reservation_id=ID), trust=trust)
    assert str(believed_state(seen.acts[0], trust)) == "RECONCILED_SUCCESS"


# Predicates of the contract


def refund_contract():
    document = {
        "name": "issue_refund",
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Refund.",
        "arguments_schema": TOOLS[3]["function"]["parameters"],
        "side_effect_class": "MEDIUM_RISK_WRITE",
        "target_resource": "refund/{reservation_id}",
        "required_effects": ["refund"],
        "verification": {
            "pattern": "payments",
            "system": "shop",
            "predicates": ["sa.amount == sr.amount", "sa.status == 'paid'"],
        },
    }
    return contract.validate(document, compile_predicate=lambda _: None)


@pytest.mark.parametrize(
    ("answer", "expected", "contradicted"),
    [
        ({"amount": 100, "status": "paid"}, ["TRUE", "TRUE"], False),
        ({"amount": 100, "status": "void"}, ["TRUE", "FALSE"], True),
        ({"id": "re_1"}, ["UNDECIDABLE", "UNDECIDABLE"], False),
    ],
)
def test_predicates_evaluated_on_the_answer_of_the_tool_are_marked_as_such(answer, expected, contradicted):
    catalogue = contracts.ContractCatalogue(contracts={"issue_refund": refund_contract()}, closed=True)
    act = run(asks("issue_refund", answer, reservation_id=ID, amount=100), tools=(), catalogue=catalogue).acts[0]

    assert [one.holds for one in act.predicates] == expected
    assert {one.where for one in act.predicates} == {"answer"}
    assert act.contradicted is contradicted


# What depends on what


def test_a_change_after_a_failed_one_is_silent_unless_it_is_a_retry():
    failed = asks("cancel_reservation", "Error: not possible", reservation_id=ID)
    refund = asks("issue_refund", {"refund_id": "re_1"}, reservation_id=ID, amount=5)
    again = asks("cancel_reservation", {"status": "ok"}, reservation_id=ID)

    assert run(failed, refund).acts[1].silent_over[0][0] == 1
    assert run(failed, again, refund).acts[2].silent_over == []
    assert run(failed, asks("get_reservation", {"id": ID}, reservation_id=ID)).acts[1].silent_over == []


def test_using_an_identifier_from_an_open_action_is_a_dependency():
    found = run(
        user("Refund me."),
        asks("issue_refund", {"refund_id": "re_778", "status": "pending"}, reservation_id=ID, amount=5),
        asks("send_email", {"status": "ok"}, to="a@example.org", body="re_778"),
    )

    assert found.acts[1].depends_on == (1,)
    assert found.acts[1].verdict.code == "UNRESOLVED_DEPENDENCY"


def test_repeating_an_open_change_is_refused_and_repeating_a_done_one_is_noted():
    late = asks("cancel_reservation", "Error: timed out", reservation_id=ID)
    done = asks("cancel_reservation", {"status": "ok"}, reservation_id=ID)

    assert run(late, done).acts[1].verdict.code == "DUPLICATE_BLOCKED"
    assert run(done, done).acts[1].repeats == 1


def test_a_change_repeated_after_another_change_of_the_same_object_is_not_a_repeat():
    done = asks("update_reservation", {"status": "ok"}, reservation_id=ID, cabin="business")
    other = asks("update_reservation", {"status": "ok"}, reservation_id=ID, cabin="economy")
    assert run(done, other, done).acts[2].repeats is None


def test_a_command_run_again_is_not_a_repeat_and_its_error_is_not_a_claim():
    shell = function("run_shell_command", ["command"], command={"type": "string"})
    checks = asks("run_shell_command", "ok", command="pytest -q")
    assert run(checks, checks, tools=[shell]).acts[1].repeats is None
    broken = asks("run_shell_command", "Error: 2 failed", command="pytest -q")
    found = run(broken, agent("Two tests failed with an error, so I fix them now."), tools=[shell])
    assert [each.kind for each in found.claims] == []
    told = asks("cancel_reservation", "Error: not possible", reservation_id=ID)
    assert [each.kind for each in run(told, agent("The cancellation failed.")).claims] == ["failed"]
    fenced = agent("The log:\n```\nthe cancellation failed\n```")
    assert [each.kind for each in run(told, fenced).claims] == []


def test_an_answer_without_a_call_is_a_fault():
    found = run(user("hello"), {"role": "tool", "tool_call_id": "gone", "content": "x"}, agent("Hello."))

    assert [one.path for one in found.faults] == ["$[1]"]
    assert "gone" in found.faults[0].reason
    assert found.spoken == 1
