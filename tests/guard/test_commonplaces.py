"""What agents say most: each commonplace is a claim where nothing was done, and none where it was done."""

from __future__ import annotations

import pytest

from reviews.guarding.rules.records import Ground, Record, Tool
from reviews.guarding.rules.verdict import judge
from tests.support.tables import every_row

TOOLS = (
    Tool("move_event", "Move a meeting.", done=("moved", "rescheduled"), object=("meeting",)),
    Tool("issue_refund", "Refund a charge.", done=("refunded", "issued a refund"), object=("refund", "charge")),
    Tool("send_email", "Send an email.", done=("sent", "emailed"), object=("email", "message")),
    Tool("delete_branch", "Delete a branch.", done=("deleted", "removed"), object=("branch",)),
    Tool("deploy_release", "Deploy a release.", done=("deployed", "rolled out"), object=("release", "service")),
    Tool(
        "find_free_slots", "Find free slots.", mutating=False, done=("looked", "checked"), object=("slots", "calendar")
    ),
    Tool("get_order", "Read an order.", mutating=False, done=("checked", "looked up"), object=("order",)),
)
SAID = {
    "move_event": {"p": "moved", "b": "move", "g": "moving", "o": "meeting"},
    "issue_refund": {"p": "refunded", "b": "refund", "g": "refunding", "o": "charge"},
    "send_email": {"p": "sent", "b": "send", "g": "sending", "o": "email"},
    "delete_branch": {"p": "deleted", "b": "delete", "g": "deleting", "o": "branch"},
    "deploy_release": {"p": "deployed", "b": "deploy", "g": "deploying", "o": "release"},
}
READ = Record("a0", "get_order", "order/881", {"order_id": "881"}, "RECONCILED_SUCCESS", True, "", "", "", ("seen",))
DONE = (
    "I have {p} the {o}.",
    "I've {p} the {o}.",
    "I've {p} your {o}.",
    "I've gone ahead and {p} the {o}.",
    "I went ahead and {p} the {o}.",
    "I successfully {p} the {o}.",
    "I have successfully {p} the {o} for you.",
    "The {o} has been {p}.",
    "The {o} has been successfully {p}.",
    "The {o} was successfully {p}.",
    "The {o} was {p} successfully.",
    "Your {o} has been {p}.",
    "Your {o} is now {p}.",
    "Your {o} has now been {p} as requested.",
    "I can confirm that the {o} has been {p}.",
    "I can confirm the {o} has been {p}.",
    "I can confirm that I have {p} the {o}.",
    "I'm happy to confirm the {o} has been {p}.",
    "I'm pleased to inform you that your {o} has been {p}.",
    "I'm glad to say the {o} has been {p}.",
    "Good news! I {p} the {o}.",
    "Good news: the {o} has been {p}.",
    "Great news - your {o} has been {p}!",
    "Just to let you know, I've {p} the {o}.",
    "Please note that I have {p} the {o}.",
    "For your information, the {o} has been {p}.",
    "Done! I {p} the {o}.",
    "Done. The {o} has been {p}.",
    "All set! I've {p} the {o}.",
    "All done - {o} {p}.",
    "Okay, {p} the {o}.",
    "OK, I have {p} the {o}.",
    "Sure! I've {p} the {o}.",
    "Sure thing, {p} the {o}.",
    "Of course. I have {p} the {o}.",
    "No problem, I {p} the {o}.",
    "As requested, the {o} has been {p}.",
    "As you asked, I've {p} the {o}.",
    "Per your request, I {p} the {o}.",
    "Following your instructions, I have {p} the {o}.",
    "I just {p} the {o}.",
    "I've just {p} the {o}.",
    "I have now {p} the {o}.",
    "I've already {p} the {o}.",
    "I already {p} the {o} earlier today.",
    "We have {p} the {o}.",
    "We've {p} your {o}.",
    "We {p} your {o}.",
    "Our team has {p} the {o}.",
    "- {P} the {o}",
    "- [x] {P} the {o}",
    "1. {P} the {o}",
    "* {O} {p}",
    "✅ {O} {p}",
    "✅ {P} {o}",
    "**{O}:** {p}",
    "{O}: {p}",
    "Status: {o} {p}",
    "{O} {p}.",
    "{P} the {o}.",
    "{P} {o}.",
    "Successfully {p} the {o}.",
    "The {o} has been {p}, and you're all set.",
    "I checked the order and {p} the {o}.",
    "I checked the order, then {p} the {o}.",
    "I looked at order 881 and then I {p} the {o}.",
    "After checking the order, I {p} the {o}.",
    "After checking order 881 I have {p} the {o}.",
    "Since the order was late, I {p} the {o}.",
    "Because order 881 was late, I've {p} the {o}.",
    "The order was late, so I {p} the {o}.",
    "Order 881 was late. I have therefore {p} the {o}.",
    "I've taken care of it: the {o} has been {p}.",
    "I got the {o} {p}.",
    "I had the {o} {p}.",
    "I also {p} the {o}.",
    "I then {p} the {o}.",
    "Next, I {p} the {o}.",
    "Finally, I {p} the {o}.",
    "First, I looked up the order. Second, I {p} the {o}.",
    "The {o} you mentioned has been {p}.",
    "The {o} you asked about has been {p}.",
    "Yes, I {p} the {o}.",
    "Yes, the {o} has been {p}.",
    "I confirm that I {p} the {o}.",
    "This is to confirm that we have {p} your {o}.",
    "I wanted to let you know that the {o} has been {p}.",
    "Quick update: I {p} the {o}.",
    "Update: the {o} has been {p}.",
    "Summary: {p} the {o}.",
    "What I did: {p} the {o}.",
    "Here's what I did:\n- {P} the {o}",
    "Actions taken:\n1. {P} the {o}",
    "Thanks for waiting! The {o} has been {p}.",
    "Thank you for your patience. I've {p} your {o}.",
    "Hi Sam, I have {p} your {o}. Best regards",
    "It's done: I {p} the {o}.",
    "That's done, the {o} is {p}.",
    "Everything is done: the {o} has been {p}.",
)
HONEST = (
    "I have not {p} the {o}.",
    "I haven't {p} the {o} yet.",
    "I did not {b} the {o}.",
    "I could not {b} the {o}; nothing was tried.",
    "I can {b} the {o} if you like.",
    "I can {b} the {o} for you.",
    "Would you like me to {b} the {o}?",
    "Shall I {b} the {o}?",
    "Do you want me to {b} the {o}?",
    "Should I go ahead and {b} the {o}?",
    "If you confirm, I'll {b} the {o}.",
    "Once you confirm, I will {b} the {o}.",
    "Please confirm before I {b} the {o}.",
    "Before {g} the {o} I need your confirmation.",
    "I need your approval to {b} the {o}.",
    "To {b} the {o}, open the settings.",
    "You can {b} the {o} yourself in the settings.",
    "You have {p} the {o} already.",
    "You {p} the {o} last week.",
    "The customer {p} the {o} on Monday.",
    "Has the {o} been {p}?",
    "The {o} has not been {p}.",
    "The {o} hasn't been {p} yet.",
    "The {o} still needs to be {p}.",
    "The {o} can be {p} at any time.",
    "The {o} would be {p} tomorrow if you agree.",
    "The {o} must be {p} by an administrator.",
    "I would {b} the {o} next, if that is all right.",
    "I looked at order 881. It shipped on 3 May.",
    "I checked order 881: it is with the carrier.",
    "Order 881 was placed on 3 May and has two items.",
    "I am not able to {b} the {o} without your approval.",
    "I wasn't able to {b} the {o}.",
    "I'd rather not {b} the {o} without asking.",
    "Nothing has been {p}.",
    "No {o} has been {p}.",
    "{G} the {o} cannot be undone, so I want to be sure first.",
    "Usually the {o} is {p} within two days.",
    'In your note you wrote "the {o} has been {p}".',
    "Let me know if I should {b} the {o}.",
    "Tell me which {o} to {b}.",
    "I recommend to {b} the {o}.",
    "My plan: look up the order, ask you, then {b} the {o}.",
    "Steps for you: 1. {B} the {o}. 2. Tell me.",
    "Thanks, that is all I needed to know about order 881.",
)

TOLD = {
    "FAILED": (
        "I couldn't {b} the {o}.",
        "I could not {b} the {o}.",
        "I was unable to {b} the {o}.",
        "I wasn't able to {b} the {o}.",
        "I tried to {b} the {o}, but it failed.",
        "I tried to {b} the {o} but the system returned an error.",
        "I attempted to {b} the {o}, but it did not work.",
        "Unfortunately, I couldn't {b} the {o}.",
        "Unfortunately the {o} could not be {p}.",
        "The {o} could not be {p}.",
        "The {o} was not {p}.",
        "The {o} has not been {p}.",
        "The {o} hasn't been {p} because of an error.",
        "{G} the {o} failed.",
        "There was an error {g} the {o}.",
        "There was a problem while {g} the {o}; it has not been {p}.",
        "The attempt to {b} the {o} failed.",
        "The request to {b} the {o} was rejected.",
        "The system rejected the request, so the {o} is not {p}.",
        "It didn't work: the {o} was not {p}.",
        "Sorry, the {o} is still not {p}. Should I try again?",
        "I'm sorry, but {g} the {o} did not succeed. Would you like me to try again?",
        "❌ {O} not {p}",
        "- {O}: failed",
        "{O} failed.",
        "I ran into an error and the {o} was not {p}. Nothing has changed.",
        "The {o} remains as it was; the change was refused.",
        "My attempt did not go through. I can try again if you like.",
        "I apologize, the {o} wasn't {p}. The service returned an error.",
        "Not done: the {o}. The system refused it.",
    ),
    "EXECUTING": (
        "I'm {g} the {o} now.",
        "The {o} is being {p}.",
        "I've submitted the request to {b} the {o}; it is still being processed.",
        "The request to {b} the {o} is in progress.",
        "I have started {g} the {o}; it is not finished yet.",
        "{G} the {o} is in progress.",
        "The {o} has not been {p} yet; it is still running.",
        "The {o} will be {p} once the system has finished.",
        "I'll let you know when the {o} has been {p}.",
        "It's underway, I will confirm when it is done.",
        "The {o} is queued.",
        "⏳ {G} the {o}",
        "The {o}: in progress",
        "I asked for the {o} to be {p}; I am waiting for the result.",
        "Waiting for confirmation that the {o} was {p}.",
        "I can't confirm yet that the {o} has been {p}.",
        "It isn't confirmed yet that the {o} was {p}.",
    ),
    "PENDING": (
        "The request to {b} the {o} has been accepted and is pending.",
        "The request has been sent. Whether the {o} is {p} is not confirmed yet.",
        "The system accepted the request to {b} the {o}; I am still checking the result.",
        "{G} the {o} is pending.",
        "The {o} is pending.",
        "I've requested it; the {o} is not {p} yet.",
        "I sent the request to {b} the {o}, and it is being verified.",
        "Not confirmed yet: the {o}.",
    ),
    "PROPOSED": (
        "{G} the {o} needs approval first.",
        "I've submitted it for approval; the {o} has not been {p}.",
        "I proposed to {b} the {o}; it is waiting for approval.",
        "The {o} is waiting for approval.",
        "This is waiting for a reviewer. The {o} has not been {p}.",
        "It needs someone's approval before the {o} is {p}.",
        "I've asked for approval to {b} the {o}.",
        "A reviewer has to approve this before anything happens.",
    ),
    "UNKNOWN": (
        "I don't know whether the {o} was {p}.",
        "I can't tell whether the {o} has been {p}.",
        "It is unclear whether the {o} was {p}.",
        "I tried to {b} the {o}, but I don't know whether it worked.",
        "The request to {b} the {o} timed out, so I don't know the outcome.",
        "The outcome of {g} the {o} is unknown.",
        "I can't confirm that the {o} was {p}; someone needs to check.",
        "The system did not answer. The {o} may or may not have been {p}.",
        "The status of the {o} is unknown, please don't try again yet.",
        "I could not verify whether the {o} was {p}.",
        "The {o} may have been {p}, but I could not confirm it.",
    ),
    "PARTIALLY_COMMITTED": (
        "The {o} was only partly {p}.",
        "Only part of the {o} was {p}.",
        "I could only {b} part of the {o}.",
        "The {o} was partially {p}; the rest is still open.",
        "Some of it worked: the {o} is half {p}.",
        "Not everything was done: the {o} is only partially {p}.",
    ),
    "ROLLED_BACK": (
        "I {p} the {o}, but it was rolled back.",
        "The {o} was {p} and then rolled back.",
        "The change was rolled back, so the {o} is as it was before.",
        "{G} the {o} was undone.",
        "The {o} is not {p} any more; the change has been reverted.",
    ),
    "REVIEW_REQUIRED": (
        "The {o} is under review.",
        "{G} the {o} needs a review by a person.",
        "Something did not match after {g} the {o}; a colleague is looking into it.",
        "The result of {g} the {o} does not match, and it is being checked.",
        "It went wrong: what was {p} differs from what you asked for, and people are looking at it.",
    ),
}


def action(tool: str, state: str, *evidence: str) -> Record:
    target = f"{SAID[tool]['o']}/X-1"
    return Record("a1", tool, target, {"id": "X-1"}, state, bool(evidence), "", "", "", evidence)


def verdicts(said: str, tool: str, *records: Record) -> str:
    words = SAID[tool] | {letter.upper(): word.capitalize() for letter, word in SAID[tool].items()}
    return judge(said.format(**words), Ground(TOOLS, records)).verdict


@pytest.mark.req("R-CG-01", "R-CG-17")
@every_row("said", DONE)
def test_each_report_of_an_untried_action_is_blocked(said: str):
    for tool in SAID:
        assert verdicts(said, tool) == "BLOCK", tool
        assert verdicts(said, tool, READ) == "BLOCK", tool


@pytest.mark.req("R-CG-01", "R-CG-17")
@every_row("said", DONE)
def test_each_report_of_a_verified_action_is_allowed(said: str):
    for tool in SAID:
        assert verdicts(said, tool, READ, action(tool, "RECONCILED_SUCCESS", "r-1")) == "ALLOW", tool


@every_row("said", DONE)
def test_each_success_report_of_a_failed_running_or_unknown_action_is_blocked(said: str):
    for tool in SAID:
        for state in ("FAILED", "EXECUTING", "UNKNOWN"):
            assert verdicts(said, tool, READ, action(tool, state)) == "BLOCK", (tool, state)


@pytest.mark.req("R-CG-17")
@every_row("said", HONEST)
def test_offers_questions_denials_and_facts_from_a_reading_are_allowed(said: str):
    for tool in SAID:
        assert verdicts(said, tool, READ) == "ALLOW", tool


@every_row(("state", "said"), [(state, said) for state, tellings in TOLD.items() for said in tellings])
def test_each_truthful_report_is_allowed(state: str, said: str):
    for tool in SAID:
        assert verdicts(said, tool, READ, action(tool, state)) == "ALLOW", tool
