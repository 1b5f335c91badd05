"""The example's programs as real processes, against the stand-in console."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from counterfoil.canonical import digest
from counterfoil.proof import encode_base64url
from example.environment import Missing, seconds
from example.executor import TOOLS
from example.faults import Fault
from example.stage import refund_of
from tests.client.consoles import Answer, claims_of, granted, stand_in, started


@pytest.fixture
def console():
    with stand_in() as server:
        server.plan("/executors", Answer(200, {}))
        server.plan("/observations", Answer(202, {"state": "PENDING"}))
        server.plan("/heartbeat", Answer(200, {}))
        server.plan("/claim", Answer(200, {"orders": []}))
        yield server


@pytest.fixture
def environment(console, place, tmp_path):
    return {
        **os.environ,
        "PYTHONPATH": "client",
        "COUNTERFOIL_URL": console.url,
        "COUNTERFOIL_AGENT_KEY": "cf_agent_x",
        "COUNTERFOIL_EXECUTOR_KEY": "cf_exec_x",
        "COUNTERFOIL_OPERATOR_KEY": "cf_oper_x",
        "COUNTERFOIL_EXAMPLE_STATE": str(tmp_path / "state"),
        "SHOP_ADMIN_URL": place.admin_url,
        "SHOP_DATABASE_URL": place.writer_url,
        "SHOP_READER_URL": place.reader_url,
        "SHOP_VALKEY_URL": place.shop.valkey_url,
        "SHOP_FOLDER": str(place.shop.folder),
    }


@pytest.fixture
def start(environment):
    children = []

    def one(*arguments):
        command = [sys.executable, "-m", "example", *arguments]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield one
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def order_for(console, stage):
    """Offer one refund to whoever claims; the order that it is about."""

    def offer(fault=None):
        order = stage.order(fault=fault)
        payload = refund_of(order)

        def offered(_seen):
            told = console.to("/executors")[-1].body
            bound = {"executor_id": told["executor_id"], "thumbprint": thumbprint_of(told["public_jwk"])}
            one = {
                "action_id": "act-1",
                "tool": "refund_small_amount",
                "version": "1.0.0",
                "grant": granted(claims_of(issuer=console.url, payload=payload, **bound)),
                "grant_expires_at": "2999-01-01T00:00:00Z",
            }
            return Answer(200, {"orders": [one]})

        console.plan("/claim", offered, slow_and_empty)
        answer = started(payload=payload, payload_hash=digest(payload), idempotency_key=order.order_id)
        console.plan("/executions", answer)
        return order, payload

    return offer


def thumbprint_of(jwk):
    return encode_base64url(bytes.fromhex(digest({name: jwk[name] for name in ("crv", "kty", "x")})))


def slow_and_empty(_seen):
    time.sleep(0.2)
    return Answer(200, {"orders": []})


def _until(condition, seconds=15.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def test_the_executor_refunds_reports_and_stops_on_request(console, place, order_for, start):
    order, _ = order_for()
    child = start("executor")
    report = _until(lambda: console.to("/observations"))[0]
    assert report.body["result"]["status"] == "success"
    assert len(place.rows("refunds", order_id=order.order_id)) == 1
    child.send_signal(signal.SIGTERM)
    assert child.wait(5) == 0


@pytest.mark.parametrize(("fault", "written"), [(Fault.DIES_AFTER_WRITE, 1), (Fault.DIES_BEFORE_WRITE, 0)])
def test_an_executor_that_dies_reports_no_result(console, place, order_for, start, fault, written):
    order, _ = order_for(fault)
    child = start("executor")
    assert child.wait(20) == -signal.SIGKILL
    assert len(console.to("/executions")) == 1
    assert console.to("/observations") == []
    assert len(place.rows("refunds", order_id=order.order_id)) == written


def test_an_executor_told_to_be_wrong_presents_another_payload(console, stage, order_for, start):
    _, payload = order_for()
    stage.fail_payload(payload)
    start("executor")
    presented = _until(lambda: console.to("/executions"))[0]
    assert presented.body["payload_hash"] not in (None, digest(payload))


def test_the_executor_keeps_its_key_across_restarts(console, start):
    console.plan("/claim", slow_and_empty)
    keys = []
    for _ in range(2):
        console.seen.clear()
        child = start("executor")
        keys.append(_until(lambda: console.to("/executors"))[0].body["public_jwk"])
        child.send_signal(signal.SIGTERM)
        child.wait(5)
    assert keys[0] == keys[1]


def test_a_scenario_sends_one_case_and_prints_the_answer(console, start):
    session = {"session_id": "ses-1", "contract": {}, "pin": {"hash": "0" * 64}}
    console.plan("/sessions", Answer(201, session))
    accepted = {"call_id": "c", "accepted": True, "action_id": "act-9", "state": "VALIDATED"}
    console.plan("/calls", Answer(200, {"results": [accepted]}))
    out, _ = start("scenario", "--case", "no_effect").communicate(timeout=20)
    sent = json.loads(out)
    assert sent["action_id"] == "act-9"
    assert sent["tool"] == "refund_small_amount"
    assert sent["goal"].startswith("Example: tool says success, row unchanged.")
    assert console.to("/calls")[0].body["calls"][0]["goal"] == sent["goal"]


def test_setting_up_and_registering_can_be_repeated(console, start):
    for path in ("/systems", "/contracts", "/agents"):
        console.plan(path, Answer(201, {}), Answer(409, {"code": "EXISTS"}))
    for program in ("setup", "setup", "register", "register"):
        child = start(program)
        _, said = child.communicate(timeout=30)
        assert child.returncode == 0, said
    assert len(console.to("/contracts")) == 2 * len(TOOLS)
    assert len(console.to("/systems")) == 6


def test_a_missing_setting_is_one_sentence(environment, start):
    del environment["COUNTERFOIL_URL"]
    child = start("register")
    _, said = child.communicate(timeout=20)
    assert child.returncode == 1
    assert said.strip().startswith("COUNTERFOIL_URL is not set;")
    assert "Traceback" not in said


def test_the_consumer_stops_on_request(start):
    child = start("consumer")
    # Long enough for a busy machine to have started it.
    timer = threading.Timer(5, child.send_signal, [signal.SIGTERM])
    timer.start()
    assert child.wait(20) == 0
    timer.join()


@pytest.mark.parametrize("said", ["soon", "0", "-1", "1.5"])
def test_an_invalid_time_setting_is_reported_in_one_sentence(monkeypatch, said):
    monkeypatch.setenv("COUNTERFOIL_EXAMPLE_TIMEOUT_S", said)
    with pytest.raises(Missing, match=f"must be a whole number of seconds, not '{said}'"):
        seconds("COUNTERFOIL_EXAMPLE_TIMEOUT_S", 5)
