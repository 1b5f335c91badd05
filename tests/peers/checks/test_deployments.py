"""Releases rolled out by real supervisords over two regions, from a real OCI registry, and read back.

The instances are Python's own web server, which serves what lies in the release's folder; health and errors
are those of a second registry process, which has real switches for both.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from console.local import processes
from reviews.checks import deployments
from reviews.checks.interface import CheckFailed, Consistency
from tests.peers.support import environment
from tests.peers.support.fleet import look

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-07")
def test_a_release_that_runs_in_every_region_is_present(on_v2):
    found = look(on_v2, tag="'v2'")
    (effect,) = found.effects
    assert (effect.present, effect.count, effect.pending) == (True, 1, False)
    assert {"artifact_sha": on_v2.digests["v2"], "environment": "production", "rollout_stage": "complete",
            "regions": ["eu", "us"], "replicas": 2, "ready": 2, "healthy": 2, "approval_id": "ap-1",
            "registered": True, "rolled_back": False}.items() <= effect.fields.items()  # fmt: skip
    assert effect.scope == {"tenant": ("production",), "target": ("shop",)}
    assert found.consistency is Consistency.STRONG
    assert "last start" in found.freshness
    assert found.indicators == ()


@pytest.mark.req("R-CP-07")
def test_a_release_that_was_not_rolled_out_is_absent(on_v1):
    before = look(on_v1)
    assert look(on_v1, pre=before).effects[0].present is False
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert look(on_v1, began=later).effects[0].present is False
    assert look(on_v1, pre=before, began=later).indicators == ()


@pytest.mark.req("R-CP-07")
def test_another_release_in_its_place_is_the_wrong_one(on_v2):
    before = look(on_v2)
    on_v2.deploy("v1")
    found = look(on_v2, version="sha256:" + "0" * 64, pre=before, repository=None, approval=None)
    assert found.effects[0].present
    assert found.indicators == ("wrong_sha",)


@pytest.mark.req("R-CP-07")
def test_a_release_that_the_registry_does_not_have_is_the_wrong_one(on_v2):
    found = look(on_v2, version="sha256:" + "0" * 64, approval=None)
    assert "wrong_sha" in found.indicators
    assert found.effects[0].fields["registered"] is False


@pytest.mark.req("R-CP-07")
def test_a_tag_that_points_elsewhere_is_reported(on_v2):
    assert look(on_v2, tag="'v1'").indicators == ("wrong_sha",)


@pytest.mark.req("R-CP-07")
def test_a_restarted_previous_release_is_a_rollback(on_v1):
    before = look(on_v1)
    began = datetime.now(UTC)
    time.sleep(1)
    on_v1.deploy("v2")
    on_v1.deploy("v1")
    found = look(on_v1, pre=before, began=began, approval=None)
    assert found.effects[0].fields["rolled_back"]
    assert found.indicators == ("rollback_triggered", "wrong_sha")


@pytest.mark.req("R-CP-07")
def test_a_skipped_region_is_detected(on_v1):
    on_v1.deploy("v2", "eu")
    found = look(on_v1)
    assert found.effects[0].fields["rollout_stage"] == "partial"
    assert found.effects[0].fields["regions"] == ["eu"]
    assert found.indicators == ("partial_region_rollout",)
    assert look(on_v1, regions=["'eu'"]).indicators == ()


@pytest.mark.req("R-CP-07", "R-DC-09")
def test_an_unfinished_rollout_is_pending(on_v1):
    on_v1.deploy("v2", "us")
    for _ in range(5):  # a slow machine may look when it is over
        on_v1.regions["eu"].deploy(on_v1.releases["v2"], wait=False)
        found = look(on_v1)
        if found.effects[0].pending:
            break
    assert found.effects[0].present
    assert found.effects[0].pending
    assert found.indicators == ()


@pytest.mark.req("R-CP-07")
def test_a_process_that_keeps_exiting_is_in_a_crash_loop(on_v2):
    region = on_v2.regions["eu"]
    region.control.startProcess("broken", False)
    try:
        assert processes.wait_until(lambda: region.state("broken") == "BACKOFF", within_s=10)
        found = look(on_v2, program="'broken'", regions=["'eu'"])
    finally:
        region.control.stopProcess("broken")
    assert "crash_loop" in found.indicators
    assert found.effects[0].present is None


@pytest.mark.req("R-CP-07")
def test_a_stopped_process_is_not_ready(on_v2):
    on_v2.regions["us"].control.stopProcess("shop")
    found = look(on_v2)
    assert "failed_readiness" in found.indicators
    assert found.effects[0].fields["ready"] == 1


@pytest.mark.req("R-CP-07")
def test_fewer_replicas_than_asked_for_are_not_ready(on_v2):
    assert look(on_v2, replicas="2").indicators == ()
    assert look(on_v2, replicas="3").indicators == ("failed_readiness",)


@pytest.mark.req("R-CP-07")
def test_a_failing_health_check_is_detected(on_v2):
    down = on_v2.monitored.folder / "down"
    settings = {**on_v2.settings(monitor=on_v2.monitored.monitor), "health": "/debug/health"}
    assert look(on_v2, settings=settings).indicators == ()
    down.write_text("")
    try:
        assert processes.wait_until(lambda: look(on_v2, settings=settings).indicators != (), within_s=10, every_s=0.5)
        assert look(on_v2, settings=settings).indicators == ("failed_readiness",)
    finally:
        down.unlink()
        assert processes.wait_until(
            lambda: on_v2.monitored.client.get("/v2/").status_code == 200, within_s=10, every_s=0.5
        )


@pytest.mark.req("R-CP-07")
def test_errors_beyond_the_budget_are_detected(on_v2):
    settings = {**on_v2.settings(monitor=on_v2.monitored.monitor), "health": "/debug/health", "metrics": "/metrics",
                "requests_metric": "registry_http_requests_total"}  # fmt: skip
    for _ in range(3):
        on_v2.monitored.client.get("/v2/")
    assert look(on_v2, settings=settings, max_error_permille=10).indicators == ()
    store = on_v2.monitored.folder / "store"
    store.rmdir() if not any(store.iterdir()) else store.rename(store.with_name("old"))
    store.write_text("no folder")
    codes = {on_v2.monitored.client.get("/v2/shop/manifests/v1").status_code for _ in range(5)}
    store.unlink()
    store.mkdir()
    assert codes == {500}
    found = look(on_v2, settings=settings, max_error_permille=10)
    assert found.indicators == ("error_budget_burn",)
    assert found.effects[0].fields["error_permille"] > 100


@pytest.mark.req("R-CP-07")
def test_a_release_without_its_approval_is_detected(on_v1):
    found = look(on_v1, version="v1")
    assert found.effects[0].fields["approval_id"] == "ap-0"
    assert found.indicators == ("missing_deployment_approval",)
    alone = look(on_v1, version="v1", repository=None, approval="'said-v1'")
    assert alone.indicators == ()


def test_a_process_restarted_during_the_reading_gives_no_answer(on_v2, monkeypatch):
    region, asked = on_v2.regions["us"], deployments._instance

    def slow(*args):
        found = asked(*args)
        if args[1] == "us":
            time.sleep(1)
            region.deploy(on_v2.releases["v2"])
        return found

    monkeypatch.setattr(deployments, "_instance", slow)
    with pytest.raises(CheckFailed, match="changed") as failed:
        look(on_v2)
    assert failed.value.retryable


def test_a_restart_is_recognised_although_the_clock_of_the_manager_is_behind():
    """A manager says what time it believes it is, an hour less than it is."""
    at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    now = int(at.timestamp()) - 3600
    bindings = {"scope": {"executed_at": (at - timedelta(seconds=20)).isoformat()}}
    assert deployments._was_restarted([{"start": now - 10, "now": now}], bindings, at=at)
    assert not deployments._was_restarted([{"start": now - 30, "now": now}], bindings, at=at)


def test_an_unknown_program_is_absent(on_v2):
    assert look(on_v2, program="'none'").effects[0].present is False


def test_an_instance_without_release_information_cannot_be_determined(on_v2):
    settings = {**on_v2.settings(), "release": "/none.json"}
    assert look(on_v2, settings=settings).effects[0].present is None


@pytest.mark.req("R-VD-16")
def test_an_unreachable_manager_or_a_refused_password_is_an_outage(on_v2):
    settings = on_v2.settings()
    settings["regions"]["eu"]["orchestrator"] = f"http://127.0.0.1:{environment.free_port()}"
    for changes in ({"settings": settings}, {"password": "wrong"}):
        with pytest.raises(CheckFailed) as failed:
            look(on_v2, **changes)
        assert failed.value.retryable


@pytest.mark.parametrize("part", [{"regions": ["'asia'"]}, {"version": "latest"}, {"repository": "'../x'"}])
def test_an_unknown_region_or_health_check_gives_no_answer(on_v2, part):
    with pytest.raises(CheckFailed) as failed:
        look(on_v2, **part)
    assert not failed.value.retryable


def test_an_address_that_is_not_a_process_manager_gives_no_answer(on_v2):
    settings = on_v2.settings()
    settings["regions"]["eu"]["orchestrator"] = on_v2.registry.url
    with pytest.raises(CheckFailed):
        look(on_v2, settings=settings)
