"""The text of a description: what fits on a line stands on one, as people would write it."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 140


def format_description(document: Any, *, indent: str = "", before: int = 0) -> str:
    """A JSON document with each member on one line where it fits; `before` is what stands on the line already."""
    flat = json.dumps(document, ensure_ascii=False)
    top = not indent
    if not isinstance(document, dict | list) or (not top and len(indent) + before + len(flat) <= WIDTH):
        return flat
    inner = f"{indent}  "
    if isinstance(document, list):
        lines = [f"{inner}{format_description(each, indent=inner)}" for each in document]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    lines = []
    for name, value in document.items():
        key = f"{json.dumps(name)}: "
        lines.append(f"{inner}{key}{format_description(value, indent=inner, before=len(key) + 1)}")
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
