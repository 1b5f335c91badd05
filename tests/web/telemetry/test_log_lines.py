"""Log lines: one JSON object each, named after request, trace and tenant, and never with a word that somebody sent."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DataError, connection
from django.http import HttpResponse

from console.celery import app
from console.telemetry.json_lines import JsonFormatter
from console.telemetry.logging_lines import LineFormatter
from tests.support.api_tenant import Clock, Workshop, result

CANARY = "canary-7f3a-sings"
TRACE = "c" * 32


class Lines:
    """What the product would have logged, as JSON and as plain lines."""

    def __init__(self) -> None:
        self.json, self.plain = io.StringIO(), io.StringIO()

    @property
    def text(self) -> str:
        return self.json.getvalue() + self.plain.getvalue()

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.json.getvalue().splitlines()]

    def named(self, event: str) -> dict[str, Any]:
        return next(line for line in self.read() if event in line["event"])


@pytest.fixture
def lines() -> Iterator[Lines]:
    found = Lines()
    handlers = [logging.StreamHandler(found.json), logging.StreamHandler(found.plain)]
    handlers[0].setFormatter(JsonFormatter())
    handlers[1].setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    for handler in handlers:
        root.addHandler(handler)
    yield found
    for handler in handlers:
        root.removeHandler(handler)


def quoting(*_: Any, **__: Any) -> Any:
    """As a fault of ours does, deep inside: its message quotes what was sent."""
    try:
        raise ValueError(f"cannot read {CANARY}")
    except ValueError as error:
        raise KeyError(CANARY) from error


def test_a_log_line_names_request_trace_and_tenant(shop: Workshop, lines: Lines):
    answer = shop.agent.post("/executors", {}, **{"X-Request-ID": "req-1", "traceparent": f"00-{TRACE}-{'d' * 16}-01"})
    assert answer.status_code == 403
    line = lines.named("Forbidden")
    assert line["request_id"] == answer["X-Request-ID"] == "req-1"
    assert line["trace_id"] == TRACE
    assert line["tenant_id"] == str(shop.tenant)
    assert (line["level"], line["logger"]) == ("warning", "django.request")
    assert datetime.fromisoformat(line["timestamp"]).tzinfo == UTC
    assert f"request_id=req-1 trace_id={TRACE} tenant_id={shop.tenant}" in lines.plain.getvalue()


def test_an_unsafe_request_id_is_replaced(shop: Workshop):
    answer = shop.agent.get("/state-machine", **{"X-Request-ID": "a b"})
    assert len(answer["X-Request-ID"]) == 32


def test_log_lines_contain_no_request_data(shop: Workshop, lines: Lines, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    # Accepted, refused for its arguments, refused for its tool, unreadable, too much for a column.
    started = shop.started(reason=CANARY)
    shop.call(arguments={"path": 7, "reason": CANARY})
    shop.call(CANARY, {"x": CANARY})
    client, headers = shop.agent.client, shop.agent.headers
    session = shop.session()["session_id"]
    client.post(f"/api/v1/sessions/{session}/calls", f'{{"{CANARY}"', "application/json", headers=headers)
    shop.agent.post(f"/sessions/{session}/calls", {"calls": [{"call_id": CANARY + "\x00", "tool": "x"}]})
    shop.agent.post(f"/sessions/{session}/guard", {"message": f"I have deleted {CANARY}."})
    # Reported by an executor, looked for by a person, and a value that the database refuses.
    shop.observe(started, result=result(evidence={"said": CANARY}))
    shop.reviewer.client.get(f"/t/{shop.slug}/actions?q={CANARY}%00")
    # Faults of ours that quote it, in the API and on a page.
    monkeypatch.setattr("console.actions.routes.actions.events.history", quoting)
    assert shop.operator_key.get(f"/actions/{started['action_id']}/history").status_code == 500
    shop.reviewer.client.raise_request_exception = False
    assert shop.reviewer.client.get(f"/t/{shop.slug}/actions/{started['action_id']}").status_code == 500
    assert CANARY not in lines.text
    fault = lines.named("a fault of ours")
    assert [each["type"] for each in fault["faults"]] == ["KeyError", "ValueError"]
    assert any("test_log_lines.py" in place and place.endswith(" quoting") for place in fault["faults"][0]["frames"])
    assert "KeyError" in lines.plain.getvalue()


def test_values_quoted_by_the_database_are_not_logged(shop: Workshop, lines: Lines, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: Any, **__: Any) -> HttpResponse:
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s::uuid", [CANARY])
        raise AssertionError

    monkeypatch.setattr("console.actions.routes.actions.events.history", refused)
    action_id = shop.propose()
    assert shop.operator_key.get(f"/actions/{action_id}/history").status_code == 422
    line = lines.named("a value could not be stored")
    assert line["event"] == f"a value could not be stored: {DataError.__module__}.DataError"
    assert CANARY not in lines.text


def test_a_failed_task_is_logged_without_the_values_it_quotes(lines: Lines):
    @app.task(name="tests.quoting")
    def task() -> None:
        logging.getLogger("tests").warning("working")
        quoting()

    failed = task.apply(kwargs={})
    assert failed.failed()
    told = lines.named("raised unexpected")
    assert "tests.quoting" in told["event"]
    assert [each["type"] for each in told["faults"]] == ["KeyError", "ValueError"]
    working = lines.named("working")
    assert (working["task"], working["task_id"]) == ("tests.quoting", failed.id)
    assert CANARY not in lines.text


def test_a_worker_that_cannot_read_back_logs_no_payload(
    shop: Workshop, lines: Lines, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    from reviews.tasks import take_readings

    monkeypatch.setattr("reviews.tasks.schedules.requested_readings", lambda: [(shop.tenant, UUID(int=1))])

    def refused(**_: Any) -> Any:
        raise DataError(f"invalid input: {CANARY}")

    monkeypatch.setattr("reviews.tasks.readings.read_baseline", refused)
    take_readings()
    line = lines.named("could not be taken")
    assert line["faults"][0]["type"] == "django.db.utils.DataError"
    assert CANARY not in lines.text


def test_the_built_in_database_logs_neither_statements_nor_values(cluster: Any, app_connection: psycopg.Connection):
    with pytest.raises(psycopg.DataError):
        app_connection.execute(f"SELECT '{CANARY}'::uuid")
    with pytest.raises(psycopg.DataError):
        app_connection.execute("SELECT %s::text::uuid", [CANARY])
    app_connection.execute("DO $$ BEGIN RAISE LOG 'the log is on'; END $$")
    logged = cluster.log.read_text()
    assert "the log is on" in logged
    assert CANARY not in logged
