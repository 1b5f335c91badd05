"""Votes that a passkey signs, over HTTP: one statement, one signature, one use."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from approvals.models import Approval, Challenge, Vote
from approvals.requests.queries import approvals
from approvals.voting.operations import approver_keys, challenges
from approvals.voting.queries import approvers, votes
from approvals.voting.rules import binding, quorum
from ledger.db import tenancy
from ledger.people.rules.statements import challenge_bytes
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.queries import evidence as evidence_queries
from tests.support.api_tenant import Clock, Workshop, workshop
from tests.support.callers import new_client
from tests.support.outside.authenticators import AT, BE, BS, UP, UV, Authenticator, b64
from tests.support.signing import actor_of, ask, cast, device, enrolled, key_row, sign, wanted


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.fixture
def approval(shop: Workshop) -> dict[str, Any]:
    return shop.approval_of(shop.propose())


@pytest.fixture
def blue(shop: Workshop) -> Authenticator:
    return enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer))


def events(shop: Workshop, subject: Any) -> list[tuple[str, dict[str, Any]]]:
    with tenancy(shop.tenant):
        return [
            (event.kind, detail or {}) for event, _, detail in events_queries.history(shop.tenant, UUID(str(subject)))
        ]


def last(shop: Workshop, approval: dict[str, Any]) -> tuple[str, str]:
    kind, detail = events(shop, approval["approval_id"])[-1]
    return kind, detail.get("code", "")


def votes_of(shop: Workshop, approval: dict[str, Any]) -> list[Vote]:
    with tenancy(shop.tenant):
        return votes.votes_of(shop.tenant, UUID(approval["approval_id"]))


# What counts


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_vote_signed_by_a_passkey_is_shown_as_such_everywhere(shop: Workshop, approval: dict[str, Any], kind: str):
    one = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer), device(kind))
    told = sign(shop.reviewer, approval, one)
    assert told.status_code == 201, told.content
    assert told.json()["class"] == "A"
    shown = shop.reviewer.get(f"/approvals/{approval['approval_id']}").json()
    assert shown["votes"][0]["class"] == "A"
    assert shown["votes"][0]["credential_id"] == one.name
    assert shown["votes"][0]["confirmation_code"] == told.json()["confirmation_code"]
    kind_of_event, detail = events(shop, approval["approval_id"])[-1]
    assert (kind_of_event, detail["evidence_class"]) == ("approved", "A")
    page = shop.reviewer.client.get(f"/t/{shop.slug}/approvals/{approval['approval_id']}").content.decode()
    assert "passkey (class A)" in page


def test_the_passkey_signs_the_displayed_statement(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    challenge = ask(shop.reviewer, approval).json()
    assert wanted(challenge) == challenge_bytes(challenge["statement"].encode())
    assert challenge["publicKey"]["userVerification"] == "required"
    assert challenge["publicKey"]["allowCredentials"] == [{"type": "public-key", "id": blue.name}]
    cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)))
    vote = votes_of(shop, approval)[0]
    assert bytes(vote.statement).decode() == challenge["statement"]
    covers, said = binding.read_statement(bytes(vote.statement))
    assert (said.evidence_class, said.credential_id, said.rp_id) == ("A", blue.name, "localhost")
    assert said.groups == ("reviewers",)
    assert covers.environment == "production"
    assert len(bytes.fromhex(said.nonce)) == 32


def test_the_raw_assertion_is_kept_with_the_vote_and_as_evidence(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator
):
    """B30: whoever has the record can check the signature."""
    sign(shop.reviewer, approval, blue)
    vote = votes_of(shop, approval)[0]
    assert vote.assertion is not None
    kept = json.loads(bytes(vote.assertion))
    with tenancy(shop.tenant):
        evidence = evidence_queries.evidence_of(shop.tenant, UUID(approval["approval_id"]))
        sealed = {row.purpose: evidence_queries.open_evidence(shop.tenant, row.id) for row in evidence}
    told = json.loads(sealed["assertion"] or b"")
    assert told["assertion"] == kept
    assert told["key"]["public_key"] == b64(blue.public_key)
    assert sealed["statement"] == bytes(vote.statement)


def test_the_counter_of_the_key_is_stored(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    blue.counter = 41
    assert sign(shop.reviewer, approval, blue).status_code == 201
    assert key_row(shop.tenant, blue).sign_count == 41


@pytest.mark.parametrize("verdict", ["reject", "request_changes"])
def test_a_rejection_is_signed_in_the_same_way(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, verdict: str
):
    told = sign(shop.reviewer, approval, blue, verdict=verdict, reason="The policy is still in force.")
    assert (told.status_code, told.json()["class"]) == (201, "A")
    assert shop.state(approval["action_id"]) == "FAILED"


def test_one_of_several_keys_must_be_named(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    red = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer))
    assert [each["credential_id"] for each in shop.approval_of(approval["action_id"])["keys"]] == [blue.name, red.name]
    challenge = ask(shop.reviewer, approval, credential_id=blue.name).json()
    assert challenge["publicKey"]["allowCredentials"][0]["id"] == blue.name
    answer = cast(shop.reviewer, approval, challenge, red.answer(wanted(challenge)))
    assert refused(answer) == (409, "STATEMENT_CHANGED")
    assert refused(ask(shop.reviewer, approval, credential_id="AAAA")) == (403, "NO_APPROVER_KEY")


def strict(shop: Workshop) -> dict[str, Any]:
    """An approval that asks for a passkey."""
    policy = {"version": "2", "document": {"step_up": "A"}}
    assert shop.operator_key.release("approval", policy).status_code == 201
    return shop.approval_of(shop.propose())


def test_nothing_less_than_a_required_passkey_can_approve(shop: Workshop, blue: Authenticator):
    approval = strict(shop)
    assert refused(shop.vote(approval)) == (403, "STEP_UP_REQUIRED")
    assert refused(shop.vote(approval, password=None)) == (403, "STEP_UP_REQUIRED")
    assert sign(shop.reviewer, approval, blue).status_code == 201


def test_step_up_never_blocks_a_rejection(shop: Workshop):
    """Whoever has lost their passkey can still stop what must not happen; the record says how weak the proof was."""
    approval = strict(shop)
    told = shop.vote(approval, verdict="reject", reason="Not this one.", password=None)
    assert (told.status_code, told.json()["class"]) == (201, "D")
    assert events(shop, approval["approval_id"])[-1][1]["evidence_class"] == "D"
    assert shop.state(approval["action_id"]) == "FAILED"


def test_a_wrong_password_is_not_treated_as_a_missing_one(shop: Workshop, approval: dict[str, Any]):
    answer = shop.vote(approval, verdict="reject", reason="Not this one.", password="wrong")
    assert refused(answer) == (403, "STEP_UP_REQUIRED")


# B12: one challenge, one answer


def test_a_challenge_can_be_answered_once(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B12: replay."""
    challenge = ask(shop.reviewer, approval).json()
    assertion = blue.answer(wanted(challenge))
    assert cast(shop.reviewer, approval, challenge, assertion).status_code == 201
    assert refused(cast(shop.reviewer, approval, challenge, assertion)) == (409, "CHALLENGE_SPENT")
    assert last(shop, approval) == ("vote_refused", "CHALLENGE_SPENT")
    assert len(votes_of(shop, approval)) == 1


def test_a_refused_answer_consumes_the_challenge(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B12: no second try against the same challenge."""
    challenge = ask(shop.reviewer, approval).json()
    bad = blue.answer(wanted(challenge), data=blue.data(flags=UP))
    assert refused(cast(shop.reviewer, approval, challenge, bad)) == (403, "ASSERTION_INVALID")
    good = blue.answer(wanted(challenge))
    assert refused(cast(shop.reviewer, approval, challenge, good)) == (409, "CHALLENGE_SPENT")


def test_another_persons_challenge_cannot_be_answered(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B12: the challenge of another user."""
    other = shop.person("reviewer", name="second@orchid")
    red = enrolled(shop.tenant, actor_of(shop.tenant, other))
    challenge = ask(shop.reviewer, approval).json()
    for one in (blue, red):
        answer = cast(other, approval, challenge, one.answer(wanted(challenge)))
        assert refused(answer) == (409, "CHALLENGE_SPENT")
    assert cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge))).status_code == 201


def test_another_persons_key_cannot_be_used(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B28: credential of another user."""
    other = shop.person("reviewer", name="second@orchid")
    enrolled(shop.tenant, actor_of(shop.tenant, other))
    challenge = ask(other, approval).json()
    assert refused(cast(other, approval, challenge, blue.answer(wanted(challenge)))) == (403, "KEY_NOT_ACTIVE")


def test_a_challenge_can_be_answered_only_in_the_session_that_requested_it(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator
):
    """B12, B37: the same person at another browser; what a session began ends with it."""
    challenge = ask(shop.reviewer, approval).json()
    elsewhere = type(shop.reviewer)(new_client(), {})
    user = shop.reviewer.client.session["_auth_user_id"]
    from console.models import User

    elsewhere.client.force_login(User.objects.get(pk=user), backend="console.accounts.sign_in.sessions.PasswordBackend")
    answer = cast(elsewhere, approval, challenge, blue.answer(wanted(challenge)))
    assert refused(answer) == (409, "CHALLENGE_SPENT")


def test_a_challenge_cannot_be_answered_from_another_tab(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B12: each tab has a challenge of its own, and both may be open."""
    first, second = (ask(shop.reviewer, approval).json() for _ in range(2))
    assert wanted(first) != wanted(second)
    mixed = cast(shop.reviewer, approval, second, blue.answer(wanted(first)))
    assert refused(mixed) == (403, "ASSERTION_INVALID")
    assert cast(shop.reviewer, approval, first, blue.answer(wanted(first))).status_code == 201


def test_a_challenge_expires_after_two_minutes(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, clock: Clock
):
    """B12: expired."""
    challenge = ask(shop.reviewer, approval).json()
    clock.forward(seconds=121)
    answer = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)))
    assert refused(answer) == (409, "CHALLENGE_SPENT")


def test_old_challenges_are_deleted_with_the_next_whatever_it_is_about(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(challenges, "KEPT", timedelta(minutes=10))
    other = shop.approval_of(shop.propose(path="policies/old.md"))
    answered = ask(shop.reviewer, approval).json()
    cast(shop.reviewer, approval, answered, blue.answer(wanted(answered)))
    clock.forward(minutes=5)
    younger = ask(shop.reviewer, other).json()["challenge_id"]
    clock.forward(minutes=6)
    newest = ask(shop.reviewer, other).json()["challenge_id"]
    with tenancy(shop.tenant):
        assert set(map(str, Challenge.objects.values_list("id", flat=True))) == {younger, newest}


def test_a_challenge_of_one_approval_is_refused_for_another(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator
):
    """B8, B13: recorded for one statement, presented for another."""
    other = shop.approval_of(shop.propose(path="policies/old.md"))
    challenge = ask(shop.reviewer, approval).json()
    answer = cast(shop.reviewer, other, challenge, blue.answer(wanted(challenge)))
    assert refused(answer) == (409, "CHALLENGE_SPENT")


@pytest.mark.parametrize(
    "changes",
    [{"verdict": "reject"}, {"verdict": "request_changes"}, {"reason": "I have read it, and more."}],
)
def test_the_vote_is_the_one_that_was_signed(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, changes: dict[str, str]
):
    """B13: the signature of a yes is no signature of a no, and none of another reason."""
    challenge = ask(shop.reviewer, approval).json()
    answer = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)), **changes)
    assert refused(answer) == (409, "STATEMENT_CHANGED")
    assert votes_of(shop, approval) == []


def test_one_of_two_concurrent_answers_is_accepted(committed_db: Any):
    """B12: consumed twice in parallel; B37: a double click."""
    shop = workshop("orchid").set_up()
    approval = shop.approval_of(shop.propose())
    blue = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer))
    challenge = ask(shop.reviewer, approval).json()
    assertion = blue.answer(wanted(challenge))
    ready = Barrier(4)

    def press() -> int:
        try:
            ready.wait(10)
            return int(cast(shop.reviewer, approval, challenge, assertion).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        pressed = [threads.submit(press) for _ in range(4)]
    assert sorted(each.result() for each in pressed) == [201, 409, 409, 409]
    assert len(votes_of(shop, approval)) == 1


# B13 and B28, over the wire


def test_an_assertion_of_another_ceremony_is_refused_as_a_vote(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator
):
    """B13: a sign-in, and a registration, presented as a vote."""
    challenge = ask(shop.reviewer, approval).json()
    signed_in = blue.answer(b"\x07" * 32)
    assert refused(cast(shop.reviewer, approval, challenge, signed_in)) == (403, "ASSERTION_INVALID")
    challenge = ask(shop.reviewer, approval).json()
    registration = blue.registration(wanted(challenge))
    assert refused(cast(shop.reviewer, approval, challenge, registration)) == (403, "ASSERTION_INVALID")
    assert last(shop, approval) == ("vote_refused", "ASSERTION_INVALID")
    assert votes_of(shop, approval) == []


@pytest.mark.parametrize(
    "bend",
    [
        {"flags": UP},
        {"flags": UV},
        {"flags": UP | UV | BS},
        {"flags": UP | UV | BE},
        {"flags": UP | UV | AT},
    ],
)
def test_forbidden_flags_are_refused(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, bend: dict[str, int]
):
    """B28: UV missing, UP missing, BS without BE."""
    challenge = ask(shop.reviewer, approval).json()
    answer = blue.answer(wanted(challenge), data=blue.data(**bend))
    assert refused(cast(shop.reviewer, approval, challenge, answer)) == (403, "ASSERTION_INVALID")


def test_a_counter_that_goes_back_suspends_the_key_and_is_recorded(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator
):
    """B28: counter regression refuses the vote, raises an alert event and suspends the key; nothing is lowered."""
    blue.counter = 41
    assert sign(shop.reviewer, approval, blue).status_code == 201
    other = shop.approval_of(shop.propose(path="policies/old.md"))
    blue.counter = 40
    assert refused(sign(shop.reviewer, other, blue)) == (403, "COUNTER_REGRESSED")
    assert last(shop, other) == ("vote_refused", "COUNTER_REGRESSED")
    row = key_row(shop.tenant, blue)
    assert (row.state, row.sign_count) == ("SUSPENDED", 41)
    told = dict(events(shop, row.id))
    assert (told["key_counter_regressed"]["stored"], told["key_counter_regressed"]["said"]) == (41, 40)
    assert refused(ask(shop.reviewer, other)) == (403, "NO_APPROVER_KEY")


@pytest.mark.parametrize("assertion", [{}, {"id": "x"}, {"type": "public-key", "id": "AAAA", "response": {}}])
def test_an_invalid_assertion_is_refused(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, assertion: dict[str, Any]
):
    """B28: malformed."""
    challenge = ask(shop.reviewer, approval).json()
    assert refused(cast(shop.reviewer, approval, challenge, assertion)) == (403, "ASSERTION_INVALID")


# Keys that must not sign


def test_an_unconfirmed_key_cannot_sign(shop: Workshop, approval: dict[str, Any]):
    """B23."""
    enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer), confirmed=False)
    assert refused(ask(shop.reviewer, approval)) == (403, "NO_APPROVER_KEY")
    assert last(shop, approval) == ("vote_refused", "NO_APPROVER_KEY")


def stop(shop: Workshop, one: Authenticator) -> None:
    with tenancy(shop.tenant):
        row = approvers.approver_key_by_credential(shop.tenant, one.name)
        assert row is not None
        approver_keys.suspend(
            tenant_id=shop.tenant,
            key_id=row.id,
            by=ledger.Actor("person", uuid4()),
            person_id=uuid4(),
            reason="Lost.",
            at=datetime.now(UTC),
        )


def test_a_key_suspended_during_the_prompt_cannot_sign(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B18: between the challenge and its answer."""
    challenge = ask(shop.reviewer, approval).json()
    stop(shop, blue)
    answer = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)))
    assert refused(answer) == (403, "KEY_NOT_ACTIVE")
    assert votes_of(shop, approval) == []


def test_an_approval_by_a_suspended_key_is_requested_again(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator
):
    """B18: suspended after the vote and before the start, the approval counts no longer."""
    assert sign(shop.reviewer, approval, blue).status_code == 201
    stop(shop, blue)
    assert shop.claim() == []
    with tenancy(shop.tenant):
        rows = approvals.approvals_of(shop.tenant, UUID(approval["action_id"]))
    assert [row.state for row in rows] == ["VOIDED", "REQUESTED"]


# B1, B36: what is covered must still hold


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("baseline_digest", "0" * 64),
        ("preflight_digest", "0" * 64),
        ("policy_row", "OTHER"),
        ("policy_digest", "0" * 64),
        ("requester", uuid4()),
        ("terms", quorum.ApprovalTerms(decide_within_s=61).document()),
    ],
)
def test_a_change_while_the_page_is_open_is_detected(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, name: str, value: Any
):
    """B1: covered by the request itself; both a signed and an unsigned vote are refused."""
    challenge = ask(shop.reviewer, approval).json()
    with tenancy(shop.tenant):
        Approval.objects.filter(tenant_id=shop.tenant, id=approval["approval_id"]).update(**{name: value})
    signed = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)))
    assert signed.status_code == 409
    assert signed.json()["code"] in ("STATEMENT_CHANGED", "POLICY_CHANGED")
    plain = shop.vote(approval, covers=approval["covers_digest"])
    assert plain.status_code == 409
    assert votes_of(shop, approval) == []


def test_a_vote_on_an_older_rendering_is_refused(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, monkeypatch: pytest.MonkeyPatch, settings: Any
):
    """B36: the rendering digest of an old renderer, and another locale."""
    from approvals.requests.rules import rendering

    challenge = ask(shop.reviewer, approval).json()
    settings.LANGUAGE_CODE = "de"
    answer = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)), covers="")
    assert refused(answer) == (409, "RENDERING_CHANGED")
    settings.LANGUAGE_CODE = "en-gb"
    monkeypatch.setattr(rendering, "RENDERER", "fields-2")
    assert refused(shop.vote(approval)) == (409, "RENDERING_CHANGED")
    assert refused(ask(shop.reviewer, approval)) == (409, "RENDERING_CHANGED")


def test_an_approval_from_another_installation_is_refused(
    shop: Workshop, approval: dict[str, Any], blue: Authenticator, settings: Any
):
    """B7: signed in staging, presented in production."""
    challenge = ask(shop.reviewer, approval).json()
    settings.COUNTERFOIL_ENVIRONMENT = "staging"
    answer = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)), covers="")
    assert refused(answer) == (409, "STATEMENT_CHANGED")


def test_a_statement_altered_at_rest_cannot_be_signed(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    """B13: whoever can write to the table of challenges cannot have another statement signed."""
    challenge = ask(shop.reviewer, approval).json()
    altered = challenge["statement"].replace('"verdict":"approve"', '"verdict":"reject"').encode()
    with tenancy(shop.tenant):
        Challenge.objects.filter(id=challenge["challenge_id"]).update(statement=altered)
    answer = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)))
    assert answer.status_code in (409, 422)
    assert votes_of(shop, approval) == []


# Who may ask


def test_only_an_eligible_reviewer_gets_a_challenge(shop: Workshop, approval: dict[str, Any]):
    for role in ("operator", "compliance"):
        person = shop.person(role, name=f"{role}-only@orchid")
        assert refused(ask(person, approval)) == (403, "NOT_ELIGIBLE")
    for key in (shop.agent, shop.executor, shop.operator_key, shop.auditor):
        assert refused(ask(key, approval)) == (403, "FORBIDDEN")


def test_a_decided_request_gives_no_challenge(shop: Workshop, approval: dict[str, Any], blue: Authenticator):
    assert sign(shop.reviewer, approval, blue).status_code == 201
    assert refused(ask(shop.reviewer, approval)) == (409, "ALREADY_DECIDED")


# Class B


@pytest.fixture
def app(shop: Workshop) -> Any:
    """The reviewer's authenticator app: the code of now, or of so many steps from it."""
    from allauth.mfa.totp.internal import auth

    from console.models import User

    secret = auth.generate_totp_secret()
    auth.TOTP.activate(User.objects.get(pk=shop.reviewer.client.session["_auth_user_id"]), secret)

    def code(steps: int = 0) -> str:
        return auth.format_hotp_value(auth.hotp_value(secret, int(datetime.now(UTC).timestamp()) // 30 + steps))

    return code


def test_a_fresh_code_has_class_b_and_can_be_used_once(shop: Workshop, approval: dict[str, Any], app: Any):
    """B12: neither the same code again, nor after the library has forgotten it."""
    from django.core.cache import cache

    other = shop.approval_of(shop.propose(path="policies/old.md"))
    code = app()
    told = shop.vote(approval, password=None, otp=code)
    assert (told.status_code, told.json()["class"]) == (201, "B")
    assert events(shop, approval["approval_id"])[-1][1]["evidence_class"] == "B"
    assert refused(shop.vote(other, password=None, otp=code)) == (403, "STEP_UP_REQUIRED")
    cache.delete(f"allauth.mfa.totp.used?user={shop.reviewer.client.session['_auth_user_id']}&code={code}")
    assert refused(shop.vote(other, password=None, otp=f"{code[:3]} {code[3:]}")) == (403, "STEP_UP_REQUIRED")


def test_a_code_is_stronger_than_a_password_and_weaker_than_a_passkey(shop: Workshop, app: Any):
    for version, (step_up, passes) in enumerate({"B": True, "A": False}.items(), 2):
        policy = {"version": str(version), "document": {"step_up": step_up}}
        assert shop.operator_key.release("approval", policy).status_code == 201
        approval = shop.approval_of(shop.propose(path=f"policies/{step_up.lower()}.md"))
        assert refused(shop.vote(approval)) == (403, "STEP_UP_REQUIRED")
        answer = shop.vote(approval, password=None, otp=app(-1 if passes else 1))
        assert (answer.status_code == 201) is passes


def test_wrong_codes_lock_the_second_factor(shop: Workshop, approval: dict[str, Any], app: Any):
    for _ in range(5):
        assert refused(shop.vote(approval, password=None, otp="000000")) == (403, "STEP_UP_REQUIRED")
    locked = shop.vote(approval, password=None, otp=app())
    assert (*refused(locked), locked["Retry-After"]) == (429, "LOCKED_OUT", "300")


def test_a_code_without_an_enrolled_app_is_refused(shop: Workshop, approval: dict[str, Any]):
    assert refused(shop.vote(approval, password=None, otp="123456")) == (403, "STEP_UP_REQUIRED")
