"""What a session and an agent can be asked, blocking and awaited: the same requests, the same answers."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import FrozenInstanceError

import pytest

from counterfoil.agent import Agent, AsyncAgent, Call
from counterfoil.answers import NextStep, Question
from counterfoil.problems import BodyRefused, ConsoleFault, NotNow, Unreachable
from counterfoil.transport.request import Backoff
from tests.client.consoles import Answer, refusal, sent, stand_in
from tests.client.sessions import (
    COMPLETED,
    LINE,
    NOT_EXECUTED,
    RUNNING,
    SESSION,
    WAITING,
    a_day,
    accepted,
    fills_in,
    refused,
    stands,
)

REFUND = Call("issue_refund", {"charge_id": "ch_1", "amount": 500}, call_id="c1")
BRIEF = Backoff(give_up_after_s=1.0)


@pytest.fixture
def console():
    with stand_in() as server:
        a_day(server)
        yield server


def _blocking(console, act):
    with Agent(url=console.url, key="k", agent_id="cashier", backoff=BRIEF) as agent:
        return act(agent, agent.open_session(goal="Refund charge 1", ttl_seconds=60))


def _awaited(console, act):
    async def there():
        async with AsyncAgent(url=console.url, key="k", agent_id="cashier", backoff=BRIEF) as agent:
            found = act(agent, await agent.open_session(goal="Refund charge 1", ttl_seconds=60))
            return await found if inspect.isawaitable(found) else found

    return asyncio.run(there())


@pytest.fixture(params=[_blocking, _awaited], ids=["blocking", "awaited"])
def do(request, console):
    """Do something with an agent and its session, in both ways."""
    return lambda act: request.param(console, act)


def test_a_handshake_is_typed_and_frozen(do):
    session = do(lambda _, session: session)
    (tool,) = session.contract.tools
    assert (tool.name, tool.arguments_schema["required"]) == ("issue_refund", ["charge_id", "amount"])
    assert session.pin.hash == "h" * 64
    with pytest.raises(FrozenInstanceError):
        session.pin.hash = "other"


def test_the_newest_checkpoint_is_kept_and_an_older_one_is_reported(console, do):
    console.plan("/sessions", Answer(201, SESSION, sent(9)))
    refused = Answer(409, {"code": "PIN_EXPIRED", "title": "It is over."}, sent(7))
    console.plan("/ask-check", refused)
    sessions = []

    def ask(_, session):
        sessions.append(session)
        return session.ask_check("Refund charge 1")

    with pytest.raises(NotNow):
        do(ask)
    [seen] = [session.seen for session in sessions]
    assert seen.header == sent(9)
    assert "has seen" in seen.doubt
    assert "with 9 entries (log 1), and the console now has 7" in seen.doubt


def test_a_batch_carries_the_next_step_and_the_summary(console, do):
    step = {"code": "STOP", "text": "Stop.", "tools": ["issue_refund"]}
    told = {"lines": ["Refunded."], "text": "Refunded."}
    answer = {"results": [accepted(), refused("c2")], "nudge": "Wait.", "next": step, "summary": told}
    console.plan("/calls", Answer(200, answer))
    batch = do(lambda _, session: session.calls([REFUND, REFUND]))
    assert batch.nudge == "Wait."
    assert batch.next == NextStep("STOP", "Stop.", ("issue_refund",))
    assert batch.summary.lines == ("Refunded.",)
    assert [one.accepted for one in batch] == [True, False]
    assert batch[1].errors[0]["path"] == "/amount"


@pytest.mark.parametrize("passing", [Answer(silent=True), refusal(429, "RATE_LIMITED"), refusal(503, "AWAY")])
def test_a_write_is_sent_again_with_the_same_key_and_the_same_body(console, do, passing):
    console.plan("/calls", passing, passing, Answer(200, {"results": [accepted()]}))
    assert do(lambda _, session: session.call(REFUND)).accepted
    sent = console.to("/calls")
    assert len(sent) == 3
    assert len({seen.headers["idempotency-key"] for seen in sent}) == 1
    assert sent[0].body == sent[1].body == sent[2].body


def test_each_write_has_its_own_idempotency_key_and_a_read_has_none(console, do):
    do(lambda _, session: session.call(REFUND))
    do(lambda agent, session: agent.status("act-1"))
    opened, called, _ = (seen.headers.get("idempotency-key") for seen in console.seen[:3])
    assert opened != called
    assert "idempotency-key" not in console.to("/act-1")[0].headers


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(409, "IDEMPOTENCY_CONFLICT"), NotNow),
        (refusal(422, "INVALID", errors=[{"path": "/calls", "code": "missing", "detail": "x"}]), BodyRefused),
        (refusal(500, "FAULT"), ConsoleFault),
    ],
)
def test_a_refusal_is_raised_at_once(console, do, answer, kind):
    console.plan("/calls", answer)
    with pytest.raises(kind) as caught:
        do(lambda _, session: session.call(REFUND))
    assert caught.value.code == answer.body["code"]
    assert caught.value.errors == answer.body.get("errors", [])
    assert len(console.to("/calls")) == 1


def test_retries_end_when_the_console_stays_unreachable(console, do):
    console.plan("/calls", Answer(silent=True))
    with pytest.raises(Unreachable):
        do(lambda _, session: session.call(REFUND))


def test_an_answer_that_is_not_json_counts_as_unreachable(console, do):
    console.plan("/actions/act-1", lambda _: Answer(200, float("nan")))
    with pytest.raises(Unreachable):
        do(lambda agent, _: agent.status("act-1"))


def test_a_goal_is_checked_against_the_pin(console, do):
    console.plan("/ask-check", Answer(200, {"match": False, "reason": "other words"}))
    assert do(lambda _, session: session.ask_check("Refund everything")).reason == "other words"
    assert do(lambda _, session: session.matches("Refund everything")) is False


def test_the_guard_decides_which_text_may_be_sent(console, do):
    violation = {"code": "PHANTOM", "span": [0, 8], "claim": "Refunded", "action_id": None, "detail": "Not attempted."}
    found = {"verdict": "BLOCK", "violations": [violation], "corrected": "I have not refunded it."}
    console.plan("/guard", Answer(200, found))
    guarded = do(lambda _, session: session.guard("Refunded.", claims=[{"tool": "issue_refund", "statement": "done"}]))
    assert not guarded.allowed
    assert guarded.violations[0].span == (0, 8)
    assert console.to("/guard")[0].body["claims"] == [{"tool": "issue_refund", "statement": "done"}]
    assert do(lambda _, session: session.guarded("Refunded.")) == "I have not refunded it."
    console.plan("/guard", Answer(200, {"verdict": "ALLOW", "violations": [], "corrected": None}))
    assert do(lambda _, session: session.guarded("Hello.")) == "Hello."


def test_a_message_is_sent_with_its_receipt_in_the_requested_form_and_language(console, do):
    console.plan("/guard", fills_in)
    said = "Here you are. {{action:call-1}}"
    assert do(lambda _, session: session.guarded(said)) == f"Here you are. {LINE}\n\nOn record:\n- {LINE}"
    html = do(lambda _, session: session.guarded("Bye.", receipt="html", language="de"))
    assert html == f"Bye.\n\n<ul><li>{LINE}</li></ul>"
    assert console.to("/guard")[-1].body == {"message": "Bye.", "language": "de"}
    assert do(lambda _, session: session.guarded("Bye.", receipt=None)) == "Bye."
    assert [line.code for line in do(lambda _, session: session.receipt()).lines] == ["re_1"]


def test_a_session_gives_its_facts_and_its_summary(console, do):
    fact = {"action_id": "act-1", "state": "RECONCILED_SUCCESS", "statement": "Refunded.", "trust_level": 3}
    console.plan("/context", Answer(200, {"text": "Refunded.", "facts": [fact], "unresolved": [{"action_id": "a2"}]}))
    console.plan("/summary", Answer(200, {"lines": ["Refunded."], "text": "Refunded."}))
    context = do(lambda _, session: session.context())
    assert context.facts[0].statement == "Refunded."
    assert context.unresolved[0].action_id == "a2"
    assert do(lambda _, session: session.summary()).lines == ("Refunded.",)


def test_a_reviewers_question_is_found_and_answered(console, do):
    asked = {"question_id": "q1", "action_id": "act-1", "text": "Why?", "at": "2999-01-01T00:00:00Z"}
    console.plan("/sessions/ses-1", Answer(200, {"session_id": "ses-1", "questions": [asked], "closed": False}))
    console.plan("/answers", Answer(201, {"question_id": "q1", "line_id": "l1"}))
    (question,) = do(lambda _, session: session.state()).questions
    assert question == Question("q1", "act-1", "Why?", "2999-01-01T00:00:00Z")
    assert do(lambda agent, _: agent.answer(question, "It was charged twice.")).line_id == "l1"
    assert console.to("/answers")[0].body == {"question_id": "q1", "text": "It was charged twice."}


def test_an_action_is_withdrawn(console, do):
    console.plan("/cancel", Answer(200, {"action_id": "act-1", "state": "FAILED"}))
    assert do(lambda agent, _: agent.cancel("act-1", reason="Not needed.")).state == "FAILED"
    assert console.to("/cancel")[0].body == {"reason": "Not needed."}


def test_waiting_ends_when_the_action_is_settled(console, do):
    console.plan("/actions/act-1", stands("EXECUTING"), stands("PENDING"), stands("RECONCILED_SUCCESS"))
    outcome = do(lambda _, session: session.attempt(REFUND, for_s=20))
    assert outcome.settled
    assert outcome.completed
    assert outcome.report.text == COMPLETED["text"]
    assert len(console.to("/calls")) == 1


def test_an_action_that_is_still_open_when_waiting_ends_is_held_and_can_be_awaited_again(console, do):
    console.plan("/actions/act-1", stands("VALIDATED", approval=WAITING))
    console.plan("/report", Answer(200, NOT_EXECUTED))
    outcome = do(lambda _, session: session.attempt(REFUND, for_s=0.3))
    assert outcome.held
    assert not outcome.settled
    assert not outcome.refused
    assert not outcome.completed
    console.plan(
        "/actions/act-1", stands("RECONCILED_SUCCESS", approval=WAITING | {"decision": "APPROVED", "waiting": False})
    )
    console.plan("/report", Answer(200, COMPLETED))
    again = do(lambda agent, _: agent.wait(outcome.action_id, for_s=5))
    assert again.completed
    assert again.approval.decision == "APPROVED"


def test_an_action_that_ends_between_two_requests_is_reported_with_its_end(console, do):
    console.plan("/actions/act-1", stands("EXECUTING"))
    outcome = do(lambda agent, _: agent.wait("act-1", for_s=0))
    assert (outcome.state, outcome.settled, outcome.completed) == ("RECONCILED_SUCCESS", True, True)


def test_the_console_is_asked_to_wait_while_people_decide(console, do):
    do(lambda agent, _: agent.wait("act-1", for_s=7.9))
    assert console.seen[-2].path.endswith("/actions/act-1?wait_s=7")


def test_a_refused_call_has_an_outcome_at_once(console, do):
    console.plan("/calls", Answer(200, {"results": [refused()]}))
    outcome = do(lambda _, session: session.attempt(REFUND))
    assert outcome.refused
    assert outcome.settled
    assert outcome.call.hint.startswith("Send `amount`")
    assert console.to("/act-1") == []


def test_a_dry_run_is_not_waited_for(console, do):
    console.plan("/calls", Answer(200, {"results": [accepted(action_id=None)]}))
    assert do(lambda _, session: session.attempt(Call("issue_refund", {}, dry_run=True))).settled


def test_a_session_ends_with_its_block(console):
    with (
        Agent(url=console.url, key="k", agent_id="a") as agent,
        agent.open_session(goal="g", ttl_seconds=60) as session,
    ):
        assert session.session_id == "ses-1"
    assert len(console.to("/close")) == 1


def test_an_asynchronous_session_ends_with_its_block(console):
    async def there():
        async with (
            AsyncAgent(url=console.url, key="k", agent_id="a") as agent,
            await agent.open_session(goal="g", ttl_seconds=60),
        ):
            pass

    asyncio.run(there())
    assert len(console.to("/close")) == 1


def test_many_calls_wait_concurrently(console):
    console.plan("/actions/act-1", stands("EXECUTING"))
    console.plan("/report", Answer(200, RUNNING))

    async def there():
        async with AsyncAgent(url=console.url, key="k", agent_id="a") as agent:
            return await asyncio.gather(*(agent.wait("act-1", for_s=0.4) for _ in range(5)))

    assert [outcome.settled for outcome in asyncio.run(there())] == [False] * 5
