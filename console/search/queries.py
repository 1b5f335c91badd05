"""Reads of the search: objects of a tenant by id, hash, amount, code, target and name. Run inside `tenancy`.

The record may be of any size: only indexes are used, and for a few rows. Row-level security lets PostgreSQL compare ids
and texts by an index and no patterns, so a part of a target is looked for where `ledger_search` can. Tools, agents,
systems and people are few and are read in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple
from uuid import UUID

from approvals.sessions import queries as sessions
from console.search import rules
from ledger import keystore
from ledger.actions.queries import actions
from ledger.db import execute

if TYPE_CHECKING:
    from approvals.models import Session
    from ledger.models import Action

MOST: Final = 10
"""So many of each kind are shown; a list with filters shows all."""
MOST_FOLLOWED: Final = 3
"""Of so many tools and agents the actions and sessions are shown, too."""
SHORTEST_PART: Final = 3
"""An index of parts of words knows none that are shorter."""


class FoundSubject(NamedTuple):
    """Something that the record has events of."""

    id: UUID
    kind: str
    seq: int


class FoundName(NamedTuple):
    """Something that is registered under a name: a tool by its newest version, an agent, a system, a person, a run."""

    kind: str
    name: str
    more: str
    id: str


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The results for a typed text; `actions` are the newest, each once."""

    subjects: list[FoundSubject] = field(default_factory=list)
    names: list[FoundName] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.subjects or self.names or self.sessions or self.targets or self.actions)


_SUBJECTS: Final[LiteralString] = (
    "SELECT id, kind, seq FROM ledger_subject WHERE tenant_id = $1 AND id >= $2 AND id <= $3 ORDER BY id DESC LIMIT $4"
)
_TERMS: Final[LiteralString] = (
    "SELECT action_id FROM (SELECT action_id FROM console_searchterm WHERE tenant_id = $1 AND term = ANY($2)"
    " ORDER BY action_id DESC LIMIT $5) AS said"
    " UNION (SELECT action_id FROM console_searchterm WHERE tenant_id = $1 AND $3 <> '' AND term >= $3 AND term < $4"
    " LIMIT $5)"
)
_NAMES: Final[LiteralString] = """
    (SELECT 'tool', name, (array_agg(version ORDER BY registered_at DESC))[1], '' FROM ledger_contractversion
        WHERE tenant_id = $1 AND (name ILIKE $2 OR $4 <> '' AND starts_with(digest, $4))
        GROUP BY name ORDER BY name LIMIT $5)
    UNION ALL (SELECT 'agent', agent_id, version, '' FROM approvals_agent
        WHERE tenant_id = $1 AND agent_id ILIKE $2 ORDER BY agent_id LIMIT $5)
    UNION ALL (SELECT 'system', name, pattern, '' FROM ledger_system
        WHERE tenant_id = $1 AND name ILIKE $2 ORDER BY name LIMIT $5)
    UNION ALL (SELECT 'policy', version, kind, '' FROM ledger_policyversion
        WHERE tenant_id = $1 AND $4 <> '' AND starts_with(digest, $4) ORDER BY version LIMIT $5)
    UNION ALL (SELECT 'run', run_id, '', '' FROM ledger_action WHERE tenant_id = $1 AND run_id = $3 LIMIT 1)
"""
_PEOPLE: Final[LiteralString] = """
    SELECT 'person', coalesce(nullif(trim(u.first_name || ' ' || u.last_name), ''), u.username), u.username, m.id::text
        FROM console_membership m JOIN console_user u ON u.id = m.user_id
        WHERE m.tenant_id = $1 AND m.removed_at IS NULL AND m.joined_at IS NOT NULL
            AND (u.username ILIKE $2 OR u.first_name || ' ' || u.last_name ILIKE $2)
        ORDER BY u.username LIMIT $3
"""


def search(tenant_id: UUID, text: str, *, with_people: bool) -> SearchResult:
    """Search for a typed text; empty for one that is too short."""
    typed = text.strip()
    if len(typed) < 2 or "\x00" in typed:
        return SearchResult()
    digits = rules.hex_prefix(typed)
    subjects = _subjects(tenant_id, digits)
    names = _names(tenant_id, typed, digits, with_people=with_people)
    found = _actions(tenant_id, typed, digits)
    # The targets are those that the text is a part of, also where a tool of that name did something else.
    targeted = list(found.values())
    found |= _actions_of(tenant_id, names)
    newest = sorted(found.values(), key=lambda each: each.id, reverse=True)
    targeted.sort(key=lambda each: each.id, reverse=True)
    targets = list(dict.fromkeys(each.target for each in targeted if typed.casefold() in each.target.casefold()))
    return SearchResult(
        subjects=subjects[:MOST],
        names=names,
        sessions=_sessions(tenant_id, names, subjects),
        targets=targets[:MOST],
        actions=newest[:MOST],
    )


def _subjects(tenant_id: UUID, digits: str) -> list[FoundSubject]:
    ids = rules.id_range(digits)
    return [FoundSubject(*row) for row in execute(_SUBJECTS, tenant_id, *ids, MOST)] if ids else []


def _actions(tenant_id: UUID, typed: str, digits: str) -> dict[UUID, Action]:
    keys = keystore.key_encryption_keys()
    asked = [term for key in keys for term in rules.asked_terms(tenant_id, key, typed)]
    beginning = f"h:{digits}" if digits else ""
    named = execute(_TERMS, tenant_id, asked, beginning, beginning + rules.LAST, MOST)
    found = actions.actions_by_id(tenant_id, [action_id for (action_id,) in named])
    if len(typed) >= SHORTEST_PART:
        found |= {each.id: each for each in actions.actions(tenant_id, q=typed, limit=MOST)}
    return found


def _actions_of(tenant_id: UUID, names: Sequence[FoundName]) -> dict[UUID, Action]:
    """The newest actions of the first tools and agents that were found."""
    found: dict[UUID, Action] = {}
    for kind in ("tool", "agent"):
        for name in [each.name for each in names if each.kind == kind][:MOST_FOLLOWED]:
            filters: dict[str, Any] = {kind: name}
            found |= {each.id: each for each in actions.actions(tenant_id, limit=MOST // 2, **filters)}
    return found


def _sessions(tenant_id: UUID, names: Sequence[FoundName], subjects: Sequence[FoundSubject]) -> list[Session]:
    """The sessions with an id that was typed, and the newest of the first agents that were found."""
    named = {each.id for each in subjects if each.kind == "session"}
    found = dict(sessions.sessions_by_id(tenant_id, named)) if named else {}
    for agent in [each.name for each in names if each.kind == "agent"][:MOST_FOLLOWED]:
        found |= {each.id: each for each in sessions.sessions_of(tenant_id, agent, limit=MOST_FOLLOWED)}
    return sorted(found.values(), key=lambda each: each.id, reverse=True)[:MOST]


def _names(tenant_id: UUID, typed: str, digits: str, *, with_people: bool) -> list[FoundName]:
    pattern = "%" + typed.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    rows = execute(_NAMES, tenant_id, pattern, typed, digits, MOST)
    rows += execute(_PEOPLE, tenant_id, pattern, MOST) if with_people else []
    return [FoundName(*row) for row in rows]
