"""A real shop holds ten times what was reserved, a person accepts that, and everybody is told so."""

from __future__ import annotations

import csv
import html
import io
import re

import pytest

from tests.journeys.ground import Caller

OUTCOME = "Accepted (not as requested)"


def words(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def page(one: Caller, path: str) -> str:
    answer = one.http.get(f"/t/example/{path}")
    assert answer.status_code == 200, answer.headers
    return answer.text


@pytest.mark.req("R-UI-08", "R-EX-08", "R-RI-12")
def test_a_tenfold_reservation_is_accepted_and_reported_with_both_quantities(busy_ground):
    ground, operator = busy_ground, busy_ground.person("operator")
    sent = ground.send("release_lost")
    asked = sent.arguments["quantity"]
    there = f"quantity {asked * 10} instead of {asked}"
    told = f"Not as requested: the system of record shows {there}. A person has accepted this."
    ground.wait_for(sent.action_id, "REVIEW_REQUIRED", within_s=120)
    [case] = ground.cases(sent.action_id)

    shown = operator.get(f"/reviews/{case['case_id']}")
    ways = {each["resolution"]: each for each in shown["allowed"]}
    assert not {"ATTEST_PRESENT", "ATTEST_ABSENT"} & ways.keys()
    assert ways["ACCEPT"]["label"] == f"Accept what is there ({there})"
    assert f"Accept what is there ({there})" in words(page(operator, f"cases/{case['case_id']}"))
    body = {
        "resolution": "ACCEPT",
        "reason": "The customer takes them all.",
        "evidence": ["mail of the customer"],
        "covers": shown["covers_digest"],
        "password": ground.password("operator"),
    }
    answer = operator.post(f"/reviews/{case['case_id']}/resolve", body)
    assert answer.json()["state"] == "RESOLVED", answer.text

    report = ground.agent.report(sent.action_id)
    assert (report.code, report.text, report.completed) == ("ACCEPTED_AS_IT_IS", told, False)
    action = ground.operator.get(f"/actions/{sent.action_id}")
    assert (action["outcome"], action["accepted"]) == ("ACCEPTED_AS_IT_IS", there)
    for path in (f"actions/{sent.action_id}", f"cases/{case['case_id']}"):
        said = words(page(operator, path))
        assert told in said
        assert OUTCOME in said
        assert ", no reading" not in said
    assert f"Accepted: {there}" in words(page(operator, "actions"))
    rows = csv.DictReader(io.StringIO(page(operator, "actions.csv?outcome=ACCEPTED_AS_IT_IS")))
    assert [each["Discrepancy"] for each in rows] == [f"Accepted: {there}"]
    again = ground.again(sent)
    assert (again.code, again.message) == (
        "DUPLICATE_BLOCKED",
        "A person has settled that the same operation took effect.",
    )
    assert len(ground.rows("reservations", sent.arguments["order_id"])) == 1
