"""Writes of the directory: people, keys, and the answers that repeats of a write get."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from allauth.usersessions.models import UserSession
from axes.models import AccessLog
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef

from approvals.voting.operations import approvers
from console.accounts import queries as accounts_queries
from console.accounts.addresses import normal_form
from console.accounts.known_keys import forget_keys
from console.accounts.machine_keys import KEY_KINDS as KEY_KINDS
from console.accounts.machine_keys import new_key
from console.accounts.members import operations as people
from console.accounts.members.rules import ROLES as ROLES
from console.accounts.members.rules import MemberRoles
from console.models import ApiKey, Membership, SavedView, User
from ledger.db import defer, execute, pipeline, tenancy
from ledger.record import operations as ledger
from ledger.record.queries.work import HELD_TENANTS
from ledger.record.rules import encryption
from ledger.record.rules.canonical import digest
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ledger.models import Evidence

# What the scopes of a key may narrow: an executor's to tools, an agent's to agents; `tool:issue_refund`.
SCOPES = {"exec": "tool", "agent": "agent"}
# How long one look counts: a page that is read again in between is not another sighting.
LOOK = timedelta(minutes=15)
MOST_VIEWS = 50
# A sign-in may be noted before its session is stored.
LEFT_OVER_AFTER = timedelta(hours=1)


class ProofReplayed(Refused):
    """This proof of possession was used before."""

    code = "GRANT_INVALID"
    status = 403


class UnknownScope(Refused):
    """This kind of key cannot be restricted that way."""

    code = "UNKNOWN_SCOPE"
    status = 422


class TooManyViews(Refused):
    """You have reached the maximum number of saved views; remove one first."""

    code = "TOO_MANY_VIEWS"


def create_key(
    *,
    tenant_id: UUID,
    kind: str,
    name: str,
    by: ledger.Actor,
    at: datetime,
    scopes: list[str] | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Create a machine's key; return its text once and store only its hash."""
    for scope in scopes or []:
        if not scope.startswith(f"{SCOPES.get(kind)}:"):
            raise UnknownScope(f"A key of kind {kind} has no scope {scope!r}.")
    secret = new_key(kind, tenant_id)
    with tenancy(tenant_id):
        row = ApiKey.objects.create(
            id=ledger.new_id(at),
            tenant_id=tenant_id,
            kind=kind,
            name=name,
            hash=digest(secret.encode()),
            actor_id=uuid4(),
            scopes=scopes or [],
            created_at=at,
            expires_at=expires_at,
        )
        maker = accounts_queries.membership_of(tenant_id, by.id) if by.kind == "person" else None
        if maker is not None:
            # What the key does is done for whoever made it: they do not decide on it.
            approvers.link_person(tenant_id=tenant_id, actor_id=row.actor_id, person_id=maker.person_id, at=at)
        ledger.append(
            ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="credential"),
            ledger.NewEvent(kind="key_issued", to="ISSUED", detail=_issue_detail(row, maker)),
            actor=by,
            at=at,
        )
    return secret


def note_refused_write(*, tenant_id: UUID, by: ledger.Actor, path: str, at: datetime) -> None:
    """Record that a key tried a write that its kind may not make (R-TC-14)."""
    key = ApiKey.objects.get(tenant_id=tenant_id, actor_id=by.id)
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=key.id, kind="credential")
    happening = ledger.NewEvent(kind="write_refused", detail={"code": "FORBIDDEN", "path": path[:300]})
    ledger.append(head, happening, actor=by, at=at)


def _issue_detail(row: ApiKey, maker: Membership | None) -> dict[str, Any]:
    """The recorded data of a key: everything but the key."""
    return {
        "kind": row.kind,
        "key_actor": str(row.actor_id),
        "name": row.name,
        "hash": row.hash,
        "scopes": row.scopes,
        "expires_at": instant(row.expires_at) if row.expires_at else None,
        "person": str(maker.person_id) if maker else None,
    }


def revoke_key(*, tenant_id: UUID, key_id: UUID, by: ledger.Actor, reason: str, at: datetime) -> None:
    """End a key at once; the next request with it is refused."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=key_id, kind="credential")
    happening = ledger.NewEvent(kind="key_revoked", to="REVOKED", detail={"reason": reason})
    ledger.append(head, happening, actor=by, at=at)
    ApiKey.objects.filter(tenant_id=tenant_id, id=key_id).update(revoked_at=at)
    # Twice: were this process to die right after the commit, the others would know.
    forget_keys()
    transaction.on_commit(forget_keys)


def record_key_use(*, key: ApiKey, at: datetime) -> None:
    """Remember when a key was last used, to the minute: not a write per request."""
    if key.last_used_at is None or at - key.last_used_at > timedelta(minutes=1):
        ApiKey.objects.filter(tenant_id=key.tenant_id, id=key.id).update(last_used_at=at)
        key.last_used_at = at


def add_member(
    *,
    tenant_id: UUID,
    username: str,
    password: str | None,
    name: str,
    roles: frozenset[str],
    groups: Collection[str] = (),
    by: ledger.Actor,
    at: datetime,
) -> Membership:
    """Make a person a member of a tenant; a new user gets `password`, or an unusable one."""
    normal = normal_form(username)
    user = User.objects.filter(username=normal).first()
    if user is None:
        first, _, last = name.partition(" ")
        user = User.objects.create_user(username=normal, password=password, first_name=first, last_name=last)
    return people.add_membership(
        tenant_id=tenant_id, user=user, change=MemberRoles.of(roles, groups), by=by, joined=True, at=at
    )


_RESERVE_ANSWER = (
    "INSERT INTO console_answeredwrite (tenant_id, caller, key_hash, request_hash, status, body, at)"
    " VALUES ($1, $2, $3, $4, 0, '', $5) ON CONFLICT DO NOTHING RETURNING key_hash"
)


def reserve_answer(
    *, tenant_id: UUID, caller: UUID, key: str, request: bytes, proof: str | None = None, at: datetime
) -> bool:
    """Return whether this write is the first of its key. A concurrent repeat waits here until the first has ended.

    A `proof` is spent first, for a repeat too.
    """
    hashed = accounts_queries.request_hash(accounts_queries.answer_encryption_keys(key)[0], request)
    spend = () if proof is None else ((_SPEND_PROOF, tenant_id, proof, at),)
    *spent, reserved = pipeline(*spend, (_RESERVE_ANSWER, tenant_id, caller, digest(key.encode()), hashed, at))
    if spend and not spent[0]:
        raise ProofReplayed
    return bool(reserved)


def store_answer(*, tenant_id: UUID, caller: UUID, key: str, status: int, body: bytes) -> None:
    """Store the answer in the write's own transaction: both or neither survive a crash.

    It may hold a payload or a grant, so it is sealed under a secret that only the caller's key and ours make together.
    """
    place = accounts_queries.answer_storage_key(tenant_id, caller, key)
    sealed = encryption.seal(
        accounts_queries.answer_encryption_keys(key)[0], secrets.token_bytes(encryption.NONCE_BYTES), body, place
    )
    defer(
        (
            "UPDATE console_answeredwrite SET status = $4, body = $5"
            " WHERE tenant_id = $1 AND caller = $2 AND key_hash = $3",
            *(tenant_id, caller, digest(key.encode()), status, sealed),
        )
    )


def release_answer(*, tenant_id: UUID, caller: UUID, key: str) -> None:
    """Reset the entry, because there is no answer yet; the next request with this key counts as the first again."""
    execute(
        "DELETE FROM console_answeredwrite WHERE tenant_id = $1 AND caller = $2 AND key_hash = $3",
        *(tenant_id, caller, digest(key.encode())),
    )


_SPEND_PROOF = (
    "INSERT INTO console_spentproof (tenant_id, jti, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING jti"
)


def consume_proof(*, tenant_id: UUID, jti: str, at: datetime) -> None:
    """Mark a proof's id as used; a second use is refused (RFC 9449 section 11.1)."""
    if not execute(_SPEND_PROOF, tenant_id, jti, at):
        raise ProofReplayed


def prune_answers(*, before: datetime) -> None:
    """Delete answers and spent proofs that are too old to be repeated or fresh."""
    for table in ("console_answeredwrite", "console_spentproof"):
        execute(f"DELETE FROM {table} WHERE at < $1 AND tenant_id NOT IN ({HELD_TENANTS})", before)


def prune_sign_ins(*, at: datetime) -> None:
    """Delete the sessions that have ended, and with them from where each was used."""
    Session.objects.filter(expire_date__lt=at).delete()
    stored = Session.objects.filter(session_key=OuterRef("session_key"))
    UserSession.objects.filter(~Exists(stored), last_seen_at__lt=at - LEFT_OVER_AFTER).delete()
    # Earlier versions recorded each sign-in here, and nobody reads it.
    AccessLog.objects.all().delete()


def begin_session(request: HttpRequest, *, at: datetime) -> None:
    """Note now as the begin of a session that no row tells of: one that was opened past the sign-in page."""
    UserSession.objects.create_from_request(request)
    begun = UserSession.objects.filter(session_key=request.session.session_key)
    begun.update(created_at=at, last_seen_at=at)


def note_activity(session_key: str | None, *, at: datetime) -> None:
    """Note when the person of a session was last active."""
    UserSession.objects.filter(session_key=session_key).update(last_seen_at=at)


def set_preferences(
    *, user: User, theme: str | None, single_keys: bool | None, zone: str | None, hides_guide: bool | None
) -> None:
    """Store a person's display preferences; None leaves one unchanged. They do not belong to a tenant."""
    wanted = {"theme": theme, "single_keys": single_keys, "zone": zone, "hides_guide": hides_guide}
    changed = {name: value for name, value in wanted.items() if value is not None}
    if changed:
        User.objects.filter(id=user.id).update(**changed)


def record_sighting(
    *, tenant_id: UUID, by: ledger.Actor, kind: str, thing_id: UUID, about_id: UUID | None, at: datetime
) -> bool:
    """Record that a person opened a page; return True if it is the first time in a quarter of an hour."""
    slot = datetime.fromtimestamp(at.timestamp() // LOOK.total_seconds() * LOOK.total_seconds(), UTC)
    seen = execute(
        "INSERT INTO console_sighting (tenant_id, id, actor_id, kind, thing_id, about_id, slot, at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant_id, actor_id, thing_id, slot) DO NOTHING"
        " RETURNING id",
        *(tenant_id, ledger.new_id(at), by.id, kind, thing_id, about_id, slot, at),
    )
    return bool(seen)


def record_evidence_access(*, tenant_id: UUID, by: ledger.Actor, evidence: Evidence, at: datetime) -> None:
    """Record that a person read a piece of evidence: an access record, and an event of the reader's membership.

    It is no event of what the evidence is about, so that a reader never makes a writer wait.
    """
    if not record_sighting(
        tenant_id=tenant_id, by=by, kind="evidence", thing_id=evidence.id, about_id=evidence.subject_id, at=at
    ):
        return
    place = Membership.objects.get(tenant_id=tenant_id, actor_id=by.id)
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=place.id, kind="member")
    said = {"pointer": str(evidence.id), "purpose": evidence.purpose, "subject_id": str(evidence.subject_id)}
    ledger.append(head, ledger.NewEvent(kind="evidence_opened", detail=said), actor=by, at=at)


def save_view(
    *, tenant_id: UUID, by: ledger.Actor, page: str, name: str, query: str, shared: bool, at: datetime
) -> SavedView:
    """Save the filters of a list under a name; the same name again replaces the filters."""
    place = Membership.objects.get(tenant_id=tenant_id, actor_id=by.id)
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=place.id, kind="member")
    mine = SavedView.objects.filter(tenant_id=tenant_id, page=page, owner=by.id)
    row = mine.filter(name=name).first()
    if row is None and mine.count() >= MOST_VIEWS:
        raise TooManyViews
    if row is None:
        said = {"name": name, "query": query, "shared": shared, "created_at": at}
        row = SavedView.objects.create(tenant_id=tenant_id, id=ledger.new_id(at), page=page, owner=by.id, **said)
    else:
        mine.filter(name=name).update(query=query, shared=shared)
    detail = {"view_id": str(row.id), "page": page, "shared": shared}
    ledger.append(head, ledger.NewEvent(kind="view_saved", detail=detail), actor=by, at=at)
    return row


def delete_view(*, tenant_id: UUID, by: ledger.Actor, view_id: UUID, at: datetime) -> None:
    """Forget a view; only its owner can."""
    gone, _ = SavedView.objects.filter(tenant_id=tenant_id, id=view_id, owner=by.id).delete()
    if not gone:
        raise NotFound("Saved view")
    place = Membership.objects.get(tenant_id=tenant_id, actor_id=by.id)
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=place.id, kind="member")
    happening = ledger.NewEvent(kind="view_removed", detail={"view_id": str(view_id)})
    ledger.append(head, happening, actor=by, at=at)
