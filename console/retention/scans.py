"""The search for the actions that mention one person, before their erasure is requested.

A worker opens the payloads, portion by portion, newest first; nothing that it reads is kept or indexed. The typed text
waits sealed in the counters' server, beside the ids of the actions found, for an hour at most. A server that loses them
loses a search and nothing else: it is started again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

import redis

from approvals.sessions import queries as sessions
from console.actions.action_record import payloads_of
from console.brokers import counters
from ledger import keystore
from ledger.actions.queries import actions
from ledger.record.rules.encryption import seal
from ledger.record.rules.refusals import Refused

KEPT_S: Final = 3600
PORTION: Final = 200
MOST_FOUND: Final = 100
"""The most actions that one search finds: each is checked when it is shown. A search that ends there says so."""
SHORTEST: Final = 3
RESTING_S: Final = 15.0
_PATIENCE_S: Final = 2.0
_RUNNING: Final = "counterfoil:person-searches"


class SearchUnavailable(Refused):
    """The counters do not answer, so nothing can be searched for now. Try again in a moment."""

    code = "UNAVAILABLE"
    status = 503


@dataclass(frozen=True, kw_only=True)
class PersonSearch:
    """A search: who started it, how far back it has looked, and the actions found, newest first."""

    id: str
    by: str
    sealed: str
    looked: int = 0
    before: str = ""
    found: list[str] = field(default_factory=list)
    is_done: bool = False

    @property
    def back_to(self) -> datetime | None:
        """The time of the oldest action that was looked at."""
        return datetime.fromtimestamp((UUID(self.before).int >> 80) / 1000, UTC) if self.before else None

    @property
    def is_cut(self) -> bool:
        """Return whether it ended because it found as many as are shown."""
        return len(self.found) >= MOST_FOUND


def start_search(*, tenant_id: UUID, text: str, by: UUID, at: datetime) -> PersonSearch:
    """Keep a new search for a typed text; a worker carries it out."""
    search_id = str(uuid4())
    sealed = seal(keystore.key_encryption_key(), os.urandom(12), text.strip().encode(), search_id).hex()
    search = PersonSearch(id=search_id, by=str(by), sealed=sealed)
    _keep(tenant_id, search, at=at)
    return search


def read_search(tenant_id: UUID, search_id: UUID, *, by: UUID | None = None) -> PersonSearch | None:
    """Return a search as far as it is, for the person who started it; None if it is over, lost or somebody else's, and
    while the counters do not answer.
    """
    try:
        kept = counters.client(_PATIENCE_S).get(_name(tenant_id, str(search_id)))
    except redis.RedisError:
        return None
    search = PersonSearch(**json.loads(kept)) if isinstance(kept, bytes) else None
    return search if search is not None and (by is None or search.by == str(by)) else None


def resting_searches(*, at: datetime) -> list[tuple[UUID, UUID]]:
    """(tenant, search) of searches that no worker has gone on with for a while, because its message was lost."""

    def resting(client: redis.Redis) -> list[bytes]:
        now = at.timestamp()
        client.zremrangebyscore(_RUNNING, "-inf", now - KEPT_S)
        found: Any = client.zrangebyscore(_RUNNING, "-inf", now - RESTING_S, start=0, num=10)
        return list(found)

    try:
        found = [each.decode().split(":") for each in counters.ask(resting)]
    except counters.CountersAway:
        return []
    return [(UUID(tenant_id), UUID(search_id)) for tenant_id, search_id in found]


def search_portion(tenant_id: UUID, search_id: UUID, *, at: datetime) -> bool:
    """Look through the next portion of actions; return whether there are more. Inside `tenancy`."""
    search = read_search(tenant_id, search_id)
    if search is None or search.is_done:
        return False
    text = keystore.open_with_any(keystore.key_encryption_keys(), bytes.fromhex(search.sealed), search.id).decode()
    before = UUID(search.before) if search.before else None
    portion = actions.actions(tenant_id, before=before, limit=PORTION)
    payloads = payloads_of(tenant_id, portion)
    opened = sessions.sessions_by_id(tenant_id, {each.session_id for each in portion})
    found = list(search.found)
    for each in portion:
        session = opened.get(each.session_id)
        said = (each.target, session.goal if session else "", payloads.get(each.id, {}))
        if mentions(text, said):
            found.append(str(each.id))
    search = replace(
        search,
        looked=search.looked + len(portion),
        before=str(portion[-1].id) if portion else search.before,
        found=found[:MOST_FOUND],
        is_done=len(portion) < PORTION or len(found) >= MOST_FOUND,
    )
    _keep(tenant_id, search, at=at)
    return not search.is_done


def mentions(text: str, value: Any) -> bool:
    """Return whether a value, or any value in it, has this text in it, without regard to case."""
    wanted = " ".join(text.casefold().split())
    return any(wanted in " ".join(each.casefold().split()) for each in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Iterable):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def _keep(tenant_id: UUID, search: PersonSearch, *, at: datetime) -> None:
    try:
        with counters.client(_PATIENCE_S).pipeline() as pipe:
            pipe.set(_name(tenant_id, search.id), json.dumps(asdict(search)), ex=KEPT_S)
            if search.is_done:
                pipe.zrem(_RUNNING, f"{tenant_id}:{search.id}")
            else:
                pipe.zadd(_RUNNING, {f"{tenant_id}:{search.id}": at.timestamp()})
            pipe.expire(_RUNNING, KEPT_S)
            pipe.execute()
    except redis.RedisError:
        raise SearchUnavailable from None


def _name(tenant_id: UUID, search_id: str) -> str:
    return f"counterfoil:person-search:{tenant_id}:{search_id}"
