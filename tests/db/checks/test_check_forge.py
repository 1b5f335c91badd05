"""Merges and releases by real gh, proposed and read back; the forge is the tests' own, in the shape of GitHub's API."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal
from reviews.checks.development.forge import ForgeCheck
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.support.outside import forge as forges
from tests.support.outside.git_server import QUIET, commit, git

CHECK = ForgeCheck()
UNKNOWN = ": what it would change cannot be known in advance"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    found = tmp_path_factory.mktemp("forge")
    with forges.served(found) as forge:
        yield forge


@pytest.fixture
def forge(root, tmp_path, monkeypatch):
    """A repository with a pull request 7 of a branch `better`, and a clone of it."""
    name = f"team/{uuid4().hex[:8]}"
    bare = root.root / f"{name}.git"
    bare.mkdir(parents=True)
    git(bare, "init", "-q", "--bare", "-b", "main")
    git(tmp_path, "clone", "-q", str(bare), "app")
    work = tmp_path / "app"
    for branch in ("main", "better"):
        commit(work, branch)
        git(work, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
    git(work, "remote", "set-url", "origin", f"http://{forges.HOST}/{name}.git")
    for variable, value in (root.environment | QUIET | {"HOME": str(tmp_path)}).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    root.name, root.work, root.head = name, work, root.pull(name, 7, "better")
    return root


def ran(forge, command):
    done = subprocess.run(command.split(), cwd=forge.work, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def look(server, effect, reads, **settings):
    settings = {"url": server.url, "forge": forges.HOST} | settings
    return CHECK.read(
        system=SystemAccess("forge", "forge", settings, {"url": settings["url"], "token": server.token}),
        verification={"lookup": {"effects": {"it": {"reads": reads}}}},
        bindings={"sr": effect.arguments},
        at=datetime.now(UTC),
        timeout_s=10,
    )


@pytest.mark.parametrize("method", ["merge", "squash"])
def test_a_merge_is_read_back_as_the_proposed_commit_in_the_base_branch(forge, method):
    command = f"gh pr merge 7 --{method} --match-head-commit {forge.head}"
    forge.asked.clear()
    effect = read_command(command, forge.work)
    assert set(forge.asked) == {"GET"}
    assert (effect.tool, effect.arguments) == (
        "forge_merge",
        {
            "host": forges.HOST,
            "repository": forge.name,
            "number": 7,
            "head_commit": forge.head,
            "base": "main",
            "method": method,
        },
    )
    assert not look(forge, effect, "merge").effects[0].present
    ran(forge, command)
    reading = look(forge, effect, "merge")
    shown = reading.effects[0]
    assert (shown.present, shown.fields["head"], shown.fields["contained"]) == (True, forge.head, True)
    assert shown.fields["merged_as"] == forge.git(forge.name, "rev-parse", "main")
    assert reading.consistency is Consistency.STRONG
    forge.git(forge.name, "update-ref", "refs/heads/main", "main^1")
    assert not look(forge, effect, "merge").effects[0].fields["contained"]
    with pytest.raises(Refusal, match="Pull request 7 is merged already"):
        read_command(command, forge.work)


def test_a_merge_without_the_current_head_commit_is_refused_with_the_command_to_send(forge):
    whole = f"`gh pr merge 7 --squash --match-head-commit {forge.head}`"
    for words in ("", f" --match-head-commit {'0' * 40}"):
        with pytest.raises(Refusal, match="so that no other one is merged") as refused:
            read_command(f"gh pr merge -s 7 -R {forges.HOST}/{forge.name}{words}", forge.work.parent)
        assert whole in str(refused.value)


def test_the_forge_does_not_merge_a_head_that_moved_after_the_approval(forge):
    command = f"gh pr merge 7 --merge --match-head-commit {forge.head}"
    effect = read_command(command, forge.work)
    forge.git(forge.name, "update-ref", "refs/heads/better", "refs/heads/main")
    done = subprocess.run(command.split(), cwd=forge.work, capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert "Head branch was modified" in done.stderr
    assert not look(forge, effect, "merge").effects[0].present


def test_a_release_of_a_pushed_tag_is_read_back_by_the_digests_of_its_files(forge):
    (forge.work / "app.zip").write_bytes(b"the files")
    command = "gh release create v1.0 --verify-tag --title One --notes-file notes.md --prerelease app.zip"
    with pytest.raises(Refusal, match="gh cannot say what this would change: gh: Not Found"):
        read_command(command, forge.work)
    tagged = forge.git(forge.name, "rev-parse", "main")
    forge.git(forge.name, "-c", "user.name=Ada", "-c", "user.email=a@b", "tag", "-a", "-m", "One", "v1.0", "main")
    effect = read_command(command, forge.work)
    assets = [{"name": "app.zip", "sha256": hashlib.sha256(b"the files").hexdigest()}]
    asked = {"tag": "v1.0", "commit": tagged, "prerelease": True, "assets": assets, "count": 1}
    assert (effect.tool, effect.arguments) == (
        "forge_release",
        {"host": forges.HOST, "repository": forge.name} | asked,
    )
    assert not look(forge, effect, "release").effects[0].present
    ran(forge, command)
    shown = look(forge, effect, "release").effects[0]
    assert (shown.present, shown.fields["commit"], shown.fields["differing"]) == (True, tagged, 0)
    assert (shown.fields["repository"], shown.fields["prerelease"]) == (forge.name, True)
    release = list(forge.releases.values())[-1]
    release["assets"].append(release["assets"][0] | {"name": "more.zip"})
    assert look(forge, effect, "release").effects[0].fields["differing"] == 1
    release["assets"][0]["digest"] = None
    with pytest.raises(CheckFailed, match="without its sha256"):
        look(forge, effect, "release")


def test_another_forge_and_an_unreadable_repository_do_not_count_as_absence(forge):
    effect = read_command(f"gh pr merge 7 -m --match-head-commit {forge.head}", forge.work)
    with pytest.raises(CheckFailed, match="This is the forge other; the command ran on"):
        look(forge, effect, "merge", forge="other")
    with pytest.raises(CheckFailed, match="is not among the repositories that may be read"):
        look(forge, effect, "merge", repositories=["team/other"])
    effect.arguments["repository"] = "team/hidden"
    with pytest.raises(CheckFailed, match="is not there, or this credential may not read it") as failed:
        look(forge, effect, "merge")
    assert not failed.value.retryable


def look_at_ref(server, pre=None, **asked):
    part = {"reads": "ref", "host": "sr.api", "repository": "sr.owner + '/' + sr.repo"}
    part |= {"expect": "absent"} if asked.pop("gone", False) else {}
    owner, _, repo = server.name.partition("/")
    return CHECK.read(
        system=SystemAccess("forge", "forge", {"url": server.url}, {"token": server.token}),
        verification={"lookup": {"effects": {"it": part}}},
        bindings={"sr": {"api": server.url, "owner": owner, "repo": repo} | asked, "pre": pre or {}},
        at=datetime.now(UTC),
        timeout_s=10,
    )


def test_a_ref_is_read_back_by_its_object_and_one_that_another_moved_is_stale(forge):
    main, ref = forge.git(forge.name, "rev-parse", "main"), "refs/heads/better"
    assert look_at_ref(forge, ref=ref, commit=forge.head).effects[0].present
    before = {"effects": {"it": {"commit": forge.head}}}
    unmoved = look_at_ref(forge, before, ref=ref, commit=main)
    assert (unmoved.effects[0].present, unmoved.indicators) == (False, ())
    forge.git(forge.name, "update-ref", ref, "refs/heads/main~0")
    moved = look_at_ref(forge, before, ref=ref, commit="0" * 40)
    assert (moved.effects[0].present, moved.indicators) == (False, ("stale_state",))
    assert not look_at_ref(forge, ref=ref, gone=True).effects[0].present
    assert look_at_ref(forge, ref="refs/heads/none", gone=True).effects[0].present
    assert not look_at_ref(forge, ref="refs/heads/none", commit=main).effects[0].present
    forge.git(forge.name, "update-ref", "refs/heads/fix#7/größer", main)
    assert look_at_ref(forge, ref="refs/heads/fix#7/größer", commit=main).effects[0].present


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"ref": "refs/heads/a%2Fb", "commit": "0" * 40}, "is no branch or tag with a plain name"),
        ({"ref": "refs/pull/7/head", "commit": "0" * 40}, "is no branch or tag with a plain name"),
        ({"ref": "refs/heads/main", "commit": "main"}, "names no object"),
        ({"ref": "refs/heads/main", "gone": True, "repo": "hidden"}, "this credential may not read it"),
        ({"ref": "refs/heads/main", "gone": True, "api": "https://api.example.org"}, "This is the forge"),
    ],
)
def test_a_ref_that_cannot_be_looked_up_counts_neither_as_there_nor_as_gone(forge, asked, says):
    with pytest.raises(CheckFailed, match=says):
        look_at_ref(forge, **asked)


def test_a_draft_and_a_number_that_is_none_are_not_looked_up(forge):
    for reads, asked, says in (
        ("release", {"tag": "v1", "draft": True}, "cannot be found by its tag"),
        ("merge", {"number": "../7"}, "is no number of a pull request"),
    ):
        effect = SimpleNamespace(arguments={"host": forges.HOST, "repository": forge.name} | asked)
        with pytest.raises(CheckFailed, match=says):
            look(forge, effect, reads)


def look_at_node(server, node, **settings):
    return CHECK.read(
        system=SystemAccess("forge", "forge", {"url": server.url} | settings, {"token": server.token}),
        verification={"lookup": {"effects": {"it": {"reads": "merge", "host": "sr.host", "node": "sr.pull_request"}}}},
        bindings={"sr": {"host": server.url, "pull_request": node}},
        at=datetime.now(UTC),
        timeout_s=10,
    )


def test_a_pull_request_that_is_named_by_its_node_id_is_read_as_one_that_is_named_by_its_number(forge):
    reading = look_at_node(forge, f"{forge.name}#7")
    assert (reading.effects[0].present, reading.effects[0].fields["head"]) == (False, forge.head)
    assert reading.pointer == f"{forge.name} #7"
    ran(forge, f"gh pr merge 7 --squash --match-head-commit {forge.head}")
    shown = look_at_node(forge, f"{forge.name}#7").effects[0]
    assert (shown.present, shown.fields["contained"]) == (True, True)
    with pytest.raises(CheckFailed, match="is not among the repositories that may be read"):
        look_at_node(forge, f"{forge.name}#7", repositories=["team/other"])
    with pytest.raises(CheckFailed, match="names no pull request that this credential may read") as failed:
        look_at_node(forge, f"{forge.name}#8")
    assert not failed.value.retryable


@pytest.mark.parametrize(
    "told", [{"errors": [{"type": "RATE_LIMITED"}]}, {"errors": [{"message": "it broke"}], "data": {"node": None}}, {}]
)
def test_a_node_that_github_does_not_tell_now_is_asked_for_again(forge, monkeypatch, told):
    monkeypatch.setattr(forges, "_graphql", lambda *_: told)
    with pytest.raises(CheckFailed, match="and not what ") as failed:
        look_at_node(forge, f"{forge.name}#7")
    assert failed.value.retryable


@pytest.mark.parametrize(
    "command",
    ["gh pr create --fill", "gh pr view 7 --json state | jq .", "gh release list && gh release view v1",
     "gh pr merge --help", "gh api repos/team/app/releases/latest", "gh api -X GET repos/team/app/pulls/7/merge",
     "gh api repos/team/app/releases --paginate -q .[].tag_name",
     "gh issue comment 7 -b merge", "git merge main", "gh api repos/team/app/issues -f title=merge"],
)  # fmt: skip
def test_commands_that_neither_merge_nor_release_are_ignored(command, tmp_path):
    assert read_command(command, tmp_path) is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("gh pr merge", "Name one pull request by its number"),
        ("gh pr merge better --squash", "Name one pull request by its number"),
        ("gh pr merge 7", "Name one pull request by its number, and the merge method"),
        ("gh pr merge 7 --squash --auto", f"Send it without --auto{UNKNOWN}"),
        ("gh pr merge 7 --squash --admin", f"Send it without --admin{UNKNOWN}"),
        ("gh pr merge 7 -sd", f"Send it without -d{UNKNOWN}"),
        ("gh pr merge 7 --squash && git pull", "Send `gh` as a command of its own"),
        ("gh -R a/b pr merge 7 --force", f"Send it without --force{UNKNOWN}"),
        ("bash -c 'gh pr merge 7 --squash'", "Send `gh` as a command of its own"),
        ("gh release create v1 --notes x", "Push the tag first"),
        ("gh release create v1 --verify-tag --draft", f"Send it without --draft{UNKNOWN}"),
        ("gh release create v1 --target main", f"Send it without --target{UNKNOWN}"),
        ("gh release delete v1 --yes", "Not recognised: what this `gh release` changes"),
        ("gh release edit v1 --draft=false", "Not recognised: what this `gh release` changes"),
        ("gh api -X PUT repos/team/app/pulls/7/merge", "Not recognised: what this `gh api` changes"),
        ("gh api -iXPUT repos/team/app/pulls/7/merge", "Not recognised: what this `gh api` changes"),
        ("gh api -X PUT -q GET repos/team/app/pulls/7/merge", "Not recognised: what this `gh api` changes"),
        ("gh api -X PUT repos/team/app/pulls/7/%6derge", "Not recognised: what this `gh api` changes"),
        ("gh api repos/team/app/releases -f tag_name=v1", "Not recognised: what this `gh api` changes"),
        ("gh api graphql -f 'query=mutation{mergePullRequest(input:{}){clientMutationId}}'", "Not recognised"),
    ],
)
def test_commands_that_cannot_be_held_are_refused_with_a_reason(tmp_path, command, says):
    with pytest.raises(Refusal, match=says):
        read_command(command, tmp_path)


def test_an_invalid_lookup_is_reported():
    faults = CHECK.validate(
        {"lookup": {"effects": {"it": {"reads": "tag", "number": "sr.number", "title": "sr.title"}}}}
    )
    assert "lookup/effects/it/reads is either merge or release or ref or pipeline." in faults
    assert any("unknown field `title`" in fault for fault in faults)
