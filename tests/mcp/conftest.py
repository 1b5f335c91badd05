"""A gateway between the official client and a server, in front of a console that stands in or a real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from counterfoil.mcp import serving, surface, upstream
from counterfoil.mcp.settings import Settings, load_settings
from tests.mcp import servers
from tests.mcp.consoles import Console, console

SERVER = Path(servers.__file__)
GOAL = "Keep the notes in order."


@dataclass
class Bench:
    """One gateway with its settings, to be started by `talk`."""

    folder: Path
    url: str = ""
    log: Path = field(init=False)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = self.folder / "gateway.log"
        self.settings = {
            "console": {"url": self.url, "agent_id": "clerk"},
            "session": {"goal": GOAL},
            "server": {"name": "notes", "command": self.own_command},
            "gateway": {"state": str(self.folder), "settle_s": 0.0, "hold_s": 20.0, "timeout_s": 20, "relist_s": 60.0},
        }

    @property
    def own_command(self) -> list[str]:
        return [sys.executable, str(SERVER), str(self.folder)]

    def told(self, **parts: dict[str, Any]) -> Bench:
        for name, values in parts.items():
            self.settings[name] |= values
        return self

    def parameters(self, *words: str) -> StdioServerParameters:
        self.read()
        config = self.folder / "gateway.toml"
        held = {"COUNTERFOIL_AGENT_KEY": "cf_agent_test", "COUNTERFOIL_EXECUTOR_KEY": "cf_exec_test"} | self.keys
        arguments = ["-m", "counterfoil.mcp", *words, "--config", str(config)]
        return StdioServerParameters(command=sys.executable, args=arguments, env=held)

    def talk(self, script: Callable[[Client], Awaitable[Any]], *, mode: str = "auto", **options: Any) -> Any:
        """A conversation of the official client with the gateway and the server, all in this process."""
        settings = self.read()

        async def main() -> Any:
            with anyio.fail_after(60):
                async with (
                    serving.open_gateway(settings) as (face, _),
                    Client(face, mode=mode, cache=None, **options) as client,
                ):
                    return await script(client)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(servers, "FOLDER", self.folder)
            if settings.server.command == tuple(self.own_command):
                patched.setattr(upstream, "_transport", _in_process)
            return anyio.run(main)

    def read(self) -> Settings:
        config = self.folder / "gateway.toml"
        config.write_text(toml(self.settings))
        keys = {"COUNTERFOIL_AGENT_KEY": "cf_agent_test", "COUNTERFOIL_EXECUTOR_KEY": "cf_exec_test"}
        return load_settings(config, environment=keys | self.keys)

    def talk_across(self, script: Callable[[Client], Awaitable[Any]], *, mode: str = "auto", **options: Any) -> Any:
        """The same with a process for the gateway, and one for the server."""

        async def main() -> Any:
            with self.log.open("a") as log, anyio.fail_after(90):
                async with Client(stdio_client(self.parameters(), errlog=log), mode=mode, **options) as client:
                    return await script(client)

        return anyio.run(main)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What reached the server."""
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def become(self, word: str) -> None:
        (self.folder / "mode").write_text(word)


async def _in_process(*_: Any) -> Any:
    return servers.server()


def toml(settings: dict[str, dict[str, Any]]) -> str:
    """TOML takes JSON's texts, numbers, booleans and lists of them as they are."""
    return "\n".join(
        f"[{part}]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
        for part, values in settings.items()
    )


def contract(tool: types.Tool, **changes: Any) -> dict[str, Any]:
    """A tool as a session discloses it."""
    return {
        "name": f"notes.{tool.name}",
        "version": "1.0.0",
        "wrapper_version": surface.tool_digest(tool),
        "description": f"Registered: {tool.name}.",
        "arguments_schema": tool.input_schema,
    } | changes


def word(result: types.CallToolResult) -> dict[str, Any]:
    """The gateway's own word about a call."""
    found: dict[str, Any] = result.meta["io.counterfoil/call"]
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Console]:
    """The stand-in console, which knows every tool but `read_notes`."""
    with console(tmp_path / "mcp-notes.jwk") as made:
        made.tools = [contract(tool) for tool in servers.tools() if tool.name != "read_notes"]
        yield made


@pytest.fixture
def bench(desk: Console, tmp_path: Path) -> Bench:
    return Bench(tmp_path, desk.url)
