"""How many statements and messages each step of an action sends to the database, by what its connection sends.

Everything counts that a request sends outside its BEGIN, SET LOCAL and COMMIT: the edge's own statements, and those of
the query builder. A message is one round trip to the server; here COMMIT is one, too, and BEGIN goes out with the
transaction's first statement. Each step is counted once the process has filled what it keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from benchmarks import trips
from console.accounts import known_keys
from console.accounts import operations as accounts_operations
from console.brokers import counters
from ledger.log import newest_heads
from ledger.record import operations as ledger
from tests.support.api_tenant import DELETE, PASSWORD, Clock, Workshop, document, result, workshop
from tests.support.callers import Api
from tests.support.seals import seal_up

# The most statements and messages of each step. Whoever saves one lowers its number.
MOST = {
    "propose": (7, 4),
    "propose, with approval": (7, 4),
    "vote": (18, 14),
    "claim": (8, 5),
    "start": (8, 5),
    "observe": (10, 4),
    "verdict": (15, 9),
    "gateway's call": (17, 7),
    # One of them reads the action's events, which the report that is asked for is made of.
    "gateway's observation": (13, 7),
}
# The same of the operations alone, as `benchmarks/trips.py` makes a round trip of them.
MOST_IN_PROCESS = {
    "asked": (5, 3),
    "voted": (4, 2),
    "claimed": (4, 2),
    "started": (4, 3),
    "claimed and started": (4, 3),
}
START = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}

LINE = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+\t([FB])\t\d+\t(\w+)", re.MULTILINE)
TEXTS = {"Parse": r' "([^"]*)" "(.*)" \d+[ \d]*\s*', "Bind": r' "[^"]*" "([^"]*)".*', "Query": r' "(.*)"\s*'}


class Line:
    """A connection whose messages are written down."""

    def __init__(self, path: Path) -> None:
        self.path, self.prepared, self.read = path, dict[str, str](), 0

    def sent(self) -> tuple[list[str], int]:
        """The statements since the last time, by text, and how many messages they went out in."""
        trace = self.path.read_text()[self.read :]
        self.read += len(trace)
        _, *parts = LINE.split(trace)
        statements, messages, bound = list[str](), 0, ""
        for sender, kind, rest in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if sender != "F":
                continue
            messages += kind in ("Sync", "Query")
            text = re.fullmatch(TEXTS[kind], rest.removeprefix("\t"), re.DOTALL) if kind in TEXTS else None
            if kind == "Parse" and text:
                self.prepared[text[1]] = text[2]
            elif kind == "Bind" and text:
                bound = self.prepared[text[1]]
            elif kind == "Execute":
                statements.append(bound)
            elif kind == "Query" and text:
                statements.append(text[1])
        return [text for text in statements if not re.match("BEGIN|SET LOCAL|COMMIT", text)], messages


@pytest.fixture
def line(committed_db: Any, tmp_path: Path) -> Iterator[Line]:
    connection.ensure_connection()
    server: Any = connection.connection
    with (tmp_path / "sent").open("w") as file:
        server.pgconn.trace(file.fileno())
        try:
            yield Line(tmp_path / "sent")
        finally:
            server.pgconn.untrace()


class Trip:
    """What each step of actions sends, one after another."""

    def __init__(self, shop: Workshop, line: Line) -> None:
        self.shop, self.line, self.clock = shop, line, Clock()
        self.texts, self.counts = dict[str, list[str]](), dict[str, tuple[int, int]]()

    def whole(self, number: int) -> None:
        """An action with an approval up to its verdict, and one that its gateway starts at once."""
        plain = self.proposal("write_document", document(f"notes/plain-{number}.md", "Quiet."))
        self.request("propose", self.shop.agent, *plain)
        asked = self.proposal("delete_document", DELETE | {"path": f"notes/{number}.md"})
        action = self.request("propose, with approval", self.shop.agent, *asked)["results"][0]["action_id"]
        shown = self.shop.approval_of(action)
        vote = {name: shown[name] for name in ("payload_hash", "rendering_digest")}
        vote |= {"verdict": "approve", "reason": "", "password": PASSWORD, "without_reading": shown["target_unread"]}
        self.request("vote", self.shop.reviewer, f"/approvals/{shown['approval_id']}/votes", vote)
        seal_up()
        self.execute(action)
        self.verify(action)
        self.start_at_once(number)

    def execute(self, action: str) -> None:
        wanted = {"executor_id": "runner", "limit": 1, "actions": [action]}
        [order] = self.request("claim", self.shop.executor, "/executions/claim", wanted)["orders"]
        path = f"/actions/{action}/executions"
        self.request("start", self.shop.executor, path, START | {"grant": order["grant"]}, DPoP=self.proof(path, order))
        self.request("observe", self.shop.executor, f"{path}/1/observations", {"result": result()})

    def verify(self, action: str) -> None:
        self.clock.forward(seconds=90)
        self.line.sent()
        assert self.shop.read_back(action, self.clock) == "RECONCILED_SUCCESS"
        self.note("verdict")

    def start_at_once(self, number: int) -> None:
        path, call = self.proposal("write_document", document(f"notes/gateway-{number}.md", "Quiet."), start=START)
        key = self.shop.executor.headers["Authorization"]
        proof = self.proof(path, {"grant": key.removeprefix("Bearer ")})
        headers = {"Executor-Authorization": key, "Executor-DPoP": proof}
        [begun] = self.request("gateway's call", self.shop.agent, path, call, **headers)["results"]
        assert begun["state"] == "EXECUTING"
        path = f"/actions/{begun['action_id']}/executions/1/observations?report=true"
        answer = {"result": result(tool="write_document")}
        told = self.request("gateway's observation", self.shop.executor, path, answer)
        assert told["report"]["completed"] is False

    def proposal(self, tool: str, arguments: dict[str, str], **more: Any) -> tuple[str, dict[str, Any]]:
        session = self.shop.session()
        call = {"call_id": uuid4().hex, "tool": tool, "arguments": arguments, "pin_hash": session["pin"]["hash"]}
        return f"/sessions/{session['session_id']}/calls", {"calls": [call]} | more

    def proof(self, path: str, order: dict[str, str]) -> str:
        url, at = f"http://testserver/api/v1{path}", timezone.now().timestamp()
        return self.shop.key.proof(method="POST", url=url, token=order["grant"], at=at)

    def request(self, step: str, by: Api, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
        """One write, as each client of ours sends it."""
        self.line.sent()
        answer = by.post(path, body, **{"Idempotency-Key": uuid4().hex} | headers)
        self.note(step)
        assert answer.status_code < 300, answer.content
        told: dict[str, Any] = answer.json()
        return told

    def note(self, step: str) -> None:
        self.texts[step], messages = self.line.sent()
        self.counts[step] = len(self.texts[step]), messages


@pytest.fixture
def shop(
    broker: Any, secrets_dir: Path, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, committed_db: Any
) -> Workshop:
    # What is sent once in a while, whatever the step.
    monkeypatch.setattr(ledger, "ORIGIN_KEPT_S", 1e9)
    monkeypatch.setattr(accounts_operations, "record_key_use", lambda **_: None)
    monkeypatch.setattr(newest_heads, "KEPT_S", 1e9)
    monkeypatch.setattr(known_keys, "GOOD_FOR_S", 1e9)
    # Tests beside this one revoke keys, and all share a server of counters.
    monkeypatch.setattr(known_keys, "GENERATION", f"{known_keys.GENERATION}:{uuid4()}")
    # Counters that are slow on a busy machine would have the key read once more.
    monkeypatch.setattr(counters, "PATIENCE_S", 30.0)
    settings.COUNTERFOIL_RATE_PER_S = 0
    credential = secrets_dir / "systems" / "orchid" / "documents.json"
    credential.parent.mkdir(parents=True)
    credential.write_text("{}")
    (tmp_path / "documents").mkdir()
    return workshop("orchid").set_up(tmp_path / "documents")


def grown_steps(
    counts: dict[str, tuple[int, int]], texts: dict[str, list[str]], most: dict[str, tuple[int, int]]
) -> str:
    """The steps that send more than they may, with what they send."""
    assert counts.keys() == most.keys()
    pairs = {step: zip(counts[step], allowed, strict=True) for step, allowed in most.items()}
    grown = [step for step, pair in pairs.items() if any(sent > allowed for sent, allowed in pair)]
    return "\n".join(f"{step} {counts[step]}: {text[:300]}" for step in grown for text in texts[step])


@pytest.mark.unsealed
def test_no_step_sends_more_statements_than_recorded(line: Line, shop: Workshop):
    trip = Trip(shop, line)
    # The first of each kind also fills what a process keeps.
    trip.whole(1)
    trip.whole(2)
    grown = grown_steps(trip.counts, trip.texts, MOST)
    assert not grown, grown


@pytest.mark.unsealed
def test_no_step_of_a_round_trip_in_process_sends_more_statements_than_recorded(line: Line, shop: Workshop):
    desk = trips.open_desk(1)
    texts, counts = dict[str, list[str]](), dict[str, tuple[int, int]]()

    def noted(step: str, answer: Any) -> Any:
        texts[step], messages = line.sent()
        counts[step] = len(texts[step]), messages
        return answer

    # The first fills what a process keeps.
    for _ in range(2):
        line.sent()
        action_id, approval_id = noted("asked", desk.asked(trips.HASTY))
        shown = desk.read_page(approval_id)
        line.sent()
        noted("voted", desk.cast(approval_id, shown))
        seal_up()
        line.sent()
        [order] = noted("claimed", desk.claimed(trips.HASTY, 1))
        noted("started", desk.redeemed(order))
        assert shop.state(str(action_id)) == "EXECUTING"
        desk.voted(*desk.asked(trips.HASTY))
        seal_up()
        line.sent()
        noted("claimed and started", desk.claim_and_start(trips.HASTY))
    grown = grown_steps(counts, texts, MOST_IN_PROCESS)
    assert not grown, grown
