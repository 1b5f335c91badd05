"""An agent's clients are led to the gateway and back, and what else leads to its hosts is named, or moved away."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.client.coding_agents.gated import TOKEN, listing, make_home, run
from tests.peers.support.environment import debian_program
from tests.support.outside.package_server import make_sdist

FORGE = {"forge": {"url": "https://git.example.org", "reads": "git"}}
ALL = {
    **FORGE,
    "npm": {"url": "https://registry.example.org", "reads": "npm"},
    "pypi": {"url": "https://upload.pypi.org/legacy", "reads": "pypi"},
    "shop": {"url": "https://cluster.example.org:6443", "reads": "kubernetes"},
    "hub": {"url": "https://api.github.com", "reads": "github"},
    "own": {"url": "https://api.example.org", "reads": "rules"},
}
STATE = ".local/state/counterfoil/agents/gateway"


@pytest.fixture
def home(tmp_path, monkeypatch):
    return make_home(tmp_path, monkeypatch)


@pytest.fixture
def gateway():
    with listing(FORGE) as made:
        yield made


def call(home, *words, given="", **variables):
    ran = subprocess.run(
        words,
        cwd=home,
        input=given,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.stdout + ran.stderr


def onboard(home, gateway, *more):
    return run("onboard", "--gateway", gateway.url, "--token", str(home / "token"), *more)


def snapshot(home):
    return {
        str(file.relative_to(home)): file.read_bytes()
        for file in home.rglob("*")
        if file.is_file() and ".local/state" not in str(file) and not {".npm", ".cache", "cache"} & set(file.parts)
    }


def test_every_form_of_the_hosts_address_leads_to_the_gateway_with_its_token_and_back(home, gateway, capsys):
    before = snapshot(home)
    assert onboard(home, gateway) == 0
    assert "No credential for git.example.org was found where it is looked for." in capsys.readouterr().out
    for address in ("https://git.example.org/a.git", "git@git.example.org:a.git", "ssh://git@git.example.org/a.git"):
        assert call(home, "git", "ls-remote", "--get-url", address).strip() == f"{gateway.url}/forge/a.git"
    asked = f"protocol=http\nhost={gateway.url.partition('//')[2]}\n\n"
    assert f"password={TOKEN}" in call(home, "git", "credential", "fill", given=asked)
    assert TOKEN not in (home / ".gitconfig").read_text()
    assert (home / STATE / "token").stat().st_mode & 0o777 == 0o600
    once = snapshot(home)
    assert onboard(home, gateway) == 0
    assert snapshot(home) == once
    run("status")
    assert f"forge: https://git.example.org is led to {gateway.url}/forge\n" in capsys.readouterr().out
    assert run("offboard", "gateway") == 0
    assert snapshot(home) == before
    assert not (home / STATE).exists()


def test_settings_of_each_client_lead_to_its_host_at_the_gateway_and_back(home, tmp_path, capsys):
    (home / ".npmrc").write_text("registry=https://elsewhere.example.org/\nfund=false")
    (home / ".npmrc").chmod(0o600)
    (home / ".config/gh").mkdir(parents=True)
    (home / ".config/gh/hosts.yml").write_text("ghe.example.org:\n    user: ada\n")
    before = snapshot(home)
    with listing(ALL, tls=tmp_path / "tls") as gateway:
        assert onboard(home, gateway, "--ca", gateway.ca) == 0
        told = capsys.readouterr().out
        own = gateway.url.partition("//")[2]
        roots = home / STATE / "roots.pem"
        assert f"gh: start the agent with GH_HOST={own} and SSL_CERT_FILE={roots}\n" in told
        assert f"own: lead its programs to {gateway.url}/own yourself" in told
        assert TOKEN not in told
        for name in (".npmrc", ".pypirc", ".config/gh/hosts.yml"):
            assert (home / name).stat().st_mode & 0o777 == 0o600
        once = snapshot(home)
        assert onboard(home, gateway, "--ca", gateway.ca) == 0
        assert snapshot(home) == once
    assert run("offboard", "gateway") == 0
    after = snapshot(home)
    after.pop(".kube/config", None)
    # The line that had no end gets one.
    assert after == before | {".npmrc": before[".npmrc"] + b"\n"}
    assert "counterfoil" not in call(home, "kubectl", "config", "view") if shutil.which("kubectl") else True


def use_npm(home, gateway, _):
    call(home, "npm", "whoami")
    return "/npm/-/whoami", f"Bearer {TOKEN}"


def use_twine(home, gateway, _):
    upload = [sys.executable, "-m", "twine", "upload", "--non-interactive", "--disable-progress-bar"]
    assert f"to {gateway.url}/pypi/" in call(home, *upload, str(make_sdist(home, "a", "1")))
    return "/pypi/", f"Basic {base64.b64encode(f'__token__:{TOKEN}'.encode()).decode()}"


def use_kubectl(home, gateway, _):
    call(home, "kubectl", "version")
    return "/shop/version", f"Bearer {TOKEN}"


def use_gh(home, gateway, told):
    program = debian_program("gh", "usr/bin/gh")
    line = re.search(r"gh: start the agent with GH_HOST=(\S+) and SSL_CERT_FILE=(\S+)", told)
    call(home, str(program), "api", "user", GH_HOST=line[1], SSL_CERT_FILE=line[2])
    return "/api/v3/user", f"token {TOKEN}"


@pytest.mark.parametrize("use", [use_npm, use_twine, use_kubectl, use_gh])
def test_a_real_client_goes_to_the_gateway_with_the_token(home, tmp_path, capsys, use):
    program = use.__name__.removeprefix("use_")
    if program in ("npm", "kubectl") and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    with listing(ALL, tls=tmp_path / "tls") as gateway:
        assert onboard(home, gateway, "--ca", gateway.ca) == 0
        expected = use(home, gateway, capsys.readouterr().out)
        assert expected in [(path.partition("?")[0], credential) for path, credential in gateway.seen]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_present_context_of_kubectl_is_the_earlier_one_again(home, tmp_path):
    call(home, "kubectl", "config", "set-context", "mine", "--cluster=c", "--user=u")
    call(home, "kubectl", "config", "use-context", "mine")
    with listing({"shop": ALL["shop"]}, tls=tmp_path / "tls") as gateway:
        onboard(home, gateway, "--ca", gateway.ca)
        assert call(home, "kubectl", "config", "current-context").strip() == "counterfoil-shop"
    run("offboard", "gateway")
    assert call(home, "kubectl", "config", "current-context").strip() == "mine"
    assert "counterfoil" not in call(home, "kubectl", "config", "view")


def test_a_dry_run_changes_nothing_and_a_setting_of_somebody_elses_stays(home, gateway, capsys):
    before = snapshot(home)
    assert onboard(home, gateway, "--dry-run", "--remove", str(home / "moved")) == 0
    told = capsys.readouterr().out
    assert f"git config --global --add url.{gateway.url}/forge/.insteadOf 'https://git.example.org/'" in told
    assert told.endswith("Nothing was changed.\n")
    assert snapshot(home) == before
    call(home, "git", "config", "--global", f"http.{gateway.url}.lowSpeedLimit", "7")
    before = snapshot(home)
    assert "which is not from here. No client was led to the gateway." in str(onboard(home, gateway))
    assert snapshot(home) == before


def test_clients_that_cannot_be_led_are_named_with_the_reason(home, capsys):
    inner = {"url": "https://inner.example.org", "reads": "pypi"}
    with listing({name: ALL[name] for name in ("shop", "hub", "pypi")} | {"inner": inner}) as gateway:
        assert onboard(home, gateway) == 0
    told = capsys.readouterr().out
    assert f"inner: lead its programs to {gateway.url}/inner yourself" in told
    assert "kubectl: not led to shop: it sends a token over https alone (gateway.tls_names)\n" in told
    assert "gh: not led to hub: it needs a port of the host's own over TLS (hosts.hub.listen)\n" in told


def test_tokens_of_registries_and_clusters_are_named_beside_those_of_git(home, gateway, capsys, monkeypatch):
    others = (".kube/config", ".docker/config.json", "own-kubeconfig")
    for name in others:
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("server: https://git.example.org\n  token: real-word\n")
    (home / ".npmrc").write_text("//git.example.org/:_authToken=real-word\n")
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{home}/own-kubeconfig")
    monkeypatch.setenv("TWINE_PASSWORD", "real-word")
    assert onboard(home, gateway) == 1
    told = capsys.readouterr().out
    for name in others:
        assert f"Round the gateway: {home / name} names git.example.org: remove that entry." in told
    assert f"Round the gateway: {home}/.npmrc has a credential for git.example.org: remove that entry." in told
    assert "Round the gateway: the variable TWINE_PASSWORD is set: start the coding agent without it." in told
    assert "real-word" not in told


def test_credentials_are_named_without_their_secrets_and_stay_where_nobody_agrees(home, gateway, capsys, monkeypatch):
    (home / ".git-credentials").write_text("https://ada:real-word@git.example.org\n")
    call(home, "git", "config", "--global", "credential.helper", "store")
    (home / ".ssh").mkdir()
    (home / ".ssh/work").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
    (home / ".ssh/work.pub").write_text("ssh-ed25519 AAAA\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("GITHUB_TOKEN", "word-of-github")
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert onboard(home, gateway, "--remove", str(home / "moved")) == 1
    told = capsys.readouterr().out
    for line in (
        "Round the gateway: git's credential helper has a password for git.example.org",
        f"Round the gateway: {home}/.git-credentials has a credential for git.example.org: remove that entry.",
        f"Round the gateway: {home}/.ssh/work is a private key",
        "Round the gateway: SSH_AUTH_SOCK leads to an SSH agent",
        "Round the gateway: the variable GITHUB_TOKEN is set",
    ):
        assert line in told
    assert ".ssh/work.pub" not in told
    assert "word" not in told.replace("password", "")
    assert (home / ".git-credentials").read_text() == "https://ada:real-word@git.example.org\n"
    assert not (home / "moved").exists()


NETRC = """machine other.example.org login ada password kept
machine git.example.org
  login ada
  password real-word
default login anonymous password none
"""
PYPIRC = """[distutils]
index-servers =
    pypi
    inner

[pypi]
username = __token__
password = real-word

[inner]
repository = https://inner.example.org/
password = kept
"""


def test_entries_are_moved_into_a_file_as_a_person_agrees_and_put_back(home, tmp_path, capsys, monkeypatch):
    files = {
        ".git-credentials": "https://ada:real-word@git.example.org\nhttps://ada:kept@other.example.org\n",
        ".netrc": NETRC,
        ".npmrc": "//registry.example.org/:_authToken=real-word\n//other.example.org/:_authToken=kept\n",
        ".pypirc": PYPIRC,
    }
    for name, text in files.items():
        (home / name).write_text(text)
    before, moved = snapshot(home), tmp_path / "moved"
    asked = []

    def answer(line):
        asked.append(line)
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    with listing({name: ALL[name] for name in ("forge", "npm", "pypi")}) as gateway:
        assert onboard(home, gateway) != 0
        assert snapshot(home) == before
        assert onboard(home, gateway, "--remove", str(moved)) == 0
        assert len(asked) == 4
        assert all("real-word" not in line for line in asked)
        for name in files:
            text = (home / name).read_text()
            assert ("real-word" in text, "kept" in text) == (False, True)
            assert (
                f"{home / name}: the entry was moved to {moved}." in capsys.readouterr().out
                or name != ".git-credentials"
            )
        assert moved.stat().st_mode & 0o777 == 0o600
        assert "real-word" in moved.read_text()
    assert run("offboard", "gateway", "--put-back", str(moved)) == 0
    assert snapshot(home) == before
    assert not moved.exists()


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            ".netrc",
            "machine a login b password kept machine git.example.org login c password d\n",
            "machine a login b password kept ",
        ),
        (".netrc", "machine git.example.org login c password d machine a login b\n", "machine a login b\n"),
        (".netrc", "machine git.example.organic login c password kept\n", None),
        (
            ".git-credentials",
            "https://a:b@git.example.org.elsewhere.example\nhttps://a:b@git.example.org/team\n",
            "https://a:b@git.example.org.elsewhere.example\n",
        ),
        (".npmrc", "; //git.example.org/:_authToken=old\nregistry=https://git.example.org/\n", None),
    ],
)
def test_an_entry_is_cut_where_it_ends_and_others_stay(home, gateway, tmp_path, name, before, after):
    (home / name).write_text(before)
    onboard(home, gateway, "--remove", str(tmp_path / "moved"), "--yes")
    assert (home / name).read_text() == (before if after is None else after)


def test_a_file_that_somebody_changed_since_is_not_put_back_over(home, gateway, tmp_path, capsys):
    (home / ".git-credentials").write_text("https://ada:real-word@git.example.org\n")
    moved = tmp_path / "moved"
    assert onboard(home, gateway, "--remove", str(moved), "--yes") == 0
    (home / ".git-credentials").write_text("https://ada:new@other.example.org\n")
    assert run("offboard", "gateway", "--put-back", str(moved)) == 0
    assert f"was changed since and is left alone; its earlier content is in {moved}." in capsys.readouterr().out
    assert (home / ".git-credentials").read_text() == "https://ada:new@other.example.org\n"
    assert "real-word" in moved.read_text()


def test_what_an_earlier_version_led_is_restored(home, gateway):
    before = snapshot(home)
    onboard(home, gateway)
    (home / STATE / "place.json").write_text(
        json.dumps({"gateway": f"{gateway.url}/forge", "host": "https://git.example.org"})
    )
    assert run("offboard", "gateway") == 0
    assert snapshot(home) == before


def test_onboard_names_each_missing_argument_and_what_the_gateway_did_not_say(home, gateway):
    token = ("--token", str(home / "token"))
    assert "--gateway needs --token" in str(run("onboard", "--gateway", gateway.url))
    assert "/nowhere cannot be read" in str(run("onboard", "--gateway", gateway.url, "--token", "/nowhere"))
    assert "--gateway is an http or https address" in str(run("onboard", "--gateway", "git@git.example.org", *token))
    assert "The gateway has no host other." in str(run("onboard", "--gateway", f"{gateway.url}/other", *token))
    assert "did not say which hosts it has: " in str(run("onboard", "--gateway", "http://127.0.0.1:9", *token))
    (home / "token").write_text("another")
    assert "it does not know this token. Nothing was changed." in str(run("onboard", "--gateway", gateway.url, *token))
