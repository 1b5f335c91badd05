"""An executor keeps which orders it started, and tells a console that may have forgotten them."""

from __future__ import annotations

import json
import time

from counterfoil.execution.kept import KEPT_FOR_S, KeptStarts
from counterfoil.executor import Executor, Order
from counterfoil.work import succeeded
from tests.client.consoles import Answer, stand_in, started

ORDER = Order("act-1", "refund", "1.0.0", "head.body.sign", "2999-01-01T00:00:00Z")


def test_a_start_is_kept_before_its_effect_and_told_when_the_executor_registers(tmp_path):
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


def test_a_torn_line_is_skipped_and_old_ones_are_dropped(tmp_path):
    file = tmp_path / "kept"
    old = {"action_id": "a", "attempt": 1, "at": time.time() - KEPT_FOR_S - 1, "tool": "refund"}
    new = {"action_id": "b", "attempt": 1, "at": time.time(), "tool": "refund"}
    file.write_text(json.dumps(old) + "\n" + json.dumps(new) + "\n" + '{"action_id": "c", "att')
    starts = KeptStarts(file)
    assert [each["action_id"] for each in starts.recent()] == ["b"]
    starts.note("b", "1", status="success")
    assert [(each["action_id"], each["status"]) for each in KeptStarts(file).recent()] == [("b", "success")]
