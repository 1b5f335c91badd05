"""The OpenAPI document: a valid one, complete, and true of what is answered."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import typing
from collections import defaultdict
from typing import Any

import jsonschema_rs
import pytest
from django.http.response import HttpResponseBase
from ninja.openapi.schema import OpenAPISchema
from ninja.responses import NinjaJSONEncoder

from console.api.root import api
from console.edge.admission import NotAdmitted, TooLarge, TooSlow, send_refusal
from tests.support import api_tour
from tests.support.api_tenant import anonymous
from tests.support.callers import Api
from tests.support.probes import Day


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema(), cls=NinjaJSONEncoder))
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    whole = schema | {"components": document["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def test_the_document_is_openapi_3_1(document: dict[str, Any]):
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert {"title", "version"} <= document["info"].keys()
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for part in document["components"].values() for name in part)


def test_every_reference_resolves(document: dict[str, Any]):
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            assert part in found, reference
            found = found[part]


def test_every_schema_is_a_json_schema(document: dict[str, Any]):
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"})
    every = {name: {"$ref": f"#/components/schemas/{name}"} for name in document["components"]["schemas"]}
    assert validator(document, {"properties": every})


def test_the_served_document_is_this_one(db: None, document: dict[str, Any]):
    answer = anonymous().get("/openapi.json")
    assert (answer.status_code, answer.json()) == (200, document)


def test_no_two_schemas_share_a_name(monkeypatch: pytest.MonkeyPatch):
    """Ninja keeps the last one of a name, and describes the other operations by it."""
    found: dict[str, list[Any]] = defaultdict(list)

    def noting(self: OpenAPISchema, definitions: dict[str, Any]) -> None:
        for name, said in definitions.items():
            found[name] += [said] if said not in found[name] else []
        self.schemas.update(definitions)

    monkeypatch.setattr(OpenAPISchema, "add_schema_definitions", noting)
    api.get_openapi_schema()
    assert len(found) > 100
    assert [name for name, said in found.items() if len(said) > 1] == []


def test_every_operation_documents_its_purpose_input_output_and_refusals(document: dict[str, Any]):
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["tags"], where
        in_path = {each["name"] for each in operation["parameters"] if each.get("in") == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path)), where
        problems = {status for status, said in operation["responses"].items() if "$ref" in said}
        assert "503" in operation["responses"], where
        expected = {"500"} | ({"401", "403", "429"} if "security" in operation else set())
        expected |= {"400", "404", "408", "409", "413", "422"} if method == "post" else set()
        assert expected <= problems, where
        good = [said for status, said in operation["responses"].items() if status < "300"]
        assert len(good) == 1, where
        (content,) = good[0]["content"].values()
        assert content["schema"], where


def test_every_write_with_a_body_documents_its_schema(document: dict[str, Any]):
    silent = {"/close", "/claim", "/release", "/wake", "/verify", "/pause", "/resume", "/cancel"}
    silent |= {"/invitation", "/separation", "/options", "/confirm", "/restore", "/remove", "/end", "/again", "/gates"}
    silent |= {"/test"}
    for method, path, operation in operations(document):
        may_be_silent = f"/{path.rpartition('/')[2]}" in silent
        if method == "post" and not may_be_silent:
            assert operation["requestBody"]["content"]["application/json"]["schema"], path


def test_writes_take_an_idempotency_key_and_a_start_takes_a_proof(document: dict[str, Any]):
    for method, path, operation in operations(document):
        references = {each["$ref"] for each in operation["parameters"] if "$ref" in each}
        # A webhook has a name of its own.
        is_write = method == "post" and not path.endswith("/hooks/{tenant_id}/{hook_id}")
        assert ("#/components/parameters/IdempotencyKey" in references) == is_write, path
        assert ("#/components/parameters/DPoP" in references) == path.endswith("/executions"), path


def test_every_recorded_call_is_declared_and_answered_as_declared(day: Day, document: dict[str, Any]):
    validators: dict[str, Any] = {}
    declared = [(method.upper(), path, operation) for method, path, operation in operations(document)]
    for call in day.sent:
        operation = next(
            said for method, path, said in declared if method == call.method and api_tour.is_of(call.path, path)
        )
        said = operation["responses"][str(call.status)]
        ((kind, content),) = said["content"].items()
        assert call.kind.partition(";")[0] == kind, call.path
        if kind == "application/json":
            described = json.dumps(content["schema"])
            if described not in validators:
                validators[described] = validator(document, content["schema"])
            validators[described].validate(json.loads(call.content))
    missed = [
        f"{method} {path}"
        for method, path, _ in declared
        if not any(method == call.method and api_tour.is_of(call.path, path) for call in day.sent)
    ]
    assert missed == [], "a call that nobody makes on that day"


def test_every_route_returns_its_declared_class():
    """A route is checked against its own annotation by mypy; here the annotation is held to the document."""
    checked = 0
    for router in api._routers:
        for view in router[1].path_operations.values():
            for operation in view.operations:
                declared = {model.__annotations__["response"] for model in operation.response_models.values()}
                returned = inspect.signature(operation.view_func, eval_str=True).return_annotation
                kinds = set(typing.get_args(returned) or [returned]) - {type(None)}
                if not any(isinstance(kind, type) and issubclass(kind, HttpResponseBase) for kind in kinds):
                    assert declared == {returned}, operation.view_func
                    checked += 1
    assert checked > 100


def test_problems_match_their_declaration(agent: Api, document: dict[str, Any]):
    problem = validator(document, {"$ref": "#/components/schemas/Problem"})
    for answer in (
        anonymous().get("/actions"),
        agent.get("/agents"),
        agent.get("/nothing"),
        agent.post("/sessions", {"agent_id": 7}),
        agent.client.delete("/api/v1/actions"),
    ):
        assert answer["Content-Type"] == "application/problem+json"
        problem.validate(answer.json())


@pytest.mark.parametrize("refusal", [NotAdmitted, TooLarge, TooSlow])
def test_refusals_of_the_edge_are_declared_for_every_write(document: dict[str, Any], refusal: type[NotAdmitted]):
    head, body = refused_at_the_edge(refusal())
    status = str(head["status"])
    for method, path, operation in operations(document):
        assert (status in operation["responses"]) >= (method == "post"), path
    said = document["components"]["responses"][f"Problem{status}"]
    validator(document, {"$ref": "#/components/schemas/Problem"}).validate(json.loads(body))
    assert "nothing" in said["description"]
    assert ((b"retry-after", b"2") in head["headers"]) == ("Retry-After" in said.get("headers", {}))


def refused_at_the_edge(refusal: NotAdmitted) -> tuple[dict[str, Any], bytes]:
    """How a request of the API is refused before it gets a thread: the head of the answer, and its body."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(send_refusal(refusal, {"path": "/api/v1/sessions"}, receive, send))
    return sent[0], b"".join(each.get("body", b"") for each in sent[1:])


def test_the_docs_page_shows_every_call_and_asks_no_other_host(document: dict[str, Any]):
    answer = anonymous().get("/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    for _, path, operation in operations(document):
        assert path in page
        assert f'id="{operation["operationId"]}"' in page
    assert re.findall(r"(?:src|href|action)=[\"'](?:https?:)?//", page) == []
    # Our policy allows no inline script or style, so there must be none.
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=", page) == []
    assert "'unsafe" not in answer["Content-Security-Policy"]


def test_the_document_and_its_page_can_only_be_read(agent: Api):
    for path in ("/docs", "/openapi.json"):
        answer = agent.client.post(f"/api/v1{path}", {}, "application/json")
        assert answer.status_code == 405, path
        assert answer["Allow"] == "GET"
