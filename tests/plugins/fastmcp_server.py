"""A FastMCP server with two tools, gated by the plug-in; it runs in the plug-in's environment.

fastmcp_server.py SETTINGS ROOT
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from counterfoil_fastmcp import CounterfoilMiddleware
from fastmcp import FastMCP

from counterfoil.gating.deciding import Decider
from counterfoil.gating.settings import read_document

settings, root = Path(sys.argv[1]), Path(sys.argv[2])
server = FastMCP("documents")
server.add_middleware(CounterfoilMiddleware(Decider.of(read_document(settings), os.environ), ungated=["look"]))


def _note(**call: str) -> None:
    with (root / ".calls").open("a") as log:
        log.write(json.dumps(call) + "\n")


@server.tool
def write_document(path: str, text: str, sha256: str) -> str:
    """Write a document."""
    _note(tool="write_document", path=path)
    (root / path).write_text(text)
    if text == "Raise.":
        raise RuntimeError("the disk is full, it says")
    if text == "Die.":
        os._exit(9)
    return f"written {path}"


@server.tool
def delete_document(path: str, reason: str) -> str:
    """Delete a document."""
    _note(tool="delete_document", path=path)
    (root / path).unlink()
    return f"deleted {path}"


@server.tool
def purge() -> str:
    """Delete everything; nobody has registered it."""
    _note(tool="purge")
    return "purged"


@server.tool
def look() -> str:
    """Say hello."""
    return "here"


server.run(show_banner=False)
