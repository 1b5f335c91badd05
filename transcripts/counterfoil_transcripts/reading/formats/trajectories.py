"""Files that say the same more than once, or say in one place how another is to be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from counterfoil_transcripts.reading.formats.content import name_of
from counterfoil_transcripts.reading.formats.declared import SWE_AGENT
from counterfoil_transcripts.reading.formats.openai_chat import ROLES

_VERSIONS = {
    "schema_version": re.compile(r"(?!ATIF-)|ATIF-v1\.[0-8]$"),
    "trajectory_format": re.compile(r"(?!mini-swe-agent-)|mini-swe-agent-1\.1$"),
}
"""The fields of a file that name its format, and the versions of it that are read."""
_ATTACHMENT = "attachment://"


def unknown_version(members: Mapping[str, Any]) -> str:
    """The reason why a file is of no version that is read; empty if it is, or names none."""
    for field, known in _VERSIONS.items():
        stated = members.get(field)
        if isinstance(stated, str) and not known.match(stated):
            return f"The version {stated[:40]} of this format is not read in full."
    return ""


def once(messages: list[Any]) -> list[Any]:
    """The record of a run of SWE-agent that a file has as steps and as history; other messages as they are.

    The steps hold what was carried out, with the outcome as it came; the history before the first action is the task,
    and the history's structured calls become those of the steps with the same action.
    """
    if not any(map(_is_step, messages)):
        return messages
    repeated = [one for one in messages if _is_history(one)]
    history = [one for one in repeated if not one.get("is_demo")]
    acted = [place for place, one in enumerate(history) if one["role"] == "assistant"]
    task = history[: acted[0]] if acted else history
    calls = iter([(place, history[place]) for place in acted])
    following = next(calls, None)
    found: list[Any] = [_task(one) for one in task]
    for step in messages:
        if _is_history(step):
            continue
        if _is_step(step) and following is not None and _action(following[1]) == _action(step):
            place, made = following
            answer = history[place + 1] if place + 1 < len(history) else {}
            step = {**step, "tool_calls": made.get("tool_calls"), "tool_call_ids": answer.get("tool_call_ids")}
            following = next(calls, None)
        found.append(step)
    if following is not None:
        found.append({"action_of_the_history_without_a_step": following[1].get("action")})
    return found


def _action(item: Mapping[str, Any]) -> Any:
    found = item.get("action")
    return found.strip() if isinstance(found, str) else found


def _task(item: dict[str, Any]) -> dict[str, Any]:
    """A message before the first action: it brings no outcome."""
    return {"role": "user" if item.get("role") == "user" else "system", "content": item.get("content")}


def _is_step(item: object) -> bool:
    return isinstance(item, dict) and SWE_AGENT.marks[0].holds(item)


def _is_history(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("role"), str) and item["role"] in ROLES and "content" in item


def with_attachments(value: Mapping[str, Any], messages: list[Any]) -> list[Any]:
    """The messages of a sample with each long text back in its place; inspect_ai keeps those apart."""
    kept = value.get("attachments")
    if not isinstance(kept, dict) or not kept:
        return messages
    return [_fill_in(one, kept, 0) for one in messages]


def _fill_in(value: Any, kept: dict[str, Any], depth: int) -> Any:
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return kept.get(value.removeprefix(_ATTACHMENT), value)
    if depth > 8:
        return value
    if isinstance(value, dict):
        return {name: _fill_in(one, kept, depth + 1) for name, one in value.items()}
    return [_fill_in(one, kept, depth + 1) for one in value] if isinstance(value, list) else value


def session_head(item: object) -> str | None:
    """The id that a session file of Codex begins with, in its present and its old form; None for other lines."""
    if not isinstance(item, dict):
        return None
    inner = item.get("payload")
    if item.get("type") == "session_meta" and isinstance(inner, dict):
        return name_of(inner.get("id"))
    if item.keys() >= {"id", "timestamp", "instructions"} and not item.keys() & {"type", "role", "messages"}:
        return name_of(item["id"])
    return None


def is_state_line(item: object) -> bool:
    """Return whether a line is one of those that Codex once kept for itself."""
    return isinstance(item, dict) and item.get("record_type") == "state" and "type" not in item


def stated_failures(messages: list[Any]) -> dict[str, bool]:
    """The outcomes that events of a session file of Codex state, by their call's id: whether it failed."""
    found: dict[str, bool] = {}
    for one in messages:
        event = one.get("payload") if isinstance(one, dict) and one.get("type") == "event_msg" else None
        if not isinstance(event, dict):
            continue
        failed = _failure(event)
        if failed is not None and name_of(event.get("call_id")):
            found[name_of(event["call_id"])] = failed
    return found


def _failure(event: dict[str, Any]) -> bool | None:
    if event.get("type") == "patch_apply_end" and isinstance(event.get("success"), bool):
        return not event["success"]
    result = event.get("result")
    if event.get("type") != "mcp_tool_call_end" or not isinstance(result, dict):
        return None
    if "Err" in result:
        return True
    inner = result.get("Ok")
    return True if isinstance(inner, dict) and (inner.get("isError") or inner.get("is_error")) is True else None
