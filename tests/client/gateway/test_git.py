"""Pushes through the gateway: held, approved, forwarded once, read back; and whatever may go wrong on the way."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import closing
from uuid import uuid4

import psutil
import pytest

from console.local.processes import wait_until
from counterfoil.gateway.held import HeldRequests, HeldState
from counterfoil.gateway.sealing import HeldKeys
from tests.client.gateway.conftest import CREDENTIAL, LONG_S, REPOSITORY, new_gateway
from tests.support.outside import git_server

MAIN = "refs/heads/main"
DONE = "remote: Counterfoil: Done, and confirmed in the system of record."


def is_held(gateway):
    return wait_until(lambda: any(each.state in ("proposed", "granted") for each in gateway.held), within_s=LONG_S)


def test_a_forced_push_is_held_approved_forwarded_once_and_read_back(gateway, clone, host, house, tmp_path):
    gateway.start()
    before = host.ref(REPOSITORY, MAIN)
    new = clone.commit("another history", "--amend")
    held = clone.push("--force", "origin", "HEAD:main")
    place = f"{house.stack.url}/t/{house.tenant}/approvals/"
    assert held.returncode == 1
    assert f"remote: Counterfoil: this request waits for approval: {place}" in held.stderr
    refused = "! [remote rejected] HEAD -> main (waits for approval, push again later: "
    assert refused + place in held.stderr
    assert "Everything up-to-date" not in held.stderr
    assert (host.ref(REPOSITORY, MAIN), gateway.pushes) == (before, 0)
    (one,) = gateway.held
    bundle = tmp_path / "held.bundle"
    bundle.write_bytes(gateway.program("show", one.id).stdout)
    reviewer = git_server.git(tmp_path, "clone", "-q", str(host.root / REPOSITORY), "reviewer") or tmp_path / "reviewer"
    git_server.git(reviewer, "fetch", "-q", str(bundle), f"{MAIN}:refs/review/1")
    assert git_server.git(reviewer, "rev-parse", "refs/review/1") == new
    house.approve()
    again = clone.push("--force", "origin", "HEAD:main")
    assert again.returncode == 0, again.stderr + gateway.log
    assert DONE in again.stderr
    assert (host.ref(REPOSITORY, MAIN), gateway.pushes) == (new, 1)
    (one,) = gateway.held
    assert (one.state, one.tool) == ("reported", "git.force_push")
    lost, subject = one.arguments["loses"].splitlines()
    assert lost == "1 commit"
    assert subject.endswith(" first")
    assert house.state(one.action_id) == "RECONCILED_SUCCESS"
    kept = b"".join(file.read_bytes() for file in gateway.state.rglob("*") if file.is_file())
    for secret in (CREDENTIAL.encode(), gateway.token.encode(), b"another history\n\0"):
        assert secret not in kept + gateway.log.encode()


def test_a_fast_forward_push_and_a_fetch_pass_at_once(gateway, clone, host):
    gateway.start()
    new = clone.commit("second")
    pushed = clone.push("origin", "HEAD:main")
    assert pushed.returncode == 0, pushed.stderr + gateway.log
    assert DONE in pushed.stderr
    (one,) = gateway.held
    assert (one.tool, one.arguments["commit"]) == ("git.push", new)
    assert one.arguments["brings"].splitlines() == [
        "3 objects, 1 commit read from the pack",
        f"{new[:12]} second",
    ]
    git_server.git(clone.folder, "fetch", "-q", "origin")
    assert git_server.git(clone.folder, "rev-parse", "origin/main") == new


def test_an_approved_push_is_forwarded_while_its_client_waits(gateway, clone, host, house):
    gateway.start(hold_s=LONG_S)
    new = clone.commit("another history", "--amend")
    first = clone.begin_push("--force", "origin", "HEAD:main")
    second = clone.begin_push("--force", "origin", "HEAD:main")
    assert is_held(gateway)
    house.approve()
    for told in (first.communicate(timeout=LONG_S)[0], second.communicate(timeout=LONG_S)[0]):
        assert DONE in told
    assert (first.returncode, second.returncode) == (0, 0)
    assert (host.ref(REPOSITORY, MAIN), gateway.pushes, len(gateway.held)) == (new, 1, 1)


def test_an_approved_push_is_not_sent_after_its_client_has_gone_until_the_client_pushes_again(
    gateway, clone, host, house
):
    gateway.start(hold_s=LONG_S)
    before, new = host.ref(REPOSITORY, MAIN), clone.commit("another history", "--amend")
    push = clone.begin_push("--force", "origin", "HEAD:main")
    assert is_held(gateway)
    os.killpg(push.pid, signal.SIGKILL)
    push.communicate()
    house.approve()
    # The gateway's own looks at its client come four times a second.
    assert not wait_until(lambda: gateway.pushes > 0, within_s=3)
    assert host.ref(REPOSITORY, MAIN) == before
    again = clone.push("--force", "origin", "HEAD:main")
    assert again.returncode == 0, again.stderr
    assert (host.ref(REPOSITORY, MAIN), gateway.pushes, len(gateway.held)) == (new, 1, 1)


def test_a_branch_that_moved_meanwhile_is_refused_by_the_host(gateway, clone, host, house, tmp_path):
    gateway.start(hold_s=LONG_S, settle_s=0.0)
    clone.commit("another history", "--amend")
    push = clone.begin_push("--force", "origin", "HEAD:main")
    assert is_held(gateway)
    git_server.git(tmp_path, "clone", "-q", str(host.root / REPOSITORY), "other")
    moved = git_server.commit(tmp_path / "other", "somebody else's")
    git_server.git(tmp_path / "other", "push", "-q", "origin", "HEAD:main")
    house.approve()
    told = push.communicate(timeout=LONG_S)[0]
    assert push.returncode == 1
    assert "! [remote rejected] HEAD -> main (" in told
    assert "remote: Counterfoil: the host answered; it has not been read back yet." in told
    assert host.ref(REPOSITORY, MAIN) == moved
    assert gateway.held[0].result["error"]["code"] == "REF_REFUSED"


def test_a_rejected_push_shows_the_reason_and_is_proposed_again_after_it_is_acknowledged(gateway, clone, house):
    gateway.start(hold_s=3.0)
    clone.commit("another history", "--amend")
    assert clone.push("--force", "origin", "HEAD:main").returncode == 1
    house.decide("reject", "Keep the history.")
    rejected = clone.push("--force", "origin", "HEAD:main")
    assert rejected.returncode == 1
    assert "! [remote rejected] HEAD -> main (rejected by a reviewer: Keep the history." in rejected.stderr
    told = clone.push("--force", "origin", "HEAD:main").stderr
    assert "To go on knowing that an earlier step did not end well, send the same request again." in told
    assert "(waits for approval, push again later: " in clone.push("--force", "origin", "HEAD:main").stderr
    assert gateway.pushes == 0
    house.decide("reject", "Still not.")


def test_a_push_whose_answer_is_lost_is_unknown_is_not_sent_again_and_is_read_back(gateway, clone, host, house):
    gateway.start(settle_s=0.0)
    host.after_push = lambda: False
    new = clone.commit("second")
    lost = clone.push("origin", "HEAD:main")
    assert lost.returncode == 1
    assert "! [remote rejected] HEAD -> main (outcome unknown, the server is read back: " in lost.stderr
    (one,) = gateway.held
    assert (one.state, gateway.pushes) == ("unknown", 1)
    assert wait_until(lambda: house.state(one.action_id) == "RECONCILED_SUCCESS", within_s=LONG_S)
    assert "Everything up-to-date" in clone.push("origin", "HEAD:main").stderr
    assert (host.ref(REPOSITORY, MAIN), gateway.pushes) == (new, 1)


@pytest.mark.parametrize("state", ["received", "proposed", "granted"])
def test_a_gateway_killed_before_it_sends_loses_nothing_and_sends_once(gateway, clone, host, house, state):
    gateway.start(kill_at=state)
    new = clone.commit("second")
    assert clone.push("origin", "HEAD:main").returncode != 0
    assert gateway.pushes == 0
    assert [each.state for each in gateway.held] == [state]
    gateway.start()
    again = clone.push("origin", "HEAD:main")
    assert again.returncode == 0, again.stderr + gateway.log
    assert (host.ref(REPOSITORY, MAIN), gateway.pushes, len(gateway.held)) == (new, 1, 1)
    assert house.state(gateway.held[0].action_id) == "RECONCILED_SUCCESS"


def test_a_gateway_killed_while_it_forwards_never_sends_that_request_again(gateway, clone, host, house):
    gateway.start(kill_at="forwarding")
    before = host.ref(REPOSITORY, MAIN)
    clone.commit("second")
    assert clone.push("origin", "HEAD:main").returncode != 0
    gateway.start()
    for _ in range(2):
        told = clone.push("origin", "HEAD:main")
        assert told.returncode == 1
        assert "(outcome unknown, the server is read back: " in told.stderr
    (one,) = gateway.held
    assert (one.state, gateway.pushes, host.ref(REPOSITORY, MAIN)) == ("unknown", 0, before)
    assert house.state(one.action_id) in ("UNKNOWN", "PENDING")


def test_a_request_that_the_console_has_lost_stays_unknown_and_is_not_sent_again(gateway, clone, host):
    gateway.start(kill_at="forwarding")
    clone.commit("second")
    assert clone.push("origin", "HEAD:main").returncode != 0
    (one,) = gateway.held
    assert gateway.child is not None
    gateway.child.wait(LONG_S)
    limits = {"most": 9, "most_bytes": 1 << 30, "least_free": 0}
    with closing(HeldRequests(gateway.state, HeldKeys(gateway.keys), **limits)) as held:
        held.write(held.get(one.id), HeldState.FORWARDING, action_id=str(uuid4()))
    gateway.start()
    told = clone.push("origin", "HEAD:main")
    assert told.returncode == 1
    assert "(outcome unknown, the server is read back: " in told.stderr
    assert ([each.state for each in gateway.held], gateway.pushes) == (["unknown"], 0)


def test_a_gateway_killed_after_the_answer_reports_it_and_does_not_send_again(gateway, clone, host, house):
    gateway.start(kill_at="answered")
    new = clone.commit("second")
    assert clone.push("origin", "HEAD:main").returncode != 0
    (one,) = gateway.held
    assert (one.state, gateway.pushes, host.ref(REPOSITORY, MAIN)) == ("answered", 1, new)
    gateway.start()
    assert [each.state for each in gateway.held] == ["reported"]
    assert wait_until(lambda: house.state(one.action_id) == "RECONCILED_SUCCESS", within_s=LONG_S)
    assert "Everything up-to-date" in clone.push("origin", "HEAD:main").stderr
    assert gateway.pushes == 1


def test_a_held_push_of_a_hundred_mebibytes_takes_constant_memory(gateway, clone, host):
    gateway.start(hold_s=LONG_S, send_s=int(LONG_S))
    assert gateway.child is not None
    (clone.folder / "large.bin").write_bytes(os.urandom(100 << 20))
    git_server.git(clone.folder, "-c", "core.compression=0", "add", "large.bin")
    new = clone.commit("a large file")
    pushed = clone.push("origin", "HEAD:main")
    assert pushed.returncode == 0, pushed.stderr
    assert host.ref(REPOSITORY, MAIN) == new
    assert gateway.held[0].size > 100 << 20
    with open(f"/proc/{gateway.child.pid}/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    before = psutil.Process(gateway.child.pid).memory_info().rss >> 10
    assert peak < before + (24 << 10), (peak, before)


def test_a_push_with_options_and_a_branch_deletion_are_held(gateway, clone, host, house):
    gateway.start()
    git_server.git(host.root / REPOSITORY, "config", "receive.advertisePushOptions", "true")
    clone.commit("second")
    assert clone.push("-o", "ci.skip", "origin", "HEAD:main").returncode == 1
    (one,) = gateway.held
    assert (one.tool, one.arguments["options"]) == ("git.push_with_options", ["ci.skip"])
    house.decide("reject", "Run the tests.")
    git_server.git(host.root / REPOSITORY, "branch", "old", "main")
    assert clone.push("origin", ":old").returncode == 1
    kinds = {each.tool: each.state for each in gateway.held}
    assert kinds.get("git.delete_ref") in ("proposed", "granted", "refused"), gateway.log


def test_a_push_of_an_unsupported_form_is_refused_with_a_message_that_git_prints(gateway, clone, host):
    gateway.start()
    clone.commit("second")
    several = clone.push("origin", "HEAD:main", "HEAD:other")
    assert several.returncode == 1
    assert several.stderr.count("(push one ref at a time, so that each is approved and read back by itself)") == 2
    odd = clone.push("origin", "HEAD:refs/notes/x")
    assert "(only branches and tags with plain names pass this gateway)" in odd.stderr
    other = clone.push(gateway.address.replace("team/", "secret/"), "HEAD:main")
    assert "remote: Counterfoil: not a repository of this gateway" in other.stderr
    nobody = clone.push(gateway.address.replace(gateway.token, "wrong"), "HEAD:main")
    assert nobody.returncode == 128
    past = clone.push(f"{host.url}/{REPOSITORY}", "HEAD:main")
    assert past.returncode == 128
    assert "could not read Username" in past.stderr
    assert (gateway.pushes, gateway.held) == (0, [])


def test_a_push_above_the_size_limit_is_refused_with_a_message_and_not_kept(gateway, clone):
    gateway.settings["hosts.forge"]["most_bytes"] = 2 << 20
    gateway.start()
    (clone.folder / "large.bin").write_bytes(os.urandom(3 << 20))
    git_server.git(clone.folder, "add", "large.bin")
    clone.commit("a large file")
    told = clone.push("origin", "HEAD:main")
    assert told.returncode == 1
    assert "remote unpack failed: Counterfoil: the request was not kept: it is larger than 2097152 bytes" in told.stderr
    assert gateway.held == []
    assert list((gateway.state / "incoming").iterdir()) == []


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /forge/team/app.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: h\r\n", b"401"),
        ("POST /forge/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"400"),
        ("POST /forge/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 4\r\n", b"400"),
        ("POST /forge/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n", b"400"),
        ("POST /forge/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"400"),
        ("POST /forge/a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n", b"400"),
        ("GET /forge/a HTTP/1.0\r\nHost: h\r\n", b"400"),
        ("GET /forge/a HTTP/1.1\r\n", b"400"),
        ("GET /forge/a HTTP/1.1\r\nHost: h\r\nHost: i\r\n", b"400"),
        ("GET /forge/a HTTP/1.1\nHost: h\n", b"400"),
        ("GET /forge/a HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n", b"400"),
        ("GET /forge/a HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n", b"400"),
        ("GET /forge/../x HTTP/1.1\r\nHost: h\r\n", b"400"),
        ("GET /forge/%2e%2e/x HTTP/1.1\r\nHost: h\r\n", b"400"),
        ("GET //forge/x HTTP/1.1\r\nHost: h\r\n", b"400"),
        ("GET http://elsewhere/forge/x HTTP/1.1\r\nHost: h\r\n", b"400"),
        ("GET /forge/x HTTP/1.1\r\nHost: h\r\nX: " + "a" * 40_000 + "\r\n", b"4"),
        ("GET /forge/x HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization: b\r\n", b"400"),
    ],
)
def test_an_ambiguous_request_is_refused(started, head, status):
    with socket.create_connection(("127.0.0.1", started.port), timeout=LONG_S) as line:
        line.sendall(head.encode() + (b"\n" if "\r" not in head else b"\r\n"))
        answer = line.recv(100)
    assert answer.partition(b" ")[2].startswith(status), answer
    assert not any(each.endswith(("/a", "/x")) for each in started.host.seen)


@pytest.fixture(scope="module")
def started(house, host, tmp_path_factory):
    with new_gateway(house, host, tmp_path_factory.mktemp("shared"), "nobody") as made:
        yield made.start()


def test_a_credential_that_others_can_read_is_not_used(gateway, clone):
    gateway.start()
    os.chmod(gateway.folder / "forge.credential", 0o644)
    clone.commit("second")
    told = clone.push("origin", "HEAD:main")
    assert told.returncode == 128
    assert gateway.pushes == 0


def test_only_the_approved_bytes_are_sent(gateway, clone, house):
    gateway.start()
    clone.commit("another history", "--amend")
    assert clone.push("--force", "origin", "HEAD:main").returncode == 1
    (one,) = gateway.held
    with (gateway.state / "held" / one.id / "body").open("r+b") as body:
        body.seek(-1, os.SEEK_END)
        last = body.read(1)[0]
        body.seek(-1, os.SEEK_END)
        body.write(bytes([last ^ 1]))
    house.approve()
    told = clone.push("--force", "origin", "HEAD:main")
    assert told.returncode == 1, told.stderr
    assert "(nothing was sent: The stored bytes cannot be read: " in told.stderr
    assert gateway.pushes == 0
