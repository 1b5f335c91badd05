"""Somebody who has only the export and the documentation comes to the figures that are shown."""

from __future__ import annotations

import io
import random
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from console.metrics import figures
from console.metrics.rules.catalogue import MetricKind
from console.metrics.rules.delays import round_delay
from console.metrics.rules.filters import EVERYTHING
from console.metrics.rules.periods import DAY, period_between
from ledger.db import tenancy
from reviews import tasks
from tests.support import exported
from tests.support.api_tenant import Clock, Workshop, contract, result
from tests.support.outside.recompute import SHARES, recompute
from tests.web.metrics.test_roll_ups import count, walk


@pytest.fixture
def history(shop: Workshop, clock: Clock, tmp_path: Path) -> Workshop:
    """Actions that were read back, disproved, failed and, three days on, contradicted; and sixty on any legal path."""
    newer = contract("write_document") | {"version": "1.2.0"}
    newer["verification"]["recheck_after"] = ["PT1H", "P1D"]
    assert shop.operator_key.post("/contracts", newer).status_code == 201
    folder = tmp_path / "documents"
    for name in ("notes", "old"):
        (folder / name).mkdir()
    (folder / "old" / "one.md").write_text("Still here.")
    clock.stop()
    written = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    (folder / "notes" / "today.md").write_text("Quiet.")
    clock.forward(seconds=2)
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=8)
    assert shop.read_back(written, clock) == "RECONCILED_SUCCESS"
    shop.held(clock)
    error = {"code": "REFUSED", "message": "no route", "phase": "before_send"}
    started = shop.started(path="old/one.md")
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "FAILED"
    count(shop.tenant, clock.now())
    (folder / "notes" / "today.md").unlink()
    clock.forward(days=3)
    assert tasks.verify_due() >= 1
    dice = random.Random(17)
    for number in range(60):
        walk(shop.tenant, clock.now() - timedelta(days=9) + timedelta(hours=3 * number), dice)
    count(shop.tenant, clock.now())
    return shop


@pytest.mark.req("R-MT-01", "R-LE-22")
def test_an_independent_count_over_the_export_comes_to_the_figures_that_are_shown(history: Workshop, clock: Clock):
    theirs = recompute(io.BytesIO(exported.bundle(history.tenant)))
    period = period_between(clock.now() - timedelta(days=60), clock.now() + timedelta(days=30), step=DAY)
    with tenancy(history.tenant):
        ours = figures.metric_report(history.tenant, period, EVERYTHING).figures
    assert {name: theirs[name] for name in SHARES} == {name: (ours[name].part, ours[name].whole) for name in SHARES}
    assert theirs["M-01"][1] > 15
    assert theirs["M-18"] == (ours["M-18"].whole, ours["M-18"].whole)
    for name in ("M-03", "M-04"):
        figure: Any = ours[name]
        assert figure.metric.kind is MetricKind.DELAY
        assert (len(theirs[name]), sum(theirs[name]) / len(theirs[name])) == (figure.delay.count, figure.delay.mean_ms)
        assert round_delay(theirs[name][(len(theirs[name]) + 1) // 2 - 1]) == figure.delay.median_ms


@pytest.mark.req("R-LE-22")
def test_a_bundle_in_which_an_event_is_missing_counts_one_action_less_as_whole(history: Workshop):
    whole, less = exported.bundle(history.tenant), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(less, "w") as made:
        for name in given.namelist():
            lines = given.read(name).splitlines(keepends=True)
            if name.startswith("events/"):
                gone = next(at for at, line in enumerate(lines) if b'\\"kind\\":\\"execution_started\\"' in line)
                lines = lines[:gone] + lines[gone + 1 :]
            made.writestr(name, b"".join(lines))
    before, after = recompute(io.BytesIO(whole))["M-18"], recompute(less)["M-18"]
    assert (before[0] - after[0], before[1]) == (1, after[1])
