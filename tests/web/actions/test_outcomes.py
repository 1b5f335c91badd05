"""The same word for how an action stands, on every surface: its page, the list, the filter, the table and the API."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from approvals.requests.operations import requests
from ledger.db import tenancy
from ledger.record.rules.outcomes import WORDS, Outcome
from tests.support.api_tenant import Clock, Workshop, result
from tests.support.browser_users import words
from tests.web.cases.test_cases import settled

NOT_READ = "it was not verified by a reading"


def look(shop: Workshop, path: str, **query: Any) -> str:
    client: Client = shop.operator.client
    answer = client.get(f"/t/{shop.slug}/{path}", query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def chip(page: str, *, after: str = "") -> str:
    """The word in the first badge behind a text."""
    found = re.search(
        r'<span class="badge[^>]*>.*?</svg>([^<]+)</span>', page[page.index(after) if after else 0 :], re.S
    )
    assert found is not None
    return found[1]


def stands_as(shop: Workshop, action_id: str, outcome: Outcome) -> str:
    """Assert that an action carries one word everywhere; what its page says."""
    word = WORDS[outcome]
    page = look(shop, f"actions/{action_id}")
    assert chip(page, after='class="headline"') == word
    assert chip(look(shop, "actions"), after=f'data-part="{action_id}"') == word
    assert f'data-part="{action_id}"' in look(shop, "actions", outcome=str(outcome))
    others = [each for each in Outcome if each is not outcome]
    assert not any(f'data-part="{action_id}"' in look(shop, "actions", outcome=str(each)) for each in others[:4])
    table = csv.DictReader(io.StringIO(look(shop, "actions.csv", outcome=str(outcome))))
    assert {row["Id"]: (row["Outcome"], row["Outcome (code)"]) for row in table}[action_id] == (word, str(outcome))
    told = shop.auditor.get(f"/actions/{action_id}/report").json()
    assert (told["outcome"], told["completed"]) == (str(outcome), outcome is Outcome.VERIFIED)
    assert shop.agent.get(f"/actions/{action_id}").json()["outcome"] == outcome
    listed = shop.operator_key.get(f"/actions?outcome={outcome}").json()["items"]
    assert action_id in {each["action_id"] for each in listed}
    assert {each["outcome"] for each in listed} == {str(outcome)}
    assert f"Current state {word}" in words(look(shop, f"actions/{action_id}/narrative"))
    return words(page)


def failed(shop: Workshop, clock: Clock) -> str:
    """An execution that came to nothing, as a reading shows."""
    started = shop.started()
    error = {"code": "REFUSED", "message": "No.", "phase": "after_send"}
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    return str(started["action_id"])


def blocked(shop: Workshop, clock: Clock) -> str:
    """A call that the gate refuses, which names no document."""
    answer = shop.call(arguments={"path": 7})
    assert answer["accepted"] is False, answer
    return str(answer["action_id"])


def voted(verdict: str) -> Any:
    def end(shop: Workshop, clock: Clock) -> str:
        action_id = shop.propose()
        assert shop.vote(shop.approval_of(action_id), verdict=verdict, reason="No.").status_code == 201
        return action_id

    return end


def replaced(shop: Workshop, clock: Clock) -> str:
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    with tenancy(shop.tenant):
        found = requests.approvals.approval(shop.tenant, UUID(approval["approval_id"]))
        requests.fail_unexecuted_action(
            found, code="SUPERSEDED", reason="Edited.", actor=requests.ledger.SYSTEM, at=clock.now()
        )
    return action_id


def expired(shop: Workshop, clock: Clock) -> str:
    action_id = shop.propose()
    approval = UUID(shop.approval_of(action_id)["approval_id"])
    with tenancy(shop.tenant):
        requests.expire_approval(tenant_id=shop.tenant, approval_id=approval, at=clock.now() + timedelta(days=30))
    return action_id


def cancelled(shop: Workshop, clock: Clock) -> str:
    action_id = shop.propose()
    assert shop.operator_key.post(f"/actions/{action_id}/cancel", {"reason": "Not needed."}).status_code == 200
    return action_id


def by_case(resolution: str) -> Any:
    def end(shop: Workshop, clock: Clock) -> str:
        case = shop.held(clock)
        settled(shop, case, resolution)
        return str(case["action_id"])

    return end


NEVER_RAN = "Nothing was executed"


@pytest.mark.req("R-UI-10")
@pytest.mark.parametrize(
    ("end", "outcome", "axes"),
    [
        (voted("reject"), Outcome.REJECTED, ("Rejected", NEVER_RAN)),
        (voted("request_changes"), Outcome.CHANGES_REQUESTED, ("Changes requested", NEVER_RAN)),
        (replaced, Outcome.REPLACED, ("Replaced by another version", NEVER_RAN)),
        (expired, Outcome.EXPIRED, ("Approval expired", NEVER_RAN)),
        (blocked, Outcome.BLOCKED, ("Blocked by the gate", NEVER_RAN)),
        (cancelled, Outcome.CANCELLED, ("Cancelled", NEVER_RAN)),
        (failed, Outcome.FAILED, ("Approved", "No effect, confirmed")),
        (by_case("FAIL"), Outcome.SETTLED_AS_FAILED, ("Approved", "Settled by a person; a reading showed no effect")),
        (
            by_case("ATTEST_ABSENT"),
            Outcome.ATTESTED_ABSENT,
            ("Approved", "No effect, attested by a person; a reading showed no effect"),
        ),
        (by_case("ABANDON"), Outcome.CLOSED_UNRESOLVED, ("Approved", "Closed by a person, unresolved")),
        (by_case("ATTEST_PRESENT"), Outcome.ATTESTED, ("Approved", "Attested by a person; a reading showed no effect")),
    ],
    ids=lambda each: str(each) if isinstance(each, Outcome) else "",
)
def test_an_action_carries_one_word_on_every_surface(
    shop: Workshop, clock: Clock, end: Any, outcome: Outcome, axes: tuple[str, str]
):
    """Seven ends that were one red "Failed", and one that was a green "Done and confirmed"."""
    action_id = end(shop, clock)
    said = stands_as(shop, action_id, outcome)
    shown = shop.agent.get(f"/actions/{action_id}").json()["axes"]
    assert (shown["decision"], shown["effect"]) == axes
    assert all(each in said for each in axes)
    assert ('data-family="false"' in look(shop, "actions")) is (outcome is Outcome.FAILED)


@pytest.mark.req("R-UI-08")
def test_no_surface_calls_an_attested_outcome_verified(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    settled(shop, case, "ATTEST_PRESENT")
    action_id = case["action_id"]
    told = "A person has attested that it took effect; a reading of the system of record showed no effect."
    report = shop.report(action_id)
    assert (report["code"], report["text"], report["completed"]) == ("ATTESTED", told, False)
    page = words(look(shop, f"actions/{action_id}"))
    assert "Verification Attested by a person; a reading showed no effect Operator, confirmed by Reviewer" in page
    assert told in page
    for said in (page, words(look(shop, f"cases/{case['case_id']}")), words(look(shop, ""))):
        assert "Attested (not verified)" in said
        assert "Done and confirmed" not in said
        assert "confirmed in the system of record" not in said
    assert 'data-family="true"' not in look(shop, "actions")
    session = shop.agent.get(f"/actions/{action_id}").json()["session_id"]
    context = shop.agent.get(f"/sessions/{session}/context").json()
    assert f"{told}" in context["text"]
    assert "Verified" not in context["text"]
    summary = shop.agent.get(f"/sessions/{session}/summary").json()
    assert summary["lines"][0].startswith("Completed so far: nothing. Attested by people, not verified: ")
    guard = f"/sessions/{session}/guard"
    judged = shop.agent.post(guard, {"message": "I have deleted the document policies/returns.md."}).json()
    assert (judged["verdict"], judged["violations"][0]["code"]) == ("BLOCK", "UNEVIDENCED")
    assert told in judged["corrected"]
    assert shop.agent.post(guard, {"message": judged["corrected"]}).json()["verdict"] == "ALLOW"


def test_a_call_that_the_gate_refused_has_no_title_made_of_a_template(shop: Workshop, clock: Clock):
    action_id = blocked(shop, clock)
    page = words(look(shop, f"actions/{action_id}"))
    assert "Authorization Blocked by the gate the gate" in page
    assert "Delete document" in page
    assert "{path}" not in page.split("Canonical")[0].split("Entry")[0]


def test_figures_count_what_was_attested_apart(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    settled(shop, case, "ATTEST_PRESENT")
    figures = shop.operator_key.get("/metrics").content.decode()
    assert 'counterfoil_actions{outcome="ATTESTED",tenant="orchid"} 1.0' in figures
    assert 'outcome="VERIFIED"' not in figures


def test_a_blocked_action_begins_with_the_reason_and_with_what_would_be_accepted(shop: Workshop):
    answer = shop.call(arguments={"path": "a.md", "reason": "Obsolete.", "colour": "red"})
    reason, hint = answer["result"]["error"]["message"], answer["hint"]
    page = look(shop, f"actions/{answer['action_id']}")
    head = words(page.split("<h1>")[1].split('class="facts"')[0])
    assert f"{reason} What would be accepted: {hint}" in head
    session = shop.operator_key.get(f"/actions/{answer['action_id']}").json()["session_id"]
    assert f"{reason} What would be accepted: {hint}" in words(look(shop, f"sessions/{session}"))
