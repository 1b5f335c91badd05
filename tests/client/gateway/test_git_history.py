"""The commits that a forced push would remove, read from git's own server."""

from __future__ import annotations

import io
import random
import subprocess
import sys

import pytest

from counterfoil.gateway.git_history import HostHistory
from counterfoil.gateway.git_lines import Update
from counterfoil.gateway.git_pack import read_commits
from counterfoil.gateway.settings import HostSettings
from tests.client.gateway.test_git_lines import packed
from tests.support.outside import git_server

MAIN = "refs/heads/main"
CREDENTIAL = "real:s3cret-of-the-host"


@pytest.fixture
def server(tmp_path):
    (tmp_path / "served").mkdir()
    with git_server.served(tmp_path / "served", credential=CREDENTIAL) as made:
        made.repository("app.git")
        yield made


@pytest.fixture
def work(server, tmp_path):
    """A clone with one commit, whose remote is the server's folder."""
    folder = tmp_path / "work"
    git_server.git(tmp_path, "clone", "-q", str(server.root / "app.git"), str(folder))
    git_server.commit(folder, "first")
    return folder


@pytest.fixture
def history(server, tmp_path):
    file = tmp_path / "credential"
    file.write_text(CREDENTIAL)
    file.chmod(0o600)
    return HostHistory(HostSettings(url=server.url, credential_file=str(file)))


def publish(work, commit="HEAD", ref=MAIN):
    git_server.git(work, "push", "-q", "--force", "origin", f"{commit}:{ref}")
    return git_server.git(work, "rev-parse", commit)


def losses(history, work, old, new="", ref=MAIN, repository="app.git"):
    """The losses of a push that replaces one commit by another, with the pack that git makes of it."""
    pack = packed(work, new, f"^{old}") if new else b""
    commits = read_commits(io.BytesIO(pack), long_hash=len(old) == 64) if new else {}
    return history.describe_losses(repository, Update(ref, old, new or "0" * len(old)), commits).splitlines()


@pytest.mark.parametrize("filters", ["true", "false"])
def test_the_lost_commits_are_those_that_git_names_whether_the_server_leaves_files_out_or_not(
    history, server, work, filters
):
    git_server.git(server.root / "app.git", "config", "uploadpack.allowFilter", filters)
    chance, made = random.Random(11), [git_server.git(work, "rev-parse", "HEAD")]
    tree = git_server.git(work, "rev-parse", "HEAD^{tree}")
    for number in range(1, 15):
        parents = chance.sample(made, k=min(len(made), chance.choice([1, 1, 2])))
        words = [word for parent in parents for word in ("-p", parent)]
        made.append(git_server.git(work, "commit-tree", tree, "-m", f"step {number}", *words))
    for _ in range(4):
        old, new = chance.sample(made, k=2)
        publish(work, old)
        lost = git_server.git(work, "log", "--format=%h %s", "--abbrev=7", old, f"^{new}").splitlines()
        told = losses(history, work, old, new)
        assert (told[0], sorted(told[1:])) == (f"{len(lost)} commit{'' if len(lost) == 1 else 's'}", sorted(lost))


def test_a_history_deeper_than_is_asked_for_is_told_as_at_least_so_many(history, work):
    lines = [f"commit refs/heads/long\ncommitter A <a@b.c> {number} +0000\ndata 4\nstep\n" for number in range(1, 211)]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=work, input="".join(lines).encode(), check=True)
    old = publish(work, "long")
    git_server.git(work, "checkout", "-q", "--orphan", "other")
    told = losses(history, work, old, git_server.commit(work, "another history"))
    assert (told[0], len(told), told[-1]) == ("at least 200 commits", 22, "and 180 more")


def test_a_repository_with_long_hashes_is_read(history, server, tmp_path):
    git_server.git(server.root, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", "long.git")
    git_server.git(tmp_path, "init", "-q", "--object-format=sha256", "long")
    git_server.git(tmp_path / "long", "remote", "add", "origin", str(server.root / "long.git"))
    git_server.commit(tmp_path / "long", "first")
    old = publish(tmp_path / "long")
    new = git_server.commit(tmp_path / "long", "another history", "--amend")
    assert losses(history, tmp_path / "long", old, new, repository="long.git") == ["1 commit", f"{old[:7]} first"]


def test_a_removed_branch_loses_its_commits_and_a_tag_object_is_no_commit(history, work):
    old = publish(work)
    assert losses(history, work, old) == ["1 commit of this ref, which may be on others", f"{old[:7]} first"]
    git_server.git(work, "tag", "-a", "-m", "one", "v1")
    tag = publish(work, "v1", "refs/tags/v1")
    assert losses(history, work, tag, ref="refs/tags/v1") == ["a tag object that is replaced"]


def test_what_cannot_be_read_is_not_known_with_the_reason(history, server, work):
    old = publish(work)
    publish(work, git_server.commit(work, "second"))
    assert losses(history, work, old) == ["not known: the ref has moved since"]
    assert losses(history, work, old, ref="refs/heads/gone") == ["not known: the ref has moved since"]
    server.credential = "another:word"
    assert losses(history, work, old) == ["not known: the host answered with 401"]
    server.url = "http://127.0.0.1:9"
    away = HostHistory(HostSettings(url=server.url))
    assert losses(away, work, old) == ["not known: ConnectError while the host's history was read"]


class Watch:
    """Notes what is opened for writing and which programs are started, while it is on."""

    def __init__(self):
        self.seen = None

    def __call__(self, event, arguments):
        # A number is a pipe of this process.
        writes = event == "open" and not isinstance(arguments[0], int) and (arguments[1] or "").strip("rb")
        if self.seen is not None and (writes or event in ("subprocess.Popen", "os.mkdir", "os.posix_spawn")):
            self.seen.append((event, arguments))


def test_the_history_is_read_without_a_file_or_a_program(history, work):
    old = publish(work)
    new = git_server.commit(work, "another history", "--amend")
    commits = read_commits(io.BytesIO(packed(work, new, f"^{old}")), long_hash=False)
    watch = Watch()
    sys.addaudithook(watch)
    # The server answers in this process: what its own program needs is told apart by the program's name.
    watch.seen = []
    told = history.describe_losses("app.git", Update(MAIN, old, new), commits)
    seen, watch.seen = watch.seen, None
    assert told.splitlines()[0] == "1 commit"
    assert [each for each in seen if "git-http-backend" not in str(each)] == []
