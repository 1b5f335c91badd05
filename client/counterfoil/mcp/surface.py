"""Compare the tools that a server lists with the registered contracts.

1. A contract that was drafted from a server names what was seen in its `wrapper_version`: one digest over what a call
   takes and gives (input and output schema), one over what a model reads (name, title, description, annotations).
   The console seals the contract, so the pin is as immutable as the contract is.
2. A contract with another `wrapper_version` was written by hand: there description and input schema must be the
   server's, word for word.
3. A tool without a contract in the session is unregistered, one that differs has changed; neither is offered. A name
   that the server lists twice is never offered: nobody could say which one a call would reach.
4. What a client is shown are the registered texts, never the server's.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mcp_types import Tool

from counterfoil.answers import Contract

SCHEME = "mcp1"


class ToolDecision(StrEnum):
    """What becomes of one of the server's tools."""

    OFFERED = "offered"
    UNREGISTERED = "unregistered"
    CHANGED = "changed"


@dataclass(frozen=True)
class RegisteredTool:
    """A tool of the session, as its contract has it."""

    name: str
    version: str
    pin: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class OfferedTool:
    """One of the server's tools and what becomes of it; `why` says what differs."""

    tool: Tool
    fate: ToolDecision
    contract: RegisteredTool | None = None
    why: str = ""

    @property
    def shown(self) -> Tool:
        """The tool as a client sees it (rule 4); what it answers is wrapped, so no output schema is promised."""
        assert self.contract is not None
        return Tool(
            name=self.tool.name,
            title=self.tool.title,
            description=self.contract.description,
            input_schema=dict(self.contract.schema),
            annotations=self.tool.annotations,
        )


@dataclass(frozen=True)
class ToolSurface:
    """All that a server lists, by name."""

    seen: Mapping[str, OfferedTool]

    @property
    def offered(self) -> list[OfferedTool]:
        return [one for one in self.seen.values() if one.fate is ToolDecision.OFFERED]

    @property
    def changed(self) -> list[OfferedTool]:
        return [one for one in self.seen.values() if one.fate is ToolDecision.CHANGED]

    @property
    def withheld(self) -> list[OfferedTool]:
        """What is not offered, what has changed first."""
        return [*self.changed, *(one for one in self.seen.values() if one.fate is ToolDecision.UNREGISTERED)]


def registered_tools(contract: Contract) -> dict[str, RegisteredTool]:
    """The tools in a session's contract, by the contract's name."""
    return {
        tool.name: RegisteredTool(
            name=tool.name,
            version=tool.version,
            pin=tool.wrapper_version,
            description=tool.description,
            schema=tool.arguments_schema,
        )
        for tool in contract.tools
    }


def compare_tools(tools: Iterable[Tool], known: Mapping[str, RegisteredTool], *, prefix: str) -> ToolSurface:
    """The fate of each tool that a server lists (rules 1 to 3)."""
    listed = list(tools)
    times = Counter(tool.name for tool in listed)
    found = {tool.name: _fate(tool, known.get(prefix + tool.name)) for tool in listed}
    for name in (name for name, count in times.items() if count > 1):
        found[name] = OfferedTool(
            found[name].tool, ToolDecision.CHANGED, found[name].contract, "the server lists it more than once"
        )
    return ToolSurface(found)


def tool_digest(tool: Tool) -> str:
    """The pin of a tool as a server lists it (rule 1)."""
    return f"{SCHEME}.{_digest(_taken(tool))}.{_digest(_read(tool))}"


def _fate(tool: Tool, contract: RegisteredTool | None) -> OfferedTool:
    if contract is None:
        return OfferedTool(tool, ToolDecision.UNREGISTERED)
    why = _difference(tool, contract)
    return OfferedTool(tool, ToolDecision.CHANGED if why else ToolDecision.OFFERED, contract, why)


def _difference(tool: Tool, contract: RegisteredTool) -> str:
    if contract.pin.startswith(f"{SCHEME}."):
        now, then = tool_digest(tool).split("."), contract.pin.split(".")
        parts = [word for word, new, old in zip(("schema", "texts"), now[1:], then[1:], strict=False) if new != old]
        verb = "differs" if parts == ["schema"] else "differ"
        return f"{' and '.join(parts)} {verb} from what was registered" if parts or len(then) != 3 else ""
    if tool.description != contract.description:
        return "the description differs from what was registered"
    return "" if tool.input_schema == contract.schema else "the input schema differs from what was registered"


def _taken(tool: Tool) -> Any:
    return [tool.input_schema, tool.output_schema]


def _read(tool: Tool) -> Any:
    hints = tool.annotations.model_dump(mode="json", exclude_none=True) if tool.annotations else {}
    return [tool.name, tool.title, tool.description, hints]


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
    return base64.b32encode(digest).decode().rstrip("=").lower()
