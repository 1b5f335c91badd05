"""Requests that end while no client waits: the next same request gets that end, and is no request of its own."""

from __future__ import annotations

import signal
import time

import httpx
import pytest

from console.local.processes import wait_until
from counterfoil.gateway.held import KEPT_S, UNTOLD_S, HeldState
from tests.client.gateway.conftest import LONG_S
from tests.client.gateway.test_held import keep, opened
from tests.client.gateway.test_rules import forge, index, new_gateway_of_rules, request
from tests.support.outside import git_server

__all__ = ["forge", "index", "opened"]


def test_an_end_is_found_by_the_next_same_request_until_a_client_has_had_it(opened, tmp_path):
    held = opened(tmp_path)
    for state in (HeldState.ANSWERED, HeldState.REPORTED, HeldState.REFUSED, HeldState.SETTLED):
        one = held.write(keep(held), state)
        assert held.find(one.key) == one
        held.note_told(one.id)
        assert held.find(one.key) is None
        held.erase(held.get(one.id))


def test_an_end_that_no_client_has_had_is_kept_for_a_week_and_over_a_restart(opened, tmp_path):
    held = opened(tmp_path)
    held.write(keep(held), HeldState.REFUSED, why="rejected")
    held.close()
    held, now = opened(tmp_path), time.time()
    held.sweep(now + KEPT_S + 60)
    assert held.find("coder key").why == "rejected"
    held.sweep(now + UNTOLD_S + 60)
    assert held.all() == []
    held.write(keep(held), HeldState.REFUSED, told=True)
    held.sweep(time.time() + KEPT_S + 60)
    assert held.all() == []


def test_a_rejection_while_the_gateway_was_down_is_what_the_next_push_hears(gateway, clone, house):
    gateway.start()
    clone.commit("another history", "--amend")
    assert "waits for approval" in clone.push("--force", "origin", "HEAD:main").stderr
    assert gateway.child is not None
    gateway.child.send_signal(signal.SIGKILL)
    house.decide("reject", "Keep the history.")
    gateway.start()
    assert wait_until(lambda: [each.state for each in gateway.held] == ["refused"], within_s=LONG_S)
    heard = clone.push("--force", "origin", "HEAD:main")
    assert heard.returncode == 1
    assert "! [remote rejected] HEAD -> main (rejected by a reviewer: Keep the history." in heard.stderr
    assert (house.reviewer.items("/approvals", state="REQUESTED"), len(gateway.held)) == ([], 1)
    # It was heard; the same push now is another one.
    assert "Keep the history." not in clone.push("--force", "origin", "HEAD:main").stderr
    assert len(gateway.held) == 2


def test_a_request_whose_answer_was_not_heard_gets_it_when_it_is_sent_again_and_is_made_once(
    house, forge, index, tmp_path
):
    with (
        git_server.served(tmp_path) as host,
        new_gateway_of_rules(house, host, tmp_path, forge, index) as gateway,
    ):
        words = ("POST", "github/repos/team/app/git/refs", {"ref": "refs/heads/unheard", "sha": forge.head})
        assert request(gateway, *words).status_code == 409
        house.approve()
        gateway.stop()
        gateway.start(kill_at="answered")
        with pytest.raises(httpx.TransportError):
            request(gateway, *words)
        made = [each for each in forge.changes if each[2] == words[2]]
        gateway.start(kill_at="")
        again = request(gateway, *words)
        assert (again.status_code, again.json()["ref"]) == (201, "refs/heads/unheard")
        assert [each for each in forge.changes if each[2] == words[2]] == made
        assert len(made) == 1
        # A client that has had the answer makes another request.
        assert request(gateway, *words).status_code == 409
        house.decide("reject", "The branch is there.")
