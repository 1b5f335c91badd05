"""`manage.py up` as a newcomer meets it: real processes, in a folder of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from console.local.installation import ROOT
from console.local.processes import has_ended, wait_until
from console.local.servers import APP, ERASER, SEQUENCER, SUPERUSER, free_port, postgres_url
from console.local.startup import NOWHERE, OTHER_ROLES
from tests.support.outside import git_server

WITHIN_S = 60.0


class Up:
    """One installation, in which `up` can be started again and again."""

    def __init__(self, var: Path, port: int) -> None:
        self.var = var
        self.port = port
        self.process: subprocess.Popen[str] | None = None
        self.said = ""

    def environment(self, **extra: str) -> dict[str, str]:
        ours = ("DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE", *OTHER_ROLES)
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ours and not name.startswith("COUNTERFOIL_")
        }
        return kept | {"COUNTERFOIL_VAR": str(self.var), "PYTHONUNBUFFERED": "1"} | extra

    def start(self) -> str:
        """Start, and everything said up to being ready."""
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--no-example", "--port", str(self.port)],
            cwd=ROOT,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = []
        for line in self.process.stdout or ():
            said.append(line)
            if "Ctrl-C stops everything" in line:
                self.said = "".join(said)
                return self.said
        raise AssertionError("".join(said))

    def refused(self, *options: str, **extra: str) -> tuple[int, str]:
        """A start that comes to nothing: its exit code and what it said."""
        answer = subprocess.run(
            [sys.executable, "manage.py", "up", "--no-example", *options],
            cwd=ROOT,
            env=self.environment(**extra),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        return answer.returncode, answer.stderr

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(WITHIN_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        return code

    def children(self) -> dict[str, psutil.Process]:
        rows = json.loads((self.var / "run" / "children.json").read_text())
        return {row["name"]: psutil.Process(row["pid"]) for row in rows if psutil.pid_exists(row["pid"])}

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=WITHIN_S).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True


def with_cleanup(installation: Up) -> Iterator[Up]:
    yield installation
    if installation.process is not None:
        installation.end(signal.SIGTERM)


@pytest.fixture
def up(run) -> Iterator[Up]:
    yield from with_cleanup(Up(run.folder / f"up-{free_port()}", free_port()))


@pytest.fixture(scope="module")
def lasting(run) -> Iterator[Up]:
    """An installation that lasts: what begins a second time makes no database and collects no file."""
    yield from with_cleanup(Up(run.folder / f"up-{free_port()}", free_port()))


@pytest.fixture
def running_up(lasting) -> Up:
    """It runs, since this test or an earlier one."""
    if lasting.process is None:
        lasting.start()
    return lasting


def test_make_up_starts_survives_kills_and_ends_cleanly(running_up):
    up, first = running_up, running_up.said
    assert f"http://localhost:{up.port}" in first
    assert up.answers()
    collected = (up.var / "static" / "staticfiles.json").stat().st_mtime_ns
    children = up.children()
    assert set(children) == {"postgres", "valkey", "web", "worker", "bulk", "background"}
    _nothing_is_open_to_others(up)
    # Two of them would write to the same data.
    code, sentence = up.refused("--port", str(free_port()))
    assert (code, sentence.count("\n")) == (2, 1)
    assert "Another `up` is running" in sentence
    # What falls over is started again.
    children["web"].kill()
    assert wait_until(lambda: "web" in up.children() and up.children()["web"] != children["web"], within_s=WITHIN_S)
    assert wait_until(up.answers, within_s=WITHIN_S)
    # A killed `up` leaves orphans; the next one ends them and goes on with the same data.
    orphans = up.children()
    up.end(signal.SIGKILL)
    assert not has_ended(orphans["postgres"])
    assert up.start().split("sign in as")[1] == first.split("sign in as")[1]
    assert all(has_ended(process) for process in orphans.values())
    assert up.answers()
    # Static files are collected at the first start only.
    assert (up.var / "static" / "staticfiles.json").stat().st_mtime_ns == collected
    if sys.platform == "linux":
        _goes_on_without_its_forker(up)
    children = up.children()
    assert up.end(signal.SIGINT) == 0
    assert all(has_ended(process) for process in children.values())


def test_a_sequencer_that_fails_is_started_again_while_beat_in_the_same_process_goes_on(running_up):
    up = running_up
    assert wait_until(lambda: _states(up)["BEAT"] == "in_order", within_s=WITHIN_S)
    background = up.children()["background"]
    key, away = up.var / "secrets" / "log_key.pem", up.var / "secrets" / "log_key.away"
    key.rename(away)
    try:
        log = up.var / "log" / "background.log"
        assert wait_until(lambda: "sequencer stopped unexpectedly" in log.read_text(), within_s=WITHIN_S)
        # Of a tool that nobody has: other tests go on with the same installation.
        freeze = {"scope": "tool", "value": "no_such_tool", "unknown_ok": True}
        _ask(up, "freezes", {**freeze, "reason": "An event that waits for its place."})
        assert wait_until(lambda: _states(up)["SEQUENCER"] == "failed", within_s=WITHIN_S)
        assert _states(up)["BEAT"] == "in_order"
    finally:
        away.rename(key)
    assert wait_until(lambda: _states(up)["SEQUENCER"] == "in_order", within_s=WITHIN_S)
    assert up.children()["background"] == background


def test_the_commands_of_the_readme_lead_to_the_first_held_command_of_a_coding_agent(running_up, tmp_path):
    up = running_up
    start, onboard = _commands("A coding agent in five minutes")
    # As the installation of this test was started.
    assert start == "make up OPTIONS=--no-example"
    home, served = tmp_path / "home", tmp_path / "served"
    (home / ".claude").mkdir(parents=True)
    served.mkdir()
    environment = up.environment(HOME=str(home), XDG_STATE_HOME="", COUNTERFOIL_URL=f"http://localhost:{up.port}")
    # Only the port and the folder of this test's installation are others.
    words = onboard.replace("var/", f"{up.var}/")
    said = subprocess.run(
        words, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WITHIN_S
    )
    assert (said.returncode, said.stderr) == (0, "")
    hook = json.loads((home / ".claude/settings.json").read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    with git_server.served(served) as server:
        server.repository("team/app.git")
        work = server.clone("team/app.git", tmp_path / "app")
        git_server.commit(work, "another history", "--amend")
        call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1", "session_id": "s"}
        call |= {"cwd": str(work), "tool_input": {"command": "git push --force origin HEAD:main"}}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(
            hook, shell=True, env=environment | git_server.QUIET, start_new_session=True, **pipes
        ) as agent:
            agent.stdin.write(json.dumps(call).encode())
            agent.stdin.close()
            waiting = wait_until(lambda: _waits_for_people(up), within_s=WITHIN_S)
            assert agent.poll() is None, agent.stdout.read()
            os.killpg(agent.pid, signal.SIGKILL)
    assert waiting


def _commands(heading: str) -> list[str]:
    section = (ROOT / "README.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return section.split("```sh\n")[1].split("```")[0].splitlines()


def _waits_for_people(up: Up) -> bool:
    actions = _ask(up, "actions")["items"]
    return [(each["tool"], each["state"]) for each in actions] == [("git_force_push", "VALIDATED")]


def _ask(up: Up, path: str, body: object = None) -> Any:
    key = json.loads((up.var / "secrets" / "sign-in-main.json").read_text())["keys"]["oper"]
    asked = urllib.request.Request(f"http://127.0.0.1:{up.port}/api/v1/{path}")
    asked.add_header("Authorization", f"Bearer {key}")
    if body is not None:
        asked.add_header("Content-Type", "application/json")
        asked.data = json.dumps(body).encode()
    with urllib.request.urlopen(asked, timeout=WITHIN_S) as answer:
        return json.load(answer)


def _states(up: Up) -> dict[str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{up.port}/statusz", timeout=WITHIN_S) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as answer:
        told = json.load(answer)
    return {each["code"]: each["state"] for each in told["checks"]}


def _nothing_is_open_to_others(up: Up) -> None:
    words = json.loads((up.var / "secrets" / "passwords.json").read_text()).values()
    lines = [" ".join(process.cmdline()) for process in up.children().values()]
    assert not [line for line in lines if any(word in line for word in words)]
    closed = [up.var / name for name in ("secrets", "log", "run", "servers")]
    assert all(place.stat().st_mode & 0o077 == 0 for place in closed)
    # The forks read their own environments from files, and what they are forked from is told no address.
    wanted = {"web": {APP}, "worker": {APP}, "background": {SEQUENCER, ERASER}}
    for told in (up.children()[name].environ() for name in wanted):
        assert (told["DATABASE_URL"], OTHER_ROLES & set(told)) == (NOWHERE, set())
    assert list((up.var / "run").glob("fork-*")) == []
    assert _states(up)
    assert wait_until(lambda: {name: _roles(up, name) for name in wanted} == wanted, within_s=WITHIN_S)


def _roles(up: Up, name: str) -> set[str]:
    """The roles as which a program and its children are signed in to PostgreSQL."""
    words, ports = (json.loads((up.var / place).read_text()) for place in ("secrets/passwords.json", "run/ports.json"))
    child = up.children()[name]
    lines = [line.laddr.port for each in (child, *child.children()) for line in each.net_connections()]
    url = postgres_url(role=SUPERUSER, password=words["superuser"], port=ports["postgres"], database="postgres")
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT usename FROM pg_stat_activity WHERE client_port = ANY(%s)", [lines]
        ).fetchall()
    return {role for (role,) in found}


def _goes_on_without_its_forker(up: Up) -> None:
    """Web, worker and background are forked, on Linux alone; one whose forker is gone is started."""
    children = up.children()
    [forker] = {children[name].ppid() for name in ("web", "worker", "background")}
    assert forker != up.process.pid
    assert len({os.getsid(children[name].pid) for name in ("web", "worker", "background")}) == 3
    psutil.Process(forker).kill()
    children["web"].kill()
    assert wait_until(lambda: "web" in up.children() and up.children()["web"] != children["web"], within_s=WITHIN_S)
    assert wait_until(up.answers, within_s=WITHIN_S)
    assert up.children()["web"].ppid() == up.process.pid
    kept = up.children()
    assert (kept["worker"], kept["background"]) == (children["worker"], children["background"])


def test_a_busy_port_is_reported_in_one_sentence(up, broker):
    code, sentence = up.refused("--port", str(broker.port))
    assert (code, sentence.count("\n")) == (2, 1)
    assert f"Port {broker.port} is in use" in sentence


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("DATABASE_URL", "not a url", "must look like postgresql://"),
        ("DATABASE_URL", "postgresql://app:word@127.0.0.1:1/none", "does not lead to a database"),
        ("REDIS_URL", "http://127.0.0.1:1", "must look like redis://"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "does not lead to Redis or Valkey"),
        ("BROKER_URL", "amqp://word@127.0.0.1:1/", "does not lead to a broker"),
        ("COUNTERFOIL_PUBLIC_URL", "console.example.org", "must look like https://"),
    ],
)
def test_a_malformed_address_is_reported_in_one_sentence(up, name, value, says):
    others = dict.fromkeys((*OTHER_ROLES, "KEYS_DATABASE_URL"), value) if name == "DATABASE_URL" else {}
    code, sentence = up.refused("--port", str(up.port), **{name: value}, **others)
    assert (code, sentence.count("\n")) == (2, 1), sentence
    assert says in sentence


def test_an_external_database_requires_its_owner_address_too(up, run):
    code, sentence = up.refused("--port", str(up.port), DATABASE_URL="postgresql://app:word@127.0.0.1:1/none")
    assert (code, sentence.count("\n")) == (2, 1)
    assert "set DATABASE_OWNER_URL too" in sentence


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL", "COUNTERFOIL_SECRETS_DIR"])
def test_required_settings_have_no_default(up, run, name):
    given = {
        "DATABASE_URL": "postgresql://app:word@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "COUNTERFOIL_SECRETS_DIR": str(run.secrets),
    }
    del given[name]
    answer = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=up.environment(**given), capture_output=True, text=True
    )
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert name in answer.stderr
