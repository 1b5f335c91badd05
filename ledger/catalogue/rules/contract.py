"""Contracts: a tool's arguments, its effects, and how they are read back.

A contract is a JSON document (docs/api.md, "Describe a tool"), checked once at registration and
immutable from then on (R-TC-18). `validate` refuses a bad one and names every fault; `stored` reads
one back that was validated before.

1. The document has exactly the fields of `contract.schema.json`; an unknown one is refused
   (R-TC-01, R-TC-02).
2. `arguments_schema` is a draft 2020-12 schema of type object that refers to nothing outside
   itself: nobody may make the console fetch an address. Formats are asserted (C-28); patterns are
   matched in linear time.
3. What the document leaves out is filled in by class (R-TC-03, `side_effect_classes`):
   reversibility as the table says; HIGH_RISK_EXTERNAL and CRITICAL_MUTATION are externally visible
   and bounded EXTERNAL, all else is invisible and of UNKNOWN_BOUNDARY, since a rollback must be
   asked for by name; the verification SLA as the table says.
4. HIGH_RISK_EXTERNAL and CRITICAL_MUTATION need a verification path, or the mark that nobody can
   look (R-TC-07).
5. The target template names only required string or integer arguments (`ledger.catalogue.rules.targets`).
6. Predicates compile (D13). The caller brings the compiler, since it knows the typed fields of the
   source.
7. A pivot step has verification, idempotent recovery and approval (R-AP-20). No tool recovers
   itself, and no mutating tool is its own next tool: such a contract could loop. Remedies are
   checked by `ledger.catalogue.rules.remedies`.
8. Beside its own lookup (the primary source) a contract may name further sources, each in a system of its own. A
   CRITICAL_MUTATION names at least one, or is acknowledged to end with people (R-RC-13, C-43, C-44).

Optional fields beyond api.md's example:

| field | default | means |
|---|---|---|
| effect_domain | OTHER | what a duplicate would hurt: FINANCIAL, SECURITY, ... (RT-12) |
| approval_required | false | ask a person even where class and reversibility do not (C-20) |
| no_op_success_allowed | false | the wanted state may already hold; done (NO_OP_SUCCESS) |
| unverifiable_acknowledged | false | nothing, or not enough, can be read back; approval always asked (C-43) |
| approval.decide_within_s | the policy's | how long people have to decide on a call of this tool |
| approval.baseline, preflight, … | none | what is read before people are asked (`preflight_reads`) |
| data_sensitivity, cost, user_impact | LOW | HIGH adds the checks of the next class, and demands all (R-VD-07) |
| verification.checks | {} | what makes a required check, or why it does not apply (`ledger.catalogue.rules.depth`) |
| stale_errors | [] | the tool's error codes for "the target has moved on" (STALE_STATE, R-EX-17) |
| formerly | [] | names that the tool had: a call of one stays a phantom, with the new name suggested (R-MC-22) |
| coercion | none | `lossless`: a tool that only reads takes a value in another type that says the same (C-38) |
| answers | {} | where the tool's answer shows an argument (`ledger.catalogue.rules.answer_paths`) |
| answer_origin | {} | the fields of a read's answer that name its tenant and source, and what they must name |
| claims.sayings | [] | words, and when they are true: `{"words": ["charged"], "when": "so.payment > 0"}` |
| report | none | the sentence of a receipt, a template, or one for each language (`report_templates`) |
| preview | none | what of the target people are shown before they approve, and what will be lost (`previews`) |
| dry_run | {} | calls whose effect is there, and is not: its lookup is tried with both before it is registered |
| based_on | {} | `required`: a call names the read that it rests on; `max_age_s`: how old that may be (R-TC-16) |

The digest is SHA-256 over the RFC 8785 bytes of the document as registered, without our defaults:
it names what the operator committed, anyone can recompute it from the document alone, and a later
release that fills in a default differently does not change it. The resolved facts are bound apart,
in the statement that voters sign. Unlike payloads, documents may hold fractions (`backoff`, bounds
inside schemas), which RFC 8785 writes in one way only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import rfc8785
from jsonschema_rs import Draft202012Validator

from ledger.catalogue.rules import contract_faults, remedies, report_templates, targets
from ledger.catalogue.rules import preflight_reads as preparation
from ledger.catalogue.rules import schemas as rules_schemas
from ledger.catalogue.rules.answer_paths import AnswerPath, OriginField, read_answers, read_origin
from ledger.catalogue.rules.depth import VerificationDepth, verification_depth
from ledger.catalogue.rules.effects import (
    DEFAULT_REVERSIBILITY,
    DEFAULT_SLA_S,
    UPPER_CLASSES,
    Boundary,
    EffectDomain,
    Reversibility,
    SideEffectClass,
)
from ledger.catalogue.rules.lint import LintFinding, lint
from ledger.catalogue.rules.preflight_reads import PreflightSpec
from ledger.catalogue.rules.previews import Preview, read_preview
from ledger.catalogue.rules.remedies import Recovery
from ledger.record.rules.canonical import NotCanonical, digest
from ledger.record.rules.refusals import Refused

MAX_DOCUMENT = 256 * 1024
MAX_DEPTH = 32


class BadContract(Refused):
    """The contract document is not valid."""

    code = "BAD_CONTRACT"
    status = 422


class ContractAltered(Refused):
    """The stored contract differs from the one that was registered."""

    code = "CONTRACT_ALTERED"
    status = 409


@dataclass(frozen=True)
class Polling:
    """The read-back schedule: a first delay, then growing intervals until the SLA is over (R-VD-13)."""

    first_after_s: int
    backoff: float
    max_interval_s: int
    sla_s: int


@dataclass(frozen=True)
class Source:
    """A further source read beside the primary one: another system with its own lookup and predicates (R-RC-13, C-25);
    `document` is for the check of its pattern.
    """

    name: str
    pattern: str
    system: str
    predicates: tuple[str, ...]
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Verification:
    """The part of a contract about reading the effect back (R-TC-05).

    `document` is the whole part, for the check of this pattern; `sources` names the authorities behind the primary
    lookup, `further` those read beside it.
    """

    pattern: str
    system: str
    sources: tuple[str, ...]
    further: tuple[Source, ...]
    lookup: Mapping[str, Any]
    predicates: tuple[str, ...]
    polling: Polling
    settle_s: int
    recheck_after: tuple[timedelta, ...]
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Saying:
    """Words that are true of an action of this tool if the expression `when` holds, over so, sa, sr and fields."""

    words: tuple[str, ...]
    when: str


@dataclass(frozen=True)
class ClaimPhrases:
    """The words in which an agent would claim that this tool did its work, and further words with their condition."""

    done: tuple[str, ...]
    object: tuple[str, ...]
    sayings: tuple[Saying, ...] = ()


@dataclass(frozen=True)
class ReadRequirement:
    """The read that a call of the tool must be based on: whether it must name one of its target, and its
    maximum age.
    """

    required: bool = False
    max_age_s: int | None = None


@dataclass(frozen=True, eq=False)
class Contract:
    """A validated contract with every default filled in; `document` is its RFC 8785 text, `digest`
    its name.
    """

    name: str
    version: str
    schema_version: str
    wrapper_version: str
    description: str
    arguments_schema: Mapping[str, Any]
    result_schema: Mapping[str, Any]
    side_effect_class: SideEffectClass
    reversibility: Reversibility
    transaction_boundary: Boundary
    effect_domain: EffectDomain
    pivot: bool
    externally_visible: bool
    approval_required: bool
    no_op_success_allowed: bool
    unverifiable_acknowledged: bool
    stale_errors: tuple[str, ...]
    decide_within_s: int | None
    preparation: PreflightSpec
    target_template: str
    operation_kind: str
    required_effects: tuple[str, ...]
    verification: Verification | None
    recovery: Recovery
    claims: ClaimPhrases
    answers: Mapping[str, AnswerPath | None]
    answer_origin: Mapping[str, OriginField]
    report: tuple[tuple[str, str], ...]
    preview: Preview
    dry_run: Mapping[str, Mapping[str, Any]]
    next_tools: tuple[str, ...]
    formerly: tuple[str, ...]
    coerces: bool
    based_on: ReadRequirement
    findings: tuple[LintFinding, ...]
    document: bytes
    digest: str

    @property
    def mutating(self) -> bool:
        """Return whether the tool changes anything."""
        return self.side_effect_class is not SideEffectClass.READ_ONLY

    @property
    def verifiable(self) -> bool:
        """Return True if there is a verification path; else the result is UNVERIFIABLE (R-TC-06)."""
        return self.verification is not None

    @property
    def answer_only(self) -> bool:
        """True if the tool only reads and names no check: then only its answer can be judged."""
        return not self.mutating and not self.verifiable

    @property
    def predicates(self) -> tuple[str, ...]:
        """The contract's own predicates."""
        return self.verification.predicates if self.verification else ()

    @cached_property
    def arguments_validator(self) -> Draft202012Validator:
        """The compiled argument schema (R-TC-04)."""
        return rules_schemas.compile_schema(self.arguments_schema)

    @property
    def recovery_boundary(self) -> Boundary:
        """The boundary in the four values of the recovery table, which does not have EXTERNAL."""
        if self.transaction_boundary is not Boundary.EXTERNAL:
            return self.transaction_boundary
        if self.pivot or self.reversibility is Reversibility.IRREVERSIBLE:
            return Boundary.PIVOT_COMMITTED
        return Boundary.COMPENSABLE_PRE_PIVOT

    @cached_property
    def depth(self) -> VerificationDepth:
        """The checks required for an action of this contract, and what makes each (R-VD-07)."""
        return verification_depth(json.loads(self.document))

    def render_target(self, arguments: Mapping[str, Any]) -> str:
        """The target of a call with these arguments; `targets.BadTarget` if they name none."""
        return targets.render_target(self.target_template, arguments)


def read(data: bytes | str) -> dict[str, Any]:
    """The document in a JSON text as an operator sends it; fractions are allowed, duplicate names
    are not.
    """
    if len(data) > MAX_DOCUMENT:
        raise BadContract(f"The document is larger than {MAX_DOCUMENT} bytes.")
    try:
        document = json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NotCanonical("The document is not JSON with unique names and finite numbers.") from None
    if not isinstance(document, dict):
        raise BadContract("A contract document is a JSON object.")
    return document


def validate(
    document: Mapping[str, Any],
    *,
    compile_predicate: Callable[[str], str | None],
    check_verification: Callable[[dict[str, Any]], list[str]] | None = None,
    compile_for: Callable[[dict[str, Any], str], str | None] | None = None,
) -> Contract:
    """The contract in a document, or `BadContract` with every fault found.

    `compile_predicate` answers with an error text or None, and `compile_for` for a predicate of one further source;
    `check_verification` is the check of the pattern, which knows what its lookup needs. They are called only on a
    document of the right shape.
    """
    text = _text(document)
    plain = json.loads(text)
    _refuse(contract_faults.shape_faults(plain))
    _refuse(list(contract_faults.semantic_faults(plain)))
    _refuse(list(contract_faults.verification_faults(plain, compile_predicate, check_verification)))
    _refuse(list(contract_faults.preflight_faults(plain, compile_predicate)))
    _refuse(list(contract_faults.source_faults(plain, compile_for, check_verification)))
    return _contract(plain, text)


@lru_cache(maxsize=1024)
def load_stored(document: bytes, *, expected_digest: str) -> Contract:
    """The contract of a document that was validated when it was registered; an altered one is
    refused.
    """
    if digest(document) != expected_digest:
        raise ContractAltered
    return _contract(json.loads(document), document)


def parse_document(document: Mapping[str, Any]) -> Contract:
    """Return the contract in a document made of parts of validated documents."""
    return _contract(dict(document), _text(document))


def _refuse(faults: list[contract_faults.Fault]) -> None:
    if faults:
        detail = f"The contract document is not valid: {faults[0]['detail']}"
        raise BadContract(detail, errors=faults)


def _text(document: Mapping[str, Any]) -> bytes:
    if _depth_exceeds(document, MAX_DEPTH):
        raise BadContract(f"The document is nested deeper than {MAX_DEPTH} levels.")
    try:
        text = rfc8785.dumps(dict(document))
    except (ValueError, TypeError):
        raise NotCanonical("The document holds a value that JSON cannot carry exactly.") from None
    if len(text) > MAX_DOCUMENT:
        raise BadContract(f"The document is larger than {MAX_DOCUMENT} bytes.")
    return text


def _depth_exceeds(value: Any, levels: int) -> bool:
    if levels < 0:
        return True
    if isinstance(value, Mapping):
        return any(_depth_exceeds(item, levels - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_depth_exceeds(item, levels - 1) for item in value)
    return False


def _contract(document: dict[str, Any], text: bytes) -> Contract:
    kind = SideEffectClass(document["side_effect_class"])
    verification = _verification(document.get("verification"), kind)
    claims = document.get("claims", {})
    default_boundary = Boundary.EXTERNAL if kind in UPPER_CLASSES else Boundary.UNKNOWN_BOUNDARY
    effects = verification.lookup.get("effects") if verification else None
    return Contract(
        name=document["name"],
        version=document["version"],
        schema_version=document["schema_version"],
        wrapper_version=document["wrapper_version"],
        description=document["description"],
        arguments_schema=document["arguments_schema"],
        result_schema=document.get("result_schema", {}),
        side_effect_class=kind,
        reversibility=Reversibility(document.get("reversibility", DEFAULT_REVERSIBILITY[kind])),
        transaction_boundary=Boundary(document.get("transaction_boundary", default_boundary)),
        effect_domain=EffectDomain(document.get("effect_domain", EffectDomain.OTHER)),
        pivot=document.get("pivot", False),
        externally_visible=document.get("externally_visible", kind in UPPER_CLASSES),
        approval_required=document.get("approval_required", False),
        no_op_success_allowed=document.get("no_op_success_allowed", False),
        unverifiable_acknowledged=document.get("unverifiable_acknowledged", False),
        stale_errors=tuple(document.get("stale_errors", ())),
        decide_within_s=document.get("approval", {}).get("decide_within_s"),
        preparation=preparation.read(document.get("approval", {})),
        target_template=document["target_resource"],
        operation_kind=document.get("operation_kind", document["name"]),
        required_effects=tuple(document.get("required_effects", effects or ())),
        verification=verification,
        recovery=remedies.read(document.get("recovery", {})),
        claims=_claims(claims),
        answers=read_answers(document.get("answers", {})),
        answer_origin=read_origin(document.get("answer_origin", {})),
        report=report_templates.read(document.get("report")),
        preview=read_preview(document.get("preview", {})),
        dry_run=document.get("dry_run", {}),
        next_tools=tuple(document.get("next_tools", ())),
        formerly=tuple(document.get("formerly", ())),
        coerces=document.get("coercion", "none") == "lossless",
        based_on=ReadRequirement(**document.get("based_on", {})),
        findings=lint(document),
        document=text,
        digest=digest(text),
    )


def _claims(part: Mapping[str, Any]) -> ClaimPhrases:
    sayings = (Saying(tuple(each["words"]), each["when"]) for each in part.get("sayings", ()))
    return ClaimPhrases(tuple(part.get("done", ())), tuple(part.get("object", ())), tuple(sayings))


def _verification(part: dict[str, Any] | None, kind: SideEffectClass) -> Verification | None:
    if part is None:
        return None
    polling = part.get("polling", {})
    sources = part.get("sources", ())
    return Verification(
        pattern=_pattern(part),
        system=part["system"],
        sources=tuple(each for each in sources if isinstance(each, str)),
        further=tuple(_source(each) for each in sources if not isinstance(each, str)),
        lookup=part.get("lookup", {}),
        predicates=tuple(part["predicates"]),
        polling=Polling(
            first_after_s=polling.get("first_after_s", 1),
            backoff=float(polling.get("backoff", 2)),
            max_interval_s=polling.get("max_interval_s", 60),
            sla_s=polling.get("sla_s", DEFAULT_SLA_S[kind]),
        ),
        settle_s=part.get("settle_s", 0),
        recheck_after=tuple(_duration(text) for text in part.get("recheck_after", ())),
        document=part,
    )


def _pattern(part: Mapping[str, Any]) -> str:
    # `queues` is a short name for the pattern that the catalogue calls `queues_events`.
    return "queues_events" if part["pattern"] == "queues" else str(part["pattern"])


def _source(part: dict[str, Any]) -> Source:
    return Source(
        name=part["name"],
        pattern=_pattern(part),
        system=part["system"],
        predicates=tuple(part["predicates"]),
        document=part,
    )


_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    assert match is not None, text
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate name")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)
