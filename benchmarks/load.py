"""`python -m benchmarks.load`: a load that people would call a bad day, and what is true afterwards.

Proposals, approvals, executions and pages against the product's own processes: first how much goes through at most,
then for a long while half of it, then three times as much as goes through. Requests arrive when they arrive, whether
or not the ones before are answered. The system of record is a folder, and each effect is also noted in a journal of
its own, so that afterwards every effect can be held against every accepted call and every report.

`--soak 3600` instead sends half of the peak for an hour, samples memory, connections, WAL and backlogs every ten
seconds, and reports the slope of each figure (benchmarks/soak.py); `--slopes FILE` reports those of a file's samples.
`--full 60` sends five proposals a second for a minute, each of which is carried out and verified, and reports
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
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.figures import ROOT_PROCESS, spent_ms
from benchmarks.soak import WARM_UP, Sampler, Samples, answers, report
from benchmarks.stand import KEYS, Stand, apart, stand
from console.local import programs, servers
from console.local.installation import ROOT
from counterfoil.proof import ExecutorKey

DATABASE = "load"
CONTRACT = ROOT / "client" / "example" / "contracts" / "write_document.json"
# One call in this many is asked about: a vote hashes a password on purpose slowly.
PLAIN, ASKED, ONE_IN = "write_note", "write_notice", 20
PAGES = ("", "actions", "approvals", "cases", "agents", "ledger")
PAGES_PER_CALL = 0.2
EXECUTORS, CONNECTIONS, CLAIM_WAITS_S = 4, 300, 10
FULL_PER_S = 5.0
PATIENCE_S = 300.0
TOKEN = "x" * 32
URL = "http://localhost:8000"  # the public address, which proofs of possession name
SAMPLED_EVERY_S = 10.0
Tasks = list[Callable[[], Awaitable[None]]]


@dataclass
class Tally:
    """The results of the requests of one kind in one phase."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def shed(self) -> int:
        return self.statuses["503"]

    @property
    def failures(self) -> Counter[str]:
        """The statuses, and the problems of connections, of those that were neither answered well nor shed."""
        return Counter({each: count for each, count in self.statuses.items() if each[0] != "2" and each != "503"})

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share of the good answers came."""
        took = sorted(self.seconds) or [0.0]
        return took[min(len(took) - 1, int(len(took) * share))]

    def add(self, other: Tally) -> None:
        self.statuses += other.statuses
        self.seconds += other.seconds

    def line(self, name: str) -> str:
        other = ", ".join(f"{count} x {status}" for status, count in self.failures.most_common())
        p50, p99 = self.percentile(0.5) * 1000, self.percentile(0.99) * 1000
        return (
            f"  {name:<12} {len(self.seconds):>7} answered  {self.shed:>6} shed  p50 {p50:>7.0f} ms  p99 {p99:>7.0f} ms"
            f"  {other or 'no error'}"
        )


@dataclass(frozen=True)
class Soak:
    """A soak to be run: how long, how much a second instead of half of the peak, and the file of its samples."""

    seconds: float
    per_s: float | None
    file: Path


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

    async def create(self, path: str, body: Any, kind: str = "oper") -> dict[str, Any]:
        """Send a request that creates something, without which the run is pointless."""
        answer = await self.ask("register", "POST", f"/api/v1{path}", body, **self.key(kind))
        if answer is None or answer.status_code != 201:
            raise SystemExit(f"benchmarks: {path} was answered {answer and answer.text}")
        created: dict[str, Any] = answer.json()
        return created

    # What people and machines do

    async def open_session(self) -> None:
        body = {"agent_id": "writer", "goal": "Keep the notes.", "ttl_seconds": 86_400}
        answer = await self.ask("session", "POST", "/api/v1/sessions", body, **self.key("agent"))
        if answer is not None and answer.status_code == 201:
            self.pin = (answer.json()["session_id"], answer.json()["pin"]["hash"])

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
        """Run an executor that writes what was approved, and repeats its report until it is accepted.

        It waits in its claim as the client library does (`counterfoil.executor.Executor`).
        """
        while not self.is_over:
            body = {"executor_id": name, "limit": 5, "wait_s": CLAIM_WAITS_S}
            answer = await self.ask("waiting claim", "POST", "/api/v1/executions/claim", body, **self.key("exec"))
            for order in answer.json()["orders"] if answer is not None and answer.status_code == 200 else []:
                await self._carry_out(name, order)
            if answer is None or answer.status_code != 200:
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


Work = Callable[[Day, Tasks], Awaitable[None]]


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
def processes_of(made: Stand, figures_port: int) -> Iterator[int]:
    """Everything that runs on a server, each a process of its own; yield the web's port."""
    environment, log = made.environment(DATABASE), made.folder
    erasing = environment | {
        "DATABASE_URL": made.postgres.url(servers.ERASER, DATABASE),
        "KEYS_DATABASE_URL": made.postgres.url(servers.ERASER, KEYS),
    }
    started = (
        programs.worker_program(environment=environment, log=log, queues="due,tick"),
        programs.worker_program(environment=environment, log=log, processes=1, name="bulk", queues="bulk"),
        programs.beat_program(environment=environment, log=log),
        programs.sequencer_program(environment=made.sealing(DATABASE), log=log),
        programs.eraser_program(environment=erasing, log=log),
    )
    with made.web(DATABASE, COUNTERFOIL_METRICS_PORT=str(figures_port)) as port, ExitStack() as running:
        for program in started:
            running.enter_context(made.running(program))
        yield port


def memory_mb(pid: int) -> float:
    """Return the memory of a process and its children, with shared memory counted once (PSS)."""
    worker = psutil.Process(pid)
    return sum(each.memory_full_info().pss for each in [worker, *worker.children(recursive=True)]) / 1e6


async def find_peak(day: Day, seconds: float) -> float:
    highest = await peak(day, seconds)
    print(
        f"peak: {highest:.1f} proposals a second, {EXECUTORS} executors and a reviewer at work beside them,"
        f" load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return highest


async def phases(seconds: float, day: Day, tasks: Tasks) -> None:
    runners = [asyncio.ensure_future(task()) for task in tasks]
    highest = await find_peak(day, max(5.0, seconds / 20))
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


async def soak(made: Stand, figures_port: int, soaking: Soak, day: Day, tasks: Tasks) -> None:
    """Send half of the peak for a long while, take samples, and report the slope of each figure."""
    runners = [asyncio.ensure_future(task()) for task in tasks]
    highest = await find_peak(day, min(60.0, soaking.seconds / 4))
    per_s = soaking.per_s or highest / 2
    # What the peak left behind is no growth of the soak.
    await settled(day)
    day.tallies.clear()
    begun = {"began": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": soaking.seconds}
    begun |= {"peak_per_s": highest, "per_s": per_s}
    sampler = Sampler(made, DATABASE, figures_port=figures_port, file=soaking.file, run=begun)
    print(f"{per_s:.1f} proposals a second for {soaking.seconds:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    whole: defaultdict[str, Tally] = defaultdict(Tally)
    calls = arrive(per_s, soaking.seconds, day.propose)
    pages = arrive(per_s * PAGES_PER_CALL, soaking.seconds, day.look)
    samples = _take_samples(day, sampler, soaking.seconds, whole)
    await asyncio.gather(calls, pages, samples, _renew(day, soaking.seconds))
    ended = time.perf_counter()
    await settled(day)
    print(f"drained after {time.perf_counter() - ended:.0f} s", flush=True)
    # Connections that nobody needs are closed after a minute.
    await asyncio.sleep(min(90.0, soaking.seconds / 4))
    sampler.take(soaking.seconds + time.perf_counter() - ended, len(day.accepted), {}, drained=True)
    sampler.close()
    for kind, tally in day.tallies.items():
        whole[kind].add(tally)
    for kind, tally in sorted(whole.items()):
        print(tally.line(kind))
    print(report(sampler.samples))
    day.is_over = True
    await asyncio.gather(*runners)


async def _take_samples(day: Day, sampler: Sampler, seconds: float, whole: defaultdict[str, Tally]) -> None:
    """Take samples, and with each sixth the answers since the one before."""
    began, every_s, number = time.perf_counter(), min(SAMPLED_EVERY_S, seconds / 60), 0
    while (at_s := time.perf_counter() - began) < seconds:
        number += 1
        told = answers(day.tallies) if number % 6 == 0 else {}
        if told:
            for kind, tally in day.tallies.items():
                whole[kind].add(tally)
            day.tallies.clear()
        await asyncio.to_thread(sampler.take, at_s, len(day.accepted), told)
        if number in (1, int(seconds * WARM_UP / every_s)):
            await asyncio.to_thread(sampler.take_tables, len(day.accepted))
        await asyncio.sleep(max(0.0, began + number * every_s - time.perf_counter()))
    await asyncio.to_thread(sampler.take_tables, len(day.accepted))


async def _renew(day: Day, seconds: float) -> None:
    """Open a new session each minute, as agents do."""
    until = time.perf_counter() + seconds
    while (left_s := until - time.perf_counter()) > 0:
        await day.open_session()
        await asyncio.sleep(min(60.0, left_s))


async def full_actions(made: Stand, seconds: float, day: Day, tasks: Tasks) -> None:
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


async def run(made: Stand, founded: dict[str, Any], port: int, session: str, work: Work) -> Day:
    """Register what the callers use, and let them do `work` beside executors and a reviewer."""
    folder = made.folder / "documents"
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    reviewer = next(each for each in founded["people"] if each["username"].startswith("reviewer"))
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:
        day = Day(port, founded["keys"], session, reviewer["password"], folder, client)
        await _register(day, folder)
        tasks: list[Callable[[], Awaitable[None]]] = [lambda name=name: day.execute(name) for name in day.executors]  # type: ignore[misc]
        await work(day, [*tasks, day.decide])
    return day


async def _register(day: Day, folder: Path) -> None:
    document = json.loads(CONTRACT.read_text())
    await day.create("/systems", {"name": "documents", "pattern": "filesystems", "settings": {"root": str(folder)}})
    for tool, asked in ((PLAIN, False), (ASKED, True)):
        await day.create("/contracts", document | {"name": tool, "approval_required": asked})
    await day.create("/agents", {"agent_id": "writer", "version": "1", "tools": [PLAIN, ASKED]})
    for number in range(EXECUTORS):
        key = ExecutorKey(Ed25519PrivateKey.generate())
        day.executors[f"runner-{number}"] = key
        body = {"executor_id": f"runner-{number}", "public_jwk": key.public_jwk, "tools": [PLAIN, ASKED]}
        await day.create("/executors", body, "exec")
    await day.open_session()
    if not day.pin[0]:
        raise SystemExit("benchmarks: no session was opened")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long half of the peak lasts (300)")
    parser.add_argument("--full", type=float, metavar="SECONDS", help="the cost of one action, at five a second")
    parser.add_argument("--rest", type=float, metavar="SECONDS", help="what `up` takes at rest, and its second start")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="half of the peak, with samples and slopes")
    parser.add_argument("--per-s", type=float, help="proposals a second of a soak, instead of half of the peak")
    parser.add_argument("--samples", type=Path, default=ROOT / "var" / "soak.jsonl", help="where a soak's samples go")
    parser.add_argument("--slopes", type=Path, metavar="FILE", help="the slopes of the samples of a file")
    chosen = parser.parse_args()
    if chosen.slopes:
        print(report(Samples.read(chosen.slopes)))
        return 0
    print(f"load {os.getloadavg()[0]:.1f} at the beginning", flush=True)
    if chosen.rest:
        rest(chosen.rest)
        return 0
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
        figures_port = servers.free_port()
        with processes_of(made, figures_port) as port:
            worker = made.pids()["worker"]
            before = memory_mb(worker)
            if chosen.soak:
                asked = Soak(chosen.soak, chosen.per_s, chosen.samples)
                work: Work = partial(soak, made, figures_port, asked)
            elif chosen.full:
                work = partial(full_actions, made, chosen.full)
            else:
                work = partial(phases, chosen.seconds)
            day = asyncio.run(run(made, founded, port, session, work))
            after = memory_mb(worker)
        wrong = reconciled(made, day)
        print(f"  worker: {before:.0f} MB before, {after:.0f} MB after")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
