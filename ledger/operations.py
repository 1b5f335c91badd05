"""The door to the record. Every write of the product ends here, in the caller's transaction.

`append` is the only way an event comes to be: it steps the state machine, writes envelope, entry and detail, moves the
subject's head and the present view of an action, in one call of one SQL function. If the process dies anywhere before
the caller's commit, none of it happened.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, lru_cache
from threading import local
from typing import Any
from uuid import UUID, uuid4

from ledger import queries
from ledger.models import (
    ContractVersion,
    Evidence,
    Freeze,
    Idempotency,
    Order,
    PolicyVersion,
    SubjectKey,
    System,
    Tenant,
    Unwinding,
)
from ledger.rules import entry as entries
from ledger.rules import envelope as envelopes
from ledger.rules import lifecycle, sealing
from ledger.rules.canonical import canonical, digest
from ledger.rules.contract import Contract
from ledger.rules.ids import next_uuid7
from ledger.rules.lifecycle import Ground
from ledger.rules.policies import POLICY_KINDS, default_policy
from ledger.rules.refusals import Refused
from ledger.tenancy import ask, call, insert, tenancy

_last = local()
SYSTEM_ACTOR = UUID("00000000-0000-7000-8000-000000000001")


class NoSuchSubject(Refused):
    """There is no such thing here."""

    code = "NOT_FOUND"
    status = 404


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: a kind (person, agent, executor, operator, auditor, system) and a pseudonym."""

    kind: str
    id: UUID


SYSTEM = Actor("system", SYSTEM_ACTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A subject as the next event finds it; `seq` 0 is a subject that does not exist yet."""

    tenant_id: UUID
    id: UUID
    kind: str
    state: str = ""
    seq: int = 0
    hash: bytes | None = None
    entry: entries.Entry | None = None
    event_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """Evidence that was stored: its pointer, and the commitment that an envelope carries."""

    pointer: UUID
    commitment: envelopes.Commitment


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """What one event says besides its state: all of it is committed to, only digests and ids are in the envelope.

    `changes` are laid over the action's entry (or `entry` is its first one); `detail` is the event's own document;
    `view` are columns of the action's present view.
    """

    kind: str
    to: str | None = None
    grounds: frozenset[Ground] = frozenset()
    entry: entries.Entry | None = None
    changes: Mapping[str, Mapping[str, Any] | str] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Sealed, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)
    causation: UUID | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is ready to be written, and the head that it leaves."""

    head: Head
    values: tuple[bytes | str | None, ...]


def new_id(at: datetime) -> UUID:
    """A fresh UUIDv7 of the time `at`, after the one that this thread made before in the same millisecond."""
    made = next_uuid7(getattr(_last, "id", None), at, secrets.token_bytes(10))
    _last.id = made
    return made


def lock(*, tenant_id: UUID, subject_id: UUID, kind: str) -> Head:
    """The subject, locked until the transaction ends; its next event must continue this head."""
    head = queries.head_for_update(tenant_id, subject_id, kind)
    if head is None:
        raise NoSuchSubject
    return Head(**head)


def append(head: Head, happening: Happening, *, actor: Actor, at: datetime) -> Head:
    """Write one event after `head` and return the new head (D4).

    `head` must be locked (or new) in this transaction; otherwise the database refuses, and nothing is written.
    """
    drafted = draft(head, happening, actor=actor, at=at)
    write(drafted)
    return drafted.head


def write(*drafts: Draft) -> None:
    """Write events in one message, in this order: one that came before its predecessor would continue nothing."""
    call(_appending(len(drafts)), *(value for each in drafts for value in each.values))


def draft(head: Head, happening: Happening, *, actor: Actor, at: datetime) -> Draft:
    """The event that `append` would write; refuses an illegal step, missing grounds and an entry out of schema."""
    state = lifecycle.step(
        head.kind, head.state, happening.to or (None if head.seq else ""), by=actor.kind, grounds=happening.grounds
    )
    snapshot = _snapshot(head, happening)
    event_id = new_id(at)
    entry_bytes, entry_salt = _committed(snapshot)
    detail_bytes, detail_salt = _committed(_detail(happening))
    envelope = envelopes.Envelope(
        origin=origin_of(head.tenant_id),
        id=str(event_id),
        kind=happening.kind,
        subject_kind=head.kind,
        subject_id=str(head.id),
        seq=head.seq + 1,
        prev=head.hash.hex() if head.hash else None,
        from_state=head.state,
        to_state=state,
        actor_kind=actor.kind,
        actor_id=str(actor.id),
        at=at,
        causation=str(happening.causation) if happening.causation else None,
        digests=happening.digests,
        commitments=(
            *_own("entry", entry_salt, entry_bytes),
            *_own("detail", detail_salt, detail_bytes),
            *(sealed.commitment for sealed in happening.evidence),
        ),
    )
    data = envelopes.write(envelope)
    following = replace(
        head, state=state, seq=head.seq + 1, hash=envelopes.entry_hash(data), entry=snapshot, event_id=event_id
    )
    return Draft(following, (data, entry_salt, entry_bytes, detail_salt, detail_bytes, _view(happening, snapshot)))


def seal(
    *,
    tenant_id: UUID,
    subject_id: UUID,
    purpose: str,
    data: bytes,
    media_type: str,
    source: str,
    at: datetime,
    pointer: UUID | None = None,
    is_new: bool = False,
) -> Sealed:
    """Store evidence, encrypted under its subject's own key, and return what an event needs to commit to it.

    `pointer` is given where the evidence itself must name its own place. A subject that `is_new` was begun in this
    transaction: it has no key yet, and nobody can have made one.
    """
    pointer, salt = pointer or uuid4(), secrets.token_bytes(envelopes.SALT_BYTES)
    place = f"{tenant_id}/{subject_id}/{pointer}"
    key, fresh = _data_key(tenant_id, subject_id, is_new=is_new)
    sealed = sealing.seal(key, secrets.token_bytes(sealing.NONCE_BYTES), data, place)
    digest = envelopes.commitment(purpose, salt, data)
    evidence = Evidence(
        tenant_id=tenant_id,
        id=pointer,
        subject_id=subject_id,
        purpose=purpose,
        media_type=media_type,
        source=source[:200],
        observed_at=at,
        length=len(data),
        salt=salt,
        sealed=sealed,
        commitment=digest,
    )
    insert(*fresh, evidence)
    return Sealed(pointer, envelopes.Commitment(purpose, str(pointer), len(data), digest))


def create_tenant(*, tenant_id: UUID, slug: str, name: str, host: str, at: datetime) -> Tenant:
    """A tenant and the origin of its log; its first event is written by the caller inside `tenancy`."""
    return Tenant.objects.create(
        id=tenant_id, slug=slug, name=name, origin=f"{host}/counterfoil/{tenant_id.hex}", created_at=at
    )


@lru_cache(maxsize=4096)
def origin_of(tenant_id: UUID) -> str:
    """The origin of a tenant's log; it never changes, so it is read once per process."""
    return str(Tenant.objects.values_list("origin", flat=True).get(id=tenant_id))


def _snapshot(head: Head, happening: Happening) -> entries.Entry | None:
    if happening.entry is not None:
        entries.check(happening.entry)
        return happening.entry
    if head.entry is None:
        return None
    return entries.amend(head.entry, happening.changes) if happening.changes else head.entry


def _detail(happening: Happening) -> dict[str, Any] | None:
    detail = dict(happening.detail)
    if happening.grounds:
        detail["grounds"] = sorted(happening.grounds)
    if happening.view:
        detail["view"] = dict(happening.view)
    return detail or None


def _committed(value: Mapping[str, Any] | None) -> tuple[bytes | None, bytes | None]:
    if value is None:
        return None, None
    return canonical(value), secrets.token_bytes(envelopes.SALT_BYTES)


def _own(purpose: str, salt: bytes | None, data: bytes | None) -> Iterable[envelopes.Commitment]:
    if salt is not None and data is not None:
        yield envelopes.Commitment(purpose, None, len(data), envelopes.commitment(purpose, salt, data))


def _view(happening: Happening, snapshot: entries.Entry | None) -> str:
    view = dict(happening.view)
    if snapshot is not None:
        view |= entries.summary(snapshot)
    return json.dumps(view)


@cache
def _appending(count: int) -> bytes:
    calls = (f"ledger_append({', '.join(f'${6 * one + place}' for place in range(1, 7))})" for one in range(count))
    return f"SELECT {', '.join(calls)}".encode()


def _data_key(tenant_id: UUID, subject_id: UUID, *, is_new: bool) -> tuple[bytes, list[SubjectKey]]:
    """The key of a subject's evidence, and the row to write where it is a fresh one."""
    place = f"{tenant_id}/{subject_id}"
    wrapped = None if is_new else queries.wrapped_key(tenant_id, subject_id)
    if wrapped is not None:
        return sealing.open_sealed(queries.key_encryption_key(), wrapped, place), []
    key = secrets.token_bytes(32)
    wrapped = sealing.seal(queries.key_encryption_key(), secrets.token_bytes(sealing.NONCE_BYTES), key, place)
    return key, [SubjectKey(tenant_id=tenant_id, subject_id=subject_id, wrapped=wrapped)]


class VersionTaken(Refused):
    """This version is already registered with another document; a change is a new version."""

    code = "VERSION_IMMUTABLE"


class PolicyMoved(Refused):
    """Somebody else put another version in force at the same moment; look at it first."""

    code = "CONFLICT"


class AlreadyFrozen(Refused):
    """This is already frozen."""

    code = "ALREADY_FROZEN"


def found_tenant(*, tenant_id: UUID, slug: str, name: str, host: str, at: datetime) -> Tenant:
    """A tenant, the first event of its log, and the default policies."""
    tenant = create_tenant(tenant_id=tenant_id, slug=slug, name=name, host=host, at=at)
    with tenancy(tenant_id):
        append(
            Head(tenant_id=tenant_id, id=tenant_id, kind="tenant"),
            Happening(kind="tenant_founded", to="ACTIVE"),
            actor=SYSTEM,
            at=at,
        )
        for kind in POLICY_KINDS:
            set_policy(tenant_id=tenant_id, kind=kind, version="1", document=default_policy(kind), actor=SYSTEM, at=at)
    return tenant


def register_contract(*, tenant_id: UUID, contract: Contract, actor: Actor, at: datetime) -> ContractVersion:
    """Register a validated contract; the same document again is the same version, another one is refused (R-TC-18)."""
    known = queries.contract_version(tenant_id, contract.name, contract.version)
    if known is not None:
        if known.digest != contract.digest:
            raise VersionTaken
        return known
    row = ContractVersion.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        name=contract.name,
        version=contract.version,
        digest=contract.digest,
        document=contract.document,
        lint=[{"code": f.code, "path": f.path, "detail": f.detail} for f in contract.findings],
        registered_at=at,
    )
    append(
        Head(tenant_id=tenant_id, id=row.id, kind="contract"),
        Happening(
            kind="contract_registered",
            to="REGISTERED",
            detail={"name": contract.name, "version": contract.version},
            digests={"contract": contract.digest},
        ),
        actor=actor,
        at=at,
    )
    return row


def set_policy(
    *, tenant_id: UUID, kind: str, version: str, document: Mapping[str, Any], actor: Actor, at: datetime
) -> PolicyVersion:
    """Put a new version of a policy in force; the one before is superseded in the same transaction.

    The version in force sent again is the same version; any other use of a known version is refused.
    """
    data = canonical(document)
    known = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind, version=version).first()
    if known is not None:
        if not known.active or known.digest != digest(data):
            raise VersionTaken
        return known
    _supersede(tenant_id, kind, by=version, actor=actor, at=at)
    row = PolicyVersion.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        kind=kind,
        version=version,
        digest=digest(data),
        document=data,
        active=True,
        created_at=at,
    )
    append(
        Head(tenant_id=tenant_id, id=row.id, kind="policy"),
        Happening(
            kind="policy_activated", to="ACTIVE", detail={"kind": kind, "version": version}, digests={kind: row.digest}
        ),
        actor=actor,
        at=at,
    )
    return row


def _supersede(tenant_id: UUID, kind: str, *, by: str, actor: Actor, at: datetime) -> None:
    before = PolicyVersion.objects.filter(tenant_id=tenant_id, kind=kind, active=True).first()
    if before is None:
        return
    head = lock(tenant_id=tenant_id, subject_id=before.id, kind="policy")
    if head.state != "ACTIVE":
        raise PolicyMoved
    append(head, Happening(kind="policy_superseded", to="SUPERSEDED", detail={"by": by}), actor=actor, at=at)
    PolicyVersion.objects.filter(tenant_id=tenant_id, id=before.id).update(active=False)


def register_system(
    *, tenant_id: UUID, name: str, pattern: str, settings: Mapping[str, Any], actor: Actor, at: datetime
) -> System:
    """Register an authoritative system, or change the settings of a known one."""
    known = queries.system(tenant_id, name)
    if known is not None and (known.pattern, known.settings) == (pattern, dict(settings)):
        return known
    row = known or System(tenant_id=tenant_id, id=new_id(at), name=name, registered_at=at)
    if known is None:
        row = System.objects.create(
            tenant_id=tenant_id, id=row.id, name=name, pattern=pattern, settings=dict(settings), registered_at=at
        )
        head = Head(tenant_id=tenant_id, id=row.id, kind="system")
    else:
        row.pattern, row.settings = pattern, dict(settings)
        System.objects.filter(tenant_id=tenant_id, id=row.id).update(pattern=pattern, settings=dict(settings))
        head = lock(tenant_id=tenant_id, subject_id=row.id, kind="system")
    append(
        head,
        Happening(
            kind="system_registered",
            to="REGISTERED",
            detail={"name": name, "pattern": pattern, "settings": dict(settings)},
        ),
        actor=actor,
        at=at,
    )
    return row


def freeze(*, tenant_id: UUID, scope: str, value: str, reason: str, actor: Actor, at: datetime) -> Freeze:
    """Stop everything that `scope` and `value` cover, from the commit of this transaction on (R-EX-15)."""
    if Freeze.objects.filter(tenant_id=tenant_id, scope=scope, value=value, lifted_at__isnull=True).exists():
        raise AlreadyFrozen
    row = Freeze.objects.create(
        tenant_id=tenant_id, id=new_id(at), scope=scope, value=value, reason=reason[:1000], placed_at=at
    )
    append(
        Head(tenant_id=tenant_id, id=row.id, kind="freeze"),
        Happening(kind="freeze_placed", to="PLACED", detail={"scope": scope, "value": value, "reason": reason}),
        actor=actor,
        at=at,
    )
    return row


def lift_freeze(*, tenant_id: UUID, freeze_id: UUID, reason: str, actor: Actor, at: datetime) -> None:
    """End a freeze; only a freeze in force can be lifted."""
    head = lock(tenant_id=tenant_id, subject_id=freeze_id, kind="freeze")
    append(head, Happening(kind="freeze_lifted", to="LIFTED", detail={"reason": reason}), actor=actor, at=at)
    Freeze.objects.filter(tenant_id=tenant_id, id=freeze_id).update(lifted_at=at)


def set_idempotency(*, tenant_id: UUID, action_id: UUID, status: str, at: datetime) -> None:
    """Move the durable record of an action's mutation."""
    ask(
        "UPDATE ledger_idempotency SET status = $3, updated_at = $4 WHERE tenant_id = $1 AND action_id = $2",
        *(tenant_id, action_id, status, at),
    )


def expire_idempotency(*, tenant_id: UUID, before: datetime, at: datetime) -> int:
    """Let the records that have waited since `before` expire: from then on they count as none (R-EX-22)."""
    waiting = Idempotency.objects.filter(tenant_id=tenant_id, status="PENDING", updated_at__lt=before)
    return waiting.update(status="EXPIRED", updated_at=at)


def reserve_idempotency(*, tenant_id: UUID, action_id: UUID, request_hash: str, at: datetime) -> Idempotency:
    """Make the key that the executor sends with the mutation; the ledger knows it by its hash only (R-EX-16)."""
    key = secrets.token_urlsafe(24)
    return Idempotency.objects.create(
        tenant_id=tenant_id,
        key_hash=digest(key.encode()),
        key=key,
        request_hash=request_hash,
        action_id=action_id,
        status="PENDING",
        updated_at=at,
    )


# Orders: what recovery wants done, for `approvals` to propose; and runs that are taken back


class AlreadyUnwinding(Refused):
    """This run is being taken back already."""

    code = "ALREADY_UNWINDING"


class NothingToUnwind(Refused):
    """There is no such run here."""

    code = "NOT_FOUND"
    status = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlan:
    """The recovery actions of one decision, in their order, and why they are ordered.

    Each step is `{relation, tool, arguments, effect}`; `concerned` names the effects that the plan is about;
    `requester` is who ordered it: a person, or the system by its policy.
    """

    steps: Sequence[dict[str, Any]]
    concerned: Sequence[str]
    because: str
    requester: UUID


def order(head: Head, plan: OrderPlan, *, actor: Actor, at: datetime) -> Head:
    """Order the first step of a plan; the plan itself is sealed, since arguments may be personal."""
    document = {
        "steps": list(plan.steps),
        "concerned": list(plan.concerned),
        "because": plan.because,
        "requester": str(plan.requester),
    }
    kept = seal(
        tenant_id=head.tenant_id,
        subject_id=head.id,
        purpose="order",
        data=json.dumps(document).encode(),
        media_type="application/json",
        source="recovery",
        at=at,
    )
    return _order(head, document, 0, kept.pointer, evidence=(kept,), actor=actor, at=at)


def order_next(head: Head, before: dict[str, Any], *, actor: Actor, at: datetime) -> Head | None:
    """Order the step after the one of the detail `before`; None when that was the last."""
    document, number = queries.order_plan(head.tenant_id, before), before["number"] + 1
    if number == len(document["steps"]):
        return None
    return _order(head, document, number, UUID(before["plan"]), evidence=(), actor=actor, at=at)


def _order(
    head: Head,
    plan: dict[str, Any],
    number: int,
    pointer: UUID,
    *,
    evidence: tuple[Sealed, ...],
    actor: Actor,
    at: datetime,
) -> Head:
    step = plan["steps"][number]
    happening = Happening(
        kind="ordered",
        detail={
            "relation": step["relation"],
            "tool": step["tool"],
            "effect": step["effect"],
            "number": number,
            "of": len(plan["steps"]),
            "plan": str(pointer),
            "because": plan["because"],
            "requester": plan["requester"],
            "reason": f"{plan['because']}: {step['relation']} with {step['tool']}",
        },
        evidence=evidence,
    )
    head = append(head, happening, actor=actor, at=at)
    assert head.event_id is not None
    Order.objects.create(event_id=head.event_id, tenant_id=head.tenant_id, action_id=head.id, placed_at=at, due_at=at)
    return head


ORDER_PATIENCE = timedelta(seconds=30)


def order_proposed(*, event_id: UUID, at: datetime) -> None:
    """The order was proposed, or refused: from now on its end is looked for."""
    Order.objects.filter(event_id=event_id).update(proposed=True, due_at=at)


def order_later(order: Order, *, at: datetime) -> None:
    """Nothing can be done about an order now: look again, the later the longer it has waited."""
    wait = min(timedelta(seconds=1) + (at - order.placed_at) / 10, ORDER_PATIENCE)
    Order.objects.filter(event_id=order.event_id).update(due_at=at + wait)


def wake_order(*, event_id: UUID, at: datetime) -> None:
    """Its recovery action has moved: look at the order at once."""
    Order.objects.filter(event_id=event_id).update(due_at=at)


def end_order(*, event_id: UUID) -> None:
    """The order has ended, one way or the other; what came of it is on the action's record."""
    Order.objects.filter(event_id=event_id).delete()


def unwind(*, tenant_id: UUID, run_id: str, reason: str, actor: Actor, at: datetime) -> Unwinding:
    """Begin to take a run back: from the commit on nothing new starts in it."""
    if queries.is_unwinding(tenant_id, run_id):
        raise AlreadyUnwinding
    if not queries.steps_of(tenant_id, run_id, limit=1):
        raise NothingToUnwind
    row = Unwinding.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        run_id=run_id,
        state="OPEN",
        reason=reason[:1000],
        opened_at=at,
        changed_at=at,
    )
    happening = Happening(kind="unwinding_began", to="OPEN", detail={"run_id": run_id, "reason": reason})
    append(Head(tenant_id=tenant_id, id=row.id, kind="unwinding"), happening, actor=actor, at=at)
    return row


ENDED_BADLY = frozenset({"FAILED", "ROLLED_BACK", "COMPENSATING", "COMPENSATED", "ABANDONED"})


def after_failure(action: Any, state: str, *, at: datetime) -> Unwinding | None:
    """Begin to take back the run of a step that failed, where its session asked for that (R-RP-32).

    After the pivot nothing is taken back (R-RP-39): what is missing is finished, or a person decides.
    """
    if not action.unwinds or state not in ENDED_BADLY or queries.is_unwinding(action.tenant_id, action.run_id):
        return None
    if queries.pivot_passed(action.tenant_id, action.run_id):
        return None
    reason = f"The step {action.tool} on {action.target} ended {state}."
    return unwind(tenant_id=action.tenant_id, run_id=action.run_id, reason=reason, actor=SYSTEM, at=at)


def move_unwinding(
    *, tenant_id: UUID, unwinding_id: UUID, to: str, kind: str, reason: str, actor: Actor, at: datetime
) -> None:
    """Say how the taking back of a run goes on: OPEN, STUCK (a person must act) or DONE."""
    head = lock(tenant_id=tenant_id, subject_id=unwinding_id, kind="unwinding")
    append(head, Happening(kind=kind, to=to, detail={"reason": reason}), actor=actor, at=at)
    Unwinding.objects.filter(tenant_id=tenant_id, id=unwinding_id).update(state=to, reason=reason[:1000], changed_at=at)
