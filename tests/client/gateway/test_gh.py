"""Real gh through the gateway, set up by `counterfoil-agents onboard`, to a small forge that is no GitHub."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from console.local.servers import free_port
from tests.client.gateway.conftest import CREDENTIAL, LONG_S, new_gateway, register_system
from tests.peers.support.environment import debian_program
from tests.support.outside import forge as forges
from tests.support.outside import git_server
from tests.support.outside.git_server import GitServer


@pytest.fixture(scope="module")
def forge(house, tmp_path_factory):
    root, work = tmp_path_factory.mktemp("forge"), tmp_path_factory.mktemp("work")
    with forges.served(root) as server:
        bare = root / "team/app.git"
        bare.mkdir(parents=True)
        git_server.git(bare, "init", "-q", "--bare", "-b", "main")
        git_server.git(work, "clone", "-q", str(bare), ".")
        for branch in ("main", "better"):
            git_server.commit(work, branch)
            git_server.git(work, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        for number in (7, 8):
            server.head = server.pull("team/app", number, "better")
        register_system(house, "forge", {"url": server.url, "token": server.token})
        yield server


@pytest.fixture(scope="module")
def gateway(house, forge, tmp_path_factory):
    """The gateway over TLS, with a port of the forge's own."""
    folder = tmp_path_factory.mktemp("gh")
    host = {"reader": "rules", "rules": "github", "url": forge.url, "scheme": "bearer"}
    host["credential_file"] = str(folder / "forge.credential")
    with new_gateway(house, GitServer("", folder), folder, "gh-user", {"hosts.github": host}) as made:
        made.settings["gateway"]["tls_names"] = ["localhost"]
        made.settings["hosts.github"]["listen"] = f"127.0.0.1:{free_port()}"
        made.url, made.verify = f"https://localhost:{made.port}", False
        (folder / "ca.pem").write_bytes(made.program("ca").stdout)
        yield made.start(hold_s=1.0)


@pytest.fixture
def gh(gateway, tmp_path):
    """gh as the agent's user runs it after `onboard`, with the variables that it named."""
    program = debian_program("gh", "usr/bin/gh")
    (tmp_path / "token").write_text(gateway.token)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("GH_", "GITHUB_"))}
    told = plain | {"HOME": str(tmp_path), "GH_PROMPT_DISABLED": "1", "NO_PROXY": "*"}
    words = ["onboard", "--gateway", gateway.url, "--token", str(tmp_path / "token")]
    ran = subprocess.run(
        [sys.executable, "-m", "counterfoil.coding_agents", *words, "--ca", str(gateway.folder / "ca.pem")],
        env=told,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    line = re.search(r"gh: start the agent with GH_HOST=(\S+) and SSL_CERT_FILE=(\S+)", ran.stdout)
    told |= {"GH_HOST": line[1], "SSL_CERT_FILE": line[2]}

    def run(*words):
        return subprocess.run([program, *words], cwd=tmp_path, env=told, capture_output=True, text=True, timeout=LONG_S)

    run.repository = f"{line[1]}/team/app"
    return run


def test_a_merge_by_gh_waits_is_made_once_after_approval_and_reads_pass(gh, gateway, forge, house):
    words = ("pr", "merge", "7", "--squash", "-R", gh.repository, "--match-head-commit", forge.head)
    waits = gh(*words)
    assert waits.returncode == 1, waits.stdout + waits.stderr
    assert "Counterfoil: waits for approval, send it again later: " in waits.stderr, waits.stderr
    (held,) = (each for each in gateway.held if each.tool == "github.merge_pull_request")
    assert (held.tool, held.arguments["head_commit"]) == ("github.merge_pull_request", forge.head)
    assert "merged_as" not in forge.pulls["team/app", 7]
    house.approve()
    done = gh(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert forge.pulls["team/app", 7]["merged_as"] == forge.git("team/app", "rev-parse", "refs/heads/main")
    assert gh("api", "repos/team/app/pulls/8", "--jq", ".state").stdout == "open\n"
    assert CREDENTIAL not in done.stdout + done.stderr + waits.stderr


def test_a_change_by_gh_api_waits_and_one_without_a_rule_is_refused(gh, gateway, forge, house):
    ref = ("api", "repos/team/app/git/refs", "-f", "ref=refs/heads/made", "-f", f"sha={forge.head}")
    waits = gh(*ref)
    assert (waits.returncode, "waits for approval" in waits.stderr) == (1, True), waits.stderr
    assert "(HTTP 409)" in waits.stderr
    house.approve()
    done = gh(*ref, "--jq", ".ref")
    assert (done.returncode, done.stdout) == (0, "refs/heads/made\n"), done.stderr
    blind = gh("pr", "merge", "8", "--squash", "-R", gh.repository)
    assert (blind.returncode, "the field /expectedHeadOid is missing" in blind.stderr) == (1, True), blind.stderr
    refused = gh("api", "-X", "DELETE", "repos/team/app")
    assert "refused because no rule names it (HTTP 403)" in refused.stderr
