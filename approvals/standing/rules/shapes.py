"""The shape of a call: exactly what a standing approval covers, derived from calls that people approved one by one.

1. A shape is of one agent in one version, one tool under one contract, one kind of target, and, where there is money,
   one currency.
2. An amount of money lies between the smallest unit and the largest amount that people approved. Another whole number
   lies between the smallest and the largest that they approved.
3. An argument that names the target is free, as far as the kind of target stays the same.
4. Any other argument has one of the values that people approved, five at most; one that varies more makes no shape, so
   that nothing passes whose text nobody has seen.
5. An argument that was never sent may not be sent; one that was always sent must be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from approvals.policy.rules.policy_facts import money_amount
from ledger.catalogue.rules.money import format_money
from ledger.catalogue.rules.targets import template_arguments
from ledger.record.rules.canonical import canonical, digest

MOST_VALUES = 5
ANY, MONEY, RANGE, VALUES = "any", "money", "range", "values"


@dataclass(frozen=True, kw_only=True)
class CallScope:
    """The scope of a shape: agent, tool, kind of target, currency."""

    agent: str
    agent_version: str
    tool: str
    contract_digest: str
    target_kind: str
    currency: str = ""


@dataclass(frozen=True, kw_only=True)
class ArgumentBound:
    """The allowed values of one argument. `optional`: it was not always sent."""

    name: str
    kind: str
    least: int = 0
    most: int = 0
    values: tuple[Any, ...] = ()
    optional: bool = False

    def document(self) -> dict[str, Any]:
        """The bound as JSON; `read_shape` reads it."""
        told: dict[str, Any] = {"name": self.name, "kind": self.kind, "optional": self.optional}
        if self.kind in (MONEY, RANGE):
            told |= {"least": self.least, "most": self.most}
        if self.kind == VALUES:
            told["values"] = list(self.values)
        return told

    def allows(self, value: object, minor: int | None) -> bool:
        """Return whether the argument may have this value; `minor` is the amount of money of the call."""
        if self.kind == ANY:
            return True
        if self.kind == MONEY:
            return minor is not None and self.least <= minor <= self.most
        if self.kind == RANGE:
            return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most
        return canonical(value) in map(canonical, self.values)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The calls that a standing approval covers."""

    scope: CallScope
    arguments: tuple[ArgumentBound, ...]

    @property
    def most_minor(self) -> int | None:
        """The largest amount of money in one call; None if there is none."""
        return next((bound.most for bound in self.arguments if bound.kind == MONEY), None)

    def document(self) -> dict[str, Any]:
        """The shape as JSON."""
        return {
            "agent": self.scope.agent,
            "agent_version": self.scope.agent_version,
            "tool": self.scope.tool,
            "contract_digest": self.scope.contract_digest,
            "target_kind": self.scope.target_kind,
            "currency": self.scope.currency,
            "arguments": [bound.document() for bound in self.arguments],
        }

    @property
    def digest(self) -> str:
        """Identify the shape: a person agrees to exactly the shape that was shown."""
        return digest(canonical(self.document()))


def read_shape(document: Mapping[str, Any]) -> Shape:
    """The shape in a document."""
    scope = {name: document[name] for name in CallScope.__dataclass_fields__}
    bounds = ({**each, "values": tuple(each.get("values", ()))} for each in document["arguments"])
    return Shape(scope=CallScope(**scope), arguments=tuple(ArgumentBound(**each) for each in bounds))


def scope_of(
    *, agent: str, agent_version: str, tool: str, contract_digest: str, target: str, arguments: Mapping[str, Any]
) -> CallScope:
    """Return the scope that contains a call."""
    return CallScope(
        agent=agent,
        agent_version=agent_version,
        tool=tool,
        contract_digest=contract_digest,
        target_kind=target.partition("/")[0],
        currency=money_amount(arguments).get("currency", ""),
    )


def learn_shape(scope: CallScope, target_template: str, calls: Sequence[Mapping[str, Any]]) -> Shape | None:
    """The shape of these calls' arguments (rules 2 to 5), or None where they have none in common."""
    naming = frozenset(template_arguments(target_template))
    bounds = []
    for name in sorted({name for arguments in calls for name in arguments}):
        bound = _bound_argument(name, calls, is_free=name in naming, has_money=bool(scope.currency))
        if bound is None:
            return None
        bounds.append(bound)
    return Shape(scope=scope, arguments=tuple(bounds)) if calls else None


def _bound_argument(
    name: str, calls: Sequence[Mapping[str, Any]], *, is_free: bool, has_money: bool
) -> ArgumentBound | None:
    sent = [arguments[name] for arguments in calls if name in arguments]
    optional = len(sent) < len(calls)
    if is_free:
        return ArgumentBound(name=name, kind=ANY, optional=optional)
    if name == "amount" and has_money:
        amounts = [money_amount(arguments)["minor"] for arguments in calls]
        return ArgumentBound(name=name, kind=MONEY, least=1, most=max(amounts)) if min(amounts) > 0 else None
    if all(isinstance(value, int) and not isinstance(value, bool) for value in sent):
        return ArgumentBound(name=name, kind=RANGE, least=min(sent), most=max(sent), optional=optional)
    different = {canonical(value): value for value in sent}
    if len(different) > MOST_VALUES:
        return None
    return ArgumentBound(
        name=name, kind=VALUES, values=tuple(different[key] for key in sorted(different)), optional=optional
    )


def find_misfit(shape: Shape, scope: CallScope, arguments: Mapping[str, Any]) -> str:
    """The reason why a call does not fit the shape, in one sentence; empty if it does."""
    for name in CallScope.__dataclass_fields__:
        if getattr(shape.scope, name) != getattr(scope, name):
            return f"Another {name.replace('_', ' ')}."
    bounds = {bound.name: bound for bound in shape.arguments}
    if unknown := sorted(set(arguments) - set(bounds)):
        return f"`{unknown[0]}` was never sent before."
    minor = money_amount(arguments).get("minor")
    for bound in shape.arguments:
        if bound.name not in arguments:
            if not bound.optional:
                return f"`{bound.name}` is left out."
        elif not bound.allows(arguments[bound.name], minor):
            return f"`{bound.name}` is outside of what people approved."
    return ""


def describe_bounds(shape: Shape) -> tuple[str, ...]:
    """Describe the bounds of the arguments."""
    return tuple(_words(bound, shape.scope.currency) for bound in shape.arguments if not _is_currency(bound, shape))


def _is_currency(bound: ArgumentBound, shape: Shape) -> bool:
    return bool(shape.scope.currency) and bound.name == "currency"


def _words(bound: ArgumentBound, currency: str) -> str:
    name = bound.name.replace("_", " ")
    said = {
        ANY: lambda: f"any {name}",
        MONEY: lambda: f"{name} up to {format_money(bound.most, currency)}",
        RANGE: lambda: (
            f"{name} {bound.least}" if bound.least == bound.most else f"{name} {bound.least} to {bound.most}"
        ),
        VALUES: lambda: f"{name} {_list_values(bound.values)}",
    }[bound.kind]()
    return f"{said}, or none" if bound.optional else said


def _list_values(values: Iterable[Any]) -> str:
    words = [value if isinstance(value, str) else canonical(value).decode() for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
