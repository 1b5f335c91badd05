"""npm's own client through the gateway, to a real registry program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.local.processes import wait_until
from counterfoil.coding_agents.behind_gateway import GatedHost
from counterfoil.coding_agents.onboarding import default_places
from counterfoil.coding_agents.other_ways import try_ways
from counterfoil.gateway.credentials import new_token
from tests.client.coding_agents.gated import make_home
from tests.client.gateway.conftest import DONE, LONG_S, new_gateway, read_outcome, register_system
from tests.support.outside import npm_server
from tests.support.outside.git_server import GitServer

AGENTS = ("first", "tagger", "deprecator", "untagger", "ender", "remover")
LANTERN = "@team/lantern"


@pytest.fixture(scope="module")
def registry(house, tmp_path_factory):
    """A registry program, which the console reads as the system `npm`."""
    with npm_server.served(tmp_path_factory.mktemp("registry")) as server:
        register_system(house, "npm", {"url": server.url})
        yield server


@pytest.fixture(scope="module")
def gateway(house, registry, tmp_path_factory):
    """The gateway on https under its own authority; each agent has a session of its own."""
    folder = tmp_path_factory.mktemp("npm")
    told = {f"agents.{name}": {"goal": "Publish what was reviewed."} for name in AGENTS}
    told["hosts.npm"] = {"reader": "rules", "rules": "npm", "url": registry.url}
    with new_gateway(house, GitServer("", folder), folder, "publisher", told) as made:
        made.settings["gateway"]["tls_names"] = ["localhost"]
        made.url, made.verify = f"https://localhost:{made.port}", False
        (folder / "ca.pem").write_bytes(made.program("ca").stdout)
        yield made.start(hold_s=0.5)


@pytest.fixture
def npm(gateway, registry, house, tmp_path):
    """Run a command of npm as an agent: it waits, a person approves, and the same command goes through."""

    def run(agent, *words):
        token = new_token(gateway.state, agent)
        place, ca = f"{gateway.url}/npm/", str(gateway.folder / "ca.pem")
        waits = npm_server.run_npm(tmp_path, place, token, *words, ca=ca)
        assert waits.returncode == 1, waits.stdout + waits.stderr
        assert re.search(r"409 .*Counterfoil: waits for approval, send it again later: https?://", waits.stderr), (
            waits.stderr
        )
        held = held_by(agent)
        house.approve()
        done = []

        def is_answered():
            done.append(npm_server.run_npm(tmp_path, place, token, *words, ca=ca))
            return held_by(agent).answer_status

        # It is read once more before it is sent, which may take longer than the gateway holds npm's request.
        assert wait_until(is_answered, within_s=LONG_S), done[-1].stderr
        return done[-1], held_by(agent), read_outcome(house, held)

    def held_by(agent):
        return min((each for each in gateway.held if each.agent == agent), key=lambda each: each.at)

    def publish_directly(name):
        for version in ("1.0.0", "1.1.0"):
            npm_server.write_package(tmp_path, name, version)
            assert npm_server.run_npm(tmp_path, f"{registry.url}/", "any", "publish").returncode == 0
        return name

    run.folder, run.publish_directly = tmp_path, publish_directly
    return run


def test_each_change_that_npm_makes_waits_shows_what_it_does_and_is_made_once(npm, gateway, registry, house):
    npm_server.write_package(npm.folder, LANTERN, "1.0.0")
    done, held, sentence = npm("first", "publish", "--access", "public")
    assert done.returncode == 0, done.stderr + gateway.log
    assert (held.tool, held.arguments["package"], sentence) == ("npm.publish", LANTERN, DONE)
    action = house.operator.get(f"/actions/{held.action_id}")
    assert action["target"] == f"npm/{LANTERN}"
    published = registry.document(LANTERN)
    shown = {name: held.arguments[name] for name in ("name", "versions", "files", "tags", "access", "checksums")}
    assert shown == {
        "name": LANTERN,
        "versions": ["1.0.0"],
        "files": {"@team/lantern-1.0.0.tgz": held.arguments["files"]["@team/lantern-1.0.0.tgz"]},
        "tags": {"latest": "1.0.0"},
        "access": "public",
        "checksums": {"1.0.0": published["versions"]["1.0.0"]["dist"]["integrity"]},
    }


def test_a_tag_and_a_deprecation_wait_show_what_they_change_and_are_read_back(npm, registry):
    tagged, plain = npm.publish_directly("tagged"), npm.publish_directly("plain")
    done, held, sentence = npm("tagger", "dist-tag", "add", f"{tagged}@1.0.0", "stable")
    assert (done.returncode, held.tool, sentence) == (0, "npm.set_tag", DONE), done.stderr
    assert (held.arguments["tag"], held.arguments["version"]) == ("stable", "1.0.0")
    assert registry.document(tagged)["dist-tags"] == {"latest": "1.1.0", "stable": "1.0.0"}

    done, held, sentence = npm("deprecator", "deprecate", f"{plain}@1.0.0", "It leaks.")
    assert (done.returncode, held.tool, sentence) == (0, "npm.deprecate", DONE), done.stderr
    assert held.arguments["texts"] == {"1.0.0": "It leaks."}
    assert registry.document(plain)["versions"]["1.0.0"]["deprecated"] == "It leaks."


def test_what_is_removed_is_read_before_and_afterwards_and_only_then_called_done(npm, gateway, registry, house):
    untagged, removed, ended = (npm.publish_directly(name) for name in ("untagged", "removed", "ended"))
    registry.tag(untagged, "stable", "1.0.0")
    _, held, sentence = npm("untagger", "dist-tag", "rm", untagged, "stable")
    assert (held.tool, held.answer_status, sentence) == ("npm.remove_tag", 201, DONE)
    assert registry.document(untagged)["dist-tags"] == {"latest": "1.1.0"}

    _, held, sentence = npm("ender", "unpublish", ended, "--force")
    assert (held.tool, held.answer_status, sentence) == ("npm.unpublish", 201, DONE)
    assert registry.document(ended) == {}

    # The version is out of the list. The removal of its file is a request of its own, which waits; npm sends it only
    # if it was still there when the first one was answered.
    _, held, sentence = npm("remover", "unpublish", f"{removed}@1.1.0")
    assert (held.tool, held.arguments["versions_that_stay"], sentence) == ("npm.unpublish_version", ["1.0.0"], DONE)
    assert list(registry.document(removed)["versions"]) == ["1.0.0"]
    if sum(each.agent == "remover" for each in gateway.held) > 1:
        house.decide("reject", "The file may stay.")


def test_npm_says_itself_whether_a_real_registry_knows_it(registry, tmp_path, monkeypatch):
    home = make_home(tmp_path, monkeypatch)
    npm = GatedHost(name="host", url=registry.url, reads="npm", at="http://127.0.0.1:9/host")
    way, place = f"npm at {registry.url}", registry.url.partition(":")[2]

    def tried():
        return {each.way: (str(each.state), each.why) for each in try_ways(npm, default_places(), Path.cwd())}

    token = registry.add_user("ada", "word-of-ada")
    (home / ".npmrc").write_text(f"{place}/:_authToken={token}\n")
    assert tried() == {way: ("OPEN", "npm is signed in as ada")}
    (home / ".npmrc").write_text(f"{place}/:_authToken=old\n")
    # This registry program answers anybody, and names nobody.
    ((_, (state, why)),) = tried().items()
    assert (state, why) == ("not known", "npm has no credential for it; the host answered with 200")
