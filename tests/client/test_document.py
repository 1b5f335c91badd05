"""The client against the OpenAPI document: what it calls and sends is there, and what it reads is what is answered.

Every answer is made from the document twice: once with all that it may hold, once with as little as it may. An answer
tells when something is read of it that the document does not know.
"""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter

from counterfoil.agent import ActionRequests, Agent, AgentRequests, Call, Session, SessionRequests
from counterfoil.answers import Question, StartAtOnce
from counterfoil.connection import Connection
from counterfoil.execution.lease import Lease
from counterfoil.executor import Executor
from counterfoil.proof import load_key
from counterfoil.transport.request import new_trace, request_method
from counterfoil.work import Work
from tests.support.api_tour import is_of

CLIENT = Path(__file__).parents[2] / "client"
TEXTS = {"uuid": "01a20715-7487-7371-acb8-ce6a778c7ff4", "date-time": "2999-01-01T00:00:00.000000Z"}
PLAIN = {"string": ("text", ""), "integer": (7, 0), "number": (0.5, 0), "boolean": (True, False), "null": (None, None)}
ACTION = TEXTS["uuid"]
CALL = Call(
    tool="issue_refund",
    arguments={"amount": 1},
    target_resource="charge/1",
    intended_outcome={"target_resource": "charge/1", "expected_predicates": ["sa.amount == 1"]},
    depends_on=[ACTION],
    acknowledges=[ACTION],
    based_on=[{"resource": "charge/1", "version": 3, "read_at": TEXTS["date-time"]}],
    evidence=[{"statement": "The customer wrote."}],
    dry_run=True,
    supersedes=ACTION,
)


class Answered(dict[str, Any]):
    """An object of an answer; to read what the document does not name is a mistake of the client."""

    names: frozenset[str] | None = None

    def _know(self, name: str) -> None:
        assert self.names is None or name in self.names, f"`{name}` is not in the document: {sorted(self.names)}"

    def get(self, name: str, default: Any = None) -> Any:
        self._know(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self._know(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._know(str(name))
        return super().__contains__(name)


class Document:
    """The document, and the two answers to each of its operations."""

    def __init__(self, *, full: bool) -> None:
        from console.api.root import api

        self.whole: dict[str, Any] = api.get_openapi_schema()
        self.full = full

    def operation(self, method: str, path: str) -> dict[str, Any]:
        found = [
            operation
            for template, methods in self.whole["paths"].items()
            for verb, operation in methods.items()
            if verb.upper() == method and is_of(path, template)
        ]
        assert found, f"{method} {path} is not in the document"
        return dict(found[0])

    def check(self, operation: dict[str, Any], body: Any, params: dict[str, Any]) -> None:
        if body is not None:
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            self._validate(content["schema"] if content else {"maxProperties": 0}, json.loads(json.dumps(body)))
        known = {each["name"]: each["schema"] for each in operation["parameters"] if each.get("in") == "query"}
        for name, value in params.items():
            self._validate(known[name], [value] if known[name].get("type") == "array" else value)

    def _validate(self, schema: dict[str, Any], value: Any) -> None:
        whole = schema | {"components": self.whole["components"]}
        jsonschema_rs.Draft202012Validator(whole, validate_formats=True).validate(value)

    def answer(self, operation: dict[str, Any]) -> Any:
        (said,) = [said for status, said in operation["responses"].items() if status < "300"]
        return self._made(said["content"]["application/json"]["schema"])

    def _made(self, schema: dict[str, Any]) -> Any:
        if "$ref" in schema:
            return self._made(self.whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            ordered = sorted(schema["anyOf"], key=lambda each: (each.get("type") == "null") == self.full)
            return self._made(ordered[0])
        if "enum" in schema or "const" in schema:
            return schema.get("enum", [schema.get("const")])[0 if self.full else -1]
        if schema.get("type") == "array":
            return [self._made(schema["items"])] * max(schema.get("minItems", 0), int(self.full))
        if schema.get("type") == "object":
            return self._object(schema)
        if "format" in schema:
            return TEXTS[schema["format"]]
        return PLAIN[schema.get("type", "string")][0 if self.full else 1]

    def _object(self, schema: dict[str, Any]) -> Answered:
        parts, inner = schema.get("properties", {}), schema.get("additionalProperties")
        wanted = parts if self.full else schema.get("required", [])
        made = Answered({name: self._made(parts[name]) for name in wanted})
        if "properties" in schema:
            made.names = frozenset(parts)
        elif isinstance(inner, dict) and self.full:
            made["some"] = self._made(inner)
        return made


class DocumentConnection(Connection):
    """A connection that is answered out of the document, and remembers what was called."""

    def __init__(self, document: Document) -> None:
        super().__init__(url="http://console", key="cf_agent_test")
        self.document = document
        self.called: list[str] = []

    def _send(self, method: str, path: str, **request: Any) -> Any:
        operation = self.document.operation(method, path)
        self.called.append(operation["operationId"])
        self.document.check(operation, request.get("json"), request.get("params") or {})
        return self.document.answer(operation)


@pytest.fixture(params=[True, False], ids=["all that it may hold", "as little as it may"])
def connection(request: pytest.FixtureRequest) -> Iterator[DocumentConnection]:
    connection = DocumentConnection(Document(full=request.param))
    yield connection
    connection.close()


def check_types(value: Any) -> None:
    """Whether every field of a dataclass holds what it is annotated with."""
    if is_dataclass(value) and not isinstance(value, type):
        TypeAdapter(type(value)).validate_json(json.dumps(asdict(value)), strict=True)


def test_an_agent_calls_sends_and_reads_what_the_document_says(connection: DocumentConnection):
    agent = Agent(url="http://console", key="cf_agent_test", agent_id="shop")
    agent._connection = connection
    session = agent.open_session(
        goal="Refund it.", ttl_seconds=60, tools=["issue_refund"], run_id="r", on_failure="stop", iteration_limit=9
    )
    check_types(session.contract)
    check_types(session.pin)
    question = Question(ACTION, ACTION, "Why?", "")
    start = StartAtOnce("worker", "1", 30, headers=lambda _: {})
    call = {"call_id": "one", "tool": "issue_refund", "arguments": {}}
    request = {"session_id": ACTION, "agent_id": "shop", "call": call, "start": start.body()}
    asked: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "status": ((ACTION,), {"wait_s": 5}),
        "report": ((ACTION,), {}),
        "cancel": ((ACTION,), {"reason": "No longer wanted."}),
        "answer": ((question, "Because."), {}),
        "wait": ((ACTION,), {"for_s": 0}),
        "call": ((CALL,), {}),
        "calls": (([CALL, Call("x", "{}")],), {"goal": "Refund it."}),
        "decide": ((CALL,), {"start": start}),
        "decide_again": ((request,), {"start": start}),
        "attempt": ((CALL,), {"for_s": 0}),
        "attempts": (([CALL],), {"for_s": 0}),
        "ask_check": (("Refund it.",), {}),
        "matches": (("Refund it.",), {}),
        "withheld": (([{"tool": "purge", "fate": "changed", "why": "It differs."}],), {}),
        "verify": (
            ("processor", "refund"),
            {"said_by": "a night job", "operation": "re_1", "expected": {"amount": 1250}, "statement": "Refunded."},
        ),
        "claim": ((ACTION,), {}),
        "report_model_usage": (("acme/large-1",), {"calls": 2, "input_tokens": 5, "reference": "r"}),
        "state": ((), {}),
        "context": ((), {}),
        "summary": ((), {}),
        "guard": (("Done.",), {"claims": [{"tool": "issue_refund", "statement": "Refunded."}], "language": "de"}),
        "guarded": (("Done.",), {"receipt": "html"}),
        "receipt": ((), {}),
        "end": ((), {}),
    }
    assert set(asked) == {
        name for kind in (ActionRequests, SessionRequests) for name, each in vars(kind).items() if is_request(each)
    }
    assert {name for name, each in vars(AgentRequests).items() if is_request(each)} == {"open_session", "run"}
    for name, (arguments, options) in asked.items():
        if connection.document.full or name not in ("call", "attempt"):
            check_types(getattr(session, name)(*arguments, **options))
    assert agent.run("r")["run_id"] is not None
    assert len(set(connection.called)) == 19
    assert isinstance(session, Session)


def is_request(value: Any) -> bool:
    return isinstance(value, request_method)


def test_an_executor_calls_sends_and_reads_what_the_document_says(connection: DocumentConnection, tmp_path: Path):
    executor = Executor(
        url="http://console",
        key="cf_exec_test",
        executor_id="worker",
        key_file=tmp_path / "key",
        handlers={"text": lambda work: pytest.fail("the payload is not what was approved")},
        issuer="",
        own_hash=lambda order: "0" * 64,
    )
    executor._connection = connection
    executor.register()
    executor.ready()
    for order in executor.claim(actions=[ACTION]):
        check_types(order)
        executor.execute(order)
    work = Work(ACTION, "text", "1", "1", {}, "", "", new_trace(), Lease(for_s=1.0, timeout_s=60.0))
    executor._beat(work, OneBeat())
    assert work.lease.left_s() > 2.0
    expected = {"execution_register_executor", "execution_ready", "execution_claim", "execution_heartbeat"}
    started = {"execution_start", "execution_observe"} if connection.document.full else set()
    assert set(connection.called) == expected | started


class OneBeat(threading.Event):
    """Over at the second look."""

    looks = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.looks += 1
        return self.looks > 1


def addresses() -> Iterator[tuple[str, str]]:
    """The paths that stand in the client's sources, with the method that they are called by."""
    methods = {"get": "GET", "post": "POST", "write": "POST", "_post": "POST", "_register": "POST"}
    for file in CLIENT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                for each in node.args[:2]:
                    path = template(each)
                    if name in methods and path.startswith("/") and not _is_of_the_environment(node.func):
                        yield methods[name], path


def _is_of_the_environment(function: ast.expr) -> bool:
    """`os.environ.get("HOME", "/tmp")` asks nobody."""
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) == "os.environ"


def template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)


def test_every_address_in_the_clients_sources_is_in_the_document():
    document, found = Document(full=True), set(addresses())
    inside = {("POST", path) for path in ("/ask-check", "/surface", "/guard", "/model-usage", "/close")}
    assert {("POST", "/contracts"), ("POST", "/agents"), ("POST", "/systems"), ("POST", "/executors")} | inside <= found
    for method, path in found:
        document.operation(method, f"/sessions/x{path}" if (method, path) in inside else path)


def test_the_key_that_an_executor_presents_is_accepted_by_the_document(tmp_path: Path):
    document = Document(full=True)
    body = {"executor_id": "worker", "public_jwk": load_key(tmp_path / "key").public_jwk, "tools": ["text"]}
    document.check(document.operation("POST", "/executors"), body, {})
