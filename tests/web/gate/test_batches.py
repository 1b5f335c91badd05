"""A hundred calls in one request: each is judged and recorded for itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from approvals.models import Call
from ledger.db import tenancy
from tests.support.api_tenant import Workshop


def call(pin: str, number: int, **changes: Any) -> dict[str, Any]:
    arguments = {"path": f"policies/{number}.md", "reason": "It is out of date."}
    return {"call_id": f"call-{number}", "tool": "delete_document", "arguments": arguments, "pin_hash": pin} | changes


BAD = [
    {"tool": "delete_documents"},
    {"arguments": {"path": 7}},
    {"arguments": {"path": "a\0b", "reason": "x"}},
    {"arguments": {"path": "\ud800", "reason": "x"}},
    {"arguments": {"path": "x" * 100_000, "reason": "x"}},
    {"arguments": None},
    {"pin_hash": "0" * 64},
    {"tool": ["delete_document"]},
    {"call_id": {"a": 1}},
    {"based_on": "yesterday"},
    {"evidence": 7},
    {"depends_on": ["01a206d7-6246-7b32-bf92-06b16e0aaa88"]},
]


def test_no_bad_call_of_a_hundred_disturbs_the_others_and_a_repeat_gives_the_same_answers(shop: Workshop):
    session = shop.session()
    pin = session["pin"]["hash"]
    every = len(BAD) * 2
    calls: list[Any] = [
        call(pin, number, **(BAD[number // 2] if number < every and number % 2 else {})) for number in range(97)
    ]
    calls += [None, 7, "delete_document"]
    path = f"/sessions/{session['session_id']}/calls"
    answer = shop.agent.post(path, json.loads(json.dumps({"calls": calls})))
    assert answer.status_code == 200, answer.content
    results = answer.json()["results"]
    accepted = [number for number, each in enumerate(results) if each["accepted"]]
    assert accepted == [number for number in range(97) if number >= every or number % 2 == 0]
    assert len({results[number]["action_id"] for number in accepted}) == len(accepted)
    for each in results:
        assert each["accepted"] or each["result"]["error"]["code"]
    with tenancy(shop.tenant):
        recorded = Call.objects.filter(session_id=session["session_id"]).count()
    assert recorded == 100
    again = shop.agent.post(path, {"calls": calls}).json()["results"]
    assert [again[number]["action_id"] for number in accepted] == [results[number]["action_id"] for number in accepted]


@pytest.mark.parametrize("number", [0, 101])
def test_a_request_has_one_to_a_hundred_calls(shop: Workshop, number: int):
    session = shop.session()
    calls = [call(session["pin"]["hash"], each) for each in range(number)]
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": calls})
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID")
    with tenancy(shop.tenant):
        assert not Call.objects.filter(session_id=session["session_id"]).exists()
