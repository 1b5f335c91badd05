"""What `up` says of a program that ended: a crash that the example plans is told from one that nobody expected."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from console.local.processes import Program, Supervisor, wait_until
from example import faults

DIES = "from example.faults import die; die()"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (DIES, "executor crashed as planned: the example shows what a crash leaves. Restarting in 1 s."),
        ("print('x'); raise SystemExit(3)", "executor stopped unexpectedly (3); restarting in 1 s. See {log}"),
        ("raise SystemExit(3)", "executor stopped unexpectedly (3); restarting in 1 s. See {log}"),
    ],
)
def test_a_planned_crash_is_distinguished_from_an_unplanned_one(tmp_path: Path, code: str, line: str):
    said: list[str] = []
    supervisor = Supervisor(record=tmp_path / "children.json", say=said.append)
    log = tmp_path / "executor.log"
    # What an earlier process said says nothing of this one.
    log.write_text("Planned crash: a case of the example ends its executor here.\n")
    child = supervisor.start(
        Program(
            name="executor",
            argv=[sys.executable, "-c", code],
            log=log,
            environment={"PYTHONPATH": str(Path(faults.__file__).parents[1])},
        )
    )
    assert wait_until(lambda: not child.running(), within_s=30)
    supervisor.look(time.monotonic())
    supervisor.stop_all()
    assert said == [line.format(log=log)]
