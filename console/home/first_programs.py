"""The two programs of the first tool, an agent and an executor, filled in with what is registered here, to copy.

They use the client library (`pip install counterfoil-client`) and take their keys from the environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from approvals.agents import queries as agents
from ledger.catalogue import queries as catalogue
from ledger.catalogue.rules import contract as contracts

_EXAMPLE: Final = {
    "agent_id": "librarian",
    "tool": "delete_document",
    "arguments": {"path": "policies/returns-2019.md", "reason": "It is out of date."},
    "target": "document/policies/returns-2019.md",
    "effects": ["deletion"],
}
_AGENT: Final = """\
import os

from counterfoil.agent import Agent, Call

agent = Agent(url={url}, key=os.environ["AGENT_KEY"], agent_id={agent_id})
with agent.open_session(goal="Say here what the user asked for.", ttl_seconds=3600) as session:
    call = session.call(Call({tool}, {arguments}))
    print(call.accepted, call.code, call.hint)
    if call.action_id:
        outcome = agent.wait(call.action_id, for_s=300)
        print(outcome.state, outcome.report.text)
"""
_EXECUTOR: Final = """\
import os
from pathlib import Path

from counterfoil.executor import Executor
from counterfoil.work import Result, Work, succeeded


def {function}(work: Work) -> Result:
    with {effects}:
        ...  # make the change here with work.payload, and with work.idempotency_key where the system takes one
    return succeeded("what the system answered", {named})


executor = Executor(
    url={url},
    key=os.environ["EXECUTOR_KEY"],
    executor_id="first-executor",
    key_file=Path("executor.jwk"),
    handlers={{{tool}: {function}}},
)
executor.register()
executor.run()
"""


def first_programs(tenant_id: UUID, url: str) -> list[tuple[str, str]]:
    """The name and the text of each program, for the newest agent and the first of its tools."""
    known = _EXAMPLE | _read_tool(tenant_id)
    effects = ", ".join(f"work.effect({json.dumps(each)})" for each in known["effects"])
    words = {name: json.dumps(known[name], ensure_ascii=False) for name in ("agent_id", "tool", "arguments")}
    function = known["tool"] if str(known["tool"]).isidentifier() else "carry_out"
    named = ", ".join(json.dumps(each) for each in known["effects"])
    given = words | {"url": json.dumps(url), "function": function, "effects": effects, "named": named}
    return [("agent.py", _AGENT.format(**given)), ("executor.py", _EXECUTOR.format(**given))]


def _read_tool(tenant_id: UUID) -> dict[str, Any]:
    """The newest agent, its first tool that changes something, and arguments of the right kinds; empty if none is."""
    newest = next(iter(agents.agents(tenant_id, order="-id", limit=1)), None)
    registered = agents.agent_version(tenant_id, newest.agent_id, newest.version) if newest else None
    if registered is None:
        return {}
    found = catalogue.newest_contracts(tenant_id, registered.tools)
    documents = [contracts.read(bytes(found[name].document)) for name in registered.tools if name in found]
    document = next((each for each in documents if each.get("required_effects")), None)
    if document is None:
        return {}
    schema = document["arguments_schema"]
    wanted = schema.get("required", ())
    arguments = {name: _placeholder(schema.get("properties", {}).get(name, {})) for name in wanted}
    return {
        "agent_id": registered.agent_id,
        "tool": document["name"],
        "arguments": arguments,
        "effects": document["required_effects"],
    }


def _placeholder(schema: Mapping[str, Any]) -> Any:
    """A value of the kind that a schema asks for, to be replaced."""
    for given in (
        schema.get("const"),
        schema.get("default"),
        *schema.get("enum", ())[:1],
        *schema.get("examples", ())[:1],
    ):
        if given is not None:
            return given
    kinds: dict[Any, Any] = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    kind = schema.get("type", "string")
    return kinds.get(kind if isinstance(kind, str) else "string", "replace this")
