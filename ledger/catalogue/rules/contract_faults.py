"""Faults of a contract document, all found in one pass (rules 1, 2, 4 to 8 of `contract`).

Each fault has a place (a JSON pointer), a code and an explanation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from ledger.catalogue.rules import expressions, preflight_reads, remedies, report_templates, targets
from ledger.catalogue.rules import schemas as rules_schemas
from ledger.catalogue.rules.answer_paths import answer_faults
from ledger.catalogue.rules.effects import DEFAULT_REVERSIBILITY, UPPER_CLASSES, Reversibility, SideEffectClass
from ledger.catalogue.rules.expressions import BadExpression
from ledger.catalogue.rules.previews import preview_faults

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Fault = dict[str, Any]


def _fault(path: str, code: str, detail: str) -> Fault:
    return {"path": path, "code": code, "detail": detail}


def shape_faults(document: dict[str, Any]) -> list[Fault]:
    """Return faults of shape (rule 1); the other two functions need a document without any."""
    return [_shape_fault(problem) for problem in _document_schema().iter_errors(document)]


def _shape_fault(problem: ValidationError) -> Fault:
    path = "".join(f"/{part}" for part in problem.instance_path)
    if problem.kind.name == "additionalProperties":
        unknown = ", ".join(problem.kind.as_dict()["unexpected"])
        return _fault(path, "UNKNOWN_FIELD", f"Unknown field: {unknown}.")
    return _fault(path, "SCHEMA", f"{path or 'The document'} does not fit: {problem.message[:300]}.")


def semantic_faults(document: dict[str, Any]) -> Iterator[Fault]:
    """Faults that the shape alone cannot show (rules 2, 4, 5, 7, 8)."""
    arguments = list(_schema_faults(document["arguments_schema"], "/arguments_schema"))
    if not arguments:
        arguments.extend(_argument_faults(document["arguments_schema"]))
        arguments.extend(_target_faults(document))
    yield from arguments
    yield from _schema_faults(document.get("result_schema", {}), "/result_schema")
    for place, problem in answer_faults(document):
        yield _fault(place, "BAD_ANSWER_PATH", problem)
    for place, problem in preview_faults(document):
        yield _fault(place, "BAD_PREVIEW", problem)
    yield from _path_faults(document)
    yield from _loop_faults(document)
    if not arguments:
        yield from _saying_faults(document)
        yield from _report_faults(document)
        yield from _sample_faults(document)


def _schema_faults(schema: dict[str, Any], path: str) -> Iterator[Fault]:
    outside = [f"{key} {value}" for key, value in _references(schema)]
    if outside:
        yield _fault(
            path,
            "REMOTE_REFERENCE",
            f"A schema may only refer to its own parts (#…), not to {outside[0]}.",
        )
        return
    try:
        rules_schemas.compile_schema(schema)
    except ValueError as problem:
        # jsonschema-rs raises ValidationError, a ValueError, whose first line says what and where.
        first = str(problem).partition("\n")[0][:300]
        yield _fault(path, "BAD_SCHEMA", f"Not a draft 2020-12 schema: {first}")


def _references(value: Any) -> Iterator[tuple[str, str]]:
    """Keywords with a text value that would lead a validator out of the schema."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and _leaves(key, item):
                yield key, item[:100]
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _leaves(key: str, value: str) -> bool:
    if key in {"$ref", "$dynamicRef"}:
        return not value.startswith("#")
    return key == "$id" or (key == "$schema" and value.rstrip("#") != DIALECT)


def _argument_faults(schema: dict[str, Any]) -> Iterator[Fault]:
    path = "/arguments_schema"
    if schema.get("type") != "object":
        yield _fault(path, "BAD_SCHEMA", "The arguments schema must have type object.")
    declared = schema.get("properties", {})
    missing = [name for name in schema.get("required", []) if name not in declared]
    if missing and schema.get("additionalProperties") is False:
        detail = f"`{missing[0]}` is required, but not declared: no call could ever be valid."
        yield _fault(path, "BAD_SCHEMA", detail)


def _target_faults(document: dict[str, Any]) -> Iterator[Fault]:
    schema = document["arguments_schema"]
    try:
        names = targets.template_arguments(document["target_resource"])
    except ValueError as problem:
        yield _fault("/target_resource", "BAD_TARGET", str(problem))
        return
    for name in names:
        part = schema.get("properties", {}).get(name)
        kind = part.get("type") if isinstance(part, dict) else None
        if name not in schema.get("required", []) or kind not in {"string", "integer"}:
            detail = f"`{name}` names the target: it must be a required string or integer argument."
            yield _fault("/target_resource", "BAD_TARGET", detail)


def _path_faults(document: dict[str, Any]) -> Iterator[Fault]:
    kind = SideEffectClass(document["side_effect_class"])
    has_path = document.get("verification") is not None
    if kind in UPPER_CLASSES and not has_path and not document.get("unverifiable_acknowledged", False):
        detail = f"{kind} needs a verification path, or unverifiable_acknowledged: true."
        yield _fault("/verification", "NO_VERIFICATION_PATH", detail)
    if kind is SideEffectClass.CRITICAL_MUTATION and has_path and not _has_enough_sources(document):
        detail = (
            f"{kind} needs several sources that agree: name a further one in verification.sources, in a system of its"
            " own; or unverifiable_acknowledged: true, and a person attests each end."
        )
        yield _fault("/verification/sources", "TOO_FEW_SOURCES", detail)
    if document.get("pivot", False):
        idempotent = document.get("recovery", {}).get("idempotent", False)
        if not (has_path and idempotent and _asks_approval(document, kind)):
            detail = "A pivot step needs verification, idempotent recovery and approval."
            yield _fault("/pivot", "PIVOT_INCOMPLETE", detail)


_ANSWER = ("status", "success", "error", "side_effects", "evidence")


def saying_variables(document: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that a saying's condition may use, each with the schema of its fields if it is known."""
    arguments = document["arguments_schema"]
    compared: dict[str, Any] = {"properties": {name: {} for name in ("asked", "shown", "same")}}
    named = dict.fromkeys(arguments.get("properties", {}), compared)
    answer = document.get("result_schema", {}).get("properties")
    known = {"properties": {**{name: {} for name in _ANSWER}, **answer}} if isinstance(answer, dict) else None
    return {"so": known, "sa": None, "sr": arguments, "fields": {"properties": named} if named else None}


def _saying_faults(document: dict[str, Any]) -> Iterator[Fault]:
    variables = saying_variables(document)
    for place, saying in enumerate(document.get("claims", {}).get("sayings", ())):
        try:
            expressions.compile(saying["when"], variables)
        except BadExpression as problem:
            yield _fault(f"/claims/sayings/{place}/when", "BAD_SAYING", problem.detail)


def _report_faults(document: dict[str, Any]) -> Iterator[Fault]:
    properties = document["arguments_schema"].get("properties", {})
    for language, template in report_templates.read(document.get("report")):
        path = "/report" if isinstance(document["report"], str) else f"/report/{language}"
        for detail in report_templates.faults(template, properties):
            yield _fault(path, "BAD_REPORT", detail)


def _has_enough_sources(document: dict[str, Any]) -> bool:
    return bool(further_sources(document["verification"])) or bool(document.get("unverifiable_acknowledged", False))


def further_sources(verification: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The further sources of a verification part, each with its place in the list."""
    return [(place, each) for place, each in enumerate(verification.get("sources", ())) if isinstance(each, dict)]


def _asks_approval(document: dict[str, Any], kind: SideEffectClass) -> bool:
    reversibility = document.get("reversibility", DEFAULT_REVERSIBILITY[kind])
    irreversible = reversibility == Reversibility.IRREVERSIBLE and kind is not SideEffectClass.READ_ONLY
    return kind is SideEffectClass.CRITICAL_MUTATION or irreversible or bool(document.get("approval_required", False))


def _sample_faults(document: dict[str, Any]) -> Iterator[Fault]:
    samples = document.get("dry_run", {})
    if samples and not document.get("verification"):
        yield _fault("/dry_run", "NO_LOOKUP", "There is no verification to try.")
    for name, call in samples.items():
        if not rules_schemas.compile_schema(document["arguments_schema"]).is_valid(call["arguments"]):
            yield _fault(f"/dry_run/{name}/arguments", "BAD_SAMPLE", "A call with these arguments would be refused.")


def _loop_faults(document: dict[str, Any]) -> Iterator[Fault]:
    name = document["name"]
    for path, code, detail in remedies.faults(document):
        yield _fault(path, code, detail)
    if name in document.get("next_tools", []) and document["side_effect_class"] != SideEffectClass.READ_ONLY:
        yield _fault("/next_tools", "LOOP", "A mutating tool cannot be its own next tool.")
    if name in document.get("formerly", []):
        yield _fault("/formerly", "BAD_NAME", "A tool was not formerly called what it is called now.")
    if document.get("coercion") == "lossless" and document["side_effect_class"] != SideEffectClass.READ_ONLY:
        yield _fault("/coercion", "BAD_COERCION", "Only a tool that changes nothing may take a value in another type.")


def verification_faults(
    document: dict[str, Any],
    compile_predicate: Callable[[str], str | None],
    check_verification: Callable[[dict[str, Any]], list[str]] | None,
) -> Iterator[Fault]:
    """Faults of the read-back: effects without lookup, predicates that do not compile (rule 6)."""
    verification = document.get("verification")
    if verification is None:
        return
    effects = verification.get("lookup", {}).get("effects")
    wanted = document.get("required_effects", list(effects or ()))
    if document["side_effect_class"] != SideEffectClass.READ_ONLY and not wanted:
        yield _fault(
            "/required_effects",
            "BAD_EFFECTS",
            "A mutating contract names at least one required effect.",
        )
    for name in wanted if isinstance(effects, dict) else ():
        if name not in effects:
            yield _fault("/required_effects", "BAD_EFFECTS", f"The lookup does not say how to find `{name}`.")
    for index, predicate in enumerate(verification["predicates"]):
        problem = compile_predicate(predicate)
        if problem is not None:
            yield _fault(f"/verification/predicates/{index}", "BAD_PREDICATE", problem)
    for problem in check_verification(verification) if check_verification else ():
        yield _fault("/verification", "BAD_VERIFICATION", problem)
    yield from _check_faults(verification)
    yield from _token_faults("/verification", verification)


def _token_faults(path: str, part: dict[str, Any]) -> Iterator[Fault]:
    for kind, text in part.get("fresh_after", {}).items():
        try:
            expressions.check_value(text, ("si", "sr", "so", "scope", "pre"))
        except BadExpression as problem:
            yield _fault(f"{path}/fresh_after/{kind}", "BAD_TOKEN", problem.detail)


def _check_faults(verification: dict[str, Any]) -> Iterator[Fault]:
    for check, said in verification.get("checks", {}).items():
        if not set(said.get("by", ())) <= set(verification["predicates"]):
            detail = f"What makes `{check}` must stand among the predicates."
            yield _fault(f"/verification/checks/{check}", "BAD_CHECK", detail)


def preflight_faults(document: dict[str, Any], compile_predicate: Callable[[str], str | None]) -> Iterator[Fault]:
    """Faults of the reads before an approval is requested."""
    for path, code, detail in preflight_reads.faults(document, compile_predicate):
        yield _fault(path, code, detail)


def source_faults(
    document: dict[str, Any],
    compile_for: Callable[[dict[str, Any], str], str | None] | None,
    check_verification: Callable[[dict[str, Any]], list[str]] | None,
) -> Iterator[Fault]:
    """Faults of the further sources: names and systems used twice, lookups and predicates (rules 6, 8)."""
    verification = document.get("verification")
    if verification is None:
        return
    wanted = set(document.get("required_effects", verification.get("lookup", {}).get("effects", {})))
    names = {each for each in verification.get("sources", ()) if isinstance(each, str)}
    systems = {verification["system"]}
    for place, source in further_sources(verification):
        path = f"/verification/sources/{place}"
        yield from _place_faults(path, source, names, systems, wanted)
        yield from _token_faults(path, source)
        names.add(source["name"])
        systems.add(source["system"])
        for number, text in enumerate(source["predicates"]):
            problem = compile_for(source, text) if compile_for else None
            if problem is not None:
                yield _fault(f"{path}/predicates/{number}", "BAD_PREDICATE", problem)
        for problem in check_verification(source) if check_verification else ():
            yield _fault(path, "BAD_VERIFICATION", problem)


def _place_faults(
    path: str, source: dict[str, Any], names: set[str], systems: set[str], wanted: set[str]
) -> Iterator[Fault]:
    if source["name"] in names:
        yield _fault(f"{path}/name", "BAD_SOURCE", f"The name `{source['name']}` is taken by another source.")
    if source["system"] in systems:
        yield _fault(f"{path}/system", "BAD_SOURCE", "A further source is read in a system of its own.")
    told = source["lookup"].get("effects")
    if isinstance(told, dict) and wanted and not wanted & set(told):
        yield _fault(f"{path}/lookup", "BAD_SOURCE", "A further source tells about at least one required effect.")


@lru_cache(maxsize=1)
def _document_schema() -> Draft202012Validator:
    text = files("ledger.catalogue.rules").joinpath("contract.schema.json").read_bytes()
    return rules_schemas.compile_schema(json.loads(text))
