"""The tools offered to a conversation's agent: its own list, otherwise the given contracts.

1. A recording that carries tools offered those and no others; a given contract for one of them outranks the definition
   in the recording.
2. A recording without tools is compared with all given contracts.
3. If neither exists, every called tool is assumed to exist: then nothing can be a phantom, and the report says so
   (`is_open`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import orjson

from counterfoil_transcripts import wording
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.reading.records import Transcript
from ledger.catalogue.rules.contract import Contract
from reviews.guarding.rules.records import Tool

MOST_DRAFTS = 10_000


@dataclass(eq=False)
class ToolOffer:
    """The tools of a conversation: those disclosed, all that exist, and their form for the guard."""

    disclosed: dict[str, Contract]
    known: frozenset[str]
    is_open: bool = False
    tools: tuple[Tool, ...] = field(default=())
    _does_anything: bool = False

    @property
    def may_do_more(self) -> bool:
        """Return whether the agent may have had abilities that none of these tools names."""
        return self.is_open or self._does_anything

    def __post_init__(self) -> None:
        self._does_anything = any(map(wording.runs_anything, self.disclosed))
        self.tools = tuple(guard_tool(one, name) for name, one in self.disclosed.items())


@dataclass(eq=False)
class OfferCache:
    """The offers of many conversations; a repeated list is prepared once."""

    catalogue: ContractCatalogue
    _made: dict[bytes, ToolOffer] = field(default_factory=dict)
    _drafts: dict[bytes, Contract | None] = field(default_factory=dict)

    def of(self, conversation: Transcript) -> ToolOffer:
        """The offer of one conversation (rules 1 to 3)."""
        key = b"\n".join(sorted(_canonical(one) for one in conversation.tools))
        if key in self._made:
            return self._made[key]
        offer = self._offer(conversation) if conversation.tools else self._all(conversation)
        if conversation.tools or self.catalogue.closed:
            if len(self._made) >= MOST_DRAFTS:
                self._made.clear()
            self._made[key] = offer
        return offer

    def _offer(self, conversation: Transcript) -> ToolOffer:
        found = {_name(one): self._contract(one, conversation.file) for one in conversation.tools}
        disclosed = {name: one for name, one in found.items() if one is not None}
        return ToolOffer(disclosed, frozenset({*disclosed, *self.catalogue.contracts}))

    def _contract(self, definition: Mapping[str, object], where: str) -> Contract | None:
        key = _canonical(definition)
        if key in self._drafts:
            return self._drafts[key]
        own = ContractCatalogue(contracts=dict(self.catalogue.contracts) if self.catalogue.closed else {})
        before = set(own.contracts)
        own.add(definition, where)
        name = _name(definition)
        if own.refused:
            # The recording says that there is such a tool: calls of it are no phantoms, only held to nothing.
            own.guess(name)
        self.catalogue.notes.extend((*own.refused, *own.notes)[: 20 - len(self.catalogue.notes)])
        if name not in before and name in own.contracts and not self.catalogue.closed:
            self.catalogue.contracts.setdefault(name, own.contracts[name])
            self.catalogue.drafted.add(name)
        if len(self._drafts) >= MOST_DRAFTS:
            self._drafts.clear()
        self._drafts[key] = own.contracts.get(name)
        return self._drafts[key]

    def _all(self, conversation: Transcript) -> ToolOffer:
        if self.catalogue.closed:
            return ToolOffer(dict(self.catalogue.contracts), frozenset(self.catalogue.contracts))
        names = {call.tool for turn in conversation.turns for call in turn.calls if call.tool}
        found = {name: one for name in sorted(names) if (one := self.catalogue.guess(name)) is not None}
        return ToolOffer(found, frozenset(found), is_open=True)


@lru_cache(maxsize=MOST_DRAFTS)
def guard_tool(contract: Contract, name: str) -> Tool:
    """A contract's tool as the guard sees it; phrases that the contract does not name are read from its name."""
    return Tool(
        name=name,
        description=contract.description,
        mutating=contract.mutating,
        done=contract.claims.done or (wording.done_phrases(contract.name) if contract.mutating else ()),
        object=contract.claims.object or wording.object_phrases(contract.name),
        target_template=contract.target_template,
        sayings=contract.claims.sayings,
        report=contract.report,
    )


def _name(definition: Mapping[str, object]) -> str:
    inner = definition.get("function") or definition.get("custom")
    name = (inner if isinstance(inner, Mapping) else definition).get("name")
    return name if isinstance(name, str) else ""


def _canonical(definition: Mapping[str, object]) -> bytes:
    return orjson.dumps(dict(definition), default=str)
