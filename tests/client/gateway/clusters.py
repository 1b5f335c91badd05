"""Journeys of kubectl and of plain requests through the gateway to the API server of a cluster.

`test_kubernetes.py` runs them against a small server that was written for the tests, `test_kubernetes_real.py` against
a real API server where there is one.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from console.local.processes import wait_until
from ledger.key_files import write_private
from tests.client.gateway.conftest import LONG_S, Gateway
from tests.mcp.house import House
from tests.support.outside import git_server
from tests.support.outside.api_objects import Api
from tests.support.outside.authorities import DAY

AGENTS = ("hasty", "late", "patcher", "evictor")
MAPS = "api/v1/namespaces/shop/configmaps"
WEBS = "apis/apps/v1/namespaces/shop/deployments"
PODS = "api/v1/namespaces/shop/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "front", "namespace": "shop"},
    "spec": {"containers": [{"name": "web", "image": "shop/web:7"}]},
}
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data}


def deployment(name: str, replicas: int = 2) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "shop/web:7"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    about = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec}


def own_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of this machine, signed by itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - DAY).not_valid_after(now + DAY)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "gateway.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(encoding))
    write_private(folder / "gateway.key", private.decode())
    return folder / "gateway.crt", folder / "gateway.key"


@dataclass(frozen=True)
class Cluster:
    """A gateway before an API server, and an agent with kubectl behind it."""

    api: Api
    gateway: Gateway
    certificate: Path
    house: House
    tokens: dict[str, str]

    @property
    def address(self) -> str:
        return f"https://localhost:{self.gateway.port}/cluster"

    def ask(self, method: str, path: str, document: Any = None, *, media: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[options.pop('agent', 'deployer')]}"} | options.pop(
            "headers", {}
        )
        content = None if document is None else json.dumps(document).encode()
        if content is not None:
            headers["Content-Type"] = media or "application/json"
        options.setdefault("content", content)
        address = f"{self.address}/{path}"
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        with httpx.Client(verify=trusted, timeout=LONG_S) as client:
            return client.request(method, address, headers=headers, **options)

    def kubectl(self, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
        home = self.gateway.folder
        where = ["--server", self.address, "--certificate-authority", str(self.certificate)]
        program = str(Path(sys.executable).parent / "kubectl")
        argv = [program, *where, "--token", self.gateway.token, "-n", "shop", *words]
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "KUBECONFIG": str(home / "none")}
        return subprocess.run(argv, input=told, env=environment, capture_output=True, text=True, timeout=LONG_S * 2)

    def is_confirmed(self, name: str) -> bool:
        """True once the newest change of an object has been read back as it was approved."""
        one = self.newest_request(name)
        assert one.state == "reported"
        return wait_until(lambda: self.house.state(one.action_id) == "RECONCILED_SUCCESS", within_s=LONG_S * 2)

    def newest_request(self, name: str) -> Any:
        """The newest held request for an object."""
        found = [each for each in self.gateway.held if each.arguments["object"] == name]
        return max(found, key=lambda each: each.at)


@contextmanager
def gated(house: House, api: Api, folder: Path) -> Iterator[Cluster]:
    """A gateway before this API server; the console reads the same one back."""
    write_private(house.credentials / "kubernetes.json", json.dumps({"url": api.url, "token": api.token}))
    settings = {"url": api.url} | ({"ca_file": api.ca_file} if api.ca_file else {})
    body = {"name": "kubernetes", "pattern": "kubernetes", "settings": settings}
    assert house.operator.post("/systems", body).status_code == 201
    certificate, key = own_certificate(folder)
    with git_server.served(folder) as unused, pytest.MonkeyPatch.context() as patched:
        # What looks whether the gateway answers goes by the environment's roots.
        patched.setenv("SSL_CERT_FILE", str(certificate))
        made = Gateway(folder, house, unused, "deployer")
        made.url = f"https://localhost:{made.port}"
        del made.settings["hosts.forge"]
        write_private(folder / "cluster.token", api.token + "\n")
        # Each with a session of its own: a step that failed is to be acknowledged by the next one in its session.
        made.settings |= {f"agents.{name}": {"goal": "Keep the shop up."} for name in AGENTS}
        made.settings["gateway"] |= {"tls_cert": str(certificate), "tls_key": str(key), "hold_s": 4.0}
        made.settings["hosts.cluster"] = {
            "reader": "kubernetes",
            "url": api.url,
            "scheme": "bearer",
            "credential_file": str(folder / "cluster.token"),
        } | ({"ca_file": api.ca_file} if api.ca_file else {})
        try:
            made.prepare()
            tokens = {name: made.program("token", name).stdout.decode().strip() for name in AGENTS}
            yield Cluster(api, made.start(), certificate, house, tokens | {"deployer": made.token})
        finally:
            made.stop()


class Journeys:
    """Behaviour that every API server shows."""

    def test_kubectl_reads_at_once_and_an_apply_waits_is_sent_once_and_read_back(self, shop):
        shop.api.post(WEBS, deployment("front"))
        read = shop.kubectl("get", "deployment", "front", "-o", "json")
        assert json.loads(read.stdout)["metadata"]["name"] == "front", read.stderr
        manifest = json.dumps(config_map("prices", tea="3"))
        waits = shop.kubectl("create", "--validate=false", "-f", "-", told=manifest)
        assert waits.returncode == 1
        assert "Error from server (Forbidden)" in waits.stderr
        place = f"{shop.house.stack.url}/t/{shop.house.tenant}/approvals/"
        assert f"Counterfoil: waits for approval, send it again later: {place}" in waits.stderr
        assert shop.api.find(f"{MAPS}/prices") is None
        one = shop.newest_request("prices")
        assert (one.tool, one.arguments["kind"], one.arguments["uid"]) == ("kubernetes.create", "ConfigMap", "none")
        assert '/data: nothing -> {"tea": "3"}' in one.arguments["difference"]
        shop.house.approve()
        done = shop.kubectl("create", "--validate=false", "-f", "-", told=manifest)
        assert (done.returncode, done.stdout) == (0, "configmap/prices created\n"), done.stderr + shop.gateway.log
        assert shop.is_confirmed("prices")

    def test_a_rejected_change_is_403_in_the_servers_own_form_and_changes_nothing(self, shop):
        shop.api.post(MAPS, config_map("wages", tea="3"))
        path = f"{MAPS}/wages"
        waits = shop.ask("PATCH", path, {"data": {"tea": "4"}}, media=MERGE, agent="hasty")
        assert (waits.status_code, waits.json()["kind"], waits.json()["reason"]) == (409, "Status", "Forbidden")
        assert shop.newest_request("wages").arguments["difference"] == '/data/tea: "3" -> "4"'
        shop.house.decide("reject", "Not this price.")
        told = shop.ask("PATCH", path, {"data": {"tea": "4"}}, media=MERGE, agent="hasty")
        assert (told.status_code, told.json()["reason"], told.json()["code"]) == (403, "Forbidden", 403)
        assert "rejected by a reviewer: Not this price." in told.json()["message"]
        assert shop.api.find(path)["data"] == {"tea": "3"}
        again = shop.ask("PATCH", path, {"data": {"tea": "4"}}, media=MERGE, agent="hasty")
        assert again.status_code == 403
        assert "send the same request again" in again.json()["message"]

    def test_a_removal_names_the_uid_that_is_gone_afterwards(self, shop):
        shop.api.post(MAPS, config_map("gone", tea="3"))
        uid = shop.api.find(f"{MAPS}/gone")["metadata"]["uid"]
        waits = shop.kubectl("delete", "configmap", "gone", "--wait=false")
        assert waits.returncode == 1
        assert "waits for approval" in waits.stderr
        one = shop.newest_request("gone")
        assert (one.tool, one.arguments["uid"]) == ("kubernetes.delete", uid)
        assert one.arguments["difference"] == "the ConfigMap gone is removed"
        shop.house.approve()
        done = shop.kubectl("delete", "configmap", "gone", "--wait=false")
        assert done.returncode == 0, done.stderr
        assert shop.api.find(f"{MAPS}/gone") is None
        assert shop.is_confirmed("gone")

    def test_a_scale_shows_its_replicas_and_is_read_back(self, shop):
        shop.api.post(WEBS, deployment("shopfront"))
        scale = ["scale", "deployment/shopfront", "--replicas=5"]
        assert "waits for approval" in shop.kubectl(*scale).stderr
        one = shop.newest_request("shopfront")
        assert (one.arguments["resource"], one.arguments["kind"]) == ("deployments.apps/scale", "Deployment")
        assert one.arguments["difference"] == "/spec/replicas: 2 -> 5"
        shop.house.approve()
        done = shop.kubectl(*scale)
        assert done.returncode == 0, done.stderr
        assert shop.api.find(f"{WEBS}/shopfront")["spec"]["replicas"] == 5
        assert shop.is_confirmed("shopfront")

    def test_an_object_that_changed_after_it_was_shown_is_left_as_it_is(self, shop):
        shop.api.post(MAPS, config_map("moving", tea="3"))
        path = f"{MAPS}/moving"
        assert shop.ask("PATCH", path, {"data": {"tea": "4"}}, media=MERGE, agent="late").status_code == 409
        shop.api.patch(path, {"data": {"coffee": "9"}})
        shop.house.approve()
        told = shop.ask("PATCH", path, {"data": {"tea": "4"}}, media=MERGE, agent="late")
        assert told.status_code == 403
        assert "the object has changed since this change of it was shown" in told.json()["message"]
        assert shop.api.find(path)["data"] == {"tea": "3", "coffee": "9"}

    def test_what_the_server_refuses_as_a_dry_run_is_answered_in_its_words_and_not_held(self, shop):
        shop.api.post(MAPS, config_map("taken", tea="3"))
        before = len(shop.gateway.held)
        told = shop.ask("POST", MAPS, config_map("taken", tea="4"))
        assert (told.status_code, told.json()["reason"]) == (409, "AlreadyExists")
        assert not told.json()["message"].startswith("Counterfoil")
        assert len(shop.gateway.held) == before

    def test_a_dry_run_of_the_clients_own_passes_and_changes_nothing(self, shop):
        before = len(shop.gateway.held)
        tried = shop.ask("POST", f"{MAPS}?dryRun=All", config_map("tried", tea="3"))
        assert (tried.status_code, tried.json()["metadata"]["name"]) == (201, "tried")
        assert shop.api.find(f"{MAPS}/tried") is None
        assert len(shop.gateway.held) == before

    def test_a_removal_with_a_body_is_no_dry_run_because_its_address_says_so(self, shop):
        # The API server looks at the body alone where there is one.
        shop.api.post(MAPS, config_map("trick", tea="3"))
        told = shop.ask("DELETE", f"{MAPS}/trick?dryRun=All", {"kind": "DeleteOptions", "apiVersion": "v1"})
        assert told.status_code == 422
        assert "says in that body whether it is a dry run" in told.json()["message"]
        assert shop.api.find(f"{MAPS}/trick") is not None
        real = shop.ask("DELETE", f"{MAPS}/trick", {"dryRun": ["All"]})
        assert real.status_code == 200
        assert shop.api.find(f"{MAPS}/trick") is not None

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["exec", "front", "--", "true"], "upgrades (exec, attach, port-forward) do not pass"),
            (["get", "secrets"], "secrets do not pass this gateway"),
            (["get", "configmaps", "--as", "somebody"], "another identity is not taken on"),
            (["delete", "--raw", f"/{MAPS}"], "a whole collection is not removed at once: name each object"),
        ],
    )
    def test_kubectl_prints_why_it_is_refused(self, shop, words, says):
        if words[0] == "exec" and shop.api.find(f"{PODS}/front") is None:
            shop.api.post(PODS, POD)
        told = shop.kubectl(*words)
        assert told.returncode != 0
        assert says in told.stderr, told.stderr

    def test_what_is_not_json_and_what_hands_out_credentials_is_refused_with_a_status(self, shop):
        protobuf = shop.ask("POST", MAPS, {}, media="application/vnd.kubernetes.protobuf")
        assert (protobuf.status_code, protobuf.json()["kind"], protobuf.json()["reason"]) == (
            415,
            "Status",
            "UnsupportedMediaType",
        )
        assert "(protobuf and CBOR cannot be shown)" in protobuf.json()["message"]
        token = shop.ask("POST", "api/v1/namespaces/shop/serviceaccounts/default/token", {})
        assert (token.status_code, token.json()["reason"]) == (403, "Forbidden")
        assert "is a credential" in token.json()["message"]
        for path in ("api/v1/nodes/one/proxy/metrics", f"{PODS}/front/exec?command=ls"):
            assert "what goes through it cannot be read" in shop.ask("GET", path).json()["message"]
