"""Nothing readable of a request, its answer or a credential lies on disk or in the log, whenever the gateway ends."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from console.local.processes import wait_until
from counterfoil.gateway.credentials import new_token
from counterfoil.gateway.held import stored_file
from counterfoil.gateway.sealing import HeldKeys
from tests.client.gateway.conftest import CREDENTIAL, LONG_S, new_gateway, read_outcome
from tests.support.outside.git_server import GitServer

ASKED, ANSWERED = "marker-of-the-request-7f3a", "marker-of-the-answer-9c1d"
RULES = """
[[rule]]
name = "notes.write"
description = "Write a note."
method = ["POST"]
path = "/notes/{note}"
effect = "change"
body = "json"
fields = { text = "/text" }
target = "note/{note}"
query = ["by"]
done = [201]
not_done = [400]
"""


@contextmanager
def notes_server():
    """A small API that keeps what it is sent."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps({"kept": ANSWERED}).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


AGENTS = ("received", "proposed", "granted", "forwarding", "answered", "reported", "one", "two", "three", "four")


@pytest.fixture(scope="module")
def prepared(house, tmp_path_factory):
    """A gateway before the API, with temporary files in a folder of its own; each agent has a session of its own."""
    folder = tmp_path_factory.mktemp("noting")
    (folder / "rules.toml").write_text(RULES)
    (folder / "temporary").mkdir()
    (folder / "gateway").mkdir()
    with notes_server() as (url, seen):
        told = {f"agents.{name}": {"goal": "Keep the notes in order."} for name in AGENTS}
        told["hosts.notes"] = {"reader": "rules", "rules": str(folder / "rules.toml"), "url": url}
        told["hosts.notes"]["credential_file"] = str(folder / "gateway/forge.credential")
        with new_gateway(house, GitServer("", folder), folder / "gateway", "noter", told) as made:
            made.variables["TMPDIR"] = str(folder / "temporary")
            made.api_seen, made.tokens = seen, {}
            yield made


@pytest.fixture
def noting(prepared):
    """The gateway, not started."""
    prepared.api_seen.clear()
    yield prepared
    prepared.stop()


def write_note(gateway, agent):
    token = gateway.tokens.get(agent) or gateway.tokens.setdefault(agent, new_token(gateway.state, agent))
    place = f"{gateway.url}/notes/notes/{agent}?by={ASKED}"
    return httpx.post(place, json={"text": ASKED}, headers={"Authorization": f"Bearer {token}"}, timeout=LONG_S)


def held_by(gateway, agent):
    (one,) = [each for each in gateway.held if each.agent == agent]
    return one


def readable(gateway):
    """The files in which a marker, the credential or the token can be read."""
    secrets = [
        ASKED,
        ANSWERED,
        CREDENTIAL,
        gateway.token,
        *gateway.tokens.values(),
        *gateway.house.known["keys"].values(),
    ]
    files = [
        *(each for each in gateway.state.rglob("*") if each.is_file()),
        *(each for each in (gateway.folder.parent / "temporary").rglob("*") if each.is_file()),
        gateway.folder / "gateway.log",
    ]
    assert len(files) > 5
    return {each.name for each in files for secret in secrets if secret.encode() in each.read_bytes()}


def is_proposed(gateway, agent):
    return any(each.agent == agent and each.action_id for each in gateway.held)


@pytest.mark.parametrize("state", ["received", "proposed", "granted", "forwarding", "answered", "reported"])
def test_nothing_is_readable_on_disk_or_in_the_log_after_a_kill_at_any_state(noting, house, state):
    noting.start(kill_at=state, hold_s=LONG_S)
    failed = []

    def send():
        try:
            write_note(noting, state)
        except httpx.TransportError as fault:
            failed.append(fault)

    sender = threading.Thread(target=send)
    sender.start()
    if state in ("forwarding", "answered", "reported"):
        assert wait_until(lambda: is_proposed(noting, state), within_s=LONG_S), noting.log
        house.approve()
    assert wait_until(lambda: noting.child.poll() is not None, within_s=LONG_S), noting.log
    sender.join(LONG_S)
    assert failed
    one = held_by(noting, state)
    assert (one.state, one.arguments["text"]) == (state, ASKED)
    assert readable(noting) == set()
    if state in ("proposed", "granted"):
        house.decide("reject", "Not now.")


def test_nothing_is_readable_of_a_body_whose_arrival_a_kill_ends(noting):
    noting.start()

    def body():
        for _ in range(40):
            yield ASKED.encode() * 100
        assert wait_until(lambda: any(each.stat().st_size for each in incoming()), within_s=LONG_S)
        noting.child.send_signal(signal.SIGKILL)
        yield b"the rest"

    def incoming():
        return list((noting.state / "incoming").iterdir())

    headers = {"Authorization": f"Bearer {noting.token}", "Content-Type": "application/json"}
    with pytest.raises(httpx.TransportError):
        httpx.post(f"{noting.url}/notes/notes/n1", content=body(), headers=headers, timeout=LONG_S)
    noting.child.wait(LONG_S)
    assert len(incoming()) == 1
    assert readable(noting) == set()
    noting.start()
    assert incoming() == []


def test_a_sent_request_leaves_no_body_and_its_answer_reaches_the_client_through_the_seal(noting, house):
    noting.start(hold_s=3.0)
    assert write_note(noting, "one").status_code == 409
    house.approve()
    assert write_note(noting, "one").json() == {"kept": ANSWERED}
    one = held_by(noting, "one")
    assert sorted(each.name for each in (noting.state / "held" / one.id).iterdir()) == ["answer", "state.json"]
    assert [json.loads(each) for each in noting.api_seen] == [{"text": ASKED}]
    assert readable(noting) == set()


def test_a_body_that_was_exchanged_under_the_same_key_is_not_sent_and_the_record_says_so(noting, house):
    noting.start(hold_s=3.0)
    assert write_note(noting, "four").status_code == 409
    one = held_by(noting, "four")
    body = stored_file(noting.state, HeldKeys(noting.keys), one.id, "body")
    content = body.read_bytes()
    body.path.unlink()
    with body.write() as file:
        file.write(content.replace(b"marker", b"MARKER"))
        file.finish()
    house.approve()
    refused = write_note(noting, "four")
    assert refused.status_code == 403
    told = "nothing was sent: The stored bytes are not those that were proposed."
    assert refused.json()["message"].startswith(f"Counterfoil: {told} (action ")
    assert noting.api_seen == []
    assert read_outcome(house, one).startswith("Failed before anything was sent, on the executor's word;")
    assert (held_by(noting, "four").state, body.path.exists()) == ("refused", False)


def test_a_request_whose_key_is_lost_is_never_sent_and_the_gateway_names_it(noting, house):
    noting.start(hold_s=3.0)
    assert write_note(noting, "two").status_code == 409
    noting.stop()
    (noting.state / "held.keys").unlink()
    refused = noting.program("serve")
    assert refused.returncode == 1
    assert b"held.keys is missing, and " in refused.stderr
    assert b" sealed under its keys. Put it back." in refused.stderr
    assert noting.program("rotate-key").stdout.endswith(b": a new key seals from now on; 0 older keys removed.\n")
    house.approve()
    noting.start()
    one = held_by(noting, "two")
    assert (one.state, one.why) == ("unknown", f"it is not sent: the key of {one.id}/state is not in {noting.keys}")
    assert f"request {one.id} is unknown: it is not sent: the key" in noting.log
    told = write_note(noting, "two")
    assert told.status_code == 409
    assert told.json()["message"].startswith("Counterfoil: outcome unknown, the host is read back: ")
    assert noting.api_seen == []


def test_a_key_that_is_replaced_while_the_gateway_runs_seals_what_comes_next_and_opens_what_came_before(noting, house):
    noting.start(hold_s=3.0)
    assert write_note(noting, "three").status_code == 409
    assert [noting.program("rotate-key").returncode for _ in range(2)] == [0, 0]
    house.approve()
    assert write_note(noting, "three").status_code == 201
    assert noting.program("rotate-key").returncode == 0
    assert held_by(noting, "three").unreadable is False
    assert len(noting.api_seen) == 1
