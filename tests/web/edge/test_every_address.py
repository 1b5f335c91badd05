"""Every address, asked by those who may and those who may not, of both tenants.

The addresses come from the URL table and the OpenAPI document, who may from `tests.support.admissions`. What each
address declares is compared with that table for everybody; that it keeps to what it declares is asked of each address
with one caller for each kind of answer, another one at each address.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import count, cycle
from typing import Any
from urllib.parse import urlencode

import pytest

from console.edge.form_pages import find_page
from tests.support.admissions import KEYS, OPERATIONS, PAGES, PAGES_ABOUT_ONESELF, PEOPLE, PUBLIC_PAGES
from tests.support.callers import Api
from tests.support.probes import (
    FORM,
    OUTSIDE,
    Day,
    Operation,
    filled,
    names_in,
    operations,
    pages,
    pages_of_tenants,
    probe,
)

# One after the other, so that every operation and every caller gets each.
BROKEN = (b'{"calls": ', b"[7]", b"\xff")


@pytest.fixture(scope="module")
def called(day: Day) -> list[Operation]:
    return operations(day)


# The table


def test_every_page_has_a_row():
    of_tenants = {name for _, name in pages_of_tenants()}
    assert of_tenants == set(PAGES)
    assert {page.name for route, page in pages() if not route.startswith("t/<")} == PUBLIC_PAGES | PAGES_ABOUT_ONESELF


@pytest.mark.req("R-UI-20")
def test_every_page_declares_the_roles_of_its_row():
    declared = {str(page.name): page.callback.admitted_roles for route, page in pages() if route.startswith("t/<")}
    assert {name: roles or frozenset(PEOPLE) for name, roles in declared.items()} == PAGES


def test_every_operation_has_a_row_and_the_same_roles_in_the_document(called: list[Operation]):
    assert {each.name for each in called} == set(OPERATIONS)
    words = {
        "agent": "agent keys",
        "exec": "executor keys",
        "oper": "operator keys",
        "audit": "auditor keys",
    }
    for each in called:
        told = each.described.get("description", "") if "security" in each.described else ""
        for caller in (*KEYS, *PEOPLE):
            word = words.get(caller, f"people as {caller}")
            everybody = caller in PEOPLE and told.rstrip(".").replace("For ", "").split(", ").count("people") == 1
            assert (caller in OPERATIONS[each.name]) is (everybody or word in told), (each.name, caller)


# The API

# They answer 503 where something of the installation is missing, as in a test.
MAY_BE_UNREADY = ("installation_readyz", "installation_statusz")


def code_of(answer: Any) -> str:
    return str(answer.json()["code"]) if answer["Content-Type"] == "application/problem+json" else ""


def expected(name: str, caller: str, answer: Any) -> bool:
    """Whether an answer in one's own tenant is what the table says."""
    status, allowed = answer.status_code, OPERATIONS[name]
    if not allowed:
        return status < 500 or name in MAY_BE_UNREADY
    if caller in OUTSIDE:
        return status == 401
    if caller not in allowed:
        return (status, code_of(answer)) == (403, "FORBIDDEN")
    closed = code_of(answer) == "FORBIDDEN" and name not in ASKED_FURTHER
    return status < 500 and status not in (400, 401) and not closed


# Admitted to, and then asked whose it is or what they mean to say.
ASKED_FURTHER = {
    "approvals_challenge": "a resolution is for operators; reviewers sign what confirms one",
    "claims_verify": "a lookup is for operators",
    "people_end_delegation": "one's own, or as an administrator",
    "people_come_back": "one's own, or as an administrator",
    "decisions_decide": "an executor of the same tenant, which comes with it",
}


class Turns:
    """Chooses one of some: the next one whenever the same are offered."""

    def __init__(self) -> None:
        self._places: defaultdict[tuple[str, ...], count[int]] = defaultdict(count)

    def one(self, names: Iterable[str]) -> list[str]:
        some = tuple(names)
        return [some[next(self._places[some]) % len(some)]] if some else []


def admitted_people(row: frozenset[str], turns: Turns) -> list[str]:
    """One of those who may; a member without a role, if such may, from whom anything else asked would be kept back."""
    return ["member"] if "member" in row else turns.one(name for name in PEOPLE if name in row)


@pytest.mark.req("R-UI-20")
def test_the_api_answers_each_caller_as_listed_in_the_table(day: Day, called: list[Operation]):
    wrong, turns = [], Turns()
    for each in called:
        sent, row = each.sent, OPERATIONS[each.name]
        people, keys = admitted_people(row, turns), turns.one(name for name in KEYS if name in row)
        refused = [
            *turns.one(name for name in PEOPLE if name not in row),
            *turns.one(name for name in KEYS if name not in row),
        ]
        for name in (*people, *keys, *refused, *turns.one(OUTSIDE)):
            answer = probe(day.own[name], sent.method, f"/api/v1{sent.path}", sent.body, **sent.headers)
            if not expected(each.name, name, answer):
                wrong.append(f"{each.name} by {name}: {answer.status_code} {answer.body_read[:160]!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.req("R-UI-20")
def test_unauthorised_callers_are_refused_whatever_the_body(day: Day, called: list[Operation]):
    wrong, bodies, turns = [], cycle(BROKEN), Turns()
    for each in (each for each in called if each.sent.method == "POST" and OPERATIONS[each.name]):
        for name in turns.one(name for name in (*PEOPLE, *KEYS, *OUTSIDE) if name not in OPERATIONS[each.name]):
            answer = probe(day.own[name], "POST", f"/api/v1{each.sent.path}", next(bodies))
            if answer.status_code != (401 if name in OUTSIDE else 403):
                wrong.append(f"{each.name} by {name}: {answer.status_code} {answer.body_read[:160]!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.req("R-CX-03", "R-UI-21")
def test_the_api_returns_nothing_of_another_tenant(day: Day, called: list[Operation]):
    wrong, before, turns, named = [], day.events(), Turns(), {"X-Tenant": str(day.shop.tenant)}
    for each in called:
        sent, row, in_path = each.sent, OPERATIONS[each.name], "{" in each.template
        # Whoever may is stopped by nothing but the wall between the tenants.
        people, keys = (
            turns.one(name for name in PEOPLE if name in row),
            turns.one(name for name in KEYS if name in row),
        )
        asked = [(name, {}) for name in (*people, *keys, *turns.one(OUTSIDE))]
        for name, headers in (*asked, *((name, named) for name in (people or ["left"]))):
            path, said_with = f"/api/v1{sent.path}", sent.headers | headers
            answer = probe(day.other[name], sent.method, path, sent.body, watched=day, **said_with)
            said = f"{sent.text} {headers}"
            gives = day.leaked(said, answer.body_read)
            fits = foreign(each.name, name, answer, in_path=in_path, elsewhere=bool(headers))
            if gives or not fits or answer.events_then not in (None, before):
                wrong.append(f"{each.name} by {name}: {answer.status_code} {answer.body_read[:160]!r} {gives}")
    assert not wrong, "\n".join(wrong)


def foreign(name: str, caller: str, answer: Any, *, in_path: bool, elsewhere: bool) -> bool:
    """Whether an answer fits somebody of the tenant next door: what is not theirs is not there."""
    allowed = OPERATIONS[name]
    if elsewhere and allowed:
        return bool(answer.status_code == 401)
    if in_path and caller in allowed and name not in ASKED_BEFORE:
        return bool(answer.status_code == 404)
    return expected(name, caller, answer)


# What is asked before the thing of the path is looked for, or why the path names nothing of a tenant.
ASKED_BEFORE = {
    "registry_set_policy": "a kind of policy, which every tenant has",
    "registry_simulate": "a kind of policy, which every tenant has",
    "releases_roll_back": "a kind of policy, which every tenant has",
    "handoffs_get_handoff": "a kind of document, which every tenant has of itself",
    "handoffs_get_schema": "a kind of document, which every tenant has of itself",
    "handoffs_export_table": "a kind of document, which every tenant has of itself",
    "handoffs_export_lines": "a kind of document, which every tenant has of itself",
    "systems_get_pattern": "a kind of system, which every installation has",
    "ledger_entries": "a place in one's own log, which is not signed yet",
    "ledger_tile": "a place in one's own log, which is not signed yet",
    "execution_start": "the proof of possession, which fits no second request",
    "approvals_challenge": "one's own passkey, and who may settle",
}


# Reads

ACCESS_RECORD = {
    "console_sighting": "who read what",
    "reviews_report": "what somebody was told of an action",
    "console_apikey": "when a key was last used",
    "django_session": "how somebody last filtered the queue",
    "usersessions_usersession": "when somebody was last active",
}
# Where reading is itself an event: who opened a piece of evidence, and who fetched a bundle.
EVENT_TABLES = ("ledger_event_", "ledger_entry_", "ledger_pending", "ledger_subject")
READS_THAT_ARE_EVENTS = ("evidence", "export-bundle", "exports_get_bundle")


def test_a_read_writes_nothing_but_the_access_record(day: Day, called: list[Operation]):
    """Every address that answers GET, asked by somebody who may; what the database counted meanwhile."""
    asked = [each for each in called if each.method == "GET"]
    readers = [(each.name, OPERATIONS[each.name], f"/api/v1{each.sent.path}") for each in asked]
    readers += [(page, PAGES[page], filled(route, day.parts)) for route, page in pages_of_tenants()]
    wrong, written = [], set()
    for name, admitted, address in readers:
        # Any person who may and any key, since some addresses remember what they told a machine.
        askers = [next((each for each in kinds if each in admitted), "") for kinds in (PEOPLE, KEYS)]
        for caller in filter(None, askers if admitted else ["nobody"]):
            answer = probe(day.own[caller], "GET", address, counted=True)
            written |= answer.written
            allowed = (*ACCESS_RECORD, *(EVENT_TABLES if name in READS_THAT_ARE_EVENTS else ()))
            beyond = [table for table in answer.written if not table.startswith(allowed)]
            if beyond or (answer.status_code >= 500 and name not in MAY_BE_UNREADY):
                wrong.append(f"{name} by {caller}: {answer.status_code} {beyond}")
    assert not wrong, "\n".join(wrong)
    assert {"console_sighting", "reviews_report"} < written


# Pages


@pytest.mark.req("R-UI-20", "R-UI-01")
def test_pages_answer_each_member_as_listed_in_the_table(day: Day):
    wrong, turns = [], Turns()
    for route, page in pages_of_tenants():
        address, row = filled(route, day.parts), PAGES[page]
        unknown = filled(route, day.parts | {"slug": "nowhere"})
        if not page_expected(page, "nobody", "GET", unknown, probe(day.own["nobody"], "GET", unknown)):
            wrong.append(f"{page}: a tenant that is not there")
        for name in (
            *admitted_people(row, turns),
            *turns.one(name for name in PEOPLE if name not in row),
            *turns.one(OUTSIDE),
        ):
            # Whoever may not is told so for a form with nothing in it, too.
            for method, form in (("GET", ""), ("POST", urlencode(FORM) if name in row else "")):
                # The frame around a page costs most of it; those who may see it.
                headers = {} if name in row and method == "GET" else {"HX-Request": "true"}
                answer = probe(day.own[name], method, address, form=form, **headers)
                if not page_expected(page, name, method, address, answer):
                    wrong.append(f"{page} by {name}: {method} {answer.status_code}")
    assert not wrong, "\n".join(wrong)


def page_expected(page: str, name: str, method: str, address: str, answer: Any) -> bool:
    status = answer.status_code
    if name == "nobody":
        return bool(status == 302 and answer["Location"].startswith("/sign-in?next="))
    if name == "left":
        return bool(status == 404)
    if method == "GET" and status == 302 and answer["Location"] == find_page(address):
        # The address of a form, read: it leads to its page, which says for itself who may.
        return True
    if name not in PAGES[page]:
        return bool(status == 403)
    return bool(status < 500 and status not in (400, 401)) and (status != 403 or page in FORMS_ASKED_FURTHER)


# Admitted to, and then asked for more.
FORMS_ASKED_FURTHER = {
    "approval-vote": "operators who do not review may only break the glass",
    "approval-challenge": "operators who do not review may only break the glass",
    "case-challenge": "a confirmed passkey",
}


@pytest.mark.req("R-CX-03", "R-UI-21")
def test_pages_of_another_tenant_are_not_found(day: Day):
    wrong, before = [], day.events()
    member = day.other["everything"]
    for route, page in pages_of_tenants():
        theirs = filled(route, day.parts)
        ours = filled(route, day.parts | {"slug": "willow"})
        # A list has the same name in every tenant, and a guide is of the distribution.
        for address in [theirs, *([ours] if names_in(route) and page not in ("list-export", "guide") else [])]:
            for method, headers in (("GET", {}), ("POST", {"HX-Request": "true"})):
                answer = probe(member, method, address, form=urlencode(FORM), watched=day, **headers)
                leads = address == ours and answer.status_code == 302 and answer["Location"] == find_page(address)
                refused = answer.status_code == 403 and page in FORMS_ASKED_FURTHER and address == ours
                gone = answer.status_code == 404 or refused or leads or (answer.status_code == 405 and address == ours)
                written = answer.events_then not in (None, before)
                if not gone or day.leaked(address, answer.body_read) or written:
                    wrong.append(f"{page}: {method} {address} {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.req("R-CX-03")
def test_pages_outside_a_tenant_reveal_nothing_of_one(day: Day):
    wrong, parts = [], {"provider_id": "x", "pk": "1", "token": "x", "member_id": day.parts["member_id"]}
    for route, page in pages():
        if page.name not in (PUBLIC_PAGES | PAGES_ABOUT_ONESELF) - {"stream", "session-stream"}:
            continue
        for name in ("everything", "nobody"):
            caller: Api = day.other[name]
            answer = probe(caller, "GET", address := filled(route, parts))
            broken = answer.status_code >= 500 and page.name not in ("readyz", "statusz")
            if broken or day.leaked(address, answer.body_read):
                wrong.append(f"{page.name} by {name}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
