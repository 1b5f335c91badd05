"""An action and all that belongs to it, erased: what the API, the pages and the tables say afterwards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection

from console import tasks
from ledger.db import tenancy
from tests.conftest import Run
from tests.support import settling
from tests.support.api_tenant import PASSWORD, Clock, Workshop, result
from tests.support.callers import Api
from tests.support.erasing import erase_here
from tests.support.probes import filled, pages
from tests.support.seals import seal_up

CANARY = "zebra-finch-4711"
TARGET = f"policies/{CANARY}.md"
WHY = {"legal_basis": "Art. 17(1)(a) GDPR", "reason": "The person asked for it."}


@pytest.fixture
def carol(shop: Workshop) -> Api:
    return shop.person("compliance", name="carol@orchid")


@pytest.fixture
def dora(shop: Workshop) -> Api:
    return shop.person("compliance", name="dora@orchid")


@pytest.fixture
def settled(shop: Workshop, clock: Clock, tmp_path: Path) -> dict[str, str]:
    """An action that went wrong and was settled; the canary is in everything that anybody could write."""
    (tmp_path / "documents" / TARGET).write_text(f"All about {CANARY}.")
    session = shop.session(f"Forget {CANARY}.")
    body = {
        "call_id": "one",
        "tool": "delete_document",
        "arguments": {"path": TARGET, "reason": f"{CANARY} wants it."},
        "pin_hash": session["pin"]["hash"],
        "restated_goal": f"Forget {CANARY}.",
    }
    wrong = {"call_id": "two", "tool": f"delete_{CANARY}", "arguments": {}, "pin_hash": session["pin"]["hash"]}
    answers = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body, wrong]}).json()["results"]
    action = answers[0]["action_id"]
    approval = shop.approval_of(action)
    shop.vote(approval, reason=f"{CANARY} agreed.")
    started = shop._made(shop.start(next(order for order in shop.claim() if order["action_id"] == action)))
    said = result(evidence={"about": CANARY}, error=None)
    shop.observe(started, result=said, raw=f"stdout of {CANARY}")
    clock.forward(seconds=90)
    shop.read_back(action, clock)
    case = shop.case_of(action)
    assert case is not None
    path = f"/reviews/{case['case_id']}"
    shop.operator.post(f"{path}/claim")
    shop.operator.post(f"{path}/comments", {"text": f"{CANARY} called."})
    evidence = {"action_id": action, "text": f"{CANARY} says so."}
    pointer = shop.operator.post("/evidence", evidence).json()["pointer"]
    word = {"resolution": "ABANDON", "reason": f"{CANARY} gave up.", "evidence": [pointer, f"letter of {CANARY}"]}
    assert settling.settle(shop.operator, case["case_id"], **word).status_code == 200
    settling.confirm(shop.reviewer, case["case_id"])
    assert shop.state(action) == "ABANDONED"
    shop.agent.get(f"/actions/{action}/report")
    return {
        "action_id": action,
        "subject_id": action,
        "approval_id": approval["approval_id"],
        "case_id": case["case_id"],
        "session_id": session["session_id"],
        "run_id": shop.auditor.get(f"/actions/{action}").json()["entry"]["workflow_run_id"],
        "pointer": pointer,
        "seq": "1",
    }


def asked(carol: Api, *actions: str) -> Any:
    return carol.post("/erasures", {"actions": list(actions), **WHY})


def confirmed(erasure: str, by: Api, password: str = PASSWORD) -> Any:
    return by.post(f"/erasures/{erasure}/confirm", {"password": password})


def erased(run: Run, shop: Workshop, carol: Api, dora: Api, *actions: str) -> str:
    """These actions, erased; the id of the request."""
    answer = asked(carol, *actions)
    assert answer.status_code == 201, answer.content
    erasure = answer.json()["erasure_id"]
    assert confirmed(erasure, dora).status_code == 200
    erase_here(run, shop.tenant, UUID(erasure))
    return str(erasure)


def kept_in_clear(shop: Workshop, *secrets: str) -> list[str]:
    """The tables that hold one of these, as text or as bytes."""
    sought = [form for secret in secrets for form in (secret, secret.encode().hex())]
    with tenancy(shop.tenant), connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition AND has_table_privilege(oid, 'SELECT')"
        )
        tables = [name for (name,) in cursor.fetchall()]
        assert len(tables) > 50
        found = []
        for table in tables:
            cursor.execute(
                f"SELECT count(*) FROM {table} t WHERE t::text LIKE ANY(%s)", [[f"%{each}%" for each in sought]]
            )
            found += [table] if cursor.fetchone()[0] else []
    return found


@pytest.mark.req("R-LE-21", "R-LE-20")
def test_an_erased_action_leaves_nothing_in_any_table(shop, settled, carol, dora, run):
    """L32, L35: whatever people, agent, executor and systems wrote about it is gone from every column there is."""
    with tenancy(shop.tenant), connection.cursor() as cursor:
        cursor.execute("SELECT payload_hash FROM ledger_action WHERE id = %s", [settled["action_id"]])
        payload_hash = cursor.fetchone()[0]
    assert len(kept_in_clear(shop, CANARY)) > 5
    assert len(kept_in_clear(shop, payload_hash)) > 2
    erased(run, shop, carol, dora, settled["action_id"])
    assert kept_in_clear(shop, CANARY, payload_hash) == []
    call_command("verify_ledger", verbosity=0)


def test_the_api_says_that_an_action_was_erased_and_keeps_its_bare_events(shop, settled, carol, dora, run):
    erasure = erased(run, shop, carol, dora, settled["action_id"])
    path = f"/actions/{settled['action_id']}"
    for reader in (shop.agent, shop.operator_key, shop.auditor, shop.reviewer):
        for end in ("", "/report"):
            answer = reader.get(path + end)
            assert (answer.status_code, answer.json()["code"]) == (410, "ERASED")
            assert erasure in answer.json()["detail"]
    assert shop.auditor.get(f"{path}/runs").status_code == 410
    assert shop.reviewer.get(f"/approvals/{settled['approval_id']}").status_code == 410
    events = shop.history(settled["action_id"])
    assert {(event["entry"], event["detail"]) for event in events} == {(None, None)}
    assert events[-1]["state"] == "ABANDONED"
    listed = shop.auditor.get("/actions").json()["items"]
    assert [row["target"] for row in listed if row["action_id"] == settled["action_id"]] == [""]
    answer = carol.get(f"/erasures/{erasure}").json()
    assert (answer["state"], {each["kind"] for each in answer["named"]}) == (
        "DONE",
        {"action", "approval", "case", "session"},
    )
    assert all(each["erased"] for each in answer["named"])


@pytest.mark.req("R-UI-13")
def test_every_page_can_show_an_erased_action(shop, settled, carol, dora, run):
    erasure = erased(run, shop, carol, dora, settled["action_id"])
    person = shop.person("reviewer", "operator", "compliance", "administrator", name="all@orchid")
    seen = []
    for route, page in pages():
        names = set(re.findall(r"(\w+)>", route)) - {"slug"}
        if not route.startswith("t/<") or not names <= settled.keys():
            continue
        answer = person.client.get(filled(route, settled | {"slug": shop.slug}))
        assert answer.status_code in (200, 302, 403, 404, 405, 410), f"{page.name}: {answer.status_code}"
        text = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert CANARY.encode() not in text, page.name
        seen += [page.name] if answer.status_code == 410 else []
        if answer.status_code == 410:
            assert erasure in text.decode(), page.name
            assert "Art. 17(1)(a) GDPR" in text.decode()
    assert {"action", "approval", "case", "session"} <= set(seen)


def test_one_person_cannot_erase_alone_or_without_the_password(shop, settled, carol, dora):
    erasure = asked(carol, settled["action_id"]).json()["erasure_id"]
    alone = confirmed(erasure, carol)
    assert (alone.status_code, alone.json()["code"]) == (403, "SECOND_PERSON_NEEDED")
    guessed = confirmed(erasure, dora, "not the password")
    assert (guessed.status_code, guessed.json()["code"]) == (403, "STEP_UP_REQUIRED")
    assert carol.post(f"/erasures/{erasure}/refuse", {"reason": "No."}).json()["code"] == "SECOND_PERSON_NEEDED"
    assert confirmed(erasure, dora).json()["state"] == "CONFIRMED"
    assert confirmed(erasure, dora).status_code == 409


@pytest.mark.parametrize("role", ["reviewer", "operator", "administrator"])
def test_only_compliance_can_erase_and_place_holds(shop, settled, carol, role):
    erasure = asked(carol, settled["action_id"]).json()["erasure_id"]
    other = shop.person(role, name=f"other-{role}@orchid")
    for path, body in (
        ("/erasures", {"actions": [settled["action_id"]], **WHY}),
        (f"/erasures/{erasure}/confirm", {"password": PASSWORD}),
        (f"/erasures/{erasure}/withdraw", {"reason": "No."}),
        ("/holds", {"scope": "all", "reason": "No."}),
        ("/retention", {}),
    ):
        assert other.post(path, body).status_code == 403
    for key in (shop.agent, shop.operator_key, shop.executor, shop.auditor):
        assert key.post("/erasures", {"actions": [settled["action_id"]], **WHY}).status_code == 403


def test_open_held_or_erased_subjects_cannot_be_erased(shop, settled, carol, dora, run):
    open_one = shop.propose(path="notes/x.md")
    assert asked(carol, open_one).json()["code"] == "STILL_OPEN"
    for scope, value in (
        ("action", settled["action_id"]),
        ("target", target_of(shop, settled)),
        ("agent", "librarian"),
        ("all", ""),
    ):
        hold = carol.post("/holds", {"scope": scope, "value": value, "reason": "A dispute."}).json()
        refused = asked(carol, settled["action_id"]).json()
        assert refused["code"] == "ON_HOLD"
        assert hold["hold_id"] in refused["detail"]
        assert carol.post("/holds", {"scope": scope, "value": value, "reason": "Again."}).json()["code"] == (
            "ALREADY_HELD"
        )
        assert dora.post(f"/holds/{hold['hold_id']}/lift", {"reason": "Settled."}).status_code == 200
    erasure = asked(carol, settled["action_id"]).json()["erasure_id"]
    assert asked(carol, settled["action_id"]).json()["code"] == "ALREADY_ERASED"
    held = carol.post("/holds", {"scope": "all", "reason": "A dispute."}).json()["hold_id"]
    assert confirmed(erasure, dora).json()["code"] == "ON_HOLD"
    carol.post(f"/holds/{held}/lift", {"reason": "Settled."})
    confirmed(erasure, dora)
    erase_here(run, shop.tenant, UUID(erasure))
    assert asked(carol, settled["action_id"]).json()["code"] == "ALREADY_ERASED"


def target_of(shop: Workshop, settled: dict[str, str]) -> str:
    return str(shop.auditor.get(f"/actions/{settled['action_id']}").json()["target"])


def test_a_hold_placed_before_the_eraser_runs_prevents_the_erasure(shop, settled, carol, dora, run):
    erasure = asked(carol, settled["action_id"]).json()["erasure_id"]
    confirmed(erasure, dora)
    carol.post("/holds", {"scope": "target", "value": target_of(shop, settled), "reason": "A dispute."})
    assert erase_here(run, shop.tenant, UUID(erasure)) == 0
    assert carol.get(f"/erasures/{erasure}").json()["state"] == "REFUSED"
    assert shop.auditor.get(f"/actions/{settled['action_id']}").status_code == 200


def test_a_confirmed_request_can_be_withdrawn_until_it_starts(shop, settled, carol, dora, run):
    erasure = asked(carol, settled["action_id"]).json()["erasure_id"]
    confirmed(erasure, dora)
    assert carol.post(f"/erasures/{erasure}/withdraw", {"reason": "A mistake."}).json()["state"] == "WITHDRAWN"
    assert erase_here(run, shop.tenant, UUID(erasure)) == 0
    done = erased(run, shop, carol, dora, settled["action_id"])
    assert carol.post(f"/erasures/{done}/withdraw", {"reason": "Too late."}).status_code == 409


def test_a_session_with_remaining_actions_keeps_its_goal_and_that_is_reported(shop, carol):
    session = shop.session()
    calls = [
        {
            "call_id": str(number),
            "tool": "delete_document",
            "arguments": {"path": f"notes/{number}.md", "reason": "Old."},
            "pin_hash": session["pin"]["hash"],
        }
        for number in range(2)
    ]
    results = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": calls}).json()["results"]
    shop.agent.post(f"/actions/{results[0]['action_id']}/cancel", {"reason": "No longer."})
    answer = asked(carol, results[0]["action_id"]).json()
    assert [(each["kind"], each["id"]) for each in answer["stays"]] == [("session", session["session_id"])]


def test_a_retention_policy_takes_two_people_and_respects_its_minimum(shop, settled, carol, dora):
    days = {"payload_days": 400, "floor_days": 30}
    proposed = carol.post("/retention", days).json()
    assert (proposed["state"], proposed["envelope_days"]) == ("PROPOSED", 2557)
    path = f"/retention/{proposed['retention_id']}/confirm"
    assert carol.post(path, {"password": PASSWORD}).json()["code"] == "SECOND_PERSON_NEEDED"
    assert dora.post("/retention", days).json()["code"] == "ALREADY_PROPOSED"
    assert dora.post(path, {"password": PASSWORD}).json()["state"] == "ACTIVE"
    assert asked(carol, settled["action_id"]).json()["code"] == "TOO_YOUNG"
    second = dora.post("/retention", {"payload_days": 500}).json()["retention_id"]
    assert carol.post(f"/retention/{second}/confirm", {"password": PASSWORD}).status_code == 200
    states = {row["retention_id"]: row["state"] for row in carol.get("/retention").json()["items"]}
    assert states == {proposed["retention_id"]: "SUPERSEDED", second: "ACTIVE"}
    assert asked(carol, settled["action_id"]).status_code == 201


@pytest.mark.parametrize("days", [{"payload_days": 500, "floor_days": 600}, {"envelope_days": 182}])
def test_a_policy_with_contradictory_periods_is_refused(carol, days):
    assert carol.post("/retention", days).json()["code"] == "BAD_RETENTION"


def test_expired_data_is_erased_only_under_a_standing_policy(shop, settled, carol, dora, run, clock):
    assert within(clock, tasks.retain, days=400) == 0
    proposed = carol.post("/retention", {"standing": True}).json()["retention_id"]
    dora.post(f"/retention/{proposed}/confirm", {"password": PASSWORD})
    assert tasks.retain() == 0
    held = carol.post("/holds", {"scope": "all", "reason": "A dispute."}).json()["hold_id"]
    assert within(clock, tasks.retain, days=400) == 0
    carol.post(f"/holds/{held}/lift", {"reason": "Settled."})
    assert within(clock, tasks.retain, days=400) == 1
    assert within(clock, tasks.retain, days=400) == 0
    (row,) = carol.get("/erasures").json()["items"]
    assert (row["state"], row["retention_id"], row["confirmed_by"]) == ("CONFIRMED", proposed, None)


def within(clock: Clock, task: Any, **ahead: float) -> Any:
    """What a task does at a later time; sessions of people would have ended by then."""
    clock.forward(**ahead)
    try:
        return task()
    finally:
        clock.forward(**{name: -amount for name, amount in ahead.items()})


def test_the_eraser_checks_the_age_itself(shop, settled, carol, dora, run, clock):
    """The database's own clock decides: a standing policy erases nothing that has not run out."""
    proposed = carol.post("/retention", {"standing": True}).json()["retention_id"]
    dora.post(f"/retention/{proposed}/confirm", {"password": PASSWORD})
    assert within(clock, tasks.retain, days=400) == 1
    (row,) = carol.get("/erasures").json()["items"]
    assert erase_here(run, shop.tenant, UUID(row["erasure_id"])) == 0
    answer = carol.get(f"/erasures/{row['erasure_id']}").json()
    assert answer["state"] == "REFUSED"


@pytest.mark.req("R-LE-20")
def test_envelopes_heads_and_log_lines_contain_no_personal_data(shop, settled, caplog):
    """L35: the canary went through the whole flow, and what stays for years and what operators read never had it."""
    seal_up()
    with tenancy(shop.tenant), connection.cursor() as cursor:
        cursor.execute("SELECT envelope FROM ledger_event UNION ALL SELECT note FROM ledger_tip WHERE note IS NOT NULL")
        kept = [bytes(row[0]) for row in cursor.fetchall()]
        cursor.execute(
            "SELECT payload_hash, pin_hash FROM ledger_action a JOIN approvals_session s ON s.id = session_id"
        )
        hashes = [each for row in cursor.fetchall() for each in row]
    assert len(kept) > 20
    assert len(hashes) >= 2
    assert [each for each in kept for secret in (CANARY, *hashes) if secret.encode() in each] == []
    logged = [record.getMessage() for phase in ("setup", "call") for record in caplog.get_records(phase)]
    assert [line for line in logged if CANARY in line] == []
