"""Held requests on disk after a crash, their limits, and the secrets beside them."""

from __future__ import annotations

import base64
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from counterfoil.gateway.credentials import CredentialUnusable, Tokens, authorization, new_token
from counterfoil.gateway.held import HeldRequest, HeldRequests, HeldState, NoRoom, StateTaken
from counterfoil.gateway.settings import HostSettings, load_http_settings, require_other_user
from counterfoil.gating.settings import BadSettings

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
            held = HeldRequests(folder, **{"most": 2, "most_bytes": 100, "least_free": 0} | limits)
            all_of_them.callback(held.close)
            return held

        yield open_folder


def keep(held, one=ONE):
    file = held.incoming("x")
    file.write_bytes(b"abc")
    return held.add(one, file)


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
    held.incoming("x").write_bytes(b"ab")
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
        held.check_room("coder")
    held.check_room("another")
    held.write(held.get("one"), HeldState.REFUSED)
    held.check_room("coder")
    assert not held.body("one").exists()
    held.sweep(time.time() + 90_000)
    assert [each.id for each in held.all()] == ["two"]
    held.close()
    with pytest.raises(NoRoom, match="bytes are held"):
        opened(tmp_path, most_bytes=3).check_room("another")


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
    for runs_as in ("agent", "elsewhere"):
        require_other_user(replace(settings, front=replace(settings.front, agents_run_as=runs_as)), same_user=False)
