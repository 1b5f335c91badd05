"""Damage by connections: too many of them, heads and bodies that do not come, and more than may be held."""

from __future__ import annotations

import base64
import socket
import time
from contextlib import ExitStack

import psutil
import pytest

from console.local.processes import wait_until
from tests.client.gateway.conftest import LONG_S, REPOSITORY

HEAD = f"POST /forge/{REPOSITORY}/git-receive-pack HTTP/1.1\r\nHost: h\r\nAuthorization: Basic %s\r\n"
PUSH = "Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 100000\r\n\r\n"


def connect(gateway, *, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S, source_address=(source, 0))


def connections_to(gateway):
    every = psutil.Process(gateway.child.pid).net_connections("tcp")
    return [each for each in every if each.laddr.port == gateway.port and each.status != psutil.CONN_LISTEN]


def answer(line):
    """Everything that comes until the gateway closes."""
    told = b""
    while piece := line.recv(4096):
        told += piece
    return told.decode()


def push_head(gateway):
    return (HEAD % base64.b64encode(f"agent:{gateway.token}".encode()).decode() + PUSH).encode()


def test_one_connection_too_many_is_answered_and_the_others_go_on(gateway):
    gateway.start(most_connections=6, most_per_address=4, head_s=LONG_S)
    # The one by which the start was seen may still be closing.
    assert wait_until(lambda: not connections_to(gateway), within_s=LONG_S)
    with ExitStack() as open_lines:
        mine = [open_lines.enter_context(connect(gateway)) for _ in range(4)]
        with connect(gateway) as refused:
            told = answer(refused)
        assert told.startswith("HTTP/1.1 503 "), told
        assert "Counterfoil: this gateway has 4 connections from your address, the most that it takes" in told
        assert "Retry-After" not in told
        [open_lines.enter_context(connect(gateway, source="127.0.0.2")) for _ in range(2)]
        with connect(gateway, source="127.0.0.3") as refused:
            assert "this gateway has 6 connections, the most that it takes" in answer(refused)
        mine[0].sendall(b"GET /forge HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert answer(mine[0]).startswith("HTTP/1.1 401 ")
        assert wait_until(gateway.answers, within_s=LONG_S)


def test_a_head_that_does_not_come_is_answered_with_408(gateway):
    gateway.start(head_s=1.0)
    with connect(gateway) as line:
        line.sendall(b"GET /forge HTTP/1.1\r\nHost: h\r\nX-Slow: ")
        begun = time.monotonic()
        told = answer(line)
    assert time.monotonic() - begun < LONG_S / 2
    assert told.startswith("HTTP/1.1 408 "), told
    assert "the head of the request did not arrive within 1 s; nothing was sent." in told


@pytest.mark.parametrize(
    ("drip", "says"),
    [(0, "nothing of it came for 1 s"), (40, "it came with less than 1024 bytes a second")],
)
def test_a_body_that_comes_too_slowly_is_refused_in_gits_words_and_not_held(gateway, drip, says):
    gateway.start(pause_s=1.0)
    with connect(gateway) as line:
        line.sendall(push_head(gateway) + b"0" * 100)
        for _ in range(drip):
            time.sleep(0.1)
            try:
                line.sendall(b"0")
            except OSError:
                break
        told = answer(line)
    assert says in told, told
    assert gateway.held == []
    assert list((gateway.state / "incoming").iterdir()) == []


def test_many_slow_bodies_take_little_memory_and_leave_the_gateway_answering(gateway):
    gateway.start(most_per_address=150, pause_s=LONG_S)
    before = psutil.Process(gateway.child.pid).memory_info().rss
    with ExitStack() as open_lines:
        for _ in range(100):
            line = open_lines.enter_context(connect(gateway))
            line.sendall(push_head(gateway) + b"0" * 50_000)
        assert wait_until(lambda: len(list((gateway.state / "incoming").iterdir())) == 100, within_s=LONG_S)
        assert gateway.answers()
        grown = psutil.Process(gateway.child.pid).memory_info().rss - before
    assert grown < 48 << 20, grown
    assert wait_until(lambda: not list((gateway.state / "incoming").iterdir()), within_s=LONG_S)


def test_an_agent_at_its_limit_may_still_send_what_is_held_and_nothing_else(gateway, clone, house):
    gateway.start(most_held=1)
    clone.commit("another history", "--amend")
    assert clone.push("--force", "origin", "HEAD:main").returncode == 1
    other = clone.push("--force", "origin", "HEAD:refs/heads/other")
    assert "the request was not kept: this agent has 1 open requests, the most that are held" in other.stderr
    house.approve()
    done = clone.push("--force", "origin", "HEAD:main")
    assert done.returncode == 0, done.stderr + gateway.log


def test_what_arrives_counts_for_the_bytes_that_are_held(gateway, clone):
    gateway.start(most_held_bytes=0)
    clone.commit("second")
    told = clone.push("origin", "HEAD:main")
    assert "the request was not kept: 0 bytes are held, the most that this gateway keeps" in told.stderr
    assert gateway.held == []
