"""Turn new ledger events into notices, from a stored cursor and in one transaction.

A tick that is lost is made up by the next one, and a worker that dies has read nothing. Each event is read once: the
place moves with what was written, and events that became visible late are found by looking back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.requests.queries import approvals as approvals_queries
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications import sending
from console.notifications.channels import ChatRoom
from console.notifications.facts import UNKNOWN, load_facts
from console.notifications.operations import LOOK_BACK, PendingNotice
from console.notifications.recipients import EventContext, TenantPeople, find_recipients, tenant_people
from console.notifications.routing import choose_route
from console.notifications.rules import AUDIENCES, ENDINGS, WAKES, Audience, Occasion, occasion_of, urgency_of
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.log.queries import log as logs
from ledger.record.operations import SYSTEM_ACTOR
from ledger.record.queries import events as events_queries
from ledger.record.rules.event_kinds import NOTICE_SUBJECTS

if TYPE_CHECKING:
    from ledger.models import Event, Tenant

AT_A_TIME = 300
_PERSONAL = frozenset({Audience.NAMED, Audience.ASKER, Audience.REQUESTER})
# A request that nobody was notified of after so long was missed; people are notified now.
_MISSED = (timedelta(minutes=2), timedelta(hours=6))


def collect_notices(tenant: Tenant, *, at: datetime) -> int:
    """Write the notices that the newest events cause; returns how many events were read."""
    with tenancy(tenant.id):
        cursor = notifications_operations.lock_cursor(tenant_id=tenant.id, at=at)
        if cursor is None:
            return 0
        known, logged = [UUID(each) for each in cursor.recent], logs.logged_events(tenant.id)
        since = cursor.read_to - LOOK_BACK
        events = events_queries.events_of_kinds(tenant.id, NOTICE_SUBJECTS, after=since, but=known, limit=AT_A_TIME)
        _queue_all(
            tenant,
            [*_scenes(tenant.id, events), *_missed_approvals(tenant.id, at=at), *_unnoticed_unknowns(tenant.id, at=at)],
            at=at,
        )
        read_to = max([cursor.read_to, *(event.recorded_at for event, _ in events)])
        recent = events_queries.ids_recorded_since(
            tenant.id, {*known, *(event.id for event, _ in events)}, read_to - LOOK_BACK
        )
        seen = logged if len(events) < AT_A_TIME else None
        notifications_operations.advance_cursor(tenant_id=tenant.id, read_to=read_to, recent=recent, seen=seen)
    return len(events)


def collect_updates(tenant: Tenant, *, at: datetime) -> None:
    """Queue an update of each posted message in which something was decided since it was written."""
    if not isinstance(sending.outlets_of(tenant).slack, ChatRoom):
        return
    with tenancy(tenant.id):
        rows = notifications_queries.posted_notices(tenant.id)
        facts = iter(load_facts(tenant, [line for row in rows for line in row.lines]))
        waiting = {row.id: sum(next(facts).still_waits for _ in row.lines) for row in rows}
        changed = [row.id for row in rows if waiting[row.id] != row.waiting]
        if changed:
            notifications_operations.queue_updates(tenant_id=tenant.id, notices=changed, at=at)


def _scenes(
    tenant_id: UUID, events: Sequence[tuple[Any, dict[str, Any]]]
) -> list[tuple[UUID, datetime, str, EventContext]]:
    """(event, when, kind of subject, scene) of each event that causes notices."""
    found = [
        (event, detail, what)
        for event, detail in events
        if (what := occasion_of(event.subject_kind, event.kind)) is not None
    ]
    about = {_approval_of(tenant_id, event, detail) for event, detail, _ in found}
    approvals = {
        each.id: each for each in approvals_queries.approvals_by_id(tenant_id, {each for each in about if each})
    }
    return [
        (
            event.id,
            event.at,
            event.subject_kind,
            EventContext(
                what,
                event.subject_id,
                event.actor_id,
                detail,
                approvals.get(_approval_of(tenant_id, event, detail) or event.subject_id),
            ),
        )
        for event, detail, what in found
    ]


def _approval_of(tenant_id: UUID, event: Event, detail: dict[str, Any]) -> UUID | None:
    if event.subject_kind == "approval":
        return UUID(str(event.subject_id))
    # A time-boxed pass names the request from which it was given; a notice of it leads to the pass.
    named = detail.get("approval_id") if event.subject_kind != "standing_approval" else None
    return UUID(str(named)) if named else None


def _missed_approvals(tenant_id: UUID, *, at: datetime) -> list[tuple[UUID, datetime, str, EventContext]]:
    """Waiting approvals without a notification: committed later than the look-back, or before an approver was added."""
    least, most = _MISSED
    waiting = [
        each for each in approvals_queries.approvals(tenant_id, limit=200) if at - most < each.requested_at < at - least
    ]
    notified = (
        notifications_queries.already_notified(tenant_id, [each.id for each in waiting], Occasion.REQUESTED)
        if waiting
        else set()
    )
    missed = [each for each in waiting if each.id not in notified]
    if not missed:
        return []
    asked, people = (
        events_queries.state_entry_events(tenant_id, [each.id for each in missed], "REQUESTED"),
        tenant_people(tenant_id, at=at),
    )
    scenes = [
        (
            asked[each.id],
            each.requested_at,
            "approval",
            EventContext(Occasion.REQUESTED, each.id, SYSTEM_ACTOR, {}, each),
        )
        for each in missed
    ]
    return [each for each in scenes if find_recipients(tenant_id, each[3], people)]


def _unnoticed_unknowns(tenant_id: UUID, *, at: datetime) -> list[tuple[UUID, datetime, str, EventContext]]:
    """Actions whose outcome has been unknown for a while without a notification.

    Their events are not gathered: most are known again a moment later, and there are as many as there are actions.
    """
    least, most = _MISSED
    found = [
        each
        for state in UNKNOWN
        for each in actions.actions(tenant_id, state=state, limit=200)
        if at - most < each.changed_at < at - least
    ]
    notified = (
        notifications_queries.already_notified(tenant_id, [each.id for each in found], Occasion.UNKNOWN)
        if found
        else set()
    )
    fresh = [each for each in found if each.id not in notified]
    if not fresh:
        return []
    events = {
        state: events_queries.state_entry_events(tenant_id, [each.id for each in fresh], state) for state in UNKNOWN
    }
    return [
        (
            events[each.state][each.id],
            each.changed_at,
            "action",
            EventContext(Occasion.UNKNOWN, each.id, SYSTEM_ACTOR, {}, None),
        )
        for each in fresh
    ]


def _queue_all(tenant: Tenant, scenes: Sequence[tuple[UUID, datetime, str, EventContext]], *, at: datetime) -> None:
    if not scenes:
        return
    people = tenant_people(tenant.id, at=at)
    pending = [each for scene in scenes for each in _pending_notices(tenant.id, scene, people)]
    notifications_operations.add_to_inbox(tenant_id=tenant.id, notices=pending, at=at)
    wanted, wishes = (
        notifications_queries.tenant_settings(tenant.id),
        notifications_queries.all_mail_preferences(tenant.id),
    )
    since = at - timedelta(minutes=wanted.digest_min)
    woken = notifications_queries.actors_with_devices(tenant.id)
    for channel in sending.available_channels(tenant):
        many = notifications_queries.count_recent(tenant.id, channel, since=since)
        for each in pending:
            if not _uses_channel(channel, each, people, woken) or (
                channel == "slack" and _is_updated_in_place(tenant, each)
            ):
                continue
            wish = wishes.get(each.actor) if each.actor else None
            before = many.get(each.actor, 0)
            way = choose_route(channel, each.risk, settings=wanted, wish=wish, lately=before, at=at)
            if way is not None:
                notifications_operations.queue_notices(
                    tenant_id=tenant.id, pending=each, channel=channel, route=way, at=at
                )
                many[each.actor] = before + (way.manner == "now")


def _is_updated_in_place(tenant: Tenant, pending: PendingNotice) -> bool:
    """Return whether a message about it is posted in the room and will be updated instead."""
    can_change = isinstance(sending.outlets_of(tenant).slack, ChatRoom)
    return can_change and pending.kind in ENDINGS and notifications_queries.is_posted(tenant.id, pending.about_id)


def _uses_channel(channel: str, pending: PendingNotice, people: TenantPeople, woken: Collection[UUID]) -> bool:
    """Return True if a notice is sent by a channel.

    Mail goes to people with an address, a push to those with a device and only for what waits for them, a chat message
    for what is not personal, a webhook for everything.
    """
    if channel == "push":
        return pending.actor in woken and pending.kind in WAKES
    if channel == "email":
        return pending.actor is not None and bool(sending.mail_address(people.members[pending.actor].user))
    return pending.actor is None and (channel == "webhook" or AUDIENCES[Occasion(pending.kind)] not in _PERSONAL)


def _pending_notices(
    tenant_id: UUID, scene: tuple[UUID, datetime, str, EventContext], people: TenantPeople
) -> Iterable[PendingNotice]:
    source, at, kind, what = scene
    risk = urgency_of(what.what, what.approval.risk if what.approval is not None else "")
    about = what.approval.id if what.approval is not None else what.subject_id
    about_kind = "approval" if what.approval is not None else kind
    for actor in [*sorted(find_recipients(tenant_id, what, people)), None]:
        yield PendingNotice(str(what.what), risk, about_kind, about, source, at, actor)
