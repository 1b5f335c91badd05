"""Somebody who has only the export and the documentation comes to the figures that are shown."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from benchmarks import history
from console.metrics import figures
from console.metrics.rules.catalogue import MetricKind
from console.metrics.rules.filters import EVERYTHING, MetricFilter
from console.metrics.rules.periods import DAY, period_between
from ledger.db import tenancy
from ledger.record.rules.event_kinds import check_registered
from ledger.record.rules.lifecycle import MACHINES
from reviews import tasks
from tests.support import exported
from tests.support.api_tenant import Clock, Workshop, contract, result
from tests.support.callers import found
from tests.support.outside.recompute import SHARES, Tally, recompute, recount, regression, rounded, summed
from tests.web.metrics.test_roll_ups import count, stored, walk

ACTIONS = 700
PERIOD = period_between(datetime.now(UTC) - timedelta(days=90), datetime.now(UTC), step=DAY)


@pytest.fixture
def worked(shop: Workshop, clock: Clock, tmp_path: Path) -> Workshop:
    """Actions that were read back, disproved, failed and, three days on, contradicted; and sixty on any legal path."""
    newer = contract("write_document") | {"version": "1.2.0"}
    newer["verification"]["recheck_after"] = ["PT1H", "P1D"]
    shop.operator_key.release_contract(newer)
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
def test_an_independent_computation_from_the_export_gives_the_shown_figures(worked: Workshop, clock: Clock):
    theirs = recompute(io.BytesIO(exported.bundle(worked.tenant)))
    period = period_between(clock.now() - timedelta(days=60), clock.now() + timedelta(days=30), step=DAY)
    with tenancy(worked.tenant):
        ours = figures.metric_report(worked.tenant, period, EVERYTHING).figures
    assert {name: theirs[name] for name in SHARES} == {name: (ours[name].part, ours[name].whole) for name in SHARES}
    assert theirs["M-01"][1] > 15
    assert theirs["M-18"] == (ours["M-18"].whole, ours["M-18"].whole)
    for name in ("M-03", "M-04"):
        figure: Any = ours[name]
        assert figure.metric.kind is MetricKind.DELAY
        assert (len(theirs[name]), sum(theirs[name]) / len(theirs[name])) == (figure.delay.count, figure.delay.mean_ms)
        assert rounded(theirs[name][(len(theirs[name]) + 1) // 2 - 1]) == figure.delay.median_ms


@pytest.mark.req("R-LE-22")
def test_a_missing_event_in_a_bundle_makes_one_action_incomplete(worked: Workshop):
    whole, less = exported.bundle(worked.tenant), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(less, "w") as made:
        for name in given.namelist():
            lines = given.read(name).splitlines(keepends=True)
            if name.startswith("events/"):
                gone = next(at for at, line in enumerate(lines) if b'\\"kind\\":\\"execution_started\\"' in line)
                lines = lines[:gone] + lines[gone + 1 :]
            made.writestr(name, b"".join(lines))
    before, after = recompute(io.BytesIO(whole))["M-18"], recompute(less)["M-18"]
    assert (before[0] - after[0], before[1]) == (1, after[1])


@pytest.mark.req("R-MT-01", "R-MT-02", "R-MT-03", "R-MT-05", "R-MT-07")
def test_figures_of_a_generated_history_equal_an_independent_count_before_and_after_late_events(
    committed_db: None, superuser_connection: Any, tmp_path: Path
):
    tenant = found("orchid")
    history.fill(superuser_connection, tenant, ACTIONS, late=False)
    call_command("rebuild_metrics", tenant="orchid", verbosity=0)
    first = compared(tenant, tmp_path)
    history.fill(superuser_connection, tenant, ACTIONS, late=True)
    count(tenant, datetime.now(UTC))
    then = compared(tenant, tmp_path)
    assert first["M-01"] != then["M-01"]
    assert first["M-16"] != then["M-16"]
    assert [name for name, (part, _) in then.items() if not part] == []
    kept = stored(tenant)
    call_command("rebuild_metrics", tenant="orchid", verbosity=0)
    assert stored(tenant) == kept


def compared(tenant: UUID, folder: Path) -> dict[str, tuple[int, int]]:
    """Hold what is shown to what an independent count over the export comes to: all, and by everything that a page can
    be narrowed to; the shares of all.
    """
    file = folder / "source.jsonl.gz"
    call_command("export_metric_source", tenant="orchid", out=file, stdout=io.StringIO())
    with gzip.open(file) as lines:
        cells, versions = recount(lines)
    with tenancy(tenant):
        for place, name in ((None, ""), (1, "tool"), (2, "agent"), (3, "side_effect_class"), (4, "version")):
            for value, theirs in summed(cells, place=place).items():
                if place is None or value:
                    report = figures.metric_report(tenant, PERIOD, MetricFilter(**({name: value} if name else {})))
                    assert_same(report.figures, theirs)
        shown = figures.metric_report(tenant, PERIOD, EVERYTHING).figures
    assert shown["M-19"].value == pytest.approx(regression(summed(cells, place=4), versions))
    days: dict[str, Tally] = {}
    for hour, tally in summed(cells, place=0).items():
        days.setdefault(hour[:10], Tally()).add(tally)
    for name in ("M-01", "M-12", "M-23"):
        by_day = {each.since.isoformat()[:10]: (each.part, each.whole) for each in shown[name].points if each.whole}
        assert by_day == {day: tally.shares()[name] for day, tally in days.items() if tally.shares()[name][1]}
    return {name: (shown[name].part, shown[name].whole) for name in summed(cells)[""].shares()}


def assert_same(shown: Any, theirs: Tally) -> None:
    for name, (part, whole) in theirs.shares().items():
        assert (name, shown[name].part, shown[name].whole) == (name, part, whole)
    for name, exact in theirs.delays.items():
        figure = shown[name].delay
        assert (name, figure.count, figure.mean_ms) == (name, len(exact), sum(exact) / len(exact) if exact else None)
        assert shown[name].lengths == Counter(map(rounded, exact))


def test_every_generated_history_is_a_legal_path():
    for story in history.STORIES:
        state = ""
        for step in story.steps:
            check_registered(step.kind, "action")
            assert step.to == state or (state, step.to) in MACHINES["action"], (state, step)
            state = step.to


@pytest.mark.parametrize(
    ("exact", "kept"),
    [(0, 0), (47, 47), (234, 230), (235, 240), (999, 1000), (2_340, 2_300), (95_500, 96_000)],
)
def test_delays_are_stored_with_two_significant_digits(exact: int, kept: int):
    assert rounded(exact) == kept
