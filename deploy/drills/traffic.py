"""Work for a drill: an agent that wants each thing done once, a reviewer who approves, and the count at the end."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx

from deploy.drills.installation import DrillFailed, Installation

FINAL = frozenset({"RECONCILED_SUCCESS", "FAILED", "REVIEW_REQUIRED", "ROLLED_BACK", "BLOCKED", "REJECTED"})
ASK_EVERY_S = 1.0


@dataclass
class Wish:
    """One thing that the agent wants done once; `actions` are those that were accepted for it, the newest last."""

    path: str
    tool: str
    actions: list[str] = field(default_factory=list)
    state: str = ""
    lost: int = 0


@dataclass
class Count:
    """The outcome of a drill."""

    wishes: int
    effects: int
    lost: list[str]
    doubled: list[str]
    doubled_after_reading: list[str]
    false: list[str]
    stuck: list[str]

    @property
    def wrong(self) -> list[str]:
        """What no drill allows."""
        return [*self.doubled, *self.false, *self.stuck]

    def say(self, heading: str, more: str = "") -> None:
        """Print the outcome, and the first of what went wrong."""
        print(
            f"{heading}, {self.wishes} wishes, {self.effects} effects: lost {len(self.lost)},"
            f" doubled {len(self.doubled)}, false {len(self.false)}, stuck {len(self.stuck)};"
            f" again after a reading or a person: {len(self.doubled_after_reading)}{more}"
        )
        for name in ("doubled", "false", "stuck"):
            for each in getattr(self, name)[:20]:
                print(f"  {name}: {each}")


class Traffic:
    """An agent with `per_s` wishes a second, a quarter of which need a person, and that person."""

    def __init__(self, place: Installation, *, per_s: float) -> None:
        self.place = place
        self.pause_s = 1 / per_s
        self.wishes: dict[str, Wish] = {}
        self.votes: dict[str, list[float]] = defaultdict(list)
        self.refused_votes: list[str] = []
        self.paused = threading.Event()
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._wish, self._look, self._approve)]

    def begin(self) -> None:
        for each in self._threads:
            each.start()

    def end(self) -> None:
        self.ended.set()
        for each in self._threads:
            each.join(timeout=30)

    def open(self) -> list[Wish]:
        return [wish for wish in list(self.wishes.values()) if wish.state not in FINAL]

    # The agent

    def _wish(self) -> None:
        number = 0
        while not self.ended.wait(self.pause_s):
            if self.paused.is_set():
                continue
            number += 1
            path = f"w{number}-{uuid4().hex[:6]}.md"
            wish = Wish(path, "delete_document" if number % 4 == 0 else "write_document")
            if wish.tool == "delete_document":
                (self.place.documents / path).write_text("An outdated draft.")
            self.wishes[path] = wish
            self._propose(wish)

    def _propose(self, wish: Wish) -> None:
        """Ask until it is accepted, as the client library would, with the same key for the same request."""
        key = uuid4().hex
        while not self.ended.is_set():
            with suppress(httpx.HTTPError, KeyError, ValueError), self.place.machine("agent") as agent:
                opened = agent.post("/sessions", json={"agent_id": "clerk", "goal": "Tidy up.", "ttl_seconds": 3600})
                session = opened.json()
                call = {
                    "call_id": key,
                    "tool": wish.tool,
                    "arguments": _arguments(wish),
                    "pin_hash": session["pin"]["hash"],
                }
                answer = agent.post(
                    f"/sessions/{session['session_id']}/calls",
                    json={"calls": [call]},
                    headers={"Idempotency-Key": key},
                )
                result = answer.json()["results"][0]
                if result.get("action_id"):
                    wish.actions.append(result["action_id"])
                    return
                if answer.status_code == 200 and result.get("accepted") is False:
                    wish.state = f"refused {result.get('code')}"
            time.sleep(0.5)

    def _look(self) -> None:
        """Look what became of each wish; one whose action is gone is proposed again."""
        while not self.ended.wait(ASK_EVERY_S):
            with self.place.machine("oper") as operator:
                for wish in self.open():
                    if not wish.actions:
                        continue
                    with suppress(httpx.HTTPError, ValueError):
                        answer = operator.get(f"/actions/{wish.actions[-1]}")
                        if answer.status_code == 200:
                            wish.state = answer.json()["state"]
                        elif answer.status_code == 404:
                            wish.lost += 1
                            self._propose(wish)

    # The person

    def _approve(self) -> None:
        reviewer, password = self.place.person("reviewer")
        while not self.ended.wait(0.5):
            with suppress(httpx.HTTPError, KeyError, ValueError, DrillFailed):
                answer = reviewer.get("/api/v1/approvals", params={"state": "REQUESTED", "limit": 50})
                if answer.status_code in (401, 403):
                    # The database that went back has forgotten the session.
                    reviewer, password = self.place.person("reviewer")
                    continue
                for each in answer.json()["items"]:
                    shown = reviewer.get(f"/api/v1/approvals/{each['approval_id']}").json()
                    body = {
                        "verdict": "approve",
                        "payload_hash": shown["covers"]["payload_hash"],
                        "rendering_digest": shown["rendering_digest"],
                        "reason": "It may go.",
                        "password": password,
                    }
                    answer = reviewer.post(
                        f"/api/v1/approvals/{each['approval_id']}/votes",
                        json=body,
                        headers={"Idempotency-Key": uuid4().hex},
                    )
                    if answer.status_code == 201:
                        self.votes[each["action_id"]].append(time.time())
                    else:
                        self.refused_votes.append(answer.text[:300])

    # The end

    def finish(self, *, within_s: float) -> None:
        """Wish nothing more, and wait until nothing is open."""
        self.paused.set()
        until = time.monotonic() + within_s
        while self.open() and time.monotonic() < until:
            time.sleep(0.5)
        self.end()

    def count(self) -> Count:
        done: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in (self.place.effects.read_text() if self.place.effects.exists() else "").splitlines():
            deed = json.loads(line)
            done[deed["path"]].append(deed)
        doubled, known = [], []
        with self.place.machine("oper") as operator:
            for path, deeds in done.items():
                for before, after in pairwise(deeds):
                    (known if self._was_known(operator, before, after) else doubled).append(path)
            false = [
                wish.path
                for wish in self.wishes.values()
                if wish.state == "RECONCILED_SUCCESS"
                and (self.place.documents / wish.path).exists() != (wish.tool == "write_document")
            ]
        return Count(
            wishes=len(self.wishes),
            effects=sum(map(len, done.values())),
            lost=[wish.path for wish in self.wishes.values() for _ in range(wish.lost)],
            doubled=doubled,
            doubled_after_reading=known,
            false=false,
            stuck=[f"{wish.path} {wish.state}" for wish in self.open()],
        )

    def _was_known(self, operator: httpx.Client, before: dict[str, Any], after: dict[str, Any]) -> bool:
        """Whether the target was read, or a person asked, between the two effects."""
        if any(before["at"] < voted < after["at"] for voted in self.votes[after["action"]]):
            return True
        items = operator.get(f"/actions/{after['action']}/history", params={"limit": 200}).json().get("items", [])
        return any(each["event"] == "reading_taken" and _seconds(each["at"]) > before["at"] for each in items)


def _arguments(wish: Wish) -> dict[str, str]:
    if wish.tool == "delete_document":
        return {"path": wish.path, "reason": "It is out of date."}
    text = f"The text of {wish.path}."
    return {"path": wish.path, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
