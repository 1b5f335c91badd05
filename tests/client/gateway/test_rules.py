"""Requests by rules as data: to a small server in the shape of GitHub's documented API, and to a real package index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import cache

import httpx
import pytest

from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, Passes, WordedAnswer
from counterfoil.gateway.rules import RulesReader, load_rules
from counterfoil.gateway.settings import HostSettings
from counterfoil.gating.settings import BadSettings
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules import contract_faults
from ledger.key_files import write_private
from tests.client.gateway.conftest import CREDENTIAL, DONE, LONG_S, new_gateway, read_outcome, register_system
from tests.support.outside import forge as forges
from tests.support.outside import git_server, package_server

MERGE = "repos/team/app/pulls/7/merge"


@pytest.fixture(scope="module")
def forge(house, tmp_path_factory):
    """A forge in the shape of GitHub's API over real repositories, which the console reads as the system `forge`."""
    root, work = tmp_path_factory.mktemp("forge"), tmp_path_factory.mktemp("work")
    with forges.served(root) as server:
        bare = root / "team/app.git"
        bare.mkdir(parents=True)
        git_server.git(bare, "init", "-q", "--bare", "-b", "main")
        git_server.git(work, "clone", "-q", str(bare), ".")
        for branch in ("main", "better"):
            git_server.commit(work, branch)
            git_server.git(work, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        for number in (7, 8, 9):
            server.head = server.pull("team/app", number, "better")
        register_system(house, "forge", {"url": server.url, "token": server.token})
        yield server


@pytest.fixture(scope="module")
def index(house, tmp_path_factory):
    """A real package index, which the console reads as the system `packages`."""
    with package_server.served(tmp_path_factory.mktemp("index")) as server:
        register_system(house, "packages", {"url": server.simple})
        yield server


@pytest.fixture(scope="module")
def gateway(house, forge, index, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    with git_server.served(folder) as host, new_gateway_of_rules(house, host, folder, forge, index) as made:
        yield made


@contextmanager
def new_gateway_of_rules(house, host, folder, forge, index):
    hosts = {
        "hosts.github": {"reader": "rules", "rules": "github", "url": forge.url, "scheme": "bearer"},
        "hosts.pypi": {"reader": "rules", "rules": "pypi", "url": index.url},
    }
    # Each with a session of its own: a rejected step is to be acknowledged by the next one in its session.
    for name in ("merger", "brancher"):
        hosts[f"agents.{name}"] = {"goal": "Merge what was reviewed."}
    hosts["hosts.github"]["credential_file"] = str(folder / "forge.credential")
    with new_gateway(house, host, folder, "publisher", hosts) as made:
        yield made.start(hold_s=3.0)


@cache
def token_of(gateway, agent):
    return gateway.program("token", agent).stdout.decode().strip()


def request(gateway, method, path, document=None, *, agent="merger", **options):
    headers = {"Authorization": f"token {token_of(gateway, agent)}"}
    return httpx.request(method, f"{gateway.url}/{path}", json=document, headers=headers, timeout=LONG_S, **options)


def carry_out(gateway, house, *words):
    """Send a request that waits, approve it and send it again; return its answer and the console's outcome in words."""
    waits = request(gateway, *words, agent="brancher").json()["message"]
    assert waits.startswith("Counterfoil: waits for approval"), waits
    (held,) = (each for each in gateway.held if each.agent == "brancher" and not each.answer_status)
    house.approve()
    done = request(gateway, *words, agent="brancher")
    return done, read_outcome(house, held)


def merges(forge):
    return [each for each in forge.changes if each[0] == "PUT"]


def test_a_merge_waits_with_409_is_sent_once_after_approval_and_a_rejected_one_is_403(gateway, forge, house):
    waits = request(gateway, "PUT", f"github/{MERGE}", {"sha": forge.head, "merge_method": "squash"})
    assert waits.status_code == 409
    place = f"{house.stack.url}/t/{house.tenant}/approvals/"
    assert waits.json()["message"].startswith(f"Counterfoil: waits for approval, send it again later: {place}")
    assert merges(forge) == []
    house.approve()
    done = request(gateway, "PUT", f"github/{MERGE}", {"sha": forge.head, "merge_method": "squash"})
    assert (done.status_code, done.json()["merged"]) == (200, True)
    assert merges(forge) == [
        ("PUT", f"/{MERGE}", {"sha": forge.head, "merge_method": "squash"}, f"Bearer {CREDENTIAL}")
    ]
    one = next(each for each in gateway.held if each.tool == "github.merge")
    assert one.arguments["head_commit"] == forge.head
    assert one.arguments["host"] == forge.url
    assert read_outcome(house, one) == DONE
    other = request(gateway, "PUT", "github/repos/team/app/pulls/8/merge", {"sha": forge.head})
    assert other.status_code == 409
    house.decide("reject", "Not this one.")
    rejected = request(gateway, "PUT", "github/repos/team/app/pulls/8/merge", {"sha": forge.head})
    assert rejected.status_code == 403
    assert "rejected by a reviewer: Not this one." in rejected.json()["message"]
    assert len(merges(forge)) == 1


def test_a_merge_by_graphql_is_read_back_as_one_over_rest(gateway, forge, house):
    document = {
        "query": "mutation PullRequestMerge($input: MergePullRequestInput!) {mergePullRequest(input: $input) {actor}}",
        "variables": {"input": {"pullRequestId": "team/app#9", "mergeMethod": "SQUASH", "expectedHeadOid": forge.head}},
    }
    waits = request(gateway, "POST", "github/graphql", document, agent="brancher")
    assert waits.status_code == 409
    (held,) = (each for each in gateway.held if each.tool == "github.merge_pull_request")
    house.approve()
    done = request(gateway, "POST", "github/graphql", document, agent="brancher")
    assert (done.status_code, read_outcome(house, held)) == (200, DONE), gateway.log


def test_a_branch_that_is_made_moved_and_removed_over_rest_is_read_back_each_time(gateway, forge, house):
    main = forge.git("team/app", "rev-parse", "main~0")
    refs = "github/repos/team/app/git/refs"
    for words, status in (
        (("POST", refs, {"ref": "refs/heads/next", "sha": forge.head}), 201),
        (("PATCH", f"{refs}/heads/next", {"sha": main, "force": True}), 200),
        (("DELETE", f"{refs}/heads/next"), 204),
    ):
        done, sentence = carry_out(gateway, house, *words)
        assert (done.status_code, sentence) == (status, DONE), gateway.log


def test_a_release_over_rest_is_read_back_by_its_tag(gateway, forge, house):
    forge.git("team/app", "tag", "v1", "better")
    words = ("POST", "github/repos/team/app/releases", {"tag_name": "v1", "name": "One", "draft": False})
    done, sentence = carry_out(gateway, house, *words)
    assert (done.status_code, sentence) == (201, DONE), gateway.log


def test_a_read_passes_and_a_request_that_no_rule_names_is_refused(gateway, forge):
    assert request(gateway, "GET", "github/repos/team/app/pulls/7").json()["number"] == 7
    for method, path in (("DELETE", "github/repos/team/app"), ("POST", "github/orgs/team/repos")):
        refused = request(gateway, method, path)
        assert refused.status_code == 403
        assert refused.json()["message"] == f"Counterfoil: {method} of this address is refused because no rule names it"
    secret = request(gateway, "GET", "github/repos/team/app/actions/secrets")
    assert secret.json()["message"].endswith("is refused by the rule github.no_secrets")
    unseen = request(gateway, "PUT", f"github/{MERGE}", {"sha": forge.head, "admin": True})
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
    assert (one.state, read_outcome(house, one)) == ("reported", DONE)
    assert [each.name for each in index.files.rglob("*.tar.gz")] == ["lantern-1.0.tar.gz"]


def test_a_rule_that_changed_without_a_new_version_is_not_said_to_be_registered(house, host, tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(REFUND)
    write_private(tmp_path / "shop.credential", CREDENTIAL + "\n")
    shop = {"reader": "rules", "url": "https://shop.example.org", "rules": str(file)}
    shop["credential_file"] = str(tmp_path / "shop.credential")
    with new_gateway(house, host, tmp_path, "coder-register", {"hosts.shop": shop}) as made:
        assert made.program("register").returncode == 0
        file.write_text(REFUND.replace("Refund a charge.", "Refund a charge of a customer."))
        again = made.program("register")
        assert again.returncode == 1
        assert b"contract shop.refund: not registered: This version is already registered with a different" in (
            again.stdout + again.stderr
        )


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


@pytest.mark.parametrize(
    ("path", "name", "file"),
    [
        ("@team%2flantern/-/a.tgz", "@team/lantern", "a.tgz"),
        ("%40team%2Flantern/-/a%20b/c", "@team/lantern", "a b/c"),
        ("caf%C3%A9/-/a%2fb", "café", "a%2Fb"),
    ],
)
def test_a_variable_of_a_path_is_decoded_once_and_two_addresses_stay_two(tmp_path, path, name, file):
    rule = REFUND.replace("/v1/charges/{charge}/refunds", "/{charge}/-/{+rest}")
    intent = read(reader(tmp_path, rule), tmp_path, b'{"amount": 1}', path=path)
    assert (intent.arguments["charge"], intent.arguments["rest"]) == (name, file)
    assert intent.arguments["request"]["path"] == f"/{path}"


def test_a_path_that_is_no_text_is_refused(tmp_path):
    refused = read(reader(tmp_path, REFUND), tmp_path, b'{"amount": 1}', path="v1/charges/ch_%ff/refunds")
    assert json.loads(refused.body)["message"] == "Counterfoil: refused: charge is no text in UTF-8"


def read_form(tmp_path, body, path="v1/charges/ch_1/refunds"):
    text = REFUND.replace('"json"', '"form"').replace(
        "target =", 'match = { amount = "^[1-9][0-9]*$", charge = "^ch_[a-z0-9]+$" }\ntarget ='
    )
    file = tmp_path / "body"
    file.write_bytes(body)
    head = Head("POST", path, "", {"content-type": "application/x-www-form-urlencoded; charset=utf-8"})
    made = reader(tmp_path, text)
    assert isinstance(made.admit(head), Keeps)
    return made.read(head, KeptBody(file, "0" * 64, len(body)))


def test_the_fields_of_a_form_are_proposed_decoded(tmp_path):
    intent = read_form(tmp_path, b"amount=1250&reason=not+wanted%2C%20%C3%A9")
    assert isinstance(intent, Intent)
    assert (intent.arguments["amount"], intent.arguments["reason"]) == ("1250", "not wanted, é")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"amount=1&amount=2", "it has a name twice"),
        (b"amount=1&%61mount=2", "it has a name twice"),
        (b"amount=1;amount=2", "a character is not encoded"),
        (b"amount=1&reason=%zz", "a character is not encoded"),
        (b"amount=1&reason=\xc3\xa9", "a character is not encoded"),
        (b"amount=1&reason=%ff", "it is no form in UTF-8"),
        (b"amount=1&reason", "it is no form in UTF-8"),
        (b"amount=1&to=x", "its rule does not list /to"),
        (b"", "the field /amount is missing"),
        (b"amount=0", "amount is not as its rule has it: ^[1-9][0-9]*$"),
        (b"amount=1%0A", "amount is not as its rule has it"),
        (b"amount=1&" + b"&".join(b"a%d=" % number for number in range(600)), "it is no form"),
    ],
)
def test_a_form_that_could_be_read_in_two_ways_is_refused(tmp_path, body, says):
    refused = read_form(tmp_path, body)
    assert isinstance(refused, WordedAnswer)
    assert refused.status == 422
    assert says in json.loads(refused.body)["message"]


def test_a_variable_of_the_path_that_does_not_match_is_refused(tmp_path):
    refused = read_form(tmp_path, b"amount=1", path="v1/charges/other/refunds")
    assert "charge is not as its rule has it: ^ch_[a-z0-9]+$" in json.loads(refused.body)["message"]


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
        (("done = [200, 201]", ""), "a changing rule has a description, a target, done or accepted, and not_done"),
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
        (("target =", 'match = { colour = "red" }\ntarget ='), "match names colour, which is no argument"),
        (("target =", 'match = { amount = "(" }\ntarget ='), "match has no expression"),
        (
            ('method = ["POST"]\npath = "/v1/charges/{charge}/refunds"', 'mutation = "refund"\nreceipt = "/id"'),
            "accepted and receipt are of an answer over REST",
        ),
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
