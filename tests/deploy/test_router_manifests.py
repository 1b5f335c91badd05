"""The manifests of the router: Kubernetes takes them, and they run what the units run, which another test starts."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.manifests import needs_kubectl, printed
from tests.deploy.units import UNITS, lines_of

pytestmark = needs_kubectl
FOLDER = "deploy/kubernetes/router"


@pytest.mark.parametrize("kubernetes", ["1.30", "1.37"])
def test_kubernetes_accepts_every_resource(kubernetes: str):
    for each in printed(FOLDER):
        kubernetes_validate.validate(each, kubernetes, strict=True)


def pod() -> dict[str, Any]:
    [found] = [each for each in printed(FOLDER) if each["kind"] == "Deployment"]
    return dict(found["spec"]["template"]["spec"])


def line_of_unit(name: str) -> list[str]:
    """The words of a unit, with the places of a pod in place of those of a host."""
    text = dict(lines_of(UNITS / f"counterfoil-{name}.service"))["ExecStart"]
    places = {"/var/lib/counterfoil-router": "/router", "/etc/counterfoil/router": "/tls/tls"}
    programs = {"/opt/counterfoil/.venv/bin/python": "python", "/usr/local/bin/envoy": "envoy"}
    for here, there in {**places, **programs}.items():
        text = text.replace(here, there)
    return text.split()


def test_the_pod_runs_what_the_units_run():
    containers = {each["name"]: each for each in (*pod()["initContainers"], *pod()["containers"])}
    assert containers["router"]["command"] == line_of_unit("router")
    assert containers["routes"]["command"] == containers["first-routes"]["command"] == line_of_unit("routes")
    assert (containers["first-routes"]["args"], containers["routes"]["args"]) == (
        ["--once"],
        ["--status-address", "0.0.0.0"],
    )
    stop_s = dict(lines_of(UNITS / "counterfoil-router.service"))["TimeoutStopSec"]
    assert pod()["terminationGracePeriodSeconds"] == float(stop_s) + 5


def test_the_pod_has_no_more_rights_than_an_ordinary_process_and_no_secret_of_a_cell():
    spec = pod()
    assert spec["securityContext"]["runAsNonRoot"]
    for each in (*spec["initContainers"], *spec["containers"]):
        context = each["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"] == {"drop": ["ALL"]}
    named = {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    assert named == {"counterfoil-router-tls", "counterfoil-directory"}
