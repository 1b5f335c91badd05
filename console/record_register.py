"""The rules by which this package's rows follow from their events, for `ledger.register` and
`manage.py verify_ledger`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from ledger.record.rules.envelope import instant
from ledger.verification.rules.rebuilding import (
    KEEP,
    UNKNOWN,
    RecordTable,
    Row,
    Source,
    VerifiedEvent,
    changes_row,
    constant,
    creates_row,
    detail_field,
    event_time,
)
from ledger.verification.rules.stored_record import RecordBroken, RecordLocation

_WATCHED = ("metric", "tool", "agent", "side_effect_class", "window_h")
_THRESHOLDS = ("raise_at", "clear_at", "least_cases", "hold_min")
_PRICE = ("kind", "about", "agent", "amount", "currency", "payer", "valid_from")
_ROLES = ("reviewer", "operator", "compliance", "administrator")


def _role(path: str, role: str) -> Source:
    def source(event: VerifiedEvent) -> Any:
        roles = event.said(path)
        return roles if roles is UNKNOWN else role in roles

    return source


def _roles(path: str) -> dict[str, Source]:
    return {f"is_{role}": _role(path, role) for role in _ROLES}


def _fold_stand(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """A member's roles after each event, and the change that waits for a second administrator."""
    row = rows.get(event.envelope.subject_id)
    if row is None or event.envelope.kind in ("evidence_opened", "view_saved", "view_removed"):
        return
    waits = event.said("waits")
    row |= {"person_id": event.said("person"), "user_id": event.said("user"), "given_by": event.said("given_by")}
    if event.envelope.kind in ("roles_proposed", "separation_proposed"):
        row["proposal"] = _proposal(event)
    elif waits is not True:
        row["proposal"] = None if waits is False else UNKNOWN


def _proposal(event: VerifiedEvent) -> Any:
    if event.said("by_person") is UNKNOWN:
        return UNKNOWN
    wanted = {name: event.said(name, KEEP) for name in ("what", "roles", "groups", "by_person")}
    # A separation wants no roles and no groups: those of the member's stand are not its own.
    own = ("what", "by_person") if wanted["what"] == "separation" else tuple(wanted)
    asked = {name: wanted[name] for name in own if wanted[name] is not KEEP}
    return asked | {"by": event.envelope.actor_id, "at": instant(event.envelope.at)}


RECORD_TABLES = (
    RecordTable(
        model="console.Membership",
        subjects=("member",),
        events={
            kind: creates_row(
                actor_id=detail_field("actor"),
                groups=detail_field("groups"),
                joined_at=event_time if kind == "member_added" else constant(None),
                removed_at=constant(None),
                proposal=constant(None),
                **_roles("roles"),
            )
            for kind in ("member_added", "member_invited")
        }
        | {
            "member_joined": changes_row(joined_at=event_time),
            "roles_changed": changes_row(groups=detail_field("after.groups"), **_roles("after.roles")),
            "member_removed": changes_row(removed_at=event_time),
        },
        fold=_fold_stand,
        folded=("person_id", "user_id", "given_by", "proposal"),
        outside={
            "invite_hash": "the hash of a link that lets one person in once; who came in by it is an event",
            "invite_until": "until when that link is good",
        },
    ),
    RecordTable(
        model="console.ApiKey",
        subjects=("credential",),
        events={
            "key_issued": creates_row(
                kind=detail_field("kind"),
                actor_id=detail_field("key_actor"),
                name=detail_field("name"),
                hash=detail_field("hash"),
                scopes=detail_field("scopes"),
                expires_at=detail_field("expires_at"),
                created_at=event_time,
                revoked_at=constant(None),
            ),
            "key_revoked": changes_row(revoked_at=event_time),
        },
        outside={"last_used_at": "moves with use, to the minute"},
    ),
    RecordTable(
        model="console.AlertRule",
        subjects=("alert_rule",),
        events={
            "alert_rule_made": creates_row(
                **{name: detail_field(name) for name in (*_WATCHED, *_THRESHOLDS)},
                made_at=event_time,
                ended_at=constant(None),
            ),
            "alert_rule_changed": changes_row(**{name: detail_field(name) for name in _THRESHOLDS}),
            "alert_rule_ended": changes_row(ended_at=event_time),
        },
        outside={"past_since": "since when a figure waits for its turn; the turn itself is an event"},
    ),
    RecordTable(
        model="console.Price",
        subjects=("price",),
        events={
            "price_set": creates_row(
                **{name: detail_field(name) for name in _PRICE}, set_at=event_time, ended_at=constant(None)
            ),
            "price_ended": changes_row(ended_at=event_time),
        },
    ),
    RecordTable(
        model="console.CostBudget",
        subjects=("cost_budget",),
        events={
            "cost_budget_set": creates_row(
                **{name: detail_field(name) for name in ("amount", "currency", "share")},
                **dict.fromkeys(("told_month", "told", "said"), constant("")),
                set_at=event_time,
                ended_at=constant(None),
            ),
            "cost_budget_ended": changes_row(ended_at=event_time),
        }
        | {
            kind: changes_row(told_month=detail_field("month"), told=detail_field("level"), said=detail_field("said"))
            for kind in ("cost_budget_share_reached", "cost_budget_passed")
        },
    ),
    RecordTable(
        model="console.Alert",
        subjects=("alert",),
        events={
            kind: creates_row(
                **{name: detail_field(name) for name in ("rule_id", "about", "version", "previous", "said")},
                raised_at=event_time,
                cleared_at=constant(None),
                cleared_said=constant(""),
            )
            for kind in ("alert_raised", "regression_found")
        }
        | {"alert_cleared": changes_row(cleared_at=event_time, cleared_said=detail_field("said"))},
    ),
    RecordTable(
        model="console.EventDestination",
        subjects=("event_destination",),
        events={
            "event_export_started": creates_row(
                name=detail_field("name"), started_at=event_time, ended_at=constant(None)
            ),
            "event_export_moved": changes_row(),
            "event_export_stopped": changes_row(ended_at=event_time),
        },
        outside={
            "log": "with `index`, up to where the events have gone; where it began is in the event",
            "index": "with `log`, up to where the events have gone",
            "sent": "how many were taken",
            "refused": "how many a collector says that it dropped",
            "sent_at": "when something was taken last",
            "failures": "how many attempts in a row failed",
            "fault": "what was wrong at the last one",
            "retry_at": "when it is tried again",
            "lease": "the worker that sends now",
            "leased_until": "until when it may",
        },
    ),
)


def _altered_passwords(tenant_id: UUID) -> Iterator[RecordBroken]:
    """Members' passwords that were changed without an event; read twice, since one may be set meanwhile."""
    # What the rows follow from is read without Django, too.
    from console.accounts.members import queries as members

    first = {row.id for row in members.altered_passwords(tenant_id)}
    again = {row.id for row in members.altered_passwords(tenant_id)} if first else set()
    for member_id in sorted(first & again):
        what = "the stored hash of its password is not the one that its events tell of."
        yield RecordBroken(RecordLocation("member", str(member_id)), "password", what)


TENANT_CHECKS = (_altered_passwords,)

OUTSIDE = {
    "console.User": "accounts of the installation, for signing in: they belong to no tenant, and what one may do in a"
    " tenant is the membership; the hash of a password is compared by a check of its own",
    "console.AnsweredWrite": "answers to repeats of a write, sealed and kept for a day",
    "console.SpentProof": "proofs that were used, kept while one could still be fresh",
    "console.PageView": "who opened which page: rows that the application can add and never change, not in the log",
    "console.SavedView": "filters under a name",
    "console.Notice": "mail that is on its way",
    "console.Message": "what the inbox shows; nothing is decided by it",
    "console.NoticeSettings": "which channel tells what",
    "console.NoticeWish": "how somebody wants their mail",
    "console.PushDevice": "browsers that people want woken; empty messages go to them",
    "console.TraceCursor": "up to where spans have gone to the collector",
    "console.NoticeCursor": "up to where the record was read for notices",
    "console.Recording": "conversations of elsewhere, marked as such; the event of the import has the file's digest",
    "console.RecordedConversation": "part of a recording",
    "console.RecordedMessage": "part of a recording",
    "console.RecordedWord": "the search index of a recording",
    "console.MetricAction": "figures of an action, made again from its events by `rebuild_metrics`",
    "console.MetricRollUp": "sums of those figures and of calls, made again the same way",
    "console.MetricDelay": "sums of delays, made again the same way",
    "console.MetricCursor": "up to where the record was counted",
    "console.SearchTerm": "keyed hashes by which actions are found, made anew from the record; emptied by erasing",
    "console.SearchCursor": "up to where the record was read for them",
}
