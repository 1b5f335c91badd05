"""git of a user is led to the gateway and back, and what else leads to the host is named."""

from __future__ import annotations

import subprocess

import pytest

from counterfoil.coding_agents.__main__ import main

GATEWAY = ("--gateway", "http://127.0.0.1:9/forge", "--for", "https://git.example.org")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada\n")
    (tmp_path / "token").write_text("cf_gate_word\n")
    return tmp_path


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def git(home, *words, given=""):
    return subprocess.run(["git", *words], cwd=home, input=given, capture_output=True, text=True, check=False).stdout


def onboard(home):
    return run("onboard", *GATEWAY, "--token", str(home / "token"))


def test_every_form_of_the_hosts_address_leads_to_the_gateway_with_its_token_and_back(home, capsys):
    before = (home / ".gitconfig").read_text()
    assert onboard(home) == 0
    assert "No other way to git.example.org was found among those that are looked for." in capsys.readouterr().out
    for address in ("https://git.example.org/a.git", "git@git.example.org:a.git", "ssh://git@git.example.org/a.git"):
        assert git(home, "ls-remote", "--get-url", address).strip() == "http://127.0.0.1:9/forge/a.git"
    told = git(home, "credential", "fill", given="protocol=http\nhost=127.0.0.1:9\n\n")
    assert "password=cf_gate_word" in told
    assert "cf_gate_word" not in (home / ".gitconfig").read_text()
    token = home / ".local/state/counterfoil/agents/gateway/token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert onboard(home) == 0
    assert run("offboard", "gateway") == 0
    assert (home / ".gitconfig").read_text() == before
    assert not token.exists()


def test_a_dry_run_changes_nothing_and_a_setting_of_somebody_elses_stays(home, capsys):
    before = (home / ".gitconfig").read_text()
    assert run("onboard", *GATEWAY, "--token", str(home / "token"), "--dry-run") == 0
    assert capsys.readouterr().out.endswith("Nothing was changed.\n")
    assert (home / ".gitconfig").read_text() == before
    git(home, "config", "--global", "http.http://127.0.0.1:9.lowSpeedLimit", "7")
    before = (home / ".gitconfig").read_text()
    assert "which is not from here. Nothing was changed." in str(onboard(home))
    assert (home / ".gitconfig").read_text() == before


def test_tokens_of_registries_and_clusters_are_named_beside_those_of_git(home, capsys, monkeypatch):
    files = (".npmrc", ".pypirc", ".kube/config", ".docker/config.json", "own-kubeconfig")
    for name in files:
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("//git.example.org/:_authToken=real-word\n")
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{home}/own-kubeconfig")
    monkeypatch.setenv("TWINE_PASSWORD", "real-word")
    assert onboard(home) == 1
    told = capsys.readouterr().out
    for name in files:
        assert f"Round the gateway: {home / name} names git.example.org: remove that entry." in told
    assert "Round the gateway: the variable TWINE_PASSWORD is set: start the coding agent without it." in told
    assert "real-word" not in told


def test_addresses_that_bypass_the_gateway_are_listed_without_secrets_and_left_unchanged(home, capsys, monkeypatch):
    (home / ".git-credentials").write_text("https://ada:real-word@git.example.org\n")
    git(home, "config", "--global", "credential.helper", "store")
    (home / ".ssh").mkdir()
    (home / ".ssh/work").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
    (home / ".ssh/work.pub").write_text("ssh-ed25519 AAAA\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("GITHUB_TOKEN", "word-of-github")
    assert onboard(home) == 1
    told = capsys.readouterr().out
    for line in (
        "Round the gateway: git's credential helper has a password for git.example.org",
        f"Round the gateway: {home}/.git-credentials names git.example.org: remove that entry.",
        f"Round the gateway: {home}/.ssh/work is a private key",
        "Round the gateway: SSH_AUTH_SOCK leads to an SSH agent",
        "Round the gateway: the variable GITHUB_TOKEN is set",
    ):
        assert line in told
    assert ".ssh/work.pub" not in told
    assert "word" not in told.replace("password", "")
    assert (home / ".git-credentials").read_text() == "https://ada:real-word@git.example.org\n"
    assert run("validate", "--live") == 1
    assert "git through http://127.0.0.1:9/forge: the gateway does not answer as one: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--gateway", "http://127.0.0.1:9/forge"), "--gateway needs --for"),
        ((*GATEWAY[:3], "git@git.example.org", "--token", "x"), "--for is an http or https address"),
        ((*GATEWAY, "--token", "/nowhere"), "/nowhere cannot be read"),
    ],
)
def test_onboard_names_each_missing_argument(home, words, says):
    assert says in str(run("onboard", *words))
