"""The contracts for auditing recordings: documents of ours, tool lists, or those inside a recording.

1. A contract document (one, a list, `{"contracts": [...]}`) is taken as it is, by the rules of registration except
   those that need a system. One that is refused stops the audit before it begins: without it, every call of its tool
   would be taken for a phantom.
2. A tool of OpenAI's or Anthropic's lists or of MCP's `tools/list` becomes a draft contract: side-effect class,
   reversibility and claim phrases are read from its name, its description and its annotations (`wording`). In doubt a
   tool changes something. A list that does not say whether further parameters are allowed is read as closed, since the
   model was told of these and no others. The drafts can be written out and edited.
3. A schema that the contract rules refuse (a reference to an address, say) is replaced by one that takes any object,
   and that is said.
4. Tools without any definition, known from their calls alone, get a draft that takes anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from console.contracts.contract_check import validate_contract
from counterfoil_transcripts import wording
from ledger.catalogue.rules.contract import BadContract, Contract
from ledger.catalogue.rules.effects import UPPER_CLASSES, SideEffectClass
from ledger.record.rules.refusals import Refused

DRAFT_VERSION = "0.0.1"
"""The version of a draft, until somebody who has read it gives it another."""
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
_ANY: dict[str, Any] = {"type": "object"}
# A tool list has neither; a document with one of them that lacks the other is a contract with a fault.
_DOCUMENT = frozenset({"side_effect_class", "arguments_schema"})


class NoContracts(Refused):
    """There is no contract and no tool in this file."""

    code = "NO_CONTRACTS"


class InvalidContracts(Refused):
    """Some of the contracts that were given are not valid."""

    code = "REFUSED_CONTRACTS"


@dataclass
class ContractCatalogue:
    """Contracts by tool. `drafted`: inferred ones; `refused`: reasons of unusable definitions; `closed`: no other tool
    may be called.
    """

    contracts: dict[str, Contract] = field(default_factory=dict)
    drafted: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    closed: bool = False

    def add(self, definition: Mapping[str, Any], where: str) -> None:
        """The contract in a document or in a tool definition."""
        if _DOCUMENT & set(definition):
            try:
                found = _validate(definition)
            except Refused as refusal:
                self.refused.append(f"{where}: {definition.get('name')}: {_reasons(refusal)}")
                return
            self.contracts[found.name] = found
            self.drafted.discard(found.name)
            return
        plain = normalize_tool(definition)
        if plain is None:
            self.refused.append(f"{where}: {definition.get('name')!r:.80} is the name of no contract and of no tool.")
        elif plain["name"] not in self.contracts:
            self._draft(plain, where)

    def learn(self, definitions: Iterable[Mapping[str, Any]], where: str) -> None:
        """Learn the tools that a recording contains itself; a given document takes precedence over them."""
        for one in definitions:
            self.add(one, where)

    def guess(self, name: str) -> Contract | None:
        """A contract for a tool known only from its calls; None if the catalogue is closed."""
        if name not in self.contracts and name and not self.closed:
            self._draft({"name": name, "description": "", "schema": dict(_ANY), "annotations": {}}, "calls")
        return self.contracts.get(name)

    def _draft(self, plain: Mapping[str, Any], where: str) -> None:
        document = draft_contract(plain)
        for schema in (document["arguments_schema"], _ANY):
            try:
                found = _validate({**document, "arguments_schema": schema, **_target(schema, document["name"])})
            except Refused as refusal:
                reason = f"{where}: {plain['name']}: {refusal.detail}"
                self.notes.append(reason)
                continue
            self.contracts[plain["name"]] = found
            self.drafted.add(plain["name"])
            return
        self.refused.append(reason)

    def documents(self) -> list[dict[str, Any]]:
        """Every contract as a document, to be edited and given back."""
        return [orjson.loads(self.contracts[name].document) for name in sorted(self.contracts)]


def load_catalogue(files: Iterable[Path]) -> ContractCatalogue:
    """The catalogue in some files and folders; it is closed, since other tools were not given to the agent.

    `InvalidContracts` names every definition that makes no contract, and why.
    """
    catalogue = ContractCatalogue()
    for file in files:
        for path in sorted(file.rglob("*.json")) if file.is_dir() else [file]:
            try:
                found = list(_definitions(orjson.loads(path.read_bytes())))
            except (OSError, ValueError) as problem:
                raise NoContracts(f"{path} cannot be read: {problem}.") from None
            for one in found:
                catalogue.add(one, str(path))
    if catalogue.refused:
        count = len(catalogue.refused)
        head = "A contract is refused" if count == 1 else f"{count} contracts are refused"
        raise InvalidContracts("\n".join([f"{head}. Nothing was audited.", *catalogue.refused]))
    if not catalogue.contracts:
        raise NoContracts("There is no contract and no tool in what was given.")
    catalogue.closed = True
    return catalogue


def normalize_tool(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """Name, description, schema and annotations of a tool in any list format; None if it is not a tool."""
    inner = definition.get("function") or definition.get("custom")
    part = inner if isinstance(inner, Mapping) else definition
    name = part.get("name")
    if not isinstance(name, str) or not name:
        return None
    schema = next(
        (part[key] for key in ("parameters", "inputSchema", "input_schema", "args_schema") if part.get(key)), None
    )
    hints = part.get("annotations")
    return {
        "name": name,
        "description": part.get("description") if isinstance(part.get("description"), str) else "",
        "schema": dict(schema) if isinstance(schema, Mapping) else dict(_ANY),
        "annotations": dict(hints) if isinstance(hints, Mapping) else {},
    }


def draft_contract(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The draft of a contract document for a tool (rule 2)."""
    name, description = plain["name"], plain["description"] or ""
    kind = _class_of(name, description, plain)
    schema = {key: value for key, value in plain["schema"].items() if key not in {"$schema", "$id"}}
    schema["type"] = "object"
    if schema.get("properties") and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    document: dict[str, Any] = {
        "name": contract_name(name),
        "version": DRAFT_VERSION,
        "schema_version": "1",
        "wrapper_version": "1",
        "description": description[:4000] or f"Drafted from a recording of {name}.",
        "arguments_schema": schema,
        "side_effect_class": kind,
        "reversibility": wording.reversibility(name, kind),
        "effect_domain": wording.effect_domain(name),
        "recovery": {"idempotent": plain["annotations"].get("idempotentHint") is True},
        **_target(schema, name),
    }
    if kind in UPPER_CLASSES:
        document["unverifiable_acknowledged"] = True
    if kind is not SideEffectClass.READ_ONLY:
        done, things = wording.done_phrases(name), wording.object_phrases(name)
        document["claims"] = {"done": list(done), "object": list(things)}
    return document


def contract_name(name: str) -> str:
    """Return a valid contract name; the tool keeps its own in the recording."""
    return _UNFIT.sub("_", name).lstrip("_.-0123456789")[:128] or "tool"


def _class_of(name: str, description: str, plain: Mapping[str, Any]) -> SideEffectClass:
    """Return the class by MCP's annotations if there are any, otherwise by the words."""
    hints = plain["annotations"]
    if hints.get("readOnlyHint") is True:
        return SideEffectClass.READ_ONLY
    declared = plain["schema"].get("properties")
    guessed = wording.infer_side_effect_class(
        name, description, tuple(declared) if isinstance(declared, Mapping) else ()
    )
    if hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True:
        least = SideEffectClass.MEDIUM_RISK_WRITE
        return guessed if guessed.rank >= least.rank else least
    return guessed


def _target(schema: Mapping[str, Any], name: str) -> dict[str, str]:
    """The target template: the first required argument that looks like an identifier, never free text."""
    declared = schema.get("properties") or {}
    fit = [
        one
        for one in schema.get("required") or ()
        if isinstance(declared.get(one), Mapping) and declared[one].get("type") in {"string", "integer"}
    ]
    fit = [one for one in fit if isinstance(one, str) and one.isidentifier() and "enum" not in declared[one]]
    fit = [one for one in fit if one.lower().split("_")[-1] not in wording.WORDS]
    best = [one for one in fit if one.endswith(("_id", "id", "_number", "path", "file", "to", "email", "key"))] or fit
    thing = (wording.object_phrases(name) or ("thing",))[-1].replace(" ", "_")
    return {"target_resource": f"{thing}/{{{best[0]}}}" if best else f"{thing}/{name}"}


def _validate(document: Mapping[str, Any]) -> Contract:
    try:
        return validate_contract(dict(document))
    except (RecursionError, ValueError) as problem:
        raise BadContract(f"It cannot be read: {str(problem)[:200]}.") from None


def _reasons(refusal: Refused) -> str:
    """Every fault of a document, not the first alone."""
    return " ".join(fault["detail"] for fault in refusal.errors) or refusal.detail


def _definitions(value: Any) -> Iterator[Mapping[str, Any]]:
    """The documents and tools in a file, however deep the lists around them."""
    if isinstance(value, list):
        for one in value:
            yield from _definitions(one)
    elif isinstance(value, Mapping):
        if "name" in value or isinstance(value.get("function"), Mapping):
            yield value
            return
        for key in ("contracts", "tools", "functions", "result", "items"):
            if key in value:
                yield from _definitions(value[key])
