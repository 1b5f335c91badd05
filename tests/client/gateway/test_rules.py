"""Requests by rules as data: to a small server in the shape of GitHub's documented API, and to a real package index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from console.local.keys import write_private
from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, Passes, WordedAnswer
from counterfoil.gateway.rules import RulesReader, load_rules
from counterfoil.gateway.settings import HostSettings
from counterfoil.gating.settings import BadSettings
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules import contract_faults
from tests.client.gateway.conftest import CREDENTIAL, LONG_S, new_gateway
from tests.mcp.house import TENANT
from tests.support.outside import git_server, package_server

MERGE = "repos/team/app/pulls/7/merge"
COMMIT = "a" * 40


@pytest.fixture(scope="module")
def forge():
    """A server in the shape of GitHub's API: it merges, and counts what reached it."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.answer(200, {"number": 7})

        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, body, self.headers["Authorization"]))
            self.answer(200, {"merged": True})

        def answer(self, status, document):
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def index(house, tmp_path_factory):
    """A real package index, which the console reads as the system `packages`."""
    with package_server.served(tmp_path_factory.mktemp("index")) as server:
        folder = Path(house.stack.environment["COUNTERFOIL_SECRETS_DIR"]) / "systems" / TENANT
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(folder / "packages.json", json.dumps({"url": server.simple}))
        body = {"name": "packages", "pattern": "packages", "settings": {"url": server.simple}}
        assert house.operator.post("/systems", body).status_code == 201
        yield server


@pytest.fixture(scope="module")
def gateway(house, forge, index, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    with git_server.served(folder) as host, new_gateway_of_rules(house, host, folder, forge, index) as made:
        yield made


@contextmanager
def new_gateway_of_rules(house, host, folder, forge, index):
    hosts = {
        "hosts.github": {"reader": "rules", "rules": "github", "url": forge[0], "scheme": "bearer"},
        "hosts.pypi": {"reader": "rules", "rules": "pypi", "url": index.url},
    }
    # Each with a session of its own: a rejected step is to be acknowledged by the next one in its session.
    hosts["agents.merger"] = {"goal": "Merge what was reviewed."}
    hosts["hosts.github"]["credential_file"] = str(folder / "forge.credential")
    with new_gateway(house, host, folder, "publisher", hosts) as made:
        yield made.start(hold_s=3.0)


@cache
def merger_token(gateway):
    return gateway.program("token", "merger").stdout.decode().strip()


def request(gateway, method, path, document=None, **options):
    headers = {"Authorization": f"token {merger_token(gateway)}"}
    return httpx.request(method, f"{gateway.url}/{path}", json=document, headers=headers, timeout=LONG_S, **options)


def test_a_merge_waits_with_409_is_sent_once_after_approval_and_a_rejected_one_is_403(gateway, forge, house):
    url, seen = forge
    waits = request(gateway, "PUT", f"github/{MERGE}", {"sha": COMMIT, "merge_method": "squash"})
    assert waits.status_code == 409
    place = f"{house.stack.url}/t/attic/approvals/"
    assert waits.json()["message"].startswith(f"Counterfoil: waits for approval, send it again later: {place}")
    assert seen == []
    house.approve()
    done = request(gateway, "PUT", f"github/{MERGE}", {"sha": COMMIT, "merge_method": "squash"})
    assert (done.status_code, done.json()) == (200, {"merged": True})
    ((path, body, credential),) = seen
    assert (path, json.loads(body)) == (f"/{MERGE}", {"sha": COMMIT, "merge_method": "squash"})
    assert credential == f"Bearer {CREDENTIAL}"
    one = next(each for each in gateway.held if each.tool == "github.merge")
    assert one.arguments["head_commit"] == COMMIT
    assert one.arguments["host"] == url
    other = request(gateway, "PUT", "github/repos/team/app/pulls/8/merge", {"sha": COMMIT})
    assert other.status_code == 409
    house.decide("reject", "Not this one.")
    rejected = request(gateway, "PUT", "github/repos/team/app/pulls/8/merge", {"sha": COMMIT})
    assert rejected.status_code == 403
    assert "rejected by a reviewer: Not this one." in rejected.json()["message"]
    assert len(seen) == 1


def test_a_read_passes_and_a_request_that_no_rule_names_is_refused(gateway, forge):
    assert request(gateway, "GET", "github/repos/team/app/pulls/7").json() == {"number": 7}
    for method, path in (("DELETE", "github/repos/team/app"), ("POST", "github/orgs/team/repos")):
        refused = request(gateway, method, path)
        assert refused.status_code == 403
        assert refused.json()["message"] == f"Counterfoil: {method} of this address is refused because no rule names it"
    secret = request(gateway, "GET", "github/repos/team/app/actions/secrets")
    assert secret.json()["message"].endswith("is refused by the rule github.no_secrets")
    unseen = request(gateway, "PUT", f"github/{MERGE}", {"sha": COMMIT, "admin": True})
    assert (unseen.status_code, unseen.json()["message"]) == (
        422,
        "Counterfoil: refused: its rule does not list /admin",
    )


def test_an_upload_by_twine_waits_is_published_once_and_read_back(gateway, index, house, tmp_path):
    file = package_server.make_sdist(tmp_path, "lantern", "1.0")

    def upload():
        words = ["upload", "--non-interactive", "--disable-progress-bar", "-u", "__token__", "-p", gateway.token]
        address = ["--repository-url", f"{gateway.url}/pypi/", str(file)]
        environment = os.environ | {"HOME": str(tmp_path)}
        ran = [sys.executable, "-m", "twine", *words, *address]
        return subprocess.run(ran, capture_output=True, text=True, timeout=LONG_S, env=environment)

    waits = upload()
    assert waits.returncode == 1
    assert "Counterfoil: waits for approval, send it again later: " in waits.stdout + waits.stderr
    house.approve()
    done = upload()
    assert done.returncode == 0, done.stdout + done.stderr + gateway.log
    one = next(each for each in gateway.held if each.tool == "pypi.upload")
    assert (one.arguments["project"], one.arguments["filename"]) == ("lantern", "lantern-1.0.tar.gz")
    assert (one.state, house.state(one.action_id)) == ("reported", "RECONCILED_SUCCESS")
    assert [each.name for each in index.files.rglob("*.tar.gz")] == ["lantern-1.0.tar.gz"]


# The rules by themselves


def reader(tmp_path, text):
    file = tmp_path / "rules.toml"
    file.write_text(text)
    return RulesReader("shop", HostSettings(reader="rules", url="https://shop.example.org", rules=str(file)))


REFUND = """
[[rule]]
name = "shop.refund"
description = "Refund a charge."
method = ["POST"]
path = "/v1/charges/{charge}/refunds"
effect = "change"
body = "json"
fields = { amount = "/amount", reason = "/reason?" }
target = "charge/{charge}"
idempotency_header = "Idempotency-Key"
done = [200, 201]
not_done = [400, 402]
"""


def read(made, tmp_path, body, path="v1/charges/ch-1/refunds", query=""):
    file = tmp_path / "body"
    file.write_bytes(body)
    head = Head("POST", path, query, {"content-type": "application/json"})
    assert isinstance(made.admit(head), Keeps)
    return made.read(head, KeptBody(file, "0" * 64, len(body)))


def test_a_rules_file_written_by_a_user_defines_a_gated_tool(tmp_path):
    made = reader(tmp_path, REFUND)
    intent = read(made, tmp_path, b'{"amount": 12.50}')
    assert isinstance(intent, Intent)
    assert (intent.tool, intent.arguments["charge"], intent.arguments["amount"]) == ("shop.refund", "ch-1", "12.50")
    assert intent.shape == {"idempotency_headers": ["Idempotency-Key"]}
    assert intent.key != read(made, tmp_path, b'{"amount": 12.50}', path="v1/charges/ch-2/refunds").key
    assert isinstance(made.admit(Head("GET", "v1/charges", "", {})), WordedAnswer)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"amount": 1, "to": "x"}', "its rule does not list /to"),
        (b'{"reason": "x"}', "the field /amount is missing"),
        (b'{"amount": 1, "reason": null}', "the field /reason is null"),
        (b'{"amount": 1, "amount": 2}', "it has a name twice"),
        (b'{"amount": NaN}', "NaN is no number of JSON"),
        (b"[1]", "it is not an object"),
        (b'{"amount": "\xff"}', "it is not JSON in UTF-8"),
        (b'{"amount": 99999999999999999999}', "An integer lies outside"),
        (b"[" * 100_000, "it is not JSON in UTF-8"),
    ],
)
def test_a_body_that_cannot_be_shown_completely_is_refused(tmp_path, body, says):
    refused = read(reader(tmp_path, REFUND), tmp_path, body)
    assert isinstance(refused, WordedAnswer)
    assert refused.status == 422
    assert says in json.loads(refused.body)["message"]


PACKAGE = "lantern"


@pytest.mark.parametrize(
    ("body", "tool", "shown"),
    [
        (
            b'{"name": "lantern", "dist-tags": {"a": "1"}, "versions": {"1": {"dist": {"integrity": "x"}}, "2": {}},'
            b' "_attachments": {"f.tgz": {"data": "eA==", "length": 1}}}',
            "npm.publish",
            {"versions": ["1", "2"], "files": {"f.tgz": 1}, "checksums": {"1": "x"}, "tags": {"a": "1"}},
        ),
        (
            b'{"name": "lantern", "versions": {"1": {"deprecated": "old"}, "2": {}}, "_attachments": {"f.tgz": {}}}',
            "npm.deprecate",
            {"texts": {"1": "old"}},
        ),
    ],
)
def test_the_rule_of_an_address_is_chosen_by_what_the_body_holds(tmp_path, body, tool, shown):
    intent = read_npm(tmp_path, "PUT", PACKAGE, body)
    assert isinstance(intent, Intent)
    assert intent.tool == tool
    assert {name: intent.arguments[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (PACKAGE, b'{"name": "lantern", "versions": {"1": {}}}', "the field /versions/*/deprecated is missing"),
        (f"{PACKAGE}/-rev/1-a", b'{"name": "lantern", "maintainers": []}', "the field /versions/* is missing"),
        (f"-/package/{PACKAGE}/dist-tags/a", b'{"version": "1"}', "it is not a text in JSON"),
        (f"-/package/{PACKAGE}/dist-tags/a", b'"1', "it is not a text in JSON"),
    ],
)
def test_an_npm_document_that_is_none_of_the_known_changes_is_refused(tmp_path, path, body, says):
    refused = read_npm(tmp_path, "PUT", path, body)
    assert isinstance(refused, WordedAnswer)
    assert says in json.loads(refused.body)["message"]


def read_npm(tmp_path, method, path, body):
    made = RulesReader("npm", HostSettings(reader="rules", url="https://npm.example.org", rules="npm"))
    file = tmp_path / "body"
    file.write_bytes(body)
    head = Head(method, path, "", {"content-type": "application/json"})
    assert isinstance(made.admit(head), Keeps)
    return made.read(head, KeptBody(file, "0" * 64, len(body)))


def test_a_query_that_no_rule_lists_is_refused(tmp_path):
    refused = read(reader(tmp_path, REFUND), tmp_path, b'{"amount": 1}', query="as=admin")
    assert "its rule does not list the query as once" in json.loads(refused.body)["message"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("change", "maybe"), "effect is read, change, refuse or graphql"),
        (('["POST"]', '["POST"]\ncolour = "red"'), "unknown name colour"),
        (("done = [200, 201]", ""), "a changing rule has a description, a target, done and not_done"),
        (('"change"', '"read"'), "only GET and HEAD can be read"),
        (('body = "json"', 'body = "none"\nwhen = { "/a" = true }'), "`when` needs a body of fields"),
        (
            (
                "[[rule]]",
                '[[rule]]\nname = "shop.no"\nmethod = ["POST"]\npath = "/v1/charges/{charge}/refunds"\n'
                'effect = "refuse"\nbody = "json"\nwhen = { "/a" = true }\n[[rule]]',
            ),
            "that `when` tells apart have one effect and one body",
        ),
        (('reason = "/reason?"', 'charge = "/reason?"'), "an argument has two sources"),
    ],
)
def test_an_unsafe_rule_is_refused_at_the_start(tmp_path, change, says):
    with pytest.raises(BadSettings) as refused:
        reader(tmp_path, REFUND.replace(*change))
    assert says in str(refused.value)


@pytest.mark.parametrize("named", ["github", "gitlab", "gitlab-graphql", "pypi", "npm"])
def test_the_contracts_of_the_shipped_rules_can_be_registered_and_reads_need_none(named):
    made = RulesReader(named, HostSettings(reader="rules", url="https://api.example.org", rules=named))
    assert made.tools
    for contract in made.tools.values():
        document = contracts.read(json.dumps(contract))
        assert contract_faults.shape_faults(document) == []
        assert list(contract_faults.semantic_faults(document)) == []
    if named != "gitlab-graphql":
        assert isinstance(made.admit(Head("GET", "anything/at/all", "a=b", {})), Passes)
    assert all(rule.effect != "read" or set(rule.method) == {"GET", "HEAD"} for rule in load_rules(named, where=named))
