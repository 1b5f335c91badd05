"""Every write that a page and the API share, subject by subject."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from console.installation.off_boarding import request_off_boarding
from tests.support.probes import Day
from tests.web.writes.agreements import CONTRACTS, RELEASES, STANDING_APPROVALS, SYSTEMS
from tests.web.writes.casework import BATCHES, CASEWORK, CLAIMS
from tests.web.writes.operations import ALERTS, COSTS, EVENT_EXPORT, NOTICES, OVERRIDES
from tests.web.writes.people import KEYS, LOANS, MEMBERS
from tests.web.writes.work import ACTIONS, ASSIGNMENT, BREAK_GLASS, FREEZES
from tests.web.writes.write import REASON, Ids, Write, answers, post

# Holds, erasures and retention


def _ended_action(day: Day) -> str:
    action = day.shop.propose(path="old/erased.md")
    day.shop.agent.post(f"/actions/{action}/cancel", {"reason": "No longer wanted."})
    return action


ERASURE = {"legal_basis": "Art. 17(1)(a) GDPR", "reason": "The person asked for it."}
HOLD = {"scope": "target", "value": "policies/held.md", "reason": "A dispute."}
DAYS = {"payload_days": 200, "envelope_days": 2000, "floor_days": 0}


def _erasure(day: Day) -> Ids:
    return post(day, "/erasures", {"actions": [_ended_action(day)], **ERASURE}, "erasure_id")


_hold = partial(post, path="/holds", body=HOLD, name="hold_id")
_policy = partial(post, path="/retention", body=DAYS, name="retention_id")


def _off_boarding(day: Day) -> Ids:
    asked = request_off_boarding(day.shop.tenant, reason="The contract has ended.", at=day.clock.now())
    return {"off_boarding_id": str(asked.id)}


RETENTION = (
    Write(
        operation="retention_place_hold",
        path="/holds",
        page="hold-place",
        events=("hold_placed",),
        said="Hold placed.",
        body=HOLD,
        form=HOLD,
        faults=(
            {},
            {"scope": "all", "value": "x", "reason": "y"},
            {"scope": "target", "value": "", "reason": "y"},
            {"scope": "nothing", "value": "v" * 513, "reason": "r" * 4001},
            {"scope": "all", "value": "x", "reason": "<b>'\"&"},
        ),
    ),
    Write(
        operation="retention_lift_hold",
        path="/holds/{hold_id}/lift",
        page="hold-lift",
        events=("hold_lifted",),
        said="Hold lifted.",
        begin=_hold,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": " "}),
    ),
    # Erasures
    Write(
        operation="retention_ask",
        path="/erasures",
        page="erasure-ask",
        events=("erasure_requested",),
        said="Erasure of 3 subjects requested. Another person with the role compliance must confirm it.",
        body={"actions": lambda day: [_ended_action(day)], **ERASURE},
        form={"what": _ended_action, **ERASURE},
        faults=(
            {},
            {"what": "no id", **ERASURE},
            {"what": "no id", "legal_basis": "", "reason": ""},
            {"what": "no id", "legal_basis": "b" * 301, "reason": "r" * 4001},
            {"what": "a" * 40_001, **ERASURE},
        ),
    ),
    *answers(
        "/erasures/{erasure_id}",
        "erasure-answer",
        _erasure,
        (
            (
                "retention_confirm",
                "confirm",
                "erasure_confirmed",
                "Confirmed. It is erased within seconds unless a hold covers it.",
            ),
            ("retention_refuse", "refuse", "erasure_refused", "Recorded."),
            ("retention_withdraw", "withdraw", "erasure_withdrawn", "Recorded."),
        ),
    ),
    Write(
        operation="retention_propose_policy",
        path="/retention",
        page="retention-propose",
        events=("retention_proposed",),
        said="Proposed. Takes effect after another person confirms it.",
        body=DAYS,
        form=DAYS,
        faults=(
            {},
            {"payload_days": "x", "envelope_days": "1.5", "floor_days": ""},
            {"payload_days": "0", "envelope_days": "36501", "floor_days": "-1", "standing": "on"},
            {"payload_days": "200", "envelope_days": "100", "floor_days": "0"},
        ),
    ),
    *answers(
        "/retention/{retention_id}",
        "retention-answer",
        _policy,
        (
            (
                "retention_confirm_policy",
                "confirm",
                "retention_confirmed",
                "Confirmed. The policy is in force.",
            ),
            ("retention_withdraw_policy", "withdraw", "retention_withdrawn", "Recorded."),
        ),
    ),
    # Its events are the tenant's own, which no address names.
    *(
        replace(each, makes=True)
        for each in answers(
            "/off-boarding/{off_boarding_id}",
            "off-boarding-answer",
            _off_boarding,
            (
                (
                    "retention_confirm_off_boarding",
                    "confirm",
                    "off_boarding_confirmed",
                    "Confirmed. The operator can go on.",
                ),
                ("retention_refuse_off_boarding", "refuse", "off_boarding_refused", "Recorded."),
            ),
        )
    ),
)
# Incidents

INCIDENT = {"title": "Deletions that do not delete", "kind": "operations", "reason": "Two in a day."}
_incident = partial(post, path="/incidents", body=INCIDENT, name="incident_id")


def _closed_incident(day: Day) -> Ids:
    ids = _incident(day)
    post(day, f"/incidents/{ids['incident_id']}/close", {"note": "It is mended."}, "incident_id")
    return ids


INCIDENTS = (
    Write(
        operation="incidents_comment",
        path="/incidents/{incident_id}/comments",
        page="incident-comment",
        events=("commented",),
        said="",
        begin=_incident,
        body={"text": "The volume is read-only."},
        form={"text": "The volume is read-only."},
        faults=({}, {"text": "t" * 4001}),
    ),
    Write(
        operation="incidents_reopen",
        path="/incidents/{incident_id}/reopen",
        page="incident-reopen",
        events=("incident_reopened",),
        said="",
        begin=_closed_incident,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)
WRITES = (
    *RETENTION,
    *INCIDENTS,
    *CASEWORK,
    *BATCHES,
    *CLAIMS,
    *ASSIGNMENT,
    *BREAK_GLASS,
    *FREEZES,
    *ACTIONS,
    *MEMBERS,
    *KEYS,
    *LOANS,
    *STANDING_APPROVALS,
    *RELEASES,
    *CONTRACTS,
    *SYSTEMS,
    *ALERTS,
    *COSTS,
    *EVENT_EXPORT,
    *NOTICES,
    *OVERRIDES,
)
