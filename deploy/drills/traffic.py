"""Work for a drill: an agent that wants each order executed once, a reviewer who approves, and the final count."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, pairwise
from typing import Any
from uuid import uuid4

import httpx

from counterfoil.agent import Agent, Call
from counterfoil.problems import Problem, Unreachable
from counterfoil.transport.request import Backoff
from deploy.drills.installation import DrillFailed, Installation

FINAL = frozenset({"RECONCILED_SUCCESS", "FAILED", "REVIEW_REQUIRED", "ROLLED_BACK", "BLOCKED", "REJECTED"})
ASK_EVERY_S = 1.0
ASKED_AT_ONCE = 60
PATIENCE = Backoff(give_up_after_s=300.0, longest_s=2.0)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The agent's wishes: how many a second over how many connections; each `person_every`-th needs a person."""

    per_s: float
    callers: int = 1
    person_every: int = 4


@dataclass(frozen=True)
class Denial:
    """A refusal to the agent; `after_s` is its retry time."""

    at: float
    status: int
    code: str
    after_s: str | None

    def __str__(self) -> str:
        return f"{self.status} {self.code}" + ("" if self.after_s else ", no Retry-After")


@dataclass
class Wish:
    """One order that the agent wants executed once; `actions` are the accepted ones, the newest last. `took_s` is how
    long the newest proposal took, with all its tries; `settled_at` is when the outcome was first seen.
    """

    path: str
    tool: str
    actions: list[str] = field(default_factory=list)
    took_s: float = 0.0
    accepted_at: float = 0.0
    state: str = ""
    settled_at: float = 0.0
    lost: int = 0


@dataclass(kw_only=True)
class Figure:
    """The answer to one question of a drill: seconds, of which the longest counts, or how many `of` so many, in sum.

    It misses its aim above `most`; without one it only tells. `about` says more of it, such as which refusals there
    were.
    """

    asked: str
    value: float
    of: int | None = None
    most: float | None = None
    about: list[str] = field(default_factory=list)

    @property
    def missed(self) -> bool:
        # Not a number is no answer, and misses too.
        return self.most is not None and not self.value <= self.most

    def add(self, other: Figure) -> None:
        """Take up the figure of another round."""
        if self.of is None:
            longer = other.value > self.value
            self.value, self.about = (other.value, other.about) if longer else (self.value, self.about)
        else:
            self.value, self.of = self.value + other.value, self.of + (other.of or 0)
            self.about += other.about

    def __str__(self) -> str:
        return f"{self.value:.2f} s" if self.of is None else f"{self.value:.0f} of {self.of}"

    @property
    def aim(self) -> str:
        if self.most is None:
            return ""
        if self.of is not None:
            return f"{self.most:.0f}"
        return f"≤ {self.most:g} s"


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
    amiss: list[str]
    figures: list[Figure]

    @property
    def missed(self) -> list[str]:
        """The figures that miss their aim, with what is known about them."""
        found = [each for each in self.figures if each.missed]
        return [f"{each.asked}: {each}, aim {each.aim}; {', '.join(each.about[:5])}" for each in found]

    @property
    def wrong(self) -> list[str]:
        """The faults that no drill allows."""
        return [*self.doubled, *self.false, *self.stuck, *self.amiss, *self.missed]

    def say(self, heading: str) -> None:
        """Print the outcome, and the first faults."""
        print(
            f"{heading}, {self.wishes} wishes, {self.effects} effects: lost {len(self.lost)},"
            f" doubled {len(self.doubled)}, false {len(self.false)}, stuck {len(self.stuck)};"
            f" again after a reading or a person: {len(self.doubled_after_reading)}"
        )
        for figure in self.figures:
            print(f"  {figure.asked}: {figure}")
        for name in ("doubled", "false", "stuck", "amiss", "missed"):
            for each in getattr(self, name)[:20]:
                print(f"  {name}: {each}")


class Traffic:
    """An agent that uses the client library, at a given pace, and the person who approves.

    `amiss` takes what a drill finds that must not be: the first of it is printed, and the drill fails. `figures` are
    what it measured, by question. `answers` are the moments of the answers to the agent and how long each took,
    `broken` its requests that got none.
    """

    def __init__(self, place: Installation, pace: Pace) -> None:
        self.place = place
        self.pace = pace
        self.wishes: dict[str, Wish] = {}
        self.votes: dict[str, list[float]] = defaultdict(list)
        self.refused_votes: list[str] = []
        self.denials: list[Denial] = []
        self.amiss: list[str] = []
        self.figures: dict[str, Figure] = {}
        self.answers: list[tuple[float, float]] = []
        self.broken: list[tuple[float, str]] = []
        self.paused = threading.Event()
        self.ended = threading.Event()
        self._numbers = count(1)
        jobs = [*[self._wish] * pace.callers, self._look, self._approve]
        self._threads = [threading.Thread(target=each, daemon=True) for each in jobs]

    def begin(self) -> None:
        for each in self._threads:
            each.start()

    def end(self) -> None:
        self.ended.set()
        for each in self._threads:
            each.join(timeout=30)

    def open(self) -> list[Wish]:
        return [wish for wish in list(self.wishes.values()) if wish.state not in FINAL]

    def accepted(self) -> int:
        """The number of accepted wishes so far."""
        return sum(bool(wish.actions) for wish in list(self.wishes.values()))

    def answered(self, since: float, until: float) -> list[float]:
        """The seconds that proposals took which were accepted in this time."""
        return [wish.took_s for wish in list(self.wishes.values()) if since <= wish.accepted_at < until]

    def settled(self, since: float, until: float) -> list[float]:
        """The seconds from effect to the outcome, of effects in this time; what is not settled counts until now."""
        deeds = {deed["path"]: deed["at"] for deed in self._deeds() if since <= deed["at"] < until}
        return [(self.wishes[path].settled_at or time.time()) - at for path, at in deeds.items()]

    def denials_since(self, moment: float) -> list[Denial]:
        return [each for each in list(self.denials) if each.at >= moment]

    def measure(self, figure: Figure) -> None:
        """Note the figure of a round."""
        if (known := self.figures.get(figure.asked)) is not None:
            known.add(figure)
        else:
            self.figures[figure.asked] = figure

    def measure_refusals(self, since: float) -> None:
        """Note how many of the agent's requests since then were refused or got no answer; none may be."""
        refused = self.denials_since(since)
        broken = [told for at, told in list(self.broken) if at >= since]
        about = [*map(str, refused), *(f"no answer: {each}" for each in broken)]
        answered = sum(at >= since for at, _ in list(self.answers))
        counted = [f"{many} x {text}" for text, many in Counter(about).items()]
        asked = "requests of the agent refused, or without an answer"
        self.measure(Figure(asked=asked, value=len(about), of=answered + len(broken), most=0, about=counted))

    # The agent

    def _wish(self) -> None:
        agent = Caller(self)
        while not self.ended.wait(self.pace.callers / self.pace.per_s):
            if self.paused.is_set():
                continue
            number = next(self._numbers)
            path = f"w{number}-{uuid4().hex[:6]}.md"
            wish = Wish(path, "delete_document" if number % self.pace.person_every == 0 else "write_document")
            if wish.tool == "delete_document":
                (self.place.documents / path).write_text("An outdated draft.")
            self.wishes[path] = wish
            agent.propose(wish)

    def _look(self) -> None:
        """Check the outcome of each wish, some at a time; a lost action is proposed again."""
        agent, place = Caller(self), 0
        while not self.ended.wait(ASK_EVERY_S):
            asked = [wish for wish in self.open() if wish.actions]
            place = place if place < len(asked) else 0
            with self.place.machine("oper") as operator, suppress(httpx.HTTPError, ValueError):
                for wish in asked[place : place + ASKED_AT_ONCE]:
                    answer = operator.get(f"/actions/{wish.actions[-1]}")
                    if answer.status_code == 200:
                        wish.state = answer.json()["state"]
                        if wish.state in FINAL:
                            wish.settled_at = time.time()
                    elif answer.status_code == 404:
                        wish.lost += 1
                        agent.propose(wish)
            place += ASKED_AT_ONCE

    # The person

    def _approve(self) -> None:
        signed_in: tuple[httpx.Client, str] | None = None
        while not self.ended.wait(0.5):
            with suppress(httpx.HTTPError, KeyError, ValueError, DrillFailed):
                signed_in = signed_in or self.place.person("reviewer")
                reviewer, password = signed_in
                answer = reviewer.get("/api/v1/approvals", params={"state": "REQUESTED", "limit": 50})
                if answer.status_code in (401, 403):
                    # The database that went back has forgotten the session.
                    signed_in = None
                    continue
                for each in answer.json()["items"]:
                    shown = reviewer.get(f"/api/v1/approvals/{each['approval_id']}").json()
                    body = {
                        "verdict": "approve",
                        "payload_hash": shown["covers"]["payload_hash"],
                        "rendering_digest": shown["rendering_digest"],
                        "without_reading": shown["target_unread"],
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

    def finish(self, *, still_s: float) -> None:
        """Propose nothing more, and wait until nothing is open, or nothing has changed for `still_s` seconds."""
        self.paused.set()
        moved_at, before = time.monotonic(), [""]
        while self.open() and time.monotonic() - moved_at < still_s:
            now = [wish.state for wish in self.open()]
            if now != before:
                moved_at, before = time.monotonic(), now
            time.sleep(0.5)
        self.end()

    def count(self) -> Count:
        done: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for deed in self._deeds():
            done[deed["path"]].append(deed)
        doubled, known = [], []
        with self.place.machine("oper") as operator:
            for path, deeds in done.items():
                for before, after in pairwise(deeds):
                    (known if self._was_known(operator, before, after) else doubled).append(path)
            # Whatever is still open is asked about all the time; what was settled may have gone since.
            for wish in self.wishes.values():
                if wish.state in FINAL and operator.get(f"/actions/{wish.actions[-1]}").status_code == 404:
                    wish.lost += 1
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
            amiss=self.amiss,
            figures=list(self.figures.values()),
        )

    def _deeds(self) -> list[dict[str, Any]]:
        """The effects that executors have noted, oldest first."""
        lines = self.place.effects.read_text().splitlines() if self.place.effects.exists() else []
        return [json.loads(line) for line in lines]

    def _was_known(self, operator: httpx.Client, before: dict[str, Any], after: dict[str, Any]) -> bool:
        """Return True if the target was read, or a person asked, between the two effects."""
        if any(before["at"] < voted < after["at"] for voted in self.votes[after["action"]]):
            return True
        items = operator.get(f"/actions/{after['action']}/history", params={"limit": 200}).json().get("items", [])
        return any(each["event"] == "reading_taken" and _seconds(each["at"]) > before["at"] for each in items)


class Line(httpx.HTTPTransport):
    """Notes how long each answer takes, and each request that gets none; the client library asks again then."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        began = time.monotonic()
        try:
            response = super().handle_request(request)
        except httpx.TransportError as error:
            self._traffic.broken.append((time.time(), type(error).__name__))
            raise
        self._traffic.answers.append((time.time(), time.monotonic() - began))
        return response


class Caller:
    """One connection of the agent: it proposes through the client library, each call in its own session."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        place = traffic.place
        http = httpx.Client(transport=Line(traffic), timeout=20, event_hooks={"response": [self._note]})
        place.clients.append(http)
        self._agent = Agent(
            url=place.url, key=place.known["keys"]["agent"], agent_id="clerk", http=http, backoff=PATIENCE
        )

    def propose(self, wish: Wish) -> None:
        """Propose until it is accepted; a refusal is a fault, and is retried."""
        while not self._traffic.ended.is_set():
            began = time.monotonic()
            try:
                session = self._agent.open_session(goal="Tidy up.", ttl_seconds=3600)
                result = session.call(Call(wish.tool, _arguments(wish)))
            except (Problem, Unreachable):
                # The library has been patient. A database that went back may have forgotten the session.
                time.sleep(0.5)
                continue
            if result.action_id:
                wish.took_s, wish.accepted_at = time.monotonic() - began, time.time()
                wish.actions.append(result.action_id)
                return
            self._traffic.amiss.append(f"{wish.path} was refused: {result.code} {result.message}")
            time.sleep(0.5)

    def _note(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        response.read()
        try:
            code = str(response.json()["code"])
        except (ValueError, KeyError, TypeError):
            code = "without a code"
        denial = Denial(time.time(), response.status_code, code, response.headers.get("Retry-After"))
        self._traffic.denials.append(denial)


def _arguments(wish: Wish) -> dict[str, str]:
    if wish.tool == "delete_document":
        return {"path": wish.path, "reason": "It is out of date."}
    text = f"The text of {wish.path}."
    return {"path": wish.path, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
