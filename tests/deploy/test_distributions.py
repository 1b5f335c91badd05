"""The console without the distributions that it does not need."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import NEEDS

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = sorted(
    file for pattern in ("*", "client/*", "client/*/*") for file in ROOT.glob(f"{pattern}/pyproject.toml")
)
START = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # an import of it fails, as where it is not installed
import django
django.setup()
import console.asgi, console.beat, console.celery, console.tasks
from django.core.management import call_command, get_commands, load_command_class
from django.urls import get_resolver
call_command("check")
for name, app in get_commands().items():
    if not app.startswith("django."):
        load_command_class(app, name)
print(len(get_resolver().reverse_dict))
"""


def test_the_console_starts_without_them():
    """Its pages, its API, its commands, workers and beat; none of them is in the tree of what it imports."""
    ran = subprocess.run(
        [sys.executable, "-c", START, *NEEDS, "counterfoil", "example"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "tests.offline"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout.split()[-1]) > 200


def test_only_the_tests_of_a_distribution_import_it():
    """The others pass where it is not installed, and these are then left out."""
    wrong = []
    for name, folders in NEEDS.items():
        own = [ROOT / "tests" / folder for folder in folders]
        theirs = (name, *(f"tests.{folder.replace('/', '.')}" for folder in folders))
        for file in (ROOT / "tests").rglob("*.py"):
            text = file.read_text()
            # Parsing them all takes seconds.
            if any(folder in file.parents for folder in own) or not any(each in text for each in theirs):
                continue
            for node in ast.walk(ast.parse(text)):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
                wrong += [
                    f"{file}: {each}" for each in modules if f"{each}.".startswith(tuple(f"{t}." for t in theirs))
                ]
    assert wrong == []


@pytest.mark.parametrize("project", PROJECTS, ids=lambda file: file.parent.name)
def test_each_distribution_has_a_readme_whose_links_lead_somewhere_and_programs_that_load(project: Path):
    declared = tomllib.loads(project.read_text())["project"]
    links = re.findall(r"\]\((?!http)([^)#]+)", (project.parent / declared["readme"]).read_text())
    assert [link for link in links if not (project.parent / link).exists()] == []
    # `make test-plugins` installs a plug-in beside the program that it is for, and loads it there.
    programs = {} if "plugins" in project.parts else declared.get("scripts", {})
    for place in programs.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))


def test_every_file_of_the_client_is_in_one_distribution():
    """The client's own leaves out the folders that are others', and each of those has its own project."""
    wheel = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {file.parent.relative_to(ROOT) for file in PROJECTS}
    apart = {each.relative_to("client").as_posix() for each in folders if each.is_relative_to("client/counterfoil")}
    assert set(wheel["exclude"]) == apart


def test_every_distribution_the_lock_file_and_the_changelog_have_one_version():
    """`make version` sets it."""
    declared = [tomllib.loads(file.read_text())["project"] for file in (ROOT / "pyproject.toml", *PROJECTS)]
    one = declared[0]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", one)
    assert {each["name"]: each["version"] for each in declared} == {each["name"]: one for each in declared}
    locked = {each["name"]: each.get("version") for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    ours = {name: version for name, version in locked.items() if name.partition("-")[0] == "counterfoil"}
    assert len(ours) == 10
    assert set(ours.values()) == {one}
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1].split(" ")[0] in ("Unreleased", one)
