"""What a command of a coding agent would push, asked of a real git before it runs."""

from __future__ import annotations

import hashlib

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.programs.git import repository_of
from counterfoil.coding_agents.shell import Effect, Refusal
from tests.support.outside import git_server
from tests.support.outside.git_server import QUIET, commit, git


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with git_server.served(tmp_path_factory.mktemp("served")) as found:
        found.repository("team/app.git")
        yield found


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def clone(server, tmp_path):
    found = tmp_path / "app"
    git(tmp_path, "clone", "-q", f"{server.url}/team/app.git", str(found))
    if not server.ref("team/app.git", "refs/heads/main"):
        commit(found, "first")
        git(found, "push", "-q", "origin", "HEAD:main")
    return found


def pushed(server, tool, ref, **more):
    where = {"remote": f"{server.url}/team/app.git", "repository": "team/app.git", "ref": ref}
    return Effect(tool, where | more)


def test_a_push_names_the_ref_and_the_commit_that_it_would_leave_there(server, clone):
    head = commit(clone, "second")
    effect = pushed(server, "git_push", "refs/heads/main", commit=head)
    assert read_command("git push origin HEAD:main", clone) == effect
    assert read_command(f"git -C {clone} push origin HEAD:main", clone.parent) == effect
    assert read_command("cd app && git push origin HEAD:main", clone.parent) == effect
    assert server.ref("team/app.git", "refs/heads/main") != head


def test_a_forced_push_and_a_deletion_are_tools_of_their_own(server, clone):
    git(clone, "push", "-q", "origin", "HEAD:refs/heads/old")
    other = commit(clone, "another history", "--amend")
    forced = read_command("git push --force origin HEAD:refs/heads/old", clone)
    assert forced == pushed(server, "git_force_push", "refs/heads/old", commit=other)
    assert read_command("git push origin +HEAD:refs/heads/old", clone) == forced
    gone = pushed(server, "git_delete_ref", "refs/heads/old")
    assert read_command("git push origin --delete old", clone) == gone
    assert read_command("git push origin :old", clone) == gone


def test_a_bare_push_goes_where_the_git_configuration_says(server, clone):
    """A bare `git push` goes where git says, not where its words say."""
    git(clone, "checkout", "-q", "-b", "topic")
    head = commit(clone, "third")
    git(clone, "config", "push.default", "current")
    assert read_command("git push", clone) == pushed(server, "git_push", "refs/heads/topic", commit=head)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "ls -l",
        "echo git push",
        "git push --dry-run origin HEAD:main",
        "git stash push",
        "git commit -am 'say when to git push'",
        'git commit -m "push & pull" && git log --grep push | head',
        "cat <<EOF\nit's open\nEOF",
        "FOO=1",
    ],
)
def test_a_command_that_pushes_nothing_is_not_held(clone, command):
    assert read_command(command, clone) is None


def test_a_push_of_what_the_remote_already_has_is_not_held(clone):
    git(clone, "fetch", "-q", "origin")
    assert read_command("git push origin origin/main:refs/heads/main", clone) is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("git commit -am x && git push", "Send `git push` as a command of its own"),
        ("git push origin $BRANCH", "Send `git push` as a command of its own"),
        ("git push origin HEAD:main\ntrue", "Send `git push` as a command of its own"),
        ("echo $(git push)", "Send `git push` as a command of its own"),
        ("sudo git push", "Send `git push` as a command of its own"),
        ("./git push", "Send `git push` as a command of its own"),
        ("git push origin HEAD:main; true", "Send `git push` as a command of its own"),
        ("bash -c 'git push origin HEAD:main'", "Send `git push` as a command of its own"),
        ("GIT_DIR=x git push", "Send `git push` as a command of its own"),
        ("git -c push.default=current push", "with no git option before `push` other than -C"),
        ("git push 'origin", "The command cannot be read"),
        ("git push nowhere HEAD:main", "git would not push this"),
    ],
)
def test_a_push_that_cannot_be_determined_is_refused_with_the_form_to_use(clone, command, says):
    with pytest.raises(Refusal, match=says):
        read_command(command, clone)


def test_a_push_of_several_refs_is_refused(clone):
    commit(clone, "two refs")
    with pytest.raises(Refusal, match=r"Push one ref at a time.*refs/heads/a, refs/heads/b"):
        read_command("git push origin HEAD:refs/heads/a HEAD:refs/heads/b", clone)


def test_a_push_that_the_remote_would_reject_is_reported_first(server, clone):
    git(clone, "fetch", "-q")
    git(clone, "checkout", "-q", "--orphan", "apart")
    commit(clone, "unrelated")
    with pytest.raises(Refusal, match=r"git would not push this: .*non-fast-forward"):
        read_command("git push origin HEAD:main", clone)


@pytest.mark.parametrize(
    ("remote", "path"),
    [
        ("https://git.example.org/team/app.git", "team/app.git"),
        ("ssh://git@git.example.org:2222/team/app.git", "team/app.git"),
        ("git@git.example.org:team/app.git", "team/app.git"),
        ("/srv/git/app.git", "srv/git/app.git"),
    ],
)
def test_the_repository_is_the_path_of_its_address(remote, path):
    assert repository_of(remote) == path


def test_a_secret_in_the_address_is_not_proposed(server, clone):
    git(clone, "remote", "set-url", "origin", f"{server.url.replace('//', '//ada:secret@')}/team/app.git")
    commit(clone, "with a secret")
    effect = read_command("git push origin HEAD:refs/heads/quiet", clone)
    assert effect.arguments["remote"] == f"{server.url}/team/app.git"


# Uploads of packages


@pytest.fixture
def built(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TWINE_REPOSITORY", "TWINE_REPOSITORY_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "dist").mkdir()
    for name in ("my_app-1.0.tar.gz", "my_app-1.0-py3-none-any.whl", "notes.txt"):
        (tmp_path / "dist" / name).write_bytes(name.encode())
    return tmp_path


def published(index, filename):
    digest = hashlib.sha256(filename.encode()).hexdigest()
    said = {"project": "my-app", "version": "1.0", "filename": filename, "sha256": digest}
    return Effect("package_publish", {"index": index, **said})


def test_an_upload_names_the_file_its_digest_and_the_index(built):
    sdist, wheel, pypi = "my_app-1.0.tar.gz", "my_app-1.0-py3-none-any.whl", "https://upload.pypi.org/legacy/"
    assert read_command(f"twine upload dist/{sdist}", built) == published(pypi, sdist)
    assert read_command(f"python3 -m twine upload --skip-existing dist/{wheel}", built) == published(pypi, wheel)
    named = f"twine upload -u ada -p s3cret --repository-url=https://ada:s3cret@index.example.org/ dist/{sdist}"
    assert read_command(named, built) == published("https://index.example.org/", sdist)
    (built / ".pypirc").write_text("[inside]\nrepository = https://inside.example.org/legacy/\n")
    assert read_command(f"twine upload -r inside dist/{sdist}", built) == published(
        "https://inside.example.org/legacy/", sdist
    )


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("twine upload dist/*", "Send `twine upload` as a command of its own"),
        ("python -m build && twine upload dist/my_app-1.0.tar.gz", "Send `twine upload` as a command of its own"),
        ("TWINE_REPOSITORY_URL=x twine upload dist/my_app-1.0.tar.gz", "Send `twine upload` as a command of its own"),
        ("uvx twine upload dist/my_app-1.0.tar.gz", "Send `twine upload` as a command of its own"),
        ("bash -c 'twine upload dist/my_app-1.0.tar.gz'", "Send `twine upload` as a command of its own"),
        ("twine upload 'dist", "The command cannot be read"),
        ("twine upload dist/my_app-1.0.tar.gz dist/my_app-1.0-py3-none-any.whl", "Publish one file at a time"),
        ("twine upload", "Publish one file at a time"),
        ("twine upload --sign dist/my_app-1.0.tar.gz", "without --sign"),
        ("twine upload dist/notes.txt", "notes.txt is not the name of an sdist or a wheel"),
        ("twine upload dist/none-1.0.tar.gz", "none-1.0.tar.gz cannot be read: No such file"),
        ("twine upload -r nowhere dist/my_app-1.0.tar.gz", "defines no index nowhere"),
    ],
)
def test_an_upload_that_cannot_be_determined_is_refused_with_the_form_to_use(built, command, says):
    with pytest.raises(Refusal, match=says):
        read_command(command, built)


@pytest.mark.parametrize("command", ["twine check dist/x.whl", "echo twine upload", "pip install twine"])
def test_a_command_that_publishes_nothing_is_not_held(built, command):
    assert read_command(command, built) is None


@pytest.mark.parametrize(
    "command",
    [
        'echo "$(git push --force)"',
        "true a#; git push --force",
        "if true; then git push --force; fi",
        "for r in a b; do git push $r; done",
        "find . -exec git push {} +",
        "echo `git push`",
    ],
)
def test_a_push_inside_another_construct_of_the_shell_is_detected(command, tmp_path):
    with pytest.raises(Refusal, match="Send `git push` as a command of its own"):
        read_command(command, tmp_path)


@pytest.mark.parametrize("space", "\r\f\v")
def test_text_that_env_splits_differently_from_bash_is_refused(space, tmp_path):
    with pytest.raises(Refusal, match="Not plain"):
        read_command(f"env -S 'git{space}push --force origin HEAD:main'", tmp_path)


@pytest.mark.parametrize("command", ["git commit -m \"say `date`, then 'git push'\"", 'echo "\\$(git push)"'])
def test_text_that_only_mentions_a_push_is_not_held(command, tmp_path):
    assert read_command(command, tmp_path) is None
