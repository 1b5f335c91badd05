"""A few cells of the restart table: frameworks that resume a stored run, while console and client are killed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from console.local.installation import ROOT
from console.local.processes import Child, Program, spawn, wait_until
from counterfoil.executor import Executor
from counterfoil.work import Result, Work, succeeded
from deploy.drills.installation import CONTRACTS, kill
from tests.mcp.house import House, opened
from tests.waiting import programs

WITHIN_S = 120.0
TOOL = "delete_document"


@pytest.fixture(scope="module")
def house(template, run, tmp_path_factory) -> Iterator[House]:
    with opened(run, tmp_path_factory.mktemp("house")) as found:
        found.root.mkdir()
        found.system("documents", found.root)
        contract = json.loads((CONTRACTS / f"{TOOL}.json").read_text())
        assert found.operator.post("/contracts", contract).status_code == 201
        agent = {"agent_id": "clerk", "version": "1", "tools": [TOOL]}
        assert found.operator.post("/agents", agent).status_code == 201
        yield found


class Clients:
    """Two clients of each framework, one for each decision; their folders outlive them."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folders = {}
        for name in ("langgraph", "openai"):
            for verdict in ("approve", "reject"):
                self.folders[name, verdict] = place = folder / f"{name}-{verdict}"
                place.mkdir()
                (house.root / f"{place.name}.md").write_text("An outdated draft.")
                told = {"name": place.name, "url": house.stack.url, "key": house.known["keys"]["agent"]}
                told |= {"agent": "clerk", "tool": TOOL}
                arguments = {"path": f"{place.name}.md", "reason": "It is out of date."}
                (place / "told.json").write_text(json.dumps(told | {"arguments": arguments}))

    def start(self) -> list[Child]:
        environment = self.house.stack.environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'client'}"}
        return [
            spawn(
                Program(
                    name=place.name,
                    argv=[sys.executable, str(Path(programs.__file__).with_name(f"{name}_client.py")), str(place)],
                    log=place / "log",
                    environment=environment,
                )
            )
            for (name, _), place in self.folders.items()
        ]

    def heard(self) -> dict[str, tuple[str, bool]]:
        """The decision that each has heard, and whether its call was done."""
        files = [place / "heard.json" for place in self.folders.values()]
        found = {file.parent.name: json.loads(file.read_text()) for file in files if file.exists()}
        return {name: (each["decision"], each["done"]) for name, each in found.items()}


def test_stored_runs_hear_what_people_decided_while_console_and_client_were_down(house, tmp_path):
    clients, effects = Clients(house, tmp_path), list[str]()
    began = clients.start()
    try:
        assert wait_until(lambda: len(house.reviewer.items("/approvals", state="REQUESTED")) == 4, within_s=WITHIN_S)
    finally:
        for child in began:
            kill(child)
    house.stack.kill("web")
    house.stack.start("web")
    for (_, verdict), place in clients.folders.items():
        house.decide(verdict, f"Decided about {place.name}.", about=place.name)

    def delete(work: Work) -> Result:
        with work.effect("deletion"):
            effects.append(work.payload["path"])
            (house.root / work.payload["path"]).unlink()
        return succeeded(work.payload["path"], "deletion")

    hands = Executor(
        url=house.stack.url,
        key=house.known["keys"]["exec"],
        executor_id="hands",
        key_file=tmp_path / "hands.jwk",
        handlers={TOOL: delete},
        wait_s=2,
    )
    with closing(hands):
        hands.register()

        def carry_out() -> bool:
            for order in hands.claim():
                hands.execute(order)
            return len(effects) >= 2

        # Both are done before their clients are there again.
        assert wait_until(carry_out, within_s=WITHIN_S)
        again = clients.start()
        try:
            assert wait_until(lambda: len(clients.heard()) == 4, within_s=WITHIN_S), clients.heard()
        finally:
            for child in again:
                kill(child)
        carry_out()
    ends = {"approve": ("APPROVED", True), "reject": ("REJECTED", False)}
    assert clients.heard() == {place.name: ends[verdict] for (_, verdict), place in clients.folders.items()}
    assert sorted(effects) == ["langgraph-approve.md", "openai-approve.md"]
    assert house.reviewer.items("/approvals", state="REQUESTED") == []
