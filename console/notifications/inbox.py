"""A person's own list: each message with what it is about, as it stands now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from console.notifications import queries as notifications_queries
from console.notifications.facts import facts, outdated
from console.notifications.messages import Fact, title, what

MOST = 100


@dataclass(frozen=True)
class Item:
    """One message; `over` is a request that was decided meanwhile."""

    row: Any
    fact: Fact

    @property
    def title(self) -> str:
        return title(self.row.kind)

    @property
    def what(self) -> str:
        """What it is about, with its target: only here, where the reader is signed in."""
        return ", ".join(part for part in (self.fact.title, what(self.fact) if self.fact.verb else "") if part)

    @property
    def over(self) -> bool:
        return outdated(self.fact)


def items(tenant: Any, messages: Sequence[Any]) -> list[Item]:
    """The messages in their order."""
    lines = [
        {"kind": each.kind, "risk": each.risk, "about_kind": each.about_kind, "about": str(each.about_id)}
        for each in messages
    ]
    told = facts(tenant, lines, absolute=False)
    return [Item(row, fact) for row, fact in zip(messages, told, strict=True)]


def next_item(tenant: Any, actor_id: Any) -> Item | None:
    """What to look at next: unread, still open, the most urgent and then the longest waiting."""
    unread = notifications_queries.messages(tenant.id, actor_id, unread=True, limit=MOST)
    waiting = [each for each in items(tenant, unread) if not each.over]
    order = {"HIGH": 0, "NORMAL": 1, "LOW": 2}
    return min(waiting, key=lambda each: (order.get(each.row.risk, 1), each.row.id), default=None)
