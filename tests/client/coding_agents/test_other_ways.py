"""`counterfoil-agents validate` tries to reach each host without the gateway, on real servers where they can be had."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from counterfoil.coding_agents import other_ways
from counterfoil.coding_agents.behind_gateway import GatedHost
from counterfoil.coding_agents.onboarding import default_places
from counterfoil.gateway.authority import Authority
from tests.client.coding_agents.gated import listing, make_home, run
from tests.peers.support.environment import debian_program
from tests.support.outside import git_server, package_server, ssh_server

CREDENTIAL = "real:s3cret-of-the-host"


@pytest.fixture
def home(tmp_path, monkeypatch):
    return make_home(tmp_path, monkeypatch)


@pytest.fixture
def server(tmp_path):
    """git's own backend behind a password."""
    root = tmp_path / "served"
    root.mkdir()
    with git_server.served(root, credential=CREDENTIAL) as made:
        made.repository("team/app.git")
        yield made


def tried(host, folder=None):
    """The state and the reason of each try, by its way."""
    ways = other_ways.try_ways(host, default_places(), folder or Path.cwd())
    return {each.way: (str(each.state), each.why) for each in ways}


def host_of(url, reads, **more):
    return GatedHost(name="host", url=url, reads=reads, at="http://127.0.0.1:9/host", **more)


def git_host(server):
    return host_of(server.url, "git", repositories=("team/app.git",))


def push(server):
    return tried(git_host(server))[f"git push to {server.url}/team/app.git"]


def test_a_push_past_the_gateway_is_closed_without_a_credential_and_open_with_one_and_pushes_nothing(
    home, server, monkeypatch
):
    state, why = push(server)
    assert (state, "could not read Username" in why) == ("closed", True)
    # Everything is led to a gateway that is not there: the try must not go there.
    led = f'[url "http://127.0.0.1:9/forge/"]\n\tinsteadOf = {server.url}/\n[credential]\n\thelper = store\n'
    (home / ".gitconfig").write_text(led)
    place = server.url.partition("//")[2]
    (home / ".git-credentials").write_text(f"http://{CREDENTIAL}@{place.replace(':', '%3a')}\n")
    assert push(server) == ("OPEN", "the host would take it")
    assert git_server.git(server.root / "team/app.git", "for-each-ref") == ""
    (home / ".git-credentials").write_text(f"http://real:old@{server.url.partition('//')[2]}\n")
    state, why = push(server)
    assert (state, "Authentication failed" in why or "could not read" in why) == ("closed", True)


def test_a_credential_in_the_project_s_own_settings_opens_the_way(home, server, tmp_path):
    work = tmp_path / "work"
    git_server.git(tmp_path, "clone", "-q", str(server.root / "team/app.git"), str(work))
    git_server.commit(work, "first")
    git_server.git(work, "remote", "set-url", "origin", f"{server.url}/team/app.git")
    way = f"git push to {server.url}/team/app.git"
    assert tried(git_host(server), work)[way][0] == "closed"
    header = f"Authorization: Basic {base64.b64encode(CREDENTIAL.encode()).decode()}"
    git_server.git(work, "config", f"http.{server.url}/.extraHeader", header)
    assert tried(git_host(server), work)[way] == ("OPEN", "the host would take it")
    git_server.git(work, "config", "--unset", f"http.{server.url}/.extraHeader")
    for credential, state in (("real:old", "closed"), (CREDENTIAL, "OPEN")):
        address = f"{server.url.replace('//', f'//{credential}@')}/team/app.git"
        git_server.git(work, "remote", "set-url", "origin", address)
        ways = tried(git_host(server), work)
        assert ways[way][0] == state
        assert credential.partition(":")[2] not in str(ways)


def test_a_remote_at_another_host_is_not_tried(home, server):
    git_server.git(home, "init", "-q")
    for name, address in {
        "one": "https://127.0.0.1.elsewhere.example/team/app.git",
        "two": "git@127.0.0.1.elsewhere.example:team/app.git",
        "three": "http://127.0.0.1:9/team/app.git",
    }.items():
        git_server.git(home, "remote", "add", name, address)
    assert f"git push to {server.url}/team/app.git" in tried(git_host(server))


def test_a_git_host_that_does_not_answer_is_not_known(home):
    ways = tried(host_of("http://127.0.0.1:9", "git"))
    state, why = ways["git push to http://127.0.0.1:9/counterfoil/validate.git"]
    assert (state, "unable to access" in why) == ("not known", True)


def test_ssh_is_open_while_the_host_takes_a_key_closed_when_it_refuses_and_else_not_known(
    home, server, tmp_path, monkeypatch
):
    with ssh_server.served(tmp_path) as there:
        git_server.git(home, "init", "-q")
        git_server.git(home, "remote", "add", "origin", f"ssh://{there.user}@127.0.0.1:{there.port}/team/app.git")
        way = f"ssh {there.user}@127.0.0.1"
        # No key of the machine that runs this: only what the agent offers.
        monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -F /dev/null -o IdentityFile=none")
        state, why = tried(git_host(server))[way]
        assert (state, "Permission denied" in why) == ("closed", True)
        monkeypatch.setenv("SSH_AUTH_SOCK", there.agent)
        assert tried(git_host(server))[way] == ("OPEN", "the host takes a key of this user")
        assert not (Path.home() / ".ssh/known_hosts").exists()
    state, why = tried(git_host(server))[way]
    assert (state, "Connection refused" in why) == ("not known", True)
    for program in ("false", "no-such-program"):
        monkeypatch.setenv("GIT_SSH_COMMAND", program)
        assert tried(git_host(server))[way][0] == "not known"


def test_a_server_that_accepts_and_says_nothing_is_not_known(home, server, monkeypatch):
    monkeypatch.setattr(other_ways, "_TRY_S", 3)
    monkeypatch.setattr(other_ways, "_CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        git_server.git(home, "init", "-q")
        git_server.git(home, "remote", "add", "origin", f"ssh://git@127.0.0.1:{port}/team/app.git")
        assert tried(git_host(server))["ssh git@127.0.0.1"][0] == "not known"
        assert tried(host_of(f"http://127.0.0.1:{port}", "github"))[
            f"GET http://127.0.0.1:{port}/user without a credential"
        ] == (
            "not known",
            "no credential was found; timed out",
        )


def test_an_empty_upload_to_a_real_index_tells_whether_it_takes_the_password(home, tmp_path):
    with package_server.served(tmp_path, password="ada:word") as index:
        pypi = host_of(index.url, "pypi")
        assert tried(pypi) == {
            f"an empty upload to {index.url} without a credential": ("closed", "the host answered with 401")
        }
        for password, state in (("word", "OPEN"), ("old", "closed")):
            (home / ".pypirc").write_text(
                f"[index]\nrepository = {index.url}/\nusername = ada\npassword = {password}\n"
            )
            ((way, (found, _)),) = tried(pypi).items()
            assert (way, found) == (f"an empty upload to {index.url} with [index] of ~/.pypirc", state)
        assert list(index.files.glob("*.tar.gz")) == []


@contextmanager
def api(tokens):
    """An API in the form of GitHub's documented `GET /user`; it is no GitHub."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.headers.get("Authorization", "").partition(" ")[2] in tokens and self.path == "/user"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()


def test_the_token_that_gh_would_use_is_tried(home, monkeypatch):
    program = debian_program("gh", "usr/bin/gh")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with api({"word-of-gh"}) as url:
        place = url.partition("//")[2]
        (home / ".config/gh").mkdir(parents=True)
        for token, state in (("word-of-gh", "OPEN"), ("old", "closed")):
            (home / ".config/gh/hosts.yml").write_text(f"{place}:\n    user: ada\n    oauth_token: {token}\n")
            assert tried(host_of(url, "github"))[f"GET {url}/user with the token of gh"][0] == state


def test_each_credential_of_an_api_is_tried_and_its_refusal_without_one_closes_the_way(home, monkeypatch):
    with api({"one"}) as url:
        forge = host_of(url, "github")
        assert tried(forge) == {
            f"GET {url}/user without a credential": ("closed", "no credential was found; the host answered with 401")
        }
        monkeypatch.setenv("GITHUB_TOKEN", "one")
        monkeypatch.setenv("GH_TOKEN", "old")
        (home / ".netrc").write_text("machine 127.0.0.1 login ada password word\n")
        (home / ".netrc").chmod(0o600)
        states = {way.partition(" with ")[2]: state for way, (state, _) in tried(forge).items()}
        assert (states["the variable GITHUB_TOKEN"], states["the entry of ~/.netrc"]) == ("OPEN", "closed")


@contextmanager
def cluster(folder):
    """An API server's answers to `GET /api` in the documented form, by the token that is sent; it is no Kubernetes."""
    refusals = {
        "": (403, 'forbidden: User "system:anonymous" cannot get path "/api"', "Forbidden"),
        "old": (401, "Unauthorized", "Unauthorized"),
        "narrow": (403, 'forbidden: User "bot" cannot get path "/api"', "Forbidden"),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            token = self.headers.get("Authorization", "").partition(" ")[2]
            status, message, reason = refusals.get(token, (200, "", ""))
            told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
            told |= {"message": message, "reason": reason}
            body = json.dumps(told if reason else {"kind": "APIVersions", "versions": ["v1"]}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            return None

    authority = Authority(folder, ("localhost",))
    authority.renew(datetime.now(UTC))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority.server_certificate, authority.server_key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.socket = tls.wrap_socket(made.socket, server_side=True)
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"https://localhost:{made.server_port}"
        made.shutdown()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_each_context_of_kubectl_that_leads_to_a_cluster_is_tried(home, tmp_path):
    with cluster(tmp_path / "tls") as url:
        shop = host_of(url, "kubernetes")
        why = "no context of kubectl leads to it; the host answered with 403"
        assert tried(shop) == {f"GET {url}/api without a credential": ("closed", why)}
        tokens = {"admin": "OPEN", "narrow": "OPEN", "old": "closed"}
        names = {
            "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": each, "user": {"token": each}} for each in tokens],
            "contexts": [{"name": each, "context": {"cluster": "c", "user": each}} for each in tokens],
        }
        (home / ".kube").mkdir()
        (home / ".kube/config").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **names}))
        found = {way.rpartition(" ")[2]: state for way, (state, _) in tried(shop).items()}
        assert found == tokens


def test_validate_lists_each_way_and_its_exit_code_is_1_while_one_is_open_and_3_while_one_is_not_known(
    home, server, capsys, monkeypatch
):
    monkeypatch.setenv("GIT_SSH_COMMAND", "false")
    with api(set()) as url:
        hosts = {
            "forge": {"url": server.url, "reads": "git", "repositories": ["team/app.git"]},
            "hub": {"url": url, "reads": "github"},
            "shop": {"url": "https://shop.example.org", "reads": "rules"},
        }
        with listing({"hub": hosts["hub"]}) as gateway:
            assert run("onboard", "--gateway", gateway.url, "--token", str(home / "token")) == 0
            capsys.readouterr()
            assert run("validate", "--live") == 0
            told = capsys.readouterr().out
            assert f"{gateway.url}: the gateway answers.\n" in told
            assert (
                f"Without the gateway, GET {url}/user without a credential: closed "
                "(no credential was found; the host answered with 401).\n" in told
            )
            assert run("offboard", "gateway") == 0
        with listing({"hub": hosts["hub"], "shop": hosts["shop"]}) as gateway:
            assert run("onboard", "--gateway", gateway.url, "--token", str(home / "token")) == 0
            assert run("validate", "--live") == 3
            told = capsys.readouterr().out
            assert (
                "Without the gateway, requests to shop.example.org: not known (no client of this API is known here).\n"
                in told
            )
        assert run("validate", "--live") == 1
        assert "the gateway does not answer as one: " in capsys.readouterr().out
