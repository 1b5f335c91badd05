"""The FastMCP middleware in a real FastMCP server, before a real console, with the official client."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from console.local.processes import wait_until
from tests.plugins.conftest import Shelf, environment_of, needs_environment, note

pytestmark = needs_environment("fastmcp")
SERVER = Path(__file__).with_name("fastmcp_server.py")


def talk(shelf: Shelf, script: Callable[[Client], Awaitable[Any]]) -> Any:
    """A conversation with the server in a process of its own."""
    settings = shelf.settings("fastmcp", timeout_s=5)
    words = [str(SERVER), str(settings), str(shelf.root)]
    started = StdioServerParameters(command=str(environment_of("fastmcp")), args=words, env=shelf.keys)

    async def main() -> Any:
        with (shelf.folder / "fastmcp.log").open("a") as log, anyio.fail_after(120):
            async with Client(stdio_client(started, errlog=log)) as client:
                return await script(client)

    return anyio.run(main)


def call(shelf: Shelf, tool: str, arguments: dict[str, Any]) -> Any:
    return talk(shelf, lambda client: client.call_tool(tool, arguments))


def text_of(answer: Any) -> str:
    return "".join(part.text for part in answer.content)


def test_an_allowed_tool_runs_once_and_its_effect_is_read_back(shelf: Shelf):
    answer = call(shelf, "write_document", note("notes/today.md"))
    assert (answer.is_error, text_of(answer)) == (False, "written notes/today.md")
    action = shelf.newest()
    shelf.until(action["action_id"], "RECONCILED_SUCCESS")
    assert shelf.events(action["action_id"]).count("execution_started") == 1
    assert [each for each in shelf.calls() if each.get("path") == "notes/today.md"] == [
        {"tool": "write_document", "path": "notes/today.md"}
    ]


def test_a_tool_that_waits_runs_after_the_approval_once_also_in_another_process(shelf: Shelf):
    old = shelf.lay("notes/old.md")
    wish = {"path": "notes/old.md", "reason": "It is out of date."}
    first, again = call(shelf, "delete_document", wish), call(shelf, "delete_document", wish)
    assert first.is_error
    assert text_of(first) == text_of(again)
    [task] = re.findall(r"\(task ([0-9a-f-]{36})\)", text_of(first))
    assert old.exists()
    shelf.house.decide("approve", "It may go.")
    # The vote is sealed in the log before anything starts on it.
    told = []
    assert wait_until(lambda: told.append(call(shelf, "delete_document", wish)) or not told[-1].is_error, within_s=60)
    assert text_of(told[-1]) == "deleted notes/old.md"
    assert not old.exists()
    shelf.until(task, "RECONCILED_SUCCESS")
    assert shelf.events(task).count("execution_started") == 1


def test_a_rejected_tool_does_not_run(shelf: Shelf):
    kept = shelf.lay("notes/kept.md")
    wish = {"path": "notes/kept.md", "reason": "It is out of date."}
    call(shelf, "delete_document", wish)
    shelf.house.decide("reject", "It is needed.")
    answer = call(shelf, "delete_document", wish)
    assert answer.is_error
    assert "Not executed." in text_of(answer)
    assert kept.exists()


@pytest.mark.parametrize("tool", ["purge", "write_document"])
def test_what_the_gate_refuses_never_reaches_a_tool(shelf: Shelf, tool: str):
    before = shelf.calls()
    arguments = {} if tool == "purge" else note("../outside.md")
    answer = call(shelf, tool, arguments)
    assert answer.is_error
    assert text_of(answer).startswith("Not executed.")
    assert shelf.calls() == before


def test_a_tool_that_is_named_as_ungated_runs_unasked(shelf: Shelf):
    assert text_of(call(shelf, "look", {})) == "here"


def test_a_tool_that_raises_leaves_the_outcome_to_the_reading(shelf: Shelf):
    answer = call(shelf, "write_document", note("notes/raised.md", "Raise."))
    assert answer.is_error
    action = shelf.newest()
    shelf.until(action["action_id"], "RECONCILED_SUCCESS")


def test_a_server_that_dies_in_the_tool_leaves_it_unknown_and_the_worker_reads_it_back(shelf: Shelf):
    with pytest.raises(BaseException):  # noqa: B017, PT011
        call(shelf, "write_document", note("notes/died.md", "Die."))
    action = shelf.newest()
    shelf.until(action["action_id"], "RECONCILED_SUCCESS")
    assert "lease_ended" in shelf.events(action["action_id"])
    assert shelf.events(action["action_id"]).count("execution_started") == 1
