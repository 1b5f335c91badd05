"""The text in a message's content, which is a text or a list of blocks in every format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_WORDS = frozenset({"text", "input_text", "output_text", "refusal"})


def text_of(content: object) -> str:
    """The text of the content; blocks of other kinds (pictures, thinking, tools) have none."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    return "\n".join(part for block in content if (part := _block(block)))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    kind = block.get("type", "text") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind not in _WORDS:
        return ""
    said = block.get("text", block.get("refusal", ""))
    if isinstance(said, dict):  # the Assistants API: {"value": …}
        said = said.get("value", "")
    return said if isinstance(said, str) else ""


_SILENT = frozenset(
    {
        *("thinking", "redacted_thinking", "reasoning", "reasoning_content", "summary_text", "reasoning_text"),
        *("image", "image_url", "input_image", "output_image", "file", "input_file", "document", "audio", "video"),
        *("input_audio", "output_audio", "media", "refusal", "search_result", "citation", "source", "source-url"),
        *("container_upload", "step-start", "non_standard_annotation", "compaction", "cachePoint", "text-plain"),
    }
)
_SILENT_KEYS = frozenset({"image", "document", "video", "reasoningContent", "cachePoint", "guardContent"})
_READ = frozenset(
    {"tool_calls", "invalid_tool_calls", "tool_call_chunks", "function_call", "additional_kwargs", "tools"}
)
MAY_CALL = re.compile(r"tool|function|invocation|^parts$|(^|_)calls?$|Calls?$", re.IGNORECASE)


def unread_parts(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and kind of each part of a message that no reader recognises, and that may be a call or an answer."""
    is_listed = bool(body.get("tool_calls"))
    for name in ("content", "parts"):
        listed = body.get(name)
        for place, block in enumerate(listed if isinstance(listed, list) else ()):
            if not _is_known(block, is_listed):
                yield f".{name}[{place}]", kind_of(block)
    listed = body.get("tool_calls")
    if listed and not (isinstance(listed, list) and all(isinstance(one, dict) for one in listed)):
        yield ".tool_calls", "of an unknown shape"
    for name, value in body.items():
        if name not in _READ and name != "parts" and isinstance(value, list | dict) and value and MAY_CALL.search(name):
            yield f".{name}", "of an unknown kind"


def is_tool_block(kind: object) -> bool:
    """Return whether a block's type is one of Anthropic's for a call or its answer."""
    return isinstance(kind, str) and (kind in TOOL_USES or kind == "tool_result" or kind.endswith("_tool_result"))


TOOL_USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def _is_known(block: Any, is_listed: bool) -> bool:
    if isinstance(block, str) or block is None:
        return True
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    if kind is None:
        return "text" in block or bool(block.keys() & _SILENT_KEYS)
    if not isinstance(kind, str):
        return False
    if kind in ("tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"):
        return is_listed  # LangChain says it twice
    return kind in _WORDS or kind in _SILENT or is_tool_block(kind)


def kind_of(block: Any) -> str:
    """A part that is not read, as a report names it."""
    if not isinstance(block, dict):
        return f"a part that is {type(block).__name__}"
    names = ", ".join(sorted(str(name)[:40] for name in block)[:6])
    return f"a part of the type {str(block['type'])[:60]}" if "type" in block else f"a part with the fields {names}"


def parse_answer_content(content: object) -> Any:
    """Parse an answer's content: JSON in a text as its value, text as text, and anything else unchanged."""
    if isinstance(content, list) and content and all(isinstance(one, dict) and "type" in one for one in content):
        content = text_of(content) or content
    if not isinstance(content, str):
        return content
    stripped = content.strip()
    if stripped[:1] not in {"{", "["}:
        return content
    try:
        return orjson.loads(stripped)
    except ValueError:
        return content


def name_of(value: object) -> str:
    """A name or an id as text; empty for any other value."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def canonical_bytes(value: Any) -> bytes:
    """The same bytes for the same value; half a character, which UTF-8 has no bytes for, is escaped."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, default=str).encode()
