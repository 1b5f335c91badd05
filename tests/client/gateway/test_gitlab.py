"""GitLab's REST API through the gateway, to a small forge in its documented shape, which the console reads back."""

from __future__ import annotations

import json

import httpx
import pytest

from console.local.processes import wait_until
from counterfoil.gateway.credentials import new_token
from counterfoil.gateway.reader import Head, Keeps, KeptBody, WordedAnswer
from counterfoil.gateway.rules import RulesReader
from counterfoil.gateway.settings import HostSettings
from ledger.key_files import write_private
from tests.client.gateway.conftest import CREDENTIAL, DONE, LONG_S, new_gateway, read_outcome, register_system
from tests.support.outside import gitlab
from tests.support.outside.git_server import GitServer

ANSWERED = "The tool has answered. Whether it is so is still being checked."
WAITS_THERE = "Accepted by the source, and not carried out yet: merge."
REVIEWED = "Not settled. It waits for a person to review it."
PROJECT = "gitlab/projects/team%2Fapp"
AGENTS = ("merger", "patient", "maker", "runner", "idle", "hasty")


@pytest.fixture(scope="module")
def forge(house, tmp_path_factory):
    with gitlab.served(tmp_path_factory.mktemp("gitlab")) as server:
        server.head = server.project(tmp_path_factory.mktemp("work"))
        register_system(house, "gitlab", {"url": server.url, "token": server.token}, pattern="forge")
        yield server


@pytest.fixture(scope="module")
def gateway(house, forge, tmp_path_factory):
    """The gateway; each agent has a session of its own."""
    folder = tmp_path_factory.mktemp("gateway")
    told = {f"agents.{name}": {"goal": "Merge what was reviewed."} for name in AGENTS}
    told["hosts.gitlab"] = {"reader": "rules", "rules": "gitlab", "url": forge.url, "scheme": "bearer"}
    told["hosts.gitlab"]["credential_file"] = str(folder / "gitlab.token")
    write_private(folder / "gitlab.token", CREDENTIAL + "\n")
    with new_gateway(house, GitServer("", folder), folder, "keeper", told) as made:
        made.tokens = {name: new_token(made.state, name) for name in AGENTS}
        yield made.start(hold_s=3.0)


def send(gateway, agent, method, path, document=None):
    headers = {"Authorization": f"Bearer {gateway.tokens[agent]}"}
    return httpx.request(method, f"{gateway.url}/{PROJECT}/{path}", json=document, headers=headers, timeout=LONG_S)


def carry_out(gateway, house, *words):
    """Send a request that waits, approve it and send it again; return its answer and what is held of it."""
    waits = send(gateway, *words).json()["message"]
    assert waits.startswith("Counterfoil: waits for approval"), waits
    (held,) = (each for each in gateway.held if each.agent == words[0] and not each.answer_status)
    house.approve()
    return send(gateway, *words), held


def test_a_merge_is_called_done_once_gitlab_says_so_itself_and_not_by_an_outage_or_a_limit(gateway, forge, house):
    forge.request(1)
    refused = [(429, {"message": "Retry later"}, {"Retry-After": "1"}), (502, {"message": "502 Bad Gateway"}, {})]
    forge.before = lambda method, _: refused.pop() if method == "GET" and refused else None
    done, held = carry_out(gateway, house, "merger", "PUT", "merge_requests/1/merge", {"sha": forge.head})
    assert (done.status_code, done.json()["state"], held.tool) == (200, "merged", "gitlab.merge")
    assert (read_outcome(house, held), refused) == (DONE, [])
    forge.before = None


@pytest.mark.parametrize(("agent", "number"), [("idle", 4), ("hasty", 5)])
def test_a_merge_that_gitlab_only_claims_or_makes_of_another_head_waits_for_a_person(
    gateway, forge, house, agent, number
):
    forge.request(number)

    def claim_it(method, _):
        if method != "PUT":
            return None
        if agent == "hasty":
            forge.merge(number)
            forge.requests[number]["sha"] = "0" * 40
        return 200, {"state": "merged"}

    forge.before = claim_it
    done, held = carry_out(gateway, house, agent, "PUT", f"merge_requests/{number}/merge", {"sha": forge.head})
    assert (done.json()["state"], read_outcome(house, held)) == ("merged", REVIEWED)
    forge.before = None


def test_a_merge_that_gitlab_makes_when_checks_pass_is_open_until_gitlab_has_merged(gateway, forge, house):
    forge.request(2)
    words = ("patient", "PUT", "merge_requests/2/merge", {"sha": forge.head, "auto_merge": True})
    done, held = carry_out(gateway, house, *words)
    assert (done.status_code, done.json()["state"]) == (200, "opened")

    def reasons():
        events = house.operator.items(f"/actions/{held.action_id}/history")
        return [event["detail"].get("reason", "") for event in events]

    assert wait_until(lambda: WAITS_THERE in reasons(), within_s=LONG_S), reasons()
    assert house.operator.get(f"/actions/{held.action_id}/report")["text"] == ANSWERED
    forge.finish_checks(2)
    assert read_outcome(house, held) == DONE


@pytest.mark.parametrize(
    ("more", "tool"),
    [
        ({}, "gitlab.merge"),
        ({"auto_merge": True}, "gitlab.merge_when_checks_pass"),
        ({"merge_when_pipeline_succeeds": True}, "gitlab.merge_when_pipeline_succeeds"),
        ({"auto_merge": False}, "refused: automatic is not as its rule has it: True"),
        ({"auto_merge": True, "merge_when_pipeline_succeeds": True}, "its rule does not list /merge_when_pipeline"),
    ],
)
def test_whether_gitlab_merges_now_or_later_is_the_choice_between_two_tools(tmp_path, more, tool):
    made = RulesReader("gitlab", HostSettings(reader="rules", url="https://gitlab.example.org/api/v4", rules="gitlab"))
    head = Head("PUT", "projects/42/merge_requests/7/merge", "", {"content-type": "application/json"})
    assert isinstance(made.admit(head), Keeps)
    (tmp_path / "body").write_text(json.dumps({"sha": "a" * 40, **more}))
    read = made.read(head, KeptBody(tmp_path / "body", "0" * 64, (tmp_path / "body").stat().st_size))
    if isinstance(read, WordedAnswer):
        assert (read.status, tool in json.loads(read.body)["message"]) == (422, True)
        return
    assert read.tool == tool

    class Held:
        tool, shape = read.tool, read.shape

    now = "success" if tool == "gitlab.merge" else "accepted"
    assert [made.judge(Held, status, "", b"{}").status for status in (200, 405, 502)] == [now, "failed", "timeout"]


def test_branches_tags_and_releases_are_read_back_each_time(gateway, forge, house):
    for words, status in (
        (("POST", "repository/branches", {"branch": "team/next", "ref": forge.head}), 201),
        (("DELETE", "repository/branches/team%2Fnext"), 204),
        (("POST", "repository/tags", {"tag_name": "v1", "ref": forge.head, "message": "One"}), 201),
        (("POST", "releases", {"tag_name": "v1", "name": "One", "description": "The first."}), 201),
    ):
        done, held = carry_out(gateway, house, "maker", *words)
        assert (done.status_code, read_outcome(house, held)) == (status, DONE), (words, gateway.log)


def test_a_pipeline_is_read_back_by_its_number_and_without_one_a_person_settles_it(gateway, forge, house):
    forge.pipelines[999] = {"id": 999, "ref": "main", "sha": forge.head, "status": "success"}
    done, held = carry_out(gateway, house, "runner", "POST", "pipeline", {"ref": "main"})
    assert (done.status_code, read_outcome(house, held)) == (201, DONE)
    forge.before = lambda method, path: (201, {"web_url": "somewhere"}) if method == "POST" else None
    done, held = carry_out(gateway, house, "runner", "POST", "pipeline", {"ref": "better"})
    assert (done.status_code, read_outcome(house, held)) == (201, REVIEWED)
    forge.before = None
