"""A home of an agent's user, and a server that says of itself what the HTTP gateway says (`GET /`)."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from counterfoil.coding_agents.__main__ import main
from counterfoil.gateway.authority import Authority

TOKEN = "cf_gate_word"
MOVED = (
    *("XDG_STATE_HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "GH_TOKEN", "GH_HOST"),
    *("KUBECONFIG", "GH_CONFIG_DIR", "NPM_CONFIG_USERCONFIG", "TWINE_PASSWORD", "TWINE_USERNAME", "GIT_SSH_COMMAND"),
    *("GITLAB_TOKEN", "GH_ENTERPRISE_TOKEN", "GIT_ASKPASS", "SSH_ASKPASS", "NPM_TOKEN", "NODE_AUTH_TOKEN"),
    *("UV_PUBLISH_TOKEN", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)


def make_home(tmp_path, monkeypatch):
    """A home of its own, in which git knows a name."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in MOVED:
        monkeypatch.delenv(name, raising=False)
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    (home / "token").write_text(f"{TOKEN}\n")
    monkeypatch.chdir(home)
    return home


def run(*words: str) -> int | str | None:
    """Run `counterfoil-agents`; its exit code or its refusal."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


@dataclass
class Listing:
    """The server's address, the file of its authority, and the path and credential of each request but for the list."""

    url: str = ""
    ca: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def listing(hosts: Mapping[str, Mapping[str, Any]], *, tls: Path | None = None) -> Iterator[Listing]:
    """Serve the list of hosts to whoever has the token, as the gateway does; over TLS with a port for each."""
    made = Listing()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            credential = self.headers.get("Authorization", "")
            known, asked = credential == f"Bearer {TOKEN}", self.path == "/"
            if not asked:
                made.seen.append((self.path, credential))
            body = json.dumps({"agent": "coder", "hosts": told}).encode() if known and asked else b"{}"
            self.send_response(401 if asked and not known else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        told = {name: {"repositories": [], "port": None, **each} for name, each in hosts.items()}
        if tls is not None:
            authority = Authority(tls, ("localhost",))
            authority.renew(datetime.now(UTC))
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(authority.server_certificate, authority.server_key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            made.url, made.ca = f"https://localhost:{server.server_port}", str(authority.certificate)
            told = {name: each | {"port": server.server_port} for name, each in told.items()}
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown()
