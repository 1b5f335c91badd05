"""Objects of a cluster changed with real kubectl, proposed and read back; the API server is the tests' own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal
from reviews.checks.development.kubernetes import KubernetesCheck, differences
from reviews.checks.interface import CheckFailed, SystemAccess
from tests.support.outside import api_server

CHECK = KubernetesCheck()
UNKNOWN = ": what it would change cannot be known in advance"
WHERE = {name: f"sr.{name}" for name in ("cluster", "api_version", "kind", "namespace", "object")}
APPLIED = WHERE | {"manifest": "sr.manifest"}
SCALED = WHERE | {"replicas": "sr.replicas"}
GONE = WHERE | {"uid": "sr.uid", "expect": "absent"}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "shop/web:7", "resources": {"limits": {"cpu": "500m"}}}]},
        },
    },
}


@pytest.fixture
def server(monkeypatch, tmp_path, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with api_server.served() as found:
        monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig(home)))
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        (tmp_path / "web.json").write_text(json.dumps(WEB))
        yield found


def ran(folder, command):
    done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def look(server, effect, part, **settings):
    return CHECK.read(
        system=SystemAccess("kubernetes", "kubernetes", {"url": server.url} | settings, {"token": server.token}),
        verification={"lookup": {"effects": {"object": part}}},
        bindings={"sr": effect.arguments},
        at=datetime.now(UTC),
        timeout_s=10,
    ).effects[0]


def test_an_applied_manifest_is_proposed_whole_and_compared_with_the_live_object(server, tmp_path):
    command = "kubectl apply --validate=false -f web.json"
    effect = read_command(command, tmp_path)
    assert effect.tool == "kubectl_apply"
    assert {name: effect.arguments[name] for name in ("api_version", "kind", "namespace", "object")} == {
        "api_version": "apps/v1",
        "kind": "Deployment",
        "namespace": "shop",
        "object": "web",
    }
    assert set(server.asked) == {"GET"}
    assert not look(server, effect, APPLIED).present
    ran(tmp_path, command)
    found = look(server, effect, APPLIED)
    assert (found.present, found.fields["differing"]) == (True, 0)
    web = server.objects["/apis/apps/v1/namespaces/shop/deployments/web"]
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "shop/web:6"
    assert look(server, effect, APPLIED).fields["differing"] == 1


def test_replicas_are_read_from_the_object_before_and_after(server, tmp_path):
    ran(tmp_path, "kubectl apply --validate=false -f web.json")
    command = "kubectl -n shop scale deployment/web --replicas=5"
    effect = read_command(command, tmp_path)
    assert (effect.tool, effect.arguments["replicas"]) == ("kubectl_scale", 5)
    assert look(server, effect, SCALED).fields["replicas"] == 2
    ran(tmp_path, command)
    assert look(server, effect, SCALED).fields["replicas"] == 5


def test_a_deleted_object_is_gone_even_if_another_one_gets_its_name(server, tmp_path):
    ran(tmp_path, "kubectl apply --validate=false -f web.json")
    command = "kubectl delete deployment web --wait=false"
    effect = read_command(command, tmp_path)
    assert effect.tool == "kubectl_delete"
    assert not look(server, effect, GONE).present
    ran(tmp_path, command)
    assert look(server, effect, GONE).present
    ran(tmp_path, "kubectl apply --validate=false -f web.json")
    assert look(server, effect, GONE).present


def test_another_cluster_gives_no_answer(server, tmp_path):
    ran(tmp_path, "kubectl apply --validate=false -f web.json")
    effect = read_command("kubectl delete deployment web", tmp_path)
    effect.arguments["cluster"] = "elsewhere"
    with pytest.raises(CheckFailed, match="the command ran on elsewhere") as failed:
        look(server, effect, GONE)
    assert not failed.value.retryable


def test_an_unlisted_namespace_and_a_malformed_answer_do_not_count_as_absence(server, tmp_path):
    ran(tmp_path, "kubectl apply --validate=false -f web.json")
    effect = read_command("kubectl delete deployment web", tmp_path)
    with pytest.raises(CheckFailed, match="shop is not among the namespaces that may be read"):
        look(server, effect, GONE, namespaces=["other"])
    server.objects["/apis/apps/v1/namespaces/shop/deployments/web"] = {"kind": "Status", "metadata": {}}
    with pytest.raises(CheckFailed, match="and no object") as failed:
        look(server, effect, GONE)
    assert failed.value.retryable


def test_a_url_is_never_read_as_a_file_of_the_project(server, tmp_path):
    file = tmp_path / "https:/example.org/all.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(WEB))
    with pytest.raises(Refusal, match="Name one object, or one existing file"):
        read_command("kubectl apply -f https://example.org/all.json", tmp_path)


def test_a_secret_is_not_proposed_because_its_content_would_be_recorded(server, tmp_path):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"word": "c2VjcmV0"}}
    (tmp_path / "key.json").write_text(json.dumps(secret))
    with pytest.raises(Refusal, match="A Secret cannot be proposed: its content would be recorded"):
        read_command("kubectl apply -f key.json", tmp_path)


@pytest.mark.parametrize(
    "command",
    ["kubectl get pods -A", "kubectl -n shop logs web", "kubectl rollout status deployment/web",
     "kubectl -n shop rollout -n live status deployment/web -w", "kubectl config view",
     "kubectl", "kubectl --context live describe node a", "echo kubectl delete"],
)  # fmt: skip
def test_read_only_commands_are_ignored(command, tmp_path):
    assert read_command(command, tmp_path) is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("kubectl exec web -- rm -rf /data", "Not recognised: what `kubectl exec` changes"),
        ("kubectl drain node-1", "Not recognised: what `kubectl drain` changes"),
        ("kubectl patch deployment web -p {}", "Not recognised: what `kubectl patch` changes"),
        ("kubectl rollout restart deployment/web", "Not recognised: what `kubectl rollout` changes"),
        ("kubectl -n status rollout restart deployment/web", "Not recognised: what `kubectl rollout` changes"),
        ("kubectl config use-context live", "Not recognised: what `kubectl config` changes"),
        ("kubectl delete pods --all", f"Send it without --all{UNKNOWN}"),
        ("kubectl delete pods -l app=web", f"Send it without -l{UNKNOWN}"),
        ("kubectl apply -k overlays/live", f"Send it without -k{UNKNOWN}"),
        ("kubectl apply -f https://example.org/all.yaml", "one existing file"),
        ("cat web.json | kubectl apply -f -", "Send `kubectl` as a command of its own"),
        ("kubectl apply --server-side -f web.json", f"Send it without --server-side{UNKNOWN}"),
        ("kubectl delete", "Name one object"),
        ("bash -c 'kubectl delete ns shop'", "Send `kubectl` as a command of its own"),
        ("kubectl delete deployment none", "kubectl cannot say what this would change"),
        ("kubectl delete deployment/web configmap/x", "kubectl cannot say|one object at a time"),
        ("kubectl scale deployment/web", "kubectl cannot say|Say how many"),
    ],
)
def test_a_command_that_cannot_be_held_is_refused(server, tmp_path, command, says):
    with pytest.raises(Refusal, match=says):
        read_command(command, tmp_path)
    assert set(server.asked) <= {"GET"}


def test_quantities_are_compared_as_numbers_and_fields_added_by_the_server_are_ignored():
    wanted = {"cpu": "500m", "memory": "1Gi", "none": None, "listed": [1, 2]}
    found = {"cpu": "0.5", "memory": "1024Mi", "added": True, "listed": [1, 3]}
    assert list(differences(wanted, found)) == ["/listed/1"]


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (WHERE, "must have either the manifest or the replicas that it should have"),
        (WHERE | {"expect": "absent"}, "names the uid"),
        (SCALED | {"labels": "sr.x"}, "unknown field `labels`"),
    ],
)
def test_an_incomplete_or_overfull_lookup_is_reported(part, says):
    assert any(says in fault for fault in CHECK.validate({"lookup": {"effects": {"object": part}}}))
