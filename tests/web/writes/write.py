"""One write that a page and the API share: where it is made, of what, with which input, and what it has then done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db import transaction
from django.urls import reverse

from ledger.db import tenancy
from ledger.models import Event
from tests.support.admissions import OPERATIONS, ROLES
from tests.support.api_tenant import PASSWORD
from tests.support.callers import Api
from tests.support.probes import Day, names_in, pages_of_tenants

Ids = dict[str, str]
PROOF = {"password": PASSWORD}
REASON = {"reason": "It is settled."}


@dataclass(frozen=True, kw_only=True)
class Write:
    """One write. `operation` is its id in the document, `path` its path there, `page` the name of its page's address.

    `begin` makes what it is about and gives the ids of the path. `body` and `form` are its input without a proof, for
    the API and the page; `faults` is other input of the page, each with a fault. `events` are the kinds that it
    appends, `said` is the sentence on the page. Where it `makes` something new, the events are of that.
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
    makes: bool = False

    def role(self) -> str:
        return next(role for role in ROLES if role in OPERATIONS[self.operation])

    def call(self, day: Day, caller: Api, ids: Ids, **proof: str) -> Any:
        """This write over the API."""
        return caller.post(self.path.format_map(ids), {**_of(self.body, day), **proof})

    def send(self, day: Day, caller: Api, ids: Ids, **proof: str) -> Any:
        """This write from its page."""
        return caller.client.post(address(self.page, ids), {**_of(self.form, day), **proof})


@cache
def _routes() -> dict[str, str]:
    return {name: route for route, name in pages_of_tenants()}


def address(page: str, ids: Ids) -> str:
    """The address of a page, which may have other names for its parts than the API."""
    return reverse(page, kwargs={"slug": "orchid"} | {name: ids[name] for name in names_in(_routes()[page])})


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
            events = Event.objects.filter(tenant_id=day.shop.tenant).order_by("at", "subject_id", "seq")
            return list(events.values_list("subject_id", "seq", "kind"))

    before = set(found())
    return lambda: [(str(subject), kind) for subject, seq, kind in found() if (subject, seq, kind) not in before]


def proposer(day: Day) -> Api:
    """Somebody with every role, who has proposed whatever waits."""
    return day.own["everything"]


def post(day: Day, path: str, body: Mapping[str, Any], name: str, by: Api | None = None) -> Ids:
    answer = (by or proposer(day)).post(path, dict(body))
    assert answer.status_code in (200, 201, 202), answer.content
    return {name: str(answer.json()[name])}


def answers(
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
