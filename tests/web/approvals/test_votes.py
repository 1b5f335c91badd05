"""Votes over HTTP: who may decide, on what, until when, and what is kept of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from html import unescape
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from approvals.sessions import queries as sessions_queries
from approvals.voting.operations.votes import refused_vote
from approvals.voting.queries import votes as votes_queries
from approvals.voting.rules import binding
from console.edge.transaction import record_refusal
from console.models import Membership
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.people.rules.statements import statement_hash
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import RefusalRecord
from tests.support.api_tenant import DELETE, GOAL, Clock, Workshop, workshop


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.fixture
def approval(shop: Workshop) -> dict[str, Any]:
    return shop.approval_of(shop.propose())


def noted(shop: Workshop, approval: dict[str, Any]) -> list[tuple[str, str]]:
    """(kind of event, code) of everything on the approval's record."""
    with tenancy(shop.tenant):
        history = events.history(shop.tenant, UUID(approval["approval_id"]))
    return [(event.kind, (detail or {}).get("code", "")) for event, _, detail in history]


EVIDENCE = [
    {"statement": "The new policy replaced it on 1 March."},
    {"link": "https://wiki.example/policies", "id": "ticket/7"},
]


@pytest.mark.req("R-AP-04")
def test_a_reviewer_sees_the_whole_request_with_the_evidence_of_the_agent(shop: Workshop):
    """Payload, target, predicates, evidence, ask, class, reversibility; the evidence as the agent's own statement."""
    action_id = shop.call(evidence=EVIDENCE)["action_id"]
    approval = shop.approval_of(action_id)
    assert approval["agent_evidence"] == EVIDENCE
    page = unescape(shop.reviewer.client.get(f"/t/{shop.slug}/approvals/{approval['approval_id']}").content.decode())
    statement = page[page.index('data-part="claims"') :]
    statement = statement[: statement.index("</section>")]
    assert '<h2 id="claims">Agent\'s statement</h2><span class="note">unverified</span>' in statement
    assert "<dt>It states</dt><dd>The new policy replaced it on 1 March.</dd>" in statement
    # The link of an agent is text: the page leads nowhere that an agent wishes.
    assert "<dt>It refers to</dt><dd>https://wiki.example/policies</dd>" in statement
    assert "<dt>It names</dt><dd>ticket/7</dd>" in statement
    for shown in (
        DELETE["path"],
        "document/policies/returns.md",
        "sa.exists",
        GOAL,
        "Medium-risk write",
        "Irreversible",
    ):
        assert shown in page, shown


@pytest.mark.req("R-AP-04")
def test_a_vote_covers_the_shown_evidence_which_is_never_executed(shop: Workshop):
    made = shop.call(evidence=EVIDENCE)
    approval = shop.approval_of(made["action_id"])
    with tenancy(shop.tenant):
        pointer, commitment = evidence.first_evidence(shop.tenant, UUID(made["action_id"]), "agent_evidence") or (
            "",
            "",
        )
        assert parse(evidence.open_evidence(shop.tenant, UUID(str(pointer))) or b"") == EVIDENCE
        event, _, detail = events.history(shop.tenant, UUID(made["action_id"]))[0]
    assert approval["covers"]["evidence_commitment"] == commitment
    promised = parse(bytes(event.envelope))["commitments"]
    assert commitment in [each["digest"] for each in promised if each["purpose"] == "agent_evidence"]
    assert "The new policy replaced it" not in str(detail)
    assert shop.vote(approval).status_code == 201
    with tenancy(shop.tenant):
        vote = votes_queries.votes_of(shop.tenant, UUID(approval["approval_id"]))[0]
    assert binding.read_statement(bytes(vote.statement))[0].evidence_commitment == commitment
    (order,) = shop.claim()
    started = shop.start(order).json()
    assert started["payload"] == DELETE
    assert "The new policy replaced it" not in str(started)


def test_a_request_without_evidence_covers_none(shop: Workshop, approval: dict[str, Any]):
    assert (approval["agent_evidence"], approval["covers"]["evidence_commitment"]) == ([], "")


@pytest.mark.req("R-AP-04")
def test_malformed_evidence_refuses_only_its_own_call_and_names_the_expected_shape(shop: Workshop):
    session = shop.session()
    calls = [
        {"call_id": name, "tool": "delete_document", "arguments": DELETE | {"path": f"old/{name}.md"}, **more}
        for name, more in {"bad": {"evidence": [{"claim": "It is old."}]}, "good": {}}.items()
    ]
    sent = {"calls": [each | {"pin_hash": session["pin"]["hash"]} for each in calls]}
    bad, good = shop.agent.post(f"/sessions/{session['session_id']}/calls", sent).json()["results"]
    assert (bad["accepted"], bad["result"]["error"]["code"]) == (False, "UNPARSEABLE_ARGUMENTS")
    assert bad["result"]["error"]["message"].startswith("`evidence` is a list of at most 20 items, each with")
    assert good["accepted"] is True


@pytest.mark.req("R-PA-11")
def test_a_reviewer_sees_the_request_to_decide(shop: Workshop, approval: dict[str, Any]):
    assert approval["payload"] == DELETE
    assert approval["covers"]["target_resource"] == "document/policies/returns.md"
    assert approval["covers"]["side_effect_class"] == "MEDIUM_RISK_WRITE"
    assert approval["covers"]["reversibility"] == "IRREVERSIBLE"
    assert approval["may_vote"] is True
    page = shop.reviewer.client.get(f"/t/{shop.slug}/approvals/{approval['approval_id']}")
    assert GOAL in page.content.decode()


@pytest.mark.req("R-AP-13", "R-AP-19", "R-RI-01")
def test_an_approved_action_is_ready_and_has_not_run(shop: Workshop, approval: dict[str, Any]):
    assert shop.vote(approval).status_code == 201
    action_id = approval["action_id"]
    assert shop.state(action_id) == "VALIDATED"
    assert shop.report(action_id)["code"] == "NOT_EXECUTED"
    block = shop.history(action_id)[-1]["entry"]["approval"]
    assert block["approval_id"] == approval["approval_id"]
    assert block["payload_hash"] == approval["payload_hash"]
    assert block["approver_id"]
    assert block["expires_at"]


def test_the_signed_statement_contains_what_was_shown_and_the_voter(shop: Workshop, approval: dict[str, Any]):
    told = shop.vote(approval).json()
    with tenancy(shop.tenant):
        vote = votes_queries.votes_of(shop.tenant, UUID(approval["approval_id"]))[0]
    covers, said = binding.read_statement(bytes(vote.statement))
    assert covers.payload_hash == approval["payload_hash"]
    assert covers.action_id == approval["action_id"]
    assert (said.verdict, said.evidence_class, said.voter) == (binding.VoteChoice.APPROVE, "C", str(vote.voter))
    assert statement_hash(bytes(vote.statement)) == told["statement_hash"]


@pytest.mark.req("R-AP-10")
@pytest.mark.parametrize("verdict", ["reject", "request_changes"])
def test_a_rejection_ends_the_action_without_execution(shop: Workshop, approval: dict[str, Any], verdict: str):
    assert shop.vote(approval, verdict=verdict, reason="The policy is still in force.").status_code == 201
    action_id = approval["action_id"]
    assert shop.path(action_id) == ["PROPOSED", "VALIDATED", "FAILED"]
    assert shop.history(action_id)[-1]["detail"]["reason"] == "The policy is still in force."
    assert shop.report(action_id)["code"] == "NOT_EXECUTED"
    assert shop.claim() == []


@pytest.mark.req("R-UI-03")
def test_a_rejection_requires_a_reason(shop: Workshop, approval: dict[str, Any]):
    assert refused(shop.vote(approval, verdict="reject", reason=" ")) == (422, "REASON_REQUIRED")
    assert shop.state(approval["action_id"]) == "VALIDATED"


@pytest.mark.req("R-AP-11")
def test_no_key_can_vote(shop: Workshop, approval: dict[str, Any]):
    for key in (shop.agent, shop.executor, shop.operator_key, shop.auditor):
        assert refused(shop.vote(approval, by=key)) == (403, "FORBIDDEN")


@pytest.mark.req("R-AP-11", "R-CX-09")
def test_only_reviewers_can_vote(shop: Workshop, approval: dict[str, Any]):
    for role in ("operator", "compliance", "administrator"):
        person = shop.person(role, name=f"{role}-only@orchid")
        assert refused(shop.vote(approval, by=person)) == (403, "NOT_ELIGIBLE"), role
        assert noted(shop, approval)[-1] == ("vote_refused", "NOT_ELIGIBLE")


@pytest.mark.req("R-AP-12")
def test_nobody_can_decide_on_their_own_request(shop: Workshop, approval: dict[str, Any]):
    # The person who stands behind the session's key also reviews.
    with tenancy(shop.tenant):
        action = actions.action(shop.tenant, UUID(approval["action_id"]))
        assert action is not None
        session = sessions_queries.session(shop.tenant, action.session_id)
    assert session is not None
    Membership.objects.filter(tenant_id=shop.tenant, is_reviewer=True).update(actor_id=session.key_actor)
    assert refused(shop.vote(approval)) == (403, "SELF_APPROVAL")
    assert noted(shop, approval)[-1] == ("vote_refused", "SELF_APPROVAL")


def test_a_vote_requires_the_password_of_the_voter(shop: Workshop, approval: dict[str, Any]):
    for password in ("wrong", "", None):
        assert refused(shop.vote(approval, password=password)) == (403, "STEP_UP_REQUIRED")
        assert noted(shop, approval)[-1] == ("vote_refused", "STEP_UP_REQUIRED")


def test_wrong_passwords_lock_the_vote_like_the_sign_in(shop: Workshop, approval: dict[str, Any], settings: Any):
    settings.AXES_FAILURE_LIMIT = 3
    for _ in range(3):
        shop.vote(approval, password="wrong")
    locked = shop.vote(approval)
    assert refused(locked) == (429, "LOCKED_OUT")
    assert locked["Retry-After"] == "900"


@pytest.mark.req("R-AP-05")
def test_a_vote_on_another_payload_is_refused(shop: Workshop, approval: dict[str, Any]):
    assert refused(shop.vote(approval, payload_hash="0" * 64)) == (409, "PAYLOAD_CHANGED")
    assert refused(shop.vote(approval, rendering_digest="0" * 64)) == (409, "RENDERING_CHANGED")
    assert shop.approval_of(approval["action_id"])["state"] == "REQUESTED"


def test_a_crash_before_a_refused_vote_is_recorded_leaves_nothing_and_a_repeat_records_it(
    shop: Workshop, approval: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    def die(*_: Any) -> None:
        raise SystemExit("killed after the rollback")

    before = noted(shop, approval)
    with monkeypatch.context() as dying:
        dying.setattr("console.edge.transaction.write_refusal_records", die)
        with pytest.raises(SystemExit):
            shop.vote(approval, payload_hash="0" * 64)
    assert noted(shop, approval) == before
    assert refused(shop.vote(approval, payload_hash="0" * 64)) == (409, "PAYLOAD_CHANGED")
    assert noted(shop, approval) == [*before, ("vote_refused", "PAYLOAD_CHANGED")]


def test_the_records_of_a_refusal_are_rolled_back_together(shop: Workshop, approval: dict[str, Any]):
    class NobodysRecord(RefusalRecord):
        """No operation writes this one."""

    before, at = noted(shop, approval), datetime.now(UTC)
    event = refused_vote(UUID(approval["approval_id"]), uuid4(), "PAYLOAD_CHANGED", at=at)
    with pytest.raises(AssertionError, match="nothing writes a NobodysRecord"):
        record_refusal(shop.tenant, [event, NobodysRecord(at=at)])
    assert noted(shop, approval) == before


@pytest.mark.req("R-AP-17")
def test_a_decided_request_cannot_be_decided_again(shop: Workshop, approval: dict[str, Any]):
    assert shop.vote(approval).status_code == 201
    other = shop.person("reviewer", name="second@orchid")
    assert refused(shop.vote(approval, by=other, verdict="reject")) == (409, "ALREADY_DECIDED")
    assert refused(shop.vote(approval)) == (409, "ALREADY_DECIDED")


@pytest.mark.req("R-AP-08")
def test_a_request_expires_at_its_deadline(shop: Workshop, clock: Clock):
    policy = {"version": "2", "document": {"decide_within_s": 60}}
    assert shop.operator_key.release("approval", policy).status_code == 201
    approval = shop.approval_of(shop.propose())
    clock.forward(seconds=60)
    assert refused(shop.vote(approval)) == (409, "APPROVAL_LAPSED")


@pytest.mark.req("R-AP-23")
def test_a_frozen_action_can_be_rejected_but_not_approved(shop: Workshop, approval: dict[str, Any]):
    stops = {
        "target": "document/policies/returns.md",
        "tool": "delete_document",
        "agent": "librarian",
        "tenant": "",
        "all": "",
    }
    for scope, value in stops.items():
        freeze = shop.operator.post("/freezes", {"scope": scope, "value": value, "reason": "Wait."}).json()
        assert refused(shop.vote(approval)) == (409, "TARGET_FROZEN"), scope
        shop.operator.post(f"/freezes/{freeze['freeze_id']}/lift", {"reason": "It may go on."})
    shop.operator.post("/freezes", {"scope": "all", "reason": "Wait."})
    assert shop.vote(approval, verdict="reject").status_code == 201


@pytest.mark.req("R-AP-16")
def test_a_vote_cannot_replace_the_payload(shop: Workshop, approval: dict[str, Any]):
    assert refused(shop.vote(approval, payload=DELETE | {"path": "policies/all.md"})) == (422, "INVALID")


@pytest.mark.req("R-AP-17")
def test_a_vote_forged_in_the_table_is_shown_as_an_alarm(committed_db: Any, superuser_connection: Any):
    shop = workshop("orchid").set_up()
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    assert shop.vote(approval).status_code == 201
    path = f"/approvals/{approval['approval_id']}"
    assert shop.reviewer.get(path).json()["votes_differ"] == ""

    superuser_connection.execute("ALTER TABLE approvals_vote DISABLE TRIGGER USER")
    superuser_connection.execute("UPDATE approvals_vote SET verdict = 'reject'")

    says = "its row in approvals.Vote has another verdict than its events say."
    assert shop.reviewer.get(path).json()["votes_differ"] == says
    page = shop.reviewer.client.get(f"/t/orchid{path}").content.decode()
    assert "The votes are not as the record has them." in page
    assert "Contact compliance immediately." in page


def test_one_of_two_concurrent_votes_decides(committed_db: Any):
    shop = workshop("orchid").set_up()
    approval = shop.approval_of(shop.propose())
    other = shop.person("reviewer", name="second@orchid")
    ready = Barrier(2)

    def cast(by: Any, verdict: str) -> int:
        try:
            ready.wait(10)
            return int(shop.vote(approval, by=by, verdict=verdict).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        votes = [threads.submit(cast, shop.reviewer, "approve"), threads.submit(cast, other, "reject")]
    assert sorted(vote.result() for vote in votes) == [201, 409]
    with tenancy(shop.tenant):
        assert len(votes_queries.votes_of(shop.tenant, UUID(approval["approval_id"]))) == 1
