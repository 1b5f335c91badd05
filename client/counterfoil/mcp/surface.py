"""Compare the tools that a server lists with the registered contracts.

1. A contract that was drafted from a server names what was seen in its `wrapper_version`: one digest over what a call
   takes and gives (input and output schema), one over what a model reads (name, title, description, annotations).
   The console seals the contract, so the pin is as immutable as the contract is.
2. A contract with another `wrapper_version` was written by hand: there description and input schema must be the
   server's. It names neither title nor annotations; those that are seen first with a version of it are pinned
   (`seen_first`).
3. A tool without a contract in the session is unregistered, one that differs has changed; neither is offered. A name
   that the server lists twice is never offered: nobody could say which one a call would reach.
4. What a client is shown are the registered texts, never the server's.
5. One notation for what is compared: whole numbers without a fraction, text in NFC, `required` and lists of types in
   order. A pin that was made of the notation of its day holds too.
6. A tool whose name can be no contract's is registered under one that can (`contract_name`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mcp_types import Tool

from counterfoil.answers import Contract

SCHEME = "mcp1"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")
_MOST_NAME = 128


class ToolDecision(StrEnum):
    """The decision about one of the server's tools."""

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
    reads: bool = False


@dataclass(frozen=True)
class OfferedTool:
    """One of the server's tools and its fate; `why` has the difference."""

    tool: Tool
    fate: ToolDecision
    contract: RegisteredTool | None = None
    why: str = ""

    @property
    def shown(self) -> Tool:
        """The tool as a client sees it (rule 4); its answer is wrapped, so no output schema is promised."""
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
    """All tools that a server lists, by name."""

    seen: Mapping[str, OfferedTool]

    @property
    def offered(self) -> list[OfferedTool]:
        return [one for one in self.seen.values() if one.fate is ToolDecision.OFFERED]

    @property
    def changed(self) -> list[OfferedTool]:
        return [one for one in self.seen.values() if one.fate is ToolDecision.CHANGED]

    def under(self, contract: str) -> OfferedTool | None:
        """The tool that is registered under this name."""
        found = (one for one in self.seen.values() if one.contract is not None and one.contract.name == contract)
        return next(found, None)

    @property
    def withheld(self) -> list[OfferedTool]:
        """The withheld tools, changed ones first."""
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
            reads=tool.side_effect_class == "READ_ONLY",
        )
        for tool in contract.tools
    }


def contract_name(prefix: str, tool: str) -> str:
    """The contract name of a tool: server and tool, or a valid name derived from them."""
    name = prefix + tool
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9_.-]', '_', name)[: _MOST_NAME - 9]}-{digest}"


def compare_tools(
    tools: Iterable[Tool],
    known: Mapping[str, RegisteredTool],
    *,
    prefix: str,
    unread: Mapping[str, str] | None = None,
    seen_first: MutableMapping[str, str] | None = None,
) -> ToolSurface:
    """The fate of each tool that a server lists (rules 1 to 3); `unread` are malformed tools, each with the reason."""
    listed = list(tools)
    times = Counter(tool.name for tool in listed)
    pins = {} if seen_first is None else seen_first
    found = {tool.name: _fate(tool, known.get(contract_name(prefix, tool.name)), pins) for tool in listed}
    for name in (name for name, count in times.items() if count > 1):
        found[name] = OfferedTool(
            found[name].tool, ToolDecision.CHANGED, found[name].contract, "the server lists it more than once"
        )
    for name, why in (unread or {}).items():
        contract = known.get(contract_name(prefix, name))
        fate = ToolDecision.UNREGISTERED if contract is None else ToolDecision.CHANGED
        found[name] = OfferedTool(Tool(name=name, input_schema={"type": "object"}), fate, contract, why)
    return ToolSurface(found)


def tool_digest(tool: Tool) -> str:
    """The pin of a tool as a server lists it (rule 1)."""
    return f"{SCHEME}.{_digest(_schema_half(tool))}.{_digest(_texts_half(tool))}"


def visible_text(text: str) -> str:
    """A text without its invisible characters."""
    return "".join(
        one for one in text if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Co", "Cn", "Cs")
    )


def is_pinned(tool: Tool, pin: str) -> bool:
    """Return True if a pin is of this tool as it is listed now, in any notation (rule 5)."""
    return pin.startswith(f"{SCHEME}.") and not _changed_parts(tool, pin)


def _fate(tool: Tool, contract: RegisteredTool | None, pins: MutableMapping[str, str]) -> OfferedTool:
    if contract is None:
        return OfferedTool(tool, ToolDecision.UNREGISTERED)
    why = _difference(tool, contract, pins)
    return OfferedTool(tool, ToolDecision.CHANGED if why else ToolDecision.OFFERED, contract, why)


def _difference(tool: Tool, contract: RegisteredTool, pins: MutableMapping[str, str]) -> str:
    if contract.pin.startswith(f"{SCHEME}."):
        parts = _changed_parts(tool, contract.pin)
        verb = "differs" if parts == ["schema"] else "differ"
        return f"{' and '.join(parts)} {verb} from what was registered" if parts else ""
    if _plain(tool.description) != _plain(contract.description):
        return "the description differs from what was registered"
    if _digest(tool.input_schema) != _digest(contract.schema):
        return "the input schema differs from what was registered"
    title = _digest([tool.title, _hints(tool)])
    if pins.setdefault(f"{contract.name} {contract.version}", title) != title:
        return "title or annotations differ from those that were seen first"
    return ""


def _changed_parts(tool: Tool, pin: str) -> list[str]:
    """The halves of a pin that no longer match the tool; both for a pin in no known form."""
    _, *halves = pin.split(".")
    now = {"schema": _schema_half(tool), "texts": _texts_half(tool)}
    if len(halves) != len(now):
        return list(now)
    pairs = zip(now.items(), halves, strict=True)
    return [word for (word, part), old in pairs if old not in (_digest(part), _digest(part, plain=False))]


def _schema_half(tool: Tool) -> Any:
    return [tool.input_schema, tool.output_schema]


def _texts_half(tool: Tool) -> Any:
    return [tool.name, tool.title, tool.description, _hints(tool)]


def _hints(tool: Tool) -> Any:
    return tool.annotations.model_dump(mode="json", exclude_none=True) if tool.annotations else {}


def _plain(value: Any, key: str = "") -> Any:
    """The same value in the one notation that is compared (rule 5)."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(part, name) for name, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        texts = key in ("required", "type") and all(isinstance(part, str) for part in parts)
        return sorted(set(parts)) if texts else parts
    return value


def _digest(value: Any, *, plain: bool = True) -> str:
    text = json.dumps(_plain(value) if plain else value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
    return base64.b32encode(digest).decode().rstrip("=").lower()
