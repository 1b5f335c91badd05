"""Messages with content blocks as Anthropic's API has them: `tool_use` of the assistant, `tool_result` of the user.

A tool that the provider runs itself is offered under one name and called under others (`code_execution`,
`bash_code_execution`): such a call is proof enough that the tool exists (`provider`).
"""

from __future__ import annotations

from typing import Any

from counterfoil_transcripts.reading.formats.content import (
    TOOL_USES,
    is_tool_block,
    name_of,
    parse_answer_content,
    text_of,
)
from counterfoil_transcripts.reading.formats.openai_chat import ROLES
from counterfoil_transcripts.reading.formats.rows import FormatRow
from counterfoil_transcripts.reading.records import AGENT, TOOL, TranscriptAnswer, TranscriptCall, TranscriptTurn

NAME = "anthropic"
ROW = FormatRow(
    NAME,
    "Anthropic's Messages API",
    "`content[]` with `type` `tool_use`, `server_tool_use`, `mcp_tool_use` or `*tool_result`",
    "`content[]` `tool_use`, `server_tool_use`, `mcp_tool_use`: `name`, `input`, id `id`",
    "`content[]` `*tool_result`: `content`, call `tool_use_id`",
    "failed: `is_error` `true` or `content.type` `*_error`, succeeded: `is_error` `false`",
)
PROVIDED = TOOL_USES - {"tool_use"}
USES = TOOL_USES


def fits(item: dict[str, Any]) -> bool:
    """Return whether an item is a message of this format: only its tool blocks distinguish it."""
    content = item.get("content")
    if item.get("role") not in ROLES or not isinstance(content, list):
        return False
    if item.get("type") == "message" and "stop_reason" in item:
        return True  # an answer of the API as it came
    return any(isinstance(block, dict) and is_tool_block(block.get("type")) for block in content)


def turn(item: dict[str, Any], number: int) -> TranscriptTurn:
    """The turn in a message."""
    blocks = [block for block in item["content"] if isinstance(block, dict) and isinstance(block.get("type"), str)]
    calls = tuple(tool_calls(blocks))
    answers = tuple(
        _answer(block) for block in blocks if is_tool_block(block.get("type")) and block["type"] not in USES
    )
    role = ROLES[item["role"]]
    text = text_of(item["content"])
    provided = tuple(
        {"name": name_of(one.get("name")), "provider": True} for one in blocks if one.get("type") in PROVIDED
    )
    return TranscriptTurn(
        number, TOOL if answers and role != AGENT and not text else role, text, calls, answers, provided
    )


def tool_calls(blocks: list[Any]) -> list[TranscriptCall]:
    """The calls among some blocks, in their order."""
    return [
        TranscriptCall(name_of(block.get("id")), name_of(block.get("name")), block.get("input", {}))
        for block in blocks
        if isinstance(block, dict) and isinstance(block.get("type"), str) and block["type"] in USES
    ]


def _answer(block: dict[str, Any]) -> TranscriptAnswer:
    content = block.get("content")
    failed = block.get("is_error")
    if isinstance(content, dict) and str(content.get("type", "")).endswith("_error"):
        failed = True
    mark = failed if isinstance(failed, bool) else None
    return TranscriptAnswer(name_of(block.get("tool_use_id")), "", parse_answer_content(content), mark)
