"""An executor of a drill: it notes each effect beforehand, in a file that no restore reverts."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from functools import partial
from pathlib import Path

from counterfoil.execution.seen import RecordBehind
from counterfoil.executor import Executor
from counterfoil.work import Result, Work, succeeded

# A deed takes a moment, as a real one does.
DEED_S = 0.05


def run(name: str, folder: Path) -> int:
    """Carry out orders until the console's record is older than before; return the exit code."""
    logging.basicConfig(level=logging.INFO, format=f"{name} %(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    tools = {"write_document": _write, "delete_document": _delete}
    executor = Executor(
        url=os.environ["DRILL_URL"],
        issuer=os.environ.get("DRILL_ISSUER"),
        key=os.environ["DRILL_KEY"],
        executor_id=name,
        key_file=folder / "state" / f"{name}.jwk",
        handlers={tool: partial(deed, folder, name) for tool, deed in tools.items()},
        timeout_s=20,
        wait_s=2,
        report_for_s=60.0,
    )
    try:
        executor.run()
    except RecordBehind as behind:
        print(behind, file=sys.stderr)
        return behind.exit_code
    return 0


def _write(folder: Path, name: str, work: Work) -> Result:
    path = folder / "documents" / work.payload["path"]
    with work.effect("file"):
        _note(folder, name, work)
        path.write_text(work.payload["text"])
    return succeeded(f"document/{work.payload['path']}", "file")


def _delete(folder: Path, name: str, work: Work) -> Result:
    with work.effect("deletion"):
        _note(folder, name, work)
        (folder / "documents" / work.payload["path"]).unlink(missing_ok=True)
    return succeeded(f"document/{work.payload['path']}/deleted", "deletion")


def _note(folder: Path, name: str, work: Work) -> None:
    line = {"path": work.payload["path"], "action": work.action_id, "attempt": work.attempt, "by": name}
    with (folder / "effects").open("a") as file:
        file.write(json.dumps(line | {"at": time.time()}) + "\n")
    time.sleep(DEED_S)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2])))
