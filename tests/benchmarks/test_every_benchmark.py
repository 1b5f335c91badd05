"""Every benchmark still goes through, at a size that measures nothing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from benchmarks.__main__ import NAMES
from console.local.installation import ROOT

# What a benchmark measures against is installed by `make bench` alone.
PEERS = {"ledger": "auditlog", "approvals": "dbos"}


def run(name: str) -> None:
    ours = ("DATABASE", "KEYS_DATABASE", "REDIS", "COUNTERFOIL", "DJANGO")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--tiny", "--rounds", "1", name],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert f"{name} …" in ran.stdout, ran.stdout
    assert "| figure | ratio" in ran.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PEERS])
def test_a_benchmark_passes(name: str):
    run(name)


@pytest.mark.long
@pytest.mark.parametrize("name", PEERS)
def test_a_benchmark_against_peers_passes(name: str):
    if importlib.util.find_spec(PEERS[name]) is None:
        pytest.skip(f"{name} needs its peers: `make bench` installs them")
    run(name)
