"""The starts that an executor keeps, for a console that went back in time and has lost them.

One line a start, written and synced before its effect, and one for what the tool said: ids, the tool, the target and
the hash of the payload, never the payload. Lines older than `KEPT_FOR_S` are dropped when the file is opened. A line
that a crash tore off is skipped.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

log = logging.getLogger("counterfoil.executor")

KEPT_FOR_S = 86_400.0
MOST = 500


class KeptStarts:
    """The starts of the last day, in a file; the newest `MOST` are reported."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = Lock()
        self._prune()

    def note(self, action_id: str, attempt: str, **facts: str) -> None:
        """Write down a start before its effect, or the answer of its tool afterwards."""
        line = {"action_id": action_id, "attempt": int(attempt), "at": time.time(), **facts}
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def recent(self) -> list[dict[str, Any]]:
        """The kept starts as the console accepts them, oldest first, each with its tool's answer if there is one."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for line in self._lines():
            found.setdefault((line["action_id"], line["attempt"]), {}).update(
                {name: value for name, value in line.items() if name != "at" or "tool" in line}
            )
        return [each for each in found.values() if "tool" in each][-MOST:]

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = self._file.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return [line for each in text.splitlines() if (line := _parse_line(each)) is not None]

    def _prune(self) -> None:
        lines = self._lines()
        kept = [line for line in lines if line["at"] > time.time() - KEPT_FOR_S]
        if len(kept) < len(lines):
            draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
            draft.write_text("".join(json.dumps(line) + "\n" for line in kept))
            draft.replace(self._file)


def _parse_line(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    sound = (
        isinstance(line, Mapping)
        and isinstance(line.get("action_id"), str)
        and isinstance(line.get("attempt"), int)
        and isinstance(line.get("at"), int | float)
    )
    if not sound:
        log.warning("a line of the kept starts cannot be read")
        return None
    return dict(line)
