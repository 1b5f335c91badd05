"""Who belongs to a tenant: invited, changed, linked, removed, each on record, and what the roster makes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.operations.refusal_records import write_refusal_records
from approvals.voting.queries import approvers
from approvals.voting.rules import passkeys
from console.accounts import operations as directory
from console.accounts.members import operations as people
from console.accounts.members import queries as members_queries
from console.models import Membership, User
from ledger.db import tenancy
from ledger.people.rules.confirmation import Answer, SecondPersonNeeded
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.rules.refusals import NotFound
from tests.conftest import _new_tenant

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def add(tenant: UUID, name: str, *roles: str, groups: tuple[str, ...] = ()) -> Membership:
    return directory.add_member(
        tenant_id=tenant,
        username=f"{name}@corp.example",
        password="correct horse battery",
        name=name.title(),
        roles=frozenset(roles),
        groups=groups,
        by=ledger.SYSTEM,
        at=NOW,
    )


@pytest.fixture
def here(tenant: UUID) -> Any:
    with tenancy(tenant):
        yield tenant


@pytest.fixture
def ada(here: UUID) -> Membership:
    return add(here, "ada", "administrator")


@pytest.fixture
def ben(here: UUID) -> Membership:
    return add(here, "ben", "administrator")


@pytest.fixture
def rita(here: UUID) -> Membership:
    return add(here, "rita", "reviewer", groups=("finance",))


def by(row: Membership) -> dict[str, Any]:
    return {"by": ledger.Actor("person", row.actor_id), "at": NOW}


def and_person(row: Membership) -> dict[str, Any]:
    return by(row) | {"by_person": Membership.objects.get(id=row.id).person_id}


def change(who: Membership, doer: Membership, *roles: str, groups: tuple[str, ...] = ()) -> bool:
    known = {"tenant_id": who.tenant_id, "member_id": who.id}
    return people.change_member(**known, roles=roles, groups=groups, **and_person(doer), is_proven=True)


def confirm(who: Membership, doer: Membership, answer: bool = True) -> None:
    known, said = {"tenant_id": who.tenant_id, "member_id": who.id}, Answer.CONFIRM if answer else Answer.DECLINE
    people.answer_proposal(**known, answer=said, **by(doer), is_proven=True)


def events(row: Membership) -> list[str]:
    return [event.kind for event, _, _ in events_queries.history(row.tenant_id, row.id)]


def decides(row: Membership) -> bool:
    return row.actor_id in {each.actor_id for each in approvers.approvers(row.tenant_id)}


def a_key(row: Membership, *, confirmed_by: Membership | None) -> Any:
    registered = passkeys.RegisteredKey(
        credential_id=f"key-{row.actor_id}", public_key=b"k", aaguid=bytes(16), sign_count=0, backup_eligible=False
    )
    key = approver_keys.enrol(
        tenant_id=row.tenant_id,
        by=ledger.Actor("person", row.actor_id),
        person_id=row.person_id,
        name="Key",
        registered=registered,
        registration=b"{}",
        at=NOW,
    )
    if confirmed_by is not None:
        person, actor = confirmed_by.person_id, ledger.Actor("person", confirmed_by.actor_id)
        approver_keys.confirm(tenant_id=row.tenant_id, key_id=key.id, by=actor, person_id=person, at=NOW)
    return key


# The roster


def test_a_reviewer_is_an_approver_with_their_groups(rita, ada):
    found = approvers.approver(rita.tenant_id, rita.actor_id)
    assert (found.active, found.groups, found.person_id) == (True, ["finance"], rita.person_id)
    assert not decides(ada)


def test_a_reviewer_who_loses_the_role_decides_nothing(rita, ada):
    """B18: role removed; the key that they signed with stops, and what they lent ends."""
    key = a_key(rita, confirmed_by=ada)
    other = add(rita.tenant_id, "omar", "reviewer")
    loan = delegations.add_delegation(
        tenant_id=rita.tenant_id,
        from_actor=rita.actor_id,
        to_actor=other.actor_id,
        groups=["finance"],
        tools=[],
        starts_at=NOW,
        ends_at=NOW + DAY,
        reason="",
        **and_person(rita),
        is_proven=True,
    )
    assert change(rita, ada, "operator")
    assert not decides(rita)
    assert approvers.approver_keys(rita.tenant_id, actor_id=rita.actor_id)[0].state == "SUSPENDED"
    assert approvers.delegations_to(rita.tenant_id, other.actor_id, NOW) == []
    assert [event.kind for event, _, _ in events_queries.history(rita.tenant_id, key.id)][-1] == "key_suspended"
    assert [event.kind for event, _, _ in events_queries.history(rita.tenant_id, loan.id)][-1] == "delegation_ended"
    assert events(rita)[-1] == "roles_changed"


def test_a_closed_account_decides_nothing_in_any_tenant(rita):
    """B18: disabled; and opened again, it decides again, with a key that somebody must restore."""
    elsewhere = _new_tenant("willow")
    second = add(elsewhere, "rita", "reviewer")
    people.set_account_open(user=rita.user, is_open=False, at=NOW)
    assert not decides(rita)
    with tenancy(elsewhere):
        assert not decides(second)
        assert events(second)[-1] == "account_closed"
    people.set_account_open(user=rita.user, is_open=True, at=NOW)
    with tenancy(rita.tenant_id):
        assert decides(rita)
        assert events(rita)[-2:] == ["account_closed", "account_opened"]


def test_a_removed_member_loses_their_rights_and_keeps_the_pseudonym_when_invited_again(rita, ada):
    a_key(rita, confirmed_by=None)
    people.remove_member(tenant_id=rita.tenant_id, member_id=rita.id, reason="Left.", **by(ada))
    assert not decides(rita)
    assert approvers.approver_keys(rita.tenant_id, actor_id=rita.actor_id)[0].state == "REFUSED"
    asked = {"email": "rita@corp.example", "name": "Rita", "roles": ["reviewer"], "groups": []}
    row, _ = people.invite_member(tenant_id=rita.tenant_id, **asked, **by(ada), is_proven=True)
    assert (row.id, row.actor_id) == (rita.id, rita.actor_id)
    assert not decides(rita)
    people.join_tenant(tenant_id=rita.tenant_id, member_id=row.id, user=rita.user, at=NOW)
    assert decides(rita)
    assert events(rita) == ["member_added", "member_removed", "member_invited", "member_joined"]


# Power for oneself


def test_an_administrator_cannot_make_themselves_a_reviewer_alone(ada, ben):
    assert not change(ada, ada, "administrator", "reviewer")
    assert not decides(ada)
    with pytest.raises(SecondPersonNeeded) as refused:
        confirm(ada, ada)
    write_refusal_records(ada.tenant_id, refused.value.records)
    assert not decides(ada)
    confirm(ada, ben)
    assert decides(ada)
    assert events(ada)[1:] == ["roles_proposed", "proposal_not_confirmed", "roles_changed"]


def test_an_administrator_cannot_make_themselves_a_reviewer_through_a_second_account(ada, ben):
    """B19: the other account is the same person's, so it is oneself."""
    other = add(ada.tenant_id, "ada-2", "administrator")
    people.link_accounts(tenant_id=ada.tenant_id, member_ids=[ada.id, other.id], **by(ben))
    other.refresh_from_db()
    assert not change(ada, other, "administrator", "reviewer")
    with pytest.raises(SecondPersonNeeded):
        confirm(ada, other)
    assert not decides(ada)


def test_an_administrator_cannot_add_themselves_to_a_group_alone(ben):
    cyd = add(ben.tenant_id, "cyd", "administrator", "reviewer")
    assert not change(cyd, cyd, "administrator", "reviewer", groups=("finance",))
    assert approvers.approver(cyd.tenant_id, cyd.actor_id).groups == []
    confirm(cyd, ben, answer=False)
    assert Membership.objects.get(id=cyd.id).proposal is None
    assert change(cyd, ben, "administrator", "reviewer", groups=("finance",))


def test_the_last_administrator_cannot_be_removed_or_demoted(ada):
    with pytest.raises(people.LastAdministrator):
        change(ada, ada, "operator")
    with pytest.raises(people.LastAdministrator):
        people.remove_member(tenant_id=ada.tenant_id, member_id=ada.id, reason="", **by(ada))
    add(ada.tenant_id, "ben", "administrator")
    assert change(ada, ada, "operator")


# Invitations


def test_an_invited_member_has_no_rights_until_they_accept(here, ada):
    asked = {"email": "New@Corp.Example", "name": "Nell New", "roles": ["reviewer"], "groups": ["finance"]}
    row, token = people.invite_member(tenant_id=here, **asked, **by(ada), is_proven=True)
    assert row.user.username == "new@corp.example"
    assert not decides(row)
    people.accept_invitation(token=token, password="a long enough password", at=NOW + DAY)
    assert decides(row)
    assert User.objects.get(id=row.user_id).check_password("a long enough password")
    with pytest.raises(people.InvitationSpent):
        people.accept_invitation(token=token, password="another long password", at=NOW + DAY)


def test_an_invitation_expires_and_is_replaced_by_the_next_one(here, ada):
    row, first = people.invite_member(tenant_id=here, email="n@corp.example", name="", roles=[], groups=[], **by(ada))
    second = people.renew_invitation(tenant_id=here, member_id=row.id, **by(ada))
    for token, at in ((first, NOW), (second, NOW + 7 * DAY), ("", NOW)):
        with pytest.raises(people.InvitationSpent):
            people.accept_invitation(token=token, password="a long enough password", at=at)
    assert first not in str(Membership.objects.values_list("invite_hash"))


def test_an_invitation_never_sets_the_password_of_an_account_that_has_one(here, ada, other_tenant):
    """Else an administrator could take over the account of anybody whose address they know."""
    known = add(other_tenant, "kim", "operator")
    row, token = people.invite_member(
        tenant_id=here, email="kim@corp.example", name="X", roles=[], groups=[], **by(ada)
    )
    with pytest.raises(people.InvitationSpent):
        people.accept_invitation(token=token, password="a long enough password", at=NOW)
    assert row.user_id == known.user_id
    assert [each.id for each in members_queries.pending_invitations(known.user)] == [row.id]
    people.join_tenant(tenant_id=here, member_id=row.id, user=known.user, at=NOW)
    with pytest.raises(NotFound, match="Member not found"):
        people.join_tenant(tenant_id=here, member_id=row.id, user=ada.user, at=NOW)


def test_a_member_cannot_be_invited_twice(here, ada):
    people.invite_member(tenant_id=here, email="n@corp.example", name="", roles=[], groups=[], **by(ada))
    with pytest.raises(people.AlreadyMember):
        people.invite_member(tenant_id=here, email="N@corp.example", name="", roles=[], groups=[], **by(ada))


# One human behind several accounts


def test_accounts_with_the_same_verified_address_are_one_person_at_once(rita, here):
    other = add(here, "rita-2", "reviewer")
    for row in (rita, other):
        people.note_verified_email(user=row.user, email="rita@home.example", at=NOW)
    assert approvers.approver(here, other.actor_id).person_id == approvers.approver(here, rita.actor_id).person_id
    assert "accounts_linked" in events(other) + events(rita)


def test_separating_accounts_takes_two_people_other_than_their_owner(rita, here, ada, ben):
    other = add(here, "rita-2", "reviewer")
    people.link_accounts(tenant_id=here, member_ids=[rita.id, other.id], **by(ada))
    assert Membership.objects.get(id=other.id).person_id == rita.person_id
    people.propose_separation(tenant_id=here, member_id=other.id, **and_person(ada))
    with pytest.raises(SecondPersonNeeded):
        confirm(other, ada)
    confirm(other, ben)
    assert approvers.approver(here, other.actor_id).person_id == other.actor_id
    assert events(other)[-2:] == ["separation_proposed", "accounts_separated"]


def test_a_second_account_of_the_same_person_cannot_confirm_a_key(rita, here, ada):
    """B23: a second account confirms no key of the first."""
    other = add(here, "rita-2", "administrator")
    key = a_key(rita, confirmed_by=None)
    people.link_accounts(tenant_id=here, member_ids=[rita.id, other.id], **by(ada))
    other.refresh_from_db()
    with pytest.raises(SecondPersonNeeded):
        approver_keys.confirm(
            tenant_id=here,
            key_id=key.id,
            by=ledger.Actor("person", other.actor_id),
            person_id=other.person_id,
            at=NOW,
        )


def test_the_owner_of_a_one_person_installation_can_do_alone_what_takes_two(ada, here, capsys):
    """And the record says that it was the console, not a second person."""
    call_command("member", "ada@corp.example", tenant="orchid", roles="administrator,reviewer", groups="finance")
    assert approvers.approver(here, ada.actor_id).groups == ["finance"]
    key = a_key(ada, confirmed_by=None)
    call_command("member", "ada@corp.example", tenant="orchid", confirm_keys=True)
    assert approvers.approver_keys(here, actor_id=ada.actor_id)[0].state == "ACTIVE"
    event, _, detail = events_queries.history(here, key.id)[-1]
    assert (event.kind, detail["person"]) == ("key_confirmed", str(ledger.SYSTEM.id))
    call_command("member", "ada@corp.example", tenant="orchid", close=True)
    assert not decides(ada)
    with pytest.raises(CommandError, match="There is no member nobody in the tenant orchid"):
        call_command("member", "nobody", tenant="orchid", close=True)
