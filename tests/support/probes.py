"""One tenant after a whole day, the tenant next door, and every kind of caller of both: to be asked anything.

Each probe is one request whose every effect is taken back, so that thousands of them find the same day.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from console.models import Membership
from ledger.db import tenancy
from ledger.models import Event
from tests.support import api_tour, seals
from tests.support.admissions import KEYS, ROLES
from tests.support.api_tenant import GOAL, Clock, Workshop, anonymous, workshop
from tests.support.api_tour import Sent
from tests.support.callers import Api, person_for

AN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# What the forms of the pages ask for, all at once.
FORM = {
    "verdict": "approve",
    "payload_hash": "0" * 64,
    "rendering_digest": "0" * 64,
    "password": "correct horse battery",
    "reason": "Because.",
    "text": "Because.",
    "resolution": "FAIL",
    "evidence": "Because.",
    "answer": "confirm",
    "hours": "4",
    "note": "Because.",
    "what": "tool:delete_document",
    "title": "Because.",
    "runbook": "held",
    "step": "why",
    "done": "yes",
    "to": "pause",
    "finding": "justified",
}


@dataclass(frozen=True)
class Day:
    """What there is to probe: the day's calls, and who may be sent."""

    shop: Workshop
    sent: list[Sent]
    own: dict[str, Api]
    other: dict[str, Api]
    parts: dict[str, str]
    secrets: frozenset[str]
    clock: Clock
    keys: Path

    def events(self) -> int:
        """How many events the tenant's record has."""
        with tenancy(self.shop.tenant):
            return Event.objects.filter(tenant_id=self.shop.tenant).count()

    def leaked(self, said: str, content: bytes) -> list[str]:
        """What an answer gives away of the tenant that the caller did not name themselves."""
        text = content.decode("utf-8", "replace")
        return [secret for secret in self.secrets if secret in text and secret not in said]


def spend_day(folder: Path, secrets: Path) -> Day:
    """A day in the database that the connection is at, with the clock and the keys that belong to it."""
    with opened(folder, secrets) as (shop, clock):
        apis = {"agent": shop.agent, "exec": shop.executor, "oper": shop.operator_key, "audit": shop.auditor}
        sent = api_tour.spend(shop, clock)
        other = workshop("willow")
        others = dict(zip(KEYS, (other.agent, other.executor, other.operator_key, other.auditor), strict=True))
        return Day(
            shop=shop,
            sent=sent,
            own=apis | _people(shop),
            other=others | _people(other),
            parts=_parts(sent),
            secrets=_secrets(shop, sent),
            clock=clock,
            keys=folder / "secrets",
        )


@contextmanager
def after(day: Day) -> Iterator[Day]:
    """The evening of that day: nothing is sealed any more, since what a probe did is taken back."""
    with pytest.MonkeyPatch.context() as patch:
        _set(patch, day.keys, day.clock)
        patch.setattr(seals, "seal_up", lambda: 0)
        yield day


@contextmanager
def opened(folder: Path, secrets: Path) -> Iterator[tuple[Workshop, Clock]]:
    """A workshop in that database for as long as a module runs, with the clock and the keys that belong to it."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        _prepare(folder, secrets)
        _set(patch, folder / "secrets", clock)
        yield workshop("orchid").set_up(folder / "documents"), clock


def _prepare(folder: Path, secrets: Path) -> None:
    # What the signer's guard keeps comes and goes while others use it.
    shutil.copytree(secrets, folder / "secrets", ignore=shutil.ignore_patterns("*.sqlite*"))
    (folder / "secrets").chmod(0o700)
    (folder / "documents" / "policies").mkdir(parents=True)
    (folder / "documents" / "policies" / "returns.md").write_text("Returns within 14 days.")
    credentials = folder / "secrets" / "systems" / "orchid"
    credentials.mkdir(parents=True)
    (credentials / "documents.json").write_text("{}")


def _set(patch: pytest.MonkeyPatch, keys: Path, clock: Clock) -> None:
    patch.setattr(settings, "COUNTERFOIL_SECRETS_DIR", keys)
    patch.setattr(settings, "COUNTERFOIL_RATE_PER_S", 0)
    patch.setattr(settings, "COUNTERFOIL_EVENT_DESTINATIONS", api_tour.DESTINATIONS)
    patch.setattr("django.utils.timezone.now", clock.now)
    seals.seal_promptly(patch)


def _people(shop: Workshop) -> dict[str, Api]:
    """Somebody of each role, one who has none, one who has all, one who has left, and nobody at all."""
    roles = {role: (role,) for role in ROLES} | {"member": (), "everything": ROLES}
    people = {name: person_for(shop.tenant, *held, name=f"p-{name}@{shop.slug}") for name, held in roles.items()}
    left = person_for(shop.tenant, *ROLES, name=f"p-left@{shop.slug}")
    Membership.objects.filter(tenant_id=shop.tenant, user__username=f"p-left@{shop.slug}").update(
        removed_at=timezone.now()
    )
    return people | {"left": left, "nobody": anonymous()}


def _secrets(shop: Workshop, sent: list[Sent]) -> frozenset[str]:
    """What only the tenant itself may read: its ids, names, goal and grants."""
    told = " ".join(call.content.decode() for call in sent if call.kind == "application/json")
    grants = re.findall(r'"grant":"([^"]+)"', told)
    known = {"00000000-0000-7000-8000-000000000001"}  # the system's own actor, the same everywhere
    named = {str(shop.tenant), GOAL, "Orchid", "policies/returns.md"}
    return frozenset({*AN_ID.findall(told), *grants, *named} - known)


def _parts(sent: list[Sent]) -> dict[str, str]:
    """One of the tenant's things for each name in a route; a page about a new thing must be added here."""
    told = " ".join(call.content.decode("utf-8", "replace") for call in sent[::-1])

    def first(name: str) -> str:
        found = re.search(rf'"{name}":"([^"]+)"', told)
        assert found, name
        return found.group(1)

    names = """approval_id case_id action_id session_id freeze_id incident_id claim_id batch_id system_id pointer run_id
        export_id erasure_id hold_id retention_id member_id approver_key_id delegation_id absence_id emergency_id
        standing_approval_id alert_rule_id price_id budget_id release_id agent_id executor_id off_boarding_id"""
    plain = {"seq": "1", "number": "1", "old": "1", "new": "1", "slug": "orchid"}
    plain |= {"destination_name": "soc", "list_name": "actions", "channel": "email"}
    plain |= {"contract_name": "delete_document", "contract_version": "1.0.0"}
    plain |= {"policy_kind": "approval", "policy_version": "glass", "guide_name": "ledger"}
    # No call tells of these: any id of the tenant's stands for them.
    untold = """search_id subject_id alarm_id check_id view_id machine_key_id notice_id recording_id device_id
        override_id"""
    return {name: first(name) for name in names.split()} | plain | dict.fromkeys(untold.split(), first("action_id"))


def pages(patterns: list[Any] | None = None, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Every page of the product with its route; the API has a document of its own."""
    for each in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            if not route.startswith("api/"):
                yield from pages(each.url_patterns, route)
        else:
            yield route, each


def pages_of_tenants() -> Iterator[tuple[str, str]]:
    """The routes of a tenant's pages, and their names."""
    return ((route, str(page.name)) for route, page in pages() if route.startswith("t/<"))


def filled(route: str, parts: dict[str, str]) -> str:
    """The address that a route stands for."""
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda part: parts[part[1]], route)


def names_in(route: str) -> list[str]:
    """The names of the parts of a route, without the tenant's."""
    return [name for name in re.findall(r"<(?:\w+:)?(\w+)>", route) if name != "slug"]


@dataclass(frozen=True)
class Operation:
    """One operation of the document, and how the day called it."""

    name: str
    template: str
    described: dict[str, Any]
    method: str
    members: tuple[str, ...]
    sent: Sent


def operations(world: Day) -> list[Operation]:
    """Every operation of the OpenAPI document with the day's call of it that went well, or else any."""
    document = world.own["agent"].get("/openapi.json").json()
    return [
        Operation(
            name=described["operationId"],
            template=template,
            described=described,
            method=method.upper(),
            members=tuple(_members(document, described)),
            sent=_call_of(world.sent, method.upper(), template, document["paths"]),
        )
        for template, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def _members(document: dict[str, Any], described: dict[str, Any]) -> Iterator[str]:
    """The members that a body may have."""
    content = described.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    yield from document["components"]["schemas"].get(name, schema).get("properties", {})


def _call_of(sent: list[Sent], method: str, template: str, paths: dict[str, Any]) -> Sent:
    """A call of an operation; one to an address that is another operation's own is not its."""
    calls = [
        call
        for call in sent
        if call.method == method
        and api_tour.is_of(call.path, template)
        and (template == (own := f"/api/v1{call.path.partition('?')[0]}") or own not in paths)
    ]
    assert calls, f"the day has no call of {method} {template}"
    return min(calls, key=lambda call: call.status >= 400)


def probe(
    caller: Api,
    method: str,
    path: str,
    body: Any = None,
    *,
    form: Any = None,
    watched: Day | None = None,
    counted: bool = False,
    **headers: str,
) -> Any:
    """One request, of which nothing stays; a fault of ours is an answer with 500, not an exception.

    `body` is JSON, or bytes that are sent as they are; `form` is what a page's form sends. With `watched`, the answer
    of a write says how many events the record of that day has before all is taken back; with `counted`, any answer
    says which tables were written.
    """
    kept = SimpleCookie(caller.client.cookies.output(header="", sep=";"))
    caller.client.raise_request_exception = False
    kind = "application/json" if form is None else "application/x-www-form-urlencoded"
    data = form if form is not None else body if isinstance(body, bytes) else json.dumps(body)
    with transaction.atomic():
        before = _writes() if counted else {}
        if method == "GET":
            answer = caller.client.get(path, headers=caller.headers | headers)
        else:
            answer = caller.client.post(path, data, kind, headers=caller.headers | headers)
        answer.body_read = answer.getvalue()
        answer.written = {table for table, rows in (_writes() if counted else {}).items() if rows != before.get(table)}
        answer.events_then = watched.events() if watched is not None and method == "POST" else None
        transaction.set_rollback(True)
    caller.client.cookies = kept
    return answer


def _writes() -> dict[str, int]:
    """How many rows of each table this transaction has inserted, updated or deleted, as the database counts them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables")
        return {name: rows for name, rows in cursor.fetchall() if rows}


# Whoever belongs to no tenant: somebody who was removed, and somebody who never signed in.
OUTSIDE = ("left", "nobody")


# How many statements the database executes for something, by what the connection sends.


@contextmanager
def traced(path: Path) -> Iterator[None]:
    """Every message to the server and back, a line each."""
    line: Any = connection.connection
    with path.open("w") as file:
        line.pgconn.trace(file.fileno())
        try:
            yield
        finally:
            line.pgconn.untrace()


def executed(path: Path) -> int:
    """The statements of such a trace, but for those of the sequencer, which tests run in between."""
    count, ours = 0, True
    for line in path.read_text().splitlines():
        if "SET LOCAL ROLE" in line or "RESET ROLE" in line:
            ours = "RESET ROLE" in line
        # The query builder sends a statement as a simple query, all others are executed in parts.
        count += ours and ("\tExecute\t" in line or "\tQuery\t" in line)
    return count
