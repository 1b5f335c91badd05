"""Merges, refs, releases and pipelines of GitLab by the check `forge`; the forge is the tests' own, and no GitLab."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reviews.checks.development.forge import ForgeCheck
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.support.outside import gitlab

CHECK = ForgeCheck()


@pytest.fixture(scope="module")
def forge(tmp_path_factory):
    with gitlab.served(tmp_path_factory.mktemp("gitlab")) as server:
        server.head = server.project(tmp_path_factory.mktemp("work"))
        server.main = server.git("team/app", "rev-parse", "main")
        yield server


@pytest.fixture(autouse=True)
def undisturbed(forge):
    forge.before = None
    forge.git("team/app", "update-ref", "refs/heads/main", forge.main)


def look(forge, reads, *, absent=False, settings=None, project="team/app", host=None, **asked):
    part = {"reads": reads, "host": "sr.host", "repository": "sr.project"}
    part |= {"expect": "absent"} if absent else {}
    return CHECK.read(
        system=SystemAccess("gitlab", "forge", {"url": forge.url, **(settings or {})}, {"token": forge.token}),
        verification={"lookup": {"effects": {"it": part}}},
        bindings={"sr": {"host": host or forge.url, "project": project, **asked}},
        at=datetime.now(UTC),
        timeout_s=10,
    )


def test_a_merge_is_there_once_gitlab_says_merged_and_its_branch_holds_the_commit(forge):
    forge.request(1)
    before = look(forge, "merge", number="1").effects[0]
    assert (before.present, before.pending, before.fields["head"]) == (False, False, forge.head)
    forge.merge(1)
    reading = look(forge, "merge", number="1")
    shown = reading.effects[0]
    assert (shown.present, shown.fields["head"], shown.fields["contained"]) == (True, forge.head, True)
    assert (shown.fields["merged_as"], shown.fields["base"]) == (forge.git("team/app", "rev-parse", "main"), "main")
    assert (shown.fields["repository"], reading.consistency) == ("team/app", Consistency.STRONG)
    forge.git("team/app", "update-ref", "refs/heads/main", forge.main)
    assert look(forge, "merge", number="1").effects[0].fields["contained"] is False


def test_a_fast_forward_has_no_commit_of_its_own_and_is_told_by_its_head(forge):
    forge.request(2)
    forge.git("team/app", "update-ref", "refs/heads/main", "refs/heads/better")
    forge.requests[2]["state"] = "merged"
    shown = look(forge, "merge", number="2").effects[0]
    assert (shown.present, shown.fields["merged_as"], shown.fields["contained"]) == (True, forge.head, True)


@pytest.mark.parametrize(
    ("told", "present", "pending"),
    [
        ({"state": "opened", "merge_when_pipeline_succeeds": True}, None, True),
        ({"state": "locked"}, None, True),
        ({"state": "opened"}, False, False),
        ({"state": "closed", "merge_when_pipeline_succeeds": True}, False, False),
    ],
)
def test_what_gitlab_will_merge_by_itself_is_neither_done_nor_absent(forge, told, present, pending):
    forge.request(3)
    forge.requests[3] |= told
    shown = look(forge, "merge", number="3").effects[0]
    assert (shown.present, shown.pending, shown.count) == (present, pending, 0)


@pytest.mark.parametrize("kind", ["heads", "tags"])
def test_a_branch_and_a_tag_are_told_by_their_commit_and_gone_by_gitlabs_own_words(forge, kind):
    ref = f"refs/{kind}/team/next-{kind}"
    assert look(forge, "ref", ref=ref, commit=forge.head).effects[0].present is False
    assert look(forge, "ref", ref=ref, absent=True).effects[0].present is True
    if kind == "tags":
        words = ("-c", "user.name=A", "-c", "user.email=a@b", "tag", "-a", "-m", "One")
        forge.git("team/app", *words, f"team/next-{kind}", forge.head)
    else:
        forge.git("team/app", "update-ref", ref, forge.head)
    assert look(forge, "ref", ref=ref, commit=forge.head).effects[0].present is True
    assert look(forge, "ref", ref=ref, commit="0" * 40).effects[0].present is False
    assert look(forge, "ref", ref=ref, absent=True).effects[0].present is False


@pytest.mark.parametrize("name", ["fix#7", "npm/@types/node-22", "größer", "a+b"])
def test_a_branch_is_asked_for_by_its_whole_name(forge, name):
    forge.git("team/app", "update-ref", f"refs/heads/{name}", forge.head)
    assert look(forge, "ref", ref=f"refs/heads/{name}", commit=forge.head).effects[0].present is True


@pytest.mark.parametrize("name", ["a%2Fb", "a b", "../../../user", "a?x=1"])
def test_a_name_that_leads_elsewhere_or_could_mean_two_is_not_asked_for(forge, name):
    with pytest.raises(CheckFailed, match=r"plain name|leads away"):
        look(forge, "ref", ref=f"refs/heads/{name}", absent=True)


def test_a_release_is_told_by_its_tag_and_a_pipeline_by_its_number_alone(forge):
    assert look(forge, "release", tag="v1").effects[0].present is False
    forge.releases["v1"] = {"tag_name": "v1", "upcoming_release": True, "commit": {"id": forge.head}}
    shown = look(forge, "release", tag="v1").effects[0]
    assert (shown.present, shown.fields["commit"], shown.fields["prerelease"]) == (True, forge.head, True)
    assert look(forge, "pipeline", number="7").effects[0].present is False
    forge.pipelines[7] = {"id": 7, "ref": "main", "sha": forge.head, "status": "running"}
    shown = look(forge, "pipeline", number="7").effects[0]
    assert (shown.present, shown.fields["ref"], shown.fields["status"]) == (True, "main", "running")
    with pytest.raises(CheckFailed, match="'HTTP 201' is no number of a pipeline"):
        look(forge, "pipeline", number="HTTP 201")


def test_a_project_that_is_named_by_its_number_is_read_if_its_path_is_listed(forge):
    forge.request(4)
    listed = {"repositories": ["team/app"]}
    assert look(forge, "merge", number="4", project="42", settings=listed).effects[0].fields["repository"] == "team/app"
    with pytest.raises(CheckFailed, match="team/app is not among the repositories that may be read"):
        look(forge, "merge", number="4", project="42", settings={"repositories": ["team/other"]})


NO_BRANCH = {"message": "404 Branch Not Found"}


@pytest.mark.parametrize(
    ("answer", "says", "retryable"),
    [
        ((404, {"message": "404 Not Found"}), "and no document", True),
        ((404, {"error": "404 Not Found"}), "and no document", True),
        ((200, ["main"]), "did not answer with a JSON object", True),
        ((301, {"message": "moved"}), "answered 301 and no document", True),
        ((401, {"message": "401 Unauthorized"}), "answered 401", True),
        ((403, {"message": "403 Forbidden"}), "may not be read with this credential", False),
        ((403, {"message": "slow down"}, {"Retry-After": "60"}), "its limit of requests is reached", True),
        ((403, {"message": "limit"}, {"X-RateLimit-Remaining": "0"}), "its limit of requests is reached", True),
        ((429, NO_BRANCH), "answered 429", True),
        ((502, NO_BRANCH), "answered 502", True),
    ],
)
def test_an_answer_that_is_not_about_the_branch_never_counts_as_its_absence(forge, answer, says, retryable):
    forge.before = lambda *_: answer
    with pytest.raises(CheckFailed, match=says) as failed:
        look(forge, "ref", ref="refs/heads/none", absent=True)
    assert failed.value.retryable is retryable


def test_absence_in_a_project_that_is_not_readable_or_from_a_cache_settles_nothing(forge):
    with pytest.raises(CheckFailed, match="team/hidden is not there, or this credential may not read it"):
        look(forge, "release", tag="v1", project="team/hidden")
    with pytest.raises(CheckFailed, match="This is the forge"):
        look(forge, "release", tag="v1", host="https://gitlab.example.org/api/v4")
    forge.before = lambda *_: (200, {"name": "none", "commit": {"id": forge.head}}, {"Age": "60"})
    assert look(forge, "ref", ref="refs/heads/none", commit=forge.head).consistency is Consistency.CACHE
    forge.before = lambda *_: (200, {"name": "other", "commit": {"id": forge.head}})
    with pytest.raises(CheckFailed, match="another ref than refs/heads/none"):
        look(forge, "ref", ref="refs/heads/none", commit=forge.head)
