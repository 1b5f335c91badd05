"""Every write that a page and the API share: where it is made, of what, with which input, and what it has then done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import transaction
from django.urls import reverse

from ledger.db import tenancy
from ledger.models import Event
from tests.support.admissions import OPERATIONS, ROLES
from tests.support.api_tenant import PASSWORD
from tests.support.callers import Api
from tests.support.probes import Day

Ids = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Write:
    """One write. `operation` is its id in the document, `path` its path there, `page` the name of its page's address.

    `begin` makes what it is about and gives the ids of the path. `body` and `form` are its input without a proof, for
    the API and the page; `faults` is other input of the page, each with a fault. `events` are the kinds that it
    appends, `said` is the sentence on the page.
    """

    operation: str
    path: str
    page: str
    events: tuple[str, ...]
    said: str
    begin: Callable[[Day], Ids] = lambda day: {}
    body: Mapping[str, Any] = field(default_factory=dict)
    form: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[Mapping[str, Any], ...] = ()

    def role(self) -> str:
        return next(role for role in ROLES if role in OPERATIONS[self.operation])

    def call(self, day: Day, caller: Api, ids: Ids, **proof: str) -> Any:
        """This write over the API."""
        return caller.post(self.path.format_map(ids), {**_of(self.body, day), **proof})

    def send(self, day: Day, caller: Api, ids: Ids, **proof: str) -> Any:
        """This write from its page."""
        return caller.client.post(address(self.page, ids), {**_of(self.form, day), **proof})


def address(page: str, ids: Ids) -> str:
    return reverse(page, kwargs={"slug": "orchid", **ids})


def _of(given: Mapping[str, Any], day: Day) -> dict[str, Any]:
    """The input, with what only the day knows."""
    return {name: value(day) if callable(value) else value for name, value in given.items()}


@contextmanager
def undone() -> Iterator[None]:
    """Roll back at the end what is written inside."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def events_of(day: Day) -> Callable[[], list[tuple[str, str]]]:
    """The events that are appended from now on: what they are of, and their kinds."""

    def found() -> list[tuple[Any, int, str]]:
        with tenancy(day.shop.tenant):
            return list(Event.objects.filter(tenant_id=day.shop.tenant).values_list("subject_id", "seq", "kind"))

    before = set(found())
    return lambda: [(str(subject), kind) for subject, seq, kind in found() if (subject, seq, kind) not in before]


def proposer(day: Day) -> Api:
    """Somebody with every role, who has proposed whatever waits."""
    return day.own["everything"]


def _post(day: Day, path: str, body: Mapping[str, Any], name: str, by: Api | None = None) -> Ids:
    answer = (by or proposer(day)).post(path, dict(body))
    assert answer.status_code in (200, 201, 202), answer.content
    return {name: str(answer.json()[name])}


# Holds, erasures and retention


def _ended_action(day: Day) -> str:
    action = day.shop.propose(path="old/erased.md")
    day.shop.agent.post(f"/actions/{action}/cancel", {"reason": "No longer wanted."})
    return action


ERASURE = {"legal_basis": "Art. 17(1)(a) GDPR", "reason": "The person asked for it."}
HOLD = {"scope": "target", "value": "policies/held.md", "reason": "A dispute."}
DAYS = {"payload_days": 200, "envelope_days": 2000, "floor_days": 0}
REASON = {"reason": "It is settled."}


def _erasure(day: Day) -> Ids:
    return _post(day, "/erasures", {"actions": [_ended_action(day)], **ERASURE}, "erasure_id")


_hold = partial(_post, path="/holds", body=HOLD, name="hold_id")
_policy = partial(_post, path="/retention", body=DAYS, name="retention_id")


def _answers(
    path: str, page: str, begin: Callable[[Day], Ids], rows: Iterable[tuple[str, str, str, str]]
) -> Iterator[Write]:
    for operation, to, event, said in rows:
        given = {} if to == "confirm" else REASON
        yield Write(
            operation=operation,
            path=f"{path}/{to}",
            page=page,
            events=(event,),
            said=said,
            begin=begin,
            body=given,
            form={"to": to, **given},
            faults=({"to": to, "otp": "1" * 20},)
            if to == "confirm"
            else ({"to": to}, {"to": to, "reason": "r" * 4001}),
        )


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
        said="Asked for: 3 subjects. Another person must confirm the erasure.",
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
    *_answers(
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
    *_answers(
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
)
# Incidents

INCIDENT = {"title": "Deletions that do not delete", "kind": "operations", "reason": "Two in a day."}
_incident = partial(_post, path="/incidents", body=INCIDENT, name="incident_id")


def _closed_incident(day: Day) -> Ids:
    ids = _incident(day)
    _post(day, f"/incidents/{ids['incident_id']}/close", {"note": "It is mended."}, "incident_id")
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
WRITES = (*RETENTION, *INCIDENTS)
PROOF = {"password": PASSWORD}
