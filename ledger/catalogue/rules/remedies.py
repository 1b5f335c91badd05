"""Remedies: the tools that undo or complete a tool's effect, and their arguments (R-TC-08, R-RP-45).

A contract's `recovery` part names up to three tools, for the whole or effect by effect:

| field | means |
|---|---|
| compensation_tool | reverses what is committed, by a second verified action |
| rollback_tool | undoes what is still inside a local boundary |
| forward_tool | finishes what is missing, after the pivot |
| compensation_arguments, … | argument to expression over si, sr, so, sa, scope and pre |
| effects | per effect its own compensation_tool and forward_tool, with their arguments |
| corrections | per kind of difference the tool that corrects it, and its arguments, over `diff` as well |
| safe_without_effect | the compensation does nothing where nothing was done (R-RP-46, C-61) |
| idempotent | the tool may be sent again unchanged under its key |

Without arguments a remedy gets those of the request that its own schema knows, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ledger.catalogue.rules import expressions


class Relation(StrEnum):
    """The relation of a recovery action to the action that it was ordered for."""

    COMPENSATION = "compensation"
    ROLLBACK = "rollback"
    FORWARD = "forward"
    CORRECTION = "correction"


class DifferenceKind(StrEnum):
    """The kind of difference between what was requested and what a reading shows, by which a correction is chosen."""

    DUPLICATE = "duplicate"  # the effect as requested, and further rows of it
    SURPLUS = "surplus"  # more money than requested
    MISSING = "missing"  # less money than requested
    VALUE = "value"  # other values than requested


CORRECTION_VARIABLES = (*expressions.VARIABLES, "diff")
"""The variables of a correction's arguments; `diff` is the difference: kind, effect, row, and for money amount and
currency in the notation of the request."""


@dataclass(frozen=True)
class Remedy:
    """A tool and the expressions of its arguments; `arguments` None means those of the request."""

    tool: str
    arguments: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Recovery:
    """A contract's recovery part: remedies for the whole, and for single effects."""

    whole: Mapping[Relation, Remedy] = field(default_factory=dict)
    effects: Mapping[str, Mapping[Relation, Remedy]] = field(default_factory=dict)
    corrections: Mapping[DifferenceKind, Remedy] = field(default_factory=dict)
    idempotent: bool = False
    safe_without_effect: bool = False

    @property
    def compensation_tool(self) -> str | None:
        """The tool that reverses the whole."""
        return self._tool(Relation.COMPENSATION)

    @property
    def rollback_tool(self) -> str | None:
        """The tool that undoes the whole inside its local boundary."""
        return self._tool(Relation.ROLLBACK)

    @property
    def forward_tool(self) -> str | None:
        """The tool that finishes the whole."""
        return self._tool(Relation.FORWARD)

    @property
    def tools(self) -> frozenset[str]:
        """Every tool that is named."""
        single = (remedy for part in self.effects.values() for remedy in part.values())
        return frozenset(remedy.tool for remedy in (*self.whole.values(), *single, *self.corrections.values()))

    def remedy(self, relation: Relation, effect: str | None = None) -> Remedy | None:
        """The remedy for one effect, or for the whole."""
        part = self.whole if effect is None else self.effects.get(effect, {})
        return part.get(relation)

    def _tool(self, relation: Relation) -> str | None:
        found = self.whole.get(relation)
        return found.tool if found else None


def read(part: Mapping[str, Any]) -> Recovery:
    """The recovery part of a contract document that has been checked."""
    return Recovery(
        whole=_remedies(part),
        effects={name: _remedies(each) for name, each in part.get("effects", {}).items()},
        corrections={
            DifferenceKind(kind): Remedy(each["tool"], each.get("arguments"))
            for kind, each in part.get("corrections", {}).items()
        },
        idempotent=part.get("idempotent", False),
        safe_without_effect=part.get("safe_without_effect", False),
    )


def _remedies(part: Mapping[str, Any]) -> dict[Relation, Remedy]:
    return {
        relation: Remedy(part[f"{relation}_tool"], part.get(f"{relation}_arguments"))
        for relation in Relation
        if part.get(f"{relation}_tool")
    }


def faults(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(path, code, detail) of everything wrong with a document's recovery part."""
    part = document.get("recovery", {})
    for path, each in (
        ("/recovery", part),
        *((f"/recovery/effects/{name}", each) for name, each in part.get("effects", {}).items()),
    ):
        yield from _part_faults(path, each, document["name"])
    for name in part.get("effects", {}):
        if name not in _effects(document):
            yield f"/recovery/effects/{name}", "BAD_EFFECTS", f"`{name}` is not an effect of this tool."
    for kind, each in part.get("corrections", {}).items():
        path = f"/recovery/corrections/{kind}/arguments"
        yield from _argument_faults(path, each.get("arguments"), CORRECTION_VARIABLES)


def _part_faults(path: str, part: Mapping[str, Any], name: str) -> Iterator[tuple[str, str, str]]:
    for relation in Relation:
        tool, arguments = part.get(f"{relation}_tool"), part.get(f"{relation}_arguments")
        if tool == name:
            yield f"{path}/{relation}_tool", "LOOP", "A tool cannot be its own recovery."
        if arguments is not None and not tool:
            yield f"{path}/{relation}_arguments", "NO_TOOL", f"There is no {relation}_tool to take these arguments."
        yield from _argument_faults(f"{path}/{relation}_arguments", arguments, expressions.VARIABLES)


def _argument_faults(
    path: str, arguments: Mapping[str, str] | None, variables: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    for argument, text in (arguments or {}).items():
        try:
            expressions.check_value(text, variables)
        except expressions.BadExpression as problem:
            yield f"{path}/{argument}", "BAD_EXPRESSION", problem.detail


def _effects(document: Mapping[str, Any]) -> list[str]:
    lookup = (document.get("verification") or {}).get("lookup", {})
    return list(document.get("required_effects", lookup.get("effects") or ()))


def remedy_arguments(
    remedy: Remedy, *, request: Mapping[str, Any], known: frozenset[str], layers: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The arguments of a remedy, from the layers of the run that wants it.

    `known` are the arguments that the remedy's own schema declares. `expressions.NoValue` where an expression has no
    value over what is known: such a remedy cannot be ordered.
    """
    if remedy.arguments is None:
        return {name: value for name, value in request.items() if name in known}
    return {name: expressions.evaluate_value(text, layers) for name, text in remedy.arguments.items()}
