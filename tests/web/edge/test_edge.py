"""What anybody can send to the real server without being known, and that nobody else notices it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg
import pytest
from django.test import override_settings

from console import asgi
from console.accounts import operations as accounts
from console.edge import admission, waiting
from console.edge.admission import ClientDisconnected
from console.edge.waiting import Wait, WaitingRoom
from console.local import processes, programs, servers
from console.local.installation import ROOT
from ledger.db import execute, tenancy
from ledger.record.operations import SYSTEM
from tests.conftest import CommittedDatabase, Run, Stack, new_stack
from tests.support.api_tenant import Workshop, workshop
from tests.support.outside.forking import forks

MIB = 1_048_576


@dataclass
class Served:
    """A shop behind the server that the product runs."""

    stack: Stack
    shop: Workshop
    database: CommittedDatabase
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=30)

    @contextmanager
    def sent(self, text: str) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as line:
            line.sendall(text.encode())
            yield line

    def everything_goes_on(self) -> None:
        assert self.get("/livez").json() == {"status": "alive"}
        assert self.get("/readyz").json()["ready"] in (True, False)
        assert "Sign in" in self.get("/sign-in").text
        answer = self.get("/api/v1/actions", **self.shop.agent.headers)
        assert answer.status_code == 200, answer.text

    def spooled(self) -> list[str]:
        """The files in its folder for temporary ones that the server has open, deleted or not."""
        links = []
        for path in Path(f"/proc/{self.pid}/fd").iterdir():
            # The server may close it between the two looks.
            with suppress(FileNotFoundError):
                links.append(str(path.readlink()))
        return [link for link in links if link.startswith(self.stack.environment["TMPDIR"])]

    def memory(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)


@pytest.fixture(scope="module")
def served(run: Run, module_db: CommittedDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A minute's patience, so that whatever a test leaves unfinished is still so at its end."""
    with new_stack(run, tmp_path_factory.mktemp("edge"), module_db) as stack:
        (stack.folder / "tmp").mkdir()
        stack.environment |= {"COUNTERFOIL_RATE_PER_S": "0", "TMPDIR": str(stack.folder / "tmp")}
        stack.environment["COUNTERFOIL_REQUEST_WITHIN_S"] = "60"
        shop = workshop("orchid").set_up()
        stack.start("web")
        yield Served(stack, shop, module_db, stack.port, stack.children["web"].process.pid)


@pytest.fixture
def impatient(served: Served, tmp_path: Path) -> Iterator[Served]:
    """A second web process, which gives every request a second."""
    port, environment = servers.free_port(), served.stack.environment | {"COUNTERFOIL_REQUEST_WITHIN_S": "1"}
    with second_web(served, port, environment, tmp_path) as other:
        yield other


@contextmanager
def second_web(served: Served, port: int, environment: dict[str, str], log: Path) -> Iterator[Served]:
    child = forks().spawn(programs.web_program(port=port, environment=environment, log=log))
    other = replace(served, port=port, pid=child.process.pid)

    def answers() -> bool:
        try:
            return other.get("/livez").status_code == 200
        except httpx.TransportError:
            return False

    try:
        assert processes.wait_until(answers, within_s=60), processes.tail_log(log / "web.log")
        yield other
    finally:
        processes.stop_children([child])


def request(path: str, *headers: str, method: str = "POST") -> str:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""])


def unfinished(path: str) -> str:
    return request(path, "Content-Type: application/json", "Content-Length: 1000") + '{"calls"'


def answer_on(line: socket.socket) -> tuple[int, str]:
    """(status, all that was said) until the server hangs up."""
    got = b""
    while more := line.recv(65_536):
        got += more
    found = re.match(rb"HTTP/1\.1 (\d{3})", got)
    return int(found.group(1)) if found else 0, got.decode(errors="replace")


def test_incomplete_requests_do_not_block_others(served: Served):
    paths = ["/sign-in", "/api/v1/sessions", "/x/stream", "/api/v1/stream", "/nowhere", "/readyz/x", "/static/x"]
    with ExitStack() as open_lines:
        for number in range(8):
            open_lines.enter_context(served.sent(unfinished(paths[number % len(paths)])))
        served.everything_goes_on()
        for _ in range(80):
            open_lines.enter_context(served.sent(unfinished("/api/v1/sessions")))
            open_lines.enter_context(served.sent("POST /sign-in HTTP/1.1\r\nX-Slow: "))
        served.everything_goes_on()


def test_the_oldest_of_too_many_unfinished_bodies_is_dropped(served: Served):
    with ExitStack() as open_lines:
        first, *_, last = [
            open_lines.enter_context(served.sent(unfinished("/sign-in"))) for _ in range(admission.MOST_UNFINISHED + 1)
        ]
        assert answer_on(first)[0] == 408
        served.everything_goes_on()
        last.sendall(b"x" * 1000)
        assert "403 Forbidden" in last.recv(65_536).decode()


def test_slow_requests_are_answered_with_a_timeout(impatient: Served):
    with ExitStack() as open_lines:
        silent = open_lines.enter_context(impatient.sent(""))
        body = open_lines.enter_context(impatient.sent(unfinished("/api/v1/sessions")))
        head = open_lines.enter_context(impatient.sent("GET /sign-in HTTP/1.1\r\nHost: 127"))
        second = open_lines.enter_context(impatient.sent(request("/livez", method="GET") + "GET /sign-in HT"))
        head.sendall(b".0.0.1\r\nX-Slow: ")
        status, said = answer_on(body)
        assert status == 408
        assert "The body did not arrive in time; nothing was done." in said
        for line in (head, second):
            _, said = answer_on(line)
            assert "408 Request Timeout" in said
            assert "The head of the request did not arrive in time; nothing was done." in said
        assert answer_on(silent) == (0, "")


def test_a_client_that_does_not_read_its_answer_blocks_nobody(served: Served):
    """Each of these asks for more than the buffers between two processes hold."""
    path = largest_page()
    with ExitStack() as open_lines:
        for _ in range(asgi.THREADS * 2):
            line = open_lines.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            line.connect(("127.0.0.1", served.stack.port))
            line.sendall(request(path, method="GET").encode() * 100)
        served.everything_goes_on()


def largest_page() -> str:
    folder = Path("console/static")
    file = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    return f"/static/{file.relative_to(folder)}"


def chunked(path: str, mebibytes: int) -> Any:
    block = b"%x\r\n" % MIB + b"x" * MIB + b"\r\n"
    head = request(path, "Transfer-Encoding: chunked", "Content-Type: application/json")
    return [head.encode(), *([block] * mebibytes), b"0\r\n\r\n"]


def of_length(path: str, mebibytes: int) -> Any:
    head = request(path, f"Content-Length: {mebibytes * MIB}", "Content-Type: application/json")
    return [head.encode(), *([b"x" * MIB] * mebibytes)]


def with_a_file(path: str, mebibytes: int) -> Any:
    part = b'--edge\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    head = request(path, "Transfer-Encoding: chunked", "Content-Type: multipart/form-data; boundary=edge")
    first = b"%x\r\n" % len(part) + part + b"\r\n"
    return [head.encode(), first, *chunked(path, mebibytes)[1:]]


@pytest.mark.parametrize("path", ["/x/stream", "/api/v1/stream", "/sign-in", "/api/v1/sessions"])
def test_an_oversized_body_leaves_nothing_in_memory_and_its_sender_gets_the_refusal(served: Served, path: str):
    send_and_be_refused(served, path, mebibytes=2)
    served.everything_goes_on()
    before = served.memory()
    send_and_be_refused(served, path, mebibytes=30)
    assert not served.spooled()
    assert not list(Path(served.stack.environment["TMPDIR"]).iterdir())
    assert served.memory() - before < 24 * MIB
    served.everything_goes_on()


def send_and_be_refused(served: Served, path: str, *, mebibytes: int) -> None:
    """In each of the three ways in which a large body can come."""
    for body in (chunked, of_length, with_a_file):
        with served.sent("") as line:
            for number, part in enumerate(body(path, mebibytes)):
                line.sendall(part)
                assert number % 10 or not served.spooled()
            status, said = answer_on(line)
        assert status == 413, said
        assert "The body is larger than 1 MiB; nothing was stored." in said


def test_a_chunked_body_is_read_like_any_other(served: Served):
    def parts() -> Iterator[bytes]:
        yield b'{"agent_id": "nobody", '
        yield b'"goal": "g"}'

    address = f"{served.url}/api/v1/sessions"
    answer = httpx.post(address, content=parts(), headers=served.shop.agent.headers, timeout=15)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "INVALID"


def test_requests_that_wait_hold_no_thread(served: Served):
    bearer = f"Authorization: {served.shop.executor.headers['Authorization']}"
    body = json.dumps({"executor_id": "runner", "limit": 1, "wait_s": 30})
    head = request("/api/v1/executions/claim", bearer, f"Content-Length: {len(body)}", "Content-Type: application/json")
    with ExitStack() as lines:
        waiting = [lines.enter_context(served.sent(head + body)) for _ in range(3 * asgi.THREADS)]
        for _ in range(3):
            served.everything_goes_on()
        assert select.select(waiting, [], [], 0)[0] == [], "one was answered"
    served.everything_goes_on()


def test_under_overload_starts_are_refused_first_and_reports_last(served: Served):
    """While the keys cannot be read, every call waits: the threads fill up, and then the lines before them."""
    bearer = f"Authorization: {served.shop.agent.headers['Authorization']}"
    page = request("/api/v1/actions", bearer, "Connection: close", method="GET")
    begin = request("/api/v1/executions/claim", bearer, "Content-Length: 0", "Connection: close")
    tell = begin.replace("executions/claim", f"actions/{uuid4()}/executions/1/observations")
    with ExitStack() as lines, keys_locked(served) as unlock:

        def send(text: str, times: int) -> list[socket.socket]:
            return [lines.enter_context(served.sent(text)) for _ in range(times)]

        waiting = send(page, asgi.THREADS + admission.WAITING[admission.RequestRank.BEGINS])
        is_shed(first_answered(lambda: send(begin, 1)))
        waiting += send(page, admission.WAITING[admission.RequestRank.ORDINARY])
        is_shed(first_answered(lambda: send(page, 1)))
        told = send(tell, 5)
        assert served.get("/livez").status_code == 200
        assert served.get("/readyz").status_code in (200, 503)
        assert not answered(told, within_s=0.5)
        unlock()
        for line in waiting[: asgi.THREADS + admission.WAITING[admission.RequestRank.BEGINS]]:
            assert answer_on(line)[0] == 200
        for line in told:
            status, said = answer_on(line)
            assert status == 403, said
    served.everything_goes_on()


def answered(lines: list[socket.socket], *, within_s: float) -> list[socket.socket]:
    return select.select(lines, [], [], within_s)[0]


def first_answered(send: Callable[[], list[socket.socket]]) -> socket.socket:
    """The first of these that does not have to wait; those that wait fill the line further."""
    for _ in range(40):
        if found := answered(send(), within_s=0.5):
            return found[0]
    raise AssertionError("nothing was shed")


def is_shed(line: socket.socket) -> None:
    status, said = answer_on(line)
    assert status == 503, said
    assert int(re.findall(r"(?i)retry-after: (\d+)", said)[0]) > 0
    problem = json.loads(said.partition("\r\n\r\n")[2])
    assert problem["code"] == "OVERLOADED"
    assert problem["detail"] == "The console is overloaded; nothing was done. Try again in a moment."


@contextmanager
def keys_locked(served: Served) -> Iterator[Callable[[], None]]:
    with psycopg.connect(served.database.owner_url) as connection:
        # The others, because a key that was just read is known for a second; without a session there are no actions.
        connection.execute("LOCK TABLE console_apikey, approvals_session, ledger_action IN ACCESS EXCLUSIVE MODE")
        yield connection.rollback


ACTION = "01a206d7-6246-7b32-bf92-06b16e0aaa88"


@pytest.mark.parametrize(
    ("method", "path", "rank"),
    [
        ("POST", "/api/v1/executions/claim", admission.RequestRank.BEGINS),
        ("POST", f"/api/v1/actions/{ACTION}/executions", admission.RequestRank.BEGINS),
        ("GET", f"/api/v1/actions/{ACTION}/executions", admission.RequestRank.ORDINARY),
        ("POST", "/api/v1/sessions", admission.RequestRank.ORDINARY),
        ("POST", f"/api/v1/actions/{ACTION}/executions/1/observations", admission.RequestRank.TELLS_OR_STOPS),
        ("POST", f"/api/v1/actions/{ACTION}/executions/1/heartbeat", admission.RequestRank.TELLS_OR_STOPS),
        ("POST", "/api/v1/freezes", admission.RequestRank.TELLS_OR_STOPS),
        ("GET", "/api/v1/freezes", admission.RequestRank.ORDINARY),
        ("POST", "/t/orchid/freezes/place", admission.RequestRank.TELLS_OR_STOPS),
    ],
)
def test_requests_that_stop_or_report_have_priority_over_those_that_begin(
    method: str, path: str, rank: admission.RequestRank
):
    assert admission.request_rank(method, path) is rank


def test_only_the_two_stream_addresses_count_as_streams():
    assert admission.is_stream("/api/v1/stream")
    assert admission.is_stream(f"/api/v1/sessions/{uuid4()}/stream")
    for path in ("/x/stream", "/stream", "/api/v1/stream/", "/api/v1/sessions/7/stream", "/sign-in/stream"):
        assert not admission.is_stream(path)


def test_liveness_and_readiness_can_only_be_read(served: Served):
    for path in ("/api/v1/livez", "/api/v1/readyz"):
        for method in ("POST", "TRACE"):
            answer = httpx.request(method, f"{served.url}{path}", timeout=30)
            assert (answer.status_code, answer.headers["Allow"]) == (405, "GET"), answer.text
            assert answer.json()["detail"] == f"{method} is not allowed at this address."
        assert httpx.head(f"{served.url}{path}", timeout=30).status_code in (200, 503)


@pytest.mark.parametrize(
    "text",
    [
        "GET /livez HTTP/1.1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET http://a/livez HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /livez HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
        "GET /livez HTTP/1.1\nHost: a\n\n",
        request("/sign-in", "Content-Length: 5", "Content-Length: 6") + "hello",
        request("/sign-in", "Content-Length: +5") + "hello",
        request("/sign-in", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n",
        request("/sign-in", "Transfer-Encoding: chunked, identity") + "0\r\n\r\n",
        request("/sign-in", "Transfer-Encoding: xchunked") + "0\r\n\r\n",
        request("/sign-in", "Transfer-Encoding: chunked") + "0x5\r\nhello\r\n0\r\n\r\n",
        request("/sign-in", "Transfer-Encoding: chunked") + "5\r\nhelloo\r\n0\r\n\r\n",
    ],
)
def test_a_request_that_two_servers_could_read_in_two_ways_is_refused(served: Served, text: str):
    with served.sent(text) as line:
        assert answer_on(line)[0] == 400


def test_what_follows_a_body_is_neither_a_header_nor_lost(served: Served):
    """A trailer names no caller, and the request after an offer to speak another protocol is answered in its turn."""
    bearer = f"Authorization: {served.shop.agent.headers['Authorization']}"
    chunks = request("/api/v1/sessions", "Transfer-Encoding: chunked", "Content-Type: application/json")
    with served.sent(f"{chunks}2\r\n{{}}\r\n0\r\n{bearer}\r\nConnection: close\r\n\r\n") as line:
        assert "HTTP/1.1 401" in line.recv(65_536).decode()
    offer = request("/livez", "Connection: Upgrade", "Upgrade: websocket", method="GET")
    with served.sent(offer + request("/nowhere", "Connection: close", method="GET")) as line:
        _, said = answer_on(line)
    assert re.findall(r"HTTP/1\.1 (\d{3})", said) == ["200", "404"]


@pytest.mark.parametrize(
    "begun",
    [
        "GET /livez HTTP/1.1\r\nHost: a\r\nX: ",
        "GET /",
        request("/sign-in", "Transfer-Encoding: chunked") + "0\r\nX: ",
        request("/sign-in", "Transfer-Encoding: chunked") + "1;",
    ],
)
def test_nobody_can_make_the_server_keep_a_head_or_trailer_without_end(served: Served, begun: str):
    before = served.memory()
    with served.sent(begun) as line:
        line.settimeout(30)
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(40):
                line.sendall(b"x" * MIB)
            raise AssertionError("40 MiB were taken")
    assert served.memory() - before < 8 * MIB
    served.everything_goes_on()


def test_an_answer_is_not_lost_to_what_comes_behind_its_request(served: Served):
    with served.sent(request("/sign-in", method="GET") + "\x01 nonsense") as line:
        _, said = answer_on(line)
    assert re.findall(r"HTTP/1\.1 (\d{3})", said) == ["200", "400"]


def test_an_answer_before_the_body_ends_the_connection(served: Served):
    with served.sent(request("/livez", "Content-Length: 1000", method="GET")) as line:
        assert answer_on(line)[0] == 200


@pytest.mark.parametrize("rate_per_s", ["0", "200"])
def test_the_revocation_of_a_key_that_was_just_used_holds_at_once_in_each_process(
    served: Served, tmp_path: Path, rate_per_s: str
):
    """Ten keys in a row, each revoked by one process while the other has just used it."""
    tenant, at = served.shop.tenant, datetime.now(UTC)
    environment = served.stack.environment | {"COUNTERFOIL_RATE_PER_S": rate_per_s}
    with second_web(served, servers.free_port(), environment, tmp_path) as other:
        for name in (str(uuid4()) for _ in range(10)):
            secret = accounts.create_key(tenant_id=tenant, kind="oper", name=name, by=SYSTEM, at=at)
            headers = {"Authorization": f"Bearer {secret}"}
            assert [each.get("/api/v1/actions", **headers).status_code for each in (served, other)] == [200, 200]
            with tenancy(tenant):
                [(key_id,)] = execute("SELECT id FROM console_apikey WHERE name = $1", name)
            with override_settings(REDIS_URL=served.stack.broker.url()), tenancy(tenant):
                accounts.revoke_key(tenant_id=tenant, key_id=key_id, by=SYSTEM, reason="Lost.", at=at)
            assert [each.get("/api/v1/actions", **headers).status_code for each in (other, served)] == [401, 401]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/actions", 200),
        ("GET", "/api/v1/nowhere", 404),
        ("GET", "/api/v1/actions/", 404),
        ("PUT", "/api/v1/actions", 405),
        ("POST", "/api/v1/sessions", 422),
        ("POST", "/api/v1/executions/claim", 403),
        ("GET", "/api/v1/openapi.json", 200),
    ],
)
def test_a_request_with_a_key_is_answered_the_same_with_and_without_a_cookie(
    served: Served, method: str, path: str, status: int
):
    """The second passes only the middleware that it needs (console/wsgi.py)."""
    key = served.shop.agent.headers
    answers = [
        httpx.request(
            method, f"{served.url}{path}", headers=key | more, json={} if method == "POST" else None, timeout=30
        )
        for more in ({"Cookie": "theme=dark"}, {})
    ]
    varying = ("date", "counterfoil-time", "x-request-id", "vary")
    first, second = (
        (each.status_code, each.content, {name: value for name, value in each.headers.items() if name not in varying})
        for each in answers
    )
    assert first[0] == status
    assert second == first
    stranger = httpx.get(f"{served.url}/api/v1/actions", headers={"Authorization": "Bearer cf_agent_none"}, timeout=30)
    assert (stranger.status_code, stranger.json()["code"]) == (401, "UNAUTHENTICATED")


def test_a_web_process_loads_what_is_behind_its_addresses_before_its_first_request():
    script = "import console.asgi, sys; print('console.execution.routes' in sys.modules)"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.offline"}
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert said.stdout.strip() == "True", said.stderr[-500:]


# The room in which requests wait


async def never_called(_: Any) -> bool:
    raise AssertionError("nothing waits here")


def stays(look: Any, *, for_s: float, gone: bool = False) -> None:
    """Let a request wait whose client is there, or is gone."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"} if gone else await asyncio.Event().wait() or {}

    async def call(function: Any) -> bool:
        return bool(function())

    async def script() -> None:
        room = WaitingRoom(call)
        try:
            await room.stay(Wait(time.monotonic() + for_s, look), receive)
        finally:
            assert room.inside == 0

    asyncio.run(script())


def test_a_request_waits_until_there_may_be_an_answer():
    looks = iter([False, False, True])
    stays(lambda: next(looks), for_s=60)
    assert list(looks) == []


def test_a_wait_ends_with_its_time(monkeypatch):
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.01)
    began = time.monotonic()
    stays(lambda: False, for_s=0.2)
    assert time.monotonic() - began >= 0.2


def test_a_request_whose_client_is_gone_is_dropped_without_a_look():
    with pytest.raises(ClientDisconnected):
        stays(pytest.fail, for_s=60, gone=True)


def test_beyond_the_limit_a_request_may_not_wait(monkeypatch):
    monkeypatch.setattr(waiting, "MOST_WAITING", 0)
    assert not any(WaitingRoom(never_called).facts(None).values())


def test_a_request_with_a_large_body_may_not_wait():
    room = WaitingRoom(never_called)
    assert all(room.facts(None, size=waiting.LARGEST_WAITING).values())
    assert not any(room.facts(None, size=waiting.LARGEST_WAITING + 1).values())
