"""Callers of the HTTP API: keys of each kind and people of each role, in the test's own transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.test.client import ClientHandler

from console.accounts import operations as directory
from console.contracts.contract_check import validate_contract
from console.edge.waiting import StillWaiting, Wait, WaitingRoom
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration, releases
from ledger.catalogue.operations.releases import GateResult
from ledger.catalogue.rules.releases import required_gates
from ledger.db import tenancy
from ledger.models import PolicyVersion, Release
from ledger.record import operations as ledger


@dataclass
class Api:
    """One caller of the API."""

    client: Client
    headers: dict[str, str]
    tenant: UUID | None = None
    user: Any = None

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(f"/api/v1{path}", headers=self.headers | headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(
            f"/api/v1{path}", body if body is not None else {}, "application/json", headers=self.headers | headers
        )

    def sign_in(self) -> None:
        """Begin a new session: one lasts twelve hours."""
        self.client = signed_in(self.user)

    def again(self) -> Api:
        """The same caller, who has heard nothing yet of what happens from now on."""
        client = new_client()
        client.cookies.update(self.client.cookies)
        return Api(client, dict(self.headers), self.tenant, self.user)

    def release_contract(self, document: dict[str, Any]) -> None:
        """Have a version of a contract in force that changes what is verified, with gates that nobody ran."""
        assert self.tenant is not None
        with tenancy(self.tenant):
            put_contract_in_force(self.tenant, document)

    def release(self, kind: str, body: dict[str, Any]) -> Any:
        """Draft a policy, and where the draft is taken have it in force, with gates that nobody ran."""
        answer = self.post("/releases", {"kind": kind, "reason": "A test."} | body)
        if answer.status_code == 201:
            assert self.tenant is not None
            with tenancy(self.tenant):
                put_in_force(self.tenant, kind, body["version"], body["document"] | {"version": body["version"]})
        return answer


# Loading the middleware costs more than most requests do; it holds nothing of a caller.
_HANDLER = ClientHandler(enforce_csrf_checks=False)


def new_client() -> Client:
    """A browser or program that has called nobody yet."""
    client = Client()
    client.handler = _HANDLER
    return client


def _now() -> datetime:
    return datetime.now(UTC)


def key_for(tenant: UUID, kind: str, *, scopes: list[str] | None = None, expires_at: datetime | None = None) -> Api:
    secret = directory.create_key(
        tenant_id=tenant,
        kind=kind,
        name=f"{kind} key",
        by=ledger.SYSTEM,
        at=_now(),
        scopes=scopes,
        expires_at=expires_at,
    )
    return Api(new_client(), {"Authorization": f"Bearer {secret}"}, tenant)


def person_for(tenant: UUID, *roles: str, name: str = "") -> Api:
    username = name or f"{'-'.join(roles) or 'stranger'}@{tenant.hex[-8:]}"
    place = directory.add_member(
        tenant_id=tenant,
        username=username,
        password="correct horse battery",
        name=username.split("@")[0].title(),
        roles=frozenset(roles),
        by=ledger.SYSTEM,
        at=_now(),
    )
    return Api(signed_in(place.user), {}, tenant, place.user)


def signed_in(user: Any) -> Client:
    """The browser of somebody who has come in: with their session, and without what the way through the door costs."""
    client = new_client()
    client.cookies[settings.SESSION_COOKIE_NAME] = new_session(user).session_key
    return client


def new_session(user: Any) -> SessionStore:
    """The session of somebody who signed in with a password some time ago."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "console.accounts.sign_in.sessions.PasswordBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return session


def found(slug: str) -> UUID:
    """A tenant with its first event and default policies."""
    at = _now()
    return registration.set_up_tenant(
        tenant_id=ledger.new_id(at), slug=slug, name=slug.title(), host="console.test", at=at
    ).id


# Releases in tests that are about something else: prepared by the operations, with gates that nobody ran.


def passed(kind: str, *, but: str = "") -> list[GateResult]:
    """Results of every gate of a kind, all passed but one; they say that no gate was run."""
    said = "Prepared by a test; no gate was run."
    return [GateResult(gate=gate, passed=gate != but, summary=said, evidence={}) for gate in required_gates(kind)]


def drafted(
    tenant: UUID, kind: str, version: str, document: Mapping[str, Any], *, at: datetime, but: str = ""
) -> Release:
    """A draft with its gates passed, all but one. Inside `tenancy`."""
    row = releases.draft_release(
        tenant_id=tenant, kind=kind, version=version, document=document, reason="A test.", by=ledger.SYSTEM, at=at
    )
    return pass_gates(tenant, row.id, but=but, at=at)


def put_contract_in_force(tenant: UUID, document: dict[str, Any], *, at: datetime | None = None) -> None:
    """A version of a contract in force that changes what is verified, by a release that two people promoted."""
    at = at or datetime.now(UTC)
    contract = validate_contract(document)
    row = releases.draft_contract(tenant_id=tenant, contract=contract, reason="A test.", by=ledger.SYSTEM, at=at)
    _promote(pass_gates(tenant, row.id, at=at), at=at)


def pass_gates(tenant: UUID, release_id: UUID, *, but: str = "", at: datetime | None = None) -> Release:
    """The gates of a release passed, all but one. Inside `tenancy`."""
    row = catalogue_queries.release(tenant, release_id)
    assert row is not None
    in_force = catalogue_queries.version_in_force(tenant, row.kind, row.tool)
    assert in_force is not None
    return releases.record_gates(
        tenant_id=tenant,
        release_id=release_id,
        results=passed(row.kind, but=but),
        basis=in_force.digest,
        by=ledger.SYSTEM,
        at=at or datetime.now(UTC),
    )


def _promote(row: Release, *, at: datetime) -> None:
    for _ in range(2):
        releases.promote_release(
            tenant_id=row.tenant_id,
            release_id=row.id,
            reason="A test.",
            by=ledger.Actor("person", uuid4()),
            is_proven=True,
            at=at,
        )


def put_in_force(
    tenant: UUID, kind: str, version: str, document: Mapping[str, Any], *, at: datetime | None = None
) -> PolicyVersion:
    """A version of a policy in force, by a release that two people promoted. Inside `tenancy`."""
    at = at or datetime.now(UTC)
    _promote(drafted(tenant, kind, version, document, at=at), at=at)
    found = catalogue_queries.policy_version(tenant, kind, version)
    assert found is not None
    return found


# Requests that wait


def answered(client: Client, send: Callable[[], Any], *, nap: Callable[[float], object] = time.sleep) -> Any:
    """The answer to a request that may wait, kept as the server keeps it; `nap` is what passes between two looks."""
    room, wait = WaitingRoom(_look_at_once), None
    while True:
        facts = room.facts(wait)
        client.defaults.update(facts)
        try:
            response = send()
        finally:
            for name in facts:
                del client.defaults[name]
        if not isinstance(response, StillWaiting):
            return response
        wait = response.wait
        _pass_time(wait, nap)


async def _look_at_once(look: Callable[[], bool]) -> bool:
    return look()


def _pass_time(wait: Wait, nap: Callable[[float], object]) -> None:
    while time.monotonic() < wait.until:
        nap(0.02)
        if wait.look():
            return
