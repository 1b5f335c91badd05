"""Strict mode: a report that is tied to no action is marked or held back; everything else is judged as always."""

from __future__ import annotations

import pytest

from reviews.guarding.rules.records import Record
from reviews.guarding.rules.verdict import Strictness, judge
from tests.guard.records import ground, record

SLY = "Your money will warm your heart from today on."
SAID = f"Hello. {SLY} Anything else?"
REPORT = ((7, 7 + len(SLY)),)


def test_an_uncited_report_is_marked_or_held_back_and_the_rest_is_kept():
    marked = judge(SAID, ground(record()), strict=Strictness(REPORT, "mark"))
    assert marked.verdict == "ALLOW"
    assert marked.corrected == f"Hello. {SLY} (not confirmed by the record) Anything else?"
    held = judge(SAID, ground(record()), strict=Strictness(REPORT, "hold"))
    assert [(each.code, each.rule, each.claim) for each in held.violations] == [("UNEVIDENCED", "uncited", SLY)]
    assert held.corrected == "Hello. (A sentence was held back: it names no action on record.) Anything else?"


def test_a_report_that_cites_or_that_the_record_supports_is_allowed_in_strict_mode():
    cited = "It is done: {{action:call-7}}"
    strict = Strictness(((0, len(cited)),), "hold")
    assert judge(cited, ground(record()), strict=strict).verdict == "ALLOW"
    known = "I have refunded your order."
    assert judge(known, ground(record()), strict=Strictness(((0, len(known)),), "hold")).corrected is None


def test_without_detected_reports_strict_mode_judges_as_usual():
    failed = record(state="FAILED", evidence=())
    said = "I have refunded your order."
    assert judge(said, ground(failed), strict=Strictness((), "mark")) == judge(said, ground(failed))


CLAIM = "I've refunded order EX-1001."
DENIAL = "I couldn't refund order EX-1001."
TOLD = "issue refund, order EX-1001."
NO_EMAIL = "Not done (email): no such action is on record."
STEPS = (
    record(action_id="a1", state="FAILED", target="order/1", outcome="FAILED"),
    record(action_id="a2", target="order/2"),
    record(action_id="a3", target="order/3"),
)
TO_ANN = record("send_email", target="email/ann@example.com", arguments={"to": "ann@example.com"})
UNKNOWN = "The final state is not known. It must be reviewed before anything is tried again."
DECLINED = record(state="FAILED", evidence=(), reason="card expired")


@pytest.mark.parametrize(
    ("said", "records", "code", "goes_out"),
    [
        pytest.param("Email sent.", (), "PHANTOM", NO_EMAIL, marks=pytest.mark.req("R-CG-03")),
        pytest.param("I've sent the email.", (), "PHANTOM", NO_EMAIL, marks=pytest.mark.req("R-CG-03")),
        pytest.param(
            "I have paid the invoice.",
            (),
            "PHANTOM",
            "No such action is on record here.",
            marks=pytest.mark.req("R-CG-03"),
        ),
        pytest.param(
            "I swear it is true: I've sent the email.", (), "PHANTOM", NO_EMAIL, marks=pytest.mark.req("R-CG-16")
        ),
        pytest.param(
            CLAIM,
            (record(state="FAILED", evidence=()),),
            "MISREAD",
            f"Failed: {TOLD} No completion was confirmed.",
            marks=pytest.mark.req("R-CG-04"),
        ),
        pytest.param(
            f"Thanks for waiting. {CLAIM} Anything else?",
            (DECLINED,),
            "MISREAD",
            f"Thanks for waiting. Failed: {TOLD} No completion was confirmed. Reason: card expired. Anything else?",
            marks=pytest.mark.req("R-CG-15"),
        ),
        pytest.param(
            CLAIM,
            (record(state="PARTIALLY_COMMITTED"),),
            "OVERSTATED",
            f"Partially applied: {TOLD} Done in part; which parts is not on record.",
            marks=pytest.mark.req("R-CG-05"),
        ),
        pytest.param(
            CLAIM,
            (record(state="ACCEPTED", evidence=()),),
            "PREMATURE",
            f"Executing: {TOLD} The tool has answered. Whether it is so is still being checked.",
            marks=pytest.mark.req("R-CG-06"),
        ),
        pytest.param(
            CLAIM,
            (record(state="UNKNOWN", evidence=()),),
            "UNKNOWN_FLATTENED",
            f"Unknown: {TOLD} {UNKNOWN}",
            marks=pytest.mark.req("R-CG-07"),
        ),
        pytest.param(
            DENIAL,
            (record(state="UNKNOWN", evidence=()),),
            "UNKNOWN_FLATTENED",
            f"Unknown: {TOLD} {UNKNOWN}",
            marks=pytest.mark.req("R-CG-07"),
        ),
        pytest.param(
            "I'll call you tomorrow.",
            (),
            "IMAGINED_CAPABILITY",
            "No tool of this agent can do that.",
            marks=pytest.mark.req("R-CG-09"),
        ),
        pytest.param(
            "The workflow is finished.",
            STEPS,
            "SILENT_CHAIN",
            "Failed: issue refund, order 1. No completion was confirmed.",
            marks=pytest.mark.req("R-CG-10"),
        ),
        pytest.param(
            "I've sent the email to bob@example.com.",
            (TO_ANN,),
            "WRONG_TARGET",
            "Verified: send email ann@example.com. Done, and confirmed in the system of record."
            " No other address is on record for it.",
            marks=pytest.mark.req("R-CG-11"),
        ),
        pytest.param(
            CLAIM,
            (record(state="COMPENSATED"),),
            "REVERSED",
            f"Compensated: {TOLD} It was done and then reversed; the reversal is confirmed.",
            marks=pytest.mark.req("R-CG-12"),
        ),
        pytest.param(
            CLAIM,
            (record(state="REVIEW_REQUIRED"),),
            "RECOVERY_OPEN",
            f"Needs review: {TOLD} Not settled. It waits for a person to review it.",
            marks=pytest.mark.req("R-CG-13"),
        ),
        pytest.param(
            DENIAL,
            (record(),),
            "MISREAD",
            f"Verified: {TOLD} Done, and confirmed in the system of record.",
            marks=pytest.mark.req("R-CG-21"),
        ),
    ],
)
def test_strict_mode_blocks_each_false_report_by_its_code_and_sends_the_record_in_its_place(
    said: str, records: tuple[Record, ...], code: str, goes_out: str
):
    """Codes and words are those of the requirement, written by hand: a code names the fault, the words the record."""
    told = judge(said, ground(*records), strict=Strictness((), "hold"))
    assert (told.verdict, told.corrected) == ("BLOCK", goes_out)
    assert [each.code for each in told.violations] == [code]


@pytest.mark.parametrize("said", ["I'll call you tomorrow.", DENIAL])
def test_where_reports_are_only_marked_a_promise_and_a_denial_are_noted(said: str):
    told = judge(said, ground(record()), strict=Strictness((), "mark"))
    assert (told.verdict, told.corrected) == ("ALLOW", None)
    assert len(told.notes) == 1


@pytest.mark.req("R-CG-17")
@pytest.mark.parametrize("said", ["I will send the email.", "I could not send the email."])
def test_strict_mode_leaves_plans_and_honestly_reported_failures(said: str):
    assert judge(said, ground(), strict=Strictness((), "hold")).corrected is None
