"""The ground of a journey: the console's processes and the example's, on real servers, in one folder.

Everything is asked from outside, over HTTP, by the keys and people that `manage.py bootstrap` makes. Only the shop is
looked at with the rights of its own verifier.
"""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from console.local import live_example, servers
from console.local.installation import Installation
from console.local.live_example import ShopPasswords
from console.local.processes import Child, Supervisor, tail_log, wait_until
from counterfoil.agent import Agent, Call
from counterfoil.answers import CallResult
from example.cases import BY_NAME
from example.environment import AGENT_ID
from example.shop import Shop
from example.stage import SESSION_S, Sent, Stage
from ledger.key_files import write_private
from tests.conftest import CommittedDatabase, Run, Stack, new_database, new_stack
from tests.support.outside.forking import forks

# The shop's roles belong to the whole cluster: these are the words that tests/client knows them by.
WORDS = ShopPasswords(
    admin="admin-word",
    writer="writer-word",
    reader="reader-word",
    stream_writer="stream-writer-word",
    stream_reader="stream-reader-word",
)
# Nobody waits so long where nothing is broken, however busy the machine is.
WITHIN_S = 180.0
# An attempt of the example's executor. Not its usual 5 s: the run's first minute keeps a process waiting for longer.
ATTEMPT_S = 15


class Caller:
    """The console's API as one key or one signed-in person sees it."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def get(self, path: str, **params: str) -> Any:
        answer = self.http.get(f"/api/v1{path}", params=params)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return self.http.post(f"/api/v1{path}", json=body or {}, headers=headers)

    def items(self, path: str, **params: str) -> list[Any]:
        found: list[Any] = self.get(path, **params)["items"]
        return found


def sign_in(http: httpx.Client, username: str, password: str) -> Caller:
    """Come through the sign-in form, as a browser would."""
    http.get("/sign-in")
    form = {"username": username, "password": password, "csrfmiddlewaretoken": http.cookies["csrftoken"]}
    answer = http.post("/sign-in", data=form)
    assert answer.status_code == 302, answer.text
    http.headers["X-CSRFToken"] = http.cookies["csrftoken"]
    return Caller(http)


_PUT_IN_FORCE = """
import json, os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
import django
django.setup()
from ledger.db import tenancy
from ledger.models import Tenant
from tests.support.callers import put_in_force
slug, kind, version, document = sys.argv[1:]
tenant = Tenant.objects.get(slug=slug).id
with tenancy(tenant):
    put_in_force(tenant, kind, version, json.loads(document))
"""


class Ground:
    """A console with a tenant, and the shop beside it."""

    def __init__(self, stack: Stack, place: Installation, run: Run, database: CommittedDatabase) -> None:
        self.stack = stack
        self.place = place
        self.run = run
        self.database = database
        self.shop = live_example.ShopAddresses(installation=place, postgres=run.postgres, broker=stack.broker)
        self.known: dict[str, Any] = {}
        self.callers: list[httpx.Client] = []

    def open(self) -> None:
        """Found the tenant, start the console, set the shop up and tell the console of it."""
        self.known = self._bootstrap()
        self.stack.start("web", "worker", "beat")
        with (self.run.folder / "shop.lock").open("w") as lock:
            # Two workers of a run may not make the same roles at once.
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.shop.make()
            self._finish("setup")
        self._finish("register")
        self.operator = self.machine("oper")
        self.agent = Agent(url=self.stack.url, key=self.known["keys"]["agent"], agent_id=AGENT_ID, http=self._client())
        self.reviewer = self.person("reviewer")

    def close(self) -> None:
        for http in self.callers:
            http.close()

    def _bootstrap(self) -> dict[str, Any]:
        words = ["manage.py", "bootstrap", "--tenant", live_example.TENANT, "--messages", "pass", "--json"]
        answer = forks().run([*words, *live_example.founding_words()], self.stack.environment)
        assert answer.returncode == 0, answer.stderr
        known: dict[str, Any] = json.loads(answer.stdout)
        return known

    def _finish(self, name: str) -> None:
        environment = self.shop.setup_environment(console_url=self.stack.url, keys=self.known["keys"])
        child = self.stack.run(self.shop.program(name, environment))
        assert child.process.wait(WITHIN_S) == 0, tail_log(child.program.log, 40)

    def program(self, name: str, *, url: str = "") -> Any:
        """One of the example's programs; `url` is where it believes the console to be."""
        told = self.shop.environment(console_url=url or self.stack.url, keys=self.known["keys"])
        told |= {"COUNTERFOIL_ISSUER": self.stack.url, "COUNTERFOIL_EXAMPLE_TIMEOUT_S": str(ATTEMPT_S)}
        return self.shop.program(name, told)

    def start(self, name: str, *, url: str = "") -> Child:
        return self.stack.run(self.program(name, url=url))

    # People and machines

    def password(self, role: str) -> str:
        return str(next(each["password"] for each in self.known["people"] if each["role"] == role))

    def person(self, role: str) -> Caller:
        username = next(each["username"] for each in self.known["people"] if each["role"] == role)
        return sign_in(self._client(), username, self.password(role))

    def machine(self, kind: str) -> Caller:
        """The caller with the tenant's first key of a kind."""
        http = self._client()
        http.headers["Authorization"] = f"Bearer {self.known['keys'][kind]}"
        return Caller(http)

    def _client(self) -> httpx.Client:
        hooks = {"response": [self._no_fault]}
        self.callers.append(httpx.Client(base_url=self.stack.url, timeout=30, event_hooks=hooks))
        return self.callers[-1]

    def _no_fault(self, answer: httpx.Response) -> None:
        assert answer.status_code != 500, f"{answer.url}\n{self.stack.log('web')}"

    def stage(self, *, approved: bool = False) -> Stage:
        """What the scripted agent works with."""
        told = self.program("agent").environment
        place = Shop(told["SHOP_DATABASE_URL"], told["SHOP_VALKEY_URL"], self.shop.folder)
        return Stage(place, self.agent, approved=approved)

    def send(self, name: str, *, approved: bool = False) -> Sent:
        """Send one case of the example, as `python -m example scenario` does."""
        case = BY_NAME[name]
        return case.play(self.stage(approved=approved), case)

    def approval_of(self, action_id: str) -> dict[str, Any]:
        """The open approval of an action, as the reviewer is shown it."""
        waiting = self.reviewer.items("/approvals", state="REQUESTED", limit="100")
        approval_id = next(each["approval_id"] for each in waiting if each["action_id"] == action_id)
        shown: dict[str, Any] = self.reviewer.get(f"/approvals/{approval_id}")
        return shown

    def vote_on(self, approval: dict[str, Any], *, url: str = "", key: str = "", password: str = "") -> httpx.Response:
        """The reviewer approves what they were shown, and signs with the password; `url` is another way there."""
        body = {
            "verdict": "approve",
            "payload_hash": approval["covers"]["payload_hash"],
            "rendering_digest": approval["covers"]["rendering_digest"],
            "without_reading": approval["target_unread"],
            "reason": "The order and the amount are right.",
            "password": password or self.password("reviewer"),
        }
        path = f"{url or self.stack.url}/api/v1/approvals/{approval['approval_id']}/votes"
        return self.reviewer.http.post(path, json=body, headers={"Idempotency-Key": key or uuid4().hex})

    def approve(self, action_id: str) -> None:
        answer = self.vote_on(self.approval_of(action_id))
        assert answer.status_code == 201, answer.text

    # What became of it

    def history(self, action_id: str) -> list[dict[str, Any]]:
        return self.operator.items(f"/actions/{action_id}/history")

    def events(self, action_id: str) -> list[str]:
        return [event["event"] for event in self.history(action_id)]

    def path(self, action_id: str) -> list[str]:
        """The states that an action has passed, each once."""
        return [each["to"] for each in moves(self.history(action_id))]

    def state(self, action_id: str) -> str:
        return str(self.operator.get(f"/actions/{action_id}")["state"])

    def cases(self, action_id: str) -> list[dict[str, Any]]:
        return [each for each in self.operator.items("/reviews", limit="500") if each["action_id"] == action_id]

    def rows(self, table: str, order_id: str) -> list[dict[str, Any]]:
        """What the shop itself has about an order, as its verifier sees it."""
        with psycopg.connect(self.shop.database_url(live_example.READER)) as connection:
            cursor = connection.execute(f"SELECT * FROM shop.{table} WHERE order_id = %s ORDER BY id", [order_id])
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def until(self, ready: Callable[[], bool], said: Callable[[], Any], *, within_s: float = WITHIN_S) -> None:
        assert wait_until(ready, within_s=within_s, every_s=0.4), f"{said()}\n{self.last_words()}"

    def wait_for(self, action_id: str, *states: str, within_s: float = WITHIN_S) -> str:
        """Wait until an action is in one of these states; until it is done, nobody may be told that it is."""
        self.until(lambda: self.honest(action_id) in states, lambda: (states, self.path(action_id)), within_s=within_s)
        return self.state(action_id)

    def honest(self, action_id: str) -> str:
        """The state of an action, after asking what may be told about it: never more than that state allows."""
        told, state = self.agent.report(action_id), self.state(action_id)
        assert not told.completed or state == "RECONCILED_SUCCESS", (told, state)
        return state

    # Trouble

    def database_url(self, name: str = "") -> str:
        """The console's database, or another of the cluster, with the rights to lock anything in it."""
        return self.run.postgres.url(servers.SUPERUSER, name or self.database.name)

    def blocked(self, name: str = "") -> bool:
        """Whether somebody waits for a lock in that database."""
        with psycopg.connect(self.database_url(name)) as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = %s"
            return connection.execute(query, ["Lock"]).fetchone() != (0,)

    def until_blocked(self, name: str = "") -> None:
        self.until(lambda: self.blocked(name), lambda: f"nobody waits for a lock in {name or self.database.name}")

    def until_at_work(self) -> None:
        """Wait until a worker reads what is due: a process that was started is there only some seconds later."""
        # The lease of a worker that was killed stays for some seconds, but nobody renews it.
        with psycopg.connect(self.database_url(), autocommit=True) as connection:
            now = connection.execute("SELECT clock_timestamp()").fetchone()
            query = "SELECT count(*) FROM ledger_processlease WHERE name = %s AND renewed_at > %s"
            self.until(
                lambda: connection.execute(query, ["readings", *(now or ())]).fetchone() != (0,),
                lambda: "no worker reads what is due",
            )

    def called_fast(self) -> None:
        """Every system counts as a fast one again, whatever it was in earlier tests: any worker may read it."""
        with psycopg.connect(self.database_url()) as connection:
            connection.execute("UPDATE reviews_lane SET pace_ms = NULL")

    def again(self, sent: Sent) -> CallResult:
        """The same wish once more, in a session of its own."""
        session = self.agent.open_session(goal=sent.goal, ttl_seconds=SESSION_S)
        call = Call(tool=sent.tool, arguments=sent.arguments, target_resource=sent.target or None)
        return session.call(call, goal=sent.goal)

    def restart(self) -> None:
        """Start again what was killed of the console."""
        for name in ("valkey", "web", "worker", "beat"):
            if name not in self.stack.children:
                self.stack.start(name)

    def recover(self) -> None:
        """Everything that a console needs runs again, no executor does, and nothing waits to be started."""
        self.restart()
        if "example-executor" in self.stack.children:
            self.stack.kill("example-executor")
            # The console may still hold its last claim open, for nobody: this order answers it.
            decoy = self.send("small_refund")
            wait_until(lambda: "grant_minted" in self.events(str(decoy.action_id)), within_s=2, every_s=0.2)
        for action in self.operator.items("/actions", state="VALIDATED"):
            self.operator.post(f"/actions/{action['action_id']}/cancel", {"reason": "Left over by a test."})

    def put_in_force(self, kind: str, version: str, document: dict[str, Any]) -> None:
        """A version of a policy in force, with gates that nobody ran."""
        words = ["-c", _PUT_IN_FORCE, live_example.TENANT, kind, version, json.dumps(document)]
        answer = forks().run(words, self.stack.environment)
        assert answer.returncode == 0, answer.stderr

    def verify_ledger(self) -> None:
        """The record holds, byte by byte."""
        answer = forks().run(["manage.py", "verify_ledger"], self.stack.environment)
        assert answer.returncode == 0, answer.stderr

    def last_words(self) -> str:
        logs = sorted(self.place.log.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{tail_log(log, 15)}" for log in logs if log.stat().st_size)


def moves(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The transitions in a history: from, to, and the event that made each."""
    before, found = "", []
    for event in history:
        if event["state"] != before:
            found.append({"from": before, "to": event["state"], "event": event})
        before = event["state"]
    return found


@contextmanager
def opened(run: Run) -> Iterator[Ground]:
    """A ground of its own, with web, worker and beat running, and none of the shop's programs."""
    place = Installation(var=run.folder / f"ground-{uuid4().hex[:8]}")
    place.make()
    write_private(place.secrets / "example.json", json.dumps(asdict(WORDS)))
    users = live_example.broker_users(WORDS)
    with new_database(run) as database, new_stack(run, place.log, database, users=users) as stack:
        stack.environment["COUNTERFOIL_SECRETS_DIR"] = str(place.secrets)
        # The sequencer goes on with the run's own secrets.
        stack.environment["COUNTERFOIL_LOG_PUBLIC_KEY"] = f"{stack.sealing['COUNTERFOIL_SECRETS_DIR']}/log_key.pub"
        ground = Ground(stack, place, run, database)
        try:
            ground.open()
            yield ground
        finally:
            ground.close()


@contextmanager
def tended(ground: Ground, *names: str) -> Iterator[None]:
    """Run these programs of the example and start again those that die, as `up` does."""
    record = ground.run.folder / f"{ground.place.var.name}.running"
    supervisor = Supervisor(record=record, say=lambda line: None)
    for name in names:
        supervisor.start(ground.program(name))
    watch = threading.Thread(target=supervisor.watch, daemon=True)
    watch.start()
    try:
        yield
    finally:
        supervisor.end()
        watch.join()
        supervisor.stop_all()


@contextmanager
def locked(url: str, statement: str, *values: str) -> Iterator[None]:
    """Hold what a statement locks until the end of the block."""
    with psycopg.connect(url) as connection:
        connection.execute(statement, values)
        yield
        connection.rollback()
