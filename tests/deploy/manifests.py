"""The manifests of deploy/kubernetes as kubectl prints them, and their containers as processes of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.local.installation import ROOT

FOLDERS = ("deploy/kubernetes", "deploy/kubernetes/witness")
PROGRAMS = Path(sys.executable).parent
KUBECTL = shutil.which("kubectl", path=PROGRAMS) or shutil.which("kubectl")
Resource = dict[str, Any]

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed (it comes with `make install`)")


def kustomized(folder: Path) -> tuple[Resource, ...]:
    """What `kubectl kustomize` makes of a folder; nothing where there is no kubectl."""
    if KUBECTL is None:
        return ()
    done = subprocess.run([KUBECTL, "kustomize", folder], check=True, capture_output=True, text=True)
    return tuple(yaml.safe_load_all(done.stdout))


@cache
def printed(folder: str) -> tuple[Resource, ...]:
    """The same for a folder of this checkout, once."""
    return kustomized(ROOT / folder)


def resources(*kinds: str) -> Iterator[Resource]:
    """Those of some kinds, or all."""
    for folder in FOLDERS:
        yield from (each for each in printed(folder) if not kinds or each["kind"] in kinds)


@dataclass(frozen=True)
class Pod:
    """What a deployment, a job or a scheduled job runs."""

    component: str
    kind: str
    replicas: int | None
    labels: dict[str, str]
    spec: Resource

    @property
    def container(self) -> Resource:
        [only] = self.spec["containers"]
        return dict(only)

    @property
    def containers(self) -> list[Resource]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def volumes(self) -> dict[str, Resource]:
        return {each["name"]: each for each in self.spec["volumes"]}

    def secrets(self) -> set[str]:
        """The Secrets that it sees, as files or in its environment."""
        names = set()
        for volume in self.volumes.values():
            sources = volume.get("projected", {}).get("sources", ())
            names |= {each["secret"]["name"] for each in sources}
            names |= {volume["secret"]["secretName"]} if "secret" in volume else set()
        return names | {name for container in self.containers for name, _ in secret_variables(container).values()}


def secret_variables(container: Resource) -> dict[str, tuple[str, str]]:
    """The variables of a container that come from a Secret: its name and key."""
    named = {each["name"]: each.get("valueFrom", {}).get("secretKeyRef") for each in container.get("env", ())}
    return {name: (secret["name"], secret["key"]) for name, secret in named.items() if secret}


@cache
def pods() -> dict[str, Pod]:
    """Every pod by its component."""
    found = {}
    for each in resources("Deployment", "Job", "CronJob"):
        spec = each["spec"]["jobTemplate"]["spec"] if each["kind"] == "CronJob" else each["spec"]
        labels = spec["template"]["metadata"]["labels"]
        component = labels["app.kubernetes.io/component"]
        found[component] = Pod(component, each["kind"], spec.get("replicas"), labels, spec["template"]["spec"])
    return found


def environment(container: Resource, secrets: dict[str, dict[str, str]]) -> dict[str, str]:
    """The variables of a container, from the manifests and these Secrets."""
    maps = {each["metadata"]["name"]: each["data"] for each in resources("ConfigMap")}
    told: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        told |= maps[source["configMapRef"]["name"]]
    told |= {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
    known = {name: secrets[secret].get(key) for name, (secret, key) in secret_variables(container).items()}
    return told | {name: value for name, value in known.items() if value is not None}


def words(container: Resource, told: dict[str, str]) -> list[str]:
    """The command line of a container, with its variables in place."""
    line = [*container["command"], *container.get("args", ())]
    return [re.sub(r"\$\((\w+)\)", lambda found: told[found[1]], word) for word in line]
