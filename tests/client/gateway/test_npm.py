"""npm's own client through the gateway, to a real registry program."""

from __future__ import annotations

import re

import pytest

from counterfoil.gateway.credentials import new_token
from tests.client.gateway.conftest import new_gateway
from tests.support.outside import npm_server
from tests.support.outside.git_server import GitServer

AGENTS = ("first", "tagger", "deprecator", "remover", "ender")
LANTERN = "@team/lantern"


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with npm_server.served(tmp_path_factory.mktemp("registry")) as server:
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
        held = next(each for each in gateway.held if each.agent == agent)
        house.approve()
        done = npm_server.run_npm(tmp_path, place, token, *words, ca=ca)
        return done, held

    def publish_directly(name):
        for version in ("1.0.0", "1.1.0"):
            npm_server.write_package(tmp_path, name, version)
            assert npm_server.run_npm(tmp_path, f"{registry.url}/", "any", "publish").returncode == 0
        return name

    run.folder, run.publish_directly = tmp_path, publish_directly
    return run


def test_each_change_that_npm_makes_waits_shows_what_it_does_and_is_made_once(npm, gateway, registry):
    npm_server.write_package(npm.folder, LANTERN, "1.0.0")
    done, held = npm("first", "publish", "--access", "public")
    assert done.returncode == 0, done.stderr + gateway.log
    assert held.tool == "npm.publish"
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


def test_tags_deprecation_and_removal_wait_and_show_what_they_change(npm, registry, gateway):
    tagged, plain, removed, ended = (npm.publish_directly(name) for name in ("tagged", "plain", "removed", "ended"))
    done, held = npm("tagger", "dist-tag", "add", f"{tagged}@1.0.0", "stable")
    assert (done.returncode, held.tool) == (0, "npm.set_tag"), done.stderr
    assert (held.arguments["tag"], held.arguments["version"]) == ("stable", "1.0.0")
    assert registry.document(tagged)["dist-tags"] == {"latest": "1.1.0", "stable": "1.0.0"}

    done, held = npm("deprecator", "deprecate", f"{plain}@1.0.0", "It leaks.")
    assert (done.returncode, held.tool, held.arguments["texts"]) == (0, "npm.deprecate", {"1.0.0": "It leaks."})
    assert registry.document(plain)["versions"]["1.0.0"]["deprecated"] == "It leaks."

    done, held = npm("remover", "unpublish", f"{removed}@1.1.0")
    assert (held.tool, held.arguments["versions_that_stay"]) == ("npm.unpublish_version", ["1.0.0"])
    # This registry program answers the removal of one version with 404, without the gateway as well.
    assert next(each for each in gateway.held if each.id == held.id).answer_status in (201, 404)

    done, held = npm("ender", "unpublish", ended, "--force")
    assert (done.returncode, held.tool) == (0, "npm.unpublish"), done.stderr
    assert registry.document(ended) == {}
