"""Exchanges with models that other packages recorded for their tests, as conversations.

The packages are fetched when the test runs, and nothing of them is kept here: `langchain-anthropic` (MIT) and
`opentelemetry-instrumentation-openai` (Apache-2.0). Exchanges that were streamed are left out.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def fetched(package: str, folder: Path) -> Path:
    """The source distribution of a package, unpacked."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), package], check=True, timeout=600, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


def conversations(folder: Path) -> Iterator[dict[str, Any]]:
    """Every exchange in the cassettes of a folder: what was asked, and what the model answered."""
    for file in sorted([*folder.rglob("cassettes/**/*.yaml"), *folder.rglob("cassettes/**/*.yaml.gz")]):
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for asked, answered in _exchanges(yaml.safe_load(text)):
            found = _conversation(_json(asked), _json(answered))
            if found is not None:
                yield {"id": file.name, **found}


def _exchanges(cassette: Any) -> Iterator[tuple[Any, Any]]:
    if "interactions" in cassette:
        for one in cassette["interactions"]:
            yield one["request"]["body"], one["response"]["body"].get("string")
        return
    for request, response in zip(cassette["requests"], cassette["responses"], strict=True):
        yield request["body"], response["body"].get("string")


def _conversation(asked: Any, answered: Any) -> dict[str, Any] | None:
    if not isinstance(asked, dict) or not isinstance(answered, dict):
        return None
    tools = asked.get("tools") or []
    if isinstance(answered.get("output"), list) and answered.get("object") == "response":
        said = asked.get("input") or []
        items = [{"role": "user", "content": said}] if isinstance(said, str) else said
        return {"input": items, "output": answered["output"], "tools": tools}
    if isinstance(asked.get("messages"), list) and ("choices" in answered or answered.get("role") == "assistant"):
        return {"messages": asked["messages"], "tools": tools, "response": answered}
    return None


def _json(body: Any) -> Any:
    if isinstance(body, bytes):
        body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        body = body.decode("utf-8", "replace")
    try:
        return json.loads(body or "null")
    except ValueError:
        return None
