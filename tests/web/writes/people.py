"""The writes about members and their passkeys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support import people
from tests.support.api_tenant import PASSWORD
from tests.support.probes import Day
from tests.web.writes.write import REASON, Ids, Write, post, proposer


def _member(day: Day) -> Ids:
    return post(day, "/members", {"email": "nora@new.example", "roles": ["operator"]}, "member_id")


def _other_member(day: Day) -> str:
    return post(day, "/members", {"email": "noel@new.example", "roles": ["operator"]}, "member_id")["member_id"]


def _linked_member(day: Day) -> Ids:
    ids = _member(day)
    post(day, f"/members/{ids['member_id']}/links", {"member_id": _other_member(day)}, "member_id")
    return ids


def _separated_member(day: Day) -> Ids:
    """A member whose separation from another account waits for a second administrator."""
    ids = _linked_member(day)
    return post(day, f"/members/{ids['member_id']}/separation", {}, "member_id")


MEMBERS = (
    Write(
        operation="people_change",
        path="/members/{member_id}/roles",
        page="member-change",
        events=("roles_changed",),
        said="Roles changed.",
        begin=_member,
        body={"roles": ["operator", "reviewer"], "groups": ["night-shift"]},
        form={"roles": ["operator", "reviewer"], "groups": "night-shift"},
        faults=({"roles": "emperor"}, {"roles": ["reviewer"], "groups": "g" * 201}, {"roles": ["reviewer"]}),
    ),
    Write(
        operation="people_answer_proposal",
        path="/members/{member_id}/answer",
        page="member-answer",
        events=("accounts_separated",),
        said="Confirmed.",
        begin=_separated_member,
        body={"confirm": True},
        form={"to": "confirm"},
    ),
    Write(
        operation="people_separate",
        path="/members/{member_id}/separation",
        page="member-separate",
        events=("separation_proposed",),
        said="Proposed. Takes effect after a second administrator confirms it.",
        begin=_linked_member,
    ),
    Write(
        operation="people_remove",
        path="/members/{member_id}/remove",
        page="member-remove",
        events=("member_removed",),
        said="Removed. Their keys and delegations have ended.",
        begin=_member,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)


def _key(day: Day, *steps: str) -> Ids:
    """A passkey of somebody who has every role; confirmed by a reviewer, suspended by its holder."""
    ids = {"approver_key_id": str(people.enrol(proposer(day).again()).json()["approver_key_id"])}
    for step in steps:
        body, by = (REASON, proposer(day)) if step == "suspend" else ({}, day.own["reviewer"])
        post(day, f"/approver-keys/{ids['approver_key_id']}/{step}", body, "state", by)
    return ids


def _word(step: str, event: str, begin: Callable[[Day], Ids], **given: Any) -> Write:
    return Write(
        operation=f"people_{step}_key",
        path=f"/approver-keys/{{approver_key_id}}/{step}",
        page="approver-key-answer",
        events=(event,),
        said="Recorded.",
        begin=begin,
        body=given,
        form={"to": step, **given},
        faults=({"to": step, "reason": "r" * 4001},) if given else (),
    )


KEYS = (
    _word("confirm", "key_confirmed", _key),
    _word("refuse", "key_refused", _key, **REASON),
    _word("suspend", "key_suspended", lambda day: _key(day, "confirm"), **REASON),
    _word("restore", "key_restored", lambda day: _key(day, "confirm", "suspend")),
    _word("remove", "key_removed", lambda day: _key(day, "confirm", "suspend")),
)


def _absence(day: Day) -> Ids:
    return post(day, "/absences", people.span(3), "absence_id", day.own["reviewer"])


def _delegation(day: Day) -> Ids:
    everybody = day.own["administrator"].get("/members").json()["items"]
    ruth = next(each["actor"] for each in everybody if each["name"] == "Ruth")
    loan = {"to": ruth, "groups": ["reviewers"], "password": PASSWORD, **people.span(3)}
    return post(day, "/delegations", loan, "delegation_id", day.own["reviewer"].again())


LOANS = (
    Write(
        operation="people_end_delegation",
        path="/delegations/{delegation_id}/end",
        page="my-delegation-end",
        events=("delegation_ended",),
        said="Ended.",
        begin=_delegation,
    ),
    Write(
        operation="people_come_back",
        path="/absences/{absence_id}/end",
        page="my-absence-end",
        events=("absence_ended",),
        said="Absence ended.",
        begin=_absence,
    ),
)
