"""The executor loop against a console that loses answers, refuses and takes its time."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from counterfoil.canonical import digest
from counterfoil.executor import Executor, NotStarted, Order
from counterfoil.proof import read_claims
from counterfoil.work import NothingSent, Result, Work, failed, succeeded
from tests.client.consoles import PAYLOAD, Answer, refusal, stand_in, started

ORDER = Order("act-1", "refund", "1.0.0", "head.body.sign", "2999-01-01T00:00:00Z")
SILENT = Answer(silent=True)


@pytest.fixture
def console():
    with stand_in() as server:
        server.plan("/executions", started())
        server.plan("/observations", Answer(202, {"state": "PENDING"}))
        server.plan("/heartbeat", Answer(200, {"lease_expires_at": "2999-01-01T00:00:00Z"}))
        yield server


@pytest.fixture
def executor_for(console, tmp_path, monkeypatch):
    # A console of these tests never lets one wait.
    monkeypatch.setattr("counterfoil.executor.ASK_EVERY_S", 0.0)
    made = []

    def make(handler, **options):
        executor = Executor(
            url=console.url,
            key="cf_exec_test",
            executor_id="tester",
            key_file=tmp_path / "executor.jwk",
            handlers={"refund": handler},
            **{"report_for_s": 5.0, "timeout_s": 30, "wait_s": 1, "issuer": ""} | options,
        )
        made.append(executor)
        return executor

    yield make
    for executor in made:
        executor.close()


def _done(work):
    with work.effect("refund"):
        return succeeded("refund/1", "refund")


def _noting(runs, work):
    runs.append(work)
    return _done(work)


def _reported(console):
    return console.to("/observations")[-1].body["result"]


def _soon(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_handler_gets_the_stored_payload_with_key_and_trace(console, executor_for):
    seen: list[Work] = []
    executor_for(lambda work: _noting(seen, work)).execute(ORDER)
    assert seen[0].payload == PAYLOAD
    assert seen[0].idempotency_key == "key-1"
    assert seen[0].trace.trace_id == "a" * 32


def test_a_wrong_clock_is_reported_once_until_it_is_right_again(console, executor_for, caplog):
    console.ahead_s = -600.0
    console.plan("/executors", Answer(201))
    claims = []

    def claim(seen):
        if "start" in seen.body:
            return Answer(200, {"orders": []})
        claims.append(seen)
        console.ahead_s = {1: -600.0, 2: 0.0, 3: -600.0, 7: 0.0}.get(len(claims), console.ahead_s)
        if len(claims) == 9:
            executor.stop()
        return Answer(200, {"orders": []})

    console.plan("/executions/claim", claim)
    executor = executor_for(_done)
    with caplog.at_level(logging.INFO, "counterfoil.executor"):
        executor.run()
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("CLOCK")]
    assert len(said) == 2
    wrong = r"CLOCK: The console's clock is 600 s behind this host's\. Orders are judged by the console's clock: "
    assert re.match(wrong, said[0])
    assert said[1] == "CLOCK: this host's clock and the console's agree again."


def test_an_executor_that_may_not_wait_asks_again_after_a_pause(console, executor_for, monkeypatch):
    monkeypatch.setattr("counterfoil.executor.ASK_EVERY_S", 0.2)
    asked_at: list[float] = []

    def claim(seen):
        if "start" not in seen.body:
            asked_at.append(time.monotonic())
            if len(asked_at) == 3:
                executor.stop()
        return Answer(200, {"orders": []})

    console.plan("/executors", Answer(201))
    console.plan("/executions/claim", claim)
    executor = executor_for(_done)
    executor.run()
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(asked_at))


# What a claim has started


def claimed(**changes):
    """The answer to a claim that has started its order."""
    order = {"action_id": "act-1", "tool": "refund", "version": "1.0.0", "grant": "head.body.sign"}
    order |= {"grant_expires_at": "2999-01-01T00:00:00Z", "started": started().body | {"action_id": "act-1"}}
    return Answer(200, {"orders": [order | changes]})


def test_what_is_ready_is_claimed_and_started_by_one_request_and_run_once(console, executor_for):
    runs: list[Work] = []

    def refund(work):
        runs.append(work)
        executor.stop()
        return _done(work)

    console.plan("/executors", Answer(201))
    console.plan("/executions/claim", SILENT, claimed())
    executor = executor_for(refund)
    executor.run()
    asked = console.to("/executions/claim")
    assert len(asked) == 2
    assert len({each.headers["idempotency-key"] for each in asked}) == 1
    assert len({each.headers["dpop"] for each in asked}) == 2
    assert [read_claims(each.headers["dpop"])["htu"] for each in asked] == [
        f"{console.url}/api/v1/executions/claim"
    ] * 2
    assert all(each.body["start"] == {"wrapper_version": "1", "timeout_s": 30} for each in asked)
    assert all("wait_s" not in each.body for each in asked)
    assert [work.payload for work in runs] == [PAYLOAD]
    assert _reported(console)["status"] == "success"


def test_nothing_runs_of_what_was_started_under_a_grant_that_does_not_hold(console, executor_for):
    runs: list[Work] = []

    def claim(seen):
        executor.stop()
        return claimed()

    console.plan("/executors", Answer(201))
    console.plan("/executions/claim", claim)
    console.plan("/keys", Answer(200, {"keys": []}))
    executor = executor_for(lambda work: _noting(runs, work), issuer="https://console.example")
    executor.run()
    assert runs == []
    error = _reported(console)["error"]
    assert (error["code"], error["phase"]) == ("GRANT_REFUSED", "before_send")


def test_an_order_that_does_not_start_with_its_claim_keeps_no_other_from_running(console, executor_for):
    """The console starts all that is claimed by one request, or nothing of it."""
    other = {"action_id": "act-2", "tool": "refund", "version": "1.0.0", "grant": "head.body.sign"}
    other |= {"grant_expires_at": "2999-01-01T00:00:00Z"}

    def claim(seen):
        return refusal(409, "APPROVAL_EXPIRED") if "start" in seen.body else Answer(200, {"orders": [other]})

    def refund(work):
        executor.stop()
        return _done(work)

    console.plan("/executors", Answer(201))
    console.plan("/executions/claim", claim)
    executor = executor_for(refund)
    executor.run()
    assert _reported(console)["status"] == "success"
    assert [each.path for each in console.to("/executions")] == ["/api/v1/actions/act-2/executions"]


def test_an_executor_with_a_hash_of_its_own_looks_at_a_grant_before_it_starts(console, executor_for):
    def claim(seen):
        executor.stop()
        return Answer(200, {"orders": []})

    console.plan("/executors", Answer(201))
    console.plan("/executions/claim", claim)
    executor = executor_for(_done, own_hash=lambda order: None)
    executor.run()
    assert ["start" in each.body for each in console.to("/executions/claim")] == [False]


def test_the_result_is_reported_with_its_trace(console, executor_for):
    executor_for(_done).execute(ORDER)
    report = console.to("/observations")[0]
    assert report.path == "/api/v1/actions/act-1/executions/1/observations"
    assert report.headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert report.body["result"]["status"] == "success"
    assert report.body["result"]["evidence"] == "refund/1"
    assert report.body["result"]["error"] is None


def test_a_handler_may_be_awaited(console, executor_for):
    async def refund(work):
        await asyncio.sleep(0)
        return _done(work)

    executor_for(refund).execute(ORDER)
    assert _reported(console)["status"] == "success"


def test_each_write_carries_an_idempotency_key(console, executor_for):
    executor_for(_done).execute(ORDER)
    assert all(seen.headers["idempotency-key"] for seen in console.seen if seen.method == "POST")


def test_a_report_is_sent_again_and_the_effect_is_not_repeated(console, executor_for):
    runs: list[Work] = []
    console.plan("/observations", SILENT, refusal(503, "DOWN"), Answer(202, {"state": "PENDING"}))
    executor_for(lambda work: _noting(runs, work)).execute(ORDER)
    reports = console.to("/observations")
    assert len(runs) == 1
    assert len(reports) == 3
    assert len({report.headers["idempotency-key"] for report in reports}) == 1
    assert len({str(report.body) for report in reports}) == 1


def test_a_report_that_is_refused_for_good_is_not_sent_again(console, executor_for):
    console.plan("/observations", refusal(422, "NOT_CANONICAL"))
    executor_for(_done).execute(ORDER)
    assert len(console.to("/observations")) == 1


def test_a_start_without_an_answer_is_repeated_with_the_same_key_and_a_new_proof(console, executor_for):
    runs: list[Work] = []
    console.plan("/executions", SILENT, started())
    executor_for(lambda work: _noting(runs, work)).execute(ORDER)
    starts = console.to("/executions")
    assert len(runs) == 1
    assert len({start.headers["idempotency-key"] for start in starts}) == 1
    assert len({start.headers["dpop"] for start in starts}) == 2


def test_the_start_names_the_grant_and_the_attempts_time(console, executor_for):
    executor_for(_done, timeout_s=7).execute(ORDER)
    assert console.to("/executions")[0].body == {
        "grant": "head.body.sign",
        "executor_id": "tester",
        "wrapper_version": "1",
        "timeout_s": 7,
    }


@pytest.mark.parametrize("code", ["GRANT_CONSUMED", "TARGET_FROZEN", "PAYLOAD_HASH_MISMATCH"])
def test_a_refused_start_runs_nothing_and_reports_nothing(console, executor_for, code):
    runs: list[Work] = []
    console.plan("/executions", refusal(409, code))
    with pytest.raises(NotStarted, match="refund of action act-1 did not start") as refused:
        executor_for(lambda work: _noting(runs, work)).execute(ORDER)
    assert (refused.value.action_id, refused.value.code) == ("act-1", code)
    assert runs == []
    assert console.to("/observations") == []


def test_an_executor_may_present_the_hash_that_it_expects(console, executor_for):
    executor_for(_done, own_hash=lambda order: "f" * 64).execute(ORDER)
    assert console.to("/executions")[0].body["payload_hash"] == "f" * 64


def test_a_payload_with_another_hash_is_not_run(console, executor_for):
    runs: list[Work] = []
    console.plan("/executions", started(payload_hash=digest({"order_id": "EX-2"})))
    executor_for(lambda work: _noting(runs, work)).execute(ORDER)
    assert runs == []
    assert _reported(console)["error"]["code"] == "PAYLOAD_HASH_MISMATCH"
    assert _reported(console)["error"]["phase"] == "before_send"


def test_a_payload_without_canonical_form_is_not_run(console, executor_for):
    runs: list[Work] = []
    console.plan("/executions", started(payload={"amount": 12.5}))
    executor_for(lambda work: _noting(runs, work)).execute(ORDER)
    assert runs == []
    assert _reported(console)["error"]["phase"] == "before_send"


def test_no_effect_begins_after_the_lease_has_expired(console, executor_for):
    runs: list[Work] = []
    console.plan("/executions", started(lease_expires_at=_soon(-1)))
    executor_for(lambda work: _noting(runs, work)).execute(ORDER)
    assert runs == []
    assert _reported(console)["error"] == {
        "code": "LEASE_OVER",
        "message": "The lease was over before the effect could begin.",
        "phase": "before_send",
    }


def test_a_handler_that_takes_too_long_to_prepare_begins_no_effect(console, executor_for):
    console.plan("/executions", started(lease_expires_at=_soon(0.5)))
    console.plan("/heartbeat", SILENT)
    effects: list[int] = []

    def slow(work):
        time.sleep(0.8)
        with work.effect("refund"):
            effects.append(1)
        return succeeded("refund/1")

    executor_for(slow).execute(ORDER)
    assert effects == []
    assert _reported(console)["error"]["phase"] == "before_send"


def test_heartbeats_keep_a_lease_alive(console, executor_for):
    first_end = []

    def start(seen):
        first_end.append(time.monotonic() + 2)
        return started(lease_expires_at=_soon(2))

    console.plan("/executions", start)
    console.plan("/heartbeat", lambda seen: Answer(200, {"lease_expires_at": _soon(600)}))

    def slow(work):
        time.sleep(first_end[0] - time.monotonic() + 0.1)
        return _done(work)

    executor_for(slow).execute(ORDER)
    assert _reported(console)["status"] == "success"
    assert console.to("/heartbeat")[0].body == {"executor_id": "tester"}


def test_a_refused_heartbeat_ends_the_lease(console, executor_for):
    left = []
    console.plan("/executions", lambda seen: started(lease_expires_at=_soon(3)))
    console.plan("/heartbeat", refusal(409, "LEASE_OVER"))

    def slow(work):
        begun, left_at_first = time.monotonic(), work.lease.left_s()
        while work.lease.left_s() > 0:
            time.sleep(0.01)
        left.append(left_at_first - (time.monotonic() - begun))
        return _done(work)

    executor_for(slow).execute(ORDER)
    assert left[0] > 0.1, "it ended by itself"
    assert _reported(console)["error"]["code"] == "LEASE_OVER"


def _says_nothing_was_sent(work):
    raise NothingSent("OUT_OF_STOCK", "There is none left.")


def _says_so_after_it_began(work):
    with work.effect("refund"):
        raise NothingSent("OUT_OF_STOCK", "There is none left.")


def _breaks(work):
    raise ValueError("no")


def _times_out(work):
    raise TimeoutError("too long")


def _answers_nonsense(work):
    return "done"


@pytest.mark.parametrize(
    ("handler", "status", "code", "phase"),
    [
        (_says_nothing_was_sent, "failed", "OUT_OF_STOCK", "before_send"),
        (_says_so_after_it_began, "failed", "OUT_OF_STOCK", "after_send"),
        (_breaks, "failed", "TOOL_RAISED", "unknown"),
        (_times_out, "timeout", "TOOL_TIMEOUT", "unknown"),
        (_answers_nonsense, "failed", "TOOL_RAISED", "unknown"),
        (lambda work: failed("STALE", "Moved."), "failed", "STALE", "after_send"),
    ],
)
def test_every_error_of_a_handler_is_reported(console, executor_for, handler, status, code, phase):
    executor_for(handler).execute(ORDER)
    result = _reported(console)
    assert result["status"] == status
    assert result["error"]["code"] == code
    assert result["error"]["phase"] == phase


def test_an_interrupted_handler_is_reported_and_the_process_still_ends(console, executor_for):
    def ended(work):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor_for(ended).execute(ORDER)
    assert _reported(console)["error"]["phase"] == "unknown"


def test_output_without_canonical_form_does_not_stop_the_report(console, executor_for):
    executor_for(lambda work: Result("success", raw={"at": 1.5, "who": object()})).execute(ORDER)
    assert "1.5" in console.to("/observations")[0].body["raw"]


def test_the_loop_registers_its_public_key_claims_and_stops(console, executor_for):
    order = {
        "action_id": "act-1",
        "tool": "refund",
        "version": "1.0.0",
        "grant": "head.body.sign",
        "grant_expires_at": "2999-01-01T00:00:00Z",
    }
    runs: list[Work] = []
    console.plan("/executors", SILENT, Answer(200, {"executor_id": "tester"}))
    console.plan("/claim", Answer(200, {"orders": [order]}), Answer(200, {"orders": []}))
    executor = executor_for(lambda work: _noting(runs, work))
    thread = threading.Thread(target=executor.run)
    thread.start()
    end = time.monotonic() + 5
    while not console.to("/observations") and time.monotonic() < end:
        time.sleep(0.02)
    executor.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert len(runs) == 1
    registered = console.to("/executors")[-1].body
    assert registered["tools"] == ["refund"]
    assert set(registered["public_jwk"]) == {"crv", "kty", "x"}
    # The console started nothing with the first claim, so its grant was redeemed. A claim that waits starts nothing.
    asked = {"executor_id": "tester", "tools": ["refund"], "limit": 1}
    assert console.to("/claim")[0].body == asked | {"start": {"wrapper_version": "1", "timeout_s": 30}}
    assert all(claim.body == asked | {"wait_s": 1} for claim in console.to("/claim") if "start" not in claim.body)
    assert len(console.to("/executions")) == 1


def test_a_proof_uses_the_time_of_a_console_whose_clock_differs(console, executor_for):
    console.ahead_s = 3600.0
    console.plan("/executors", Answer(200, {}))
    console.plan("/executions", started(lease_expires_at=_soon(3605)))
    executor = executor_for(_done)
    executor.register()
    executor.execute(ORDER)
    proof = console.to("/executions")[0].headers["dpop"]
    assert abs(read_claims(proof)["iat"] - time.time() - 3600) < 3
    assert _reported(console)["status"] == "success"
