"""Check `security_infrastructure`: read a principal's policies from OpenBao or Vault over HTTP (R-CP-10).

    effects.<name>   either  policy (expression), and optionally document (expression: the text asked for)
                     or      principal (expression), directory (where principals stand, as in
                             "auth/userpass/users" or "identity/entity/name"), granted, removed
                             (lists of expressions: policies), token (expression: a live token's accessor)
                     and     expect "absent", wildcard_depth, tenant_field, target_field
    audit            approval (expression), and optionally actor (expression)

A system has `url`, and may have `namespace`, `audit_log` (a JSON-lines audit file that the worker can
read) and `approval_header` (a request header that the audit device records in clear). The credential is
a `token` whose policy only reads; asking about a token by its accessor is an update right to Vault, and
changes nothing.

1. Policies are compared as rules, not as text. One that is not understood cannot be told; it is never
   empty. More than was asked for is `privilege_escalation`, anything else that differs `policy_mismatch`.
2. What others hold is compared with the reading before execution: whoever holds a granted policy since,
   without having been asked for, is `wrong_principal`.
3. A live token is asked for its own policies: one that was issued before keeps its rights until it ends.
4. Only the active node answers as PRIMARY.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from reviews.checks import acl, fetching, lookups
from reviews.checks.fetching import Site
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes
from reviews.reconciliation.rules.reading import DECISIVE, NOT_FRESH

MAX_PRINCIPALS = 200
MAX_AUDIT_BYTES = 32 * 1024 * 1024
WILDCARD_DEPTH = 2

_EITHER = {"expect": shapes.EXPECT, "wildcard_depth": shapes.number_schema(1)}
_DIRECTORY = {
    "type": "string",
    "pattern": r"^(?:auth/[\w./-]+/(users|role|roles|groups)|identity/(entity|group)/name)$",
    "not": {"pattern": r"\.\."},
    "fault": "must be where principals stand, as in auth/userpass/users.",
}
_TEXT = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
_POLICY_FIELDS = {"policy": _TEXT, "digest": _TEXT, "paths": _LIST, "namespace": _TEXT}
_PRINCIPAL_FIELDS = {
    "principal": _TEXT, "policies": _LIST, "holders": _LIST, "token_policies": _LIST, "namespace": _TEXT,
}  # fmt: skip
_ALWAYS_HELD = frozenset({"default"})

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass
class Finding:
    """One effect that was found, and the indicators that fired for it."""

    present: bool | None
    fields: dict[str, Any] = field(default_factory=dict)
    indicators: set[str] = field(default_factory=set)


class AccessCheck(lookups.LookupCheck):
    """The check of pattern `security_infrastructure`."""

    pattern = "security_infrastructure"
    settings = {
        **fetching.SITE,
        "namespace": shapes.member(shapes.TEXT, "Namespace"),
        "audit_log": shapes.member(shapes.TEXT, "Audit file", "JSON lines, on the hosts that read it."),
        "approval_header": shapes.member(
            shapes.TEXT, "Header that names the approval", "One that the audit device records in plain text."
        ),
    }
    part = {
        "if": {"required": ["policy"]},
        "then": shapes.object_schema(
            {"policy": shapes.EXPRESSION},
            {"document": shapes.EXPRESSION, **_EITHER, **shapes.scope_schema(("namespace", "policy"))},
        ),
        "else": {
            "if": {"required": ["principal"]},
            "then": shapes.object_schema(
                {"principal": shapes.EXPRESSION, "directory": _DIRECTORY},
                {
                    **dict.fromkeys(("granted", "removed"), shapes.list_schema(shapes.EXPRESSION, "expressions")),
                    "token": shapes.EXPRESSION,
                    **_EITHER,
                    **shapes.scope_schema(("namespace", "principal")),
                },
            ),
            "else": {"not": {}, "fault": "must name either a policy or a principal."},
        },
    }
    beside = {"audit": shapes.object_schema({"approval": shapes.EXPRESSION}, {"actor": shapes.EXPRESSION})}
    needs = {
        "granted_removed_scopes": ("granted", "removed", "document"),
        "policy_diff": ("document", "granted", "removed"),
        "approval_id": ("audit",),
        "actor_id": ("actor", "actors"),
        "audit_entry": ("audit",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of a policy or a principal."""
        return _POLICY_FIELDS if "policy" in part else _PRINCIPAL_FIELDS

    def fields_beside(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the audit trail."""
        trail = {"exists": {"type": "boolean"}, "count": {"type": "integer"}, "actors": _LIST, "paths": _LIST}
        return {"audit": {"type": "object", "properties": trail}} if "audit" in lookup else {}

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
        """Read the policies in force at the active node."""
        parts = lookups.lookup_effects(verification)
        with _site(system, timeout_s) as site:
            standing, told_at = _node_status(site, system, at=at)
            found = {name: _read_effect(site, system, name, part, bindings) for name, part in parts.items()}
        context: dict[str, Any] = {}
        indicators = {key for one in found.values() for key in one.indicators}
        if "audit" in verification["lookup"]:
            context, fired = _audit(system, verification["lookup"], bindings)
            indicators |= fired
        indicators |= set() if standing is Consistency.PRIMARY else {NOT_FRESH}
        return Reading(
            source=system.name,
            consistency=standing,
            freshness=f"server time {told_at}",
            observed_at=at,
            pointer="; ".join(_describe(part) for part in parts.values()),
            effects=tuple(_effect(name, parts[name], one) for name, one in found.items()),
            context=context,
            indicators=tuple(sorted(indicators)),
            raw={name: one.fields for name, one in found.items()},
        )


# One reading


def _site(system: SystemAccess, timeout_s: float) -> Site:
    headers = {"X-Vault-Token": str(system.credential.get("token", "")), "X-Vault-Request": "true"}
    if "namespace" in system.settings:
        headers["X-Vault-Namespace"] = str(system.settings["namespace"])
    return fetching.open_site(
        system, system.settings.get("url"), until=fetching.deadline_after(timeout_s), headers=headers
    )


def _node_status(site: Site, system: SystemAccess, *, at: datetime) -> tuple[Consistency, str]:
    """Return whether this is the active node, and its clock."""
    answer = site.get("/v1/sys/health", params={"standbyok": "true", "perfstandbyok": "true"})
    said = answer.document()
    if fetching.effective_consistency(system, answer, at=at) not in DECISIVE:
        return Consistency.STALE_ENDPOINT, str(said.get("server_time_utc"))
    behind = said.get("standby", True) or said.get("performance_standby", False)
    away = said.get("replication_performance_mode") == "secondary" or said.get("replication_dr_mode") == "secondary"
    return (Consistency.REPLICA if behind or away else Consistency.PRIMARY), str(said.get("server_time_utc"))


def _read_data(site: Site, path: str, *, params: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """Return the data at a path; None if the server reports that there is none."""
    answer = site.get(path, params=params)
    if answer.status == 404:
        # The server says "nothing here" in its own words; a gateway's own 404 is no such answer.
        if answer.document().get("errors") != []:
            raise CheckFailed(f"{answer.url} is not served.", retryable=False)
        return None
    if answer.status != 200:
        raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=False)
    found = answer.document().get("data")
    if not isinstance(found, dict) or not found:
        raise CheckFailed(f"{answer.url} answered without data.", retryable=True)
    return found


def _read_effect(site: Site, system: SystemAccess, name: str, part: Mapping[str, Any], bindings: Bindings) -> Finding:
    before = bindings.get("pre", {}).get("effects", {}).get(name, {})
    find = _policy if "policy" in part else _principal
    found = find(site, part, bindings, before)
    found.fields["namespace"] = str(system.settings.get("namespace", ""))
    return found


def _policy(site: Site, part: Mapping[str, Any], bindings: Bindings, before: Mapping[str, Any]) -> Finding:
    asked = str(lookups.fill_template(part["policy"], bindings))
    text = _policy_text(site, asked)
    gone = part.get("expect") == "absent"
    if text is None or gone:
        return Finding((text is None) is gone, {"policy": asked})
    fields: dict[str, Any] = {"policy": asked, "digest": hashlib.sha256(text.encode()).hexdigest()}
    try:
        rules = acl.parse_policy(text)
    except acl.UnreadablePolicy:
        return Finding(None, fields)
    fields["paths"] = sorted(rules)
    found = Finding(True, fields)
    if "document" in part:
        _compare(found, rules, _wanted_rules(part, bindings), unchanged=before.get("digest") == fields["digest"])
    if found.present and acl.is_overbroad(rules, part.get("wildcard_depth", WILDCARD_DEPTH)):
        found.indicators.add("wildcard_policy")
    return found


def _wanted_rules(part: Mapping[str, Any], bindings: Bindings) -> acl.Rules:
    try:
        return acl.parse_policy(str(lookups.fill_template(part["document"], bindings)))
    except acl.UnreadablePolicy as problem:
        raise CheckFailed(f"The policy that was asked for is not understood: {problem}", retryable=False) from None


def _compare(found: Finding, rules: acl.Rules, wanted: acl.Rules, *, unchanged: bool) -> None:
    if rules == wanted:
        return
    if unchanged:
        found.present = False
        return
    found.indicators.add("policy_mismatch")
    if acl.grants_more(rules, wanted):
        found.indicators.add("privilege_escalation")


def _policy_text(site: Site, name: str) -> str | None:
    data = _read_data(site, f"/v1/sys/policies/acl/{fetching.path_segment(name)}")
    if data is None:
        return None
    if not isinstance(data.get("policy"), str) or data.get("name") != name:
        raise CheckFailed(f"The server did not answer with the policy {name}.", retryable=True)
    return str(data["policy"])


def _principal(site: Site, part: Mapping[str, Any], bindings: Bindings, before: Mapping[str, Any]) -> Finding:
    asked = str(lookups.fill_template(part["principal"], bindings))
    granted = {str(lookups.fill_template(text, bindings)) for text in part.get("granted", ())}
    removed = {str(lookups.fill_template(text, bindings)) for text in part.get("removed", ())}
    holders = _holders(site, part["directory"], granted)
    held = _policies_of(site, part["directory"], asked)
    gone = part.get("expect") == "absent"
    found = Finding((held is None) is gone, {"principal": asked})
    if holders is not None:
        found.fields["holders"] = sorted(holders)
        if "holders" in before and holders - set(before["holders"]) - {asked}:
            found.indicators.add("wrong_principal")
    if held is None or gone:
        return found
    found.fields["policies"] = sorted(held)
    found.present = _has_taken_effect(held, granted, removed)
    found.indicators |= set(_differences(held, granted, removed, before, applied=found.present))
    if found.present:
        found.indicators |= set(_wildcards(site, part, held, granted))
    if "token" in part:
        _read_live_token(site, str(lookups.fill_template(part["token"], bindings)), found, granted, removed)
    return found


def _has_taken_effect(held: set[str], granted: set[str], removed: set[str]) -> bool:
    """Return True if any of the requested grants or removals took effect; without any, if the principal
    itself exists.
    """
    return bool(granted & held) or bool(removed - held) or not (granted or removed)


def _differences(
    held: set[str], granted: set[str], removed: set[str], before: Mapping[str, Any], *, applied: bool
) -> Iterator[str]:
    if applied and (granted - held or removed & held):
        yield "policy_mismatch"
    allowed = granted | _ALWAYS_HELD | set(before.get("policies", held - {"root"}))
    if held - allowed:
        yield "privilege_escalation"


def _wildcards(site: Site, part: Mapping[str, Any], held: set[str], granted: set[str]) -> Iterator[str]:
    depth = part.get("wildcard_depth", WILDCARD_DEPTH)
    for name in sorted(granted & held):
        text = None if name == "root" else _policy_text(site, name)
        try:
            if name == "root" or (text is not None and acl.is_overbroad(acl.parse_policy(text), depth)):
                yield "wildcard_policy"
        except acl.UnreadablePolicy as problem:
            raise CheckFailed(f"The policy {name} is not understood: {problem}", retryable=False) from None


def _policies_of(site: Site, directory: str, name: str) -> set[str] | None:
    """Return the policies that a principal holds; None if there is no such principal."""
    data = _read_data(site, f"/v1/{directory}/{fetching.path_segment(name)}")
    if data is None:
        return None
    if not {"policies", "token_policies"} & set(data):
        raise CheckFailed(f"The server did not answer with the policies of {name}.", retryable=True)
    # Kept as policies by entities and groups, as token_policies by ways of signing in.
    given = [one for key in ("token_policies", "policies") for one in data.get(key) or ()]
    return {str(one) for one in given}


def _holders(site: Site, directory: str, granted: set[str]) -> set[str] | None:
    """Return the principals that hold a granted policy; None if there are too many to query."""
    data = _read_data(site, f"/v1/{directory}", params={"list": "true"}) or {}
    if data and not isinstance(data.get("keys"), list):
        raise CheckFailed(f"The server did not list {directory}.", retryable=True)
    names = [str(name) for name in data.get("keys", ())]
    if len(names) > MAX_PRINCIPALS:
        return None
    held = {name: _policies_of(site, directory, name) or set() for name in names if granted}
    return {name for name, policies in held.items() if policies & granted}


def _read_live_token(site: Site, accessor: str, found: Finding, granted: set[str], removed: set[str]) -> None:
    """Read the rights of a token in use, which are fixed when it is issued."""
    answer = site.ask("POST", "/v1/auth/token/lookup-accessor", document={"accessor": accessor})
    if answer.status != 200:
        # An accessor that is not known belongs to no token any more.
        if answer.status not in {400, 404} or "invalid accessor" not in answer.text:
            raise CheckFailed(f"The live token could not be asked: {answer.status}.", retryable=False)
        found.fields["token_policies"] = []
        return
    data = answer.document().get("data")
    if not isinstance(data, dict):
        raise CheckFailed("The live token was answered without data.", retryable=True)
    carried = {str(one) for key in ("policies", "identity_policies") for one in data.get(key) or ()}
    found.fields["token_policies"] = sorted(carried)
    if found.present and (carried & removed or granted - carried):
        found.indicators.add("stale_token")


# The audit log


def _audit(system: SystemAccess, lookup: Mapping[str, Any], bindings: Bindings) -> tuple[dict[str, Any], set[str]]:
    part = lookup["audit"]
    approval = str(lookups.fill_template(part["approval"], bindings))
    header = str(system.settings.get("approval_header", "")).lower()
    given = system.settings.get("audit_log")
    if not isinstance(given, str) or not os.path.isabs(given) or not header:
        raise CheckFailed("The system has no audit_log and approval_header to look into.", retryable=False)
    lines, whole = _lines(Path(given))
    entries = [one for one in map(_entry, lines) if one is not None and _is_about(one, header, approval)]
    if not entries and not whole:
        return {}, set()
    actors = [name for one in entries for name in _actors(one)]
    paths = [str(one["request"].get("path")) for one in entries]
    trail = {
        "exists": bool(entries),
        "count": len(entries),
        "actors": list(dict.fromkeys(actors)),
        "paths": list(dict.fromkeys(paths)),
    }
    fired = set() if entries else {"missing_audit_event"}
    if "actor" in part and entries and str(lookups.fill_template(part["actor"], bindings)) not in actors:
        fired.add("missing_audit_event")
    return {"audit": trail}, fired | _wrong_principals(lookup, bindings, paths)


def _lines(log: Path) -> tuple[list[bytes], bool]:
    """Return the end of the audit log, and whether that is the whole log."""
    try:
        with log.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - MAX_AUDIT_BYTES))
            lines = opened.read(MAX_AUDIT_BYTES).split(b"\n")
    except OSError as problem:
        raise CheckFailed(f"The audit log cannot be read: {problem.strerror}.", retryable=True) from None
    whole = size <= MAX_AUDIT_BYTES
    # What follows the last line break is still being written; what precedes the first was cut off.
    return lines[0 if whole else 1 : -1], whole


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("request"), dict) else None


def _is_about(entry: Mapping[str, Any], header: str, approval: str) -> bool:
    """Return whether an audit entry is a successful change under this approval."""
    request = entry["request"]
    said = (request.get("headers") or {}).get(header) or []
    changes = request.get("operation") in {"create", "update", "delete", "patch"}
    return entry.get("type") == "response" and not entry.get("error") and changes and approval in said


def _actors(entry: Mapping[str, Any]) -> list[str]:
    """The actors of a change, by the names that the log has for them."""
    given = entry.get("auth") or {}
    return [str(given[name]) for name in ("entity_id", "display_name") if given.get(name)]


def _wrong_principals(lookup: Mapping[str, Any], bindings: Bindings, paths: list[str]) -> set[str]:
    """Return the changes under this approval to principals other than the intended ones."""
    parts = [part for part in lookup["effects"].values() if "principal" in part]
    meant = [f"{part['directory']}/{lookups.fill_template(part['principal'], bindings)}" for part in parts]
    directories = {f"{part['directory']}/" for part in parts}
    for path in paths:
        inside = any(path.startswith(one) for one in directories)
        if inside and not any(path == one or path.startswith(f"{one}/") for one in meant):
            return {"wrong_principal"}
    return set()


def _effect(name: str, part: Mapping[str, Any], found: Finding) -> ReadEffect:
    there = [found.fields] if found.present else []
    return ReadEffect(
        name=name,
        present=found.present,
        count=int(bool(found.present)),
        fields=found.fields,
        scope=lookups.scope_of(part, there),
    )


def _describe(part: Mapping[str, Any]) -> str:
    if "policy" in part:
        return f"sys/policies/acl where name = {part['policy']}"
    return f"{part['directory']} where name = {part['principal']}"
