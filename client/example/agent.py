"""The scripted agent: each case of the table once, then a slow trickle of ordinary work.

Which cases were sent is kept in COUNTERFOIL_EXAMPLE_STATE, so that a second start goes on with the
trickle instead of sending everything again. It asks the console for the report of what it sent, the
way an agent must before it tells anybody, and holds back while people have enough to approve.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import psycopg

from counterfoil.agent import Agent
from counterfoil.problems import Problem, Unreachable
from example import environment, shop
from example.cases import BY_NAME, ORDINARY, TABLE, Case
from example.stage import Sent, Stage
from example.tools import hasty

log = logging.getLogger("example.agent")

TABLE_PACE_S = 4.0
TRICKLE_PACE_S = 30.0
OPEN_APPROVALS = 3
_FOLLOWED = 50
_ENDED = ("FAILED", "ABANDONED", "REVIEW_REQUIRED")
_NEEDS_PEOPLE = (BY_NAME["clean_refund"], BY_NAME["document_delete"])


def run() -> None:
    """Send the example's work until stopped."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stage = from_environment(approved=False)
    sender = Sender(stage, environment.folder("COUNTERFOIL_EXAMPLE_STATE") / "cases.json")
    sender.table(stop)
    sender.trickle(stop)


def from_environment(*, approved: bool) -> Stage:
    """The stage that the environment describes."""
    agent = Agent(
        url=environment.setting("COUNTERFOIL_URL"),
        key=environment.setting("COUNTERFOIL_AGENT_KEY"),
        agent_id=environment.AGENT_ID,
    )
    return Stage(shop.from_environment(), agent, approved=approved)


class Sender:
    """Sends cases and follows their progress."""

    def __init__(self, stage: Stage, file: Path) -> None:
        self._stage = stage
        self._file = file
        self._open: dict[str, Sent] = {}

    def table(self, stop: threading.Event) -> None:
        """Send each unsent case of the table in order; a failing one waits for its next turn without delaying the
        others.
        """
        while (left := [case for case in TABLE if case.name not in self._done()]) and (not stop.is_set()):
            for case in left:
                if self._send(case):
                    self._note(case)
                if stop.wait(TABLE_PACE_S):
                    return

    def trickle(self, stop: threading.Event) -> None:
        """Send ordinary work until stopped, and now and then work that needs approval."""
        while not stop.wait(random.uniform(0.7, 1.3) * TRICKLE_PACE_S):
            waiting = self._follow()
            for_people = waiting < OPEN_APPROVALS and random.random() < 0.25
            self._send(random.choice(_NEEDS_PEOPLE if for_people else ORDINARY))

    def _send(self, case: Case) -> bool:
        try:
            sent = case.play(self._stage, case)
        except (Problem, Unreachable, psycopg.OperationalError) as fault:
            log.warning("%s could not be sent: %s", case.name, fault)
            return False
        log.info("%s: %s", case.name, sent.code or sent.action_id or sent.state)
        if sent.action_id:
            self._open |= dict.fromkeys(sent.steps or (sent.action_id,), sent)
            self._say(sent)
        else:
            self._stage.sessions.pop(sent.session_id, None)
        return True

    def _say(self, sent: Sent) -> None:
        """Send the user what the guard allows; drop it if the console is unreachable."""
        session, words = self._stage.sessions.get(sent.session_id), hasty(sent)
        if session is None or words is None:
            return
        try:
            log.info("%s: the user is told: %s", sent.case, session.guarded(words))
        except (Problem, Unreachable) as fault:
            log.warning("%s: the guard could not be asked, nothing is told: %s", sent.case, fault)

    def _follow(self) -> int:
        """Ask for the outcome of the open actions; return the number that wait for people."""
        waiting = 0
        for action_id, sent in list(self._open.items())[:_FOLLOWED]:
            try:
                state = self._stage.agent.status(action_id).state
                report = self._stage.agent.report(action_id)
            except (Problem, Unreachable) as fault:
                log.warning("%s: %s", action_id, fault)
                continue
            if state == "VALIDATED":
                waiting += sent.approval_required
                continue
            if report.completed or report.code == "COMPENSATED" or state in _ENDED:
                del self._open[action_id]
                log.info("%s may be told: %s", sent.case, report.text)
                self._say(sent)
                self._stage.sessions.pop(sent.session_id, None)
        return waiting

    def _done(self) -> Sequence[str]:
        try:
            names: list[str] = json.loads(self._file.read_text())
        except FileNotFoundError:
            return []
        return names

    def _note(self, case: Case) -> None:
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps([*self._done(), case.name]))
        os.replace(draft, self._file)
