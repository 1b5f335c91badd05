"""docs/approvals.md and its sub-pages say what the product does: policies, addresses, codes, tables and words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest
from django.urls import resolve

from approvals.policy.rules import policy
from console.notifications.messages import message_title
from console.notifications.rules import AUDIENCES, WAITS, Audience, Occasion, urgency_of
from tests.support.browser_users import visitor, words
from tests.support.pure.approvals_guide import TEXT as GUIDE

ROOT = Path(__file__).parents[3]
SNAPSHOTS = ROOT / "tests" / "snapshots"


def section(heading: str) -> str:
    return re.split(r"\n#+ ", GUIDE.split(f" {heading}\n")[1])[0]


def table(heading: str) -> list[list[str]]:
    """The rows of the first table of a section, without its head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


POLICIES = [
    document.get("document", document)
    for document in map(json.loads, re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL))
    # The others are a file of addresses, and parts of a contract.
    if not {"orchid", "approval", "preview"} & document.keys()
]


@pytest.mark.parametrize("document", POLICIES, ids=lambda each: next(iter(each)))
def test_each_policy_of_the_guide_is_accepted(document):
    assert policy.parse({"version": "2", **document}).version == "2"


def test_each_address_of_the_guide_is_one_of_the_api():
    known = json.loads((SNAPSHOTS / "openapi.json").read_text())["paths"]
    shapes = {re.sub(r"{\w+}", "{}", path.removeprefix("/api/v1")): each for path, each in known.items()}
    told = re.findall(r"`(GET|POST) (?:/api/v1)?(/[a-z{}/_-]+)", GUIDE)
    assert len(told) > 10
    assert resolve(f"/api/v1/sessions/{uuid4()}/stream"), "an answer without an end, which the document leaves out"
    told.remove(("GET", "/sessions/{id}/stream"))
    wrong = [
        f"{method} {path}"
        for method, path in told
        if method.lower() not in shapes.get(re.sub(r"{\w+}", "{}", path.rstrip("/")), {})
    ]
    assert wrong == []


def test_each_refusal_of_the_guide_is_one():
    codes = json.loads((SNAPSHOTS / "refusal_codes.json").read_text())
    told = set(re.findall(r"\(`((?!COUNTERFOIL)[A-Z]+_[A-Z_]+)`", GUIDE)) | set(
        re.findall(r"(?:40[39]|422) `?([A-Z]+_[A-Z_]+)`", GUIDE)
    )
    assert len(told) > 8
    assert {code for code in told if code not in json.dumps(codes)} == set()


# Each row of the table of notices, and the occasions of which it speaks.
OCCASIONS = {
    "an approval is requested; a reminder of it": ("REQUESTED", "REMINDED"),
    "it is escalated, or overdue after that": ("ESCALATED", "OVERDUE"),
    "it is assigned, somebody is mentioned, the agent answers": ("ASSIGNED", "MENTIONED", "ANSWERED"),
    "nobody is left who may decide it": ("NO_APPROVER",),
    "it is approved, rejected, sent back for changes, lapses, is set aside": (
        "APPROVED",
        "REJECTED",
        "CHANGES",
        "EXPIRED",
        "VOIDED",
    ),
    "it is withdrawn, because its agent was stopped or may no longer do this": ("WITHDRAWN",),
    "break-glass is used": ("BREAK_GLASS",),
    "a passkey waits for a second person": ("KEY_WAITS",),
    "a case is opened or reopened": ("CASE_OPENED", "CASE_REOPENED"),
    "a case is assigned": ("CASE_ASSIGNED",),
    "the settlement of a case waits for a second person": ("SETTLEMENT_WAITS",),
    "an outcome has been unknown for two minutes": ("UNKNOWN",),
    "a change of roles, or a separation of accounts, waits": ("ROLES_WAIT", "SEPARATION_WAITS"),
    "an erasure request, or a retention policy, waits": ("ERASURE_WAITS", "RETENTION_WAITS"),
    "a weaker contract, a change of a system or a release waits": ("CONTRACT_WAITS", "SYSTEM_WAITS", "RELEASE_WAITS"),
    "a standing approval waits": ("STANDING_APPROVAL_WAITS",),
    "a time-boxed pass is given or revoked": ("TIME_BOXED_PASS_GIVEN", "TIME_BOXED_PASS_REVOKED"),
    "a standing approval is paused": ("STANDING_APPROVAL_PAUSED",),
    "an incident is opened": ("INCIDENT_OPENED",),
    "a system of record is down": ("SYSTEM_DOWN",),
    "it is reachable again": ("SYSTEM_UP",),
    "an export is ready, or failed": ("EXPORT_READY", "EXPORT_FAILED"),
}
ELSEWHERE = {
    "AGENT_FLAGGED",
    "ALERT_RAISED",
    "ALERT_CLEARED",
    "REGRESSION_FOUND",
    "BUDGET_SHARE_REACHED",
    "BUDGET_PASSED",
}
"""Occasions of which the guides of agents, metrics and costs speak."""
TOLD_AS = {
    Audience.APPROVERS: "who may still vote",
    Audience.ESCALATION: "the group to which it was escalated",
    Audience.ALARMED: "administrators and operators|operators and administrators",
    Audience.NAMED: "that person|the two who agreed",
    Audience.ASKER: "that person",
    Audience.ASKED: "who may still vote, and who voted",
    Audience.INVOLVED: "who voted, took it or commented on it",
    Audience.EVERYBODY: "every member",
    Audience.OPERATORS: "operators",
    Audience.STOPPERS: "reviewers and operators",
    Audience.SECONDS: "except the human who",
    Audience.REQUESTER: "the person who requested it",
}


def test_the_table_of_notices_names_every_occasion_and_its_audience():
    rows = {row[0]: row for row in table("Who is told what")}
    assert rows.keys() == OCCASIONS.keys()
    named = [name for names in OCCASIONS.values() for name in names]
    assert sorted(named) == sorted({each.name for each in Occasion} - ELSEWHERE)
    for told, names in OCCASIONS.items():
        for name in names:
            occasion = Occasion[name]
            assert re.search(TOLD_AS[AUDIENCES[occasion]], rows[told][1]), (told, name)
            level = {"HIGH": "as `HIGH`", "LOW": "as `LOW`"}.get(urgency_of(occasion, ""))
            assert level is None or level in rows[told][2], (told, name)
            assert message_title(occasion, personal=True)
    assert Occasion.TIME_BOXED_PASS_GIVEN not in WAITS


WORDS_ON_PAGES = {
    "approvals/{approval}": ("Eligible reviewers", "Claim", "Assign…"),
    "standing-approvals": ("Standing approvals",),
    "emergencies": ("Break-glass",),
    "people": ("People and keys",),
    "me": ("My account",),
    "notices": ("Notifications",),
    "notices/channels": ("Channels",),
    "approvals": ("Approvals", "Download CSV"),
}


def test_the_words_that_the_guide_emphasises_stand_on_its_pages(stage):
    approval = stage.approval(stage.propose()).id
    person = visitor(stage, "reviewer", "operator", "administrator")
    for path, said in WORDS_ON_PAGES.items():
        page = words(person.page(path.format(approval=approval)))
        for word in said:
            assert word in page, (path, word)
            assert word in GUIDE, word
    assert " card " not in section("Working through the queue").split("on a tablet")[1]
