"""A real console with its processes, and a folder of documents that the programs under test write in.

Each program runs in an environment of its own, which `make test-plugins` makes; without it its tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from console.local.installation import ROOT
from console.local.processes import wait_until
from tests.mcp.conftest import toml
from tests.mcp.house import House, opened

CONTRACTS = ROOT / "client" / "example" / "contracts"
TOOLS = ("delete_document", "write_document")
GOAL = "Keep the shop's documents in order."


def environment_of(name: str) -> Path:
    """The Python of a plug-in's own environment."""
    return ROOT / "build" / f"plugin-{name}" / "bin" / "python"


def needs_environment(name: str) -> pytest.MarkDecorator:
    """Skip a module whose plug-in has no environment here, before the console is started for it."""
    missing = not environment_of(name).exists()
    return pytest.mark.skipif(missing, reason=f"build/plugin-{name} is not there: make test-plugins")


class Shelf:
    """The console, the folder that it reads back, and what a plug-in is told."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folder = folder
        self.root = folder / "documents"
        (self.root / "notes").mkdir(parents=True)
        house.system("documents", self.root)
        for tool in TOOLS:
            document = json.loads((CONTRACTS / f"{tool}.json").read_text())
            assert house.operator.post("/contracts", document).status_code == 201
        agent = {"agent_id": "librarian", "version": "1", "tools": list(TOOLS)}
        assert house.operator.post("/agents", agent).status_code == 201
        self.keys = {
            "COUNTERFOIL_AGENT_KEY": house.known["keys"]["agent"],
            "COUNTERFOIL_EXECUTOR_KEY": house.known["keys"]["exec"],
        }

    def settings(self, name: str, more: str = "", *, timeout_s: int = 20) -> Path:
        """The settings file of a plug-in, which has an executor and a state folder of its own."""
        parts: dict[str, Any] = {
            "console": {"url": self.house.stack.url, "agent_id": "librarian", "executor_id": f"{name}-plugin"},
            "deciding": {"goal": GOAL, "timeout_s": timeout_s, "state": str(self.folder / name)},
        }
        file = self.folder / f"{name}.toml"
        file.write_text(f"{toml(parts)}\n{more}\n")
        return file

    def lay(self, path: str, text: str = "Old.") -> Path:
        (self.root / path).write_text(text)
        return self.root / path

    def calls(self) -> list[Any]:
        """The calls that reached the program behind the gate."""
        log = self.root / ".calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def events(self, action_id: str) -> list[str]:
        return [each["event"] for each in self.house.operator.items(f"/actions/{action_id}/history")]

    def newest(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.house.operator.items("/actions", limit="1")
        return found[0]

    def until(self, action_id: str, state: str) -> None:
        assert wait_until(lambda: self.house.state(action_id) == state, within_s=90), self.events(action_id)


def note(path: str, text: str = "Quiet.") -> dict[str, str]:
    """The arguments of write_document."""
    return {"path": path, "text": text, "sha256": sha256(text.encode()).hexdigest()}


@pytest.fixture(scope="module")
def shelf(template: Any, run: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("shelf")
    with opened(run, folder) as house:
        yield Shelf(house, folder)
