"""README's five lines to a push that waits, carried out as they stand, with the settings of docs/gateway.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from console.local.processes import wait_until
from console.local.servers import free_port
from ledger.key_files import write_private
from tests.client.gateway.conftest import CREDENTIAL, LONG_S, REPOSITORY, new_repository
from tests.mcp.conftest import toml
from tests.support.outside import git_server

ROOT = Path(__file__).resolve().parents[3]


def block_after(file, heading, kind):
    """The first block of a kind after a heading of a guide."""
    text = (ROOT / file).read_text()
    return re.search(rf"```{kind}\n(.*?)```", text[text.index(heading) :], re.S)[1]


@pytest.fixture
def place(house, host, tmp_path):
    """A clone with a rewritten commit, in it the settings of the guide with this test's places; the gateway's port."""
    new_repository(host)
    work = tmp_path / "app"
    git_server.git(tmp_path, "clone", "-q", str(host.root / REPOSITORY), str(work))
    git_server.commit(work, "another history", "--amend")
    keys = house.known["keys"]
    for name, content in {"agent": keys["agent"], "executor": keys["exec"], "forge": CREDENTIAL}.items():
        write_private(tmp_path / name, content + "\n")
    port = free_port()
    settings = tomllib.loads(block_after("docs/gateway.md", "`/etc/counterfoil/gateway.toml`", "toml"))
    settings["console"] |= {"url": house.stack.url, "agent_key_file": str(tmp_path / "agent")}
    settings["console"]["executor_key_file"] = str(tmp_path / "executor")
    settings["gateway"] |= {"state": str(tmp_path / "state"), "pages": f"{house.stack.url}/t/{house.tenant}"}
    settings["gateway"] |= {"agents_run_as": "nobody", "listen": f"127.0.0.1:{port}", "hold_s": 1}
    settings["hosts"]["forge"] |= {"url": host.url, "credential_file": str(tmp_path / "forge")}
    parts = {name: settings.pop(name) for name in ("console", "gateway")}
    for group, tables in settings.items():
        parts |= {f"{group}.{name}": each for name, each in tables.items()}
    (work / "gateway.toml").write_text(toml(parts))
    return work, port


class Terminal:
    """A shell into which a person types line by line."""

    def __init__(self, folder, **variables):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=os.environ | git_server.QUIET | {"PATH": path, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.shown = ""
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.shell.stdout:
            self.shown += line

    def close(self):
        """End what was started in it, and the shell."""
        with self.shell:
            self.shell.communicate("kill %1; wait\n", timeout=LONG_S)
        self.reader.join(LONG_S)

    def type(self, line, *, until):
        """Type a line, and wait for what a person would wait for; what it showed."""
        before = len(self.shown)
        self.shell.stdin.write(line + "\n")
        self.shell.stdin.flush()
        assert wait_until(lambda: until in self.shown[before:], within_s=LONG_S), self.shown
        return self.shown[before:]


def test_the_five_lines_of_the_readme_lead_to_a_push_that_waits(place, host, house):
    work, port = place
    lines = block_after("README.md", "## A push that waits, in five lines", "sh").strip().splitlines()
    assert len(lines) == 5
    before = host.ref(REPOSITORY, "refs/heads/main")
    terminal = Terminal(work, COUNTERFOIL_OPERATOR_KEY=house.known["keys"]["oper"])
    try:
        for line in lines:
            # The port alone is another one: others run tests on this machine, too.
            typed = line.replace(":8611/", f":{port}/")
            if line.partition("#")[0].rstrip().endswith("&"):
                terminal.type(typed, until=f"listening on 127.0.0.1:{port}")
            else:
                shown = terminal.type(f"{typed}\necho ended with $?.", until="ended with ")
        assert "waits for approval, push again later: http" in shown
        assert "ended with 1." in shown
        assert host.ref(REPOSITORY, "refs/heads/main") == before
    finally:
        terminal.close()
