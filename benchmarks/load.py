"""`python -m benchmarks.load`: a load that people would call a bad day, and what is true afterwards.

Proposals, approvals, executions and pages against the product's own processes: first how much goes through at most,
then for a long while half of it, then three times as much as goes through. Requests arrive when they arrive, whether
or not the ones before are answered. The system of record is a folder, and each effect is also noted in a journal of
its own, so that afterwards every effect can be held against every accepted call and every report.

`--full 60` instead sends five proposals a second for a minute, each of which is carried out and verified, and reports
the processor time and WAL of one. `--rest 60` starts `up` with its example twice, and reports what the second start
took and what all of its processes take for a minute afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.figures import ROOT_PROCESS, spent_ms
from benchmarks.stand import Stand, apart, stand
from console.local import programs, servers
from console.local.installation import ROOT
from counterfoil.proof import ExecutorKey

DATABASE = "load"
CONTRACT = ROOT / "client" / "example" / "contracts" / "write_document.json"
# One call in this many is asked about: a vote hashes a password on purpose slowly.
PLAIN, ASKED, ONE_IN = "write_note", "write_notice", 20
PAGES = ("", "actions", "approvals", "cases", "agents", "ledger")
PAGES_PER_CALL = 0.2
EXECUTORS, CONNECTIONS = 4, 300
FULL_PER_S = 5.0
PATIENCE_S = 300.0
TOKEN = "x" * 32
URL = "http://localhost:8000"  # the public address, which proofs of possession name


@dataclass
class Tally:
    """The results of the requests of one kind in one phase."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        took = sorted(self.seconds) or [0.0]
        p99 = took[min(len(took) - 1, int(len(took) * 0.99))]
        shed = self.statuses.pop("503", 0)
        other = ", ".join(f"{count} x {status}" for status, count in self.statuses.most_common() if status[0] != "2")
        good = sum(count for status, count in self.statuses.items() if status[0] == "2")
        return (
            f"  {name:<12} {good:>7} answered  {shed:>6} shed  p50 {statistics.median(took) * 1000:>7.0f} ms"
            f"  p99 {p99 * 1000:>7.0f} ms  {other or 'no error'}"
        )


@dataclass
class Day:
    """The callers of one run, and their memory of it."""

    port: int
    keys: dict[str, str]
    session: str
    password: str
    folder: Path
    client: httpx.AsyncClient
    accepted: set[str] = field(default_factory=set)
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    journal: Counter[str] = field(default_factory=Counter)
    executors: dict[str, ExecutorKey] = field(default_factory=dict)
    pin: tuple[str, str] = ("", "")
    is_over: bool = False

    async def ask(self, kind: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response | None:
        """Send one request and count it; return None if it was shed or got no answer."""
        began, status = time.perf_counter(), "no answer"
        try:
            answer = await self.client.request(
                method, f"http://127.0.0.1:{self.port}{path}", json=body, headers={"Host": "localhost:8000"} | headers
            )
            status = str(answer.status_code)
            return answer if answer.status_code < 500 else None
        except httpx.TransportError as problem:
            status = type(problem).__name__
            return None
        finally:
            tally = self.tallies[kind]
            tally.statuses[status] += 1
            if status[0] == "2":
                tally.seconds.append(time.perf_counter() - began)

    def key(self, kind: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[kind]}"}

    def person(self) -> dict[str, str]:
        return {"Cookie": f"sessionid={self.session}; csrftoken={TOKEN}", "X-CSRFToken": TOKEN}

    # What people and machines do

    async def propose(self, number: int) -> None:
        text = uuid4().hex
        tool = ASKED if number % ONE_IN == 0 else PLAIN
        arguments = {"path": f"notes/{text}.md", "text": text, "sha256": sha256(text.encode()).hexdigest()}
        call = {"call_id": text, "tool": tool, "arguments": arguments, "pin_hash": self.pin[1]}
        path = f"/api/v1/sessions/{self.pin[0]}/calls"
        answer = await self.ask("propose", "POST", path, {"calls": [call]}, **self.key("agent"))
        if answer is not None and answer.status_code == 200 and answer.json()["results"][0]["accepted"]:
            self.accepted.add(answer.json()["results"][0]["action_id"])

    async def look(self, number: int) -> None:
        page = PAGES[number % len(PAGES)]
        await self.ask("page", "GET", f"/t/bench/{page}", Cookie=f"sessionid={self.session}")

    async def decide(self) -> None:
        """Run a reviewer who approves every waiting request, one after another."""
        while not self.is_over:
            answer = await self.ask("inbox", "GET", "/api/v1/approvals?limit=20", **self.person())
            waiting = answer.json()["items"] if answer is not None and answer.status_code == 200 else []
            for each in waiting:
                await self._vote(str(each["approval_id"]))
            if not waiting:
                await asyncio.sleep(0.5)

    async def _vote(self, approval_id: str) -> None:
        seen = await self.ask("approval", "GET", f"/api/v1/approvals/{approval_id}", **self.person())
        if seen is None or seen.status_code != 200 or seen.json()["state"] != "REQUESTED":
            return
        shown = seen.json()
        body = {
            "verdict": "approve",
            "payload_hash": shown["payload_hash"],
            "rendering_digest": shown["rendering_digest"],
            "without_reading": shown["target_unread"],
            "reason": "Read.",
            "password": self.password,
        }
        await self.ask("vote", "POST", f"/api/v1/approvals/{approval_id}/votes", body, **self.person())

    async def execute(self, name: str) -> None:
        """Run an executor that writes what was approved, and repeats its report until it is accepted."""
        while not self.is_over:
            body = {"executor_id": name, "limit": 5}
            answer = await self.ask("claim", "POST", "/api/v1/executions/claim", body, **self.key("exec"))
            orders = answer.json()["orders"] if answer is not None and answer.status_code == 200 else []
            for order in orders:
                await self._carry_out(name, order)
            if not orders:
                await asyncio.sleep(0.2)

    async def _carry_out(self, name: str, order: dict[str, Any]) -> None:
        path = f"/api/v1/actions/{order['action_id']}/executions"
        body = {"grant": order["grant"], "executor_id": name, "wrapper_version": "1", "timeout_s": 60}
        idempotent = {"Idempotency-Key": uuid4().hex}
        started = None
        for _ in range(20):
            proof = self.executors[name].proof(method="POST", url=f"{URL}{path}", token=order["grant"], at=time.time())
            started = await self.ask("start", "POST", path, body, DPoP=proof, **idempotent, **self.key("exec"))
            if started is not None:
                break
            await asyncio.sleep(0.5)
        if started is None or started.status_code != 201:
            return
        work = started.json()
        self.journal[order["action_id"]] += 1
        file = self.folder / work["payload"]["path"]
        file.write_text(work["payload"]["text"])
        told = {"tool": order["tool"], "status": "success", "evidence": {"written": True}, "error": None}
        sent = {"result": told | {"timestamp": None, "side_effects": []}}
        for _ in range(60):
            heard = await self.ask(
                "observe", "POST", f"{path}/{work['attempt']}/observations", sent, **self.key("exec")
            )
            if heard is not None:
                return
            await asyncio.sleep(0.5)


async def arrive(rate: float, seconds: float, work: Callable[[int], Awaitable[None]]) -> None:
    """Start `work` so many times a second, whatever became of the earlier ones; wait for the last."""
    running: set[asyncio.Task[None]] = set()
    began, number = time.perf_counter(), 0
    while (now := time.perf_counter() - began) < seconds:
        while number < now * rate:
            task = asyncio.ensure_future(work(number))
            running.add(task)
            task.add_done_callback(running.discard)
            number += 1
        await asyncio.sleep(0.005)
    await asyncio.gather(*running)


async def peak(day: Day, seconds: float, callers: int = 8) -> float:
    """Return the proposals per second when each caller sends the next one as soon as it is answered."""
    until, counts = time.perf_counter() + seconds, Counter[int]()

    async def caller(number: int) -> None:
        while time.perf_counter() < until:
            await day.propose(number * 7 + counts[number] + 1)
            counts[number] += 1

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return sum(counts.values()) / seconds


def sign_in(stand: Stand, username: str) -> str:
    """A session of one person."""
    from django.test import Client

    from console.models import User

    client = Client()
    client.force_login(User.objects.get(username=username), backend="console.accounts.sign_in.sessions.PasswordBackend")
    return client.cookies["sessionid"].value


@contextmanager
def processes_of(made: Stand) -> Iterator[tuple[int, dict[str, int]]]:
    """Everything that `up` runs but the example: the web's port, and the process ids."""
    environment = made.environment(DATABASE)
    sealing = made.sealing(DATABASE)
    with (
        made.web(DATABASE) as port,
        made.running(programs.worker_program(environment=environment, log=made.folder)) as worker,
        made.running(programs.beat_program(environment=environment, log=made.folder)),
        made.running(
            programs.sequencer_program(environment=sealing, log=made.folder), DATABASE_URL=sealing["DATABASE_URL"]
        ),
    ):
        yield port, {"worker": worker.process.pid}


def memory_mb(pid: int) -> float:
    """Return the memory of a process and its children, with shared memory counted once (PSS)."""
    worker = psutil.Process(pid)
    return sum(each.memory_full_info().pss for each in [worker, *worker.children(recursive=True)]) / 1e6


async def phases(day: Day, seconds: float, tasks: list[Callable[[], Awaitable[None]]]) -> None:
    runners = [asyncio.ensure_future(task()) for task in tasks]
    highest = await peak(day, max(5.0, seconds / 20))
    print(f"peak: {highest:.0f} proposals a second, {EXECUTORS} executors and a reviewer at work beside them")
    for name, share, lasts in (("half of it", 0.5, seconds), ("three times as much", 3.0, seconds / 2)):
        day.tallies.clear()
        calls = arrive(highest * share, lasts, day.propose)
        pages = arrive(highest * share * PAGES_PER_CALL, lasts, day.look)
        await asyncio.gather(calls, pages)
        print(f"\n{name}: {highest * share:.0f} proposals a second for {lasts:.0f} s")
        for kind, tally in sorted(day.tallies.items()):
            print(tally.line(kind))
    day.tallies.clear()
    await settled(day)
    day.is_over = True
    await asyncio.gather(*runners)


async def full_actions(made: Stand, day: Day, seconds: float, tasks: list[Callable[[], Awaitable[None]]]) -> None:
    """Report the processor time of all processes, this one among them, and the WAL of one action from its proposal to
    its verdict; one in twenty waits for a person.
    """
    runners = [asyncio.ensure_future(task()) for task in tasks]
    wal, spent, own = wal_position(made), spent_ms(), time.process_time()
    await arrive(FULL_PER_S, seconds, day.propose)
    await settled(day)
    # Metrics and search terms follow within ten seconds.
    await asyncio.sleep(12)
    count = len(day.accepted)
    caused, taken = wal_position(made) - wal, spent_ms() - spent
    print(
        f"full actions: {count} at {FULL_PER_S:.0f} a second; each {taken / count:.0f} ms of processor, of which"
        f" {(time.process_time() - own) * 1000 / count:.0f} ms of the callers; {caused / count / 1000:.0f} KB of WAL"
    )
    day.is_over = True
    await asyncio.gather(*runners)


def wal_position(made: Stand) -> int:
    with made.superuser(DATABASE) as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


def rest(seconds: float) -> None:
    """Start `up` with its example in a folder of its own, end it, start it again and leave it alone."""
    folder = tempfile.mkdtemp(prefix="counterfoil-rest-")
    try:
        for which in ("first", "second"):
            process, took_s = _start_up(Path(folder))
            up = psutil.Process(process.pid)
            spent_s = sum(sum(each.cpu_times()[:4]) for each in (up, *up.children(recursive=True)))
            print(f"{which} start: {took_s:.1f} s, {spent_s:.1f} s of processor", flush=True)
            if which == "second":
                _report_rest(up, seconds)
            process.send_signal(signal.SIGINT)
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start_up(folder: Path) -> tuple[subprocess.Popen[str], float]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up", "--port", str(servers.free_port())],
        cwd=ROOT,
        env=kept | {"COUNTERFOIL_VAR": str(folder / "var"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    for line in process.stdout or ():
        said.append(line)
        if "Ctrl-C stops everything" in line:
            return process, time.perf_counter() - began
    raise SystemExit(f"benchmarks: up did not start: {''.join(said)}")


def _report_rest(up: psutil.Process, seconds: float) -> None:
    time.sleep(seconds)
    before = {each.pid: sum(each.cpu_times()[:2]) for each in (up, *up.children(recursive=True))}
    time.sleep(seconds)
    total_mb = total_share = 0.0
    for each in (up, *up.children(recursive=True)):
        share = (sum(each.cpu_times()[:2]) - before.get(each.pid, 0.0)) / seconds * 100
        size_mb = each.memory_full_info().pss / 2**20
        total_mb, total_share = total_mb + size_mb, total_share + share
        print(f"  {each.name():<16} {size_mb:6.0f} MB  {share:5.2f} %")
    print(f"at rest, {seconds:.0f} s: {total_mb:.0f} MB, {total_share:.1f} % of one processor")


async def settled(day: Day) -> None:
    """Wait until every accepted call has ended, or until the time is over."""
    until = time.perf_counter() + PATIENCE_S
    for state in ("VALIDATED", "EXECUTING", "UNKNOWN", "PENDING", "COMMITTED"):
        while time.perf_counter() < until:
            answer = await day.ask("open", "GET", f"/api/v1/actions?state={state}&limit=1", **day.key("oper"))
            if answer is not None and answer.status_code == 200 and not answer.json()["items"]:
                break
            await asyncio.sleep(1)


def reconciled(made: Stand, day: Day) -> int:
    """Compare every effect with every accepted call and its state; return the number of differences."""
    with made.superuser(DATABASE) as connection:
        rows = connection.execute("SELECT id::text, state FROM ledger_action").fetchall()
        doubled = connection.execute(
            "SELECT count(*) FROM (SELECT action_id FROM approvals_attempt GROUP BY action_id HAVING count(*) > 1) d"
        ).fetchone()
    states = dict(rows)
    effects = {action for action, count in day.journal.items() if count}
    wrong = {
        "accepted calls that are not on record": len(day.accepted - states.keys()),
        "effects that happened twice": sum(count > 1 for count in day.journal.values()),
        "actions that were started twice": doubled[0] if doubled else 0,
        "told as verified, and nothing happened": sum(
            state == "RECONCILED_SUCCESS" and action not in effects for action, state in states.items()
        ),
        "told as failed, and it happened": sum(
            state == "FAILED" and action in effects for action, state in states.items()
        ),
    }
    ended = ", ".join(f"{count} {state}" for state, count in Counter(states.values()).most_common())
    print(f"\nafterwards: {len(day.accepted)} accepted calls, {len(effects)} effects; {ended}")
    for what, count in wrong.items():
        print(f"  {count:>5} {what}")
    return sum(wrong.values())


async def run(
    made: Stand, founded: dict[str, Any], port: int, session: str, seconds: float, *, full: bool = False
) -> Day:
    folder = made.folder / "documents"
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    reviewer = next(each for each in founded["people"] if each["username"].startswith("reviewer"))
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:
        day = Day(port, founded["keys"], session, reviewer["password"], folder, client)
        await _register(day, folder)
        tasks: list[Callable[[], Awaitable[None]]] = [lambda name=name: day.execute(name) for name in day.executors]  # type: ignore[misc]
        if full:
            await full_actions(made, day, seconds, [*tasks, day.decide])
        else:
            await phases(day, seconds, [*tasks, day.decide])
    return day


async def _register(day: Day, folder: Path) -> None:
    async def made(path: str, body: Any, kind: str = "oper") -> dict[str, Any]:
        answer = await day.ask("register", "POST", f"/api/v1{path}", body, **day.key(kind))
        if answer is None or answer.status_code != 201:
            raise SystemExit(f"benchmarks: {path} was answered {answer and answer.text}")
        found: dict[str, Any] = answer.json()
        return found

    document = json.loads(CONTRACT.read_text())
    await made("/systems", {"name": "documents", "pattern": "filesystems", "settings": {"root": str(folder)}})
    for tool, asked in ((PLAIN, False), (ASKED, True)):
        await made("/contracts", document | {"name": tool, "approval_required": asked})
    await made("/agents", {"agent_id": "writer", "version": "1", "tools": [PLAIN, ASKED]})
    for number in range(EXECUTORS):
        key = ExecutorKey(Ed25519PrivateKey.generate())
        day.executors[f"runner-{number}"] = key
        body = {"executor_id": f"runner-{number}", "public_jwk": key.public_jwk, "tools": [PLAIN, ASKED]}
        await made("/executors", body, "exec")
    session = await made("/sessions", {"agent_id": "writer", "goal": "Keep the notes.", "ttl_seconds": 86_400}, "agent")
    day.pin = (session["session_id"], session["pin"]["hash"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long half of the peak lasts (300)")
    parser.add_argument("--full", type=float, metavar="SECONDS", help="the cost of one action, at five a second")
    parser.add_argument("--rest", type=float, metavar="SECONDS", help="what `up` takes at rest, and its second start")
    chosen = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the beginning", flush=True)
    if chosen.rest:
        rest(chosen.rest)
        return 0
    seconds = chosen.full or chosen.seconds
    os.environ[ROOT_PROCESS] = str(os.getpid())
    # Told to end, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with stand() as made:
        made.database(DATABASE)
        founded = made.founded(DATABASE)
        reviewer = next(each for each in founded["people"] if each["username"].startswith("reviewer"))
        session = apart(made, DATABASE, "benchmarks.load:sign_in", reviewer["username"])
        credential = made.secrets / "systems" / "bench"
        credential.mkdir(mode=0o700, parents=True, exist_ok=True)
        (credential / "documents.json").write_text("{}")
        (credential / "documents.json").chmod(0o600)
        with processes_of(made) as (port, pids):
            before = {name: memory_mb(pid) for name, pid in pids.items()}
            day = asyncio.run(run(made, founded, port, session, seconds, full=bool(chosen.full)))
            after = {name: memory_mb(pid) for name, pid in pids.items()}
        wrong = reconciled(made, day)
        for name in pids:
            print(f"  {name}: {before[name]:.0f} MB before, {after[name]:.0f} MB after")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
