"""A coding agent whose hooks ask a real console before it pushes to a real git server, which is read back."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from psycopg.conninfo import conninfo_to_dict
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from console.local import servers
from counterfoil.coding_agents.clients import CLIENTS
from counterfoil.coding_agents.hooks import Hook, HookSettings, read_call
from counterfoil.connection import Connection
from counterfoil.executor import Executor
from ledger.key_files import write_private
from tests.mcp.house import House, opened
from tests.support.outside import api_server, forge, git_server, package_server, psql_user, terraform_folder
from tests.support.outside.api_server import ApiServer
from tests.support.outside.forge import Forge
from tests.support.outside.forking import agent_forks
from tests.support.outside.git_server import QUIET, GitServer, commit, git
from tests.support.outside.package_server import PackageServer, make_sdist
from tests.support.outside.psql_user import PsqlUser
from tests.web.actions.test_signed_receipts import outcome

MODULE = "counterfoil.coding_agents"
WORDS = [sys.executable, "-I", "-m", MODULE]
DONE = "Done, and confirmed in the system of record."


@dataclass
class Desk:
    """A machine with a coding agent, a console, a git server, a package index, a database, an API server, a place
    for states of terraform and a forge; each test has a repository and a session of its own.
    """

    house: House
    server: GitServer
    home: Path
    index: PackageServer
    psql: PsqlUser
    cluster: ApiServer
    states: dict[str, str]
    forge: Forge
    keys: dict[str, str] = field(default_factory=dict)
    repository: str = ""
    work: Path = Path()

    def agents(self, *words: str) -> str:
        """Run `counterfoil-agents`; what it says."""
        ran = self.run(*words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """`counterfoil-agents …` to its end; what loading it costs is not paid each time."""
        return agent_forks().run_module(MODULE, words, self.environment, given=given, timeout=120)

    @property
    def environment(self) -> dict[str, str]:
        return (
            os.environ
            | QUIET
            | self.keys
            | {
                "HOME": str(self.home),
                "XDG_STATE_HOME": "",
                "TMPDIR": str(self.home / "scratch"),
            }
        )

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
        words = shlex.split(entry["hooks"][0]["command"])
        assert words[: len(WORDS)] == WORDS
        ran = self.run(*words[len(WORDS) :], given=json.dumps(payload))
        assert (ran.returncode, ran.stderr) == (0, "")
        return json.loads(ran.stdout)["hookSpecificOutput"] if ran.stdout else {}

    def write(self, path: Path, content: str) -> dict[str, Any]:
        """What the client hears before its file tool writes a file."""
        given = {"file_path": str(path), "content": content}
        return self.hook("PreToolUse", "", tool_name="Write", tool_input=given, tool_use_id=f"toolu_{uuid4().hex}")

    def before(self, command: str) -> tuple[str, str]:
        found = self.hook("PreToolUse", command)
        return found.get("permissionDecision", ""), found.get("permissionDecisionReason", "")

    def after(self, command: str) -> str:
        answer = {"stdout": "", "stderr": "To the server", "interrupted": False}
        return str(self.hook("PostToolUse", command, tool_response=answer).get("additionalContext", ""))

    def served_ref(self, ref: str = "refs/heads/main") -> str:
        """What the server's own repository holds."""
        return self.server.ref(self.repository, ref)

    def session(self) -> dict[str, Any]:
        """The console's session for this client's own, as its hooks keep it."""
        folder = self.home / ".local/state/counterfoil/agents/claude-code/sessions"
        newest = max(folder.iterdir(), key=lambda each: each.stat().st_mtime)
        return dict(json.loads(newest.read_text()))

    def propose(self, session: dict[str, Any], tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the gate says to a call that a hook made in a session, and did not live to start."""
        state = self.home / ".local/state/counterfoil/agents/claude-code"
        key = HookSettings(**json.loads((state / "settings.json").read_text())).agent_key
        with closing(Connection(url=self.house.stack.url, key=key)) as console:
            call = {"call_id": uuid4().hex, "tool": tool, "arguments": arguments, "pin_hash": session["pin_hash"]}
            answer = console.write(f"/sessions/{session['session_id']}/calls", {"calls": [call]}, give_up_after_s=10.0)
        return dict(answer["results"][0])

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
def root() -> Iterator[Path]:
    """Not where pytest's folders may be: in memory, under /dev, where no write is judged."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def machine(template, run, root) -> Iterator[Desk]:
    for name in ("served", "packages", "home", "home/.claude", "home/scratch", "house"):
        (root / name).mkdir()
    database = run.postgres.url(servers.SUPERUSER, "postgres")
    with (
        git_server.served(root / "served") as server,
        package_server.served(root / "packages") as index,
        psql_user.opened(database, run.postgres.programs.postgres.parent) as psql,
        terraform_folder.schema_for_states(database, str(conninfo_to_dict(psql.reader)["user"])) as states,
        api_server.served() as cluster,
        forge.served(root / "served") as pulls,
        opened(run, root / "house") as house,
    ):
        desk = Desk(house, server, root / "home", index, psql, cluster, states, pulls)
        secrets = house.credentials
        write_private(secrets / "git.json", json.dumps({"url": server.url}))
        write_private(secrets / "packages.json", json.dumps({"url": index.simple}))
        for name, url in (("git", server.url), ("packages", index.simple)):
            body = {"name": name, "pattern": name, "settings": {"url": url}}
            assert house.operator.post("/systems", body).status_code == 201
        write_private(secrets / "postgresql.json", json.dumps({"url": psql.reader}))
        body = {"name": "postgresql", "pattern": "database_changes", "settings": {}}
        assert house.operator.post("/systems", body).status_code == 201
        write_private(secrets / "kubernetes.json", json.dumps({"url": cluster.url, "token": cluster.token}))
        body = {"name": "kubernetes", "pattern": "kubernetes", "settings": {"url": cluster.url}}
        assert house.operator.post("/systems", body).status_code == 201
        write_private(secrets / "terraform.json", json.dumps({"url": psql.reader}))
        write_private(secrets / "forge.json", json.dumps({"url": pulls.url, "token": pulls.token}))
        body = {"name": "forge", "pattern": "forge", "settings": {"url": pulls.url, "forge": forge.HOST}}
        assert house.operator.post("/systems", body).status_code == 201
        body = {"name": "terraform", "pattern": "terraform", "settings": {}}
        assert house.operator.post("/systems", body).status_code == 201
        house.system("files", Path("/"))
        known = {"AGENT": "agent", "EXECUTOR": "exec", "OPERATOR": "oper"}
        desk.keys = (
            {f"COUNTERFOIL_{name}_KEY": house.known["keys"][kind] for name, kind in known.items()}
            | psql.environment
            | states
        )
        desk.keys["KUBECONFIG"] = str(cluster.kubeconfig(root))
        desk.keys["PATH"] = f"{Path(sys.executable).parent}:{desk.keys['PATH']}"
        assert "Claude Code: no Counterfoil hook" in desk.agents("discover")
        said = desk.agents("onboard", "claude-code", "--enforce", "--url", house.stack.url, "--hold", "1")
        assert "contract git_force_push: registered" in said
        assert "calls that the gate stops are held until people approve." in said
        del desk.keys["COUNTERFOIL_OPERATOR_KEY"]
        yield desk


@pytest.fixture
def desk(machine: Desk, tmp_path: Path) -> Desk:
    repository = f"team/{uuid4().hex[:8]}.git"
    machine.server.repository(repository)
    return replace(machine, repository=repository, work=machine.server.clone(repository, tmp_path / "app"))


def test_status_and_validate_reach_the_console_with_the_installed_settings(machine):
    assert machine.agents("status") == f"Claude Code: enforce, hook installed, {machine.house.stack.url} answers\n"
    said = machine.agents("validate", "--live")
    session = said.split("in session ")[1].split(":")[0]
    assert said.endswith("it would pass\n"), said
    assert machine.house.operator.get(f"/sessions/{session}")["agent_id"] == "claude-code"


def test_a_push_that_needs_no_approval_runs_and_is_read_back(desk):
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
    receipt = receipt_that_others_accept(desk, action_id)
    assert receipt["subject"][0]["name"].startswith("git_force_push git/")
    said = receipt["predicate"]
    assert [(vote["verdict"], said["allowed"]["by"]) for vote in said["allowed"]["votes"]] == [("approve", "people")]
    assert [each["attempt"] for each in said["ran"]] == [1]
    assert said["shown"][0]["sources"][0]["source"] == "git"
    assert (said["ended"]["text"], said["ended"]["verified"]) == (DONE, True)


def test_a_hook_that_was_killed_after_it_proposed_finds_its_call_again_when_its_session_is_over(desk, monkeypatch):
    command = "git push --force origin HEAD:main"
    commit(desk.work, "another history", "--amend")
    state = desk.home / ".local/state/counterfoil/agents/claude-code"
    payload = {"session_id": desk.repository, "cwd": str(desk.work), "hook_event_name": "PreToolUse"}
    call = read_call("claude-code", payload | {"tool_name": "Bash", "tool_input": {"command": command}})
    keep = Hook._write

    class Killed(BaseException):
        """Nothing that the hook could handle."""

    def killed(self, kind, name, document):
        if kind == "held" and "action_id" in document:
            raise Killed
        keep(self, kind, name, document)

    with (
        monkeypatch.context() as patched,
        closing(Hook(HookSettings(**json.loads((state / "settings.json").read_text())), state)) as hook,
    ):
        for name, value in QUIET.items():
            patched.setenv(name, value)
        patched.setattr(Hook, "_write", killed)
        with pytest.raises(Killed):
            hook.before(call)
    action_id = desk.newest()["action_id"]
    for file in (state / "sessions").iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"until": 0}))
    assert f"people must approve it first (action {action_id})" in desk.before(command)[1]
    desk.house.decide("reject", "Not needed any more.")


def test_a_run_is_deferred_only_in_the_mode_in_which_the_client_would_deny_it(desk):
    """Elsewhere a `defer` that the client ignores would let the command run."""
    file = desk.home / ".local/state/counterfoil/agents/claude-code/settings.json"
    kept, command = file.read_text(), "git push --force origin HEAD:main"
    commit(desk.work, "another history", "--amend")
    file.write_text(json.dumps(json.loads(kept) | {"unattended": "defer"}))
    modes = ("default", "auto", "bypassPermissions", "dontAsk")
    answers = [desk.hook("PreToolUse", command, permission_mode=mode)["permissionDecision"] for mode in modes]
    file.write_text(kept)
    assert answers == ["deny", "deny", "deny", "defer"]
    desk.house.decide("reject", "Not needed any more.")


def receipt_that_others_accept(desk: Desk, action_id: str) -> dict[str, Any]:
    """The statement of an action's effect receipt, by in-toto's own libraries; and its signed receipts, by the check
    that the documents give to outsiders.
    """
    console = desk.house.operator
    keys = [
        SSlibKey(each["kid"], "ed25519", "ed25519", {"public": base64.urlsafe_b64decode(f"{each['x']}=").hex()})
        for each in console.http.get("/.well-known/jwks.json").json()["keys"]
    ]
    envelope = Envelope.from_dict(console.get(f"/actions/{action_id}/effect-receipt"))
    envelope.verify(keys, 1)
    Statement.copy_from_pb(json_format.Parse(envelope.payload, statement_pb2.Statement())).validate()
    published = console.http.get("/.well-known/acta-keys.json").json()["keys"]
    signed = console.get(f"/actions/{action_id}/signed-receipts")["receipts"]
    assert [outcome(each, published) for each in signed] == ["valid", "valid"]
    return dict(json.loads(envelope.payload))


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


def test_removed_rows_wait_for_people_and_are_read_back_from_the_database(desk):
    schema = desk.psql.schema
    command = f"psql -qc \"DELETE FROM {schema}.orders WHERE status = 'open' AND id < 3\""
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run yet: people must approve it first"), said
    assert desk.newest()["target"] == f"database/postgres/{schema}.orders"
    desk.house.approve()
    assert desk.before(command) == ("allow", "Approved at the console.")
    assert desk.psql.run("-qc", f"DELETE FROM {schema}.orders WHERE status = 'open' AND id < 3").returncode == 0
    told = desk.after(command)
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


def test_a_file_outside_the_project_is_written_after_people_approved_it_and_read_back_by_its_digest(desk):
    file = desk.home / "agent.conf"
    assert desk.write(desk.work / "inside.txt", "x") == {}
    said = desk.write(file, "color = true")
    assert said["permissionDecision"] == "deny"
    assert said["permissionDecisionReason"].startswith("Not run yet: people must approve it first"), said
    assert desk.newest()["target"] == f"file{file.resolve()}"
    desk.house.approve()
    allowed = desk.hook(
        "PreToolUse",
        "",
        tool_name="Write",
        tool_input={"file_path": str(file), "content": "color = true"},
        tool_use_id="toolu_conf",
    )
    assert allowed["permissionDecision"] == "allow"
    file.write_text("color = true")
    told = desk.hook(
        "PostToolUse",
        "",
        tool_name="Write",
        tool_input={"file_path": str(file), "content": "color = true"},
        tool_use_id="toolu_conf",
        tool_response={"filePath": str(file), "success": True},
    )["additionalContext"]
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


def test_a_file_that_changed_while_people_decided_is_not_let_through(desk):
    (desk.work / "new.conf").write_text("color = true")
    command = f"cp new.conf {desk.home}/changed.conf"
    assert desk.before(command)[0] == "deny"
    action_id = desk.newest()["action_id"]
    desk.house.approve()
    (desk.work / "new.conf").write_text("color = false")
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run yet: people must approve it first"), said
    assert desk.newest()["action_id"] != action_id
    assert desk.house.state(action_id) == "FAILED"
    desk.house.decide("reject", "Not needed any more.")


def test_a_file_that_changes_after_its_approval_cancels_the_action_on_record(desk, monkeypatch):
    """Between the proposal and the start, in one hook: what it looks at again is not what was approved."""
    (desk.work / "new.conf").write_text("color = true")
    command = f"cp new.conf {desk.home}/late.conf"
    folder = desk.home / ".local/state/counterfoil/agents/claude-code"
    settings = replace(HookSettings(**json.loads((folder / "settings.json").read_text())), hold_s=30.0)
    hook = Hook(settings, folder)
    monkeypatch.setenv("TMPDIR", desk.environment["TMPDIR"])
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": str(desk.work), "session_id": "late"}
    call = read_call("claude-code", given)
    assert call
    claim = hook._claim

    def claimed(*words: Any) -> Any:
        if not desk.house.reviewer.items("/approvals", state="REQUESTED"):
            return claim(*words)
        desk.house.approve()
        (desk.work / "new.conf").write_text("color = false")
        return claim(*words)

    monkeypatch.setattr(hook, "_claim", claimed)
    decision = hook.before(call)
    hook.close()
    action_id = desk.newest()["action_id"]
    assert not decision.allowed
    assert decision.text == (
        "Not run: a file, a ref or what it changes is not what was proposed any more, so action "
        f"{action_id} is cancelled. Nothing was changed. Send the command again to propose it as it is now."
    )
    assert desk.newest()["state"] == "FAILED"
    events = [event["event"] for event in desk.house.operator.items(f"/actions/{action_id}/history", limit="500")]
    assert "cancelled" in events
    assert "execution_started" not in events


def test_a_failed_push_is_reported_as_failed(desk):
    action_id = fail_a_push(desk, "git push origin HEAD:refs/heads/feature")
    shown = json.dumps(desk.house.operator.get(f"/actions/{action_id}"))
    assert ("COMMAND_FAILED" in shown, '"claimed_success": true' in shown) == (True, False), shown


def fail_a_push(desk: Desk, command: str) -> str:
    """Tell the hook that a push failed; its action."""
    commit(desk.work, "feature")
    assert desk.before(command) == ("", "")
    action_id = desk.newest()["action_id"]
    failure = {"error": "Exit code 1\nerror: failed to push some refs", "is_interrupt": False}
    told = desk.hook("PostToolUseFailure", command, **failure)
    assert told["hookEventName"] == "PostToolUseFailure"
    assert DONE not in told["additionalContext"]
    assert desk.newest()["state"] == "PENDING"
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Refused (DUPLICATE_BLOCKED). The same operation is already open."), said
    assert said.endswith(
        "What came of the earlier action is not settled: a command that failed may still arrive for some two minutes, "
        "in which the system is read. Send the same command again after that."
    )
    return action_id


@pytest.mark.long
def test_a_failed_push_can_be_tried_again_once_it_can_no_longer_arrive(desk):
    command = "git push origin HEAD:refs/heads/feature"
    action_id = fail_a_push(desk, command)
    until = time.monotonic() + 300
    while desk.before(command) != ("", ""):
        assert time.monotonic() < until
        time.sleep(10)
    assert (desk.house.state(action_id), desk.newest()["action_id"] != action_id) == ("FAILED", True)
    git(desk.work, "push", "-q", "origin", "HEAD:refs/heads/feature")
    told = desk.after(command)
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


def test_a_removed_object_of_a_cluster_waits_for_people_and_is_read_back_from_the_api_server(desk):
    path = "/api/v1/namespaces/shop/configmaps/prices"
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"}}
    desk.cluster.put(path, about)
    command = "kubectl delete configmap prices --wait=false"
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run yet: people must approve it first"), said
    assert desk.newest()["target"] == "kubernetes/shop/ConfigMap/prices"
    desk.house.approve()
    assert desk.before(command) == ("allow", "Approved at the console.")
    done = subprocess.run(["kubectl", *command.split()[1:]], env=desk.environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert path not in desk.cluster.objects
    told = desk.after(command)
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


def test_a_merge_waits_for_people_and_is_read_back_from_the_forge(desk):
    name = desk.repository.removesuffix(".git")
    commit(desk.work, "a change")
    git(desk.work, "push", "-q", "origin", "HEAD:refs/heads/better")
    head = desk.forge.pull(name, 7, "better")
    desk = replace(desk, keys=desk.keys | desk.forge.environment)
    command = f"gh pr merge 7 --squash -R {forge.HOST}/{name} --match-head-commit {head}"
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run yet: people must approve it first"), said
    assert desk.newest()["target"] == f"forge/{name.replace('/', '%2F')}/pull/7"
    desk.house.approve()
    assert desk.before(command) == ("allow", "Approved at the console.")
    done = subprocess.run(["gh", *command.split()[1:]], env=desk.environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = desk.after(command)
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


@pytest.mark.skipif(terraform_folder.PROGRAM is None, reason=terraform_folder.MISSING)
def test_a_plan_that_replaces_something_waits_for_people_and_is_read_back_from_the_state(desk):
    folder = terraform_folder.opened(desk.work / "infra", "pg", desk.states)
    folder.plan()
    folder.run("apply", "next.tfplan")
    command = "cd infra && " + folder.plan("-var", "word=another", "-var", 'racks=["c"]')
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run yet: people must approve it first"), said
    assert desk.newest()["target"] == f"terraform/{desk.states['PG_SCHEMA_NAME']}/default"
    desk.house.approve()
    assert desk.before(command) == ("allow", "Approved at the console.")
    folder.run("apply", "next.tfplan")
    told = desk.after(command)
    assert DONE in told or desk.ended() == "RECONCILED_SUCCESS", told


def test_a_statement_that_is_not_recognised_is_refused_and_nothing_is_proposed(desk):
    before = desk.house.operator.items("/actions", limit="1")
    decision, said = desk.before(f'psql -c "TRUNCATE {desk.psql.schema}.orders"')
    assert decision == "deny"
    assert said.startswith("Not recognised: its form is not known."), said
    assert desk.house.operator.items("/actions", limit="1") == before


def test_a_rejected_push_never_runs(desk):
    command = "git push origin --delete main"
    assert desk.before(command)[0] == "deny"
    desk.house.decide("reject", "The branch is needed.")
    decision, said = desk.before(command)
    assert decision == "deny"
    assert said.startswith("Not run. Rejected"), said
    assert desk.served_ref()


def test_a_push_that_did_not_happen_is_not_reported_as_done(desk):
    """The client says success; the ref stays where it was."""
    before = desk.served_ref()
    commit(desk.work, "never pushed")
    assert desk.before("git push origin HEAD:main") == ("", "")
    said = desk.after("git push origin HEAD:main")
    assert DONE not in said, said
    assert said.startswith("Counterfoil, action ")
    assert desk.served_ref() == before
    assert desk.newest()["state"] != "RECONCILED_SUCCESS"
    shown = desk.house.operator.get(f"/actions/{desk.newest()['action_id']}")
    assert "CONTRADICTED_BY_READING" in json.dumps(shown), shown


def test_after_a_rejected_push_another_one_is_refused_until_it_is_acknowledged(desk):
    assert desk.before("git push origin --delete main")[0] == "deny"
    desk.house.decide("reject", "The branch is needed.")
    assert desk.before("git push origin --delete main")[0] == "deny"
    commit(desk.work, "afterwards")
    decision, said = desk.before("git push origin HEAD:main")
    assert decision == "deny"
    assert "A step of this run has failed" in said
    assert said.endswith("send the same command again: that is put on record.")
    assert desk.before("git push origin HEAD:main") == ("", "")


def test_the_same_client_on_two_machines_is_two_executors(desk, tmp_path):
    home = tmp_path / "laptop"
    (home / ".claude").mkdir(parents=True)
    other = replace(desk, home=home)
    other.agents("onboard", "claude-code", "--enforce", "--url", desk.house.stack.url, "--hold", "1")
    commit(desk.work, "here")
    assert desk.before("git push origin HEAD:main") == ("", "")


def test_an_order_claimed_by_a_dead_hook_goes_to_the_next_one(desk):
    command = "git push --force origin HEAD:main"
    commit(desk.work, "another history", "--amend")
    assert desk.before(command)[0] == "deny"
    desk.house.approve()
    state, action_id = desk.home / ".local/state/counterfoil/agents/claude-code", desk.newest()["action_id"]
    (held,) = (each for each in (state / "held").iterdir() if action_id in each.read_text())
    claim = {"key": uuid4().hex, "wait_s": 8}
    held.write_text(json.dumps({"action_id": action_id, "claim": claim}))
    settings = HookSettings(**json.loads((state / "settings.json").read_text()))
    # As the hook that died had asked, which never heard the answer.
    dead = Executor(
        url=settings.url,
        key=settings.executor_key,
        executor_id=settings.executor_id,
        key_file=state / "executor.jwk",
        handlers={"git_force_push": print},
    )
    assert len(dead.claim(actions=[action_id], wait_s=8, idempotency_key=claim["key"])) == 1
    dead.close()
    assert desk.before(command) == ("allow", "Approved at the console.")


def test_an_accepted_push_that_no_hook_started_does_not_block_its_target(desk):
    """Its hook was killed between the gate's yes and its claim."""
    command = "git push origin HEAD:main"
    commit(desk.work, "one")
    assert desk.before(command) == ("", "")
    git(desk.work, *command.split()[1:])
    desk.after(command)
    assert desk.ended() == "RECONCILED_SUCCESS"
    pushed, session = desk.newest(), desk.session()
    arguments = {
        "remote": f"{desk.server.url}/{desk.repository}",
        "repository": desk.repository,
        "ref": "refs/heads/main",
        "commit": "1" * 40,
    }
    assert pushed["target"].endswith("main")
    left = desk.propose(session, "git_push", arguments)
    assert (left["state"], desk.newest()["target"]) == ("VALIDATED", pushed["target"])
    commit(desk.work, "two")
    assert "UNRESOLVED_DEPENDENCY" in desk.before(command)[1]
    time.sleep(12)
    assert desk.before(command) == ("", "")
    assert desk.house.state(left["action_id"]) == "FAILED"


CLIENT_CALLS = {
    "claude-code": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "@"}},
    "copilot": {"sessionId": "s", "toolName": "bash", "toolArgs": '{"command": "@"}'},
    "cursor": {"conversation_id": "s", "hook_event_name": "beforeShellExecution", "command": "@"},
    "gemini": {"hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {"command": "@"}},
}
"""A call in each client's form; Codex sends what Claude Code sends."""


@pytest.mark.parametrize("client", sorted(CLIENT_CALLS))
def test_a_hook_killed_while_it_waits_leaves_the_request_for_the_same_command(desk, client, tmp_path):
    home = tmp_path / "home"
    (home / CLIENTS[client].folder).mkdir(parents=True)
    keys = desk.keys | {"COUNTERFOIL_OPERATOR_KEY": desk.house.known["keys"]["oper"]}
    other = replace(desk, home=home, keys=keys)
    other.agents("onboard", client, "--enforce", "--url", desk.house.stack.url, "--hold", "15")
    command = "git push --force origin HEAD:main"
    commit(desk.work, "another history", "--amend")
    payload = json.dumps({"cwd": str(desk.work), "session_id": "s"} | CLIENT_CALLS[client]).replace("@", command)
    with subprocess.Popen(
        [*WORDS, "hook", client], env=other.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as waits:
        assert waits.stdin
        waits.stdin.write(payload.encode())
        waits.stdin.close()
        while not desk.house.reviewer.items("/approvals", state="REQUESTED"):
            assert waits.poll() is None
            time.sleep(0.1)
        waits.kill()
    action_id = desk.newest()["action_id"]
    desk.house.approve()
    ran = other.run("hook", client, given=payload)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "deny" not in ran.stdout
    assert (desk.newest()["action_id"], desk.house.state(action_id)) == (action_id, "EXECUTING")


def test_offboarding_leaves_the_clients_file_as_it_was(machine, tmp_path):
    (tmp_path / ".claude").mkdir()
    other = replace(machine, home=tmp_path)
    other.agents("onboard", "claude-code", "--shadow", "--url", machine.house.stack.url)
    assert (tmp_path / ".claude/settings.json").exists()
    assert "settings.json is removed; it was not there before." in other.agents("offboard", "claude-code")
    assert not (tmp_path / ".claude/settings.json").exists()
