"""What stands around a claim and is about something else changes nothing in its verdict."""

from __future__ import annotations

import pytest

from reviews.rules.guard.records import Ground, Record, Tool
from reviews.rules.guard.verdict import judge

TOOLS = (
    Tool("cancel_order", "Cancel one.", done=("cancelled",), object=("order",), target_template="order/{order_id}"),
    Tool("take_backup", "Take a snapshot.", done=("backed up", "took a snapshot"), object=("backup", "snapshot")),
    Tool("rerun_job", "Run a job again.", done=("reran",), object=("job",), target_template="job/{job}"),
    Tool("page_oncall", "Page whoever is on call.", done=("paged",), object=("on-call",)),
)
ORDER = {"order_id": "PO-43877", "vendor": "Rexo Tools"}


def action(tool: str, state: str, evidence: tuple[str, ...] = (), **arguments: str) -> Record:
    target = f"{tool.partition('_')[2]}/{next(iter(arguments.values()))}"
    return Record(f"a-{tool}", tool, target, arguments, state, bool(evidence), "", "The report.", "", evidence)


def codes(message: str, *records: Record) -> set[str]:
    return {each.code for each in judge(message, Ground(TOOLS, records)).violations}


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    "message",
    [
        "PO-43877 with Rexo Tools is cancelled.",
        "PO-43877 with Rexo Tools is cancelled and you won't get an invoice for it.",
        "PO-43877 with Rexo Tools is cancelled, so you don't have to do anything.",
        "PO-43877 with Rexo Tools is cancelled. You should see that in your list.",
    ],
)
def test_what_the_reader_will_or_need_not_do_tells_no_end_of_an_action(message: str):
    assert codes(message, action("cancel_order", "EXECUTING", **ORDER)) == {"PREMATURE"}
    assert not codes(message, action("cancel_order", "RECONCILED_SUCCESS", ("R-1",), **ORDER))


@pytest.mark.req("R-CG-09")
@pytest.mark.parametrize(
    "message",
    [
        "PO-43877 will be cancelled once Rexo Tools has accepted it; you will hear of it.",
        "The cancellation of PO-43877 is waiting for Rexo Tools. You won't get an invoice if they accept.",
    ],
)
def test_what_waits_behind_a_clause_about_the_reader_is_still_told(message: str):
    assert not codes(message, action("cancel_order", "EXECUTING", **ORDER))


@pytest.mark.req("R-CG-01")
@pytest.mark.parametrize("message", ["Before that I took a snapshot.", "After this I took a backup, to be sure."])
def test_an_order_in_time_is_no_condition(message: str):
    assert codes(message, action("cancel_order", "RECONCILED_SUCCESS", ("R-1",), **ORDER)) == {"PHANTOM"}


@pytest.mark.req("R-CG-01")
def test_what_goes_on_from_something_under_way_with_have_is_said_to_be_done():
    message = "I'm rerunning job 58240 and have paged the on-call."
    assert codes(message, action("rerun_job", "EXECUTING", job="58240")) == {"PHANTOM"}


@pytest.mark.req("R-CG-01")
@pytest.mark.parametrize("message", ["I re-ran job 58240.", "I reran job 58240.", "Job 58240 was re-run."])
def test_a_hyphen_makes_no_other_verb(message: str):
    assert codes(message, action("rerun_job", "EXECUTING", job="58240")) == {"PREMATURE"}


@pytest.mark.req("R-CG-15")
@pytest.mark.parametrize(
    "rest",
    [
        "You can close the ticket.",
        "So no further action is needed.",
        "You won't get an invoice. It should reach you by Friday.",
    ],
)
def test_what_only_follows_from_a_struck_sentence_goes_with_it(rest: str):
    verdict = judge(
        f"Hello. PO-43877 is cancelled. {rest} Reply here if you have questions.",
        Ground(TOOLS, (action("cancel_order", "EXECUTING", **ORDER),)),
    )
    assert verdict.corrected is not None
    assert verdict.corrected.startswith("Hello. ")
    assert verdict.corrected.endswith("Reply here if you have questions.")
    assert rest.split(".")[0] not in verdict.corrected


@pytest.mark.req("R-CG-15")
@pytest.mark.parametrize(
    "rest",
    [
        "You will need the number for the insurance.",
        "You can reply to this message.",
        "The weather is fine in Rotterdam.",
        "If you wish, you can close the ticket.",
    ],
)
def test_what_rests_on_something_else_stays(rest: str):
    verdict = judge(f"PO-43877 is cancelled. {rest}", Ground(TOOLS, (action("cancel_order", "EXECUTING", **ORDER),)))
    assert verdict.corrected is not None
    assert verdict.corrected.endswith(rest)


FAILED_READ = Record("r0", "ask_docs", "docs/a", {"q": "transports"}, "FAILED", False, "", "", "not found")
GOOD_READ = Record("r1", "ask_docs", "docs/b", {"q": "transports"}, "RECONCILED_SUCCESS", True, "", "", "", ("b",))
ASK = Tool("ask_docs", "Ask the documentation.", mutating=False, done=("asked",), object=("question", "transports"))


@pytest.mark.req("R-CG-17")
def test_what_one_reading_failed_to_show_another_of_the_same_tool_may():
    message = "There are two transports. Stdio transports launch the server."
    assert judge(message, Ground((*TOOLS, ASK), (FAILED_READ, GOOD_READ))).verdict == "ALLOW"


@pytest.mark.req("R-CG-17")
@pytest.mark.parametrize(
    "said",
    [
        "I'm doing well, thanks.",
        "I've reached my limit for today.",
        "I ran into a problem with the page.",
        "The notes I made are short.",
    ],
)
def test_what_somebody_reaches_runs_into_or_is_like_is_no_act(said: str):
    assert not codes(said)
