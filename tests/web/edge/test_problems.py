"""Problems: every refusal has one shape, and nothing that a client sends is answered with a fault of ours."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

import pytest
import redis
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, OperationalError
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.errors import UniqueViolation

from console.accounts import known_keys
from console.accounts import operations as accounts_operations
from console.brokers import counters
from console.edge import rate
from console.models import ApiKey
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import evidence
from tests.support.api_tenant import Clock, Workshop, anonymous, contract, result, workshop
from tests.support.callers import Api, key_for, new_client, person_for


def a_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The problem in an answer, which must be one (RFC 9457)."""
    assert answer["Content-Type"] == "application/problem+json", answer.content
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "code", "detail"} <= problem.keys()
    assert problem.keys() <= {"type", "title", "status", "code", "detail", "hint", "errors"}
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert problem["code"] == problem["code"].upper()
    assert problem["detail"]
    for error in problem.get("errors", []):
        assert error.keys() == {"path", "code", "detail"}
    return problem


@pytest.fixture
def limited(unhurried: LazySettings, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> LazySettings:
    unhurried.REDIS_URL = valkey_url
    unhurried.COUNTERFOIL_RATE_PER_S = 3
    monkeypatch.setattr(counters, "_away_until", 0.0)
    return unhurried


def test_a_key_over_its_rate_says_when_to_come_back(agent: Api, operator_key: Api, limited: LazySettings, clock: Any):
    clock.stop()
    assert [agent.get("/actions").status_code for _ in range(3)] == [200] * 3
    answer = agent.get("/actions")
    a_problem(answer, 429, "RATE_LIMITED")
    assert answer["Retry-After"] == "1"
    assert operator_key.get("/actions").status_code == 200
    clock.forward(seconds=1)
    assert agent.get("/actions").status_code == 200


def test_without_counters_nothing_is_limited(agent: Api, limited: LazySettings):
    limited.REDIS_URL = "redis://127.0.0.1:1/0"
    assert {agent.get("/actions").status_code for _ in range(6)} == {200}


def test_a_rate_of_zero_means_no_limit(shop: Workshop, limited: LazySettings):
    limited.COUNTERFOIL_RATE_PER_S = 0
    assert {shop.agent.get("/actions").status_code for _ in range(6)} == {200}


# Who is asking


def test_an_unknown_caller_gets_401_with_instructions(shop: Workshop, clock: Clock):
    expired = key_for(shop.tenant, "agent", expires_at=clock.now() + timedelta(seconds=5))
    assert expired.get("/actions").status_code == 200
    clock.forward(seconds=10)
    for caller in (
        anonymous(),
        expired,
        Api(new_client(), {"Authorization": "Bearer cf_agent_wrong"}),
        Api(new_client(), {"Authorization": "Basic dXNlcjpwYXNz"}),
        Api(new_client(), {"Authorization": "Bearer " + "x" * 5000}),
    ):
        answer = caller.get("/actions")
        a_problem(answer, 401, "UNAUTHENTICATED")
        assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_key_that_names_no_tenant_is_refused_in_words(shop: Workshop):
    for kind in ("agent", "exec", "oper", "audit"):
        caller = Api(new_client(), {"Authorization": f"Bearer cf_{kind}_{'x' * 43}"})
        body = a_problem(caller.get("/actions"), 401, "UNAUTHENTICATED")
        assert (
            body["detail"] == "This key has the form of an earlier version, which names no tenant. Create another one."
        )


def test_a_key_opens_no_other_tenant_than_the_one_it_names(shop: Workshop):
    other = workshop("willow")
    word = shop.agent.headers["Authorization"]
    assert word.startswith(f"Bearer cf_agent_{shop.tenant.hex}_")
    moved = Api(new_client(), {"Authorization": word.replace(shop.tenant.hex, other.tenant.hex)})
    assert shop.agent.get("/actions").status_code == other.agent.get("/actions").status_code == 200
    a_problem(moved.get("/actions"), 401, "UNAUTHENTICATED")


def test_a_revoked_key_is_refused_at_once(shop: Workshop, clock: Clock):
    assert shop.agent.get("/actions").status_code == 200
    row = ApiKey.objects.get(tenant_id=shop.tenant, kind="agent")
    with tenancy(shop.tenant):
        accounts_operations.revoke_key(
            tenant_id=shop.tenant, key_id=row.id, by=ledger.SYSTEM, reason="Lost.", at=clock.now()
        )
    a_problem(shop.agent.get("/actions"), 401, "UNAUTHENTICATED")


def test_a_key_is_read_again_after_a_second_or_a_revocation(
    shop: Workshop,
    limited: LazySettings,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
    broker: Any,
):
    limited.COUNTERFOIL_RATE_PER_S = 1000
    monkeypatch.setattr(known_keys, "GOOD_FOR_S", 3600.0)
    # Other tests revoke keys at the same broker, or have it away; and a busy machine answers late.
    patient = redis.Redis.from_url(limited.REDIS_URL)
    monkeypatch.setattr(counters, "_away_until", 0.0)
    monkeypatch.setattr(counters, "client", lambda: patient)
    for module in (known_keys, rate):
        monkeypatch.setattr(module, "GENERATION", f"counterfoil:keys:{shop.tenant}")
    # Known before another key was revoked: it is read again, and known again.
    for generation in ("before", "after"):
        patient.set(known_keys.GENERATION, generation)
        assert shop.agent.get("/actions").status_code == 200
    # Behind the back of every process: nobody reads it before the time is over.
    ApiKey.objects.filter(tenant_id=shop.tenant, kind="agent").update(revoked_at=clock.now())
    assert shop.agent.get("/actions").status_code == 200
    row = ApiKey.objects.get(tenant_id=shop.tenant, kind="oper")
    assert shop.operator_key.get("/actions").status_code == 200
    with django_capture_on_commit_callbacks(execute=True), tenancy(shop.tenant):
        accounts_operations.revoke_key(
            tenant_id=shop.tenant, key_id=row.id, by=ledger.SYSTEM, reason="Lost.", at=clock.now()
        )
    a_problem(shop.operator_key.get("/actions"), 401, "UNAUTHENTICATED")
    a_problem(shop.agent.get("/actions"), 401, "UNAUTHENTICATED")
    patient.close()


def test_a_known_key_expires_in_time(
    shop: Workshop, limited: LazySettings, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(known_keys, "GOOD_FOR_S", 3600.0)
    passing = key_for(shop.tenant, "agent", expires_at=clock.now() + timedelta(seconds=5))
    assert passing.get("/actions").status_code == 200
    clock.forward(seconds=10)
    a_problem(passing.get("/actions"), 401, "UNAUTHENTICATED")


def test_a_key_is_limited_to_the_operations_of_its_kind(shop: Workshop):
    for caller, path in (
        (shop.agent, "/agents"),
        (shop.agent, "/approvals"),
        (shop.executor, "/actions"),
        (shop.executor, "/reviews"),
        (shop.auditor, "/executions/ready?tools=x"),
        (shop.operator_key, "/approvals"),
    ):
        a_problem(caller.get(path), 403, "FORBIDDEN")


@pytest.mark.req("R-UI-03")
def test_a_write_by_a_session_needs_the_csrf_token(shop: Workshop):
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = shop.operator.client.cookies
    body = {"scope": "all", "reason": "Wait."}
    a_problem(strict.post("/api/v1/freezes", body, "application/json"), 403, "CSRF_FAILED")
    assert strict.get("/api/v1/freezes").json()["items"] == []
    strict.get(f"/t/{shop.slug}/")
    token = strict.cookies["csrftoken"].value
    assert strict.post("/api/v1/freezes", body, "application/json", headers={"X-CSRFToken": token}).status_code == 201


def test_a_key_needs_no_csrf_token(shop: Workshop):
    strict = Client(enforce_csrf_checks=True)
    body = {"scope": "all", "reason": "Wait."}
    answer = strict.post("/api/v1/freezes", body, "application/json", headers=shop.operator_key.headers)
    assert answer.status_code == 201


def test_a_member_of_several_tenants_must_name_one(shop: Workshop):
    other = workshop("willow")
    person = person_for(shop.tenant, "operator", name="both@example")
    person_for(other.tenant, "operator", name="both@example")
    a_problem(person.get("/actions"), 400, "TENANT_REQUIRED")
    shop.propose()
    for tenant, count in ((shop.tenant, 1), (other.tenant, 0)):
        items = person.get("/actions", **{"X-Tenant": str(tenant)}).json()["items"]
        assert len(items) == count
    a_problem(person.get("/actions", **{"X-Tenant": str(uuid4())}), 401, "UNAUTHENTICATED")


# Where and how


def test_an_unknown_address_is_404(agent: Api):
    for path in ("/nothing", "/", "/actions/", "/agents/a/b/c", "/actions/not-an-id", f"/actions/{uuid4()}"):
        a_problem(agent.get(path), 404, "NOT_FOUND")


def test_an_unknown_method_is_405_and_lists_the_allowed_ones(agent: Api):
    for method in ("put", "patch", "delete"):
        answer = getattr(agent.client, method)("/api/v1/actions", headers=agent.headers)
        a_problem(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer["Allow"] == "GET"
    a_problem(agent.post("/actions"), 405, "METHOD_NOT_ALLOWED")


def test_under_https_a_request_over_http_is_refused_and_not_redirected(agent: Api, settings):
    settings.SECURE_SSL_REDIRECT = True
    answer = agent.get("/actions")
    problem = a_problem(answer, 403, "HTTPS_REQUIRED")
    assert problem["detail"].endswith("The key was sent without encryption: replace it.")
    assert "key" not in Client().get("/api/v1/actions").json()["detail"]
    assert agent.client.get("/api/v1/actions", headers=agent.headers, secure=True).status_code == 200
    assert Client().get("/sign-in").status_code == 301


# Bodies


def test_a_body_that_does_not_parse_is_400(operator_key: Api):
    for body in (b"{", b"nonsense", b"\xff\xfe", b'{"a": 1} {"b": 2}', b"{'a': 1}", b"\x00"):
        answer = operator_key.client.post("/api/v1/agents", body, "application/json", headers=operator_key.headers)
        a_problem(answer, 400, "NOT_JSON")


def test_an_ambiguous_body_is_422(operator_key: Api):
    deep = b"[" * 100 + b"]" * 100
    for body in (b'{"a": 1, "a": 2}', b'{"a": 1.5}', b'{"a": 9007199254740992}', b'{"a": NaN}', b'"\\ud800"', deep):
        answer = operator_key.client.post("/api/v1/agents", body, "application/json", headers=operator_key.headers)
        a_problem(answer, 422, "NOT_CANONICAL")


def test_a_body_that_violates_the_schema_is_422_with_the_path(operator_key: Api):
    answer = operator_key.post("/agents", {"agent_id": "a/b", "version": 1, "tools": ["x", 7], "role": "root"})
    errors = {error["path"]: error["code"] for error in a_problem(answer, 422, "INVALID")["errors"]}
    assert errors.keys() == {"/agent_id", "/version", "/tools/1", "/role"}
    a_problem(
        operator_key.client.post("/api/v1/agents", b"", "application/json", headers=operator_key.headers),
        422,
        "INVALID",
    )


def test_a_body_over_one_mebibyte_is_413(shop: Workshop):
    session = shop.session()["session_id"]
    body = b'{"calls": ["' + b"x" * 1_048_576 + b'"]}'
    for path in (f"/sessions/{session}/calls", f"/sessions/{session}/close", "/sessions"):
        answer = shop.agent.client.post(f"/api/v1{path}", body, "application/json", headers=shop.agent.headers)
        a_problem(answer, 413, "TOO_LARGE")
    assert shop.agent.get(f"/sessions/{session}").json()["closed"] is False


def test_an_operation_that_the_state_does_not_allow_is_409(shop: Workshop):
    action_id = shop.propose()
    shop.agent.post(f"/actions/{action_id}/cancel")
    a_problem(shop.agent.post(f"/actions/{action_id}/cancel"), 409, "NOT_STARTABLE")
    a_problem(shop.operator_key.post(f"/actions/{action_id}/verify"), 409, "NOTHING_TO_VERIFY")


# Evidence


def test_evidence_is_a_text_or_a_file(shop: Workshop):
    action_id = shop.propose()
    picture = SimpleUploadedFile("folder.png", b"\x89PNG\x00\xff", content_type="image/png")
    answer = shop.operator.client.post("/api/v1/evidence", {"action_id": action_id, "file": picture})
    assert answer.status_code == 201, answer.content
    kept = in_tenant(shop, lambda: evidence.open_evidence(shop.tenant, UUID(answer.json()["pointer"])))
    assert kept == b"\x89PNG\x00\xff"
    for body in (
        {"action_id": action_id},
        {"action_id": "not an id", "text": "x"},
        {"action_id": action_id, "text": ""},
        {"action_id": action_id, "text": "x", "media_type": "text/html; charset=x"},
        {"action_id": action_id, "text": "x", "file": "y"},
    ):
        a_problem(shop.operator.post("/evidence", body), 422, "INVALID")
    a_problem(shop.operator.client.post("/api/v1/evidence", {"action_id": action_id}), 422, "INVALID")
    a_problem(shop.operator.post("/evidence", {"action_id": str(uuid4()), "text": "x"}), 404, "NOT_FOUND")
    large = SimpleUploadedFile("large.bin", b"x" * 1_048_576)
    a_problem(shop.operator.client.post("/api/v1/evidence", {"action_id": action_id, "file": large}), 413, "TOO_LARGE")


def test_an_unreadable_form_is_400_and_changes_nothing(shop: Workshop):
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\xff"):
        answer = shop.operator.client.post("/api/v1/evidence", b"--x\r\n", kind)
        assert a_problem(answer, 400, "UNREADABLE_FORM")["detail"] == "The form cannot be read; nothing was done."


def test_a_file_uploaded_from_a_page_needs_the_csrf_token_too(shop: Workshop):
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = shop.operator.client.cookies
    action_id = shop.propose()

    def send(**headers: str) -> Any:
        file = SimpleUploadedFile("note.txt", b"seen", content_type="text/plain")
        return strict.post("/api/v1/evidence", {"action_id": action_id, "file": file}, headers=headers)

    a_problem(send(), 403, "CSRF_FAILED")
    strict.get(f"/t/{shop.slug}/")
    assert send(**{"X-CSRFToken": strict.cookies["csrftoken"].value}).status_code == 201


def in_tenant(shop: Workshop, read: Any) -> Any:
    with tenancy(shop.tenant):
        return read()


# Faults of ours


def test_an_internal_error_reveals_nothing_and_changes_nothing(operator_key: Api, monkeypatch: pytest.MonkeyPatch):
    def broken(**_: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(registration, "place_freeze", broken)
    answer = operator_key.post("/freezes", {"scope": "all", "reason": "Wait."})
    a_problem(answer, 500, "FAULT")
    assert b"secret detail" not in answer.content


def test_an_unreachable_database_is_503(operator_key: Api, monkeypatch: pytest.MonkeyPatch):
    def away(**_: Any) -> Any:
        raise OperationalError("connection to server at 10.0.0.7 failed")

    monkeypatch.setattr(registration, "place_freeze", away)
    answer = operator_key.post("/freezes", {"scope": "all", "reason": "Wait."})
    a_problem(answer, 503, "UNAVAILABLE")
    assert b"10.0.0.7" not in answer.content


def test_two_concurrent_writes_of_the_same_thing_give_a_conflict(operator_key: Api, monkeypatch: pytest.MonkeyPatch):
    body = {"scope": "all", "reason": "Wait."}
    assert operator_key.release("recovery", {"version": "2", "document": {}}).status_code == 201

    def late(**told: Any) -> Any:
        raise IntegrityError from UniqueViolation()

    monkeypatch.setattr(registration, "place_freeze", late)
    a_problem(operator_key.post("/freezes", body), 409, "CONFLICT")


# Rubbish


NOTHING_STORABLE = (
    "\x00",
    "a\x00b",
    "\ud800",
    "\U0010ffff",
    "x" * 70_000,
    "",
    " ",
    "\u202e",
    "../../x",
    "%00",
    "'; --",
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**53, -(2**63), 10**400]),
    st.floats(allow_nan=True),
    st.text(max_size=20),
    st.sampled_from(NOTHING_STORABLE),
    st.uuids().map(str),
)
RUBBISH = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
FUZZED = settings(
    # Each of them is a dozen requests.
    max_examples=settings.default.max_examples // 3,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def is_answered(answer: Any) -> None:
    assert answer.status_code < 500, answer.content
    if answer.status_code >= 400:
        a_problem(answer, answer.status_code, answer.json()["code"])


def bodies(shop: Workshop) -> list[tuple[Api, str, dict[str, Any]]]:
    """A good body of each of the main writes."""
    order = shop.claimed()
    started = shop.started(path="policies/other.md")
    unwanted = shop.propose(path="policies/unwanted.md")
    shop.operator_key.post("/agents", {"agent_id": "temp", "version": "1", "tools": []})
    session = shop.session()
    call = {"call_id": "c", "tool": "delete_document", "arguments": {}, "pin_hash": session["pin"]["hash"]}
    executions = f"/actions/{started['action_id']}/executions/1"
    return [
        (shop.operator_key, "/agents", {"agent_id": "x", "version": "1", "tools": ["t"], "output_tags": []}),
        (shop.operator_key, "/agents/temp/revoke", {"reason": "x"}),
        (shop.operator_key, "/contracts", contract("write_document")),
        (shop.operator_key, "/policies/approval", {"version": "2", "document": {"require": []}}),
        (
            shop.operator_key,
            "/releases",
            {"kind": "verification", "version": "2", "document": {"lease_s": 60}, "reason": "r"},
        ),
        (shop.operator_key, "/systems", {"name": "x", "pattern": "databases", "settings": {}}),
        (shop.agent, "/sessions", {"agent_id": "librarian", "goal": "g", "ttl_seconds": 60, "intent": "", "tools": []}),
        (shop.agent, f"/sessions/{session['session_id']}/calls", {"calls": [call]}),
        (shop.agent, f"/sessions/{session['session_id']}/ask-check", {"goal": "g"}),
        (shop.executor, "/executors", {"executor_id": "x", "public_jwk": shop.key.public_jwk, "tools": []}),
        (shop.executor, "/executions/claim", {"executor_id": "runner", "tools": [], "limit": 1}),
        (
            shop.executor,
            f"/actions/{order['action_id']}/executions",
            {"grant": order["grant"], "executor_id": "runner", "wrapper_version": "1", "timeout_s": 9},
        ),
        (shop.executor, f"{executions}/heartbeat", {"executor_id": "runner"}),
        (shop.executor, f"{executions}/observations", {"result": result(), "sub_results": [], "raw": "r"}),
        (shop.operator, "/freezes", {"scope": "tool", "value": "v", "reason": "r"}),
        (shop.operator, "/evidence", {"action_id": order["action_id"], "text": "t"}),
        (shop.operator_key, f"/actions/{unwanted}/cancel", {"reason": "r"}),
    ]


def damaged(body: Any, data: st.DataObject) -> Any:
    """The body with rubbish somewhere in it, however deep."""
    if isinstance(body, dict) and body and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(body)))
        return body | {name: damaged(body[name], data)}
    if isinstance(body, list) and body and data.draw(st.booleans()):
        return [damaged(body[0], data), *body[1:]]
    return data.draw(RUBBISH)


@pytest.mark.hypothesis
@pytest.mark.req("R-MC-07", "R-MC-21")
def test_random_values_in_a_body_never_cause_an_internal_error(shop: Workshop):
    known = bodies(shop)

    @FUZZED
    @given(st.data())
    def never_a_fault(data: st.DataObject) -> None:
        for caller, path, body in known:
            text = json.dumps(damaged(body, data))
            answer = caller.client.post(f"/api/v1{path}", text, "application/json", headers=caller.headers)
            is_answered(answer)

    never_a_fault()


@pytest.mark.hypothesis
def test_a_random_body_is_refused(shop: Workshop):
    known = bodies(shop)

    @FUZZED
    @given(st.binary(max_size=40), st.sampled_from(known))
    def never_a_fault(body: bytes, write: tuple[Api, str, Any]) -> None:
        caller, path, _ = write
        for kind in (
            "application/json",
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
        ):
            is_answered(caller.client.post(f"/api/v1{path}", body, kind, headers=caller.headers))

    never_a_fault()


@pytest.mark.hypothesis
def test_a_random_address_is_refused(shop: Workshop):
    shop.propose()
    lists = ("/actions", "/agents", "/contracts", "/systems", "/reviews", "/freezes")
    names = ("limit", "cursor", "state", "q", "from", "to", "session", "class", "resolved", "tools")

    @FUZZED
    @given(
        st.sampled_from(lists),
        st.sampled_from(names),
        st.one_of(st.text(max_size=20), st.sampled_from(NOTHING_STORABLE)),
    )
    def never_a_fault(path: str, name: str, value: str) -> None:
        query = urlencode({name: value.encode("utf-8", "replace")})
        is_answered(shop.operator_key.get(f"{path}?{query}"))
        part = quote(value[:200].encode("utf-8", "replace"), safe="")
        for place in ("/agents/{}", "/contracts/{}/1", "/actions/{}", "/sessions/{}", "/reviews/{}/x"):
            is_answered(shop.operator_key.get(place.format(part)))

    never_a_fault()


def test_a_random_header_is_ignored_or_refused(shop: Workshop):
    order = shop.claimed()
    for value in ("", "x" * 4000, "\u00ff", "a.b.c", "..", "0" * 64, "00-zz-zz-00"):
        is_answered(shop.start(order, proof=value))
        is_answered(
            shop.operator.post(
                "/freezes", {"scope": "tool", "value": value, "reason": "r"}, **{"Idempotency-Key": value}
            )
        )
        is_answered(shop.operator.get("/actions", **{"X-Tenant": value}))
        is_answered(shop.agent.get("/actions", traceparent=value))
