"""The file by whose age a supervisor sees that sequencer, eraser and beat still work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from celery import Celery

from console.beat import Ticks
from console.local.installation import ROOT
from ledger.management.commands import eraser
from ledger.management.commands.sequencer import Sequencer


@pytest.fixture
def turns(monkeypatch) -> dict[str, Callable[[], object]]:
    """One turn of each loop, with nothing to do."""
    ending = threading.Event()

    def only_turn(self: Sequencer) -> float:
        ending.set()
        return 0.0

    monkeypatch.setattr(Sequencer, "_turn", only_turn)
    monkeypatch.setattr(eraser, "carry_out_erasures", lambda: 0)

    def seal() -> None:
        ending.clear()
        Sequencer(None).run(ending)  # type: ignore[arg-type]  # it signs nothing here

    # As ours is told (console/celery.py). Shared tasks would belong to an app that were the current one.
    app = Celery(broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(task_publish_retry=False, broker_transport_options={"max_retries": 0, "interval_start": 0})
    return {
        "sequencer": seal,
        "eraser": lambda: next(eraser.erase_until(threading.Event())),
        "beat": Ticks(app=app, lazy=True).tick,
    }


@pytest.mark.parametrize("name", ["sequencer", "eraser", "beat"])
def test_each_turn_of_a_loop_renews_the_file(name: str, turns, settings, tmp_path):
    file = settings.COUNTERFOIL_ALIVE_FILE = tmp_path / "alive"
    turns[name]()
    os.utime(file, (0, 0))
    turns[name]()
    assert file.stat().st_mtime > 0


@pytest.mark.parametrize("name", ["sequencer", "eraser", "beat"])
def test_a_file_that_cannot_be_written_stops_no_loop(name: str, turns, settings, tmp_path):
    settings.COUNTERFOIL_ALIVE_FILE = tmp_path / "nowhere" / "alive"
    turns[name]()


def test_beat_needs_no_django_to_be_set_up():
    """It runs without the models, which saves half of its memory."""
    code = "import console.beat\nfrom django.apps import apps\nprint(apps.ready)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
