"""Grants at the console: bound to everything, good once, minted for what is sealed, and every refusal on record.

There are no standing grants: `uses` is 1 in every one (B15).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.db import DatabaseError
from django.utils import timezone

from approvals.execution.operations import grant_keys
from approvals.execution.rules import grants, jws
from approvals.models import Approval, Session
from approvals.requests.queries import approvals
from approvals.tasks import lapse
from approvals.voting.queries import votes as votes_queries
from counterfoil.execution.grants import GrantHolder, GrantRefused, KeySet, verify_grant
from counterfoil.execution.sealed import LogPolicy, check_votes
from counterfoil.proof import read_claims
from counterfoil_tlog import notes
from ledger.db import execute, tenancy
from ledger.log.operations import sequencer
from ledger.log.queries import log, proofs
from ledger.management.commands.sequencer import Sequencer
from ledger.models import Tenant
from tests.support.api_tenant import Clock, Workshop, new_key, workshop
from tests.support.callers import key_for
from tests.support.seals import as_sequencer, seal_up, signer


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def signed(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Anything at all, under the key that signs now: what somebody who stole it can make."""
    return jws.write_token(header=header, claims=claims, sign=grant_keys.signing_key(timezone.now()).sign)


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims, _ = token.split(".")
    return json.loads(jws.decode(header)), json.loads(jws.decode(claims))


def altered(order: dict[str, Any], **changes: Any) -> dict[str, Any]:
    header, claims = parts(order["grant"])
    return order | {"grant": signed(header, claims | changes)}


def stored(shop: Workshop, order: dict[str, Any]) -> dict[str, Any]:
    """Make the database believe that this very token is the one that it minted."""
    with tenancy(shop.tenant):
        execute(
            "UPDATE approvals_grant SET token_hash = $2 WHERE tenant_id = $1 AND action_id = $3",
            *(shop.tenant, grants.token_hash(order["grant"]), UUID(order["action_id"])),
        )
    return order


def started_on_record(shop: Workshop, action_id: str) -> list[str]:
    """Each refused start that the action's record names, by its code."""
    return [each["detail"]["code"] for each in shop.history(action_id) if each["event"] == "start_refused"]


# What is bound


BOUND = {
    "environment": "staging",
    "epoch": 7,
    "revision": 2,
    "attempt": 2,
    "payload": {"hash": "44" * 32, "length": 10},
    "tool": {"name": "write_document", "version": "1.0.0", "contract": "44" * 32},
    "target": {"resource": "document/other.md", "precondition": ""},
    "effect": {"class": "READ_ONLY", "reversibility": "REVERSIBLE"},
    "limits": {"amount": "1"},
    "principal": {"agent": "somebody", "version": "1", "run": "r"},
    "approval": None,
    "idempotency": "44" * 32,
    "tenant": str(uuid4()),
    "sub": str(uuid4()),
    "jti": str(uuid4()),
    "iss": "https://staging.example",
    "aud": "another",
    "cnf": {"jkt": "U" * 43},
}


@pytest.mark.req("R-AP-06", "R-AP-24")
def test_a_grant_with_any_other_changed_field_cannot_start_and_is_recorded(shop: Workshop):
    """B1: each claim, changed under our own key and stored as if it had been minted so; then the true one starts."""
    order = shop.claimed()
    _, claims = parts(order["grant"])
    times = {"iat", "nbf", "exp", "uses", "policies"}
    assert set(BOUND) == set(claims) - times
    for name, value in BOUND.items():
        answer = shop.start(stored(shop, altered(order, **{name: value})))
        assert answer.status_code in (403, 409), name
        assert started_on_record(shop, order["action_id"])[-1] == answer.json()["code"], name
    assert len(started_on_record(shop, order["action_id"])) == len(BOUND)
    assert shop.state(order["action_id"]) == "VALIDATED"
    assert shop.start(stored(shop, order)).status_code == 201


def test_a_grant_with_another_policy_digest_requires_approval_again(shop: Workshop):
    """B1: the digests of the policies."""
    order = shop.claimed()
    policies = parts(order["grant"])[1]["policies"] | {"approval": "44" * 32}
    assert refused(shop.start(stored(shop, altered(order, policies=policies)))) == (409, "POLICY_CHANGED")
    assert shop.approval_of(order["action_id"])["state"] == "REQUESTED"


def test_the_present_state_is_checked_again_at_the_start(shop: Workshop):
    """B1: the other side of the comparison: what changed in the database after the grant was made."""
    order = shop.claimed()
    action_id = UUID(order["action_id"])
    changes = [
        (Approval, {"action_id": action_id}, {"policy_row": "NOTHING"}, {"policy_row": "IRREVERSIBLE"}),
        (Approval, {"action_id": action_id}, {"baseline_digest": "44" * 32}, {"baseline_digest": ""}),
        (Approval, {"action_id": action_id}, {"terms": {"thresholds": []}}, None),
        (Session, {}, {"agent_version": "2"}, {"agent_version": "1"}),
    ]
    with tenancy(shop.tenant):
        terms = approvals.approval_of(shop.tenant, action_id).terms
        row = approvals.approval_of(shop.tenant, action_id).policy_row
    for model, where, change, back in changes:
        with tenancy(shop.tenant):
            model.objects.filter(tenant_id=shop.tenant, **where).update(**change)
        assert refused(shop.start(order)) == (403, "GRANT_INVALID"), change
        with tenancy(shop.tenant):
            undo = {"terms": terms} if back is None else back | ({"policy_row": row} if "policy_row" in back else {})
            model.objects.filter(tenant_id=shop.tenant, **where).update(**undo)
    assert shop.start(order).status_code == 201


def test_a_vote_given_after_the_grant_is_not_in_it(shop: Workshop):
    """B1: the list of votes."""
    order = shop.claimed()
    with tenancy(shop.tenant):
        row = votes_queries.votes_of(shop.tenant, approvals.approval_of(shop.tenant, UUID(order["action_id"])).id)[0]
        row.id, row.voter, row.statement_hash = uuid4(), uuid4(), "44" * 32
        row.pk = (row.tenant_id, row.id)
        row.save(force_insert=True)
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")


@pytest.mark.req("R-CX-07")
def test_a_grant_names_everything_it_is_bound_to(shop: Workshop):
    order = shop.claimed()
    _, claims = parts(order["grant"])
    approval = shop.history(order["action_id"])[-1]["entry"]["approval"]
    assert claims["tenant"] == str(shop.tenant)
    assert claims["tool"]["name"] == "delete_document"
    assert claims["target"]["resource"] == "document/policies/returns.md"
    assert (claims["uses"], claims["revision"], claims["attempt"], claims["epoch"]) == (1, 1, 1, 1)
    assert claims["payload"]["hash"] == approval["payload_hash"]
    assert claims["approval"]["id"] == approval["approval_id"]
    assert len(claims["approval"]["votes"]) == 1
    assert claims["approval"]["log"]["index"] < claims["approval"]["log"]["size"]
    assert claims["idempotency"]
    assert parts(order["grant"])[0]["alg"] == "Ed25519"


# Whose it is


def test_a_grant_is_valid_only_in_its_own_tenant_and_environment(shop: Workshop, settings: Any):
    """B7: tenant, environment, installation."""
    order = shop.claimed()
    theirs = workshop("willow")
    theirs.register(executor_id="runner", key=shop.key)
    assert refused(shop.start(order, by=theirs.executor)) == (404, "NOT_FOUND")
    settings.COUNTERFOIL_ENVIRONMENT = "staging"
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    settings.COUNTERFOIL_ENVIRONMENT = "production"
    settings.COUNTERFOIL_PUBLIC_URL = "https://staging.example"
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    settings.COUNTERFOIL_PUBLIC_URL = "http://localhost:8000"
    assert shop.start(order).status_code == 201


def test_an_executor_of_another_key_cannot_use_a_grant_even_with_its_own_proof(shop: Workshop):
    """B7, B27: executor E1's grant at E2, in the name of either."""
    order = shop.claimed()
    other, key = key_for(shop.tenant, "exec"), new_key()
    assert shop.register(executor_id="second", key=key, by=other).status_code == 201
    proof = shop.proof(order["action_id"], order["grant"], key=key)
    assert refused(shop.start(order, by=other, proof=proof, executor_id="second")) == (403, "GRANT_WRONG_EXECUTOR")
    proof = shop.proof(order["action_id"], order["grant"], key=key)
    assert refused(shop.start(order, by=other, proof=proof, executor_id="runner")) == (404, "NOT_FOUND")
    assert shop.start(order).status_code == 201


def test_a_stolen_grant_and_a_replayed_proof_are_recorded(shop: Workshop):
    """B27: without the key, with the proof of another request, and with the same proof twice."""
    order = shop.claimed()
    thief = shop.proof(order["action_id"], order["grant"], key=new_key())
    assert refused(shop.start(order, proof=thief)) == (403, "GRANT_WRONG_EXECUTOR")
    elsewhere = shop.proof(order["action_id"], order["grant"], path="/1/heartbeat")
    assert refused(shop.start(order, proof=elsewhere)) == (403, "INVALID_DPOP_PROOF")
    method = shop.key.proof(
        method="PUT",
        url=f"http://testserver/api/v1/actions/{order['action_id']}/executions",
        token=order["grant"],
        at=timezone.now().timestamp(),
    )
    assert refused(shop.start(order, proof=method)) == (403, "INVALID_DPOP_PROOF")
    once = shop.proof(order["action_id"], order["grant"])
    assert shop.start(order, proof=once).status_code == 201
    assert refused(shop.start(order, proof=once)) == (403, "GRANT_INVALID")
    assert started_on_record(shop, order["action_id"]) == [
        *("GRANT_WRONG_EXECUTOR", "INVALID_DPOP_PROOF", "INVALID_DPOP_PROOF", "GRANT_INVALID")
    ]


def test_the_approval_of_one_action_cannot_be_used_for_an_identical_one(shop: Workshop):
    """B8: two proposals with an equal payload."""
    first, second = shop.propose(), shop.propose()
    assert shop.vote(shop.approval_of(first)).status_code == 201
    [order] = shop.claim()
    assert order["action_id"] == first
    assert refused(shop.start(order | {"action_id": second})) == (403, "GRANT_INVALID")
    swapped = parts(order["grant"])[1]["approval"] | {"id": shop.approval_of(second)["approval_id"]}
    assert refused(shop.start(stored(shop, altered(order, approval=swapped)))) == (403, "GRANT_INVALID")
    assert shop.start(stored(shop, order)).status_code == 201


def test_a_contract_version_always_has_the_same_document(shop: Workshop):
    """B5: description, schema, default, endpoint: a change is another version, and the order keeps its own."""
    order = shop.claimed()
    document = shop.operator_key.get("/contracts/delete_document/1.0.0").json()["document"]
    changed = document | {"description": "Deletes whatever it is told to. Use when: always. NOT for: nothing."}
    assert refused(shop.operator_key.post("/contracts", changed)) == (409, "VERSION_IMMUTABLE")
    assert shop.operator_key.post("/contracts", changed | {"version": "9.0.0"}).status_code == 201
    assert order["version"] == "1.0.0"
    assert shop.start(order).status_code == 201


# Once


def test_a_used_grant_is_never_valid_again_whatever_the_outcome(shop: Workshop, clock: Clock, tmp_path: Any):
    """B10: after success, after failure, after it ran out, after it was set aside."""
    done = shop.claimed(path="policies/a.md")
    told = shop.start(done)
    shop.observe(told.json())
    assert refused(shop.start(done)) == (409, "GRANT_CONSUMED")
    (tmp_path / "documents" / "policies" / "b.md").write_text("It stays.")
    failed = shop.claimed(path="policies/b.md")
    told = shop.start(failed).json()
    error = {"code": "REFUSED", "message": "no route", "phase": "before_send"}
    result = {"tool": "delete_document", "status": "failed", "evidence": None, "error": error, "side_effects": []}
    shop.observe(told, result=result | {"timestamp": timezone.now().isoformat()})
    clock.forward(seconds=90)
    assert shop.read_back(failed["action_id"], clock) == "FAILED"
    assert refused(shop.start(failed)) == (409, "GRANT_CONSUMED")
    late = shop.claimed(path="policies/c.md")
    shop.run_out()
    assert refused(shop.start(late)) == (409, "GRANT_EXPIRED")
    ended = shop.claim()[0]
    shop.operator_key.post(f"/actions/{ended['action_id']}/cancel", {"reason": "No."})
    assert refused(shop.start(ended)) == (403, "GRANT_INVALID")


def test_while_the_outcome_is_unknown_no_other_grant_is_given(shop: Workshop, clock: Clock):
    """B11: the executor died after the start; nothing is claimable before the outcome is settled."""
    order = shop.claimed()
    assert shop.start(order).status_code == 201
    clock.forward(seconds=30)
    lapse()
    assert shop.state(order["action_id"]) == "UNKNOWN"
    assert shop.claim() == []
    assert shop.call()["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    assert refused(shop.start(order)) == (409, "GRANT_CONSUMED")


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_wrong_clock_of_a_web_host_does_not_change_the_lifetime_of_a_grant(
    shop: Workshop, clock: Clock, minutes: int
):
    """B14: the clock of the database decides, at mint and at use."""
    clock.forward(minutes=minutes)
    order = shop.claimed()
    with tenancy(shop.tenant):
        [(left,)] = execute(
            "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM approvals_grant"
            " WHERE action_id = $1",
            UUID(order["action_id"]),
        )
    assert 60 < left <= 120
    shop.run_out()
    assert refused(shop.start(order)) == (409, "GRANT_EXPIRED")
    again = shop.claim()[0]
    assert shop.start(again).status_code == 201


# Keys


def test_a_database_without_the_keys_mints_nothing(shop: Workshop, settings: Any, tmp_path: Any):
    """B29: every row of grants and keys of a stolen database; the token is in none, and another key's is refused."""
    order = shop.claimed()
    with tenancy(shop.tenant):
        [(row,)] = execute("SELECT to_jsonb(g)::text FROM approvals_grant g")
    assert order["grant"].split(".")[2] not in row
    private = (settings.COUNTERFOIL_SECRETS_DIR / "grant_key.pem").read_text().splitlines()[1]
    assert private not in row
    claims = parts(order["grant"])[1]
    thief = Ed25519PrivateKey.generate()
    forged = jws.write_token(header=parts(order["grant"])[0], claims=claims, sign=thief.sign)
    assert refused(shop.start(stored(shop, order | {"grant": forged}))) == (403, "GRANT_INVALID")


def test_a_forged_grant_that_was_never_minted_cannot_start(shop: Workshop):
    """B29: signed by our key, and nothing on record of it."""
    action_id = shop.approved()
    other = shop.claimed(path="policies/other.md")
    with tenancy(shop.tenant):
        execute("UPDATE approvals_grant SET voided_at = clock_timestamp() WHERE action_id = $1", UUID(action_id))
    claims = parts(other["grant"])[1] | {"sub": action_id, "jti": str(uuid4())}
    forged = {"action_id": action_id, "grant": signed(parts(other["grant"])[0], claims)}
    assert refused(shop.start(forged)) == (403, "GRANT_INVALID")
    assert shop.state(action_id) == "VALIDATED"


def test_grants_do_not_depend_on_the_session_secret(shop: Workshop, settings: Any):
    order = shop.claimed()
    settings.SECRET_KEY = "another secret than before, and long enough for anybody"
    assert shop.start(order).status_code == 201


# What the log says of the votes


def vkeys(shop: Workshop) -> list[str]:
    with tenancy(shop.tenant):
        head = log.current_log(shop.tenant)
        assert head is not None
        return proofs.verifier_keys(shop.tenant, head.id)


def strict(shop: Workshop, order: dict[str, Any], policy: LogPolicy) -> dict[str, Any]:
    """What a strict executor does with an order before it starts it."""
    holder = GrantHolder("http://localhost:8000", "runner", shop.key.thumbprint)
    keys = KeySet(lambda: grants.jwks(grant_keys.accepted_keys()))
    claims = verify_grant(order["grant"], keys=keys, holder=holder, at=timezone.now().timestamp())
    check_votes(claims, order.get("proof"), policy=policy)
    return claims


def test_a_strict_executor_sees_the_votes_in_the_signed_log(shop: Workshop):
    """6.6: inclusion of each vote's event, under a key of the log that the executor was given."""
    shop.approved()
    [order] = shop.claim(proof=True)
    assert strict(shop, order, LogPolicy(vkeys(shop)))["sub"] == order["action_id"]
    assert shop.start(order).status_code == 201


def test_a_grant_forged_with_the_stolen_key_is_refused_by_a_strict_executor(shop: Workshop):
    """B29: no votes, the votes of another action, a proof of another log, and a proof that was touched."""
    shop.approved()
    [order] = shop.claim(proof=True)
    policy = LogPolicy(vkeys(shop), unapproved_tools=frozenset({"write_document"}))
    header, claims = parts(order["grant"])
    votes = order["proof"]["votes"]
    approval = claims["approval"]
    forged = {
        "no approval": ({"approval": None}, order["proof"]),
        "another action": ({"sub": str(uuid4())}, order["proof"]),
        "another payload": ({"payload": {"hash": "44" * 32, "length": 9}}, order["proof"]),
        "another tenant": ({"tenant": str(uuid4())}, order["proof"]),
        "no votes": ({"approval": approval | {"votes": []}}, order["proof"]),
        "an invented vote": ({"approval": approval | {"votes": ["44" * 32]}}, order["proof"]),
        "another approval": ({"approval": approval | {"id": str(uuid4())}}, order["proof"]),
        "another place": ({"approval": approval | {"log": approval["log"] | {"index": 0}}}, order["proof"]),
        "no place": ({"approval": approval | {"log": None}}, order["proof"]),
        "a later log": ({"approval": approval | {"log": approval["log"] | {"size": 10**6}}}, order["proof"]),
        "no proof": ({}, None),
        "no events": ({}, order["proof"] | {"votes": []}),
        "another path": ({}, order["proof"] | {"votes": [votes[0] | {"path": votes[0]["path"][1:]}]}),
        "another event": ({}, order["proof"] | {"votes": [votes[0] | {"envelope": votes[0]["envelope"] + " "}]}),
        "another statement": ({}, order["proof"] | {"votes": [votes[0] | {"statement": "{}"}]}),
        "another salt": ({}, order["proof"] | {"votes": [votes[0] | {"salt": "00" * 32}]}),
    }
    for name, (change, proof) in forged.items():
        stolen = order | {"grant": signed(header, claims | change), "proof": proof}
        with pytest.raises(GrantRefused) as refusal:
            strict(shop, stolen, policy)
        assert refusal.value.code in ("NOT_LOGGED", "NOT_APPROVED"), name
    with pytest.raises(GrantRefused, match="NOT_LOGGED"):
        strict(shop, order, LogPolicy([another_key(vkeys(shop)[0])]))


def another_key(vkey: str) -> str:
    """The same log under somebody else's key."""
    return notes.vkey(vkey.split("+")[0], Ed25519PrivateKey.generate().public_key())


def test_votes_are_sent_only_to_executors_that_request_them(shop: Workshop):
    shop.approved()
    [order] = shop.claim()
    assert order.get("proof") is None


@pytest.mark.unsealed
@pytest.mark.usefixtures("punctual_log")
@pytest.mark.req("R-AP-24")
def test_no_grant_is_given_before_the_votes_are_in_a_signed_checkpoint(shop: Workshop):
    """B40: the sequencer has not been here since the vote."""
    action_id = shop.approved()
    assert shop.claim() == []
    ready = shop.executor.get("/executions/ready?tools=delete_document").json()["items"]
    assert ready[0]["waiting_for"] == ["seal"]
    seal_up()
    assert [order["action_id"] for order in shop.claim()] == [action_id]


@pytest.mark.unsealed
def test_without_a_sequencer_reversible_actions_continue_if_the_policy_allows_it(shop: Workshop):
    """B40: `wait_for_seal` counts for what can be taken back, never for what cannot."""
    rule = {"version": "2", "wait_for_seal": False, "require": [{"tool": "write_document"}]}
    answer = shop.operator_key.release("approval", {"version": "2", "document": rule})
    assert answer.status_code == 201, answer.content
    reversible, irreversible = shop.propose("write_document"), shop.propose("delete_document")
    for action_id in (reversible, irreversible):
        assert shop.vote(shop.approval_of(action_id)).status_code == 201
    [order] = shop.claim()
    assert order["action_id"] == reversible
    assert read_claims(order["grant"])["approval"]["log"] is None
    assert shop.start(order).status_code == 201


# The epoch


def test_a_grant_of_an_older_epoch_is_void(shop: Workshop):
    """B16: the epoch is raised at each restore, and a record counts only once it was accepted under it."""
    order = shop.claimed()
    with as_sequencer(), signer() as signing:
        signing.state.raise_epoch()
        sequencer.sign_epoch(signing)
    assert refused(shop.start(order)) == (409, "RECORD_BEHIND")
    with as_sequencer():
        sequencer.accept_epoch(tenant_id=shop.tenant, epoch=2)
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")


@pytest.mark.parametrize(
    "fault",
    [
        "UPDATE ledger_epoch SET number = number + 1",
        "UPDATE ledger_epoch SET signatures = '{}'",
        "UPDATE ledger_epoch SET signatures = ARRAY[repeat('x', 64)::bytea]",
        # The same bytes again, as a dump would write them.
        "UPDATE ledger_epoch SET number = number",
    ],
    ids=["another number", "no signature", "another signature", "written again"],
)
@pytest.mark.unsealed
def test_nothing_is_claimed_or_started_under_an_epoch_that_is_not_signed_for_its_place(shop: Workshop, fault: str):
    shop.approved()
    seal_up()
    [order] = shop.claim()
    shop.approved()
    seal_up()
    with as_sequencer():
        execute(fault)
    answer = shop.executor.post("/executions/claim", {"executor_id": "runner"})
    assert refused(answer) == refused(shop.start(order)) == (503, "EPOCH_UNKNOWN")
    assert answer["Retry-After"]
    with as_sequencer(), signer() as signing:
        Sequencer(signing).visit_all()
    if "number + 1" not in fault:
        assert shop.start(order).status_code == 201
    else:
        # Who can write the row can only void what there is.
        assert refused(shop.start(order)) == (409, "RECORD_BEHIND")


@pytest.mark.unsealed
def test_nothing_is_claimed_without_the_public_key_of_the_log(shop: Workshop, settings: Any, tmp_path: Path):
    shop.approved()
    seal_up()
    settings.COUNTERFOIL_LOG_PUBLIC_KEY = tmp_path / "log_key.pub"
    wanted = (503, "EPOCH_UNKNOWN")
    assert refused(shop.executor.post("/executions/claim", {"executor_id": "runner"})) == wanted
    settings.COUNTERFOIL_LOG_PUBLIC_KEY.write_bytes(
        Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    assert refused(shop.executor.post("/executions/claim", {"executor_id": "runner"})) == wanted


def test_the_database_lets_the_epoch_only_rise(shop: Workshop):
    for fault in ("UPDATE ledger_epoch SET number = 0", "DELETE FROM ledger_epoch", "TRUNCATE ledger_epoch"):
        with pytest.raises(DatabaseError), as_sequencer():
            execute(fault)


def test_a_grant_names_the_log_of_its_own_tenant(shop: Workshop):
    with tenancy(shop.tenant):
        origin = Tenant.objects.get(id=shop.tenant).origin
    order = shop.claimed()
    assert parts(order["grant"])[1]["approval"]["log"]["origin"] == origin
