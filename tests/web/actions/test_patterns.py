"""Hallucinated success: each pattern is brought about on real systems and stopped (tables/hs_patterns.json).

Phantom execution (HS-01) is shown as far as the record goes: the guard over an agent's words is not part of it yet.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis
from django.db import connections

from console.calls.context import patterns_in_period
from ledger.db import tenancy
from tests.peers.support.standby import standby
from tests.support.api_tenant import Clock, workshop
from tests.support.browser_users import words
from tests.support.callers import Api, new_client
from tests.support.refund_shop import ORDER, TOOL, Counter, refund_contract

OPEN = ("COMPLETED", "FAILED")


@pytest.fixture
def desk(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir)


def read(counter: Counter, started: dict[str, Any], clock: Clock, **later: float) -> str:
    clock.forward(**(later or {"seconds": 30}))
    counter.read_back(started["action_id"], clock)
    return counter.state(started["action_id"])


def told(counter: Counter, started: dict[str, Any]) -> tuple[str, bool]:
    report = counter.report(started["action_id"])
    return report["code"], report["completed"]


# HS-01


@pytest.mark.req("R-EX-25")
def test_an_action_that_was_never_proposed_has_no_report_and_supports_no_dependency(desk: Counter):
    claimed = desk.agent.get(f"/actions/{uuid4()}/report")
    assert claimed.status_code == 404
    leaning = desk.call(TOOL, ORDER, depends_on=[str(uuid4())])
    assert leaning["result"]["error"]["code"] == "UNRESOLVED_DEPENDENCY"
    ran = desk.begun()
    entry = desk.operator_key.get(f"/actions/{ran['action_id']}").json()["entry"]
    assert len(entry["trace"]["trace_id"]) == 32


# HS-02


@pytest.mark.req("R-HS-02")
def test_a_refused_payload_is_a_typed_failure_and_reaches_no_provider(desk: Counter):
    refused = desk.call(TOOL, ORDER | {"amount": "a lot"})
    assert (refused["accepted"], refused["state"]) == (False, "FAILED")
    assert refused["result"]["error"]["code"] == "TYPE_COERCION"
    assert refused["user_status"]["code"] == "NOT_EXECUTED"
    assert desk.claim() == []
    assert desk.till.count() == 0


# HS-03


@pytest.mark.req("R-HS-03")
def test_accepted_work_is_not_reported_as_completed(desk: Counter, clock: Clock):
    started = desk.begun()
    desk.tell(started, "accepted", evidence=None)
    assert told(desk, started) == ("RESPONSE_RECEIVED_VERIFICATION_PENDING", False)
    assert read(desk, started, clock, seconds=5) == "PENDING"
    assert told(desk, started)[1] is False
    desk.till.refund(started["idempotency_key"])
    assert read(desk, started, clock) == "RECONCILED_SUCCESS"


# HS-04


@pytest.mark.req("R-HS-04")
def test_one_of_two_effects_is_shown_as_partial(counter: Counter, clock: Clock, secrets_dir: Path):
    document = refund_contract(required_effects=["refund", "notice"])
    notice = {"table": "notices", "where": {"key": "scope.idempotency_key"}, "target_column": "order_id"}
    document["verification"]["lookup"]["effects"]["notice"] = notice
    counter.open(secrets_dir, document)
    started = counter.begun()
    counter.till.refund(started["idempotency_key"])
    counter.tell(started)
    read(counter, started, clock)
    assert "PARTIALLY_COMMITTED" in counter.path(started["action_id"])
    run = counter.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
    assert [(one["name"], one["found"]) for one in run["effects"]] == [("refund", "PRESENT"), ("notice", "ABSENT")]
    report = counter.report(started["action_id"])
    assert report["text"].startswith("Done in part: refund took effect; notice did not take effect.")
    assert report["completed"] is False


# HS-05


@pytest.mark.req("R-HS-05")
def test_a_timeout_is_neither_a_failure_nor_a_success_before_a_reading(desk: Counter, clock: Clock):
    started = desk.begun()
    desk.till.refund(started["idempotency_key"])
    desk.tell(started, "timeout", evidence=None)
    assert desk.state(started["action_id"]) == "UNKNOWN"
    assert told(desk, started)[0] not in OPEN
    assert read(desk, started, clock) == "RECONCILED_SUCCESS"
    assert told(desk, started) == ("COMPLETED", True)


# HS-06


@pytest.fixture
def open_desk(committed_db: Any, secrets_dir: Path, till: Any, settings: Any) -> Counter:
    """The desk in a database where commits are real."""
    from tests.support.refund_shop import counter

    return counter(workshop("orchid"), till).open(secrets_dir)


@pytest.mark.req("R-HS-06", "R-EX-03")
def test_the_same_call_five_times_at_once_refunds_once(open_desk: Counter):
    session = open_desk.session()
    call = {"call_id": "the-same", "tool": TOOL, "arguments": ORDER, "pin_hash": session["pin"]["hash"]}

    def send(_: int) -> Any:
        caller = Api(new_client(), open_desk.agent.headers)
        try:
            return caller.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(send, range(5)))
    actions = {answer["action_id"] for answer in answers if answer["accepted"]}
    assert len(actions) == 1
    for action_id in actions:
        open_desk.vote(open_desk.approval_of(action_id))
    for order in open_desk.claim():
        answer = open_desk.start(order)
        if answer.status_code == 201:
            open_desk.till.refund(answer.json()["idempotency_key"])
    assert open_desk.claim() == []
    assert open_desk.till.count() == 1


# HS-07


@pytest.mark.req("R-HS-07")
def test_a_lagging_standby_confirms_nothing(desk: Counter, clock: Clock, secrets_dir: Path, cluster: Any, run: Any):
    credential = secrets_dir / "systems" / "orchid" / "till.json"
    primary = credential.read_text()
    started = desk.begun()
    desk.till.refund(started["idempotency_key"])
    desk.tell(started)

    def fill(connection: psycopg.Connection) -> None:
        connection.execute(
            "CREATE TABLE refunds (id bigint, key text, order_id text, tenant text, amount bigint, currency text,"
            " status text, actor text)"
        )
        row = [started["idempotency_key"], *ORDER.values()]
        connection.execute("INSERT INTO refunds VALUES (1, %s, %s, 'orchid', %s, %s, 'succeeded', 'runner')", row)

    with standby(cluster, run.folder, fill) as url:
        credential.write_text(json.dumps({"url": url}))
        assert read(desk, started, clock) == "PENDING"
        newest = desk.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
        assert newest["recovery_decision"] == "RT-02 FORCE_STRONG_READ"
        assert newest["sources"][0]["consistency"] == "REPLICA"
        assert told(desk, started)[1] is False
    credential.write_text(primary)
    assert read(desk, started, clock) == "RECONCILED_SUCCESS"


# HS-08


class Processor(BaseHTTPRequestHandler):
    """The processor's list of charges, behind a cache that can be switched on."""

    charges: list[dict[str, Any]] = []
    cached = False

    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": self.charges, "has_more": False}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if Processor.cached:
            self.send_header("Age", "90")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing to say."""


@pytest.fixture
def processor() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Processor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Processor.charges, Processor.cached = [], False
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.req("R-HS-08")
def test_a_reading_from_a_cache_is_marked_and_reconciles_nothing(
    counter: Counter, clock: Clock, secrets_dir: Path, processor: str
):
    charge = {"kind": "charge", "match": {"metadata.key": "scope.idempotency_key"}, "target_field": "metadata.order"}
    document = refund_contract(
        verification={
            "pattern": "payments",
            "system": "processor",
            "lookup": {"effects": {"refund": charge}},
            "predicates": ["sa.amount == sr.amount", "sa.status == 'succeeded'"],
        }
    )
    counter.open(secrets_dir, document)
    counter.operator_key.post("/systems", {"name": "processor", "pattern": "payments", "settings": {"url": processor}})
    (secrets_dir / "systems" / "orchid" / "processor.json").write_text(
        json.dumps({"token": "rk_test", "url": processor})
    )
    started = counter.begun()
    named = {"key": started["idempotency_key"], "order": ORDER["order_id"]}
    made = {"id": "ch_1", "object": "charge", "amount": 1250, "currency": "eur", "status": "succeeded"}
    Processor.charges, Processor.cached = [made | {"metadata": named, "created": 1}], True
    counter.tell(started)
    assert read(counter, started, clock) == "PENDING"
    newest = counter.auditor.get(f"/actions/{started['action_id']}/runs").json()["items"][0]
    assert newest["sources"][0]["consistency"] == "CACHE"
    assert told(counter, started)[1] is False
    Processor.cached = False
    assert read(counter, started, clock) == "RECONCILED_SUCCESS"


# HS-09


@pytest.mark.req("R-HS-09")
def test_a_published_message_counts_as_done_once_it_was_handled(
    counter: Counter, clock: Clock, secrets_dir: Path, valkey_url: str
):
    published = {
        "stream": "'till:events'",
        "match": {"key": "scope.idempotency_key"},
        "group": "'mailer'",
        "target_field": "order_id",
        "fields": ["order_id", "amount"],
    }
    document = refund_contract(
        verification={
            "pattern": "queues_events",
            "system": "events",
            "lookup": {"effects": {"refund": published}},
            "predicates": ["sa.amount == string(sr.amount)"],
        }
    )
    counter.open(secrets_dir, document)
    counter.operator_key.post("/systems", {"name": "events", "pattern": "queues_events", "settings": {}})
    (secrets_dir / "systems" / "orchid" / "events.json").write_text(json.dumps({"url": valkey_url}))
    started = counter.begun()
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        client.xgroup_create("till:events", "mailer", id="0", mkstream=True)
        fields = {"key": started["idempotency_key"], "order_id": ORDER["order_id"], "amount": "1250"}
        client.xadd("till:events", fields)
        counter.tell(started)
        assert read(counter, started, clock) == "PENDING"
        assert told(counter, started)[1] is False
        ((_, ((number, _),)),) = client.xreadgroup("mailer", "m-1", {"till:events": ">"})
        client.xack("till:events", "mailer", number)
    assert read(counter, started, clock) == "RECONCILED_SUCCESS"


# HS-10


@pytest.mark.req("R-HS-10")
def test_free_text_that_says_completed_is_not_a_success(desk: Counter, clock: Clock):
    started = desk.begun()
    answer = desk.observe(started, result="Traceback: timed out. Refund completed successfully.")
    assert answer.status_code == 202
    observed = next(each for each in desk.history(started["action_id"]) if each["event"] == "observed")
    assert observed["detail"]["status"] == "malformed"
    assert told(desk, started)[1] is False
    assert read(desk, started, clock, seconds=90) == "FAILED"


# HS-11


@pytest.mark.req("R-HS-11")
def test_completed_is_never_reported_before_it_is_on_record(desk: Counter, clock: Clock):
    started = desk.begun()

    def honest() -> bool:
        history = [each["state"] for each in desk.history(started["action_id"])]
        return told(desk, started)[1] is ("RECONCILED_SUCCESS" in history)

    assert honest()
    desk.tell(started)
    assert honest()
    read(desk, started, clock, seconds=1)
    assert honest()
    desk.till.refund(started["idempotency_key"])
    assert honest()
    assert read(desk, started, clock) == "RECONCILED_SUCCESS"
    assert honest()


# HS-12


@pytest.mark.req("R-HS-12", "R-RB-09")
@pytest.mark.parametrize("hit", [{"tenant": "willow", "order_id": "EX-6666"}, {"order_id": "EX-6666"}])
def test_another_order_than_the_authorised_one_is_frozen_too_and_opens_an_incident(
    desk: Counter, clock: Clock, hit: dict[str, str]
):
    started = desk.begun()
    desk.till.refund(started["idempotency_key"], **hit)
    desk.tell(started)
    assert read(desk, started, clock) == "REVIEW_REQUIRED"
    entry = desk.operator_key.get(f"/actions/{started['action_id']}").json()["entry"]
    assert entry["reconciliation"]["discrepancy_class"] == "WRONG_TARGET_MODIFIED"
    [incident] = desk.operator.get("/incidents").json()["items"]
    assert entry["recovery"]["incident_id"] == incident["incident_id"]
    frozen = {each["value"] for each in desk.operator.get("/freezes").json()["items"]}
    assert frozen == {"order/EX-1001", "order/EX-6666"}
    report = desk.report(started["action_id"])
    assert (report["text"], report["completed"]) == ("Not settled. It waits for a person to review it.", False)
    page = words(desk.operator.client.get(f"/t/orchid/actions/{started['action_id']}").content.decode())
    assert "Needs review: wrong target changed" in page
    with tenancy(desk.tenant):
        met = patterns_in_period(
            desk.tenant, since=clock.now() - timedelta(days=1), until=clock.now() + timedelta(days=1)
        )
    assert {code for code, times in met.items() if times} == {"HS-12"}


# HS-14


@pytest.mark.req("R-HS-14")
def test_an_ambiguous_answer_is_unknown_on_api_page_and_ledger(desk: Counter):
    started = desk.begun()
    desk.tell(started, "timeout", evidence=None)
    shown = desk.operator_key.get(f"/actions/{started['action_id']}").json()
    assert shown["state"] == "UNKNOWN"
    assert shown["entry"]["execution"]["status"] == "UNKNOWN"
    page = desk.operator.client.get(f"/t/orchid/actions/{started['action_id']}").content.decode()
    assert "unknown" in page.lower()
    assert told(desk, started)[0] not in OPEN
