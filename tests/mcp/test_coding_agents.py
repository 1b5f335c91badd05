"""A coding agent whose hooks ask a real console before it pushes to a real git server, which is read back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from console.local.keys import write_private
from tests.mcp.house import TENANT, House, opened
from tests.support.outside import git_server, package_server
from tests.support.outside.git_server import QUIET, GitServer, commit, git
from tests.support.outside.package_server import PackageServer, make_sdist

MODULE = [sys.executable, "-m", "counterfoil.coding_agents"]
DONE = "Done, and confirmed in the system of record."


@dataclass
class Desk:
    """A machine with a coding agent, a console, a git server and a package index; each test has a repository and a
    session of its own.
    """

    house: House
    server: GitServer
    home: Path
    index: PackageServer
    keys: dict[str, str] = field(default_factory=dict)
    repository: str = ""
    work: Path = Path()

    def agents(self, *words: str) -> str:
        """Run `counterfoil-agents`; what it says."""
        ran = subprocess.run([*MODULE, *words], env=self.environment, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | QUIET | self.keys | {"HOME": str(self.home), "XDG_STATE_HOME": ""}

    def hook(self, event: str, command: str, **more: Any) -> dict[str, Any]:
        """What the client hears from the hook that stands in its own settings."""
        settings = json.loads((self.home / ".claude/settings.json").read_text())
        (entry,) = settings["hooks"][event]
        payload = {
            "session_id": self.repository,
            "transcript_path": "/dev/null",
            "cwd": str(self.work),
            "permission_mode": "default",
            "hook_event_name": event,
            "tool_name": "Bash",
            "tool_input": {"command": command, "description": "Push"},
            "tool_use_id": f"toolu_{self.repository}_{command}",
        } | more
        ran = subprocess.run(
            entry["hooks"][0]["command"],
            shell=True,
            input=json.dumps(payload),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        return json.loads(ran.stdout)["hookSpecificOutput"] if ran.stdout else {}

    def before(self, command: str) -> tuple[str, str]:
        found = self.hook("PreToolUse", command)
        return found.get("permissionDecision", ""), found.get("permissionDecisionReason", "")

    def after(self, command: str) -> str:
        answer = {"stdout": "", "stderr": "To the server", "interrupted": False}
        return str(self.hook("PostToolUse", command, tool_response=answer).get("additionalContext", ""))

    def served_ref(self, ref: str = "refs/heads/main") -> str:
        """What the server's own repository holds."""
        return self.server.ref(self.repository, ref)

    def newest(self) -> dict[str, Any]:
        return dict(self.house.operator.items("/actions", limit="1")[0])

    def ended(self) -> str:
        """The state of the newest action, once it moves no more."""
        until = time.monotonic() + 60
        while (state := self.newest()["state"]) in ("EXECUTING", "ACCEPTED", "PENDING", "COMMITTED", "UNKNOWN"):
            assert time.monotonic() < until, state
            time.sleep(0.3)
        return str(state)


@pytest.fixture(scope="module")
def machine(template, run, tmp_path_factory) -> Iterator[Desk]:
    root = tmp_path_factory.mktemp("machine")
    for name in ("served", "packages", "home", "home/.claude", "house"):
        (root / name).mkdir()
    with (
        git_server.served(root / "served") as server,
        package_server.served(root / "packages") as index,
        opened(run, root / "house") as house,
    ):
        desk = Desk(house, server, root / "home", index)
        secrets = Path(house.stack.environment["COUNTERFOIL_SECRETS_DIR"]) / "systems" / TENANT
        secrets.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(secrets / "git.json", json.dumps({"url": server.url}))
        write_private(secrets / "packages.json", json.dumps({"url": index.simple}))
        for name, url in (("git", server.url), ("packages", index.simple)):
            body = {"name": name, "pattern": name, "settings": {"url": url}}
            assert house.operator.post("/systems", body).status_code == 201
        known = {"AGENT": "agent", "EXECUTOR": "exec", "OPERATOR": "oper"}
        desk.keys = {f"COUNTERFOIL_{name}_KEY": house.known["keys"][kind] for name, kind in known.items()}
        assert "Claude Code: no hook of ours" in desk.agents("discover")
        said = desk.agents("onboard", "claude-code", "--enforce", "--url", house.stack.url, "--hold", "1")
        assert "contract git_force_push: registered" in said
        assert "what the gate stops is held until people approve." in said
        del desk.keys["COUNTERFOIL_OPERATOR_KEY"]
        yield desk


@pytest.fixture
def desk(machine: Desk, tmp_path: Path) -> Desk:
    repository = f"team/{uuid4().hex[:8]}.git"
    machine.server.repository(repository)
    return replace(machine, repository=repository, work=machine.server.clone(repository, tmp_path / "app"))


def test_the_console_is_asked_the_whole_way(machine):
    assert machine.agents("status") == f"Claude Code: enforce, hook in place, {machine.house.stack.url} answers\n"
    said = machine.agents("validate", "--live")
    session = said.split("in session ")[1].split(":")[0]
    assert said.endswith("it would pass\n"), said
    assert machine.house.operator.get(f"/sessions/{session}")["agent_id"] == "claude-code"


def test_a_push_that_nothing_holds_back_runs_and_is_read_back(desk):
    wanted = commit(desk.work, "second")
    assert desk.before("git push origin HEAD:main") == ("", "")
    git(desk.work, "push", "-q", "origin", "HEAD:main")
    said = desk.after("git push origin HEAD:main")
    assert said == f"Counterfoil, action {desk.newest()['action_id']}: {DONE}"
    assert desk.newest()["state"] == "RECONCILED_SUCCESS"
    assert desk.served_ref() == wanted


def test_a_forced_push_waits_for_a_person_and_goes_on_when_it_is_sent_again(desk):
    command = "git push --force origin HEAD:main"
    wanted = commit(desk.work, "another history", "--amend")
    decision, said = desk.before(command)
    action_id = desk.newest()["action_id"]
    assert decision == "deny"
    assert said == (
        f"Not run yet: people must approve it first (action {action_id}). Nothing was changed. "
        "Send the same command again later; it goes on with this request."
    )
    assert desk.before(command) == (decision, said)
    desk.house.approve()
    assert desk.before(command) == ("allow", "Approved at the console.")
    git(desk.work, "push", "-q", "--force", "origin", "HEAD:main")
    assert DONE in (told := desk.after(command)), told
    assert desk.served_ref() == wanted
    assert (desk.newest()["action_id"], desk.ended()) == (action_id, "RECONCILED_SUCCESS")


def test_a_file_is_published_only_after_people_approved_it_and_is_read_back_from_the_index(desk):
    project = f"app{uuid4().hex[:8]}"
    file = make_sdist(desk.work, project, "1.0")
    command = f"twine upload --repository-url {desk.index.url} {file.name}"
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run yet: people must approve it first"), said
    desk.house.approve()
    assert desk.before(command) == ("allow", "Approved at the console.")
    assert desk.index.publish(file).returncode == 0
    told = desk.after(command)
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


def test_a_rejected_push_never_runs(desk):
    command = "git push origin --delete main"
    assert desk.before(command)[0] == "deny"
    desk.house.decide("reject", "The branch is needed.")
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run. Rejected"), said
    assert desk.served_ref()


def test_a_push_that_only_says_that_it_is_done_is_not_told_as_done(desk):
    """The client says success; the ref stays where it was."""
    before = desk.served_ref()
    commit(desk.work, "never pushed")
    assert desk.before("git push origin HEAD:main") == ("", "")
    said = desk.after("git push origin HEAD:main")
    assert DONE not in said, said
    assert said.startswith("Counterfoil, action ")
    assert desk.served_ref() == before
    assert desk.ended() != "RECONCILED_SUCCESS"


def test_after_a_rejected_push_another_is_refused_until_it_is_sent_again_in_full_knowledge(desk):
    assert desk.before("git push origin --delete main")[0] == "deny"
    desk.house.decide("reject", "The branch is needed.")
    assert desk.before("git push origin --delete main")[0] == "deny"
    commit(desk.work, "afterwards")
    decision, said = desk.before("git push origin HEAD:main")
    assert decision == "deny"
    assert "A step of this run has failed" in said
    assert said.endswith("send the same command again: that is put on record.")
    assert desk.before("git push origin HEAD:main") == ("", "")


def test_offboarding_leaves_the_clients_file_as_it_was(machine, tmp_path):
    (tmp_path / ".claude").mkdir()
    other = replace(machine, home=tmp_path)
    other.agents("onboard", "claude-code", "--shadow", "--url", machine.house.stack.url)
    assert (tmp_path / ".claude/settings.json").exists()
    assert "settings.json is removed; it was not there before." in other.agents("offboard", "claude-code")
    assert not (tmp_path / ".claude/settings.json").exists()
