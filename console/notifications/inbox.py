"""A person's own list: each message with the present state of its object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import UUID

from console.notifications import queries as notifications_queries
from console.notifications.facts import is_obsolete, load_facts
from console.notifications.messages import NoticeFact, describe_fact, message_title

if TYPE_CHECKING:
    from ledger.models import Tenant

MOST = 100
ALIKE = 3
"""From how many like messages on they stand together."""


@dataclass(frozen=True)
class InboxItem:
    """One message; `over` if its request was decided meanwhile."""

    row: Any
    fact: NoticeFact

    @property
    def title(self) -> str:
        return message_title(self.row.kind)

    @property
    def what(self) -> str:
        """Its subject, with the target: only here, where the reader is signed in."""
        return ", ".join(part for part in (self.fact.title, describe_fact(self.fact) if self.fact.verb else "") if part)

    @property
    def over(self) -> bool:
        return is_obsolete(self.fact)


def inbox_items(tenant: Tenant, messages: Sequence[Any]) -> list[InboxItem]:
    """The messages in their order."""
    lines = [
        {"kind": each.kind, "risk": each.risk, "about_kind": each.about_kind, "about": str(each.about_id)}
        for each in messages
    ]
    facts = load_facts(tenant, lines, absolute=False)
    return [InboxItem(row, fact) for row, fact in zip(messages, facts, strict=True)]


def collect_alike(items: Sequence[InboxItem]) -> list[dict[str, Any]]:
    """The messages in order; three or more similar ones in a row are grouped."""
    found: list[dict[str, Any]] = []
    for title, run in groupby(items, key=lambda each: each.title):
        members = list(run)
        if len(members) < ALIKE:
            found += [{"items": [each]} for each in members]
        else:
            unread = sum(each.row.read_at is None for each in members)
            found.append({"items": members, "word": f"{len(members)} times: {title}", "unread": unread})
    return found


def next_item(tenant: Tenant, actor_id: UUID) -> InboxItem | None:
    """Return the next item to open: unread, still open, the most urgent and then the longest waiting."""
    unread = notifications_queries.messages(tenant.id, actor_id, unread=True, limit=MOST)
    waiting = [each for each in inbox_items(tenant, unread) if not each.over]
    order = {"HIGH": 0, "NORMAL": 1, "LOW": 2}
    return min(waiting, key=lambda each: (order.get(each.row.risk, 1), each.row.id), default=None)
