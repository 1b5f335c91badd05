"""The steps of `counterfoil demo`: what they tell is what the console and the shop say, or they end."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from console.local import demo
from tests.journeys.ground import Ground


def ready_startup(ground: Ground) -> Any:
    """The startup of a console that is ready, with a supervisor that notes orders to end."""
    ended: list[bool] = []
    return SimpleNamespace(
        local_url=ground.stack.url,
        url=ground.stack.url,
        tenant="example",
        sign_in=ground.known,
        shop_environment=ground.program("agent").environment,
        installation=ground.place,
        supervisor=SimpleNamespace(ending=False, end=lambda: ended.append(True), ended=ended),
    )


def test_each_step_of_the_demo_tells_what_the_record_and_the_shop_say(busy_ground, capsys):
    ground, startup, tour = busy_ground, ready_startup(busy_ground), demo.Tour(stay=False)
    tour(startup)
    told = capsys.readouterr()
    assert (tour.code, told.err, startup.supervisor.ended) == (0, "", [True])
    pages = re.findall(r"/t/example/(approvals|actions|cases)/([0-9a-f-]{36})", told.out)
    assert [name for name, _ in pages] == ["approvals", "approvals", "actions", "cases"]
    approval, action = (dict(pages)[name] for name in ("approvals", "actions"))
    shown, found = ground.reviewer.get(f"/approvals/{approval}"), ground.operator.get(f"/actions/{action}")
    (vote,) = shown["votes"]
    assert (f"SHA-256 {shown['payload_hash']}" in told.out, vote["confirmation_code"] in told.out) == (True, True)
    order_id = found["call"]["arguments"]["order_id"]
    assert ground.rows("refunds", order_id) == []
    assert told.out.count(f"Refunds of order {order_id} in the shop's own database: 0") == 2
    (case,) = ground.cases(action)
    assert (found["state"], found["discrepancy"], case["case_id"]) == (
        "REVIEW_REQUIRED",
        "NO_OP_FAILURE",
        dict(pages)["cases"],
    )
    (observed,) = (each["detail"] for each in ground.history(action) if each["event"] == "observed")
    assert observed["observation"]["claimed_success"] is True
    assert f"The record says: {observed['reason']}" in told.out
    assert f"All that the agent may tell its user: {ground.agent.report(action).text}" in told.out
    for name, subject in pages:
        person = ground.person("operator" if name == "cases" else "reviewer")
        assert person.http.get(f"/t/example/{name}/{subject}").status_code == 200


def test_a_demo_whose_report_was_true_ends_with_what_the_record_says_instead(busy_ground, capsys, monkeypatch):
    monkeypatch.setattr(demo, "CASE", "clean_refund")
    startup, tour = ready_startup(busy_ground), demo.Tour(stay=True)
    tour(startup)
    told = capsys.readouterr()
    assert (tour.code, startup.supervisor.ended) == (1, [True])
    assert "It is RECONCILED_SUCCESS (Approved, " in told.err
    assert "3. The executor" in told.out
    assert not re.search("4[.]|not true|To go on", told.out)


def test_a_demo_whose_approval_is_refused_tells_no_approval(busy_ground, capsys):
    startup, tour = ready_startup(busy_ground), demo.Tour(stay=False)
    startup.sign_in = startup.sign_in | {
        "people": [each | {"password": "another"} for each in startup.sign_in["people"]]
    }
    tour(startup)
    told = capsys.readouterr()
    assert (tour.code, "could not sign in" in told.err, "2." in told.out) == (1, True, False)
