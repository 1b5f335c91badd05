"""Terraform and OpenTofu: compares a state, read from its backend, with a saved plan.

    effects.<name>   reads "state"

What is looked for is what the call asked for, under these names of its arguments: `backend` and `place` (the kind of
backend, and where in it the state stands), `lineage` ("-" where there was no state yet) and `serial`, as they were when
the plan was made, and `changes` (each `address`, `action`, `values` as `name = JSON`, and for what was replaced `was`).

The system's settings: url of a backend `http` (what the addresses of states stand below), or the address of a
PostgreSQL, as `databases` has it, for a backend `pg`; states (those that may be read). A state holds secrets: only
counts leave this check.

1. The state is the one that the plan was made for, by its lineage: another one is no answer. A first apply makes the
   lineage; that state is told by its place alone.
2. The apply wrote something when the serial is higher than the plan's. `differing` counts the changes that do not stand
   there: an object that is missing or still there, a value that is otherwise, an object that was not replaced. A value
   that the plan did not know, or that is sensitive, is not among what was asked.
3. What a state says is what the program recorded. Whether the objects themselves are so is another matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg import sql

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.checks.postgres import ADDRESS, check_failure, primary_status, read_only_connection
from reviews.readback.rules import shapes

_FIELDS: dict[str, Any] = {
    **{name: {"type": "string"} for name in ("place", "lineage")},
    **{name: {"type": "integer"} for name in ("serial", "resources", "differing")},
}
_GONE = frozenset({"delete", "drop", "forget"})


class TerraformCheck(lookups.LookupCheck):
    """The check of pattern `terraform`."""

    pattern = "terraform"
    settings = {**ADDRESS, **fetching.SITE, "states": shapes.readable("States")}
    fields = _FIELDS
    part = shapes.reads_schema(("state",))

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Count the changes of the plan that the state holds now."""
        asked = bindings.get("sr", {})
        lookups.refuse_unlisted(str(asked["place"]), system.settings.get("states"), "states")
        content, consistency = _read_state(system, asked, at, timeout_s)
        state = _state(content, asked)
        fields = _state_fields(state, asked)
        present = state is not None and fields["serial"] > asked["serial"]
        names = lookups.lookup_effects(verification)
        return Reading(
            source=system.name,
            consistency=consistency,
            freshness=f"serial {fields['serial']} of {fields['lineage'] or 'no lineage'}",
            observed_at=at,
            pointer=str(asked["place"]),
            effects=tuple(ReadEffect(name=each, present=present, count=int(present), fields=fields) for each in names),
            raw=dict.fromkeys(names, fields),
        )


def _read_state(
    system: SystemAccess, asked: Mapping[str, Any], at: datetime, timeout_s: float
) -> tuple[bytes | None, Consistency]:
    """Return the state from its backend; None if the backend reports that there is none."""
    address = str(system.credential.get("url") or system.settings.get("url") or "")
    kept_in = "http" if address.startswith(("http:", "https:")) else "pg"
    if asked["backend"] != kept_in:
        raise CheckFailed(
            f"The plan's state is kept by a backend {asked['backend']}; here only one of kind {kept_in} is read.",
            retryable=False,
        )
    if kept_in == "pg":
        return _from_postgresql(system, str(asked["place"]), timeout_s)
    top = address.rstrip("/") + "/"
    if not str(asked["place"]).startswith(top):
        raise CheckFailed(f"{asked['place']} does not stand below {top}", retryable=False)
    path = "/".join(fetching.path_segment(unquote(each)) for each in asked["place"].removeprefix(top).split("/"))
    with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s)) as site:
        answer = site.get(f"/{path}")
    if answer.status not in (200, 204, 404):
        raise CheckFailed(f"{answer.url} answered {answer.status} and no state.", retryable=True)
    consistency = fetching.effective_consistency(system, answer, at=at)
    return (answer.whole().content or None) if answer.status == 200 else None, consistency


def _from_postgresql(system: SystemAccess, state: str, timeout_s: float) -> tuple[bytes | None, Consistency]:
    schema, _, workspace = state.partition("/")
    query = sql.SQL("SELECT data FROM {} WHERE name = %s").format(sql.Identifier(schema, "states"))
    try:
        with read_only_connection(system, timeout_s) as connection, connection.transaction():
            replica = primary_status(connection)["in_recovery"]
            row = connection.execute(query, [workspace]).fetchone()
    except psycopg.Error as problem:
        raise check_failure(problem) from None
    found = str(row["data"]).encode() if row and row["data"] else None
    return found, Consistency.REPLICA if replica else Consistency.PRIMARY


def _state(content: bytes | None, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """The document, if it is the state that the plan was made for (rule 1)."""
    if content is None:
        if asked["lineage"] != "-":
            raise CheckFailed(f"The state {asked['lineage']} is not there.", retryable=True)
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("resources"), list) or found.get("version") != 4:
        raise CheckFailed("What stands there is no state in a form that can be read.", retryable=False)
    if asked["lineage"] not in ("-", found.get("lineage")):
        raise CheckFailed(
            f"This is the state {found.get('lineage')}; the plan was made for {asked['lineage']}.", retryable=False
        )
    return found


def _state_fields(state: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> dict[str, Any]:
    known = dict(_objects(state or {}))
    return {
        "place": asked["place"],
        "lineage": str((state or {}).get("lineage", "")),
        "serial": int((state or {}).get("serial", 0)),
        "resources": sum(not name.startswith("output.") for name in known),
        "differing": sum(not _holds_change(change, known) for change in asked["changes"]),
    }


def _objects(state: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The attributes of each object by its address, as the program writes addresses."""
    for name, output in (state.get("outputs") or {}).items():
        yield f"output.{name}", {"value": output.get("value")}
    for resource in state.get("resources", ()):
        if resource.get("mode") != "managed":
            continue
        module = f"{resource['module']}." if resource.get("module") else ""
        for instance in resource.get("instances", ()):
            address = f"{module}{resource['type']}.{resource['name']}{_index(instance.get('index_key'))}"
            deposed = f" (deposed {instance['deposed']})" if instance.get("deposed") else ""
            yield address + deposed, instance.get("attributes") or {}


def _index(key: str | int | None) -> str:
    if key is None:
        return ""
    quoted = json.dumps(key, ensure_ascii=False)
    return f"[{quoted.replace('${', '$${').replace('%{', '%%{')}]"


def _holds_change(change: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the state holds one change of the plan (rule 2)."""
    address, found = change["address"], known.get(change["address"])
    if change["action"] in _GONE:
        return found is None
    if found is None or (change["action"] == "replace" and any(each.startswith(f"{address} (") for each in known)):
        return False
    if "was" in change and found.get("id") == change["was"]:
        return False
    return all(_is_as_told(line, found) for line in change["values"])


def _is_as_told(line: str, found: Mapping[str, Any]) -> bool:
    name, _, told = line.partition(" = ")
    value = found.get(name)
    # An attribute of any type stands beside its type.
    unwrapped = value["value"] if isinstance(value, dict) and value.keys() == {"value", "type"} else value
    return any(told in (text, f"sha256:{_digest(text)}") for text in map(_text, (value, unwrapped)))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
