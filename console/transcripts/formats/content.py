"""The words in a message's content, which is a text or a list of blocks in every format."""

from __future__ import annotations

from typing import Any

import orjson

_WORDS = frozenset({"text", "input_text", "output_text", "refusal"})


def text_of(content: object) -> str:
    """What the content says in words; blocks of other kinds (pictures, thinking, tools) say nothing."""
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
    if not isinstance(block, dict) or block.get("type", "text") not in _WORDS:
        return ""
    said = block.get("text", block.get("refusal", ""))
    if isinstance(said, dict):  # the Assistants API: {"value": …}
        said = said.get("value", "")
    return said if isinstance(said, str) else ""


def parse_answer_content(content: object) -> Any:
    """What an answer brought: JSON in a text as its value, words as a text, and anything else as it is."""
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
    """A name or an id as text; empty for anything that is none."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
