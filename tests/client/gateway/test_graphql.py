"""GraphQL through the gateway, to a small forge in GitLab's shape, and the judging of documents by themselves."""

from __future__ import annotations

import json

import httpx
import pytest

from counterfoil.gateway.graphql_requests import NotJudged, judge_request
from counterfoil.gateway.reader import Head, Keeps, KeptBody, Passes, WordedAnswer
from counterfoil.gateway.rules import RulesReader
from counterfoil.gateway.settings import HostSettings
from ledger.key_files import write_private
from tests.client.gateway.conftest import DONE, LONG_S, new_gateway, read_outcome, register_system
from tests.support.outside import git_server, gitlab

SHA = "a" * 40
MERGE = "mutation Tidy($to: MergeRequestAcceptInput!) { done: mergeRequestAccept(input: $to) { errors } }"


def merge(number, sha=SHA, **more):
    return {"query": MERGE, "variables": {"to": {"projectPath": "team/app", "iid": number, "sha": sha, **more}}}


@pytest.fixture(scope="module")
def forge(house, tmp_path_factory):
    """The forge, which the console reads over REST as the system `gitlab`."""
    with gitlab.served(tmp_path_factory.mktemp("gitlab")) as made:
        made.head = made.project(tmp_path_factory.mktemp("work"))
        for number in (7, 8, 9):
            made.request(number)
        register_system(house, "gitlab", {"url": made.url, "token": made.token}, pattern="forge")
        yield made


def state_of(forge, number):
    return forge.requests[number]["state"]


@pytest.fixture(scope="module")
def gateway(house, forge, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphql")
    hosts = {
        "hosts.gitlab": {
            "reader": "rules",
            "rules": "gitlab-graphql",
            "url": f"{forge.origin}/api",
            "scheme": "bearer",
            "credential_file": str(folder / "gitlab.token"),
        }
    }
    with (
        git_server.served(folder) as unused,
        new_gateway(house, unused, folder, "merger", hosts) as made,
    ):
        write_private(folder / "gitlab.token", "glpat-real\n")
        yield made.start(hold_s=4.0)


def ask(gateway, document, method="POST", **options):
    headers = {"Authorization": f"Bearer {gateway.token}"}
    address = f"{gateway.url}/gitlab/graphql"
    if method == "GET":
        return httpx.get(address, params=document, headers=headers, timeout=LONG_S)
    return httpx.post(address, json=document, headers=headers, timeout=LONG_S, **options)


def test_queries_pass_and_a_mutation_waits_whatever_its_operation_is_called(gateway, forge, house):
    opened = {"data": {"mergeRequest": {"state": "opened"}}}
    query = {"query": 'query mergeRequestAccept { mergeRequest(iid: "7") { state } }'}
    assert ask(gateway, query).json() == opened
    assert ask(gateway, query, "GET").json() == opened
    waits = ask(gateway, merge("7", forge.head))
    assert waits.status_code == 409
    assert waits.json()["errors"][0]["message"].startswith("Counterfoil: waits for approval, send it again later: ")
    assert state_of(forge, 7) == "opened"
    (one,) = (each for each in gateway.held if each.tool == "gitlab.accept_merge_request")
    assert (one.arguments["project"], one.arguments["number"]) == ("team/app", "7")
    house.approve()
    done = ask(gateway, merge("7", forge.head))
    assert (done.status_code, done.json()) == (200, {"data": {"done": {"errors": []}}})
    assert (state_of(forge, 7), read_outcome(house, one)) == ("merged", DONE)


def test_a_branch_that_a_mutation_makes_is_read_back_over_rest(gateway, forge, house):
    made = {"projectPath": "team/app", "name": "next", "ref": forge.head}
    document = {
        "query": "mutation($to: CreateBranchInput!) { createBranch(input: $to) { errors } }",
        "variables": {"to": made},
    }
    assert ask(gateway, document).status_code == 409
    (one,) = (each for each in gateway.held if each.tool == "gitlab.create_branch")
    house.approve()
    assert ask(gateway, document).json() == {"data": {"createBranch": {"errors": []}}}
    assert read_outcome(house, one) == DONE


def test_a_mutation_by_get_in_a_fragment_or_in_a_batch_does_not_reach_the_host(gateway, forge):
    by_get = ask(gateway, {"query": 'mutation { mergeRequestAccept(input: {iid: "9"}) { errors } }'}, "GET")
    assert (by_get.status_code, by_get.json()["errors"][0]["message"]) == (
        403,
        "Counterfoil: refused: a mutation is sent by POST",
    )
    batch = ask(gateway, [merge("9")])
    assert (batch.status_code, batch.json()["errors"][0]["message"]) == (
        422,
        "Counterfoil: refused: several requests in one cannot be judged: send each by itself",
    )
    beside = httpx.post(
        f"{gateway.url}/gitlab/graphql?query=mutation",
        json={"query": "{ a }"},
        headers={"Authorization": f"Bearer {gateway.token}"},
        timeout=LONG_S,
    )
    assert beside.status_code == 403
    assert state_of(forge, 9) == "opened"


def test_a_value_that_cannot_be_shown_exactly_is_refused_in_graphqls_own_shape(gateway):
    told = ask(gateway, merge(10**40))
    assert told.status_code == 422
    assert told.json()["errors"][0]["message"].startswith("Counterfoil: refused: ")


# Documents by themselves


def judged(query, **body):
    return judge_request({"query": query, **body})


@pytest.mark.parametrize(
    ("query", "field", "arguments"),
    [
        (
            "mutation { merge(a: 1.50, b: [true, null], c: X) { id } }",
            "merge",
            {"a": "1.50", "b": [True, None], "c": "X"},
        ),
        ("mutation query { alias: merge { id } }", "merge", {}),
        ("mutation { ...F } fragment F on Mutation { ... on Mutation { merge(a: 1) } }", "merge", {"a": 1}),
        ("mutation($a: Int = 3, $b: Int) { __typename merge(a: $a, b: $b) }", "merge", {"a": 3}),
        ("mutation { merge(a: 1) @include(if: false) }", "merge", {"a": 1}),
        ('mutation { merge(input: {x: "y", clientMutationId: "1"}) }', "merge", {"x": "y"}),
    ],
)
def test_a_mutation_is_known_by_its_root_field_and_by_the_values_of_its_arguments(query, field, arguments):
    found = judged(query).mutation
    assert (found.field, found.input) == (field, arguments)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"query": "mutation { a b }"}, "one root field here; this one has 2"),
        ({"query": "mutation { a @skip(if: $x) b @include(if: $x) }"}, "one root field here; this one has 2"),
        ({"query": "mutation { a @deleteAll }"}, "a directive that is not known here"),
        ({"query": "query A { a } mutation B { b }", "operationName": "A"}, "the only operation of its document"),
        ({"query": "query A { a } query B { b }", "operationName": "C"}, "names no operation"),
        ({"query": "subscription { a }"}, "subscriptions do not pass"),
        ({"query": "{ a"}, "cannot be parsed"),
        ({"query": "{ ...F } fragment F on Q { ...F }"}, "leads to itself, or is not there"),
        ({"query": "{ ...F }"}, "leads to itself, or is not there"),
        ({"query": "type A { a: Int }"}, "no document of operations"),
        ({"id": "stored-17"}, "what is stored at the server is not read"),
        ({"extensions": {"persistedQuery": {"sha256Hash": "0" * 64}}}, "extensions (persisted queries among them)"),
        ({"query": "{ a }", "doc_id": "7"}, "its member doc_id is not known here"),
        ({"query": "{ a }", "variables": "{}"}, "variables are an object"),
        ({"variables": {}}, "it has no document"),
        ({"query": "{" + "a{" * 5_000 + "a" + "}" * 5_001}, "nested too deeply"),
        (
            {
                "query": "{ ...F0 } "
                + " ".join(f"fragment F{one} on Q {{ ...F{one + 1} ...F{one + 1} }}" for one in range(40))
                + " fragment F40 on Q { a }"
            },
            "it stands for too many fields",
        ),
        ({"query": "mutation { a(b: 1, b: 2) }"}, "an argument twice"),
        ({"query": "mutation { a(b: {c: 1, c: 2}) }"}, "has a name twice"),
    ],
)
def test_a_document_that_cannot_be_judged_is_refused_with_the_reason(body, says):
    with pytest.raises(NotJudged) as refused:
        judge_request(body)
    assert says in str(refused.value)


def test_a_mutation_without_a_rule_a_secret_and_a_blind_answer_are_refused_in_graphqls_own_form(tmp_path):
    made = RulesReader("gitlab", HostSettings(reader="rules", url="https://h.example.org", rules="gitlab-graphql"))
    head = Head("POST", "graphql", "", {"content-type": "application/json"})
    assert isinstance(made.admit(head), Keeps)

    def refuse(query):
        answer = made.read(head, kept(tmp_path, {"query": query}))
        assert isinstance(answer, WordedAnswer)
        return answer.status, json.loads(answer.body)["errors"][0]["message"]

    assert refuse("mutation { projectDelete(id: 1) { errors } }") == (
        403,
        "Counterfoil: the mutation projectDelete is refused because no rule names it",
    )
    assert refuse('{ project(fullPath: "a") { ciVariables { nodes { value } } } }') == (
        422,
        "Counterfoil: refused: the field ciVariables is refused by the rule gitlab.graphql",
    )
    blind = 'mutation { createBranch(input: {projectPath: "a", name: "b", ref: "c"}) { branch { name } } }'
    assert "select errors of createBranch" in refuse(blind)[1]
    aliased = blind.replace("{ branch {", "{ errors: branch {")
    assert "select errors of createBranch" in refuse(aliased)[1]
    assert isinstance(made.read(head, kept(tmp_path, {"query": "{ a }"})), Passes)


@pytest.mark.parametrize(
    ("status", "answer", "judged_as"),
    [
        (200, {"data": {"done": {"errors": []}}}, "success"),
        (200, {"data": {"done": {"errors": ["Branch cannot be merged"]}}}, "failed"),
        (200, {"errors": [{"message": "bad"}]}, "failed"),
        (200, {"data": {"done": None}}, "timeout"),
        (200, {"data": {"done": None}, "errors": [{"message": "it broke"}]}, "timeout"),
        (200, {"data": {"done": {"mergeRequest": None}}}, "timeout"),
        (200, [], "timeout"),
        (403, {"message": "no"}, "failed"),
        (502, {}, "timeout"),
    ],
)
def test_an_answer_is_done_only_where_it_says_so_itself(tmp_path, status, answer, judged_as):
    made = RulesReader("gitlab", HostSettings(reader="rules", url="https://h.example.org", rules="gitlab-graphql"))
    head = Head("POST", "graphql", "", {"content-type": "application/json"})
    intent = made.read(head, kept(tmp_path, merge("7")))

    class Held:
        tool, shape = intent.tool, intent.shape

    result = made.judge(Held, status, "application/json", json.dumps(answer).encode())
    assert result.status == judged_as


def kept(tmp_path, document):
    file = tmp_path / "body"
    file.write_text(json.dumps(document))
    return KeptBody(file, "0" * 64, file.stat().st_size)
