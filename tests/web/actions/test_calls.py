"""Sessions and calls over HTTP: what the gate lets through, and what it writes down."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from approvals.gate.queries import BY_CALL_ID
from tests.support.callers import Api

CONTRACTS = Path(__file__).parents[3] / "client" / "example" / "contracts"
GOAL = "Refund order EX-7F3A21 in full."
REFUND = {"order_id": "EX-7F3A21", "amount": 1250, "currency": "EUR", "reason": "damaged"}


@pytest.fixture
def registered(operator_key: Api) -> None:
    document = json.loads((CONTRACTS / "issue_refund.json").read_text())
    assert operator_key.post("/systems", {"name": "shop", "pattern": "databases"}).status_code == 201
    assert operator_key.post("/contracts", document).status_code == 201
    body = {"agent_id": "support", "version": "1", "tools": ["issue_refund"]}
    assert operator_key.post("/agents", body).status_code == 201


@pytest.fixture
def session(registered: None, agent: Api) -> dict:
    return agent.post("/sessions", {"agent_id": "support", "goal": GOAL, "ttl_seconds": 600}).json()


def call(session: dict, **changes) -> dict:
    return {
        "call_id": uuid4().hex,
        "tool": "issue_refund",
        "arguments": REFUND,
        "pin_hash": session["pin"]["hash"],
    } | changes


def propose(agent: Api, session: dict, *calls: dict) -> dict:
    answer = agent.post(f"/sessions/{session['session_id']}/calls", {"calls": list(calls)})
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.req("R-CR-09", "R-PA-01")
def test_the_handshake_gives_the_contract_and_the_pin(session: dict):
    assert session["contract"]["sub_tools_disclosed"] == ["issue_refund"]
    assert session["contract"]["tools"][0]["arguments_schema"]["required"]
    assert len(session["pin"]["hash"]) == 64


def test_a_dry_run_says_what_the_gate_would_say_and_leaves_no_action(agent: Api, session: dict, operator_key: Api):
    dry = [call(session, dry_run=True), call(session, dry_run=True, arguments=REFUND | {"amount": "12.50"})]
    passed, refused = propose(agent, session, *dry)["results"]
    assert (passed["accepted"], passed["action_id"], passed["state"]) == (True, None, None)
    asked = {"required": True, "approval_id": None, "expires_at": None, "reasons": ["IRREVERSIBLE"]}
    assert passed["approval"] == asked
    assert (refused["accepted"], refused["result"]["error"]["code"]) == (False, "TYPE_COERCION")
    assert refused["action_id"] is None
    assert operator_key.get("/actions").json()["items"] == []
    counts = agent.get(f"/sessions/{session['session_id']}").json()
    assert (counts["calls_accepted"], counts["calls_refused"]) == (1, 1)


@pytest.mark.req("R-AP-02", "R-TG-04")
def test_an_irreversible_call_is_validated_and_waits_for_people(agent: Api, session: dict):
    result = propose(agent, session, call(session))["results"][0]
    assert (result["accepted"], result["state"]) == (True, "VALIDATED"), result
    assert result["approval"]["required"] is True
    assert result["user_status"]["code"] == "NOT_EXECUTED"


@pytest.mark.req("R-MC-06", "R-MC-01")
def test_a_bad_call_leaves_its_neighbours_alone(agent: Api, session: dict):
    other = call(session, arguments=REFUND | {"order_id": "EX-7F3A22"})
    results = propose(agent, session, call(session), call(session, tool="issue_refnd"), other)["results"]
    assert [each["accepted"] for each in results] == [True, False, True]
    assert results[1]["result"]["error"]["code"] == "PHANTOM_TOOL"
    assert results[1]["suggestion"] == "issue_refund"


@pytest.mark.req("R-EX-03")
def test_the_same_call_again_gets_the_first_answer(agent: Api, session: dict):
    once = call(session)
    first = propose(agent, session, once)["results"][0]
    second = propose(agent, session, once)["results"][0]
    assert first["action_id"] == second["action_id"]


@pytest.mark.req("R-EX-04")
def test_the_same_call_id_with_another_body_is_a_conflict(agent: Api, session: dict):
    once = call(session)
    propose(agent, session, once)
    again = propose(agent, session, once | {"arguments": REFUND | {"amount": 1}})["results"][0]
    assert again["accepted"] is False
    assert again["result"]["error"]["code"] == "IDEMPOTENCY_CONFLICT"


@pytest.mark.req("R-TC-04", "R-MC-02")
def test_an_invented_value_fails_on_record(agent: Api, session: dict):
    result = propose(agent, session, call(session, arguments=REFUND | {"currency": "XXX"}))["results"][0]
    assert result["state"] == "FAILED"
    history = agent.get(f"/actions/{result['action_id']}/history").json()["items"]
    assert [each["state"] for each in history] == ["PROPOSED", "FAILED"]


@pytest.mark.req("R-CR-02")
def test_an_agent_key_may_not_register(agent: Api):
    answer = agent.post("/agents", {"agent_id": "x", "version": "1", "tools": []})
    assert answer.status_code == 403
    assert answer.json()["code"] == "FORBIDDEN"


@pytest.mark.req("R-CR-14")
def test_revocation_stops_an_open_session(agent: Api, operator_key: Api, session: dict):
    operator_key.post("/agents/support/revoke", {"reason": "retired"})
    result = propose(agent, session, call(session))["results"][0]
    assert result["result"]["error"]["code"] == "AGENT_NOT_REGISTERED"


def test_a_body_that_is_no_json_is_400_and_a_fraction_is_422(agent: Api, session: dict):
    path = f"/api/v1/sessions/{session['session_id']}/calls"
    for body, status, code in ((b"{", 400, "NOT_JSON"), (b'{"calls": [{}], "at": 1.5}', 422, "NOT_CANONICAL")):
        answer = agent.client.post(path, body, "application/json", headers=agent.headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.req("R-MC-06")
@pytest.mark.parametrize(
    ("sent", "path", "code"),
    [
        ('"arguments": {"order_id": "EX-7F3A21", "amount": 1.5}', "/amount", "NOT_CANONICAL"),
        ('"arguments": {"order_id": "EX-7F3A21", "amount": 9007199254740993}', "/amount", "NOT_CANONICAL"),
        ('"arguments": {"order_id": "EX-7F3A21", "amount": NaN}', "/amount", "NOT_CANONICAL"),
        ('"arguments": {"order_id": "EX-7F3A21", "amount": 1E400}', "/amount", "NOT_CANONICAL"),
        ('"arguments": {"order_id": "EX-7F3A21", "amount": 1, "amount": 2}', "/amount", "NOT_CANONICAL"),
        ('"arguments": {"order_id": "EX-\\ud83d", "amount": 1}', "/order_id", "NOT_CANONICAL"),
        ('"arguments": {}, "dry_run": 1.0', "", "UNPARSEABLE_ARGUMENTS"),
        ('"arguments": {}, "target_resource": "\\ud83d"', "", "UNPARSEABLE_ARGUMENTS"),
        ('"arguments": {}, "arguments": {}', "", "UNPARSEABLE_ARGUMENTS"),
    ],
)
def test_a_call_outside_the_profile_is_refused_for_itself_by_its_path_and_is_on_record(
    agent: Api, operator_key: Api, session: dict, sent: str, path: str, code: str
):
    good = json.dumps(call(session))
    odd = f'{{"call_id": "odd", "tool": "issue_refund", "pin_hash": "{session["pin"]["hash"]}", {sent}}}'
    body = f'{{"calls": [{good}, {odd}]}}'
    answer = agent.client.post(
        f"/api/v1/sessions/{session['session_id']}/calls", body, "application/json", headers=agent.headers
    )
    assert answer.status_code == 200, answer.content
    passed, refused = answer.json()["results"]
    assert passed["accepted"]
    assert not refused["accepted"]
    (error,) = refused["errors"]
    assert (error["path"], error["code"]) == (path, code)
    assert refused["hint"]
    assert operator_key.get(f"/sessions/{session['session_id']}").json()["calls_refused"] == 1


def test_whole_numbers_in_another_notation_are_the_numbers_that_they_are(agent: Api, operator_key: Api, session: dict):
    text = json.dumps(call(session)).replace('"amount": 1250', '"amount": 1.25e3')
    answer = agent.client.post(
        f"/api/v1/sessions/{session['session_id']}/calls",
        f'{{"calls": [{text}]}}',
        "application/json",
        headers=agent.headers,
    )
    (result,) = answer.json()["results"]
    assert result["accepted"], result
    assert result["approval"]["required"]
    asked = operator_key.get(f"/actions/{result['action_id']}").json()
    assert '"amount": 1250,' in json.dumps(asked)


CAFE, CAFE_DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(("stored", "named"), [(CAFE, CAFE_DECOMPOSED), (CAFE_DECOMPOSED, CAFE), (CAFE, CAFE)])
def test_a_target_is_one_in_any_spelling_at_every_door(
    agent: Api, operator_key: Api, registered: None, stored: str, named: str
):
    document = json.loads((CONTRACTS / "issue_refund.json").read_text()) | {"name": "refund_any"}
    document["arguments_schema"]["properties"]["order_id"] = {"type": "string"}
    assert operator_key.post("/contracts", document).status_code == 201
    operator_key.post("/agents", {"agent_id": "support", "version": "2", "tools": ["refund_any"]})
    session = agent.post("/sessions", {"agent_id": "support", "goal": GOAL, "ttl_seconds": 600}).json()
    target = f"order/{named}"
    refund = {"tool": "refund_any", "arguments": REFUND | {"order_id": stored}}
    asked = call(session, **refund, target_resource=target)
    asked["intended_outcome"] = {"target_resource": target}
    (result,) = propose(agent, session, asked)["results"]
    assert result["accepted"], result
    found = operator_key.get(f"/actions?target={target}").json()["items"]
    assert [each["action_id"] for each in found] == [result["action_id"]]
    frozen = operator_key.post("/freezes", {"scope": "target", "value": target, "reason": "looked at"})
    assert frozen.status_code == 201, frozen.content
    (again,) = propose(agent, session, call(session, **refund))["results"]
    assert again["result"]["error"]["code"] == "TARGET_FROZEN"


def test_a_request_without_a_key_is_refused(db: None):
    from django.test import Client

    answer = Client().get("/api/v1/actions")
    assert answer.status_code == 401
    assert answer.json()["code"] == "UNAUTHENTICATED"


def test_a_calls_own_id_is_looked_up_by_its_index_however_many_calls_there_are(
    db: None, superuser_connection: psycopg.Connection
):
    """The gate asks so before each call; an index that leaves rows out is used only where the question does too."""
    with superuser_connection.transaction(force_rollback=True), superuser_connection.cursor() as cursor:
        # As if the table were large, every plan made for any value, and no other index looked as cheap on no rows.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL row_security = off")
        cursor.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'approvals_call'::regclass")
        for (name,) in cursor.fetchall():
            if name != "call_id_is_unique":
                cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [name])
        cursor.execute(f"EXPLAIN (GENERIC_PLAN) SELECT * FROM approvals_call WHERE {BY_CALL_ID}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "call_id_is_unique" in plan
    assert "Filter: (call_id" not in plan
