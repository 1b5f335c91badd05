"""An executor keeps what it has seen of the console and what it started, and starts nothing for one that has gone
back.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from typing import Any

import pytest

from counterfoil.execution.kept import KEPT_FOR_S, KeptStarts
from counterfoil.execution.seen import HEADER, RecordBehind, SeenCheckpoints, SeenFileUnusable
from counterfoil.executor import Executor, Order
from counterfoil.work import Work, succeeded
from tests.client.consoles import BASE, Answer, StandIn, note, refusal, sent, stand_in, started

ORDER = Order("act-1", "refund", "1.0.0", "head.body.sign", "2999-01-01T00:00:00Z")


@pytest.fixture
def console():
    with stand_in() as server:
        server.plan("/observations", Answer(202, {"state": "PENDING"}))
        server.plan("/heartbeat", Answer(200, {"lease_expires_at": "2999-01-01T00:00:00Z"}))
        yield server


@pytest.fixture
def executor_for(console, tmp_path):
    made = []

    def make(runs: list[Work]) -> Executor:
        def refund(work: Work):
            runs.append(work)
            with work.effect("refund"):
                return succeeded("refund/1", "refund")

        options = {"report_for_s": 1.0, "timeout_s": 30, "wait_s": 0, "issuer": ""}
        made.append(
            Executor(
                url=console.url,
                key="cf_exec_test",
                executor_id="tester",
                key_file=tmp_path / "executor.jwk",
                handlers={"refund": refund},
                **options,
            )
        )
        return made[-1]

    yield make
    for executor in made:
        executor.close()


def stand(console: StandIn, size: int, **more: Any) -> None:
    """The console's record has this size from now on, and its starts succeed."""
    body = started().body
    console.plan("/executions", Answer(201, body, sent(size, **more)))
    console.plan("/ledger/standing", Answer(200, {"starts": True}, sent(size, **more)))


def test_an_executor_sends_what_it_has_seen_and_keeps_it_over_a_restart(console, executor_for, tmp_path):
    runs: list[Work] = []
    stand(console, 9)
    executor_for(runs).execute(ORDER)
    kept = json.loads((tmp_path / "executor.jwk.seen").read_text())
    assert kept == {BASE: note(9)}
    executor_for(runs).execute(ORDER)
    assert console.to("/executions")[-1].headers[HEADER.lower()] == sent(9)[HEADER]
    assert len(runs) == 2


@pytest.mark.parametrize(
    "now", [{"size": 8}, {"size": 9, "root": b"\x02" * 32}], ids=["smaller", "another history of the same size"]
)
def test_nothing_runs_for_a_console_whose_record_has_gone_back_in_time(console, executor_for, now):
    runs: list[Work] = []
    stand(console, 9)
    executor_for(runs).execute(ORDER)
    stand(console, **now)
    with pytest.raises(RecordBehind, match="has gone back") as behind:
        executor_for(runs).execute(ORDER)
    assert behind.value.exit_code == 75
    assert len(runs) == 1
    told = console.to("/observations")[-1].body["result"]
    assert (told["error"]["code"], told["error"]["phase"]) == ("RECORD_BEHIND", "before_send")


def test_the_loop_ends_with_the_reason_when_the_console_refuses_because_of_the_seen_checkpoint(console, executor_for):
    runs: list[Work] = []
    console.plan("/executors", Answer(201, {}, sent(9)))
    console.plan("/claim", refusal(409, "RECORD_BEHIND"))
    stand(console, 8)
    with pytest.raises(RecordBehind, match="log restored"):
        executor_for(runs).run()
    assert console.to("/claim")[-1].headers[HEADER.lower()] == sent(9)[HEADER]


def test_a_newer_log_that_an_operator_opened_is_accepted(console, executor_for, tmp_path):
    runs: list[Work] = []
    stand(console, 9)
    executor_for(runs).execute(ORDER)
    stand(console, 2, origin=f"{BASE}/2")
    executor_for(runs).execute(ORDER)
    assert len(runs) == 2
    assert json.loads((tmp_path / "executor.jwk.seen").read_text()) == {BASE: note(2, origin=f"{BASE}/2")}
    stand(console, 20)
    with pytest.raises(RecordBehind):
        executor_for(runs).execute(ORDER)


def test_an_override_by_a_person_lets_an_order_run(console, executor_for):
    runs: list[Work] = []
    stand(console, 9)
    executor_for(runs).execute(ORDER)
    stand(console, 8)
    allowed = Order(ORDER.action_id, ORDER.tool, ORDER.version, ORDER.grant, ORDER.grant_expires_at, None, "over-1")
    executor_for(runs).execute(allowed)
    assert len(runs) == 2


def test_a_checkpoint_overtaken_by_a_newer_one_does_not_stop_the_executor(console, executor_for):
    """Two web processes: one answers with what it read half a second ago."""
    runs: list[Work] = []
    stand(console, 9)
    executor_for(runs).execute(ORDER)
    stand(console, 8)
    console.plan("/ledger/standing", Answer(200, {"starts": True}, sent(10)))
    executor_for(runs).execute(ORDER)
    assert len(runs) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": "b"}', json.dumps({"another": note(9)})])
def test_a_broken_file_is_never_overwritten(executor_for, tmp_path, content):
    file = tmp_path / "executor.jwk.seen"
    file.write_text(content)
    with pytest.raises(SeenFileUnusable, match="cannot be read"):
        executor_for([])
    assert file.read_text() == content


def test_a_file_that_cannot_be_written_stops_the_next_start(console, executor_for, tmp_path):
    runs: list[Work] = []
    stand(console, 9)
    executor = executor_for(runs)
    (tmp_path / "executor.jwk.seen").mkdir()
    with pytest.raises(SeenFileUnusable):
        executor.execute(ORDER)
    assert not runs


def _raise_to(file, sizes):
    for size in sizes:
        SeenCheckpoints(file).see(sent(size))


def test_processes_that_share_a_file_never_lower_it(tmp_path):
    file = tmp_path / "seen"
    fork = multiprocessing.get_context("fork")
    both = [fork.Process(target=_raise_to, args=(file, range(start, 60, 2))) for start in (1, 2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.exitcode for each in both] == [0, 0]
    assert json.loads(file.read_text()) == {BASE: note(59)}
    stale = SeenCheckpoints(file)
    SeenCheckpoints(file).see(sent(70))
    stale.see(sent(65))
    assert json.loads(file.read_text()) == {BASE: note(70)}


def test_a_start_is_written_down_before_its_effect_and_reported_when_the_executor_registers(tmp_path):
    file = tmp_path / "executor.jwk.kept"
    seen_in_the_handler: list[str] = []

    def refund(work):
        seen_in_the_handler.append(file.read_text())
        with work.effect("refund"):
            return succeeded("refund/1", "refund")

    with stand_in() as console:
        console.plan("/executions", started())
        console.plan("/observations", Answer(202, {"state": "PENDING"}))
        console.plan("/executors", Answer(201, {}))
        console.plan("/kept", Answer(200, {"unrecorded": 1}))
        options = {"report_for_s": 1.0, "timeout_s": 30, "wait_s": 0, "issuer": ""}
        executor = Executor(
            url=console.url,
            key="cf_exec_test",
            executor_id="tester",
            key_file=tmp_path / "executor.jwk",
            handlers={"refund": refund},
            **options,
        )
        executor.register()
        assert console.to("/kept") == []
        executor.execute(ORDER)
        executor.register()
        executor.close()
    assert "act-1" in seen_in_the_handler[0]
    [told] = console.to("/kept")[-1].body["starts"]
    assert (told["action_id"], told["attempt"], told["tool"], told["status"]) == ("act-1", 1, "refund", "success")
    assert told["payload_hash"]
    assert "amount" not in file.read_text()


def test_an_incomplete_line_is_skipped_and_old_ones_are_dropped(tmp_path):
    file = tmp_path / "kept"
    old = {"action_id": "a", "attempt": 1, "at": time.time() - KEPT_FOR_S - 1, "tool": "refund"}
    new = {"action_id": "b", "attempt": 1, "at": time.time(), "tool": "refund"}
    file.write_text(json.dumps(old) + "\n" + json.dumps(new) + "\n" + '{"action_id": "c", "att')
    starts = KeptStarts(file)
    assert [each["action_id"] for each in starts.recent()] == ["b"]
    starts.note("b", "1", status="success")
    assert [(each["action_id"], each["status"]) for each in KeptStarts(file).recent()] == [("b", "success")]
