"""What the hook asks git, psql, kubectl and terraform: nothing that command or project names runs, nothing moves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counterfoil.coding_agents.asking import ask, content, digest_and_size
from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.options import UnknownOption, read_options
from counterfoil.coding_agents.shell import Refusal
from tests.client.coding_agents.scratch import opened
from tests.support.outside.git_server import commit, git


@pytest.fixture
def scratch(monkeypatch):
    with opened(monkeypatch) as found:
        yield found


def refused(command, folder, says="Send|Write"):
    with pytest.raises(Refusal, match=says) as refusal:
        read_command(command, folder)
    return str(refusal.value)


def marking(scratch, name="ran"):
    """A program that leaves a mark beside the project when it runs, and the mark."""
    mark, program = scratch.outside.parent / name, scratch.project / f"{name}.sh"
    program.write_text(f'#!/bin/sh\ntouch {mark}\nexec git-receive-pack "$@"\n')
    program.chmod(0o755)
    return program, mark


@pytest.mark.parametrize(
    "options",
    [
        "--force --no-dry-run",
        "--dry-run --no-dry-run --force",
        "-nf --no-dry-run",
        "--quiet --force",
        "-qf",
        "--force --no-porcelain",
        "--verbo --force",
        "--force --no-force --force",
        "--force --no-verify --progress",
    ],
)
def test_a_question_about_a_forced_push_names_it_and_pushes_nothing(scratch, options):
    before = scratch.refs()
    effect = read_command(f"git push {options} origin main", scratch.project)
    head = git(scratch.project, "rev-parse", "HEAD")
    assert (effect.tool, effect.arguments["commit"]) == ("git_force_push", head)
    assert scratch.refs() == before


@pytest.mark.parametrize("option", ["-o -n", "--push-option --dry-run", "-fo ci.skip", "--push-option=merge"])
def test_push_options_for_the_server_are_refused(scratch, option):
    refused(f"git push --force {option} origin main", scratch.project, "without --push-option")


@pytest.mark.parametrize(
    "words", ["--receive-pack={0}", "--receive-pack {0}", "--exec={0}", "--rec={0} -n", "-n --exec {0}"]
)
def test_a_program_that_a_push_names_is_not_run_to_ask(scratch, words):
    program, mark = marking(scratch)
    refused(f"git push {words.format(program)} -f origin main", scratch.project)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("setting", "remote"),
    [
        ("core.sshCommand", "ssh://git@localhost/app"),
        ("credential.helper", "origin"),
        ("credential.http://127.0.0.1.helper", "origin"),
        ("remote.origin.receivepack", "origin"),
        ("remote.origin.vcs", "origin"),
        ("core.askPass", "origin"),
        ("core.gitProxy", "git://localhost/app"),
    ],
)
def test_a_program_in_the_settings_of_the_repository_is_not_run_to_ask(scratch, setting, remote):
    program, mark = marking(scratch)
    git(scratch.project, "config", setting, str(program))
    refused(f"git push -f {remote} main", scratch.project, "own settings may run a program")
    assert not mark.exists()


def test_hooks_and_monitors_of_the_repository_do_not_run_to_ask(scratch):
    program, mark = marking(scratch)
    for name in ("pre-push", "reference-transaction", "post-index-change"):
        (scratch.project / ".git/hooks" / name).symlink_to(program)
    git(scratch.project, "config", "core.fsmonitor", str(program))
    mark.unlink(missing_ok=True)
    assert read_command("git push -f origin main", scratch.project).tool == "git_force_push"
    assert not mark.exists()


def test_a_repository_on_this_machine_runs_no_program_of_its_settings_to_answer(scratch):
    program, mark = marking(scratch)
    git(scratch.remote, "config", "core.alternateRefsCommand", str(program))
    (scratch.remote / "objects/info/alternates").write_text(f"{scratch.project}/.git/objects\n")
    assert read_command("git push -f origin main", scratch.project).tool == "git_force_push"
    assert not mark.exists()


@pytest.mark.parametrize("address", ["ext::sh -c touch% ../ran", "ext::git-receive-pack ../remote.git"])
def test_an_address_that_is_a_program_is_refused(scratch, address):
    refused(f"git push -f '{address}' main", scratch.project, "speaks for a remote")
    git(scratch.project, "remote", "set-url", "origin", address)
    refused("git push -f origin main", scratch.project, "speaks for a remote")
    assert not (scratch.outside.parent / "ran").exists()


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("push.pushOption", "merge_request.create", "push.pushOption makes the server do more"),
        ("push.recurseSubmodules", "on-demand", "pushes submodules too"),
        ("remote.origin.pushurl", "../elsewhere.git", "several addresses"),
    ],
)
def test_git_settings_that_make_a_push_move_more_than_one_ref_are_refused(scratch, setting, value, says):
    git(scratch.project, "config", setting, value)
    git(scratch.project, "config", "--add", setting, value)
    refused("git push -f origin main", scratch.project, says)


def test_a_push_is_refused_while_git_dir_is_set(scratch, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(scratch.remote))
    refused("git push -f origin main", scratch.project, "GIT_DIR is set")


def test_a_push_is_refused_when_git_does_not_say_what_it_would_push(scratch):
    git(scratch.project, "config", "push.default", "matching")
    git(scratch.project, "checkout", "-q", "-b", "not-there")
    git(scratch.project, "branch", "-D", "main")
    refused("git push origin", scratch.project, "did not say what it would push")


def test_git_inside_the_project_is_not_run(scratch, monkeypatch):
    program, mark = marking(scratch, "git")
    program.rename(scratch.project / "git")
    monkeypatch.setenv("PATH", f"{scratch.project}{os.pathsep}{os.environ['PATH']}")
    refused("git push -f origin main", scratch.project, "not installed outside the project")
    assert not mark.exists()


def test_a_remote_that_moves_during_the_dry_run_is_reported(scratch, monkeypatch):
    from counterfoil.coding_agents.programs import git as program

    before, ran = scratch.refs(), program._git

    def slow(folder, *words):
        said = ran(folder, *words)
        if "push" in words:
            git(scratch.project, "push", "-q", "--force", "origin", "main")
        return said

    monkeypatch.setattr(program, "_git", slow)
    refused("git push -f origin main", scratch.project, "moved while git was asked")
    assert scratch.refs() != before


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("kubectl --kubeconfig ./config delete pod x", "without --kubeconfig"),
        ("kubectl delete pod x --server=https://localhost:1", "without --server"),
        ("kubectl --as delete get pods", None),
        ("kubectl get pods -o name | head", None),
        ("terraform -chdir=infra plan", None),
        ("psql 'service=x' -c 'DROP TABLE t'", "without service in the name of the database"),
        ("psql -d 'host=a passfile=b' -c 'DROP TABLE t'", "without passfile"),
        ("psql 'postgresql://a/b?sslkey=engine:x:y' -c 'DROP TABLE t'", "without sslkey"),
        ("psql -c 'SELECT 1' | tail -1", None),
        ("gh api repos/a/b/releases | jq .", None),
        ("gh --repo a/b pr view merge", None),
        ("gh --repo a/b pr merge 1 --auto --squash", "without --auto"),
        ("gh mine 7", "Not recognised"),
    ],
)
def test_the_value_of_an_option_is_never_read_as_the_verb_and_unknown_options_are_refused(scratch, command, says):
    if says is None:
        assert read_command(command, scratch.project) is None
    else:
        refused(command, scratch.project, says)


def test_a_plan_is_not_read_with_a_provider_inside_the_project(scratch):
    provider = scratch.project / ".terraform/providers/example.org/a/b/1.0.0/linux_amd64/terraform-provider-b"
    provider.parent.mkdir(parents=True)
    provider.write_text("#!/bin/sh\n")
    (scratch.project / "next.tfplan").write_bytes(b"plan")
    refused("terraform apply next.tfplan", scratch.project, "would run terraform-provider-b, a program inside")


@pytest.mark.parametrize("value", ["{project}/config", "config", "./config", "/etc/none:config"])
def test_a_command_is_refused_when_variables_point_into_the_project(scratch, monkeypatch, value):
    (scratch.project / "config").write_text("users: []\n")
    monkeypatch.setenv("KUBECONFIG", value.format(project=scratch.project))
    with pytest.raises(Refusal, match="KUBECONFIG names something inside the project"):
        ask("git", ["version"], scratch.project, variables=("KUBE",))


# Options as data


@pytest.mark.parametrize(
    ("words", "program", "options", "operands"),
    [
        ("-nf --no-dry-run o m", ("git", "push"), {"dry-run": False, "force": True}, ["o", "m"]),
        ("-fo -n o", ("git", "push"), {"force": True, "push-option": "-n"}, ["o"]),
        ("--dele o -- m", ("git", "push"), {"delete": True}, ["o", "m"]),
        ("--force-with-lease=m:1 --no-repo", ("git", "push"), {"force-with-lease": "m:1", "repo": False}, []),
        ("-n a --as b --wait=false p", ("kubectl", "delete"), {"namespace": "a", "as": "b", "wait": False}, ["p"]),
        ("-input=false --auto-approve p", ("terraform", "apply"), {"input": False, "auto-approve": True}, ["p"]),
        ("-qXc x --dbn y z", ("psql",), {"quiet": True, "no-psqlrc": True, "command": "x", "dbname": "y"}, ["z"]),
        ("--skip --repository-u=x f", ("twine", "upload"), {"skip-existing": True, "repository-url": "x"}, ["f"]),
    ],
)  # fmt: skip
def test_options_are_read_as_each_program_reads_them(words, program, options, operands):
    given = read_options(words.split(), *program)
    assert (given.options, list(given.operands)) == (options, operands)


@pytest.mark.parametrize("words", ["--no-such", "-Z", "--f", "--force=1", "-o", "o -- -f"])
def test_an_option_that_is_not_known_is_refused(words):
    with pytest.raises(UnknownOption):
        read_options(words.split(), "git", "push")


# Files that would keep the hook waiting


@pytest.mark.parametrize("read", [content, digest_and_size])
def test_only_regular_files_of_a_limited_size_are_read(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    others = {tmp_path / "pipe": "no regular file", Path("/dev/zero"): "no regular file", tmp_path / "sparse": "larger"}
    for file, says in others.items():
        with pytest.raises(Refusal, match=says):
            read(file)


@pytest.mark.parametrize(
    "command", ["cp pipe @outside/x", "msmtp -t < pipe", "psql -f pipe", "twine upload pipe-1.0.zip"]
)
def test_a_pipe_is_refused_at_once(scratch, command):
    for name in ("pipe", "pipe-1.0.zip"):
        os.mkfifo(scratch.project / name)
    refused(scratch.fill(command), scratch.project, "no regular file|cannot be held")


def test_a_commit_between_two_pushes_changes_the_proposal(scratch):
    first = read_command("git push -f origin main", scratch.project)
    commit(scratch.project, "third")
    assert read_command("git push -f origin main", scratch.project) != first
