"""The figures for a monitor are in Prometheus' text form, for its own library, and for promtool where it is there."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api_tenant import Workshop


def exposed(shop: Workshop) -> str:
    shop.propose()
    text: str = shop.operator_key.get("/metrics").content.decode()
    return text


@pytest.mark.req("R-MT-10")
def test_every_family_appears_once_with_its_meaning_and_its_type(shop: Workshop):
    text = exposed(shop)
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert names
    assert len(names) == len(set(names))
    assert all(family.type == "gauge" and len(family.documentation) > 10 for family in families)
    assert all(family.name.startswith("counterfoil_") for family in families)
    said = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")]
    assert sorted(said) == sorted(names)
    samples = [(sample.name, tuple(sorted(sample.labels.items()))) for family in families for sample in family.samples]
    assert len(samples) == len(set(samples))


def test_promtool_reports_no_problems(shop: Workshop):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=exposed(shop), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
