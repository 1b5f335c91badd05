"""Releases, from the proposal to the decision: what a tool rolls out under real supervisors, and what comes of it."""

from __future__ import annotations

import time

import pytest

from console.local import processes
from tests.peers.support.errand import Errand
from tests.peers.support.path import Office, fired, not_asked, succeeded

pytestmark = pytest.mark.long


@pytest.fixture
def office(db, secrets_dir):
    """What stands on a release is its environment; here that is the tenant."""
    return Office(secrets_dir, "production")


def rolling_out(fleet, *, settings=None, version="v2", change="ap-1", reading=None, **part):
    usual = {
        "program": "'shop'",
        "artifact": "sr.digest",
        "repository": "'shop'",
        "approval": "sr.change",
        "replicas": "2",
        "max_error_permille": 10,
        "tenant_field": "environment",
        "target_field": "program",
    }
    lookup = {name: value for name, value in (usual | part).items() if value is not None}
    return Errand(
        pattern="deployments",
        settings=settings or fleet.settings(),
        credential={"user": "keeper", "password": "word"},
        arguments={"program": "shop", "digest": fleet.digests[version], "change": change},
        lookup={"effects": {"rollout": lookup}},
        predicates=(
            "sa.artifact_sha == sr.digest && sa.registered",
            "sa.environment == scope.tenant",
            "sa.regions == ['eu', 'us']",
            "sa.rollout_stage == 'complete'",
            "sa.healthy == 2 && sa.ready == 2",
            "!sa.rolled_back",
            "sa.approval_id == sr.change",
        ),
        target="program/{program}",
        reading={"baseline": True} if reading is None else reading,
    )


def watched(fleet):
    """The same fleet with the health and the errors of a process that has switches for both."""
    return {
        **fleet.settings(monitor=fleet.monitored.monitor),
        "health": "/debug/health",
        "metrics": "/metrics",
        "requests_metric": "registry_http_requests_total",
    }


@pytest.mark.req("R-CP-07", "R-VD-05")
def test_a_rolled_out_release_is_a_success(office, on_v1):
    # Another test makes errors, and the counter only grows.
    errand = rolling_out(on_v1, settings=watched(on_v1), max_error_permille=990, regions=["'eu'", "'us'"])
    on_v1.monitored.client.get("/v2/")
    ended = office.carry_out(errand, lambda work: on_v1.deploy("v2"))
    succeeded(ended)
    assert ended.effect["fields"]["error_permille"] <= 990
    assert not_asked(ended) == set()


@pytest.mark.req("R-CP-07", "R-CP-16")
def test_a_skipped_region_raises_partial_rollout(office, on_v1):
    fired(office.carry_out(rolling_out(on_v1), lambda work: on_v1.deploy("v2", "eu")), "partial_region_rollout")


@pytest.mark.req("R-CP-07", "R-CP-16")
def test_another_release_than_requested_raises_its_indicator(office, on_v2):
    errand = rolling_out(on_v2, version="v3", change="ap-3")
    fired(office.carry_out(errand, lambda work: on_v2.deploy("v1")), "wrong_sha")


@pytest.mark.req("R-CP-07", "R-CP-16")
def test_fewer_replicas_than_requested_raise_their_indicator(office, on_v1):
    errand = rolling_out(on_v1, replicas="3")
    fired(office.carry_out(errand, lambda work: on_v1.deploy("v2")), "failed_readiness")


@pytest.mark.req("R-CP-07", "R-DC-11")
def test_a_release_under_another_approval_raises_missing_approval(office, on_v1):
    errand = rolling_out(on_v1, change="ap-9")
    fired(office.carry_out(errand, lambda work: on_v1.deploy("v2")), "missing_deployment_approval")


@pytest.mark.req("R-CP-07", "R-DC-11")
def test_a_rolled_back_release_raises_rollback_triggered(office, on_v1):
    def roll_back(work):
        time.sleep(1)  # supervisord knows whole seconds
        on_v1.deploy("v2")
        on_v1.deploy("v1")

    fired(office.carry_out(rolling_out(on_v1), roll_back), "rollback_triggered")


@pytest.mark.req("R-CP-07", "R-DC-11")
def test_a_release_with_errors_raises_error_budget_burn(office, on_v1):
    store = on_v1.monitored.folder / "store"

    def break_it(work):
        on_v1.deploy("v2")
        store.rmdir() if not any(store.iterdir()) else store.rename(store.with_name(f"old-{work.attempt}"))
        store.write_text("no folder")
        assert {on_v1.monitored.client.get("/v2/shop/manifests/v1").status_code for _ in range(5)} == {500}
        store.unlink()
        store.mkdir()

    fired(office.carry_out(rolling_out(on_v1, settings=watched(on_v1)), break_it), "error_budget_burn")


@pytest.mark.req("R-CP-07", "R-CP-16")
def test_a_release_that_keeps_exiting_raises_its_indicator(office, on_v1):
    region = on_v1.regions["eu"]

    def start_it(work):
        time.sleep(1)
        region.control.startProcess("broken", False)
        assert processes.wait_until(lambda: region.state("broken") == "BACKOFF", within_s=10)

    try:
        errand = rolling_out(
            on_v1, program="'broken'", regions=["'eu'"], target_field=None, approval=None, replicas=None
        )
        fired(office.carry_out(errand, start_it), "crash_loop")
    finally:
        region.control.stopProcess("broken")


@pytest.mark.req("R-CP-07", "R-CP-13", "R-DC-07")
def test_another_region_is_the_wrong_target(office, on_v1):
    errand = rolling_out(on_v1, regions=["'eu'"], replicas="1")
    ended = office.carry_out(errand, lambda work: on_v1.deploy("v2", "us"))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
    assert ended.effect["strayed"] == ["us"]


@pytest.mark.req("R-CP-13", "R-DC-07")
def test_another_environment_is_the_wrong_target(db, secrets_dir, on_v1):
    staging = Office(secrets_dir, "staging")
    ended = staging.carry_out(rolling_out(on_v1), lambda work: on_v1.deploy("v2"))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
