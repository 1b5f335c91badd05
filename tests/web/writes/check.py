"""Find the faults of a write, over the API and from its page, as the proposer and as a second person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.messages import get_messages

from tests.support.admissions import FRESH_PROOF, SECOND_PERSON
from tests.support.callers import Api
from tests.support.probes import AN_ID, Day
from tests.web.writes.write import PROOF, Ids, Write, events_of, proposer, undone

Send = Callable[..., Any]


def faults_of(write: Write, day: Day) -> list[str]:
    """Everything in which this write is not what the tables say, over the API and from its page."""
    found = []
    for surface, send in (("API", write.call), ("page", write.send)):
        with undone():
            ids = write.begin(day)
            found += [f"{write.operation}, {surface}: {each}" for each in _faults(write, day, send, ids)]
    return found


def _faults(write: Write, day: Day, send: Send, ids: Ids) -> list[str]:
    found, second = [], day.own[write.role()]
    if write.operation in FRESH_PROOF:
        found += _refusal(write, day, send, second, ids, {}, "without a proof")
        found += _refusal(write, day, send, second, ids, {"password": "wrong"}, "with a wrong password")
        proof = PROOF
    else:
        proof = {}
    if write.operation in SECOND_PERSON:
        found += _refusal(write, day, send, proposer(day), ids, proof, "by whoever proposed it")
    with undone():
        appended = events_of(day)
        answer = send(day, second.again(), ids, **proof)
        now = appended()
        kinds = tuple(kind for _, kind in now)
        about = {subject for subject, _ in now}
        things = set() if write.makes else {each for each in ids.values() if AN_ID.fullmatch(each)}
        # What the input itself took, such as a new action, is appended before.
        if sorted(kinds[-len(write.events) :]) != sorted(write.events) or (things and not about & things):
            found.append(f"appended {kinds}, not {write.events}")
        if send == write.send:
            said = [str(each) for each in get_messages(answer.wsgi_request)]
            if answer.status_code != 302 or (write.said and said[-1:] != [write.said]):
                found.append(f"answered {answer.status_code} {said}")
        elif answer.status_code not in (200, 201, 202):
            found.append(f"answered {answer.status_code} {answer.content[:200]!r}")
    return found


def _refusal(write: Write, day: Day, send: Send, caller: Api, ids: Ids, proof: dict[str, str], words: str) -> list[str]:
    with undone():
        appended = events_of(day)
        answer = send(day, caller.again(), ids, **proof)
        # A page sends whoever gave no proof to where they can.
        refused = answer.status_code == 403 or (answer.status_code == 302 and "again" in answer["Location"])
        done = [kind for _, kind in appended() if kind in write.events]
    return [] if refused and not done else [f"taken {words}: {answer.status_code} {done}"]
