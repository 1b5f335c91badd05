"""People and keys, and My account: what the pages do, and what one person alone cannot."""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.test import Client
from django.utils import timezone

from approvals.voting.queries import approvers
from approvals.voting.rules.passkeys import unbase64url
from console.models import ApiKey, Membership, User
from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from tests.support.browser_users import Visitor, visitor, words
from tests.support.outside.authenticators import Authenticator
from tests.support.people import device
from tests.support.scenes import PASSWORD, set_up


def fresh(member: Visitor) -> Visitor:
    """As if they had given their password a moment ago."""
    session = member.client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = session["_auth_user_id"]
    session.save()
    return member


def options_of(member: Visitor) -> Any:
    page = member.page("me/keys/enrol")
    found = re.search(r'<script id="passkey-options" type="application/json">(.+?)</script>', page)
    assert found
    return json.loads(found.group(1))["publicKey"]


def enrol(member: Visitor, one: Authenticator | None = None, **bent: Any) -> Any:
    challenge = unbase64url(options_of(member)["challenge"])
    credential = (one or device()).registration(challenge, **bent)
    return member.post("me/keys/enrol", name="Blue key", credential=json.dumps(credential))


def keys(stage: Any) -> list[Any]:
    with tenancy(stage.tenant):
        return approvers.approver_keys(stage.tenant)


def events(stage: Any, subject: UUID) -> list[str]:
    with tenancy(stage.tenant):
        return [event.kind for event, _, _ in events_queries.history(stage.tenant, subject)]


# Keys


def test_a_key_is_enrolled_by_its_holder_and_confirmed_by_another_person(stage):
    """B23: the second person is seen on the page and in the record."""
    rita, ada = fresh(visitor(stage, "reviewer")), visitor(stage, "administrator")
    assert enrol(rita).status_code == 302
    (key,) = keys(stage)
    assert (key.state, key.actor_id) == ("PENDING", stage.person("reviewer").actor_id)
    assert "Confirm this key" not in rita.page("people")
    assert rita.post(f"people/approver-keys/{key.id}/answer", to="confirm").status_code == 403
    assert "Confirm this key of" in ada.page("people")
    assert ada.post(f"people/approver-keys/{key.id}/answer", to="confirm").status_code == 302
    assert keys(stage)[0].state == "ACTIVE"
    assert events(stage, key.id) == ["key_enrolled", "key_step_refused", "key_confirmed"]


def test_nobody_can_enrol_a_key_for_another_person(stage):
    """B23: an administrator has no way to put a key under somebody else's name, nor one under their own."""
    ada = fresh(visitor(stage, "administrator"))
    assert ada.get("me/keys/enrol").status_code == 403
    rita = fresh(visitor(stage, "reviewer"))
    challenge = unbase64url(options_of(rita)["challenge"])
    stolen = json.dumps(device().registration(challenge))
    for thief in (ada, fresh(visitor(stage, "reviewer", name="other@orchid"))):
        answer = thief.post("me/keys/enrol", name="x", credential=stolen)
        assert answer.status_code in (403, 409)
    assert keys(stage) == []


def test_the_administrator_who_appointed_an_approver_cannot_confirm_their_key(stage):
    """B23: else an administrator could invent a person, and vouch for the key as well."""
    ada, ben = visitor(stage, "administrator"), visitor(stage, "administrator", name="ben@orchid")
    invited = {"email": "puppet@corp.example", "name": "Puppet", "roles": ["reviewer"], "groups": ""}
    answer = ada.post("people/invite", **invited, password=PASSWORD)
    link = re.search(r"/invitation/[\w-]+", answer.content.decode())
    assert link
    assert f"http://localhost:8000{link.group(0)}" in answer.content.decode(), "the address that people type"
    assert Client().post(link.group(0), {"password": "a long enough password"}).status_code == 302
    puppet = Client()
    puppet.post("/sign-in", {"username": "puppet@corp.example", "password": "a long enough password"})
    enrol(Visitor(puppet, "orchid"))
    (key,) = keys(stage)
    refused = ada.post(f"people/approver-keys/{key.id}/answer", to="confirm")
    assert refused.status_code == 403
    assert b"cannot also confirm their passkey" in refused.content
    member = Membership.objects.get(user__username="puppet@corp.example")
    assert events(stage, member.id)[-1] == "proposal_not_confirmed"
    assert ben.post(f"people/approver-keys/{key.id}/answer", to="confirm").status_code == 302


def test_enrolling_a_key_requires_recent_authentication(stage):
    rita = visitor(stage, "reviewer")
    answer = rita.get("me/keys/enrol")
    assert answer["Location"].startswith("/sign-in/again?next=")


def test_enrolment_requires_user_verification_and_a_resident_key(stage):
    """B28 at enrolment: user verification and a resident key are demanded, and the handle is not the account's."""
    rita = fresh(visitor(stage, "reviewer"))
    asked = options_of(rita)
    wanted = asked["authenticatorSelection"]
    assert (wanted["userVerification"], wanted["residentKey"]) == ("required", "required")
    assert asked["user"]["id"] != options_of(rita)["user"]["id"]
    assert enrol(rita, flags=0x01).status_code == 403
    assert enrol(rita, Authenticator(rp_id="localhost", origin="http://evil.localhost:8000")).status_code == 403
    assert enrol(rita, Authenticator(rp_id="evil", origin="http://localhost:8000")).status_code == 403
    assert enrol(rita, type="webauthn.get").status_code == 403
    assert keys(stage) == []


def test_a_challenge_is_consumed_by_its_first_answer_and_expires_after_two_minutes(stage, monkeypatch):
    rita = fresh(visitor(stage, "reviewer"))
    challenge = unbase64url(options_of(rita)["challenge"])
    assert rita.post("me/keys/enrol", name="x", credential=json.dumps(device().registration(b"x" * 32))).status_code
    answer = rita.post("me/keys/enrol", name="x", credential=json.dumps(device().registration(challenge)))
    assert answer.status_code == 409
    challenge = unbase64url(options_of(rita)["challenge"])
    late = timezone.now() + timedelta(seconds=121)
    monkeypatch.setattr("console.edge.http.timezone.now", lambda: late)
    answer = rita.post("me/keys/enrol", name="x", credential=json.dumps(device().registration(challenge)))
    assert answer.status_code == 409
    assert keys(stage) == []


def test_a_suspended_key_can_be_reinstated_only_by_others(stage):
    """B18: one person stops it at once; neither they nor the holder undoes it."""
    rita, ada = fresh(visitor(stage, "reviewer")), visitor(stage, "administrator")
    ben = visitor(stage, "administrator", name="ben@orchid")
    enrol(rita)
    path = f"people/approver-keys/{keys(stage)[0].id}/answer"
    ada.post(path, to="confirm")
    assert rita.post(f"me/keys/{keys(stage)[0].id}/stop").status_code == 302
    assert keys(stage)[0].state == "SUSPENDED"
    assert rita.post(path, to="restore").status_code == 403
    assert ada.post(path, to="restore").status_code == 302
    assert ada.post(path, to="suspend", reason="Lost.").status_code == 302
    assert ada.post(path, to="restore").status_code == 403
    assert ada.post(path, to="remove").status_code == 403
    assert ben.post(path, to="remove").status_code == 302
    assert keys(stage)[0].state == "REMOVED"


# Members


def test_an_administrator_requests_the_role_and_another_one_grants_it(stage):
    """B19: not for oneself alone."""
    ada, ben = visitor(stage, "administrator"), fresh(visitor(stage, "administrator", name="ben@orchid"))
    row = stage.person("administrator")
    path = f"people/{row.id}"
    ada.post(f"{path}/change", roles=["administrator", "reviewer"], groups="finance", password=PASSWORD)
    assert "Needs a second administrator" in words(ada.page(path))
    assert ada.post(f"{path}/answer", to="confirm").status_code == 403
    with tenancy(stage.tenant):
        assert approvers.approver(stage.tenant, row.actor_id) is None
    assert ben.post(f"{path}/answer", to="confirm").status_code == 302
    with tenancy(stage.tenant):
        assert approvers.approver(stage.tenant, row.actor_id).groups == ["finance"]


PROOF = "This grants approval rights. Confirm with your password or a one-time code."


def test_granting_approval_rights_requires_proof_of_identity(stage):
    """A session that was left open gives nobody the power to approve, or the power to give it."""
    ada, row = visitor(stage, "administrator"), stage.person("operator")
    for roles, groups in ((["operator", "reviewer"], ""), (["operator", "administrator"], ""), (["reviewer"], "night")):
        refused = ada.post(f"people/{row.id}/change", roles=roles, groups=groups)
        assert refused.status_code == 403
        assert PROOF in words(refused.content.decode())
        assert f'value="{roles[-1]}"' in refused.content.decode()
    wrong = ada.post(f"people/{row.id}/change", roles=["operator", "reviewer"], groups="", password="guessed")
    assert "This is not your password." in words(wrong.content.decode())
    row.refresh_from_db()
    assert not row.is_reviewer
    sent = {"roles": ["operator", "reviewer"], "groups": "", "password": PASSWORD}
    assert ada.post(f"people/{row.id}/change", **sent).status_code == 302
    row.refresh_from_db()
    assert row.is_reviewer
    # More groups are more power; fewer are none.
    assert ada.post(f"people/{row.id}/change", roles=["operator", "reviewer"], groups="finance").status_code == 403
    assert ada.post(f"people/{row.id}/change", roles=["operator"], groups="").status_code == 302


def test_every_invitation_with_approval_rights_requires_proof_of_identity(stage):
    ada = visitor(stage, "administrator")
    asked = {"email": "kim@corp.example", "name": "Kim", "roles": ["reviewer"], "groups": ""}
    refused = ada.post("people/invite", **asked)
    assert refused.status_code == 403
    assert PROOF in words(refused.content.decode())
    assert not Membership.objects.filter(user__username="kim@corp.example").exists()
    assert ada.post("people/invite", **asked, password=PASSWORD).status_code == 200
    row = Membership.objects.get(user__username="kim@corp.example")
    again = ada.post(f"people/{row.id}/invite-again")
    assert again["Location"].startswith("/sign-in/again?next=")
    assert b"/invitation/" in fresh(ada).post(f"people/{row.id}/invite-again").content


def test_a_second_administrator_needs_proof_to_confirm(stage):
    ada, ben = visitor(stage, "administrator"), visitor(stage, "administrator", name="ben@orchid")
    row = stage.person("administrator")
    sent = {"roles": ["administrator", "reviewer"], "groups": "", "password": PASSWORD}
    ada.post(f"people/{row.id}/change", **sent)
    asked = ben.post(f"people/{row.id}/answer", to="confirm")
    assert asked["Location"].startswith("/sign-in/again?next=")
    row.refresh_from_db()
    assert not row.is_reviewer
    fresh(ben).post(f"people/{row.id}/answer", to="confirm")
    row.refresh_from_db()
    assert row.is_reviewer


def test_delegating_requires_proof_and_keeps_the_typed_text(stage):
    rita, omar = visitor(stage, "reviewer"), stage.person("reviewer", name="omar@orchid")
    today, later = timezone.now().date().isoformat(), (timezone.now() + timedelta(days=5)).date().isoformat()
    lend = {"to": str(omar.actor_id), "starts": today, "ends": later, "groups": ["reviewers"], "reason": "My dentist."}
    refused = rita.post("me/delegations", **lend)
    assert refused.status_code == 403
    said = "Delegating gives somebody the power to approve. Confirm with your password or a one-time code."
    assert said in words(refused.content.decode())
    assert "My dentist." in refused.content.decode()
    with tenancy(stage.tenant):
        assert not approvers.delegations_to(stage.tenant, omar.actor_id, timezone.now())


def test_the_api_requires_the_same_proof(stage):
    from tests.support.callers import Api

    ada, row = Api(visitor(stage, "administrator").client, {}), stage.person("operator")
    wanted = {"roles": ["reviewer"], "groups": []}
    refused = ada.post(f"/members/{row.id}/roles", wanted)
    assert (refused.status_code, refused.json()["code"]) == (403, "STEP_UP_REQUIRED")
    assert refused.json()["detail"] == PROOF
    assert ada.post(f"/members/{row.id}/roles", wanted | {"password": "guessed"}).status_code == 403
    assert ada.post(f"/members/{row.id}/roles", wanted | {"password": PASSWORD}).status_code == 200


def test_only_administrators_can_change_members(stage):
    row = stage.person("operator")
    for role in ("reviewer", "compliance"):
        other = visitor(stage, role)
        assert other.get("people").status_code == 200
        assert "Invite member" not in other.page("people")
        assert 'id="machines"' not in other.page("people")
        for path in ("people/invite", f"people/{row.id}/change", f"people/{row.id}/remove", "people/keys/create"):
            assert other.post(path, reason="x").status_code == 403, path
    assert visitor(stage, "operator").get("people").status_code == 403


def test_a_member_is_invited_joins_and_is_removed(stage):
    ada = visitor(stage, "administrator")
    answer = ada.post("people/invite", email="nell@corp.example", name="Nell", roles=["operator"], groups="")
    link = re.search(r"/invitation/[\w-]+", answer.content.decode())
    assert link
    newcomer = Client()
    assert b"nell@corp.example" in newcomer.get(link.group(0)).content
    assert newcomer.post(link.group(0), {"password": "short"}).status_code == 422
    assert newcomer.post(link.group(0), {"password": "a long enough password"})["Location"] == "/sign-in"
    assert newcomer.get(link.group(0)).status_code == 410
    signed = newcomer.post("/sign-in", {"username": "nell@corp.example", "password": "a long enough password"})
    assert signed.status_code == 302
    assert newcomer.get("/t/orchid/").status_code == 200
    row = Membership.objects.get(user__username="nell@corp.example")
    assert ada.post(f"people/{row.id}/remove", reason="Left.").status_code == 302
    assert newcomer.get("/t/orchid/").status_code == 404


def test_a_person_known_in_another_tenant_accepts_while_signed_in(stage):
    willow = set_up("willow")
    known = visitor(willow, "operator", name="kim@corp.example")
    answer = visitor(stage, "administrator").post("people/invite", email="kim@corp.example", roles=["operator"])
    page = answer.content.decode()
    link = re.search(r"/invitation/[\w-]+", page)
    assert link
    assert Client().get(link.group(0))["Location"] == "/"
    assert "Kim" not in words(visitor(stage, "administrator").page("people")), "their name is another tenant's"
    door = known.client.get("/").content.decode()
    assert "Orchid has invited you" in words(door)
    accept = re.search(r"/invitations/[0-9a-f-]+/accept", door)
    assert accept
    assert visitor(stage, "operator").client.post(accept.group(0)).status_code == 404
    assert known.client.post(accept.group(0)).status_code == 302
    assert known.client.get("/t/orchid/").status_code == 200


def test_an_invitation_cannot_take_over_a_single_sign_on_account(stage):
    """It has no password, and an invitation from another tenant must not give it one."""
    willow = set_up("willow")
    row = willow.person("operator", name="kim@corp.example")
    User.objects.get(id=row.user_id).set_unusable_password()
    User.objects.filter(id=row.user_id).update(password="!")
    answer = visitor(stage, "administrator").post("people/invite", email="kim@corp.example", roles=["operator"])
    link = re.search(r"/invitation/[\w-]+", answer.content.decode())
    assert link
    assert Client().post(link.group(0), {"password": "a long enough password"})["Location"] == "/"
    assert not User.objects.get(id=row.user_id).has_usable_password()


# Machines


def test_a_machine_key_is_shown_once_and_revoked_at_once(stage):
    ada = visitor(stage, "administrator")
    page = ada.post("people/keys/create", kind="exec", name="Night runner", only_for="issue_refund", days="30")
    secret = re.search(r"cf_exec_[\w-]+", page.content.decode())
    assert secret
    assert secret.group(0) not in ada.page("people")
    row = ApiKey.objects.get(name="Night runner")
    assert row.scopes == ["tool:issue_refund"]
    header = {"Authorization": f"Bearer {secret.group(0)}"}
    assert Client().get("/api/v1/executions/ready?tools=issue_refund", headers=header).status_code == 200
    assert ada.post(f"people/keys/{row.id}/revoke", reason="Done.").status_code == 302
    assert Client().get("/api/v1/executions/ready?tools=issue_refund", headers=header).status_code == 401


# My account


def test_a_person_can_set_an_absence_and_a_delegate(stage):
    rita, omar = visitor(stage, "reviewer"), stage.person("reviewer", name="omar@orchid")
    today, later = timezone.now().date().isoformat(), (timezone.now() + timedelta(days=5)).date().isoformat()
    assert rita.post("me/absences", starts=today, ends=later).status_code == 302
    lend = {"to": str(omar.actor_id), "starts": today, "ends": later, "groups": ["reviewers"], "reason": "Away."}
    assert rita.post("me/delegations", **lend, password=PASSWORD).status_code == 302
    with tenancy(stage.tenant):
        row = stage.person("reviewer")
        assert approvers.is_absent(stage.tenant, row.actor_id, timezone.now())
        (loan,) = approvers.delegations_to(stage.tenant, omar.actor_id, timezone.now())
    assert "To Omar" in words(rita.page("me"))
    assert "away" in words(rita.page("people"))
    other = visitor(stage, "operator")
    assert other.post(f"me/delegations/{loan.id}/end").status_code == 404
    assert visitor(stage, "reviewer", name="omar@orchid").post(f"me/delegations/{loan.id}/end").status_code == 302


def test_a_delegation_over_thirty_days_is_refused_in_one_sentence(stage):
    rita, omar = visitor(stage, "reviewer"), stage.person("reviewer", name="omar@orchid")
    today, later = timezone.now().date().isoformat(), (timezone.now() + timedelta(days=40)).date().isoformat()
    answer = rita.post("me/delegations", to=str(omar.actor_id), starts=today, ends=later, groups=["reviewers"])
    assert answer.status_code == 422
    assert b"thirty days at most" in answer.content
    assert PASSWORD not in answer.content.decode()
