"""The settings of a system: one JSON Schema for each pattern, from which they are checked, documented and asked for.

Its members are those that the pattern's check declares, and those that every system may have. A check of a package that
declares none takes any member besides these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.record.rules.refusals import Refused
from reviews.checks.catalogue import check_for, described_system
from reviews.checks.changes import ChangeLog, NotWatchable, StreamChangeLog, TableChangeLog, change_log
from reviews.observations.rules.webhooks import MAPPING, parse_mapping
from reviews.readback.rules import limits
from reviews.readback.rules.shapes import TEXT, Schema, Shape, member, object_schema

PARTS: Final = {
    "dbname": "Database",
    "database": "Database",
    "bucket": "Bucket",
    "account": "Account",
    "project": "Project",
    "repository": "Repository",
    "namespace": "Namespace",
    "collection": "Collection",
    "mailbox": "Mailbox",
}
"""The names of the part of a server that is read, where one address serves several."""
COMMON: Final[Mapping[str, Schema]] = {
    "limits": member(limits.SHAPE.schema, "Limits", "How hard the system may be asked."),
    "webhook": member(MAPPING.schema, "Webhooks", "JSON Pointers to where a webhook's body names an action."),
    "dry_run": member(
        {"enum": ["required"], "fault": "is required, or left out."},
        "Contracts without a dry run",
        "Under required, a contract that names no call to try is refused.",
        is_rare=True,
    ),
    **{
        name: member(TEXT, label, "Tells apart two systems at one address.", is_rare=True)
        for name, label in PARTS.items()
    },
}


class BadSettings(Refused):
    """The settings do not fit the pattern of the system."""

    code = "BAD_SETTINGS"
    status = 422


def settings_schema(pattern: str) -> Schema:
    """The JSON Schema of the settings of a system of this pattern."""
    check, log = check_for(pattern), change_log(pattern)
    own, common = check.settings or {}, dict(COMMON)
    if log is not None:
        common["changes"] = member(_change_log_schema(log), "Change log", "Where ungated effects are looked for.")
    members = {**own, **{name: each for name, each in common.items() if name not in own}}
    required = {name: members.pop(name) for name in check.required_settings}
    schema = object_schema(required, members)
    return schema if check.settings is not None else schema | {"additionalProperties": True}


def check_settings(pattern: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that do not fit the pattern, each fault with its place."""
    if "changes" in settings and change_log(pattern) is None:
        raise NotWatchable(f"Nothing here lists the changes of systems of the pattern {pattern}.")
    limits.limits_of(settings)
    parse_mapping(settings)
    problems = Shape(settings_schema(pattern)).problems(settings)
    faults = [
        {"path": f"/settings{each.pointer}", "code": "SETTING", "detail": each.sentence("settings")}
        for each in problems
    ]
    if faults:
        is_watch = faults[0]["path"].startswith("/settings/changes")
        raise (NotWatchable if is_watch else BadSettings)(faults[0]["detail"], errors=faults)


def complete_settings(pattern: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the rate limit that the system's description documents, unless they name one."""
    described = described_system(pattern)
    if described is None or not isinstance(settings.get("limits", {}), Mapping):
        return dict(settings)
    rate = {"reads_per_minute": described.document["limits"]["reads_per_minute"]}
    return {**settings, "limits": {**rate, **settings.get("limits", {})}}


def _change_log_schema(log: ChangeLog) -> Schema:
    if isinstance(log, TableChangeLog | StreamChangeLog):
        return log.shape.schema
    # The log of a package's check has settings of its own.
    return {"type": "object", "fault": "must be an object."}
