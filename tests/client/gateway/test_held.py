"""Held requests on disk after a crash, their limits, and the secrets beside them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pwd
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from counterfoil.gateway.carrying import Carrier
from counterfoil.gateway.credentials import CredentialUnusable, Tokens, authorization, new_token
from counterfoil.gateway.held import HeldRequest, HeldRequests, HeldState, NoRoom, StateTaken
from counterfoil.gateway.sealing import HeldKeys
from counterfoil.gateway.settings import (
    AgentSettings,
    FrontSettings,
    HostSettings,
    HttpSettings,
    load_http_settings,
    require_other_user,
    require_private_files,
)
from counterfoil.gateway.upstream import HostClients
from counterfoil.gating.files import write_private
from counterfoil.gating.settings import BadSettings, ConsoleSettings

ONE = HeldRequest(
    id="one",
    key="coder key",
    state=HeldState.RECEIVED,
    agent="coder",
    host="forge",
    method="POST",
    path="a",
    query="",
    headers=(("accept", "*/*"),),
    sha256="0" * 64,
    size=3,
    tool="git.push",
    arguments={"ref": "refs/heads/main"},
    shape={"refs": ["refs/heads/main"]},
    at=1.0,
)


@pytest.fixture
def opened():
    """Open a folder of held requests; what is open ends with the test."""
    with ExitStack() as all_of_them:

        def open_folder(folder, **limits):
            held = HeldRequests(
                folder, HeldKeys(folder / "held.keys"), **{"most": 2, "most_bytes": 100, "least_free": 0} | limits
            )
            all_of_them.callback(held.close)
            return held

        yield open_folder


def keep(held, one=ONE):
    with held.incoming(one.id).write() as file:
        file.write(b"abc")
        file.finish()
    return held.add(one)


@pytest.mark.parametrize("state", list(HeldState))
def test_a_state_survives_a_restart_except_that_forwarding_becomes_unknown(opened, tmp_path, state):
    held = opened(tmp_path)
    held.write(keep(held), state)
    held.close()
    found = opened(tmp_path).get("one")
    assert found.state == (HeldState.UNKNOWN if state is HeldState.FORWARDING else state)
    assert replace(found, state=HeldState.RECEIVED, changed_at=0.0, why="") == ONE


def test_incomplete_requests_and_folders_without_a_state_are_removed_at_a_restart(opened, tmp_path):
    held = opened(tmp_path)
    held.incoming("x").path.write_bytes(b"ab")
    (tmp_path / "incoming" / "history-x").mkdir()
    (tmp_path / "held" / "two").mkdir()
    held.close()
    again = opened(tmp_path)
    assert (again.all(), list((tmp_path / "incoming").iterdir()), list((tmp_path / "held").iterdir())) == ([], [], [])


def test_two_gateways_do_not_share_a_folder(opened, tmp_path):
    held = opened(tmp_path)
    with pytest.raises(StateTaken, match=r"Another gateway uses"):
        opened(tmp_path)
    held.close()


def test_the_limits_count_open_requests_and_an_ended_request_keeps_no_bytes(opened, tmp_path):
    held = opened(tmp_path)
    keep(held)
    keep(held, replace(ONE, id="two"))
    with pytest.raises(NoRoom, match="2 open requests"):
        held.check_count("coder")
    held.check_count("another")
    held.write(held.get("one"), HeldState.REFUSED, told=True)
    held.check_count("coder")
    assert not held.body("one").path.exists()
    held.sweep(time.time() + 90_000)
    assert [each.id for each in held.all()] == ["two"]
    held.close()
    with pytest.raises(NoRoom, match="bytes are held"):
        opened(tmp_path, most_bytes=3).check_space(0)


def test_a_credential_is_read_at_each_use_from_a_file_that_only_the_gateway_can_read(tmp_path):
    file = tmp_path / "credential"
    file.write_text("user:pass\n")
    host = HostSettings(url="https://git.example.org", credential_file=str(file))
    file.chmod(0o640)
    with pytest.raises(CredentialUnusable, match="set its mode to 0600"):
        authorization(host)
    file.chmod(0o600)
    assert authorization(host) == "Basic " + base64.b64encode(b"user:pass").decode()
    file.write_text("another")
    assert authorization(replace(host, scheme="bearer")) == "Bearer another"
    file.write_text("two\nlines")
    with pytest.raises(CredentialUnusable) as refused:
        authorization(host)
    assert "two" not in str(refused.value)


def test_a_token_is_stored_as_a_digest_and_replaced_by_the_next_one(tmp_path):
    first = new_token(tmp_path, "coder")
    tokens = Tokens(tmp_path)
    basic = base64.b64encode(f"x:{first}".encode()).decode()
    for header in (f"Bearer {first}", f"token {first}", f"Basic {basic}"):
        assert tokens.agent(header) == "coder"
    assert first not in (tmp_path / "tokens.json").read_text()
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
    new_token(tmp_path, "coder")
    for header in (f"Bearer {first}", "", "Bearer ", "Basic !", "Digest x"):
        assert tokens.agent(header) == ""


STATES = {"runs": "EXECUTING", "waits": "VALIDATED", "over": "ABANDONED", "done": "RECONCILED_SUCCESS"}


@contextmanager
def answering():
    """A small server in the shape of the console's documented answers about an action, known by its state."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removesuffix("/report").rpartition("/")[2]
            if name == "erased":
                return self.answer(410, {"code": "ERASED", "detail": "This was erased.", "title": "Gone"})
            if name not in STATES:
                return self.answer(404, {"code": "NOT_FOUND", "title": "Not found"})
            about = {"action_id": name, "state": STATES[name], "tool": "git.push", "target": "x"}
            report = {"state": STATES[name], "code": "FAILED", "text": "Not carried out.", "completed": False}
            return self.answer(200, report if self.path.endswith("/report") else about)

        def answer(self, status, document):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_):
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_is_over_at_the_console_ends_and_what_was_erased_there_is_removed(opened, tmp_path):
    held = opened(tmp_path, most=99, most_bytes=1_000)
    now = time.time()

    def add(name, state, **changes):
        held.write(keep(held, replace(ONE, id=name)), state, **changes)

    for state in HeldState:
        add(f"erased {state}", state, action_id="erased")
    for name in ("runs", "waits", "over", "unheard-of"):
        add(f"proposed {name}", HeldState.PROPOSED, action_id=name)
        add(f"unknown {name}", HeldState.UNKNOWN, action_id=name)
    add("granted over", HeldState.GRANTED, action_id="over")
    add("answered done", HeldState.ANSWERED, action_id="done")
    add("new", HeldState.RECEIVED)
    add("old", HeldState.RECEIVED)
    held._known["old"] = replace(held.get("old"), changed_at=now - 90_000)
    add("ended long ago", HeldState.REPORTED, action_id="done")
    held._known["ended long ago"] = replace(held.get("ended long ago"), changed_at=now - 90_000, told=True)

    async def sweep(url):
        settings = HttpSettings(
            console=ConsoleSettings(url=url, agent_key="a", executor_key="b"),
            front=FrontSettings(state=str(tmp_path)),
            agents={"coder": AgentSettings(goal="Keep it in order.")},
        )
        hosts = HostClients({})
        carrier = Carrier(settings, held, {}, hosts)
        await carrier.sweep()
        await carrier.close()
        await hosts.close()

    with answering() as url:
        asyncio.run(sweep(url))
    assert {each.id: str(each.state) for each in held.all()} == {
        "proposed runs": "proposed",
        "proposed waits": "proposed",
        "proposed over": "refused",
        "proposed unheard-of": "refused",
        "unknown runs": "unknown",
        "unknown waits": "unknown",
        "unknown over": "settled",
        "unknown unheard-of": "unknown",
        "granted over": "refused",
        "answered done": "answered",
        "new": "received",
        "old": "refused",
    }
    assert held.get("proposed over").why == "Not carried out. (action over)"
    assert held.get("old").why == "nothing was sent: its client did not come back within a day"
    bodies = {each.parent.name for each in (tmp_path / "held").glob("*/body")}
    assert bodies == {each.id for each in held.all() if each.state in ("received", "proposed", "unknown")}


SETTINGS = """
[gateway]
state = "/nowhere"
{front}
[agents.coder]
goal = "Keep it in order."
[hosts.forge]
url = "{url}"
{host}
"""


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"url": "http://git.example.org"}, "a credential leaves this machine by https only"),
        ({"url": "https://user:word@git.example.org"}, "without a secret"),
        ({"front": 'listen = "0.0.0.0:8611"'}, "Listening beyond this machine needs TLS"),
        ({"host": 'reader = "ftp"'}, "reader is"),
        ({"host": 'listen = "127.0.0.1:8443"'}, "A port of a host's own (hosts.NAME.listen) speaks TLS"),
        ({"host": 'listen = "8443"'}, "hosts.forge.listen is an address and a port"),
        ({"front": "hold_sec = 3"}, "Unknown name in [gateway]: hold_sec."),
    ],
)
def test_unsafe_settings_are_refused(tmp_path, told, says):
    file = tmp_path / "gateway.toml"
    file.write_text(SETTINGS.format(**{"url": "https://git.example.org", "front": "", "host": ""} | told))
    with pytest.raises(BadSettings) as refused:
        load_http_settings(file, environment={})
    assert says in str(refused.value)


def test_the_gateway_does_not_start_where_agents_run_as_its_own_user(tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text(SETTINGS.format(url="https://git.example.org", front="", host=""))
    settings = load_http_settings(file, environment={})
    with pytest.raises(BadSettings, match="can read its credentials"):
        require_other_user(settings, same_user=False)
    require_other_user(settings, same_user=True)
    for runs_as in ("nobody", "elsewhere"):
        require_other_user(replace(settings, front=replace(settings.front, agents_run_as=runs_as)), same_user=False)
    me = pwd.getpwuid(os.geteuid()).pw_name
    for runs_as, says in ((me, "can read its credentials"), ("no-such-user", "this machine has no user no-such-user")):
        with pytest.raises(BadSettings, match=says):
            require_other_user(replace(settings, front=replace(settings.front, agents_run_as=runs_as)), same_user=False)


@pytest.mark.parametrize(
    ("opened_up", "says"),
    [
        ("forge.credential", "forge.credential can be read by others; set its mode to 0600"),
        ("state", "state belongs to another user, or others may read it: `chmod -R go= "),
        ("state/session-coder.json", "session-coder.json belongs to another user, or others may read it"),
    ],
)
def test_the_gateway_does_not_start_where_others_may_read_what_it_keeps(tmp_path, opened_up, says):
    (tmp_path / "state").mkdir(mode=0o700)
    for name in ("forge.credential", "state/session-coder.json"):
        write_private(tmp_path / name, b"{}")
    settings = HttpSettings(
        console=ConsoleSettings(),
        front=FrontSettings(state=str(tmp_path / "state")),
        agents={},
        hosts={"forge": HostSettings(credential_file=str(tmp_path / "forge.credential"))},
    )
    require_private_files(settings)
    (tmp_path / opened_up).chmod(0o750)
    with pytest.raises(BadSettings, match=says):
        require_private_files(settings)


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can run a program as another user.")
def test_another_user_reads_nothing_of_a_gateway_that_runs(tmp_path):
    """As `nobody`: the folder lies where every user could get to."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-test-", dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        old = os.umask(0o022)
        try:
            held = HeldRequests(root / "state", HeldKeys(root / "state/held.keys"), most=2, most_bytes=9, least_free=0)
            keep(held)
            new_token(root / "state", "coder")
            held.close()
        finally:
            os.umask(old)
        files = [each for each in (root / "state").rglob("*") if each.is_file()]
        assert {"held.keys", "tokens.json", "state.json", "body"} <= {each.name for each in files}
        for file in (*files, root / "state"):
            word = "ls" if file.is_dir() else "cat"
            ran = subprocess.run([word, str(file)], user="nobody", capture_output=True, text=True)
            assert (ran.returncode != 0, ran.stdout) == (True, ""), file
