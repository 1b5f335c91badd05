"""Drafting and registering: each tool for itself, and what waits for a second person is said."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from counterfoil.mcp import command
from tests.client.consoles import Answer
from tests.mcp.test_endings import server
from tests.mcp.test_what_clients_read import _tool

__all__ = ["server"]


def _run(bench, monkeypatch, *words):
    bench.read()
    monkeypatch.setenv("COUNTERFOIL_OPERATOR_KEY", "cf_oper_test")
    told = ["--config", str(bench.folder / "gateway.toml"), "--contracts", str(bench.folder / "contracts")]
    with pytest.raises(SystemExit) as ended:
        command.main([*words, *told])
    return ended.value.code


def _registry(answers, sent):
    def answer(seen):
        sent.append(seen.body)
        return answers.get(seen.body.get("name"), Answer(201, {"state": "REGISTERED", "lint": []}))

    return answer


REFUSED = Answer(
    422,
    {
        "code": "BAD_CONTRACT",
        "detail": "The contract document is not valid.",
        "errors": [{"path": "/arguments_schema", "detail": "Not a draft 2020-12 schema"}],
    },
)
WEAKER = {
    "state": "PENDING",
    "lint": [],
    "weakens": [{"code": "X", "path": "", "detail": "It asks no person any more."}],
}


def test_each_contract_is_registered_separately_and_the_agent_gets_those_that_succeeded(
    bench, desk, monkeypatch, capsys
):
    folder = bench.folder / "contracts"
    folder.mkdir()
    for name in ("a", "b", "c", "d"):
        (folder / f"{name}.json").write_text(json.dumps({"name": f"notes.{name}", "version": "1.0.0"}))
    (folder / "e.json").write_text("{no json")
    (folder / "f.json").write_text("[]")
    other = "This version is already registered with a different document."
    known = Answer(409, {"code": "VERSION_IMMUTABLE", "detail": other})
    sent = []
    desk.server.plan("", _registry({"notes.b": REFUSED, "notes.c": Answer(201, WEAKER), "notes.d": known}, sent))
    assert _run(bench, monkeypatch, "register") == 1
    said = capsys.readouterr().out
    assert "notes.a 1.0.0: registered\n" in said
    assert "notes.b 1.0.0: not registered: 422 BAD_CONTRACT: The contract document is not valid.\n" in said
    assert "  /arguments_schema: Not a draft 2020-12 schema\n" in said
    assert "notes.c 1.0.0: NOT IN FORCE: it waits for a second person, who confirms it at the console\n" in said
    assert "  weaker: It asks no person any more.\n" in said
    assert f"notes.d 1.0.0: not registered: {other}\n" in said
    assert said.count("not registered: it is no contract") == 2
    assert sent[-1]["tools"] == ["notes.a", "notes.c"]


def test_each_tool_is_drafted_separately(bench, server, monkeypatch, capsys):
    server.tools = [
        _tool("good"),
        _tool("none", inputSchema=[]),
        _tool("bad", inputSchema={"type": "object", "properties": []}),
        _tool("repo/search"),
        _tool("repo_search"),
    ]
    assert _run(bench, monkeypatch, "contracts") == 1
    said = capsys.readouterr().out
    files = sorted((bench.folder / "contracts").glob("*.json"))
    names = [json.loads(file.read_text())["name"] for file in files]
    assert names[:1] == ["notes.good"]
    assert len(names) == len(set(names)) == 3
    assert "none: no contract was written: it is listed in a form that is no tool" in said
    assert "bad: no contract was written: " in said


def test_without_its_package_the_command_names_what_to_install():
    program = "import sys; sys.modules['mcp'] = None; from counterfoil.mcp.__main__ import main; main()"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.strip() == (
        "counterfoil-mcp: the package mcp is not installed. Install the gateway with"
        " `pip install counterfoil-mcp`; in a checkout, `make install` brings it."
    )
