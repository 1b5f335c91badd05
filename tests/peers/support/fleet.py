"""Two regions under real supervisords, and a real OCI registry."""

from __future__ import annotations

import hashlib
import json
import xmlrpc.client
from contextlib import ExitStack
from datetime import UTC, datetime

import httpx
import pytest

from console.local import processes
from reviews.checks.catalogue import check_for
from reviews.checks.interface import SystemAccess
from tests.peers.support import environment

CHECK = check_for("deployments")
PINS = ("supervisor==4.3.0", "setuptools<81")
LOOKUP = {
    "program": "'shop'",
    "artifact": "sr.digest",
    "repository": "'shop'",
    "approval": "sr.change",
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
            "v3": self.registry.publish("v3", **{"org.counterfoil.approval": "ap-3"}),
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
    scope = {"executed_at": began.isoformat()} if began else {}
    return CHECK.read(
        system=SystemAccess(
            "fleet", "deployments", settings or fleet.settings(), {"user": "keeper", "password": password}
        ),
        verification={"lookup": {"effects": {"rollout": lookup}}},
        bindings={
            "sr": {"digest": fleet.digests.get(version, version), "change": "ap-1"},
            "scope": scope,
            "pre": {"effects": {"rollout": dict(pre.effects[0].fields)}} if pre else {},
        },
        at=datetime.now(UTC),
        timeout_s=20,
    )
