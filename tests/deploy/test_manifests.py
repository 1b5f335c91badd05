"""The manifests of deploy/kubernetes hold together, and give each process what it needs and nothing else."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from console.local.installation import ROOT
from tests.deploy.manifests import Pod, kustomized, needs_kubectl, pods, resources, secret_variables, words
from tests.deploy.units import UNITS, known_settings, lines_of, without_addresses

pytestmark = needs_kubectl

COMPONENT = "app.kubernetes.io/component"
KEYS, APP, BROKER = "counterfoil-keys", "counterfoil-database-app", "counterfoil-broker"
SECRETS = {
    "web": {KEYS, APP, BROKER},
    "worker": {KEYS, APP, BROKER},
    "bulk": {KEYS, APP, BROKER},
    "log-verification": {KEYS, APP, BROKER},
    "record-verification": {KEYS, APP, BROKER},
    "beat": {BROKER},
    "sequencer": {"counterfoil-database-sequencer", "counterfoil-log-key"},
    "eraser": {"counterfoil-database-eraser"},
    "prepare": {"counterfoil-database-owner"},
    "partitions": {"counterfoil-database-owner"},
    "witness": set(),
}
DATABASE, TO_BROKER, HTTPS = 5432, 6379, 443
CONNECTIONS = {
    "web": {DATABASE, TO_BROKER, HTTPS},
    "worker": {DATABASE, TO_BROKER, HTTPS},
    "bulk": {DATABASE, TO_BROKER, HTTPS},
    "beat": {TO_BROKER},
    "witness": set[int](),
}
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize("kubernetes", ["1.30", "1.37"])
def test_kubernetes_accepts_every_resource(kubernetes: str):
    for each in resources():
        kubernetes_validate.validate(each, kubernetes, strict=True)


def test_every_image_is_that_of_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for pod in pods().values():
        tags = {container["image"].rpartition(":")[2] for container in pod.containers}
        assert tags == {version}, pod.component


def test_no_pod_has_more_rights_than_an_ordinary_process():
    for each in resources("Namespace"):
        assert each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods().values():
        assert RESTRICTED.items() <= pod.spec["securityContext"].items(), pod.component
        assert pod.spec["automountServiceAccountToken"] is False, pod.component
        for container in pod.containers:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, pod.component
            assert container["resources"]["limits"]["memory"], pod.component


def test_each_process_sees_only_the_keys_and_passwords_that_it_needs():
    assert {name: pod.secrets() for name, pod in pods().items()} == SECRETS


def test_the_only_secret_in_an_environment_is_the_address_of_the_broker():
    for pod in pods().values():
        for container in pod.containers:
            named = secret_variables(container)
            assert named in ({}, {name: (BROKER, name) for name in ("REDIS_URL", "BROKER_URL")}), pod.component
    for each in resources("ConfigMap"):
        assert not re.search(r"//[^/@\s]*:[^/@\s]*@", str(each["data"])), each["metadata"]["name"]


def test_the_page_about_kubernetes_names_every_secret_that_must_be_there():
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    assert [name for name in set().union(*SECRETS.values()) if f"generic {name} " not in text] == []


def test_the_example_of_a_folder_of_your_own_is_accepted(tmp_path: Path):
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    [example] = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", page, re.DOTALL)
    base = ROOT / "deploy" / "kubernetes"
    example = example.replace("counterfoil/deploy/kubernetes]", f"{os.path.relpath(base, tmp_path.resolve())}]")
    (tmp_path / "kustomization.yaml").write_text(example)
    for name in re.findall(r"envs: \[(.*?)\]", example):
        (tmp_path / name).write_bytes((base / name).read_bytes())
    made = kustomized(tmp_path)
    for each in made:
        kubernetes_validate.validate(each, "1.37", strict=True)
    assert "https://console.corp.example" in str(made)
    assert "systems/acme/crm.json" in str(made)
    assert "example.org/counterfoil:" not in str(made)
    assert "10.0.0.0/8" not in str([each for each in made if each["kind"] == "NetworkPolicy"])


def test_every_setting_of_a_config_map_is_one_that_is_read():
    own = {"PROXY_ADDRESSES", "WITNESS_NAME"}
    for each in resources("ConfigMap"):
        assert {name for name in each["data"] if not name.endswith(".logs")} - own <= known_settings()
    assert own == {found for pod in pods().values() for found in re.findall(r"\$\((\w+)\)", str(pod.container))}


def test_everything_that_is_named_is_there():
    claims = {each["metadata"]["name"] for each in resources("PersistentVolumeClaim")}
    maps = {each["metadata"]["name"] for each in resources("ConfigMap")}
    used = set()
    for pod in pods().values():
        mounted = {mount["name"] for container in pod.containers for mount in container["volumeMounts"]}
        assert mounted == set(pod.volumes), pod.component
        for volume in pod.volumes.values():
            used |= {volume["persistentVolumeClaim"]["claimName"]} if "persistentVolumeClaim" in volume else set()
            assert {volume["configMap"]["name"]} <= maps if "configMap" in volume else True
    assert used == claims
    deployments = {each["metadata"]["name"] for each in resources("Deployment")}
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in resources("HorizontalPodAutoscaler")}
    assert scaled == {"counterfoil-web", "counterfoil-worker"} & deployments


def test_the_job_of_a_release_has_all_that_it_needs_before_anything_else_is_applied():
    [label] = re.findall(r"apply -k \. -l (\S+)=prepare", (ROOT / "docs" / "kubernetes.md").read_text())
    first = [each for each in resources() if each["metadata"].get("labels", {}).get(label) == "prepare"]
    named = {(each["kind"], each["metadata"]["name"]) for each in first}
    needed = {
        ("ConfigMap", source["configMapRef"]["name"])
        for container in pods()["prepare"].containers
        for source in container.get("envFrom", ())
    }
    allowing = {
        ("NetworkPolicy", each["metadata"]["name"])
        for each in resources("NetworkPolicy")
        if each["metadata"]["namespace"] == "counterfoil" and "prepare" in selected(each["spec"]["podSelector"])
    }
    assert named == needed | allowing | {("Namespace", "counterfoil"), ("Job", "counterfoil-prepare")}


def selected(selector: dict[str, Any]) -> set[str]:
    """The components of the pods that a selector means."""
    found = set()
    for pod in pods().values():
        exact = selector.get("matchLabels", {}).items() <= pod.labels.items()
        listed = all(pod.labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ()))
        found |= {pod.component} if exact and listed else set()
    return found


def test_every_selector_means_the_pods_of_its_own_component():
    for each in resources("Deployment", "PodDisruptionBudget"):
        assert selected(each["spec"]["selector"]) == {each["metadata"]["name"].removeprefix("counterfoil-")}
    for each in resources("Service"):
        assert selected({"matchLabels": each["spec"]["selector"]}) == {
            each["metadata"]["name"].removeprefix("counterfoil-")
        }


def test_whatever_runs_more_than_once_has_a_budget_of_disruptions_and_nothing_else_has():
    """With a single pod a budget would hold up every drain of its node."""
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in resources("HorizontalPodAutoscaler")}
    several = scaled | {f"counterfoil-{name}" for name, pod in pods().items() if (pod.replicas or 0) > 1}
    assert several == {each["metadata"]["name"] for each in resources("PodDisruptionBudget")}
    assert several == {"counterfoil-web", "counterfoil-worker", "counterfoil-sequencer"}


def test_sequencers_on_several_nodes_share_no_file_as_signer_state():
    """SQLite is for the processes of one host."""
    [told] = [each["data"] for each in resources("ConfigMap") if "COUNTERFOIL_SIGNER_STATE" in each["data"]]
    assert told["COUNTERFOIL_SIGNER_STATE"].startswith("postgresql://")
    [rule] = pods()["sequencer"].spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_workers_are_scaled_by_the_readings_that_are_overdue():
    metrics = {
        each["spec"]["scaleTargetRef"]["name"]: [metric["type"] for metric in each["spec"]["metrics"]]
        for each in resources("HorizontalPodAutoscaler")
    }
    assert metrics == {"counterfoil-web": ["Resource"], "counterfoil-worker": ["External"]}


def test_nothing_connects_but_what_is_allowed_by_name():
    allowed: dict[str, set[int]] = {name: set() for name in pods()}
    closed: set[str] = set()
    for each in resources("NetworkPolicy"):
        spec, own = each["spec"], each["metadata"]["namespace"] == "counterfoil-witness"
        meant = {name for name in selected(spec["podSelector"]) if (name == "witness") == own}
        closed |= meant if spec["policyTypes"] == ["Ingress", "Egress"] else set()
        for rule in spec.get("egress", ()):
            assert rule["to"], each["metadata"]["name"]
            for name in meant:
                allowed[name] |= {port["port"] for port in rule["ports"]} - {53}
    assert closed == set(pods())
    assert allowed == {name: CONNECTIONS.get(name, {DATABASE}) for name in pods()}
    open_to = {
        name
        for each in resources("NetworkPolicy")
        if "ingress" in each["spec"]
        for name in selected(each["spec"]["podSelector"])
        if (name == "witness") == (each["metadata"]["namespace"] == "counterfoil-witness")
    }
    assert open_to == {"web", "witness"}


def test_each_web_process_has_a_port_for_figures_that_monitoring_alone_may_reach():
    container = pods()["web"].container
    line = words(container, {"PROXY_ADDRESSES": ""})
    settings = {each["name"]: each.get("value") for each in container["env"]}
    first, processes = int(settings["COUNTERFOIL_METRICS_PORT"]), int(line[line.index("--workers") + 1])
    ports = {each["containerPort"]: each["name"] for each in container["ports"] if each["name"] != "http"}
    assert list(ports) == list(range(first, first + processes))
    [to_web] = [each["spec"] for each in resources("NetworkPolicy") if each["metadata"]["name"] == "counterfoil-to-web"]
    reached = {
        each["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]: {
            port["port"] for port in each["ports"]
        }
        for each in to_web["ingress"]
    }
    assert reached == {"ingress-nginx": {"http"}, "monitoring": set(ports.values())}


@pytest.mark.parametrize(
    "name", ["web", "worker", "bulk", "beat", "sequencer", "eraser", "prepare", "partitions", "witness"]
)
def test_a_manifest_and_a_unit_run_the_same_command(name: str):
    container = pods()[name].container
    unit = dict(lines_of(UNITS / f"counterfoil-{name}.service"))
    assert without_addresses(words(container, {"PROXY_ADDRESSES": "", "WITNESS_NAME": ""})) == without_addresses(
        unit["ExecStart"].split()
    )
    if pods()[name].kind == "Deployment":
        assert pods()[name].spec["terminationGracePeriodSeconds"] == float(unit["TimeoutStopSec"]) + pause_s(
            pods()[name]
        )


def pause_s(pod: Pod) -> float:
    """How long a pod goes on before it is told to end, so that nobody sends it anything more."""
    hook = pod.container.get("lifecycle", {}).get("preStop")
    return float(hook["exec"]["command"][1]) if hook else 0.0
