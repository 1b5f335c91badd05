"""Queues: follow a message of a Redis or Valkey stream to its end (R-CP-11).

    effects.<name>   stream (expression), match {field: expression}, and optionally
                     group, dead_letter (expressions), downstream {hash: expression},
                     fields [field], tenant_field, target_field, sequence_field, max_deliveries

1. Published: the stream is scanned for messages with all matching fields, from a little before the
   execution on, in bounded pages. Published but not acknowledged by the group is `pending`.
2. Not found is "absent" only if nothing can have been removed from that part of the stream, and only if
   all of it was scanned. Otherwise it cannot be told: trimming a stream must not read as "never sent".
3. Acknowledged: delivered to the group and no longer pending there. A message given up to the dead-letter
   stream, or delivered too often, is not pending but failed.
4. What happened downstream is read after the acknowledgement, so that a slow write is not missed.
5. Only a master answers as PRIMARY; a replica, or a server that will not say, is weak.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from reviews.checks import lookups
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import ConversationDeadline, bounded_read, deadline_after
from reviews.readback.rules import shapes
from reviews.readback.rules.addresses import is_loopback
from reviews.reconciliation.rules.reading import NOT_FRESH

PAGE = 500
MAX_SCANNED = 50_000
MAX_FIELDS = 1000
MAX_DELIVERIES = 5
SLACK = timedelta(minutes=5)
"""How far the clocks of the broker and of the console may be apart."""
STUCK_AFTER = timedelta(minutes=1)

_NAME: shapes.Schema = {"type": "string", "fault": "must be a name."}
_PASSING = (BusyLoadingError, AuthenticationError)
_PASSING_CODES = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MOVED")

Message = dict[str, str]
Bindings = Mapping[str, Mapping[str, Any]]


@dataclass
class MessageTrail:
    """The findings for one effect, in the order of the queries."""

    messages: dict[str, Message] = field(default_factory=dict)
    whole: bool = True
    unacknowledged: bool = False
    indicators: set[str] = field(default_factory=set)
    downstream: dict[str, Any] | None = None


class QueueCheck(lookups.LookupCheck):
    """The check of pattern `queues_events`."""

    pattern = "queues_events"
    settings = {
        "url": shapes.member(shapes.TEXT, "Address", "Such as rediss://queue.example.org:6379/0, without a password."),
        "streams": shapes.readable("Streams"),
    }
    part = shapes.object_schema(
        {"stream": shapes.EXPRESSION, "match": shapes.map_schema()},
        {
            **dict.fromkeys(("group", "dead_letter"), shapes.EXPRESSION),
            **dict.fromkeys(("tenant_field", "target_field", "sequence_field"), _NAME),
            "fields": shapes.fields_schema(_NAME),
            "downstream": shapes.object_schema({"hash": shapes.EXPRESSION}, {}),
            "max_deliveries": shapes.number_schema(1),
        },
    )
    needs = {
        "consumer_group": ("group",),
        "processing_status": ("group", "dead_letter"),
        "resulting_state": ("downstream",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The declared fields of the message, all of them text, and its id."""
        text = {name: {"type": "string"} for name in part.get("fields", ())}
        return {**text, "message_id": {"type": "string"}, "acknowledged": {"type": "boolean"}}

    def fields_beside(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The hash downstream."""
        return {"downstream": {"type": "object"}}

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """The way of each message up to now."""
        parts = lookups.lookup_effects(verification)
        filled = {name: _fill_part(part, bindings) for name, part in parts.items()}
        _check_streams(system, filled)
        try:
            with redis_session(system, timeout_s) as client:
                role, offset = server_role(client)
                since = _first_millisecond(bindings, at=at) - _clock_lag_ms(client, at=at)
                trails = {name: _follow(client, part, since, at=at) for name, part in filled.items()}
        except RedisError as problem:
            raise check_failure(problem) from None
        indicators = {key for trail in trails.values() for key in trail.indicators}
        indicators |= set() if role is Consistency.PRIMARY else {NOT_FRESH}
        return Reading(
            source=system.name,
            consistency=role,
            freshness=f"offset {offset}, last id {_last_number(trails)}",
            observed_at=at,
            pointer="; ".join(f"{part['stream']} where {_describe(part)}" for part in parts.values()),
            effects=tuple(_effect(name, filled[name], trail) for name, trail in trails.items()),
            context=_context(trails),
            indicators=tuple(sorted(indicators)),
            raw={name: {"messages": trail.messages, "downstream": trail.downstream} for name, trail in trails.items()},
        )


# One reading


def _fill_part(part: Mapping[str, Any], bindings: Bindings) -> dict[str, Any]:
    """The part with its expressions replaced by their values."""
    found: dict[str, Any] = dict(part)
    for name in ("stream", "group", "dead_letter"):
        if name in part:
            found[name] = str(lookups.fill_template(part[name], bindings))
    found["match"] = {name: str(lookups.fill_template(text, bindings)) for name, text in part["match"].items()}
    if "downstream" in part:
        found["downstream"] = str(lookups.fill_template(part["downstream"]["hash"], bindings))
    return found


def _check_streams(system: SystemAccess, filled: Mapping[str, Mapping[str, Any]]) -> None:
    asked = [part[name] for part in filled.values() for name in ("stream", "dead_letter") if name in part]
    allowed = system.settings.get("streams", asked)
    for stream in asked:
        if stream not in allowed:
            raise CheckFailed(f"{stream} is not among the streams that may be read.", retryable=False)


@contextmanager
def redis_session(system: SystemAccess, timeout_s: float) -> Iterator[redis.Redis]:
    """A client whose whole conversation has a deadline, and whose connection was tested."""
    with ConversationDeadline(deadline_after(timeout_s)) as limit, _open_broker(system, timeout_s) as client:
        pool = client.connection_pool
        pool.connection_class = _watched_connection(pool.connection_class, limit)
        _challenge(client)
        yield client


def _watched_connection(kind: type[Any], limit: ConversationDeadline) -> type[Any]:
    """Connections of that kind that end with the limit, and are not opened again after it."""

    class Watched(kind):  # type: ignore[misc]
        def _connect(self) -> Any:
            limit.left_s  # noqa: B018 it fails when nothing is left
            talk = super()._connect()
            limit.watch(talk)
            return talk

    return Watched


def _challenge(client: redis.Redis) -> None:
    """Make the broker repeat a random word, so that recorded answers cannot be replayed."""
    word = secrets.token_hex(8)
    with suppress(NoPermissionError):
        if client.echo(word) != word:
            raise CheckFailed("The broker does not answer what it is asked.", retryable=True)


def _open_broker(system: SystemAccess, timeout_s: float) -> redis.Redis:
    address = system.credential.get("url") or system.settings.get("url")
    if not isinstance(address, str):
        raise CheckFailed("The system has no address.", retryable=False)
    parts = urlsplit(address)
    if parts.scheme == "redis" and parts.password and not is_loopback(parts.hostname or ""):
        raise CheckFailed("The broker is asked without TLS (rediss), so no secret is sent to it.", retryable=False)
    try:
        return redis.Redis.from_url(
            address,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # The library would try again by itself, each time as long.
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            # Bytes that are no text must not end the reading, nor look like other text.
            encoding_errors="backslashreplace",
        )
    except ValueError as problem:
        raise CheckFailed(f"The system's address is not one: {problem}", retryable=False) from None


def server_role(client: redis.Redis) -> tuple[Consistency, str]:
    try:
        said: Any = client.info("replication")
    except NoPermissionError:
        return Consistency.UNDECLARED, "unknown"
    master = said.get("role") == "master"
    return (Consistency.PRIMARY if master else Consistency.REPLICA), str(said.get("master_repl_offset"))


def _first_millisecond(bindings: Bindings, *, at: datetime) -> int:
    """The first millisecond whose messages are scanned; without a time of execution, that of all."""
    said = bindings.get("scope", {}).get("executed_at")
    try:
        executed_at = datetime.fromisoformat(str(said))
    except ValueError:
        return 0
    if executed_at.tzinfo is None:
        return 0
    return max(0, int((min(executed_at, at) - SLACK).timestamp() * 1000))


def _clock_lag_ms(client: redis.Redis, *, at: datetime) -> int:
    """Return how many milliseconds the broker's clock, which numbers the messages, is behind ours."""
    with suppress(NoPermissionError):
        seconds, microseconds = client.time()
        return max(0, int(at.timestamp() * 1000) - seconds * 1000 - microseconds // 1000)
    return 0


def _follow(client: redis.Redis, part: Mapping[str, Any], since: int, *, at: datetime) -> MessageTrail:
    trail = MessageTrail()
    trail.messages, scanned = _matching(client, part["stream"], part["match"], since)
    if not trail.messages:
        trail.whole = scanned and _is_whole(client, part, since)
        return trail
    if len(trail.messages) > 1:
        trail.indicators.add("duplicate_event")
    if "group" in part:
        _check_acknowledgement(client, part, trail)
    if trail.unacknowledged and _oldest(trail) < (at - STUCK_AFTER).timestamp() * 1000:
        trail.indicators.add("message_stuck")
    if "dead_letter" in part:
        _given_up(client, part, trail, since)
    if "downstream" in part:
        trail.downstream = _downstream(client, part["downstream"])
        _downstream_indicators(part, trail)
    return trail


def _matching(
    client: redis.Redis, stream: str, match: Mapping[str, str], since: int
) -> tuple[dict[str, Message], bool]:
    """Return the messages with these fields, and whether all candidates were seen."""
    found: dict[str, Message] = {}
    start, scanned = str(max(0, since)), 0
    while scanned < MAX_SCANNED:
        page: Any = client.xrange(stream, min=start, max="+", count=PAGE)
        for number, fields in page:
            if fields is not None and all(fields.get(name) == value for name, value in match.items()):
                found[number] = fields
        scanned += len(page)
        if len(page) < PAGE:
            return found, True
        start = f"({page[-1][0]}"
    return found, False


def _is_whole(client: redis.Redis, part: Mapping[str, Any], since: int) -> bool:
    """Return True if nothing can have been removed from the scanned part of the stream (rule 2)."""
    try:
        about: Any = client.xinfo_stream(part["stream"])
    except ResponseError as problem:
        # A group has a stream to belong to: if that is gone, so is what was in it.
        if "no such key" in str(problem):
            return "group" not in part
        raise
    if about.get("entries-added") == about["length"]:
        return True
    first, deleted = about.get("first-entry"), str(about.get("max-deleted-entry-id", "0-0"))
    starts_before = first is not None and _milliseconds(first[0]) < since
    return starts_before and _milliseconds(deleted) < since


def _milliseconds(number: str) -> int:
    return int(number.partition("-")[0])


def _check_acknowledgement(client: redis.Redis, part: Mapping[str, Any], trail: MessageTrail) -> None:
    groups: Any = client.xinfo_groups(part["stream"])
    group = next((one for one in groups if one["name"] == part["group"]), None)
    if group is None:
        trail.unacknowledged = True
        return
    for number in trail.messages:
        waiting: Any = client.xpending_range(part["stream"], part["group"], min=number, max=number, count=1)
        if waiting and waiting[0]["times_delivered"] >= part.get("max_deliveries", MAX_DELIVERIES):
            trail.indicators.add("consumer_failure")
        elif waiting or _order(number) > _order(group["last-delivered-id"]):
            trail.unacknowledged = True


def _oldest(trail: MessageTrail) -> int:
    return min(map(_milliseconds, trail.messages))


def _order(number: str) -> tuple[int, int]:
    milliseconds, _, sequence = number.partition("-")
    return int(milliseconds), int(sequence or 0)


def _given_up(client: redis.Redis, part: Mapping[str, Any], trail: MessageTrail, since: int) -> None:
    dead, _ = _matching(client, part["dead_letter"], part["match"], since)
    if dead:
        trail.indicators.add("dead_letter")


def _downstream(client: redis.Redis, name: str) -> dict[str, Any]:
    length: Any = client.hlen(name)
    if length > MAX_FIELDS:
        raise CheckFailed(f"{name} has more than {MAX_FIELDS} fields.", retryable=False)
    fields: Any = client.hgetall(name)
    return {**fields, "exists": bool(fields)}


def _downstream_indicators(part: Mapping[str, Any], trail: MessageTrail) -> None:
    assert trail.downstream is not None
    if trail.unacknowledged or trail.indicators & {"dead_letter", "consumer_failure"}:
        return
    if not trail.downstream["exists"]:
        trail.indicators.add("missing_downstream_mutation")
    name = part.get("sequence_field")
    if name is None:
        return
    sent = [message[name] for message in trail.messages.values() if message.get(name, "").isdecimal()]
    kept = str(trail.downstream.get(name, ""))
    if sent and kept.isdecimal() and int(kept) < max(map(int, sent)):
        # Acknowledged, yet an older state stands: a message before it was handled after it.
        trail.indicators.add("out_of_order_processing")


def _effect(name: str, part: Mapping[str, Any], trail: MessageTrail) -> ReadEffect:
    if not trail.messages:
        return ReadEffect(name=name, present=False if trail.whole else None, scope=_scope(part, []))
    number, message = next(iter(trail.messages.items()))
    failed = bool(trail.indicators & {"dead_letter", "consumer_failure"})
    fields = {one: message[one] for one in part.get("fields", ()) if one in message}
    return ReadEffect(
        name=name,
        present=True,
        count=len(trail.messages),
        fields={**fields, "message_id": number, "acknowledged": not trail.unacknowledged},
        pending=trail.unacknowledged and not failed,
        scope=_scope(part, list(trail.messages.values())),
        instances=tuple(
            {one: each[one] for one in part.get("fields", ()) if one in each} | {"message_id": key}
            for key, each in trail.messages.items()
        ),
    )


def _scope(part: Mapping[str, Any], messages: list[Message]) -> dict[str, tuple[Any, ...]]:
    kinds = {kind: part[f"{kind}_field"] for kind in ("tenant", "target") if f"{kind}_field" in part}
    return {kind: tuple(dict.fromkeys(message.get(name) for message in messages)) for kind, name in kinds.items()}


def _context(trails: Mapping[str, MessageTrail]) -> dict[str, Any]:
    first = next(iter(trails.values()), MessageTrail())
    return {} if first.downstream is None else {"downstream": first.downstream}


def _last_number(trails: Mapping[str, MessageTrail]) -> str:
    numbers = [number for trail in trails.values() for number in trail.messages]
    return max(numbers, key=_order, default="none")


def _describe(part: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} = {text}" for name, text in part["match"].items())


def check_failure(problem: RedisError) -> CheckFailed:
    """Return the failure: a missing right or a key of another type is lasting; an outage is temporary, as is an answer
    that is not a broker's.
    """
    refused = isinstance(problem, ResponseError) and not isinstance(problem, _PASSING)
    passing = not refused or str(problem).startswith(_PASSING_CODES)
    sentence = str(problem).split("\n")[0][:300] or type(problem).__name__
    return CheckFailed(sentence, retryable=passing and not isinstance(problem, NoPermissionError))
