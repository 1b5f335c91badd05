"""What the clients of the restart table share: what they were told, what they keep, and what they have heard.

Each is a program that its folder is given to, and that is started again with the same folder after it was killed. What
it keeps there is what such a client keeps anyway: its conversation, or its framework's own store.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from counterfoil.agent import Agent
from counterfoil.transport.request import Backoff

PATIENCE = Backoff(give_up_after_s=600.0, longest_s=2.0)
PAUSE_S = 2.0


class Folder:
    """The folder of one client."""

    def __init__(self) -> None:
        self.path = Path(sys.argv[1])
        self.told: dict[str, Any] = json.loads((self.path / "told.json").read_text())

    def kept(self) -> dict[str, Any]:
        file = self.path / "kept.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def keep(self, **more: Any) -> dict[str, Any]:
        return self._write("kept.json", self.kept() | more)

    def heard(self, decision: str, text: str, *, done: bool) -> None:
        """Note the final word about the call; the client ends with it."""
        self._write("heard.json", {"decision": decision, "text": text, "done": done})

    def _write(self, name: str, document: dict[str, Any]) -> dict[str, Any]:
        fresh = self.path / f"{name}.new"
        with fresh.open("w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path / name)
        return document


def follow(folder: Folder, agent: Agent, action_id: str) -> None:
    """Ask until the action is settled, as a model does with `check_action`, and note what was heard."""
    while not (outcome := agent.wait(action_id, for_s=20)).settled:
        pass
    approval, report = outcome.approval, outcome.report
    assert approval is not None
    assert report is not None
    folder.heard(approval.decision, f"{approval.reason} {report.text}", done=report.completed)


def say(*words: object) -> None:
    """Write a line to the log."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def pause() -> None:
    time.sleep(PAUSE_S)
