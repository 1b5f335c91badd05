"""Releases rolled out by real supervisords over two regions, from a real OCI registry, and read back.

The instances are Python's own web server, which serves what lies in the release's folder; health and errors
are those of a second registry process, which has real switches for both.
"""

from __future__ import annotations

import hashlib
import json
import time
import xmlrpc.client
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from console import processes
from ledger.rules.lifecycle import State
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.peers import environment, verdicts

pytestmark = pytest.mark.long

CHECK = check_for("deployments")
PINS = ("supervisor==4.3.0", "setuptools<81")
LOOKUP = {
    "program": "'shop'",
    "artifact": "sr.digest",
    "repository": "'shop'",
    "approval": "scope.action_id",
    "tenant_field": "environment",
    "target_field": "program",
}
SUPERVISOR = """
[inet_http_server]
port = 127.0.0.1:{port}
username = keeper
password = word
[supervisord]
nodaemon = true
logfile = {folder}/supervisord.main.log
pidfile = {folder}/supervisord.pid
childlogdir = {folder}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[program:shop]
command = {python} -m http.server {instance} --bind 127.0.0.1
directory = {folder}/current
startsecs = 1
[program:broken]
command = /bin/false
autostart = false
startretries = 100
"""
REGISTRY = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/store}}}}
http:
  addr: 127.0.0.1:{port}
  debug: {{addr: "127.0.0.1:{monitor}", prometheus: {{enabled: true, path: /metrics}}}}
health:
  file: [{{file: {folder}/down, interval: 1s}}]
"""


class Registry:
    def __init__(self, stack, program, folder):
        self.folder = folder
        folder.mkdir()
        (folder / "store").mkdir()
        port, monitor = environment.free_port(), environment.free_port()
        self.url, self.monitor = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{monitor}"
        settings = folder / "registry.yml"
        settings.write_text(REGISTRY.format(folder=folder, port=port, monitor=monitor))
        argv = [str(program), "serve", str(settings)]
        stack.enter_context(
            environment.running(argv, folder / "registry.log", ready=environment.answers(f"{self.url}/v2/"))
        )
        self.client = stack.enter_context(httpx.Client(base_url=self.url, trust_env=False))

    def publish(self, tag, **annotations):
        """A manifest of a release, and its digest."""
        empty = b"{}"
        digest = f"sha256:{hashlib.sha256(empty).hexdigest()}"
        place = self.client.post("/v2/shop/blobs/uploads/").headers["location"]
        self.client.put(f"{place}&digest={digest}", content=empty).raise_for_status()
        kind = "application/vnd.oci.image.manifest.v1+json"
        config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest, "size": len(empty)}
        manifest = {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [],
                    "annotations": {"version": tag, **annotations}}  # fmt: skip
        put = self.client.put(f"/v2/shop/manifests/{tag}", content=json.dumps(manifest), headers={"Content-Type": kind})
        assert put.status_code == 201, put.text
        return put.headers["docker-content-digest"]


class Region:
    def __init__(self, stack, python, folder, release):
        self.folder = folder
        folder.mkdir()
        port, instance = environment.free_port(), environment.free_port()
        self.orchestrator, self.instance = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{instance}"
        self.point_to(release)
        settings = folder / "supervisord.conf"
        settings.write_text(SUPERVISOR.format(port=port, folder=folder, python=python, instance=instance))
        argv = [str(python.with_name("supervisord")), "-c", str(settings)]
        ready = environment.answers(f"{self.instance}/healthz")
        stack.enter_context(environment.running(argv, folder / "supervisord.log", ready=ready))
        proxy = xmlrpc.client.ServerProxy(f"http://keeper:word@127.0.0.1:{port}/RPC2")
        self.control = stack.enter_context(proxy).supervisor
        self.settle()

    def point_to(self, release):
        (self.folder / "current").unlink(missing_ok=True)
        (self.folder / "current").symlink_to(release)

    def state(self, program="shop"):
        return self.control.getProcessInfo(program)["statename"]

    def settle(self):
        assert processes.wait_until(lambda: self.state() == "RUNNING", within_s=20)
        assert processes.wait_until(environment.answers(f"{self.instance}/healthz"), within_s=20)

    def deploy(self, release, *, wait=True):
        self.point_to(release)
        if self.state() != "STOPPED":
            self.control.stopProcess("shop")
        self.control.startProcess("shop", wait)
        if wait:
            self.settle()


class Fleet:
    """Two regions, the registry that releases come from, and a monitored process."""

    def __init__(self, stack, folder):
        program = environment.debian_program("docker-registry", "usr/bin/docker-registry")
        python = environment.peer_python(PINS)
        self.folder = folder
        self.registry = Registry(stack, program, folder / "registry")
        self.monitored = Registry(stack, program, folder / "monitored")
        self.digests = {
            "v1": self.registry.publish("v1", **{"org.counterfoil.approval": "ap-0"}),
            "v2": self.registry.publish("v2", **{"org.counterfoil.approval": "ap-1"}),
        }
        self.releases = {version: self.release(version) for version in self.digests}
        self.regions = {name: Region(stack, python, folder / name, self.releases["v1"]) for name in ("eu", "us")}

    def release(self, version):
        place = self.folder / "releases" / version
        place.mkdir(parents=True)
        about = {"artifact": self.digests[version], "environment": "production", "approval_id": f"said-{version}"}
        (place / "release.json").write_text(json.dumps(about))
        (place / "healthz").write_text("ok")
        return place

    def deploy(self, version, *regions):
        for name in regions or self.regions:
            self.regions[name].deploy(self.releases[version])

    def settings(self, *, monitor=None):
        def instance(region):
            return {"url": region.instance, "monitor": monitor} if monitor else region.instance

        return {
            "registry": self.registry.url,
            "regions": {
                name: {"orchestrator": region.orchestrator, "instances": {"shop": [instance(region)]}}
                for name, region in self.regions.items()
            },
        }


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with ExitStack() as stack:
        yield Fleet(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def on_v2(fleet):
    """Everything runs the second release."""
    for region in fleet.regions.values():
        if (region.folder / "current").resolve() != fleet.releases["v2"] or region.state() != "RUNNING":
            region.deploy(fleet.releases["v2"])
    return fleet


@pytest.fixture
def on_v1(fleet):
    for region in fleet.regions.values():
        if (region.folder / "current").resolve() != fleet.releases["v1"] or region.state() != "RUNNING":
            region.deploy(fleet.releases["v1"])
    return fleet


def look(fleet, *, settings=None, pre=None, began=None, version="v2", password="word", **part):
    lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
    scope = {"action_id": "ap-1", **({"executed_at": began.isoformat()} if began else {})}
    return CHECK.read(
        system=SystemAccess(
            "fleet", "deployments", settings or fleet.settings(), {"user": "keeper", "password": password}
        ),
        verification={"lookup": {"effects": {"rollout": lookup}}},
        bindings={
            "sr": {"digest": fleet.digests.get(version, version)},
            "scope": scope,
            "pre": {"effects": {"rollout": dict(pre.effects[0].fields)}} if pre else {},
        },
        at=datetime.now(UTC),
        timeout_s=20,
    )


@pytest.mark.req("R-CP-07")
def test_a_release_that_runs_everywhere_is_there(on_v2):
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
def test_a_tag_that_points_elsewhere_is_told(on_v2):
    assert look(on_v2, tag="'v1'").indicators == ("wrong_sha",)


@pytest.mark.req("R-CP-07")
def test_the_release_from_before_started_again_is_a_roll_back(on_v1):
    before = look(on_v1)
    began = datetime.now(UTC)
    time.sleep(1)
    on_v1.deploy("v2")
    on_v1.deploy("v1")
    found = look(on_v1, pre=before, began=began, approval=None)
    assert found.effects[0].fields["rolled_back"]
    assert found.indicators == ("rollback_triggered", "wrong_sha")


@pytest.mark.req("R-CP-07")
def test_a_region_that_was_left_out_is_seen(on_v1):
    on_v1.deploy("v2", "eu")
    found = look(on_v1)
    assert found.effects[0].fields["rollout_stage"] == "partial"
    assert found.effects[0].fields["regions"] == ["eu"]
    assert found.indicators == ("partial_region_rollout",)
    assert look(on_v1, regions=["'eu'"]).indicators == ()


@pytest.mark.req("R-CP-07", "R-DC-09")
def test_a_rollout_that_goes_on_is_pending(on_v1):
    on_v1.deploy("v2", "eu")
    on_v1.regions["us"].deploy(on_v1.releases["v2"], wait=False)
    found = look(on_v1)
    assert found.effects[0].present
    assert found.effects[0].pending
    assert found.indicators == ()


@pytest.mark.req("R-CP-07")
def test_a_process_that_keeps_ending_is_a_crash_loop(on_v2):
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
def test_a_process_that_is_down_is_not_ready(on_v2):
    on_v2.regions["us"].control.stopProcess("shop")
    found = look(on_v2)
    assert "failed_readiness" in found.indicators
    assert found.effects[0].fields["ready"] == 1


@pytest.mark.req("R-CP-07")
def test_fewer_replicas_than_asked_for_are_not_ready(on_v2):
    assert look(on_v2, replicas="2").indicators == ()
    assert look(on_v2, replicas="3").indicators == ("failed_readiness",)


@pytest.mark.req("R-CP-07")
def test_a_health_check_that_fails_is_seen(on_v2):
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
def test_errors_beyond_the_budget_are_seen(on_v2):
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
def test_a_release_without_its_approval_is_seen(on_v1):
    found = look(on_v1, version="v1")
    assert found.effects[0].fields["approval_id"] == "ap-0"
    assert found.indicators == ("missing_deployment_approval",)
    alone = look(on_v1, version="v1", repository=None, approval="'said-v1'")
    assert alone.indicators == ()


def test_a_program_that_nobody_knows_is_absent(on_v2):
    assert look(on_v2, program="'none'").effects[0].present is False


def test_an_instance_that_does_not_say_what_it_is_cannot_be_told(on_v2):
    settings = {**on_v2.settings(), "release": "/none.json"}
    assert look(on_v2, settings=settings).effects[0].present is None


@pytest.mark.req("R-VD-16")
def test_a_manager_that_is_gone_or_refuses_the_password_is_an_outage(on_v2):
    settings = on_v2.settings()
    settings["regions"]["eu"]["orchestrator"] = f"http://127.0.0.1:{environment.free_port()}"
    for changes in ({"settings": settings}, {"password": "wrong"}):
        with pytest.raises(CheckFailed) as failed:
            look(on_v2, **changes)
        assert failed.value.retryable


@pytest.mark.parametrize("part", [{"regions": ["'asia'"]}, {"version": "latest"}, {"repository": "'../x'"}])
def test_what_the_system_does_not_have_never_answers(on_v2, part):
    with pytest.raises(CheckFailed) as failed:
        look(on_v2, **part)
    assert not failed.value.retryable


def test_something_else_than_a_manager_is_no_answer(on_v2):
    settings = on_v2.settings()
    settings["regions"]["eu"]["orchestrator"] = on_v2.registry.url
    with pytest.raises(CheckFailed):
        look(on_v2, settings=settings)


@pytest.mark.req("R-CP-07", "R-CP-16")
class TestToTheEnd:
    """The check and the rules together."""

    def outcome(self, reading, tenant="production"):
        return verdicts.outcome(reading, target="program/shop", tenant=tenant)

    def test_a_release_that_runs_everywhere_is_a_success(self, on_v2):
        assert self.outcome(look(on_v2)).state is State.RECONCILED_SUCCESS

    def test_another_environment_is_the_wrong_target(self, on_v2):
        assert self.outcome(look(on_v2), tenant="staging").verdict.discrepancy == "WRONG_TARGET_MODIFIED"

    @pytest.mark.parametrize(
        ("part", "discrepancy"),
        [
            ({"approval": "'ap-9'"}, "COMPENSATION_REQUIRED"),
            ({"tag": "'v1'"}, "VALUE_MISMATCH"),
            ({"replicas": "3"}, "VALUE_MISMATCH"),
        ],
    )
    def test_a_fired_indicator_is_none(self, on_v2, part, discrepancy):
        found = self.outcome(look(on_v2, **part))
        assert found.verdict.discrepancy == discrepancy
        assert found.state is not State.RECONCILED_SUCCESS

    def test_a_region_left_out_is_a_part_only(self, on_v1):
        on_v1.deploy("v2", "eu")
        assert self.outcome(look(on_v1)).verdict.discrepancy == "PARTIAL_APPLICATION"

    def test_nothing_rolled_out_is_a_failure(self, on_v1):
        found = self.outcome(look(on_v1, pre=look(on_v1)))
        assert found.verdict.discrepancy == "NO_OP_FAILURE"
