"""The distribution as a stranger gets it: built, installed in an empty environment, and started without a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from console.local.installation import ROOT
from console.local.servers import free_port

UV = Path(sys.executable).with_name("uv")
COUNTERFOIL = Path(sys.executable).with_name("counterfoil")
BUILT = (".", "client", "client/example", "tlog")
"""The distributions of this repository that `counterfoil` needs, itself among them."""


def run_uv(*words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    ran = subprocess.run([UV, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for project in BUILT:
        run_uv("build", "--quiet", "--wheel", "--out-dir", str(folder), project)
    return folder


def test_counterfoil_alone_lists_its_commands_and_makes_no_folder(tmp_path):
    ran = subprocess.run([COUNTERFOIL], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.findall(r"^  (\w+) ", ran.stdout, re.MULTILINE) == ["demo", "up"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_wheel_has_every_file_of_the_packages_the_templates_and_the_guides(wheels):
    (wheel,) = wheels.glob("counterfoil-*.whl")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = {
        re.sub("^(templates|docs)/", r"console/files/\1/", each)
        for each in tracked.splitlines()
        if re.match(r"(approvals|console|ledger|reviews|templates)/|docs/[^/]+\.md$", each)
    }
    assert len(wanted) > 1000
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wanted - names == set()
    assert {name for name in names - wanted if ".dist-info/" not in name} == set()


@pytest.mark.long
def test_a_stranger_comes_from_an_empty_environment_to_the_caught_lie(wheels, tmp_path, run, capsys):
    """From a filled cache; `run` lends the place of a folder that the servers' user may reach."""
    locked = tmp_path / "locked.txt"
    locked.write_text(run_uv("export", "--quiet", "--frozen", "--no-default-groups", "--no-emit-local", "--no-hashes"))
    options = ("--quiet", "--find-links", str(wheels), "--constraint", str(locked))
    run_uv("venv", "--quiet", "--python", sys.executable, str(tmp_path / "filling"))
    run_uv("pip", "install", *options, "--python", str(tmp_path / "filling"), "counterfoil")
    began = time.monotonic()
    run_uv("venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    run_uv("pip", "install", *options, "--offline", "--python", str(tmp_path / "venv"), "counterfoil")
    installed = time.monotonic()
    folder = run.folder / f"demo-{free_port()}"
    ran = subprocess.run(
        [tmp_path / "venv/bin/counterfoil", "--folder", folder, "demo", "--port", str(free_port())],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
    )
    ended = time.monotonic()
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert re.findall(r"^\d\. .*", ran.stdout, re.MULTILINE)[2:] == [
        "3. The executor ran it and reported: success.",
        "4. The console read the shop's database itself, and the report was not true.",
    ]
    assert ran.stdout.rstrip().endswith("Stopped.")
    assert not (folder / "run" / "children.json").exists()
    size = sum(file.stat().st_size for file in (tmp_path / "venv").rglob("*") if not file.is_symlink())
    figures = f"installed in {installed - began:.1f} s ({size / 1e6:.0f} MB), run in {ended - installed:.1f} s"
    with capsys.disabled():
        sys.stdout.write(f"\ncounterfoil demo: {figures}, {ended - began:.1f} s in all\n")
