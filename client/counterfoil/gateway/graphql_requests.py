"""GraphQL requests by what they do: a query reads, a mutation is its one root field.

1. What decides is the parsed document, never the name of an operation. Fragments are followed; an alias is no name.
2. A mutation has one root field, so that each change is approved by itself. A field under `@skip` or `@include` counts
   as if it ran.
3. What cannot be judged from the request alone is refused: batches, queries that are stored at the server, uploads,
   several operations of which one is a mutation, subscriptions, and a mutation by GET.
4. Variables are put in their places, with the defaults of the document; a fraction stays the text that was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from graphql import GraphQLError, parse
from graphql.language import (
    BooleanValueNode,
    DocumentNode,
    EnumValueNode,
    FieldNode,
    FloatValueNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    IntValueNode,
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    StringValueNode,
    ValueNode,
    VariableNode,
)

from counterfoil.gateway.strict_json import UnreadableBody, parse_json

_MOST_TOKENS: Final = 20_000
_MOST_DEPTH: Final = 100
_MOST_FIELDS: Final = 20_000
_CONDITIONS: Final = frozenset({"skip", "include"})
_ABSENT: Final = object()


class NotJudged(Exception):
    """The request cannot be judged; the message says why."""


@dataclass(frozen=True)
class Mutation:
    """The one root field of a mutation: its name, the name of its answer, its arguments, and what it selects there."""

    field: str
    answer: str
    arguments: Mapping[str, Any]
    selects: frozenset[str]

    @property
    def input(self) -> Mapping[str, Any]:
        """The argument `input`, where it is the only one and an object; else all arguments."""
        whole = self.arguments
        if whole.keys() == {"input"} and isinstance(whole["input"], dict):
            whole = whole["input"]
        # The client's own mark, which the host only repeats.
        return {name: value for name, value in whole.items() if name != "clientMutationId"}


@dataclass(frozen=True)
class Judged:
    """A request: all names of fields in it, and its mutation; None for a query."""

    fields: frozenset[str]
    mutation: Mutation | None


def judge_request(body: Any) -> Judged:
    """Judge the JSON of a request (rules 1 to 4). Raises `NotJudged`."""
    if isinstance(body, list):
        raise NotJudged("several requests in one cannot be judged: send each by itself")
    if unknown := sorted(body.keys() - {"query", "variables", "operationName", "extensions"}):
        raise NotJudged(f"its member {unknown[0][:100]} is not known here; what is stored at the server is not read")
    if body.get("extensions"):
        raise NotJudged("extensions (persisted queries among them) are not read")
    text, variables, name = body.get("query"), body.get("variables"), body.get("operationName")
    if not isinstance(text, str) or not text.strip():
        raise NotJudged("it has no document; what is stored at the server is not read")
    if not isinstance(variables, dict | None) or not isinstance(name, str | None):
        raise NotJudged("variables are an object, and operationName is a text")
    return _Document(_parse(text)).judge(variables or {}, name or "")


def judge_query_string(query: str) -> Judged:
    """Judge a request by GET. Raises `NotJudged`."""
    try:
        parts = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
        body: dict[str, Any] = dict(parts)
        if len(body) < len(parts):
            raise NotJudged("its address has a name twice")
        if "variables" in body:
            body["variables"] = parse_json(body["variables"].encode())
    except (ValueError, UnreadableBody) as fault:
        raise NotJudged("its address cannot be read") from fault
    return judge_request(body)


def _parse(text: str) -> DocumentNode:
    try:
        return parse(text, no_location=True, max_tokens=_MOST_TOKENS)
    except (GraphQLError, RecursionError) as fault:
        told = fault.message if isinstance(fault, GraphQLError) else "it is nested too deeply"
        raise NotJudged(f"the document cannot be parsed: {told[:200]}") from fault


class _Document:
    def __init__(self, document: DocumentNode) -> None:
        self._operations = [each for each in document.definitions if isinstance(each, OperationDefinitionNode)]
        fragments = [each for each in document.definitions if isinstance(each, FragmentDefinitionNode)]
        if len(self._operations) + len(fragments) < len(document.definitions) or not self._operations:
            raise NotJudged("it is no document of operations")
        self._left = _MOST_FIELDS
        self._fragments = {each.name.value: each for each in fragments}
        if len(self._fragments) < len(fragments):
            raise NotJudged("it has a fragment twice")

    def judge(self, variables: Mapping[str, Any], name: str) -> Judged:
        names = [each.name.value if each.name else "" for each in self._operations]
        if name and names.count(name) != 1:
            raise NotJudged("operationName names no operation of the document")
        kinds = {each.operation for each in self._operations}
        if OperationType.SUBSCRIPTION in kinds:
            raise NotJudged("subscriptions do not pass")
        every = frozenset(
            each.name.value for one in self._operations for each in self._fields(one.selection_set, deep=True)
        )
        if OperationType.MUTATION not in kinds:
            return Judged(every, None)
        if len(self._operations) > 1:
            raise NotJudged("a mutation is the only operation of its document")
        return Judged(every, self._mutation(self._operations[0], variables))

    def _mutation(self, operation: OperationDefinitionNode, variables: Mapping[str, Any]) -> Mutation:
        roots = [each for each in self._fields(operation.selection_set) if each.name.value != "__typename"]
        if len(roots) != 1:
            raise NotJudged(f"a mutation has one root field here; this one has {len(roots)}")
        (root,) = roots
        if any(each.name.value not in _CONDITIONS for each in root.directives or ()):
            raise NotJudged("its root field has a directive that is not known here")
        known = dict(variables)
        for declared in operation.variable_definitions or ():
            if declared.variable.name.value not in known and declared.default_value is not None:
                known[declared.variable.name.value] = _value(declared.default_value, {})
        given = [(each.name.value, _value(each.value, known)) for each in root.arguments or ()]
        if len(dict(given)) < len(given):
            raise NotJudged("its root field has an argument twice")
        arguments = {name: value for name, value in given if value is not _ABSENT}
        selects = self._fields(root.selection_set) if root.selection_set else ()
        # An alias would hide under another name.
        told = frozenset(each.name.value for each in selects if each.alias is None and not each.directives)
        answer = root.alias.value if root.alias else root.name.value
        return Mutation(root.name.value, answer, arguments, told)

    def _fields(
        self, selected: SelectionSetNode, *, deep: bool = False, within: tuple[str, ...] = (), depth: int = 0
    ) -> Iterator[FieldNode]:
        """The fields of a selection with those of its fragments (rule 1); with `deep`, those below them, too."""
        if depth > _MOST_DEPTH:
            raise NotJudged("it is nested too deeply")
        for each in selected.selections:
            # Fragments in fragments may stand for more fields than could ever be counted.
            self._left -= 1
            if self._left < 0:
                raise NotJudged("it stands for too many fields")
            if isinstance(each, FieldNode):
                yield each
                if deep and each.selection_set is not None:
                    yield from self._fields(each.selection_set, deep=True, within=within, depth=depth + 1)
            elif isinstance(each, InlineFragmentNode):
                yield from self._fields(each.selection_set, deep=deep, within=within, depth=depth + 1)
            elif isinstance(each, FragmentSpreadNode):
                name = each.name.value
                if name in within or name not in self._fragments:
                    raise NotJudged(f"the fragment {name[:100]} leads to itself, or is not there")
                inside = self._fragments[name].selection_set
                yield from self._fields(inside, deep=deep, within=(*within, name), depth=depth + 1)


def _value(node: ValueNode, variables: Mapping[str, Any]) -> Any:
    """The value of a literal, with its variables put in (rule 4)."""
    match node:
        case VariableNode():
            return variables.get(node.name.value, _ABSENT)
        case NullValueNode():
            return None
        case IntValueNode():
            return int(node.value)
        case FloatValueNode() | StringValueNode() | EnumValueNode() | BooleanValueNode():
            return node.value
        case ListValueNode():
            found = [_value(each, variables) for each in node.values or ()]
            return [None if each is _ABSENT else each for each in found]
        case ObjectValueNode():
            parts = [(each.name.value, _value(each.value, variables)) for each in node.fields or ()]
            if len(dict(parts)) < len(parts):
                raise NotJudged("an object of its arguments has a name twice")
            return {name: value for name, value in parts if value is not _ABSENT}
    raise NotJudged("its arguments hold a value that is not known here")
