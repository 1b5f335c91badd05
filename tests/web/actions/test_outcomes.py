"""Every outcome, reached by real events at a real till, and what each surface then says of it."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.test import Client, override_settings

from approvals.requests.operations import requests
from console import tasks as console_tasks
from ledger.db import tenancy
from ledger.record.rules.outcomes import AS_REQUESTED, WORDS, Outcome
from reviews import tasks as after
from reviews.verification.operations import rechecks
from tests.conftest import PreparedDatabase
from tests.support import preparing, settling
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.refund_shop import ORDER, TOOL, Counter, counter, refund_contract
from tests.support.seals import seal_promptly
from tests.web.cases.test_cases import settled
from tests.web.recovery.test_recovery_path import (
    CANCEL,
    cancelling,
    carried_out,
    child_of,
    in_parts,
    lesser,
    local,
    refund_part,
)

KEPT, ASKED, AGAIN, PARTS, LOCAL, READ = (
    f"refund_{name}" for name in ("kept", "asked", "again", "parts", "local", "read")
)
"""Tools of one till: one that nobody can reverse, one for which people are asked, one that is read again, one with
parts, a local transaction, and one that only reads.
"""
SETTLED_ALREADY = "cancel_if_open"
_ORDERS = itertools.count(2000)


def contracts() -> list[dict[str, Any]]:
    again = lesser(name=AGAIN)
    again["verification"]["recheck_after"] = ["PT1H"]
    read = refund_contract(name=READ, side_effect_class="READ_ONLY", reversibility="REVERSIBLE", effect_domain="OTHER")
    for name in ("verification", "required_effects", "claims"):
        read.pop(name)
    no_op = cancelling(
        name=SETTLED_ALREADY,
        approval_required=True,
        approval={"baseline": True},
        no_op_success_allowed=True,
    )
    return [
        *(lesser(), cancelling(), refund_part(), again, read, no_op),
        *(lesser(name=KEPT, recovery={}), lesser(name=ASKED, approval_required=True), local(name=LOCAL)),
        in_parts(name=PARTS, pivot=True, approval_required=True),
    ]


class Desk:
    """Brings actions to each outcome."""

    def __init__(self, till: Counter, clock: Clock) -> None:
        self.till, self.clock = till, clock
        self.second = till.person("operator", "reviewer", name="second@orchid")

    def order(self) -> dict[str, Any]:
        return {"order_id": f"EX-{next(_ORDERS)}"}

    def proposed(self, tool: str) -> str:
        return self.till.propose(tool, **self.order())

    def begun(self, tool: str) -> dict[str, Any]:
        return self.till.begun(tool=tool, **self.order())

    def told(self, tool: str, status: str = "success", **changes: Any) -> dict[str, Any]:
        started = self.begun(tool)
        self.till.tell(started, status, tool=tool, **changes)
        return started

    def read(self, started: dict[str, Any]) -> str:
        self.clock.forward(seconds=60)
        self.till.read_back(started["action_id"], self.clock)
        return str(started["action_id"])

    def paid(self, tool: str, **row: Any) -> str:
        """A refund that is in the till as this row when it is read."""
        started = self.begun(tool)
        self.till.till.refund(started["idempotency_key"], order_id=started["payload"]["order_id"], **row)
        self.till.tell(started, tool=tool)
        return self.read(started)

    def failed(self, tool: str, **error: str) -> str:
        return self.read(self.told(tool, "failed", error={"code": "NO", "message": "No."} | error))

    def answered(self) -> str:
        return str(self.told(READ)["action_id"])

    def unchanged(self) -> str:
        """A refund that had been cancelled before anybody asked for it."""
        self.till.till.refund("cancelled before", status="cancelled")
        [row] = self.till.till.till.execute("SELECT id FROM refunds WHERE key = 'cancelled before'").fetchall()
        call = self.till.call(SETTLED_ALREADY, {"refund_id": row["id"]})
        preparing.tick(self.clock)
        assert self.till.vote(self.till.approval_of(call["action_id"])).status_code == 201
        self.till.claim()
        preparing.tick(self.clock)
        order = next(each for each in self.till.claim() if each["action_id"] == call["action_id"])
        started = self.till.start(order).json()
        self.till.tell(started, tool=SETTLED_ALREADY)
        return self.read(started)

    def in_part(self) -> str:
        started = self.begun(PARTS)
        for currency in ("EUR", "USD"):
            where = {"currency": currency, "order_id": started["payload"]["order_id"]}
            self.till.till.refund(started["idempotency_key"], **where)
        self.till.tell(started, "partial", tool=PARTS)
        return self.read(started)

    def reversed(self, *, works: bool = True) -> str:
        action_id = self.paid(TOOL, amount=99)
        carried_out(self.till, self.clock, child_of(self.till, action_id), status="cancelled" if works else None)
        return action_id

    def settled(self, action_id: str, resolution: str) -> str:
        case = self.till.case_of(action_id)
        assert case is not None, self.till.path(action_id)
        answer = settling.settle(self.till.operator, case["case_id"], resolution)
        assert answer.status_code == 200, answer.content
        if answer.json()["state"] == "AWAITING_SECOND":
            assert settling.confirm(self.second, case["case_id"]).status_code == 200
        return action_id

    def reversed_by_word(self) -> str:
        """A reversal that a reading did not show, and that a person attests before it counts as failed."""
        action_id = self.paid(TOOL, amount=99)
        child = child_of(self.till, action_id)
        order = next(each for each in self.till.claim() if each["action_id"] == str(child.id))
        started = self.till.start(order).json()
        self.till.tell(started, tool=CANCEL)
        self.settled(self.read(started), "ATTEST_PRESENT")
        after.recover()
        return action_id

    def contradicted(self) -> str:
        action_id = self.paid(AGAIN)
        self.till.till.till.execute(
            "DELETE FROM refunds WHERE key IN (SELECT key FROM refunds ORDER BY id DESC LIMIT 1)"
        )
        self.clock.forward(hours=2)
        rechecks.recheck_action(tenant_id=self.till.tenant, action_id=UUID(action_id), clock=self.clock.now)
        return action_id

    def voted(self, verdict: str) -> str:
        action_id = self.proposed(ASKED)
        answer = self.till.vote(self.till.approval_of(action_id), verdict=verdict, reason="No.")
        assert answer.status_code == 201, answer.content
        return action_id

    def ended(self, code: str) -> str:
        """One whose approval ran out, or was edited into another version."""
        action_id = self.proposed(ASKED)
        approval = UUID(self.till.approval_of(action_id)["approval_id"])
        with tenancy(self.till.tenant):
            if code == "EXPIRED":
                later = self.clock.now() + timedelta(days=30)
                requests.expire_approval(tenant_id=self.till.tenant, approval_id=approval, at=later)
            else:
                found = requests.approvals.approval(self.till.tenant, approval)
                requests.fail_unexecuted_action(
                    found, code=code, reason="Edited.", actor=requests.ledger.SYSTEM, at=self.clock.now()
                )
        return action_id

    def cancelled(self) -> str:
        action_id = self.proposed(ASKED)
        answer = self.till.operator_key.post(f"/actions/{action_id}/cancel", {"reason": "Not needed."})
        assert answer.status_code == 200
        return action_id

    def approved(self) -> str:
        action_id = self.proposed(ASKED)
        assert self.till.vote(self.till.approval_of(action_id)).status_code == 201
        return action_id


WAYS: dict[Outcome, Callable[[Desk], str]] = {
    Outcome.COMPENSATED_AS_ATTESTED: Desk.reversed_by_word,
    Outcome.CONTRADICTED: Desk.contradicted,
    Outcome.VERIFIED: lambda desk: desk.paid(TOOL),
    Outcome.UNCHANGED: Desk.unchanged,
    Outcome.ANSWERED: Desk.answered,
    Outcome.FAILED: lambda desk: desk.failed(KEPT),
    Outcome.ROLLED_BACK: lambda desk: desk.failed(LOCAL, phase="rolled_back"),
    Outcome.ATTESTED: lambda desk: desk.settled(desk.read(desk.told(KEPT)), "ATTEST_PRESENT"),
    Outcome.ATTESTED_ABSENT: lambda desk: desk.settled(desk.read(desk.told(KEPT)), "ATTEST_ABSENT"),
    Outcome.SETTLED_AS_FAILED: lambda desk: desk.settled(desk.read(desk.told(KEPT)), "FAIL"),
    Outcome.CLOSED_UNRESOLVED: lambda desk: desk.settled(desk.read(desk.told(KEPT)), "ABANDON"),
    Outcome.ACCEPTED_AS_IT_IS: lambda desk: desk.settled(desk.paid(KEPT, amount=9999), "ACCEPT"),
    Outcome.COMPENSATED: Desk.reversed,
    Outcome.COMPENSATED_AS_ATTESTED: Desk.reversed_by_word,
    Outcome.NEEDS_REVIEW: lambda desk: desk.paid(KEPT, amount=9999),
    Outcome.UNKNOWN: lambda desk: str(desk.told(TOOL, "timeout", evidence=None)["action_id"]),
    Outcome.REJECTED: lambda desk: desk.voted("reject"),
    Outcome.CHANGES_REQUESTED: lambda desk: desk.voted("request_changes"),
    Outcome.EXPIRED: lambda desk: desk.ended("EXPIRED"),
    Outcome.REPLACED: lambda desk: desk.ended("SUPERSEDED"),
    Outcome.BLOCKED: lambda desk: str(desk.till.call(TOOL, ORDER | {"order_id": 7})["action_id"]),
    Outcome.CANCELLED: Desk.cancelled,
    Outcome.RECOVERING: Desk.in_part,
    Outcome.ROLLING_BACK: lambda desk: desk.paid(LOCAL, amount=99),
    Outcome.COMPENSATING: lambda desk: desk.paid(TOOL, amount=99),
    Outcome.VERIFYING: lambda desk: str(desk.told(TOOL)["action_id"]),
    Outcome.EXECUTING: lambda desk: str(desk.begun(TOOL)["action_id"]),
    Outcome.APPROVED: Desk.approved,
    Outcome.READY: lambda desk: desk.proposed(TOOL),
    Outcome.WAITING_FOR_APPROVAL: lambda desk: desk.proposed(ASKED),
}
"""The events of each outcome, in an order in which none disturbs another. PROPOSED and PARTIALLY_APPLIED are left in
the transaction in which they are reached: they are steps of a history, and no action rests there.
"""


def look(shop: Workshop, path: str, **query: Any) -> str:
    client: Client = shop.operator.client
    answer = client.get(f"/t/{shop.slug}/{path}", query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


@pytest.fixture(scope="module")
def ends(
    database_of_counter: PreparedDatabase,
    django_db_blocker: Any,
    open_till: Any,
    run: Any,
    broker: Any,
    tmp_path_factory: Any,
) -> Iterator[tuple[Counter, dict[Outcome, str]]]:
    """One action of each outcome, in one tenant, rolled back at the end of the module."""
    clock, secrets = Clock(), tmp_path_factory.mktemp("ends") / "secrets"
    shutil.copytree(run.secrets, secrets, ignore=shutil.ignore_patterns("*.sqlite*", ".*"))
    secrets.chmod(0o700)
    open_till.clear()
    with ExitStack() as stack:
        stack.enter_context(database_of_counter.in_use())
        stack.enter_context(django_db_blocker.unblock())
        stack.enter_context(override_settings(COUNTERFOIL_SECRETS_DIR=secrets, COUNTERFOIL_RATE_PER_S=0))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("django.utils.timezone.now", clock.now)
        seal_promptly(patch)
        stack.enter_context(transaction.atomic())
        made = counter(database_of_counter.content.with_clients_of_its_own(), open_till).open(secrets, *contracts())
        desk = Desk(made, clock)
        console_tasks.tell_people()
        reached = {outcome: bring(desk) for outcome, bring in WAYS.items()}
        for _ in range(2):
            clock.forward(seconds=30)
            console_tasks.tell_people()
        yield made, reached
        transaction.set_rollback(True)


UNSTARTED = "Not executed. Nothing has been attempted."
NO_EFFECT = "a reading of the system of record showed no effect"
TEN = "amount 99.99 EUR instead of 12.50 EUR"
ORDERED = "is ordered and has not begun, and after it"
# The headline; authorization, execution and verification; the report.
TOLD: dict[Outcome, tuple[str, str, str]] = {
    Outcome.WAITING_FOR_APPROVAL: (
        "Waiting for approval",
        "Waiting for approval | Not started | Not read yet",
        UNSTARTED,
    ),
    Outcome.READY: ("Ready to run", "No approval needed | Not started | Not read yet", UNSTARTED),
    Outcome.APPROVED: ("Ready to run", "Approved | Not started | Not read yet", UNSTARTED),
    Outcome.EXECUTING: (
        "Executing",
        "No approval needed | Started; no answer yet | Not read yet",
        "Attempted. What came of it is not known yet.",
    ),
    Outcome.VERIFYING: (
        "Verifying",
        "No approval needed | Reported success (unverified) | Verifying",
        "The tool has answered. Whether it is so is still being checked.",
    ),
    Outcome.VERIFIED: (
        "Verified",
        "No approval needed | Reported success (unverified) | Confirmed",
        "Done, and confirmed in the system of record.",
    ),
    Outcome.UNCHANGED: (
        "No change needed",
        "Approved | Reported success (unverified) | As requested before it ran; changed nothing",
        "No change was needed: the system of record was as requested before the action ran, and still is.",
    ),
    Outcome.ANSWERED: (
        "Answered",
        "No approval needed | Reported success (unverified) | Read; changes nothing",
        "Read; changes nothing.",
    ),
    Outcome.ATTESTED: (
        "Attested by a person: it took effect; a reading showed no effect",
        "No approval needed | Reported success (unverified) | Attested by a person; a reading showed no effect",
        f"A person has attested that it took effect; {NO_EFFECT}.",
    ),
    Outcome.ACCEPTED_AS_IT_IS: (
        f"Accepted as it is by a person: {TEN}",
        f"No approval needed | Reported success (unverified) | Accepted by a person: {TEN}",
        f"Not as requested: the system of record shows {TEN}. A person has accepted this.",
    ),
    Outcome.ATTESTED_ABSENT: (
        "Attested by a person: nothing happened; a reading showed no effect",
        "No approval needed | Reported success (unverified)"
        " | No effect, attested by a person; a reading showed no effect",
        f"A person has attested that nothing happened; {NO_EFFECT}.",
    ),
    Outcome.COMPENSATING: (
        "Compensating: values differ from the request",
        "No approval needed | Reported success (unverified) | Being reversed",
        f"It did not go as planned. It is being reversed: the compensation {ORDERED} the system of record is read"
        " again.",
    ),
    Outcome.ROLLING_BACK: (
        "Rolling back: values differ from the request",
        "No approval needed | Reported success (unverified) | Values differ from the request",
        f"It did not go as planned. It is being rolled back: the rollback {ORDERED} the target is read again.",
    ),
    Outcome.RECOVERING: (
        "Partially applied, recovering",
        "Approved | Reported as done in part (unverified) | In part",
        "Done in part: euros and dollars took effect; pounds did not take effect. What is missing is being finished:"
        f" the forward recovery {ORDERED} the whole is read again.",
    ),
    Outcome.COMPENSATED: (
        "Compensated",
        "No approval needed | Reported success (unverified) | Reversed",
        "It took effect, not as requested (amount 0.99 EUR instead of 12.50 EUR), and was then reversed;"
        " the reversal is confirmed.",
    ),
    Outcome.COMPENSATED_AS_ATTESTED: (
        "Reversed, as a person has attested; not verified by a reading",
        "No approval needed | Reported success (unverified) | Reversal attested by a person, not verified",
        "It was reversed, as a person has attested; no reading verified all of that.",
    ),
    Outcome.ROLLED_BACK: (
        "Rolled back, no effect is there",
        "No approval needed | Reported failure | Rolled back",
        "Rolled back; the system of record shows no effect.",
    ),
    Outcome.UNKNOWN: (
        "Unknown",
        "No approval needed | Reported a timeout | Not known",
        "The final state is not known. It must be reviewed before anything is tried again.",
    ),
    Outcome.NEEDS_REVIEW: (
        "Needs review: values differ from the request",
        "No approval needed | Reported success (unverified) | Values differ from the request",
        "Not settled. It waits for a person to review it.",
    ),
    Outcome.CONTRADICTED: (
        "Settled, then contradicted by a later reading: outcome unknown",
        "No approval needed | Reported success (unverified) | Contradicted by a later reading",
        "It was settled, but a later reading of the system of record contradicts that. The final state is not known.",
    ),
    Outcome.FAILED: (
        "Failed",
        "No approval needed | Reported failure | No effect, confirmed",
        "Failed. The system of record shows that nothing happened.",
    ),
    Outcome.SETTLED_AS_FAILED: (
        "Settled as failed by a person; a reading showed no effect",
        "No approval needed | Reported success (unverified) | Settled by a person; a reading showed no effect",
        f"A person settled it as failed; {NO_EFFECT}.",
    ),
    Outcome.CLOSED_UNRESOLVED: (
        "Closed unresolved: nothing changed",
        "No approval needed | Reported success (unverified) | Closed by a person, unresolved",
        "A person stopped it. What was found wrong is on record and unresolved.",
    ),
    **{
        outcome: (f"{why}: not executed", f"{why} | Not started | Nothing was executed", UNSTARTED)
        for outcome, why in (
            (Outcome.REJECTED, "Rejected"),
            (Outcome.CHANGES_REQUESTED, "Changes requested"),
            (Outcome.REPLACED, "Replaced by another version"),
            (Outcome.EXPIRED, "Approval expired"),
            (Outcome.BLOCKED, "Blocked by the gate"),
            (Outcome.CANCELLED, "Cancelled"),
        )
    },
}


def chip(page: str, *, after: str) -> str:
    """The word in the first badge behind a text."""
    found = re.search(r'<span class="badge[^>]*>.*?</svg>([^<]+)</span>', page[page.index(after) :], re.S)
    assert found is not None
    return found[1]


@pytest.mark.req("R-UI-10", "R-RI-01", "R-RI-09", "R-RI-10", "R-RI-14")
@pytest.mark.parametrize("outcome", TOLD)
def test_an_action_is_told_in_one_sense_on_every_surface(ends: tuple[Counter, dict[Outcome, str]], outcome: Outcome):
    desk, reached = ends
    action_id, word = reached[outcome], WORDS[outcome]
    headline, sides, text = TOLD[outcome]
    page = look(desk, f"actions/{action_id}")
    shown = words(page)
    assert chip(page, after='class="headline"') == word
    assert headline in shown
    for name, side in zip(("Authorization", "Execution", "Verification"), sides.split(" | "), strict=True):
        assert f"{name} {side}" in shown
    assert text in shown

    action = desk.agent.get(f"/actions/{action_id}").json()
    assert (action["outcome"], " | ".join(action["axes"].values())) == (str(outcome), sides)
    assert action["user_status"]["text"] == text
    told = desk.report(action_id)
    assert (told["outcome"], told["text"], told["completed"]) == (str(outcome), text, outcome in AS_REQUESTED)

    listed = look(desk, "actions", outcome=str(outcome))
    assert chip(listed, after=f'data-part="{action_id}"') == word
    assert {each for each in reached.values() if f'data-part="{each}"' in listed} == {action_id}
    table = csv.DictReader(io.StringIO(look(desk, "actions.csv", outcome=str(outcome))))
    assert {row["Id"]: (row["Outcome"], row["Outcome (code)"]) for row in table}[action_id] == (word, str(outcome))
    items = desk.operator_key.get(f"/actions?outcome={outcome}").json()["items"]
    assert {each["outcome"] for each in items} == {str(outcome)}

    receipt = desk.auditor.get(f"/actions/{action_id}/effect-receipt").json()["payload"]
    ended = json.loads(base64.b64decode(receipt))["predicate"]["ended"]
    assert (ended["outcome"], ended["text"], ended["verified"]) == (str(outcome), text, outcome in AS_REQUESTED)
    summary = desk.agent.get(f"/sessions/{action['session_id']}/summary").json()["lines"]
    assert sum(text in line for line in summary) == 1
    assert ("Completed so far: nothing." in summary[0]) is (outcome not in AS_REQUESTED)
    assert f"Current state {word}" in words(look(desk, f"actions/{action_id}/narrative"))


def test_every_outcome_of_this_table_is_reached():
    assert set(TOLD) == set(WAYS) == set(Outcome) - {Outcome.PROPOSED, Outcome.PARTIALLY_APPLIED}


def test_the_audit_list_labels_the_last_step_as_the_outcome(ends: tuple[Counter, dict[Outcome, str]]):
    """Trap: an event and a state do not tell a verified success from one that found nothing to change."""
    desk, reached = ends
    reader = desk.person("compliance", name="reader@orchid").client
    for outcome in (Outcome.VERIFIED, Outcome.UNCHANGED, Outcome.ANSWERED, Outcome.ATTESTED):
        page = reader.get("/t/orchid/audit", {"action": reached[outcome]}).content.decode()
        steps = re.findall(r'<td class="nowrap muted roomy">([^<]+)</td>', page)
        # Where the event has the same words as the outcome, they stand once.
        assert steps[0] == WORDS[outcome] or f">{WORDS[outcome]}</a>" in page
        assert (WORDS[Outcome.VERIFIED] in steps) is (outcome is Outcome.VERIFIED)


def test_no_notice_about_these_actions_claims_an_outcome(ends: tuple[Counter, dict[Outcome, str]]):
    desk, _ = ends
    told = {each["text"] for each in desk.operator.get("/notices?limit=100").json()["items"]}
    assert any("ase" in each for each in told), told
    for title in told:
        assert not re.search(r"\b(verified|confirmed|done|executed|reversed|failed)\b", title, re.I), title


def blocked(shop: Workshop, clock: Clock) -> str:
    """A call that the gate refuses, which names no document."""
    answer = shop.call(arguments={"path": 7})
    assert answer["accepted"] is False, answer
    return str(answer["action_id"])


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
