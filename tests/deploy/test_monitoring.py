"""Alert rules, dashboard and runbooks name what is there: exposed families, codes of the product, and each other."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.local.installation import ROOT
from console.telemetry import health, monitoring
from ledger.log.operations.sequencer import LogDamaged
from ledger.log.rules import alarms
from ledger.log.rules.signing import HistoryForked, SignerStateMissing

FOLDER = ROOT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
PROMTOOL = shutil.which("promtool")
PARTS = ("Means.", "People see.", "Look.", "Mend.", "Call")
MOST_LINES = 16


def exposed_names() -> set[str]:
    """The name of every series that a process or the installation can show."""
    names = {f"{monitoring.PREFIX}check_in_order", *(f"{monitoring.PREFIX}{name}" for name in health.FIGURES)}
    for family in monitoring.process_registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {f"{family.name}{ending}" for ending in endings}
    return names


def named(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:counterfoil|process)_\w+", expression))


def sections() -> dict[str, str]:
    """Each runbook by its code."""
    _, *parts = re.split(r"^### ([A-Z_]+)$", RUNBOOKS, flags=re.MULTILINE)
    return {code: text.split("\n## ")[0].strip() for code, text in zip(parts[::2], parts[1::2], strict=True)}


def test_every_code_has_one_alert_and_one_runbook_in_the_same_order():
    codes = [rule["labels"]["code"] for rule in RULES]
    assert codes == list(sections())
    assert codes[: len(health.TITLES) + len(alarms.TITLES)] == [*health.TITLES, *alarms.TITLES]
    assert len(codes) == len(set(codes))


def test_every_runbook_says_the_five_things_on_one_screen():
    for code, text in sections().items():
        assert re.findall(r"^- \*\*([\w .]+?)\*\*", text, re.MULTILINE) == list(PARTS), code
        assert len(text.splitlines()) <= MOST_LINES, code


def test_every_alert_links_its_runbook_and_says_how_urgent_it_is():
    for rule in RULES:
        code = rule["labels"]["code"]
        assert rule["alert"] == "Counterfoil" + "".join(word.capitalize() for word in code.split("_"))
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{code.lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_kind_of_alarm_that_the_product_raises_is_listed():
    """A kind is a literal, a constant of the module, or the code of the refusal that stopped the log."""
    raised = {HistoryForked.code, SignerStateMissing.code, LogDamaged.code}
    for file in (file for app in ("ledger", "approvals", "reviews", "console") for file in (ROOT / app).rglob("*.py")):
        text = file.read_text()
        if "raise_alarm(" not in text:
            continue
        tree = ast.parse(text)
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute | ast.Name) and ast.unparse(call.func).endswith("raise_alarm"):
                for kind in (each.value for each in call.keywords if each.arg == "kind"):
                    raised |= {str(kind.value)} if isinstance(kind, ast.Constant) else set()
                    raised |= {str(constants[kind.id])} if isinstance(kind, ast.Name) else set()
    assert raised == set(alarms.TITLES)


def test_every_expression_of_an_alert_names_families_that_are_exposed():
    for rule in RULES:
        assert named(rule["expr"]), rule["alert"]
        assert named(rule["expr"]) <= exposed_names(), rule["alert"]


def test_every_expression_of_the_dashboard_names_families_that_are_exposed():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            assert named(target["expr"]), panel["title"]
            assert named(target["expr"]) <= exposed_names(), panel["title"]
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]


def test_every_figure_of_the_installation_is_on_the_dashboard_or_in_an_alert_and_in_the_guide():
    used = {name for rule in RULES for name in named(rule["expr"])}
    used |= {name for panel in DASHBOARD["panels"] for target in panel["targets"] for name in named(target["expr"])}
    guide = (ROOT / "docs" / "monitoring.md").read_text()
    for name, (label, meaning) in health.FIGURES.items():
        assert f"counterfoil_{name}" in used, name
        row = re.search(rf"^\| `counterfoil_{name}` \| (.*?) ?\| (.*) \|$", guide, re.MULTILINE)
        assert row, name
        assert row.groups() == (f"`{label}`" if label else "", meaning[0].lower() + meaning[1:]), name
    own = {
        name for name in exposed_names() if name.startswith("counterfoil_") and not name.endswith(("_sum", "_count"))
    }
    assert {name for name in own if name.removesuffix("_bucket") not in guide} == set()


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus)")
@pytest.mark.parametrize(
    "words",
    [("check", "config", "prometheus.yaml"), ("check", "rules", "alerts.yaml"), ("test", "rules", "alerts.test.yaml")],
)
def test_promtool_accepts_the_rules_and_their_tests(words: tuple[str, ...]):
    done = subprocess.run([str(PROMTOOL), *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus)")
def test_promtool_parses_every_expression_of_the_dashboard(tmp_path: Path):
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", "panels.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
