"""The console's word on the calls that pass a gateway of somebody else's, for its plug-in. Everything here blocks.

What waits is on disk before its caller is told so: one file a call, which holds the request to ask again, so that the
same call, after any restart of either side, is the same decision.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterfoil.agent import Agent, Call, Session
from counterfoil.answers import Decision
from counterfoil.canonical import NotCanonical, digest
from counterfoil.execution.seen import RecordBehind
from counterfoil.executor import Executor
from counterfoil.gating.executing import HTTP_S
from counterfoil.gating.files import write_private
from counterfoil.gating.settings import BadSettings, ConsoleSettings, add_keys, read_part
from counterfoil.problems import Problem, Unreachable
from counterfoil.transport.request import Backoff
from counterfoil.work import Result, Work

log = logging.getLogger("counterfoil.gating")

_REPORT_FOR_S = 60.0


@dataclass(frozen=True)
class DecidingSettings:
    """The goal that is pinned, how long a call that was allowed may take, and for how long the console is asked."""

    goal: str = ""
    ttl_s: int = 86_400
    timeout_s: int = 30
    give_up_s: float = 10.0
    state: str = ""


@dataclass(frozen=True)
class Decided:
    """A decision and, if the call may run now, its work; `message` is what its caller may be told otherwise."""

    decision: Decision | None
    work: Work | None
    message: str = field(default="")


class Decider:
    """One session and one executor, for the tools of one agent."""

    def __init__(
        self, console: ConsoleSettings, settings: DecidingSettings, *, http: httpx.Client | None = None
    ) -> None:
        for name, value in {"goal": settings.goal, "state": settings.state, "agent_id": console.agent_id}.items():
            if not value:
                raise BadSettings(f"`{name}` is missing.")
        self._console, self._settings, self._http = console, settings, http or httpx.Client(timeout=HTTP_S)
        self._state = Path(settings.state)
        self._waiting = self._state / "waiting"
        self._waiting.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._executor: Executor | None = None

    @classmethod
    def of(
        cls, document: Mapping[str, Any], environment: Mapping[str, str], *, http: httpx.Client | None = None
    ) -> Decider:
        """The decider of a settings document with the tables `console` and `deciding`; keys as for the gateways."""
        console = add_keys(read_part(ConsoleSettings, document.get("console", {}), "console"), environment)
        return cls(console, read_part(DecidingSettings, document.get("deciding", {}), "deciding"), http=http)

    def decide(self, tool: str, arguments: Mapping[str, Any], *, caller: str = "") -> Decided:
        """The console's word on a call; without work nothing may run. Where the console cannot be asked, nothing may.

        The same call of the same `caller`, while the first waits, is that one.
        """
        try:
            session, executor = self._open()
            place = self._waiting / f"{digest({'caller': caller, 'tool': tool, 'arguments': dict(arguments)})}.json"
            kept = json.loads(place.read_text()) if place.exists() else None
            decision, work = (
                executor.decide_again(session, kept) if kept else executor.decide(session, Call(tool, arguments))
            )
            if decision.decision == "wait":
                write_private(place, json.dumps(dict(decision.request)).encode())
            else:
                place.unlink(missing_ok=True)
        except NotCanonical as fault:
            return Decided(None, None, f"Refused: {fault}")
        except (Problem, Unreachable, RecordBehind) as fault:
            log.warning("%s could not be decided on: %s", tool, fault)
            return Decided(None, None, f"Not executed. The console gave no decision: {fault}")
        return Decided(decision, work, _message(decision, work))

    def hold_lease(self, work: Work) -> AbstractContextManager[None]:
        """Extend the lease while the call is under way."""
        assert self._executor is not None
        return self._executor.hold_lease(work)

    def tell_outcome(self, work: Work, result: Result) -> None:
        """Report what came of a call that was allowed."""
        assert self._executor is not None
        self._executor.tell_outcome(work, result)

    def _open(self) -> tuple[Session, Executor]:
        with self._lock:
            if self._session is None or self._executor is None:
                self._session, self._executor = self._enlist()
            return self._session, self._executor

    def _enlist(self) -> tuple[Session, Executor]:
        """Pin the goal, and register as the executor of the tools that the session discloses."""
        console, wish = self._console, self._settings
        backoff = Backoff(give_up_after_s=wish.give_up_s)
        agent = Agent(
            url=console.url, key=console.agent_key, agent_id=console.agent_id, http=self._http, backoff=backoff
        )
        session = agent.open_session(goal=wish.goal, ttl_seconds=wish.ttl_s, renew=True)
        executor = Executor(
            url=console.url,
            key=console.executor_key,
            executor_id=console.executor_id or f"{console.agent_id}-gateway",
            key_file=self._state / "executor.jwk",
            handlers=dict.fromkeys((tool.name for tool in session.contract.tools), _run_nothing),
            timeout_s=wish.timeout_s,
            report_for_s=_REPORT_FOR_S,
            issuer=console.issuer or None,
            http=self._http,
        )
        executor.register()
        return session, executor


def _run_nothing(work: Work) -> Result:
    raise NotImplementedError(f"{work.tool} is carried out by its gateway.")


def _message(decision: Decision, work: Work | None) -> str:
    if work is not None:
        return ""
    if decision.decision == "wait":
        return f"Not executed yet (task {decision.decision_id}). {decision.reason}"
    return f"Not executed. {decision.reason or 'It was allowed, and what came with it does not fit.'}"
