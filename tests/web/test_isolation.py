"""Nothing of one tenant is seen or touched from another: every call of the API and every page, by every kind of caller.

The calls are those of a whole day (`tests.day`), so a new endpoint is covered as soon as the document knows it; the
pages come from the resolver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from console.form_pages import find_page
from console.models import Membership
from console.recordings.queries import recordings
from ledger.models import Event
from ledger.tenancy import tenancy
from tests import day
from tests.callers import Api, person_for
from tests.day import Sent
from tests.transcripts.imports import BAD, imported, recording
from tests.workshop import GOAL, Clock, Workshop, anonymous, workshop

ROLES = ("reviewer", "operator", "compliance", "administrator")
NAMED = ("/agents/", "/contracts/")
AN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def sent(shop: Workshop, clock: Clock) -> list[Sent]:
    """What the tenant next door did today."""
    return day.spend(shop, clock)


@pytest.fixture
def others(sent: list[Sent], clock: Clock) -> dict[str, Api]:
    """Every kind of caller that the other tenant has, and somebody who belongs nowhere any more."""
    other = workshop("willow")
    people = {role: person_for(other.tenant, role, name=f"{role}@willow") for role in ROLES}
    keys = {"agent": other.agent, "exec": other.executor, "oper": other.operator_key, "audit": other.auditor}
    stranger = person_for(other.tenant, name="stranger@nowhere")
    Membership.objects.filter(user__username="stranger@nowhere").update(removed_at=clock.now())
    return {**keys, **people, "stranger": stranger, "nobody": anonymous()}


def secrets_of(shop: Workshop, sent: list[Sent]) -> set[str]:
    """What only the tenant itself may read: its ids, names, goal and grants."""
    told = " ".join(call.content.decode() for call in sent if call.kind == "application/json")
    grants = re.findall(r'"grant":"([^"]+)"', told)
    known = {"00000000-0000-7000-8000-000000000001"}  # the system's own actor, the same everywhere
    return {*AN_ID.findall(told), *grants, str(shop.tenant), GOAL, "Orchid", "policies/returns.md"} - known


def leaked(secrets: set[str], said: str, content: bytes) -> list[str]:
    """Secrets in an answer that the caller did not name themselves."""
    text = content.decode("utf-8", "replace")
    return [secret for secret in secrets if secret in text and secret not in said]


def record_of(shop: Workshop) -> int:
    with tenancy(shop.tenant):
        return Event.objects.filter(tenant_id=shop.tenant).count()


def again(caller: Api, call: Sent, **headers: str) -> Any:
    """The same call by somebody else."""
    if call.method == "GET":
        return caller.get(call.path, **headers)
    return caller.post(call.path, call.body, **headers)


def distinct(sent: list[Sent]) -> list[Sent]:
    """Of equal calls only one; reads, and what names a thing, before the other tenant makes one of that name itself."""
    calls = {(call.method, call.path, json.dumps(call.body)): call for call in sent}
    return sorted(calls.values(), key=lambda call: (call.method, not call.path.startswith(NAMED)))


# The API


@pytest.mark.req("R-CX-03")
def test_no_call_reaches_another_tenant(shop: Workshop, sent: list[Sent], others: dict[str, Api]):
    secrets, before = secrets_of(shop, sent), record_of(shop)
    ids = {secret for secret in secrets if AN_ID.fullmatch(secret)}
    for call in distinct(sent):
        foreign = any(one in call.text for one in ids) or call.path.startswith(NAMED)
        allowed = (401, 403, 404) if foreign else (200, 201, 202, 401, 403, 404, 409, 503)
        for name, caller in others.items():
            answer = again(caller, call, **call.headers)
            where = f"{name}: {call.method} {call.path}: {answer.status_code} {answer.content[:200]!r}"
            assert answer.status_code in allowed, where
            assert leaked(secrets, call.text, answer.content) == [], where
            kind = "application/problem+json" if 400 <= answer.status_code < 500 else "application/json"
            assert answer["Content-Type"] in (kind, call.kind), where
    assert record_of(shop) == before


@pytest.mark.req("R-CX-03")
def test_naming_the_tenant_opens_nothing(shop: Workshop, sent: list[Sent], others: dict[str, Api]):
    secrets = secrets_of(shop, sent)
    reads = [call for call in distinct(sent) if call.method == "GET"]
    for name, caller in others.items():
        for call in reads:
            answer = caller.get(call.path, **{"X-Tenant": str(shop.tenant)})
            assert leaked(secrets - {str(shop.tenant)}, call.text, answer.content) == [], f"{name}: {call.path}"
            if name in ROLES and call.path not in ("/healthz", "/readyz", "/jwks.json"):
                assert answer.status_code == 401, f"{name}: {call.path}"


def test_the_day_has_every_call_of_the_document(shop: Workshop, sent: list[Sent]):
    document = shop.operator.get("/openapi.json").json()
    missed = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if not any(call.method == method.upper() and day.is_of(call.path, path) for call in sent)
    ]
    assert missed == []


@pytest.mark.req("R-CX-03", "R-TG-01")
def test_a_call_cannot_lean_on_another_tenants_action(shop: Workshop, sent: list[Sent]):
    foreign = next(call.path.split("/")[2] for call in sent if call.path.endswith("/report"))
    other = workshop("willow").set_up()
    for field in ("depends_on", "acknowledges"):
        result = other.call(**{field: [foreign]})
        assert leaked(secrets_of(shop, sent), foreign, json.dumps(result).encode()) == []
    assert other.call(depends_on=[foreign])["result"]["error"]["code"] == "UNRESOLVED_DEPENDENCY"


@pytest.mark.req("R-CX-03")
def test_a_grant_opens_nothing_in_another_tenant(shop: Workshop):
    order = shop.claimed()
    other = workshop("willow").set_up()
    other.key = shop.key
    other.register()
    theirs = other.approved()
    refusals = {order["action_id"]: (404, "NOT_FOUND"), theirs: (403, "GRANT_INVALID")}
    for action_id, refusal in refusals.items():
        answer = other.start({"action_id": action_id, "grant": order["grant"]})
        assert (answer.status_code, answer.json()["code"]) == refusal
    assert shop.start(order).status_code == 201


# Pages


def pages(patterns: list[Any] | None = None, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Every page of the product with its route; the API has its own test."""
    for each in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            if not route.startswith("api/"):
                yield from pages(each.url_patterns, route)
        else:
            yield route, each


PUBLIC = {
    "account_login",
    "account_inactive",
    "mfa_authenticate",
    "mfa_login_webauthn",
    "openid_connect_login",
    "openid_connect_callback",
    "invitation",
    "socialaccount_login_cancelled",
    "sign-out",
    "jwks",
    "healthz",
    "readyz",
    "stream",
    "session-stream",
}
ABOUT_ONESELF = {
    "door",
    "preferences",
    "account_reauthenticate",
    "mfa_reauthenticate",
    "mfa_reauthenticate_webauthn",
    "again-outside",
    "mfa_index",
    "account_change_password",
    "mfa_activate_totp",
    "mfa_deactivate_totp",
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
    "mfa_list_webauthn",
    "mfa_add_webauthn",
    "mfa_remove_webauthn",
    "end-sessions",
    "invitation-accept",
}
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


def keys_of(sent: list[Sent]) -> dict[str, str]:
    """One of the tenant's things for each name in a route; a page about a new thing must be added here."""

    def first(name: str) -> str:
        found = re.search(
            rf'"{name}":"([^"]+)"', " ".join(call.content.decode("utf-8", "replace") for call in sent[::-1])
        )
        assert found, name
        return found.group(1)

    names = (
        "approval_id",
        "case_id",
        "action_id",
        "session_id",
        "freeze_id",
        "incident_id",
        "batch_id",
        "system_id",
        "pointer",
        "run_id",
        "export_id",
        "erasure_id",
        "hold_id",
        "retention_id",
        "member_id",
        "approver_key_id",
        "delegation_id",
        "absence_id",
        "emergency_id",
        "agent_id",
    )
    plain = {"seq": "1", "number": "1", "old": "1", "new": "1"}
    plain |= {"contract_name": "delete_document", "contract_version": "1.0.0"}
    # No call tells of these: any id of the tenant's stands for them.
    untold = dict.fromkeys(
        ("subject_id", "alarm_id", "check_id", "view_id", "machine_key_id", "notice_id", "recording_id"),
        first("action_id"),
    )
    return {name: first(name) for name in names} | plain | untold


def others_of(shop: Workshop) -> UUID:
    """The tenant that `others` belong to."""
    return Membership.objects.exclude(tenant_id=shop.tenant).values_list("tenant_id", flat=True)[0]


def filled(route: str, slug: str, keys: dict[str, str]) -> str:
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda part: {"slug": slug, **keys}[part.group(1)], route)


@pytest.mark.req("R-CX-03", "R-UI-01")
def test_no_page_shows_another_tenants_things(shop: Workshop, sent: list[Sent], others: dict[str, Api]):
    secrets, before, keys = secrets_of(shop, sent), record_of(shop), keys_of(sent)
    with_every_role = person_for(others_of(shop), *ROLES, name="everything@willow")
    people = {"everything": with_every_role, "stranger": others["stranger"]}
    of_tenants = {route: page for route, page in pages() if route.startswith("t/<")}
    assert len(of_tenants) > 15
    for route, page in of_tenants.items():
        about = set(keys) & set(re.findall(r"(\w+)>", route))
        for name, person in people.items():
            ours, theirs = filled(route, "willow", keys), filled(route, shop.slug, keys)
            for address in (ours, theirs):
                for answer in (person.client.get(address), person.client.post(address, FORM)):
                    where = f"{name}: {page.name} at {address}: {answer.status_code}"
                    closed = address == theirs or about or name == "stranger"
                    if answer.status_code == 302 and address == ours and answer["Location"] == find_page(address):
                        # The address of a form, read: it leads to its page whether or not there is such a thing.
                        continue
                    assert answer.status_code in ((403, 404, 405) if closed else (200, 302, 405, 422)), where
                    assert leaked(secrets, address, answer.content) == [], where
    assert record_of(shop) == before


@pytest.mark.req("R-CX-03")
def test_a_recording_is_its_tenants_alone(shop: Workshop, tmp_path: Path):
    assert imported(recording(tmp_path, BAD, name="orchids-own.jsonl"))[0] == 0
    other = workshop("willow")
    with tenancy(shop.tenant):
        [row] = recordings(shop.tenant, limit=2)
    stranger = person_for(other.tenant, *ROLES, name="everything@willow")
    for slug in ("willow", shop.slug):
        for path in (f"{row.id}", f"{row.id}/1", f"{row.id}?words=reservation"):
            answer = stranger.client.get(f"/t/{slug}/recordings/{path}")
            assert answer.status_code == 404
            assert b"ABC123" not in answer.content
        asked = {"legal_basis": "x", "reason": "y"}
        assert stranger.client.post(f"/t/{slug}/recordings/{row.id}/erase", asked).status_code == 404
    assert b"orchids-own" not in stranger.client.get("/t/willow/recordings").content
    with tenancy(other.tenant):
        assert recordings(shop.tenant, limit=2) == []


def test_every_page_is_of_a_tenant_or_known_to_be_of_none():
    names = {page.name for route, page in pages() if not route.startswith("t/<")}
    assert names == PUBLIC | ABOUT_ONESELF


@pytest.mark.req("R-CX-03")
def test_pages_of_no_tenant_tell_nothing_of_one(shop: Workshop, sent: list[Sent], others: dict[str, Api]):
    secrets = secrets_of(shop, sent)
    named = {"provider_id": "x", "pk": "1", "token": "x", "member_id": str(UUID(int=1))}
    for route, page in pages():
        if page.name in (PUBLIC | ABOUT_ONESELF) - {"stream", "session-stream", "sign-out"}:
            for name in (*ROLES, "stranger", "nobody"):
                answer = others[name].client.get(
                    filled(route, "", named),
                    follow=True,
                )
                assert leaked(secrets, "", answer.content) == [], f"{name}: {route}"


def test_who_is_not_signed_in_is_sent_to_sign_in_and_learns_nothing(shop: Workshop, sent: list[Sent]):
    for route, _ in pages():
        if route.startswith("t/<"):
            for slug in (shop.slug, "nowhere"):
                answer = anonymous().client.get(filled(route, slug, keys_of(sent)))
                assert answer.status_code == 302, route
                assert answer["Location"].startswith("/sign-in"), route
