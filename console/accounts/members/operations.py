"""The members of a tenant: invited, changed and removed, each an event of the member's own subject.

Nobody makes themselves an approver: a role of a reviewer, or a group, that an administrator would give to their own
person waits for a second administrator (B19, B23). The roster of approvers changes in the same transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from allauth.account.models import EmailAddress

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.operations import approvers as approvers_operations
from approvals.voting.queries import approvers
from approvals.voting.rules import passkeys
from console.accounts.addresses import appearance, check_address, normal_form
from console.accounts.members import queries as members_queries
from console.accounts.members.rules import (
    NOTHING,
    ROLES,
    MemberRoles,
    current_roles,
    is_self_promotion,
    password_digest,
)
from console.models import Membership, User
from ledger.db import tenancy
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer, SecondPersonNeeded, check_answer
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.canonical import digest
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, NothingProposed, ProofNeeded, Refused

INVITED_FOR = timedelta(days=7)
TOKEN_BYTES = 32


class AlreadyMember(Refused):
    """This person is already a member or has already been invited."""

    code = "MEMBER_ALREADY"


class InvitationSpent(Refused):
    """This invitation was used, withdrawn or has expired; ask for a new one."""

    code = "INVITATION_SPENT"
    status = 410


class LastAdministrator(Refused):
    """This is the last administrator; appoint another one first."""

    code = "LAST_ADMINISTRATOR"


class LooksLikeMember(Refused):
    """This address is easily taken for that of another member."""

    code = "LOOKS_LIKE_MEMBER"


class NoApprover(Refused):
    """Only approvers have approval passkeys: this person is not a reviewer."""

    code = "NO_APPROVER"
    status = 403


class AlreadyLinked(Refused):
    """These accounts are already linked."""

    code = "ONE_PERSON_ALREADY"


def person_of(tenant_id: UUID, actor_id: UUID) -> UUID:
    """The human behind an account, for rules that require another person."""
    row = members_queries.member_by_pseudonym(tenant_id, actor_id)
    if row is None:
        raise NotFound("Member")
    return row.person_id


def add_membership(
    *,
    tenant_id: UUID,
    user: User,
    change: MemberRoles,
    by: ledger.Actor,
    joined: bool,
    at: datetime,
) -> Membership:
    """Add a membership; a removed member gets their old one back, with the same pseudonym."""
    with tenancy(tenant_id):
        row = Membership.objects.select_for_update().filter(tenant_id=tenant_id, user=user).first()
        if row is not None and row.removed_at is None:
            raise AlreadyMember
        if row is None:
            row = Membership(id=ledger.new_id(at), tenant_id=tenant_id, user=user, actor_id=uuid4())
            row.person_id = row.actor_id
        row.removed_at, row.joined_at, row.proposal = None, at if joined else None, None
        row.given_by = by.id if "reviewer" in change.roles and by.kind == "person" else None
        _write(row, change)
        row.save()
        kind = "member_added" if joined else "member_invited"
        detail = {"actor": str(row.actor_id), "roles": sorted(change.roles), "groups": sorted(change.groups)}
        _say(row, kind, detail | (_password_of(user) if joined else {}), by, to="ACTIVE", at=at)
        if joined:
            _enrol(row, at=at)
            link_by_email(user=user, at=at)
    return row


def invite_member(
    *,
    tenant_id: UUID,
    email: str,
    name: str,
    roles: Collection[str],
    groups: Collection[str],
    by: ledger.Actor,
    at: datetime,
    is_proven: bool = False,
) -> tuple[Membership, str]:
    """Invite a member; the text of the invitation is returned once and only its hash is stored.

    `is_proven`: whoever asks has just shown who they are. Without it nobody gives power over approvals.
    """
    change = MemberRoles.of(roles, groups)
    _check_proof(is_proven, change, NOTHING)
    address = check_address(email)
    _check_appearance(tenant_id, address)
    user = User.objects.filter(username=address).first()
    if user is None:
        first, _, last = name.partition(" ")
        user = User.objects.create_user(username=address, password=None, first_name=first, last_name=last)
    row = add_membership(tenant_id=tenant_id, user=user, change=change, by=by, joined=False, at=at)
    return row, _invitation(row, at=at)


def _check_appearance(tenant_id: UUID, address: str) -> None:
    """Refuse an address that is confusable with that of a member or an invited person."""
    seen = appearance(address)
    for row in members_queries.members(tenant_id):
        known = row.user.get_username()
        if known != address and appearance(known) == seen:
            raise LooksLikeMember(
                f"{address} is easily taken for {known}, which belongs to a member. Check the spelling; if it is"
                " somebody else, invite them under an address that cannot be mistaken."
            )


def renew_invitation(
    *, tenant_id: UUID, member_id: UUID, by: ledger.Actor, at: datetime, is_proven: bool = False
) -> str:
    """Create another invitation for an invited person; the earlier one becomes invalid.

    Whoever holds an invitation comes in with its power, so making one takes the proof that giving the power takes.
    """
    row = _lock_member(tenant_id, member_id)
    _check_proof(is_proven, current_roles(row), NOTHING)
    if row.joined_at is not None:
        raise AlreadyMember("This person has already joined. The owner of the installation can reset a lost password.")
    _say(row, "member_invited_again", {}, by, at=at)
    return _invitation(row, at=at)


def accept_invitation(*, token: str, password: str, at: datetime) -> Membership:
    """Accept an invitation: set a password and become a member."""
    found = members_queries.invited_member(token, at=at)
    if found is None or not members_queries.is_unused_account(found.user):
        raise InvitationSpent
    found.user.set_password(password)
    found.user.save(update_fields=["password"])
    return join_tenant(tenant_id=found.tenant_id, member_id=found.id, user=found.user, at=at)


def join_tenant(*, tenant_id: UUID, member_id: UUID, user: User, at: datetime) -> Membership:
    """Accept an invitation as an existing account."""
    with tenancy(tenant_id):
        row = _lock_member(tenant_id, member_id)
        if row.user_id != user.id:
            raise NotFound("Member")
        if row.joined_at is not None:
            raise InvitationSpent
        row.joined_at, row.invite_hash, row.invite_until = at, "", None
        row.save(update_fields=["joined_at", "invite_hash", "invite_until"])
        _say(row, "member_joined", _password_of(row.user), ledger.Actor("person", row.actor_id), at=at)
        _enrol(row, at=at)
        link_by_email(user=user, at=at)
    return row


def record_password(*, user: User, at: datetime) -> None:
    """Record in every tenant of an account that its password was set, or its stored hash renewed."""
    for row in Membership.objects.filter(user=user, joined_at__isnull=False, removed_at__isnull=True):
        with tenancy(row.tenant_id):
            _say(row, "password_changed", _password_of(user), ledger.Actor("person", row.actor_id), at=at)


def _password_of(user: User) -> dict[str, Any]:
    return {"password": password_digest(user.password, secrets.token_bytes(16))}


def change_member(
    *,
    tenant_id: UUID,
    member_id: UUID,
    roles: Collection[str],
    groups: Collection[str],
    by: ledger.Actor,
    by_person: UUID,
    at: datetime,
    is_proven: bool = False,
) -> bool:
    """Change a member's roles and groups; return False if a second administrator must confirm it first."""
    row = _lock_member(tenant_id, member_id)
    now, wanted = current_roles(row), MemberRoles.of(roles, groups)
    _check_proof(is_proven, wanted, now)
    if is_self_promotion(now, wanted, person=row.person_id, by_person=by_person):
        _propose(row, {"what": "roles", **wanted.document()}, "roles_proposed", by, by_person, at=at)
        return False
    _change(row, wanted, by, at=at)
    return True


def answer_proposal(
    *, tenant_id: UUID, member_id: UUID, answer: Answer, by: ledger.Actor, is_proven: bool = False, at: datetime
) -> None:
    """Confirm or decline a proposal about a member as the second administrator; its proposer may decline it."""
    row = _lock_member(tenant_id, member_id)
    if row.proposal is None:
        raise NothingProposed("There is nothing to confirm for this person.")
    asked: dict[str, Any] = row.proposal
    note = {"code": SecondPersonNeeded.code, "what": asked["what"]}
    check_answer(
        "member",
        answer,
        by_kind=by.kind,
        is_proposer=any(is_same_person(tenant_id, each, by.id) for each in (UUID(asked["by"]), row.actor_id)),
        is_proven=is_proven,
        reason="",
        proposed_at=datetime.fromisoformat(asked["at"]),
        at=at,
        records=(_unconfirmed_event(row, note, by, at=at),),
    )
    row.proposal = None
    row.save(update_fields=["proposal"])
    if answer is not Answer.CONFIRM:
        _say(row, "proposal_refused", {"what": asked["what"]}, by, at=at)
    elif asked["what"] == "roles":
        _change(row, MemberRoles.of(asked["roles"], asked["groups"]), by, at=at)
    else:
        _separate(row, by, at=at)


def remove_member(*, tenant_id: UUID, member_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Remove a member: their delegations end, their keys are revoked, and their sessions reach no page."""
    row = _lock_member(tenant_id, member_id)
    _keep_an_administrator(row, still=False)
    row.removed_at, row.proposal, row.invite_hash = at, None, ""
    row.save(update_fields=["removed_at", "proposal", "invite_hash"])
    _say(row, "member_removed", {"reason": reason}, by, to="REMOVED", at=at)
    _dismiss(row, by, "The person was removed.", at=at)


def set_account_open(*, user: User, is_open: bool, at: datetime) -> None:
    """Close an account everywhere, or reopen it; a closed one is no approver from this moment (B18)."""
    User.objects.filter(id=user.id).update(is_active=is_open)
    for row in Membership.objects.filter(user=user, removed_at__isnull=True).order_by("tenant_id"):
        with tenancy(row.tenant_id):
            here = _lock_member(row.tenant_id, row.id)
            _say(here, "account_opened" if is_open else "account_closed", {}, ledger.SYSTEM, at=at)
            if is_open:
                _enrol(here, at=at)
            else:
                _dismiss(here, ledger.SYSTEM, "The account was closed.", at=at)


def link_accounts(*, tenant_id: UUID, member_ids: Iterable[UUID], by: ledger.Actor, at: datetime) -> UUID:
    """Link accounts of one human: they count as one person in every quorum, and cannot decide on each other's
    requests.
    """
    rows = [_lock_member(tenant_id, member_id) for member_id in sorted(set(member_ids))]
    if len(rows) < 2 or len({row.person_id for row in rows}) == 1:
        raise AlreadyLinked
    return _link(rows, by, "by_hand", at=at)


def propose_separation(*, tenant_id: UUID, member_id: UUID, by: ledger.Actor, by_person: UUID, at: datetime) -> None:
    """Propose that an account be treated as another human's again; a second administrator decides."""
    row = _lock_member(tenant_id, member_id)
    others = Membership.objects.filter(tenant_id=tenant_id, person_id=row.person_id).exclude(id=row.id)
    if not others.exists():
        raise NothingProposed("This account is not linked to another.")
    _propose(row, {"what": "separation"}, "separation_proposed", by, by_person, at=at)


def note_verified_email(*, user: User, email: str, at: datetime) -> None:
    """Keep that an address was shown to be this person's; accounts with the same are one human's at once."""
    EmailAddress.objects.update_or_create(user=user, email=normal_form(email), defaults={"verified": True})
    link_by_email(user=user, at=at)


def link_by_email(*, user: User, at: datetime) -> None:
    """Link this account, in every tenant, with those that share a verified address with it."""
    for rows in members_queries.accounts_sharing_email(user):
        with tenancy(rows[0].tenant_id):
            fresh = [_lock_member(row.tenant_id, row.id) for row in rows]
            if len({row.person_id for row in fresh}) > 1:
                _link(fresh, ledger.SYSTEM, "by_verified_email", at=at)


# Keys


def enrol_key(
    *,
    tenant_id: UUID,
    by: ledger.Actor,
    name: str,
    registered: passkeys.RegisteredKey,
    registration: bytes,
    at: datetime,
) -> Any:
    """Enrol an own passkey. It cannot be done for another person (B23)."""
    known = approvers.approver(tenant_id, by.id)
    if known is None or not known.active:
        raise NoApprover
    return approver_keys.enrol(
        tenant_id=tenant_id,
        by=by,
        person_id=known.person_id,
        name=name or "Passkey",
        registered=registered,
        registration=registration,
        at=at,
    )


def confirm_key(*, tenant_id: UUID, key_id: UUID, by: ledger.Actor, by_person: UUID, at: datetime) -> None:
    """Confirm that a key belongs to its holder; not by the person who made the holder an approver, who could have
    invented them (B23).
    """
    key = approvers.approver_key_by_id(tenant_id, key_id)
    holder = members_queries.member_by_pseudonym(tenant_id, key.actor_id) if key else None
    giver = members_queries.member_by_pseudonym(tenant_id, holder.given_by) if holder and holder.given_by else None
    if holder is not None and giver is not None and giver.person_id == by_person:
        note = {"code": SecondPersonNeeded.code, "what": "key", "key_id": str(key_id)}
        raise SecondPersonNeeded(
            "The person who made them an approver cannot also confirm their passkey.",
            records=(_unconfirmed_event(holder, note, by, at=at),),
        )
    approver_keys.confirm(tenant_id=tenant_id, key_id=key_id, by=by, person_id=by_person, at=at)


# Parts


def _lock_member(tenant_id: UUID, member_id: UUID) -> Membership:
    here = Membership.objects.select_for_update(of=("self",)).select_related("user")
    row = here.filter(tenant_id=tenant_id, id=member_id, removed_at__isnull=True).first()
    if row is None:
        raise NotFound("Member")
    return row


def _write(row: Membership, change: MemberRoles) -> None:
    for role in ROLES:
        setattr(row, f"is_{role}", role in change.roles)
    row.groups = sorted(change.groups)


def _check_proof(is_proven: bool, wanted: MemberRoles, now: MemberRoles) -> None:
    if wanted.empowers(now) and not is_proven:
        raise ProofNeeded("This grants approval rights. Confirm with your password or a one-time code.")


def _change(row: Membership, wanted: MemberRoles, by: ledger.Actor, *, at: datetime) -> None:
    _keep_an_administrator(row, still="administrator" in wanted.roles)
    now = current_roles(row)
    if wanted.gains(now) and by.kind == "person":
        row.given_by = by.id
    _write(row, wanted)
    row.save()
    _say(row, "roles_changed", {"before": now.document(), "after": wanted.document()}, by, at=at)
    if "reviewer" in wanted.roles:
        _enrol(row, at=at)
    elif "reviewer" in now.roles:
        _dismiss(row, by, "The person is no longer a reviewer.", at=at)


def _propose(
    row: Membership, wanted: dict[str, Any], kind: str, by: ledger.Actor, by_person: UUID, *, at: datetime
) -> None:
    row.proposal = wanted | {"by": str(by.id), "by_person": str(by_person), "at": instant(at)}
    row.save(update_fields=["proposal"])
    _say(row, kind, wanted | {"by_person": str(by_person)}, by, at=at)


def _enrol(row: Membership, *, at: datetime) -> None:
    if _may_approve(row):
        tenant_id, actor_id = row.tenant_id, row.actor_id
        approvers_operations.add_approver(
            tenant_id=tenant_id, actor_id=actor_id, person_id=row.person_id, groups=row.groups, at=at
        )


def _dismiss(row: Membership, by: ledger.Actor, reason: str, *, at: datetime) -> None:
    """Remove a member from the roster, with everything that depends on the membership."""
    approvers_operations.remove_approver(tenant_id=row.tenant_id, actor_id=row.actor_id, at=at)
    delegations.end_all_delegations(tenant_id=row.tenant_id, actor_id=row.actor_id, by=by, at=at)
    acting = members_queries.member_by_pseudonym(row.tenant_id, by.id)
    for key in approvers.approver_keys(row.tenant_id, actor_id=row.actor_id, states=("ACTIVE", "PENDING")):
        known: dict[str, Any] = {"tenant_id": row.tenant_id, "key_id": key.id, "by": by, "reason": reason, "at": at}
        if key.state == "PENDING":
            approver_keys.refuse(**known)
        else:
            approver_keys.suspend(**known, person_id=acting.person_id if acting else None)


def _link(rows: list[Membership], by: ledger.Actor, how: str, *, at: datetime) -> UUID:
    """Link accounts as one human's; the oldest gives the name."""
    person = min(rows, key=lambda row: row.id).person_id
    people = {row.person_id for row in rows}
    for row in Membership.objects.filter(tenant_id=rows[0].tenant_id, person_id__in=people).exclude(person_id=person):
        told = {"how": how, "before": str(row.person_id), "person": str(person)}
        row.person_id = person
        row.save(update_fields=["person_id"])
        _say(row, "accounts_linked", told, by, at=at)
        approvers_operations.link_person(tenant_id=row.tenant_id, actor_id=row.actor_id, person_id=row.person_id, at=at)
    return person


def _separate(row: Membership, by: ledger.Actor, *, at: datetime) -> None:
    told = {"before": str(row.person_id), "person": str(row.actor_id)}
    row.person_id = row.actor_id
    row.save(update_fields=["person_id"])
    _say(row, "accounts_separated", told, by, at=at)
    approvers_operations.link_person(tenant_id=row.tenant_id, actor_id=row.actor_id, person_id=row.person_id, at=at)


def _keep_an_administrator(row: Membership, *, still: bool) -> None:
    if row.is_administrator and not still and not members_queries.has_other_administrator(row):
        raise LastAdministrator


def _invitation(row: Membership, *, at: datetime) -> str:
    token = secrets.token_urlsafe(TOKEN_BYTES)
    Membership.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        invite_hash=digest(token.encode()), invite_until=at + INVITED_FOR
    )
    return token


def _say(
    row: Membership, kind: str, detail: dict[str, Any], by: ledger.Actor, *, at: datetime, to: str | None = None
) -> None:
    """Append an event of the member's subject, which begins with their first membership."""
    is_known = events.subject_state(row.tenant_id, row.id) is not None
    head = (
        ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="member")
        if is_known
        else ledger.SubjectHead(tenant_id=row.tenant_id, id=row.id, kind="member")
    )
    ledger.append(head, ledger.NewEvent(kind=kind, to=to, detail={**_standing(row), **detail}), actor=by, at=at)


def _standing(row: Membership) -> dict[str, Any]:
    """Return the roles and state of a member; each of their events has them, so that the rows can be compared with the
    record.
    """
    return {
        "actor": str(row.actor_id),
        "person": str(row.person_id),
        "user": str(row.user_id),
        "groups": sorted(row.groups),
        "given_by": str(row.given_by) if row.given_by else None,
        "approver": _may_approve(row),
        "waits": row.proposal is not None,
    }


def _may_approve(row: Membership) -> bool:
    is_here = row.joined_at is not None and row.removed_at is None and row.user.is_active
    return row.is_reviewer and is_here


def _unconfirmed_event(
    row: Membership, detail: dict[str, Any], by: ledger.Actor, *, at: datetime
) -> ledger.RefusedEvent:
    """Return the event of a proposal that could not be confirmed, for the member's record."""
    return ledger.RefusedEvent(
        subject_kind="member",
        subject_id=row.id,
        event=ledger.NewEvent(kind="proposal_not_confirmed", detail={**_standing(row), **detail}),
        actor=by,
        at=at,
    )
