"""The syntax tree of a checked CEL expression, read from the library's own serialised form.

The library compiles and evaluates, but shows no tree. Its serialised form is a protobuf message
(`cel.expr.CheckedExpr`); this file reads the few parts that we need and nothing else:

1. `paths`: which fields of which variable an expression names, so that a misspelt field of a typed
   source is refused at registration and not first noticed as an undecidable predicate (D13).
2. `sides`: where the outermost comparison stands in the text, so that a page can show what was
   expected and what was found.
3. `texts`: the string literals, so that one which the evaluator would cut short is refused.
4. `clauses`: the parts between the outermost `&&`, each an expression of its own, and `equated_paths`: the two fields
   that
   such a part says are equal, so that it is known which field of a system stands for which field of a request.

A form that cannot be read is a `ValueError`: the caller then knows less, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Field numbers of the CEL specification's checked.proto and syntax.proto.
_EXPR, _SOURCE = 4, 5
_ID, _CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = range(2, 10)
_POSITIONS = 4
_COMPARISONS = {
    "_==_": "==",
    "_!=_": "!=",
    "_<=_": "<=",
    "_>=_": ">=",
    "_<_": "<",
    "_>_": ">",
    "@in": "in",
}


@dataclass(frozen=True)
class Node:
    """One part of an expression: a name, a constant, a field of another part, a call, or a loop."""

    id: int
    kind: str
    name: str = ""
    children: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Tree:
    """An expression's outermost part, and the position of each operator in the text."""

    root: Node
    positions: dict[int, int] = field(default_factory=dict)


def read(serialised: bytes) -> Tree:
    """The tree in a serialised expression (an Any that holds a CheckedExpr)."""
    try:
        checked = _one(_fields(serialised), 2)
        parts = dict(_fields(checked))
        source = _fields(parts[_SOURCE])
        positions = dict(_pair(value) for number, value in source if number == _POSITIONS)
        return Tree(_node(parts[_EXPR]), positions)
    except (IndexError, KeyError, TypeError, UnicodeDecodeError, AttributeError) as problem:
        raise ValueError("The serialised expression has another form.") from problem


def paths(tree: Tree) -> Iterator[tuple[str, ...]]:
    """Every chain of names that starts at a variable: `sa.refund.amount` is ("sa", "refund", "amount")."""
    yield from _paths(tree.root, frozenset())


def clauses(tree: Tree) -> Iterator[Tree]:
    """The parts of an expression that must all hold, in order."""
    if tree.root.kind == "call" and tree.root.name == "_&&_":
        for child in tree.root.children:
            yield from clauses(Tree(child))
        return
    yield Tree(tree.root)


def equated_paths(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The two chains of names that an expression equates; None for any other expression."""
    root = tree.root
    if root.kind != "call" or root.name != "_==_" or not all(_is_chain(child) for child in root.children):
        return None
    (left,), (right,) = (tuple(_paths(child, frozenset())) for child in root.children)
    return left, right


def string_literals(tree: Tree) -> Iterator[str]:
    """The string literals of an expression."""
    pending = [tree.root]
    while pending:
        node = pending.pop()
        if node.kind == "text":
            yield node.name
        pending.extend(node.children)


def comparison_sides(tree: Tree, text: str) -> tuple[str, str, str] | None:
    """(left, operator, right) of the outermost comparison, as text; None if it is not a comparison."""
    sign = _COMPARISONS.get(tree.root.name) if tree.root.kind == "call" else None
    position = tree.positions.get(tree.root.id)
    if sign is None or position is None or not text.startswith(sign, position):
        return None
    left, right = text[:position].strip(), text[position + len(sign) :].strip()
    while left.startswith("(") and left.count("(") > left.count(")"):
        left, right = left[1:].strip(), right.removesuffix(")").strip()
    return left, sign, right


def _is_chain(node: Node) -> bool:
    while node.kind == "select":
        node = node.children[0]
    return node.kind == "name"


def _paths(node: Node, bound: frozenset[str]) -> Iterator[tuple[str, ...]]:
    names: list[str] = []
    inner = node
    while (name := _field_name(inner)) is not None:
        names.append(name)
        inner = inner.children[0]
    if inner.kind == "name" and inner.name not in bound:
        yield (inner.name, *reversed(names))
        return
    if inner.kind == "loop":
        yield from _paths(inner.children[0], bound)
        for child in inner.children[1:]:
            yield from _paths(child, bound | set(inner.name.split("\n")))
        return
    for child in inner.children:
        yield from _paths(child, bound)


def _field_name(node: Node) -> str | None:
    """The field that a part selects: `refund.amount` and `refund["amount"]` are equal."""
    if node.kind == "select":
        return node.name
    if node.kind == "call" and node.name == "_[_]" and node.children[1].kind == "text":
        return node.children[1].name
    return None


def _node(message: bytes) -> Node:
    parts = dict(_fields(message))
    number = parts.get(_ID, 0)
    if _IDENT in parts:
        return Node(number, "name", _text(parts[_IDENT], 1))
    if _SELECT in parts:
        select = dict(_fields(parts[_SELECT]))
        return Node(number, "select", select[2].decode(), (_node(select[1]),))
    if _CALL in parts:
        return _call(number, parts[_CALL])
    if _LIST in parts:
        items = tuple(_node(value) for key, value in _fields(parts[_LIST]) if key == 1)
        return Node(number, "list", "", items)
    if _STRUCT in parts:
        return Node(number, "struct", "", tuple(_struct_values(parts[_STRUCT])))
    if _LOOP in parts:
        return _loop(number, parts[_LOOP])
    constant = dict(_fields(parts.get(_CONST, b"")))
    if 6 in constant:
        return Node(number, "text", constant[6].decode())
    return Node(number, "constant")


def _call(number: int, message: bytes) -> Node:
    parts = _fields(message)
    children = tuple(_node(value) for key, value in parts if key in {1, 3})
    return Node(number, "call", _one(parts, 2).decode(), children)


def _struct_values(message: bytes) -> Iterator[Node]:
    for key, value in _fields(message):
        if key == 2:
            yield from (_node(part) for number, part in _fields(value) if number in {3, 4})


def _loop(number: int, message: bytes) -> Node:
    # iter_var, iter_range, accu_var, accu_init, loop_condition, loop_step, result, iter_var2
    parts = dict(_fields(message))
    names = "\n".join(parts[key].decode() for key in (1, 3, 8) if key in parts)
    return Node(number, "loop", names, tuple(_node(parts[key]) for key in (2, 4, 5, 6, 7)))


def _text(message: bytes, number: int) -> str:
    text: str = _one(_fields(message), number).decode()
    return text


def _pair(message: bytes) -> tuple[int, int]:
    parts = dict(_fields(message))
    return parts.get(1, 0), parts.get(2, 0)


def _one(parts: list[tuple[int, Any]], number: int) -> Any:
    for key, value in parts:
        if key == number:
            return value
    raise KeyError(number)


def _fields(message: bytes) -> list[tuple[int, Any]]:
    """Return the (number, value) pairs of a protobuf message: integers and byte strings, without further decoding."""
    found: list[tuple[int, Any]] = []
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, form = tag >> 3, tag & 7
        if form == 0:
            value, place = _varint(message, place)
            found.append((number, value))
            continue
        length, place = _varint(message, place) if form == 2 else ({1: 8, 5: 4}[form], place)
        if place + length > len(message):
            raise IndexError("cut short")
        found.append((number, message[place : place + length]))
        place += length
    return found


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = message[place]
        value |= (octet & 0x7F) << shift
        place += 1
        if octet < 0x80:
            return value, place
        shift += 7
