"""The shapes of lookups and settings: JSON Schemas whose faults are sentences.

A value that does not fit has a place and, after it, the `fault` of the innermost schema that has one. A member that is
missing does not fit either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from jsonschema_rs import Draft202012Validator, ValidationError

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression
from reviews.checks.interface import LOOKUP_VARIABLES, Consistency

RESERVED: Final = frozenset({"exists", "count", "effects", "target", "audit", "downstream"})
"""The names of what a check itself says of every effect: no field can have one."""

Schema = dict[str, Any]


def expression_fault(text: str) -> str:
    """The fault of an expression over the lookup's variables, if it has one."""
    try:
        expressions.check_value(text, LOOKUP_VARIABLES)
    except BadExpression as problem:
        return problem.detail
    return ""


FORMATS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType({"expression": expression_fault})
"""The fault of a text, by its format."""


@dataclass(frozen=True)
class ShapeFault:
    """A fault: the place of the value as a JSON Pointer, the sentence, and the member if that is unknown."""

    place: str
    text: str
    unknown: str = ""

    @property
    def pointer(self) -> str:
        """The place of what is at fault: of the unknown member, not of what holds it."""
        return f"{self.place}/{self.unknown}" if self.unknown else self.place

    def sentence(self, whole: str) -> str:
        """The fault as a sentence about a member; the value as a whole is called `whole`."""
        return self.after(self.place.rpartition("/")[2] or whole)

    def after(self, name: str) -> str:
        """The fault as a sentence about a value that is called `name`."""
        return f"{name}{'' if self.text[0] in ':/' else ' '}{self.text}"


class Shape:
    """A JSON Schema, with what says the faults of texts of a format."""

    def __init__(self, schema: Schema, formats: Mapping[str, Callable[[str], str]] = FORMATS) -> None:
        self.schema, self.formats = schema, formats
        known: dict[str, Any] = {name: _accepts(fault) for name, fault in formats.items()}
        self._validator = Draft202012Validator(schema, formats=known, validate_formats=True)

    def faults(self, where: str, value: object) -> list[str]:
        """The faults of a value that stands at `where`, as sentences."""
        return [fault.after(f"{where}{fault.place}") for fault in self.problems(value)]

    def problems(self, value: object) -> list[ShapeFault]:
        """The faults of a value."""
        problems = self._validator.iter_errors(value)
        return list(dict.fromkeys(fault for problem in problems for fault in self._faults(problem)))

    def _faults(self, problem: ValidationError) -> Iterator[ShapeFault]:
        place, nodes = "".join(f"/{step}" for step in problem.instance_path), list[Any]([self.schema])
        for step in problem.schema_path:
            nodes.append(nodes[-1][step])
        node, kind, told = nodes[-2], problem.kind.name, problem.kind.as_dict()
        fault = next(str(each["fault"]) for each in reversed(nodes) if isinstance(each, dict) and "fault" in each)
        if kind == "additionalProperties":
            known = ", ".join(sorted(node["properties"]))
            for name in told["unexpected"]:
                yield ShapeFault(place, f"has an unknown field `{name}` (known: {known}).", unknown=name)
            return
        if kind == "format":
            fault = f": {self.formats[node['format']](str(problem.instance))}"
        elif kind == "propertyNames":
            place = f"{place}/{told['error'].instance}"
        elif kind == "required" and "properties" in node:
            place, fault = f"{place}/{told['property']}", node["properties"][told["property"]]["fault"]
        yield ShapeFault(place, fault)


def _accepts(fault: Callable[[str], str]) -> Callable[[str], bool]:
    return lambda text: not fault(text)


EXPRESSION: Final[Schema] = {"type": "string", "format": "expression", "fault": "must be an expression."}
EXPECT: Final[Schema] = {"enum": ["present", "absent"], "fault": "is either present or absent."}
TRUTH: Final[Schema] = {"type": "boolean", "fault": "is either true or false."}
ABSENT: Final[Schema] = {"properties": {"expect": {"const": "absent"}}, "required": ["expect"]}
"""The condition of a rule: the effect is that something is gone."""


def object_schema(required: Mapping[str, Schema], optional: Mapping[str, Schema], *rules: Schema) -> Schema:
    """An object with these members and no others: a misspelt one must not be passed over."""
    found: Schema = {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
        "fault": "must be an object.",
    }
    return found | ({"if": {"type": "object"}, "then": {"allOf": list(rules)}} if rules else {})


def rule(fault: str, **condition: Any) -> Schema:
    """A rule about several members, with its sentence."""
    return {**{name.strip("_"): part for name, part in condition.items()}, "fault": fault}


def either(*names: str) -> Schema:
    """The rule that exactly one of these members is there."""
    return rule(f"must have either {' or '.join(names)}.", oneOf=[{"required": [name]} for name in names])


def name_schema(pattern: str, what: str) -> Schema:
    """A name that the whole pattern matches."""
    return {"type": "string", "pattern": f"^(?:{pattern})$", "fault": f"is not {what}."}


def fields_schema(name: Schema) -> Schema:
    """A list of fields to show, none of which the check shows by itself."""
    return {"type": "array", "items": {"allOf": [name, free_name()]}, "fault": "must be a list of names."}


def free_name(taken: Iterable[str] = ()) -> Schema:
    """A name under which the check itself says nothing."""
    own = sorted(RESERVED.union(taken))
    return {"not": {"enum": own}, "fault": "has the name of what the check itself says, and cannot be a field."}


def map_schema(name: Schema | None = None) -> Schema:
    """Expressions by name, at least one."""
    fault = "must name at least one field and its expression."
    found: Schema = {"type": "object", "minProperties": 1, "additionalProperties": EXPRESSION, "fault": fault}
    return found if name is None else found | {"propertyNames": name}


def list_schema(item: Schema, what: str, least: int = 0) -> Schema:
    """A list of one kind of thing."""
    return {"type": "array", "items": item, "minItems": least, "fault": f"must be a list of {what}."}


def number_schema(least: int, most: int | None = None) -> Schema:
    """A whole number between two others."""
    said = f"of at least {least}" if most is None else f"from {least} to {most}"
    bounds = {"minimum": least} | ({} if most is None else {"maximum": most})
    return {"type": "integer", **bounds, "fault": f"must be a whole number {said}."}


def one_of(names: Iterable[str]) -> Schema:
    """One of these words."""
    words = list(names)
    return {"enum": words, "fault": f"must be one of {', '.join(words)}."}


def scope_schema(fields: Iterable[str]) -> dict[str, Schema]:
    """The members that declare which fields hold tenant and target."""
    return dict.fromkeys(("tenant_field", "target_field"), one_of(sorted(fields)))


def reads_schema(kinds: Sequence[str], *rules: Schema, optional: Mapping[str, Schema] = MappingProxyType({})) -> Schema:
    """A part that says which kind of thing is read."""
    fault = f"is {'either ' if len(kinds) > 1 else ''}{' or '.join(kinds)}."
    return object_schema({"reads": {"enum": list(kinds), "fault": fault}}, optional, *rules)


def thing_schema(names: Iterable[str], wanted: Iterable[str], *rules: Schema, optional: Iterable[str] = ()) -> Schema:
    """A part that names one object, and either its wanted values or that it is to be absent."""
    values = list(wanted)
    named = [{"required": [name]} for name in values]
    fault = f"must have either the {' or the '.join(values)} that it should have, or expect absent."
    either_way = rule(fault, if_=ABSENT, then={"not": {"anyOf": named}}, else_={"anyOf": named})
    given = dict.fromkeys([*values, *optional], EXPRESSION)
    return object_schema(dict.fromkeys(names, EXPRESSION), {**given, "expect": EXPECT}, either_way, *rules)


def member(schema: Schema, title: str, description: str = "", *, default: Any = None, is_rare: bool = False) -> Schema:
    """A member of a system's settings, with its label, its hint and its default in a form; a rare one is folded."""
    found = {**schema, "title": title}
    found |= {"description": description} if description else {}
    found |= {"default": default} if default is not None else {}
    return found | ({"is_rare": True} if is_rare else {})


TEXT: Final[Schema] = {"type": "string", "minLength": 1, "fault": "must be a text."}
NAMES: Final[Schema] = {"type": "array", "items": TEXT, "fault": "must be a list of names."}
CONSISTENCY: Final[Schema] = member(
    {"enum": [str(each) for each in Consistency], "fault": f"must be one of {', '.join(Consistency)}."},
    "Its relation to the last committed write",
    "Only PRIMARY and STRONG settle anything. Left out, it is what the check itself can tell.",
    is_rare=True,
)


def readable(what: str) -> Schema:
    """The setting that lists what may be read."""
    return member(NAMES, f"{what} that may be read", "One on each line. Left out, all that the credential can read.")
