"""Each process is killed where it hurts, once with the write of that moment lost and once with it kept.

Afterwards nothing is lost, nothing has run twice (the shop is counted), nothing was told as done that was not, and
what was open could not be repeated. `quiet_ground` verifies the whole record at the end of all of them.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack

import httpx
import pytest

from tests.journeys.ground import Ground, locked
from tests.journeys.hands import hands
from tests.journeys.wire import Lost, wire

STARTED = ["PROPOSED", "VALIDATED", "EXECUTING"]
DONE = [*STARTED, "PENDING", "COMMITTED", "RECONCILED_SUCCESS"]
SILENT = [*STARTED, "UNKNOWN", "PENDING"]

START = r"^POST /api/v1/actions/[0-9a-f-]+/executions "
OBSERVATION = r"^POST /api/v1/actions/[0-9a-f-]+/executions/\d+/observations "
VOTE = r"^POST /api/v1/approvals/[0-9a-f-]+/votes "
# Whoever wants to write to this action waits, in the middle of a transaction.
ACTION = "SELECT 1 FROM ledger_action WHERE id = %s FOR UPDATE"
# Whoever wants to change this order waits, in the shop.
ORDER = "SELECT 1 FROM shop.orders WHERE id = %s FOR UPDATE"
# No verdict of this action and no vote on it is begun; none of any can be written.
SUBJECT = "SELECT 1 FROM ledger_subject WHERE id = %s FOR UPDATE"
RUNS = "LOCK TABLE reviews_run IN SHARE ROW EXCLUSIVE MODE"
# The shop's refunds cannot be read.
BOOKS = "LOCK TABLE shop.refunds IN ACCESS EXCLUSIVE MODE"
EXECUTOR = "example-executor"
# Which of the two depends on whether the lease is over yet.
UNANSWERED = ("ATTEMPTED_RESULT_UNKNOWN", "FINAL_STATE_UNKNOWN")


def refunds(ground: Ground, sent) -> int:
    return len(ground.rows("refunds", sent.arguments["order_id"]))


def starts(ground: Ground, sent) -> int:
    return ground.events(sent.action_id).count("execution_started")


def kept(ground: Ground, sent, kind: str) -> int:
    return len([each for each in ground.operator.get(f"/actions/{sent.action_id}")["evidence"] if each["kind"] == kind])


def told(ground: Ground, sent) -> str:
    report = ground.agent.report(sent.action_id)
    assert not report.completed
    return report.code


def is_done_once(ground: Ground, sent, path=DONE) -> None:
    ground.wait_for(sent.action_id, "RECONCILED_SUCCESS")
    assert ground.path(sent.action_id) == path
    assert (starts(ground, sent), refunds(ground, sent)) == (1, 1)


def send_to(ground: Ground, executor):
    """Send a refund that this executor has claimed and not started."""
    sent = ground.send("small_refund")
    executor.claim()
    assert executor.order.action_id == sent.action_id
    return sent


# The executor


@pytest.mark.req("R-EX-01", "R-EX-08", "R-EX-11")
def test_an_executor_killed_before_its_effect_repeats_nothing(quiet):
    sent = quiet.send("small_refund")
    with locked(quiet.database_url("shop"), ORDER, sent.arguments["order_id"]):
        quiet.start("executor")
        quiet.until_blocked("shop")
        quiet.stack.kill(EXECUTOR)
    assert told(quiet, sent) in UNANSWERED
    assert quiet.again(sent).code == "DUPLICATE_BLOCKED"
    # Another executor is there all the while; the attempt is not its own.
    quiet.start("executor")
    with locked(quiet.database_url("shop"), BOOKS):
        quiet.wait_for(sent.action_id, "PENDING")
        assert quiet.again(sent).code == "DUPLICATE_BLOCKED"
    quiet.wait_for(sent.action_id, "FAILED")
    assert quiet.path(sent.action_id) == [*SILENT, "FAILED"]
    assert (starts(quiet, sent), refunds(quiet, sent)) == (1, 0)
    # Proven absent, and past the horizon: only now may it be wished for again.
    repeat = quiet.again(sent)
    quiet.wait_for(repeat.action_id, "RECONCILED_SUCCESS")
    assert refunds(quiet, sent) == 1


@pytest.mark.req("R-EX-07", "R-EX-08", "R-EX-11")
def test_an_executor_killed_after_its_effect_repeats_nothing(quiet):
    sent = quiet.send("small_refund")
    with wire(quiet.stack.port) as line:
        cut = line.cut(OBSERVATION, loses=Lost.REQUEST, then=lambda: quiet.stack.kill(EXECUTOR))
        quiet.start("executor", url=line.url)
        assert cut.done.wait(60), quiet.last_words()
    assert refunds(quiet, sent) == 1
    assert told(quiet, sent) in UNANSWERED
    assert quiet.again(sent).code == "DUPLICATE_BLOCKED"
    quiet.start("executor")
    is_done_once(quiet, sent, [*SILENT, "COMMITTED", "RECONCILED_SUCCESS"])


def test_an_executor_killed_after_its_report_repeats_nothing(quiet):
    sent = quiet.send("small_refund")
    with wire(quiet.stack.port) as line:
        cut = line.cut(OBSERVATION, loses=Lost.ANSWER, then=lambda: quiet.stack.kill(EXECUTOR))
        quiet.start("executor", url=line.url)
        assert cut.done.wait(60), quiet.last_words()
    quiet.start("executor")
    is_done_once(quiet, sent)
    assert kept(quiet, sent, "observation") == 1


# The web process: one write is held up in the middle of its transaction, another is committed and its answer lost.


@pytest.mark.req("R-EX-03", "R-SM-21")
def test_a_web_process_killed_at_a_start_loses_and_doubles_nothing(quiet):
    with ExitStack() as stack:
        line = stack.enter_context(wire(quiet.stack.port))
        near, far = stack.enter_context(hands(quiet)), stack.enter_context(hands(quiet, url=line.url))
        lost, committed = (send_to(quiet, each) for each in (near, far))
        with locked(quiet.database_url(), ACTION, lost.action_id):
            near.begin()
            quiet.until_blocked()
            cut = line.cut(START, loses=Lost.ANSWER, then=lambda: quiet.stack.kill("web"))
            far.begin()
            assert cut.done.wait(60), quiet.last_words()
        quiet.stack.start("web")
        assert [near.said(), far.said()] == ["success", "success"]
        is_done_once(quiet, lost)
        is_done_once(quiet, committed)


@pytest.mark.req("R-EX-03", "R-SM-21")
def test_a_web_process_killed_at_an_observation_loses_and_doubles_nothing(quiet):
    with ExitStack() as stack:
        line = stack.enter_context(wire(quiet.stack.port))
        held = stack.enter_context(ExitStack())

        def hold(work):
            held.enter_context(locked(quiet.database_url(), ACTION, work.action_id))

        near, far = stack.enter_context(hands(quiet, after=hold)), stack.enter_context(hands(quiet, url=line.url))
        lost, committed = (send_to(quiet, each) for each in (near, far))
        near.begin()
        quiet.until_blocked()
        cut = line.cut(OBSERVATION, loses=Lost.ANSWER, then=lambda: quiet.stack.kill("web"))
        far.begin()
        assert cut.done.wait(60), quiet.last_words()
        held.close()
        quiet.stack.start("web")
        assert refunds(quiet, lost) == 1
        assert [near.said(), far.said()] == ["success", "success"]
        is_done_once(quiet, lost)
        is_done_once(quiet, committed)
        assert [kept(quiet, each, "observation") for each in (lost, committed)] == [1, 1]


@pytest.mark.req("R-EX-03", "R-SM-21")
def test_a_web_process_killed_at_a_vote_loses_and_doubles_nothing(quiet):
    lost, committed = (quiet.send("small_refund", approved=True) for _ in range(2))
    approvals = [quiet.approval_of(each.action_id) for each in (lost, committed)]
    with wire(quiet.stack.port) as line, locked(quiet.database_url(), SUBJECT, lost.action_id):
        gone = threading.Thread(target=_unanswered, args=(quiet, approvals[0]), kwargs={"key": "first"})
        gone.start()
        quiet.until_blocked()
        cut = line.cut(VOTE, loses=Lost.ANSWER, then=lambda: quiet.stack.kill("web"))
        _unanswered(quiet, approvals[1], key="second", url=line.url)
        assert cut.done.wait(60), quiet.last_words()
        gone.join(60)
    quiet.stack.start("web")
    states = [quiet.reviewer.get(f"/approvals/{each['approval_id']}")["state"] for each in approvals]
    assert states == ["REQUESTED", "APPROVED"]
    # The same votes again: the first is taken now, the second gets its first answer.
    answers = [quiet.vote_on(approvals[0], key="first"), quiet.vote_on(approvals[1], key="second")]
    assert [each.status_code for each in answers] == [201, 201]
    assert quiet.vote_on(approvals[1]).json()["code"] == "ALREADY_DECIDED"
    for approval in approvals:
        shown = quiet.reviewer.get(f"/approvals/{approval['approval_id']}")
        assert (shown["state"], len(shown["votes"])) == ("APPROVED", 1)
    quiet.start("executor")
    is_done_once(quiet, lost)
    is_done_once(quiet, committed)


def _unanswered(ground, approval, **how):
    with pytest.raises(httpx.TransportError):
        ground.vote_on(approval, **how)


# Worker, beat, broker


@pytest.mark.req("R-RI-10", "R-SM-21")
def test_a_worker_killed_in_a_reading_or_a_verdict_loses_and_doubles_nothing(quiet):
    with ExitStack() as locks, hands(quiet) as near:
        shop = locks.enter_context(ExitStack())
        near.after = lambda work: shop.enter_context(locked(quiet.database_url("shop"), BOOKS))
        # This one is read, and its verdict waits for the action before it has sent anything: what has been sent
        # with its COMMIT would be committed without the worker.
        judged = send_to(quiet, near)
        near.begin()
        quiet.until_blocked("shop")
        locks.enter_context(locked(quiet.database_url(), SUBJECT, judged.action_id))
        shop.close()
        quiet.until_blocked()
        # This one cannot be read. Of a slow system nothing would be, while the one that reads those is held up.
        quiet.called_fast()
        unread = send_to(quiet, near)
        near.begin()
        quiet.until_blocked("shop")
        quiet.stack.kill("worker")
        assert [told(quiet, each) for each in (judged, unread)] == ["RESPONSE_RECEIVED_VERIFICATION_PENDING"] * 2
    assert [kept(quiet, each, "readback") for each in (judged, unread)] == [0, 0]
    quiet.stack.start("worker")
    for sent in (judged, unread):
        is_done_once(quiet, sent)
        assert kept(quiet, sent, "readback") == 1


@pytest.mark.req("R-RI-10", "R-SM-21")
def test_a_verdict_that_was_sent_is_committed_although_its_worker_is_killed(quiet):
    with ExitStack() as shop, hands(quiet) as near:
        near.after = lambda work: shop.enter_context(locked(quiet.database_url("shop"), BOOKS))
        sent = send_to(quiet, near)
        near.begin()
        quiet.until_blocked("shop")
        # The verdict is with the server, its COMMIT included, and waits there for the action's row.
        with locked(quiet.database_url(), ACTION, sent.action_id):
            shop.close()
            quiet.until_blocked()
            quiet.stack.kill("worker")
            assert told(quiet, sent) == "RESPONSE_RECEIVED_VERIFICATION_PENDING"
            assert kept(quiet, sent, "readback") == 0
        quiet.wait_for(sent.action_id, "RECONCILED_SUCCESS")
    quiet.stack.start("worker")
    is_done_once(quiet, sent)
    assert kept(quiet, sent, "readback") == 1


@pytest.mark.req("R-RI-10")
def test_a_killed_beat_does_not_prevent_a_verdict(quiet):
    quiet.stack.kill("beat")
    # The worker that reads hands over to itself; leases and sweeps wait for beat.
    sent = quiet.send("small_refund")
    quiet.start("executor")
    is_done_once(quiet, sent)
    quiet.stack.start("beat")
    assert quiet.honest(sent.action_id) == "RECONCILED_SUCCESS"


@pytest.mark.req("R-RI-10", "R-FB-12")
def test_a_broker_that_loses_all_data_loses_no_action(quiet):
    with hands(quiet) as near, ExitStack() as held:
        # A verdict is being written when the broker goes, and is written before it is back.
        held.enter_context(locked(quiet.database_url(), RUNS))
        before = send_to(quiet, near)
        near.begin()
        quiet.until_blocked()
        _lose_the_broker(quiet)
        held.close()
        quiet.wait_for(before.action_id, "RECONCILED_SUCCESS")
        # Work is taken and carried out; only nothing is confirmed.
        sent = send_to(quiet, near)
        near.begin()
        quiet.wait_for(sent.action_id, "PENDING")
        assert told(quiet, sent) == "RESPONSE_RECEIVED_VERIFICATION_PENDING"
        # The web process takes requests still; that the broker is away is told of the installation.
        assert quiet.operator.http.get("/readyz").status_code == 200
        status = quiet.operator.http.get("/statusz")
        failed = {each["code"] for each in status.json()["checks"] if each["state"] == "failed"}
        assert (status.status_code, "BROKER" in failed) == (503, True)
    quiet.stack.start("valkey")
    for each in (before, sent):
        is_done_once(quiet, each)
    assert all(quiet.stack.children[name].running() for name in ("web", "worker", "beat"))


# Everything


def test_after_all_processes_are_killed_at_once_everything_is_done_once(quiet):
    with hands(quiet) as near:
        settled = send_to(quiet, near)
        near.begin()
        quiet.wait_for(settled.action_id, "RECONCILED_SUCCESS")
        before = quiet.history(settled.action_id)
        quiet.stack.kill("beat")
        seen = send_to(quiet, near)
        near.begin()
        quiet.wait_for(seen.action_id, "PENDING")
    waiting, held = quiet.send("small_refund", approved=True), quiet.send("small_refund")
    with locked(quiet.database_url("shop"), ORDER, held.arguments["order_id"]):
        quiet.start("executor")
        quiet.until_blocked("shop")
        for name in (EXECUTOR, "web", "worker"):
            quiet.stack.kill(name)
        _lose_the_broker(quiet)
    quiet.restart()
    quiet.start("executor")
    is_done_once(quiet, seen)
    quiet.wait_for(held.action_id, "FAILED")
    assert (starts(quiet, held), refunds(quiet, held)) == (1, 0)
    assert quiet.history(settled.action_id) == before
    assert quiet.state(waiting.action_id) == "VALIDATED"
    quiet.approve(waiting.action_id)
    is_done_once(quiet, waiting)
    quiet.verify_ledger()


@pytest.mark.long
def test_an_unspent_grant_of_a_killed_executor_passes_to_another_one_once(quiet):
    """The order stays reserved for the life of the grant (120 s), and is then another's, once."""
    with hands(quiet) as near:
        sent = send_to(quiet, near)
    quiet.start("executor")
    quiet.wait_for(sent.action_id, "RECONCILED_SUCCESS", within_s=200)
    assert (starts(quiet, sent), refunds(quiet, sent)) == (1, 1)
    assert quiet.events(sent.action_id).count("grant_minted") == 2


def _lose_the_broker(ground):
    ground.stack.kill("valkey")
    shutil.rmtree(ground.stack.broker.folder / "appendonlydir")
