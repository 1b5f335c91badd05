"""The registry over HTTP: agents, contracts, policies and systems; and how lists are paged."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.utils import timezone

from approvals.models import Agent, Call
from console.contracts.contract_check import validate_contract
from ledger.catalogue.rules.contract import BadContract
from ledger.db import tenancy
from ledger.record.queries import events
from tests.support import settling
from tests.support.api_tenant import DELETE, GOAL, TOOLS, Clock, Workshop, contract, workshop
from tests.support.callers import Api

AGENT = {"agent_id": "clerk", "version": "1", "tools": ["delete_document"], "output_tags": ["letters"]}


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def walked(api: Api, path: str, limit: int) -> list[dict[str, Any]]:
    """Every item of a list, read in pages."""
    sign = "&" if "?" in path else "?"
    items: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = api.get(f"{path}{sign}limit={limit}{cursor}").json()
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = f"&cursor={page['next']}"


# Agents


@pytest.mark.req("R-CR-01")
def test_a_registration_is_read_back(operator_key: Api):
    made = operator_key.post("/agents", AGENT | {"model_tier": "large", "registered_by": "Ada"})
    assert made.status_code == 201
    agent = operator_key.get("/agents/clerk").json()
    version = agent["versions"][0]
    assert version["tools"] == ["delete_document"]
    assert version["output_tags"] == ["letters"]
    assert version["registered_by"] == "Ada"
    assert version["registered_at"] == made.json()["registered_at"]
    assert len(version["fingerprint"]) == 64


@pytest.mark.req("R-CR-02")
def test_only_operators_register_and_revoke(shop: Workshop):
    people = [shop.reviewer, shop.person("compliance", name="comply@orchid")]
    for caller in (shop.agent, shop.executor, shop.auditor, *people):
        assert refused(caller.post("/agents", AGENT)) == (403, "FORBIDDEN")
        assert refused(caller.post("/agents/librarian/revoke", {"reason": "x"})) == (403, "FORBIDDEN")
        assert refused(caller.post("/contracts", contract("write_document"))) == (403, "FORBIDDEN")
        assert refused(caller.post("/policies/approval", {"version": "9", "document": {}})) == (403, "FORBIDDEN")
        assert refused(caller.release("approval", {"version": "9", "document": {}})) == (403, "FORBIDDEN")
        assert refused(caller.post("/systems", {"name": "x", "pattern": "databases"})) == (403, "FORBIDDEN")
    assert refused(shop.operator.get("/agents/clerk")) == (404, "NOT_FOUND")


@pytest.mark.req("R-CR-13")
def test_a_new_version_is_beside_the_old_one(shop: Workshop):
    session = shop.session()
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    versions = shop.operator_key.get("/agents/librarian").json()["versions"]
    assert {each["version"] for each in versions} == {"1", "2"}
    assert shop.agent.get(f"/sessions/{session['session_id']}").json()["contract"]["registry_version"] == "1"
    assert shop.session()["contract"]["sub_tools_disclosed"] == ["write_document"]


def test_a_version_never_changes_what_it_may_do(operator_key: Api):
    operator_key.post("/agents", AGENT)
    assert operator_key.post("/agents", AGENT).status_code == 201
    assert refused(operator_key.post("/agents", AGENT | {"tools": []})) == (409, "VERSION_IMMUTABLE")


@pytest.mark.req("R-CR-07", "R-CR-08")
def test_a_revoked_agent_gets_the_same_refusal_as_an_unknown_one(shop: Workshop):
    body = {"agent_id": "librarian", "goal": GOAL, "ttl_seconds": 60}
    unknown = shop.agent.post("/sessions", body | {"agent_id": "nobody"})
    shop.operator_key.post("/agents/librarian/revoke", {"reason": "It is retired."})
    revoked = shop.agent.post("/sessions", body)
    assert refused(revoked) == refused(unknown) == (403, "AGENT_NOT_REGISTERED")
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": list(TOOLS)})
    assert shop.agent.post("/sessions", body).status_code == 201


@pytest.mark.req("R-CR-05")
def test_a_registration_altered_at_rest_is_refused_and_recorded(
    committed_db: Any, superuser_connection: psycopg.Connection
):
    shop = workshop("orchid").set_up()
    body = {"agent_id": "librarian", "goal": GOAL, "ttl_seconds": 60}
    session = shop.session()
    with superuser_connection.transaction():
        superuser_connection.execute("ALTER TABLE approvals_agentversion DISABLE TRIGGER ALL")
        altered = superuser_connection.execute(
            "UPDATE approvals_agentversion SET tools = tools || '[\"everything\"]' WHERE agent_id = 'librarian'"
        )
        assert altered.rowcount == 1
    assert refused(shop.agent.post("/sessions", body)) == (403, "REGISTRY_FINGERPRINT_MISMATCH")
    with tenancy(shop.tenant):
        event, _, detail = events.history(shop.tenant, Agent.objects.get(agent_id="librarian").id)[-1]
    assert (event.kind, event.actor_kind) == ("registration_altered", "system")
    assert detail == {
        "security": True,
        "code": "REGISTRY_FINGERPRINT_MISMATCH",
        "agent_id": "librarian",
        "version": "1",
    }
    # The session that was open before gets nothing through either.
    call = {"call_id": "c", "tool": "delete_document", "arguments": DELETE, "pin_hash": session["pin"]["hash"]}
    answer = shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
    assert (answer["accepted"], answer["errors"][0]["code"]) == (False, "REGISTRY_FINGERPRINT_MISMATCH")


@pytest.mark.req("R-CR-06")
def test_a_handshake_may_require_a_fresh_registration(shop: Workshop, clock: Clock):
    body = {"agent_id": "librarian", "goal": GOAL, "ttl_seconds": 60}
    version = {"agent_id": "librarian", "version": "2", "tools": list(TOOLS)}
    assert shop.operator_key.post("/agents", version).status_code == 201
    clock.forward(seconds=30)
    assert refused(shop.agent.post("/sessions", body | {"max_registry_age_s": 20})) == (409, "REGISTRY_ENTRY_STALE")
    assert shop.agent.post("/sessions", body | {"max_registry_age_s": 600}).status_code == 201


@pytest.mark.req("R-CR-03", "R-CR-10", "R-CR-11")
def test_abilities_that_an_agent_claims_are_refused(shop: Workshop):
    body = {"agent_id": "librarian", "goal": GOAL, "ttl_seconds": 60}
    wished = shop.agent.post("/sessions", body | {"tools": ["delete_document", "everything"]})
    assert refused(wished) == (403, "CAPABILITY_NOT_REGISTERED")
    assert wished.json()["errors"][0]["path"] == "/tools"
    tagged = shop.agent.post("/sessions", body | {"output_tags": ["contracts"]})
    assert refused(tagged) == (403, "CAPABILITY_NOT_REGISTERED")
    assert refused(shop.agent.post("/sessions", body | {"role": "administrator"})) == (422, "INVALID")


@pytest.mark.req("R-CR-10")
def test_an_output_with_a_tag_that_was_not_negotiated_is_refused_and_on_record(shop: Workshop):
    tags = {"tools": ["write_document"], "output_tags": ["summary", "legal"]}
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2"} | tags)
    session = shop.session(output_tags=["summary"])
    assert session["contract"]["output_tags"] == ["summary"]
    path = f"/sessions/{session['session_id']}/guard"
    said = {"message": "Here is the summary."}
    assert shop.agent.post(path, said | {"output_tags": ["summary"]}).status_code == 200
    answer = shop.agent.post(path, said | {"output_tags": ["summary", "legal"]})
    assert refused(answer) == (403, "OUTPUT_TAG_NOT_NEGOTIATED")
    assert answer.json()["detail"] == "This session has not negotiated the output tag legal."
    with tenancy(shop.tenant):
        history = events.history(shop.tenant, UUID(session["session_id"]))
    assert [(each.kind, detail) for each, _, detail in history if each.kind == "output_tag_refused"] == [
        ("output_tag_refused", {"tags": ["legal"]})
    ]
    assert len(shop.agent.get(path).json()["items"]) == 1
    everything = shop.session()
    assert everything["contract"]["output_tags"] == ["summary", "legal"]


@pytest.mark.req("R-TG-05", "R-TG-06")
def test_an_agents_record_at_the_gate_is_shown(shop: Workshop):
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    shop.call("write_document", {"path": "a/b.md", "text": "x", "sha256": "0" * 64})
    for _ in range(2):
        shop.call("delete_document")
    shop.call("delete_documents")
    agent = shop.operator_key.get("/agents/librarian").json()
    assert (agent["calls"], agent["acceptance_rate"], agent["phantom_share"]) == (4, 0.25, 0.25)
    tried = [each["tool"] for each in agent["attempted_undisclosed"]]
    assert tried == ["delete_document", "delete_document", "delete_documents"]
    [day] = agent["over_time"]
    assert (day["calls"], day["acceptance_rate"], day["phantom_share"]) == (4, 0.25, 0.25)
    assert (day["valid"], day["valid_execution_failed"], day["argument_hallucination"]) == (0.25, 0.0, 0.0)
    [listed] = shop.operator_key.get("/agents").json()["items"]
    assert (listed["calls"], listed["acceptance_rate"]) == (4, 0.25)


@pytest.mark.req("R-TG-05", "R-TG-06")
def test_a_session_shows_its_acceptance_figures(shop: Workshop):
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    session = shop.session()["session_id"]
    calls = [{"call_id": str(n), "tool": "delete_document", "arguments": {}} for n in range(3)]
    shop.agent.post(f"/sessions/{session}/calls", {"calls": calls})
    told = shop.agent.get(f"/sessions/{session}").json()
    assert (told["attempted_undisclosed"], told["acceptance_rate"], told["phantom_share"]) == (3, 0.0, 0.0)


def test_an_agent_without_calls_has_no_rate(operator_key: Api):
    operator_key.post("/agents", AGENT)
    agent = operator_key.get("/agents/clerk").json()
    assert (agent["calls"], agent["acceptance_rate"], agent["phantom_share"]) == (0, None, None)


def test_figures_older_than_the_period_are_omitted(shop: Workshop, clock: Clock):
    shop.call("delete_documents")
    clock.forward(days=31)
    assert shop.operator_key.get("/agents/librarian").json()["calls"] == 0


@pytest.mark.req("R-CR-15")
def test_registrations_and_revocations_are_events_with_actor_time_and_reason(shop: Workshop):
    shop.operator_key.post("/agents/librarian/revoke", {"reason": "It is retired."})
    with tenancy(shop.tenant):
        agent = Agent.objects.get(agent_id="librarian")
        told = [(event.kind, event.actor_kind, detail) for event, _, detail in events.history(shop.tenant, agent.id)]
    assert {(kind, actor) for kind, actor, _ in told} == {
        ("agent_registered", "operator"),
        ("agent_revoked", "operator"),
    }
    assert told[0][2]["version"] == "1"
    assert told[1][2]["reason"] == "It is retired."


@pytest.mark.req("R-MC-16")
def test_each_call_records_the_number_of_tools_and_the_model_tier(shop: Workshop):
    body = {"agent_id": "librarian", "version": "2", "tools": ["write_document"], "model_tier": "small"}
    shop.operator_key.post("/agents", body)
    shop.call("delete_document")
    with tenancy(shop.tenant):
        assert [(call.disclosed, call.model_tier) for call in Call.objects.all()] == [(1, "small")]


@pytest.mark.req("R-MC-20")
def test_a_registration_gets_lint_findings(operator_key: Api):
    tools = [f"tool_{number}" for number in range(40)]
    lint = operator_key.post("/agents", AGENT | {"tools": tools}).json()["lint"]
    assert {"NO_CONTRACT", "TOO_MANY_TOOLS"} <= {each["code"] for each in lint}
    assert {"path", "code", "detail"} == lint[0].keys()


@pytest.mark.req("R-MC-20")
def test_a_session_on_a_large_registry_gets_the_tools_nearest_to_its_intent(shop: Workshop):
    names = [f"tidy_shelf_{number}" for number in range(40)]
    for name in names:
        shop.operator_key.post("/contracts", contract("write_document") | {"name": name})
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "9", "tools": [*names, *TOOLS]})
    told = shop.session()["contract"]
    wished = {"agent_id": "librarian", "goal": GOAL, "ttl_seconds": 60, "intent": "delete a document for good"}
    near = shop.agent.post("/sessions", wished).json()["contract"]
    assert len(near["tools"]) == 30
    assert near["withheld"]["count"] == len(names) + len(TOOLS) - 30
    assert "30 of 4" in near["withheld"]["why"]
    assert "delete_document" in near["sub_tools_disclosed"]
    assert told["withheld"]["count"] == near["withheld"]["count"]


# Contracts


@pytest.mark.req("R-TC-18")
def test_a_contract_version_never_changes(operator_key: Api):
    operator_key.post("/systems", {"name": "documents", "pattern": "filesystems"})
    document = contract("write_document")
    first = operator_key.post("/contracts", document)
    assert first.status_code == 201
    assert operator_key.post("/contracts", document).json() == first.json()
    changed = document | {"description": "Write anything. Use when: always. NOT for: nothing."}
    assert refused(operator_key.post("/contracts", changed)) == (409, "VERSION_IMMUTABLE")
    shown = operator_key.get("/contracts/write_document/1.0.0").json()
    assert shown["document"]["description"] == document["description"]


@pytest.mark.req("R-TC-02", "R-TC-07")
def test_an_invalid_contract_is_refused_with_every_fault(operator_key: Api):
    document = contract("delete_document")
    for changes in (
        {"side_effect_class": "HARMLESS"},
        {"side_effect_class": "CRITICAL_MUTATION", "verification": None},
        {"verification": document["verification"] | {"predicates": ["sa.nothing == 1"]}},
        {"verification": document["verification"] | {"predicates": ["sa.exists =="]}},
        {"arguments_schema": {"type": "nonsense"}},
        {"unknown": True},
    ):
        answer = operator_key.post("/contracts", {k: v for k, v in (document | changes).items() if v is not None})
        assert answer.status_code == 422, changes
        assert answer.json()["errors"], changes


@pytest.mark.req("R-MC-17", "R-MC-18")
def test_a_contract_gets_lint_findings(operator_key: Api):
    document = contract("write_document") | {"name": "manage_document", "description": "Manages documents."}
    lint = operator_key.post("/contracts", document).json()["lint"]
    assert {"path", "code", "detail"} == lint[0].keys()
    assert len(lint) >= 2


# Policies


def test_a_policy_in_force_is_superseded_and_named(operator_key: Api):
    refusal = operator_key.post("/policies/approval", {"version": "2", "document": {"decide_within_s": 60}})
    assert refused(refusal) == (409, "RELEASE_REQUIRED")
    made = operator_key.release("approval", {"version": "2", "document": {"decide_within_s": 60}}).json()
    active = operator_key.get("/policies").json()
    assert active["approval"]["version"] == "2"
    assert active["approval"]["digest"] == made["digest"]
    assert active["approval"]["document"] == {"version": "2", "decide_within_s": 60}
    assert active.keys() == {"autonomy", "approval", "verification", "recovery"}


def test_a_policy_version_is_used_once(operator_key: Api):
    body = {"version": "2", "document": {"decide_within_s": 60}}
    assert operator_key.release("approval", body).status_code == 201
    again = operator_key.release("approval", {"version": "2", "document": {"decide_within_s": 90}})
    assert refused(again) == (409, "VERSION_IMMUTABLE")
    same = {"version": "2", "document": {"decide_within_s": 60}}
    assert operator_key.post("/policies/approval", same).status_code == 201, "the version in force, sent again"
    assert operator_key.get("/policies").json()["approval"]["document"]["decide_within_s"] == 60


def test_an_unusable_policy_is_refused(operator_key: Api):
    for kind, document in (
        ("approval", {"decide_within": 60}),
        ("approval", {"grant_life_s": 10_000}),
        ("verification", {"lease_s": "soon"}),
        ("verification", {"leases": 60}),
        ("recovery", {"table": "mine"}),
        ("autonomy", {"boundary": "everything"}),
    ):
        answer = operator_key.post(f"/policies/{kind}", {"version": "2", "document": document})
        assert refused(answer) == (422, "BAD_POLICY"), document
    assert refused(operator_key.post("/policies/anything", {"version": "2", "document": {}})) == (404, "NOT_FOUND")


def test_the_lease_has_the_length_of_the_policy(shop: Workshop, clock: Clock):
    clock.stop()
    shop.operator_key.release("verification", {"version": "2", "document": {"lease_s": 7}})
    told = shop.started()["lease_expires_at"]
    assert told.startswith((clock.now() + timezone.timedelta(seconds=7)).isoformat()[:19])


# Systems


def test_a_system_is_registered_once_and_may_be_changed(operator_key: Api):
    system = {"name": "documents", "pattern": "filesystems", "settings": {"root": "/srv/documents"}}
    assert operator_key.post("/systems", system).status_code == 201
    slower = system | {"settings": {"root": "/srv/documents", "limits": {"incident_after_s": 60}}}
    assert operator_key.post("/systems", slower).status_code == 201
    [shown] = operator_key.get("/systems").json()["items"]
    assert {name: shown[name] for name in slower} == slower


def test_a_system_without_a_check_is_refused(operator_key: Api):
    answer = operator_key.post("/systems", {"name": "crystal", "pattern": "crystal_balls"})
    assert refused(answer) == (422, "NO_CHECK")


def test_the_name_of_a_system_cannot_contain_a_path(operator_key: Api):
    for name in ("../../django_secret", "a/b", ".hidden", "", "x" * 65):
        answer = operator_key.post("/systems", {"name": name, "pattern": "filesystems"})
        assert refused(answer) == (422, "INVALID"), name


# Lists


def test_every_list_is_read_in_pages_of_any_size(shop: Workshop):
    for number in range(5):
        shop.operator_key.post("/agents", AGENT | {"agent_id": f"clerk-{number}"})
        shop.operator_key.post("/systems", {"name": f"system-{number}", "pattern": "databases"})
        shop.operator_key.post("/contracts", contract("write_document") | {"version": f"1.0.{number + 1}"})
        frozen = {"scope": "target", "value": f"t/{number}", "reason": "Wait.", "unknown_ok": True}
        shop.operator.post("/freezes", frozen)
        shop.propose(path=f"policies/{number}.md")
    keys = {
        "/agents": "agent_id",
        "/contracts": "digest",
        "/systems": "name",
        "/freezes": "freeze_id",
        "/actions": "action_id",
        "/executions/ready?tools=delete_document": "action_id",
        "/approvals": "approval_id",
    }
    readers = {"/executions/ready?tools=delete_document": shop.executor, "/approvals": shop.reviewer}
    for path, name in keys.items():
        reader = readers.get(path, shop.operator_key)
        whole = [item[name] for item in walked(reader, path, 500)]
        assert len(whole) == len(set(whole)) >= 5, path
        for limit in (1, 2, 3):
            assert [item[name] for item in walked(reader, path, limit)] == whole, path


def test_cases_are_paged_by_urgency(shop: Workshop, clock: Clock):
    cases = []
    for number in range(4):
        order = shop.claimed(path=f"policies/{number}.md")
        shop.start(order, payload_hash="0" * 64)
        cases.append(shop.case_of(order["action_id"]))
        clock.forward(seconds=1)
    open_ones = [case["case_id"] for case in cases if case]
    assert [case["case_id"] for case in walked(shop.operator, "/reviews", 1)] == open_ones
    word = {"resolution": "FAIL", "reason": "Nothing ran.", "evidence": ["The attempt was refused."]}
    for case_id in open_ones:
        assert settling.settle(shop.operator, case_id, **word).status_code == 200
        clock.forward(seconds=1)
    settled = [case["case_id"] for case in walked(shop.operator, "/reviews?resolved=true", 1)]
    assert settled == open_ones[::-1]


def test_an_invalid_cursor_is_refused_or_gives_an_empty_page(shop: Workshop):
    shop.propose()
    assert refused(shop.operator_key.get("/actions?cursor=zero")) == (422, "BAD_CURSOR")
    for path, reader in {"/approvals": shop.reviewer, "/reviews": shop.operator, "/agents": shop.operator}.items():
        assert reader.get(f"{path}?cursor={uuid4()}").json() == {"items": [], "next": None}
    assert refused(shop.operator_key.get("/actions?limit=501")) == (422, "INVALID")


def test_actions_can_be_filtered_by_their_fields(shop: Workshop, clock: Clock):
    wanted = shop.propose(path="policies/wanted.md")
    session = shop.operator_key.get(f"/actions/{wanted}").json()["session_id"]
    clock.forward(seconds=60)
    moment = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    clock.forward(seconds=60)
    other = shop.propose("write_document")
    shop.agent.post(f"/actions/{other}/cancel")

    def found(query: str) -> list[str]:
        return [item["action_id"] for item in shop.operator_key.get(f"/actions?{query}").json()["items"]]

    assert found("tool=delete_document") == [wanted]
    assert found("state=FAILED") == [other]
    assert found(f"session={session}") == [wanted]
    assert found("target=document/policies/wanted.md") == [wanted]
    assert found("q=wanted") == [wanted]
    assert found("class=EPHEMERAL_WRITE") == [other]
    assert found(f"to={moment}") == [wanted]
    assert found(f"from={moment}") == [other]
    assert found("agent=nobody") == []
    assert refused(shop.operator_key.get("/actions?from=2026-01-01T00:00:00")) == (422, "INVALID")


# Contracts and the systems that they are read in


def unregistered(findings):
    return [each for each in findings if each["code"] == "UNREGISTERED_SYSTEM"]


def test_a_contract_that_names_an_unregistered_system_gets_a_finding_until_it_is_registered(
    operator_key: Api, founded: UUID
):
    from console.management.commands import lint_contract

    document = contract("write_document")
    system = document["verification"]["system"]
    [said] = unregistered(operator_key.post("/contracts", document).json()["lint"])
    assert said["path"] == "/verification/system"
    assert said["detail"].startswith(f"No system `{system}` is registered, so nothing that this tool does can be read")
    [read] = unregistered(operator_key.get(f"/contracts/{document['name']}/{document['version']}").json()["lint"])
    assert read == said
    checked = lint_contract._findings(lint_contract.contract_check.validate_contract(document), founded)
    assert [each.told for each in checked if each.code == "UNREGISTERED_SYSTEM"] == [said["detail"]]

    operator_key.post("/systems", {"name": system, "pattern": "filesystems"})
    listed = operator_key.get("/contracts").json()["items"]
    assert [unregistered(each["lint"]) for each in listed] == [[]]


@pytest.mark.parametrize("odd", ["\0", "9999-12-31T23:59:59Z", 2**53 - 1, None, ["\0"], {"\0": "x"}, [[]]])
def test_any_faulty_lookup_is_refused_with_its_fault(odd: Any):
    document = contract("issue_refund")
    for place in (("target",), ("target", "fields"), ("target", "where"), ("effects",), ("effects", "refund")):
        copy = json.loads(json.dumps(document))
        part = copy["verification"]["lookup"]
        for name in place[:-1]:
            part = part[name]
        part[place[-1]] = odd
        with pytest.raises(BadContract):
            validate_contract(copy)
