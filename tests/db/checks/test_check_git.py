"""Refs of a real repository, read from git's own HTTP backend."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reviews.checks.development.git import GitCheck, read_refs
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.support.outside import git_server
from tests.support.outside.git_server import commit, git

CHECK = GitCheck()
PUSH = {"repository": "sr.repository", "ref": "sr.ref", "commit": "sr.commit"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with git_server.served(tmp_path_factory.mktemp("served")) as found:
        found.repository("team/app.git")
        yield found


@pytest.fixture(scope="module")
def clone(server, tmp_path_factory):
    return server.clone("team/app.git", tmp_path_factory.mktemp("work") / "app")


def look(server, part, *, url=None, settings=None, pre=None, **asked):
    asked = {"repository": "team/app.git", "ref": "refs/heads/main"} | asked
    return CHECK.read(
        system=SystemAccess("git", "git", {"url": url or server.url, **(settings or {})}),
        verification={"lookup": {"effects": {"ref": part}}},
        bindings={"sr": asked, "pre": {"effects": {"ref": pre}} if pre else {}},
        at=datetime.now(UTC),
        timeout_s=20,
    )


def test_a_branch_that_points_at_the_commit_counts_as_pushed(server, clone):
    wanted = commit(clone, "second")
    before = git(clone, "rev-parse", "HEAD~1")
    reading = look(server, PUSH, commit=wanted)
    assert (reading.effects[0].present, reading.effects[0].fields["commit"]) == (False, before)
    git(clone, "push", "-q", "origin", "HEAD:main")
    reading = look(server, PUSH, commit=wanted)
    assert reading.effects[0].present
    assert reading.effects[0].fields == {"repository": "team/app.git", "ref": "refs/heads/main", "commit": wanted}
    assert reading.consistency is Consistency.STRONG
    assert wanted in reading.freshness


def test_a_branch_moved_by_another_push_is_distinguished_from_an_unmoved_one(server, clone):
    there = git(clone, "rev-parse", "origin/main")
    unmoved = look(server, PUSH, commit="0" * 40, pre={"commit": there})
    moved = look(server, PUSH, commit="0" * 40, pre={"commit": "1" * 40})
    assert (unmoved.effects[0].present, unmoved.indicators) == (False, ())
    assert (moved.effects[0].present, moved.indicators) == (False, ("stale_state",))


def test_a_deletion_is_present_only_once_the_branch_is_gone(server, clone):
    part = {"repository": "sr.repository", "ref": "sr.ref", "expect": "absent"}
    git(clone, "push", "-q", "origin", "HEAD:refs/heads/old")
    assert not look(server, part, ref="refs/heads/old").effects[0].present
    git(clone, "push", "-q", "origin", ":refs/heads/old")
    assert look(server, part, ref="refs/heads/old").effects[0].present


def test_an_empty_repository_has_no_refs(server):
    server.repository("team/empty.git")
    assert not look(server, PUSH, repository="team/empty.git", commit="0" * 40).effects[0].present


@pytest.mark.parametrize(
    ("asked", "settings", "says"),
    [
        ({"repository": "team/none.git"}, {}, "answered 404 and no list of refs"),
        ({"repository": "../team/app.git"}, {}, "names nothing"),
        ({"repository": "team/other.git"}, {"repositories": ["team/app.git"]}, "not among the repositories"),
        ({"ref": "HEAD"}, {}, "neither a branch nor a tag"),
        ({"ref": "refs/heads/a b"}, {}, "neither a branch nor a tag"),
        ({"commit": "main"}, {}, "names no commit"),
    ],
)
def test_a_failed_lookup_does_not_count_as_absence(server, asked, settings, says):
    with pytest.raises(CheckFailed, match=says) as failed:
        look(server, PUSH, settings=settings, **({"commit": "0" * 40} | asked))
    assert not failed.value.retryable


def test_a_server_that_does_not_answer_is_an_outage(server):
    with pytest.raises(CheckFailed, match="did not answer") as failed:
        look(server, PUSH, url="http://127.0.0.1:9", commit="0" * 40)
    assert failed.value.retryable


WHOLE = b"001e# service=git-upload-pack\n0000003d" + b"1" * 40 + b" refs/heads/main\n0000"


def test_an_incomplete_list_of_refs_gives_no_answer():
    assert read_refs(WHOLE) == {"refs/heads/main": "1" * 40}
    for end in range(len(WHOLE)):
        with pytest.raises(CheckFailed):
            read_refs(WHOLE[:end])
    for other in (
        b"<html>",
        b"001e# service=git-upload-pack\n0000000bno ref\n0000",
        WHOLE.replace(b"1" * 40, b"z" * 40),
    ):
        with pytest.raises(CheckFailed):
            read_refs(other)


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"ref": "sr.ref", "commit": "sr.commit"}, "lookup/effects/ref/repository must be an expression."),
        (PUSH | {"expect": "absent"}, "must have either the commit that it should have, or expect absent"),
        ({"repository": "sr.r", "ref": "sr.ref"}, "must have either the commit"),
        (PUSH | {"branch": "sr.b"}, "has an unknown field `branch`"),
        (PUSH | {"expect": "maybe"}, "expect is either present or absent"),
        (PUSH | {"expect": {}}, "expect is either present or absent"),
    ],
)
def test_an_invalid_lookup_is_reported_at_registration(part, fault):
    faults = CHECK.validate({"lookup": {"effects": {"ref": part}}})
    assert any(fault in each for each in faults), faults


@pytest.mark.parametrize(
    ("remote", "is_read"),
    [
        ("{url}/team/app.git", True),
        ("ssh://git@127.0.0.1:2222/team/app.git", True),
        ("git@127.0.0.1:team/app.git", True),
        ("https://mirror.example.org/team/app.git", False),
        ("http://127.0.0.1:1/team/app.git", False),
        ("git@mirror.example.org:team/app.git", False),
        ("/srv/git/team/app.git", False),
        ("http://[broken/team/app.git", False),
    ],
)
def test_a_push_to_another_host_is_not_settled_by_a_repository_of_the_same_path(server, remote, is_read):
    gone = {"repository": "sr.repository", "ref": "sr.ref", "expect": "absent"}
    asked = {"remote": remote.format(url=server.url), "ref": "refs/heads/never-there"}
    if is_read:
        assert look(server, gone, **asked).effects[0].present
        return
    with pytest.raises(CheckFailed, match=r"This system reads 127\.0\.0\.1:") as refused:
        look(server, gone, **asked)
    assert not refused.value.retryable


def test_a_host_that_an_administrator_names_holds_the_same_repositories(server):
    gone = {"repository": "sr.repository", "ref": "sr.ref", "expect": "absent"}
    asked = {"remote": "git@push.example.org:team/app.git", "ref": "refs/heads/never-there"}
    assert look(server, gone, settings={"hosts": ["push.example.org"]}, **asked).effects[0].present
