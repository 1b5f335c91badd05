"""The executor's side: claim approved orders, start each once, run its handler, report what the
tool answered.

The rules, in the order in which they bite:

1. Nothing runs that the console did not start: the payload comes from the start's answer, never
   from elsewhere. The grant is verified before it is presented (`counterfoil.execution.grants`), and, where a
   policy of the log is given, so is the proof that people voted (`counterfoil.execution.sealed`).
2. The payload must be the one that the grant was made for, and have the hash that the start names;
   else nothing runs, and that is reported.
3. No effect begins once the lease is over (`counterfoil.execution.lease`), also when the answer to the start
   came late.
4. The handler runs at most once for each start. Only the *report* is sent again, as the same write,
   until answered.
5. Whatever the handler raises is reported, as `failed` or `timeout`; it is `before_send` only if
   nothing can have left.

6. Nothing runs for a console whose record is older than it was seen before (`counterfoil.execution.seen`).

If this process dies in between, the console's lease runs out and the console reads the real system
back. Nothing is kept on disk to resume from, on purpose: a second run of the handler is what must
never happen by itself. What is kept is which orders were started (`counterfoil.execution.kept`), so
that a console that went back can be told.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from counterfoil.agent import Call, Session
from counterfoil.answers import CallResult, Decision, Observed, StartAtOnce
from counterfoil.canonical import NotCanonical, digest, encode_canonical
from counterfoil.connection import Connection
from counterfoil.execution.grants import GrantHolder, GrantRefused, KeySet, UsedGrants, check_payload, verify_grant
from counterfoil.execution.kept import KeptStarts
from counterfoil.execution.lease import Lease, LeaseOver
from counterfoil.execution.sealed import LogPolicy
from counterfoil.execution.sealed import check_votes as check_sealed
from counterfoil.execution.seen import RecordBehind, SeenCheckpoints
from counterfoil.problems import Problem, Unreachable
from counterfoil.proof import load_key
from counterfoil.transport import reading
from counterfoil.transport.request import read_trace
from counterfoil.work import Failure, NothingSent, Result, Work

log = logging.getLogger("counterfoil.executor")

Handler = Callable[[Work], Result | Coroutine[Any, Any, Result]]
"""What runs a tool; one that is awaited gets an event loop of its own for each order."""


Effect = Callable[[], Result]
"""Runs and reports one attempt that has started."""

Begun = tuple[Work, Mapping[str, Any] | None]
"""An attempt that has started, and the claims of its grant."""


@dataclass(frozen=True)
class Order:
    """An action that is ready to run, with the grant that starts it once."""

    action_id: str
    tool: str
    version: str
    grant: str
    grant_expires_at: str
    proof: Mapping[str, Any] | None = None
    override_id: str | None = None
    """A person's decision, on record at the console, that this starts although the record has gone back."""


OFF_AFTER = 3
"""A clock is named in the log once so many answers in a row have shown it to be off; one may just have been late."""
ASK_EVERY_S = 1.0
"""An executor that has nothing to do claims this often where the console does not let it wait."""


class NotStarted(Exception):
    """An order did not start, so nothing ran; `code` is the reason: the console's own code, the grant's, or
    UNREACHABLE.
    """

    def __init__(self, order: Order, refusal: Problem | Unreachable | GrantRefused, clock_difference_s: float) -> None:
        self.action_id = order.action_id
        self.code = "UNREACHABLE" if isinstance(refusal, Unreachable) else refusal.code
        told = f"{order.tool} of action {order.action_id} did not start: {refusal}"
        super().__init__(f"{told} {_clock_difference(clock_difference_s)}".rstrip())


def _clock_difference(difference_s: float) -> str:
    """The sentence about a wrong clock; empty for a right one."""
    if not difference_s:
        return ""
    way = "ahead of" if difference_s > 0 else "behind"
    return f"The console's clock is {abs(difference_s):.0f} s {way} this host's."


class Executor:
    """A process that carries out orders for a set of tools.

    `issuer` is the console's own public address, which its grants name (`url` unless given; "" is
    for a console that cannot be verified, and turns rule 1's check off). `log` makes the executor
    strict. `seen_file` holds what it has seen of the console's record (beside the key file unless given).
    """

    def __init__(
        self,
        *,
        url: str,
        key: str,
        executor_id: str,
        key_file: Path,
        handlers: Mapping[str, Handler],
        wrapper_version: str = "1",
        timeout_s: int = 30,
        wait_s: int = 10,
        report_for_s: float = 600.0,
        own_hash: Callable[[Order], str | None] | None = None,
        on_report: Callable[[Observed], None] | None = None,
        issuer: str | None = None,
        environment: str = "production",
        log: LogPolicy | None = None,
        http: httpx.Client | None = None,
        seen_file: Path | None = None,
    ) -> None:
        self._seen = SeenCheckpoints(seen_file or key_file.with_name(f"{key_file.name}.seen"))
        self._start_body = KeptStarts(key_file.with_name(f"{key_file.name}.kept"))
        self._connection = Connection(url=url, key=key, timeout_s=wait_s + 15.0, http=http, seen=self._seen)
        self._key = load_key(key_file)
        self._executor_id = executor_id
        self._handlers = dict(handlers)
        self._wrapper_version = wrapper_version
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._report_for_s = report_for_s
        self._own_hash = own_hash
        self._on_report = on_report
        said = (url if issuer is None else issuer).rstrip("/")
        self._holder = GrantHolder(said, executor_id, self._key.thumbprint, environment)
        self._keys = KeySet(self._connection.keys)
        self._used = UsedGrants()
        self._log = log
        self._stop = threading.Event()
        self._waiting = threading.Event()
        self._clock_is_off = False
        self._answers_off = 0

    @property
    def tools(self) -> list[str]:
        """The tools that this executor has handlers for."""
        return sorted(self._handlers)

    @property
    def is_waiting(self) -> bool:
        """True while it only waits for work, so that it can be interrupted without leaving an effect in doubt."""
        return self._waiting.is_set()

    def stop(self) -> None:
        """Finish the current order and take no other."""
        self._stop.set()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def register(self) -> None:
        """Make the public key known; grants are bound to it from then on."""
        body = {
            "executor_id": self._executor_id,
            "public_jwk": self._key.public_jwk,
            "tools": self.tools,
        }
        self._connection.write("/executors", body, give_up_after_s=self._report_for_s, stop=self._stop)
        self.tell_kept()

    def tell_kept(self) -> None:
        """Report to the console what this executor started within the last day; it records the starts that it had lost.

        A console that cannot take it in is told again at the next start of this program.
        """
        starts = self._start_body.recent()
        if not starts:
            return
        try:
            self._connection.post(
                f"/executors/{self._executor_id}/kept", {"starts": [_start_body(each) for each in starts]}
            )
        except (Problem, Unreachable) as fault:
            log.warning("the kept starts could not be told: %s", fault)

    def ready(self) -> list[dict[str, Any]]:
        """Return the orders that are ready, or the reason why each waits; claim nothing."""
        answer = self._connection.get("/executions/ready", params={"tools": ",".join(self.tools)})
        orders: list[dict[str, Any]] = answer["items"]
        return orders

    def claim(
        self,
        *,
        limit: int = 1,
        actions: Sequence[str] | None = None,
        wait_s: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[Order]:
        """Reserve up to `limit` orders (of `actions` only, if they are named), waiting if there is none.

        The same claim under the same `idempotency_key` gets the same orders: a process that died before it read the
        answer has not lost them.
        """
        body: dict[str, Any] = {
            "executor_id": self._executor_id,
            "tools": self.tools,
            "limit": limit,
            "wait_s": self._wait_s if wait_s is None else wait_s,
        }
        if actions is not None:
            body["actions"] = list(actions)
        if self._log is not None:
            body["proof"] = True
        self._waiting.set()
        try:
            answer = self._connection.post(
                "/executions/claim", body, idempotency_key=idempotency_key, headers=self._seen.header
            )
        except Problem as refusal:
            self._check_seen(refusal)
            raise
        finally:
            self._waiting.clear()
        return [_order(item) for item in answer["orders"]]

    def run(self) -> None:
        """Register, then carry out orders one at a time until stopped; while the console is unavailable, wait. Raise
        `RecordBehind` if its record is older than one seen before.
        """
        pause = 0.5
        registered = False
        while not self._stop.is_set():
            try:
                if not registered:
                    self.register()
                    registered = True
                effect = self._start_ready()
                asked_at = time.monotonic()
                orders = self.claim() if effect is None else []
                self._name_clock()
                if effect is not None:
                    effect()
                for order in orders:
                    self._execute_next(order)
                if effect is None and not orders:
                    # A console in which too many wait answers at once.
                    self._stop.wait(max(0.0, ASK_EVERY_S - (time.monotonic() - asked_at)))
                pause = 0.5
            except (Problem, Unreachable) as fault:
                # A console that answers with a refusal may have forgotten the key (a restored
                # database): say it again.
                registered = registered and not isinstance(fault, Problem)
                log.warning("waiting %.1f s for the console: %s", pause, fault)
                self._stop.wait(pause)
                pause = min(pause * 2, 15.0)

    def _start_ready(self) -> Callable[[], object] | None:
        """Claim an order that is ready and start it in the same request; None if nothing is to be run.

        It does not wait: a request that is given up while it waits may have started something. A strict executor, or
        one that has a hash of its own to show, looks at a grant before it is used, and starts nothing this way.
        """
        if self._log is not None or self._own_hash is not None:
            return None
        path, key = "/executions/claim", self._connection.authorization.removeprefix("Bearer ")
        body = {
            "executor_id": self._executor_id,
            "tools": self.tools,
            "limit": 1,
            "start": {"wrapper_version": self._wrapper_version, "timeout_s": self._timeout_s},
        }
        asked_at = time.monotonic()
        try:
            answer = self._send_start(path, key, body)
        except Problem as refusal:
            # One order that does not start would keep all others from being claimed.
            log.info("nothing was started with a claim: %s", refusal)
            return None
        for item in answer["orders"]:
            order, started = _order(item), item.get("started")
            if not started:
                # A console that starts nothing with a claim hands out the grant alone.
                return partial(self._execute_next, order)
            begun = self._check_started(order, started, asked_at)
            return partial(self._carried_out, *begun) if begun else None
        return None

    def _name_clock(self) -> None:
        """Log when this host's clock begins to be off, and when it is right again."""
        sentence = _clock_difference(self._connection.clock_difference_s)
        self._answers_off = self._answers_off + 1 if sentence else 0
        if self._answers_off == OFF_AFTER:
            log.warning("CLOCK: %s Orders are judged by the console's clock: have this host synchronised.", sentence)
            self._clock_is_off = True
        elif self._clock_is_off and not sentence:
            log.info("CLOCK: this host's clock and the console's agree again.")
            self._clock_is_off = False

    def _execute_next(self, order: Order) -> None:
        try:
            self.execute(order)
        except NotStarted as refusal:
            log.warning("%s", refusal)

    def execute(self, order: Order) -> Result:
        """Start, run and report one order.

        Raises `NotStarted` where it did not start, and `RecordBehind` for a console that has gone back: nothing ran.
        """
        try:
            claims = self._check_grant(order)
            work = self._start(order)
        except RecordBehind:
            raise
        except (Problem, Unreachable, GrantRefused) as refusal:
            raise NotStarted(order, refusal, self._connection.clock_difference_s) from refusal
        return self._carried_out(work, claims)

    def _keep_start(self, work: Work, claims: Mapping[str, Any] | None) -> Result | None:
        """Keep that it was started, before anything runs; where that fails, the failure, which is reported."""
        target = claims.get("target") if claims else None
        facts = {
            "tool": work.tool,
            "target": str(target.get("resource", "")) if isinstance(target, Mapping) else "",
            "payload_hash": work.payload_hash,
        }
        try:
            self._start_body.note(work.action_id, work.attempt, **facts)
        except OSError as fault:
            unkept = Result("failed", error=Failure("START_NOT_KEPT", _fault_text(fault), "before_send"))
            self._report(work, unkept)
            return unkept
        return None

    def _carried_out(self, work: Work, claims: Mapping[str, Any] | None) -> Result:
        unkept = self._keep_start(work, claims)
        if unkept is not None:
            return unkept
        try:
            with self.hold_lease(work):
                result = self._run_handler(work, claims)
        except BaseException:
            # The process is being ended from inside the handler: say what is known, then let it
            # end.
            self._report(work, _open_failure("INTERRUPTED", "The executor was ended while the tool ran."))
            raise
        log.info("%s of action %s says %s", work.tool, work.action_id, result.status)
        with suppress(OSError):
            self._start_body.note(work.action_id, work.attempt, status=result.status)
        self._report(work, result)
        return result

    def begin(self, order: Order) -> Work:
        """Start an order whose effect another program causes; nothing runs here, and `report` gives the outcome later.

        Raises `GrantRefused`, `Problem` or `Unreachable` where it did not start.
        """
        self._check_grant(order)
        return self._start(order)

    def report(self, *, action_id: str, attempt: str, tool: str, result: Result) -> None:
        """Report the outcome of an attempt that this executor began, also from another process."""
        path = f"/actions/{action_id}/executions/{attempt}/observations"
        self._connection.write(path, _observation(tool, result), give_up_after_s=self._report_for_s, stop=self._stop)

    def propose(self, session: Session, call: Call, *, goal: str | None = None) -> tuple[CallResult, Effect | None]:
        """Propose a call in a session of the same console and start it in the same request.

        What it started is run and reported by the returned function, to be called once. There is none where anything
        holds the call back; then it is claimed as any other order. A strict executor wants a proof of the votes, or
        has a hash of its own to show, and starts nothing this way.
        """
        if self._log is not None or self._own_hash is not None:
            return session.call(call, goal=goal), None
        asked_at = time.monotonic()
        result = session.call(call, goal=goal, start=self._at_hand())
        try:
            begun = self._take_start(session, result.raw.get("started"), asked_at)
        except RecordBehind as behind:
            log.warning("%s", behind)
            return result, None
        return result, partial(self._carried_out, *begun) if begun else None

    def decide(self, session: Session, call: Call, *, goal: str | None = None) -> tuple[Decision, Work | None]:
        """Ask the console about one call of a gateway, which carries out itself what is allowed.

        If it is allowed there is the work: send its payload once, while its lease holds (`hold_lease` keeps it), and
        `tell_outcome`. Without work nothing may run, whatever the decision.
        """
        asked_at = time.monotonic()
        return self._take_decision(session, session.decide(call, goal=goal, start=self._at_hand()), asked_at)

    def decide_again(self, session: Session, request: Mapping[str, Any]) -> tuple[Decision, Work | None]:
        """Ask again about a call that waits, by the `request` of its decision, which may be older than this process."""
        asked_at = time.monotonic()
        return self._take_decision(session, session.decide_again(request, start=self._at_hand()), asked_at)

    def tell_outcome(self, work: Work, result: Result) -> None:
        """Report what came of a call that was allowed, until the console has taken it or the time for that is over."""
        with suppress(OSError):
            self._start_body.note(work.action_id, work.attempt, status=result.status)
        self._report(work, result, f"/decisions/{work.action_id}/outcome", attempt=work.attempt)

    def _take_decision(self, session: Session, decision: Decision, asked_at: float) -> tuple[Decision, Work | None]:
        begun = self._take_start(session, decision.raw.get("started"), asked_at)
        if begun is None:
            return decision, None
        work, claims = begun
        try:
            _check_payload(work, claims)
        except NothingSent as refusal:
            self._report(work, Result("failed", error=Failure(refusal.code, refusal.message, "before_send")))
            return decision, None
        return decision, work if self._keep_start(work, claims) is None else None

    def _at_hand(self) -> StartAtOnce:
        return StartAtOnce(self._executor_id, self._wrapper_version, self._timeout_s, self._both)

    def _take_start(self, session: Session, started: Mapping[str, Any] | None, asked_at: float) -> Begun | None:
        """The attempt that came with an answer in this session; None if none did, or if it may not run."""
        self._seen.include(session.seen)
        return self._check_started(_order(started), started, asked_at) if started else None

    def _check_started(self, order: Order, started: Mapping[str, Any], asked_at: float) -> Begun | None:
        """The attempt of an order that was started before its grant could be looked at; None if the grant does not
        hold, which is reported: nothing runs.
        """
        work = self._work(order, started, asked_at)
        try:
            claims = self._check_grant(order)
            self._check_seen(order)
        except RecordBehind as behind:
            self._report(work, Result("failed", error=Failure(behind.code, str(behind), "before_send")))
            raise
        except (GrantRefused, Problem, Unreachable) as refusal:
            log.warning("%s of action %s was started and does not run: %s", work.tool, work.action_id, refusal)
            self._report(work, Result("failed", error=Failure("GRANT_REFUSED", str(refusal), "before_send")))
            return None
        return work, claims

    def _both(self, path: str) -> dict[str, str]:
        """The headers that name the executor in an agent's request: its own key, and proof of the key of its grants."""
        key = self._connection.authorization
        proof = self._possession(path, key.removeprefix("Bearer "))["DPoP"]
        return {"Executor-Authorization": key, "Executor-DPoP": proof, **self._seen.header}

    def _check_grant(self, order: Order) -> Mapping[str, Any] | None:
        """The claims of the grant, which holds for this executor and was not used here before."""
        if not self._holder.issuer:
            return None
        now = self._connection.now()
        claims = verify_grant(order.grant, keys=self._keys, holder=self._holder, at=now)
        if claims["sub"] != order.action_id:
            raise GrantRefused("GRANT_INVALID", "The grant is for another action.")
        if self._log is not None:
            check_sealed(claims, order.proof, policy=self._log)
        self._used.spend(claims, at=now)
        return claims

    def _start(self, order: Order) -> Work:
        path = f"/actions/{order.action_id}/executions"
        body: dict[str, Any] = {
            "grant": order.grant,
            "executor_id": self._executor_id,
            "wrapper_version": self._wrapper_version,
            "timeout_s": self._timeout_s,
        }
        own_hash = self._own_hash(order) if self._own_hash else None
        if own_hash:
            body["payload_hash"] = own_hash
        asked_at = time.monotonic()
        answer = self._send_start(path, order.grant, body)
        work = self._work(order, answer, asked_at)
        try:
            self._check_seen(order)
        except RecordBehind as behind:
            self._report(work, Result("failed", error=Failure(behind.code, str(behind), "before_send")))
            raise
        return work

    def _send_start(self, path: str, token: str, body: Mapping[str, Any]) -> Any:
        """Send a start until it is answered. Sending it again is safe: it is the same write, and nothing has run as
        long as no answer came.
        """
        try:
            return self._connection.write(
                path,
                body,
                give_up_after_s=20.0,
                headers=lambda: {**self._possession(path, token), **self._seen.header},
                stop=self._stop,
            )
        except Problem as refusal:
            self._check_seen(refusal)
            raise

    def _check_seen(self, about: Order | Problem) -> None:
        """Refuse a console that is behind what was seen of it, unless a person let this order start.

        The answers of several web processes may overtake each other, so a doubt is settled by asking.
        """
        self._seen.check_usable()
        if isinstance(about, Problem):
            if about.code not in ("RECORD_BEHIND", "LOG_STOPPED"):
                return
        elif about.override_id is not None or self._seen.doubt is None:
            return
        try:
            self._connection.get("/ledger/standing")
        except (Problem, Unreachable) as fault:
            log.warning("the standing of the record was not answered: %s", fault)
        if self._seen.doubt is not None:
            raise RecordBehind(self._seen.doubt)

    def _possession(self, path: str, grant: str) -> dict[str, str]:
        url = self._connection.address(path)
        return {"DPoP": self._key.proof(method="POST", url=url, token=grant, at=self._connection.now())}

    def _work(self, order: Order, answer: Mapping[str, Any], asked_at: float) -> Work:
        # The lease began no earlier than the request was sent, so the attempt's time is counted
        # from there.
        spent_s = time.monotonic() - asked_at
        lease = Lease(for_s=self._seconds_until(answer["lease_expires_at"]), timeout_s=self._timeout_s - spent_s)
        return Work(
            action_id=order.action_id,
            tool=order.tool,
            version=order.version,
            attempt=str(answer["attempt"]),
            payload=answer["payload"],
            payload_hash=str(answer["payload_hash"]),
            idempotency_key=str(answer["idempotency_key"]),
            trace=read_trace(answer.get("trace")),
            lease=lease,
        )

    def _seconds_until(self, moment: str) -> float:
        return datetime.fromisoformat(moment).timestamp() - self._connection.now()

    def _run_handler(self, work: Work, claims: Mapping[str, Any] | None) -> Result:
        try:
            _check_payload(work, claims)
            work.lease.require()
            if work.tool not in self._handlers:
                raise NothingSent("NO_HANDLER", f"This executor has no handler for {work.tool}.")
            result = self._handlers[work.tool](work)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            if not isinstance(result, Result):
                raise TypeError(f"the handler of {work.tool} returned {type(result).__name__}, not a Result")
            return result
        except NothingSent as refusal:
            phase = "after_send" if work.begun else "before_send"
            return Result("failed", error=Failure(refusal.code, refusal.message, phase))
        except LeaseOver as over:
            phase = "after_send" if work.begun else "before_send"
            return Result("failed", error=Failure("LEASE_OVER", str(over), phase))
        except (TimeoutError, httpx.TimeoutException) as late:
            return Result("timeout", error=Failure("TOOL_TIMEOUT", _fault_text(late), "unknown"))
        except Exception as fault:
            log.exception("%s of action %s raised", work.tool, work.action_id)
            return _open_failure("TOOL_RAISED", _fault_text(fault))

    @contextmanager
    def hold_lease(self, work: Work) -> Iterator[None]:
        """Extend the lease of an attempt while its effect is under way."""
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(work, done), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(timeout=1.0)

    def _beat(self, work: Work, done: threading.Event) -> None:
        path = f"/actions/{work.action_id}/executions/{work.attempt}/heartbeat"
        while (left_s := work.lease.left_s()) > 0.0 and not done.wait(max(0.2, left_s / 3)):
            try:
                body = {"executor_id": self._executor_id}
                answer = self._connection.post(path, body, trace=work.trace, timeout_s=max(1.0, left_s))
                if answer and answer.get("lease_expires_at"):
                    work.lease.extend(for_s=self._seconds_until(answer["lease_expires_at"]))
            except Unreachable:
                log.warning("heartbeat of action %s was not answered", work.action_id)
            except Problem as refusal:
                if refusal.status in (403, 404, 409):
                    work.lease.lose()
                log.warning("heartbeat of action %s was refused: %s", work.action_id, refusal)

    def _report(self, work: Work, result: Result, path: str = "", **params: str) -> None:
        path = path or f"/actions/{work.action_id}/executions/{work.attempt}/observations"
        try:
            answer = self._connection.write(
                path,
                _observation(work.tool, result),
                give_up_after_s=self._report_for_s,
                trace=work.trace,
                params=params | ({"report": "true"} if self._on_report else {}),
                stop=self._stop,
            )
            if self._on_report and answer and answer.get("report"):
                self._on_report(reading.read_observed(work.action_id, answer))
        except (Problem, Unreachable):
            # The effect is not repeated. The console's lease runs out and it reads the system back.
            log.exception("the observation of action %s could not be delivered", work.action_id)


def _check_payload(work: Work, claims: Mapping[str, Any] | None) -> None:
    try:
        found = digest(dict(work.payload))
    except NotCanonical as fault:
        raise NothingSent("PAYLOAD_NOT_CANONICAL", str(fault)) from fault
    if found != work.payload_hash:
        raise NothingSent("PAYLOAD_HASH_MISMATCH", f"The payload has the hash {found}, not {work.payload_hash}.")
    if claims is not None:
        try:
            check_payload(claims, work.payload)
        except GrantRefused as refusal:
            raise NothingSent(refusal.code, str(refusal)) from refusal


def _observation(tool: str, result: Result) -> dict[str, Any]:
    error = result.error
    body: dict[str, Any] = {
        "result": {
            "tool": tool,
            "status": result.status,
            "evidence": result.evidence,
            "error": {"code": error.code, "message": error.message, "phase": error.phase} if error else None,
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "side_effects": list(result.side_effects),
        }
    }
    if result.sub_results:
        body["sub_results"] = [_plain(dict(item)) for item in result.sub_results]
    if result.raw is not None:
        body["raw"] = _plain(result.raw)
    return body


def _start_body(start: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kept start in the API's form."""
    at = datetime.fromtimestamp(start["at"], UTC).isoformat().replace("+00:00", "Z")
    texts = {name: str(start.get(name, "")) for name in ("tool", "target", "payload_hash", "status")}
    return {"action_id": start["action_id"], "attempt": start["attempt"], "started_at": at, **texts}


def _plain(raw: Any) -> Any:
    """The tool's own output, as text when it has no canonical form: it must not keep the
    observation from arriving.
    """
    try:
        encode_canonical(raw)
    except NotCanonical:
        return json.dumps(raw, default=repr)
    return raw


def _order(item: Mapping[str, Any]) -> Order:
    return Order(
        action_id=item["action_id"],
        tool=item["tool"],
        version=item["version"],
        grant=item["grant"],
        grant_expires_at=item["grant_expires_at"],
        proof=item.get("proof"),
        override_id=item.get("override_id"),
    )


def _open_failure(code: str, message: str) -> Result:
    return Result("failed", error=Failure(code, message, "unknown"))


def _fault_text(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}"[:500]
