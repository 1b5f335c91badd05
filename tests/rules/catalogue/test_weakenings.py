"""Every way in which a version of a contract can be weaker, each told in a sentence; and what is not weaker."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.weakenings import HARMLESS, weakenings
from ledger.catalogue.rules.widening import widenings
from tests.support.tables import every_row

SCHEMA = json.loads((Path(contracts.__file__).parent / "contract.schema.json").read_text())
LOOKUP = {"effects": {"refund": {"table": "shop.refunds", "where": {"key": "scope.idempotency_key"}}}}
STRONG = {
    "name": "issue_refund",
    "version": "1.0.0",
    "schema_version": "1",
    "wrapper_version": "1",
    "description": "Refund a charge. Use when: money goes back. NOT for: chargebacks.",
    "arguments_schema": {
        "type": "object",
        "required": ["charge_id", "amount"],
        "additionalProperties": False,
        "properties": {
            "charge_id": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^ch_"},
            "amount": {"type": "integer", "minimum": 1, "maximum": 1000},
            "note": {"type": "string", "maxLength": 80},
        },
    },
    "result_schema": {"type": "object", "required": ["id"]},
    "answers": {"amount": "refund.total"},
    "preview": {"fields": [{"read": "target.paid", "label": "Paid"}], "lost": ["The money."]},
    "answer_origin": {"tenant": {"path": "org.id", "is": "o-7"}},
    "side_effect_class": "CRITICAL_MUTATION",
    "reversibility": "IRREVERSIBLE",
    "transaction_boundary": "EXTERNAL",
    "effect_domain": "FINANCIAL",
    "pivot": True,
    "externally_visible": True,
    "approval_required": True,
    "data_sensitivity": "HIGH",
    "cost": "MODERATE",
    "user_impact": "HIGH",
    "stale_errors": ["moved"],
    "approval": {
        "decide_within_s": 600,
        "baseline": True,
        "preflight": ["pre.target.status == 'captured'"],
        "blast_radius": {"count": "1", "high_above": 5},
        "volatile": ["target.seen_at"],
        "prepare_within_s": 5,
    },
    "target_resource": "charge/{charge_id}",
    "operation_kind": "refund",
    "required_effects": ["refund"],
    "verification": {
        "pattern": "databases",
        "system": "shop",
        "sources": [
            "primary",
            {"name": "books", "pattern": "databases", "system": "books", "lookup": LOOKUP, "predicates": ["sa.exists"]},
        ],
        "lookup": LOOKUP,
        "predicates": ["sa.amount == sr.amount", "sa.status == 'done'"],
        "polling": {"first_after_s": 1, "backoff": 2, "max_interval_s": 60, "sla_s": 3600},
        "settle_s": 30,
        "timeout_s": 20,
        "recheck_after": ["PT1H", "P7D"],
        "root": "refunds",
        "baseline": True,
        "fresh_after": {"version": "so.version"},
        "checks": {"actor": {"by": ["sa.status == 'done'"]}},
        "allow_extensions": [".csv"],
    },
    "recovery": {
        "compensation_tool": "cancel_refund",
        "compensation_arguments": {"id": "sa.id"},
        "effects": {"refund": {"forward_tool": "finish_refund"}},
        "corrections": {"surplus": {"tool": "charge_again", "arguments": {"amount": "diff.amount"}}},
        "idempotent": False,
        "safe_without_effect": False,
    },
    "claims": {"done": ["refunded"], "object": ["refund"]},
    "report": "Refunded {target}.",
    "next_tools": ["write_letter"],
    "formerly": ["refund"],
    "coercion": "none",
    "dry_run": {"present": {"arguments": {"id": "1"}}, "absent": {"arguments": {"id": "2"}}},
    "based_on": {"required": True, "max_age_s": 60},
}
GONE = object()
WEAKER = [
    ("side_effect_class", "HIGH_RISK_EXTERNAL", "CLASS_LOWERED", "Its class falls from CRITICAL_MUTATION to HIGH_RISK"),
    ("reversibility", "REVERSIBLE", "REVERSIBILITY_RAISED", "It is said to be REVERSIBLE, was IRREVERSIBLE."),
    ("reversibility", "COMPENSABLE", "REVERSIBILITY_RAISED", "It is said to be COMPENSABLE, was IRREVERSIBLE."),
    ("transaction_boundary", "LOCAL_TRANSACTION", "BOUNDARY_CHANGED", "Its transaction boundary is LOCAL_TRANSACTION"),
    ("effect_domain", "OTHER", "DOMAIN_CHANGED", "What it would hurt is OTHER, was FINANCIAL."),
    ("pivot", False, "PIVOT_DROPPED", "It is no longer a step that cannot be taken back."),
    ("externally_visible", False, "VISIBILITY_DROPPED", "Its effect is no longer said to be seen outside."),
    ("approval_required", GONE, "APPROVAL_DROPPED", "People are no longer asked whatever the policy says."),
    ("no_op_success_allowed", True, "NO_OP_ALLOWED", "It counts as done where nothing had to be done."),
    ("unverifiable_acknowledged", True, "UNVERIFIABLE", "It is taken as one that cannot be read back."),
    ("data_sensitivity", "LOW", "GRADE_LOWERED", "Its data sensitivity is LOW, was HIGH: less is checked."),
    ("cost", GONE, "GRADE_LOWERED", "Its cost is LOW, was MODERATE: less is checked."),
    ("user_impact", "MODERATE", "GRADE_LOWERED", "Its user impact is MODERATE, was HIGH: less is checked."),
    ("stale_errors", ["moved", "declined"], "ERRORS_EXCUSED", "Its error declined counts as a target that moved on."),
    ("approval.baseline", False, "BASELINE_DROPPED", "The target is no longer read before people are asked."),
    ("approval.preflight", GONE, "PREFLIGHT_DROPPED", "No longer checked before: `pre.target.status == 'captured'`."),
    ("approval.blast_radius", GONE, "RADIUS_LOOSENED", "How much it touches weighs less, or is no longer counted."),
    ("approval.blast_radius.high_above", 50, "RADIUS_LOOSENED", "How much it touches weighs less"),
    ("approval.volatile", ["target.seen_at", "target.amount"], "DRIFT_IGNORED", "A change of target.amount no longer"),
    ("target_resource", "charges", "TARGET_CHANGED", "What it is about is `charges`, was `charge/{charge_id}`."),
    ("operation_kind", "pay", "OPERATION_CHANGED", "Its operation is `pay`, was `refund`: repeats are told by it."),
    ("required_effects", [], "EFFECT_DROPPED", "The effect `refund` is no longer required."),
    ("verification", None, "READBACK_DROPPED", "Its effect is no longer read back."),
    ("verification.pattern", "payments", "SOURCE_CHANGED", "It is read back in shop (payments), was shop (databases)."),
    ("verification.system", "other", "SOURCE_CHANGED", "It is read back in other (databases), was shop (databases)."),
    ("verification.sources", ["primary"], "SOURCE_DROPPED", "The further source `books` is gone."),
    ("verification.lookup", {}, "LOOKUP_CHANGED", "What is read back has changed: `lookup`."),
    ("verification.predicates", ["sa.status == 'done'"], "PREDICATE_DROPPED", "No longer checked: `sa.amount == sr.am"),
    ("verification.polling.sla_s", 60, "HORIZON_SHORTER", "It is read for at most 60 s, was 3600 s."),
    ("verification.settle_s", 29, "SETTLE_SHORTER", "Late effects are waited for 29 s, was 30 s."),
    ("verification.settle_s", GONE, "SETTLE_SHORTER", "Late effects are waited for 0 s, was 30 s."),
    ("verification.timeout_s", 1, "TIMEOUT_SHORTER", "A reading may take 1 s, was 20 s."),
    ("verification.recheck_after", ["PT1H"], "RECHECK_DROPPED", "It is no longer read again after 604800 s."),
    ("verification.root", "drafts", "LOOKUP_CHANGED", "What is read back has changed: `root`."),
    ("verification.baseline", False, "BASELINE_DROPPED", "The state before is no longer read."),
    ("verification.fresh_after", GONE, "LOOKUP_CHANGED", "What is read back has changed: `fresh_after`."),
    (
        "verification.checks",
        {"actor": {"not_applicable": "nobody"}},
        "CHECK_WAIVED",
        "The check `actor` is said not to",
    ),
    ("verification.checks", GONE, "CHECK_CHANGED", "The check `actor` is made by something else."),
    ("verification.allow_extensions", [".csv", ".exe"], "LOOKUP_CHANGED", "What is read back has changed: `allow_ex"),
    ("recovery.compensation_tool", GONE, "REMEDY_DROPPED", "The compensation by cancel_refund is gone."),
    ("recovery.compensation_tool", "shred", "REMEDY_CHANGED", "The compensation is shred, with other arguments or"),
    ("recovery.compensation_arguments", {"id": "sr.id"}, "REMEDY_CHANGED", "The compensation is cancel_refund, with"),
    ("recovery.effects", {}, "REMEDY_DROPPED", "The forward of `refund` by finish_refund is gone."),
    ("recovery.corrections", {}, "REMEDY_DROPPED", "The correction of a surplus by charge_again is gone."),
    (
        "recovery.corrections.surplus.tool",
        "shred",
        "REMEDY_CHANGED",
        "The correction of a surplus is shred,",
    ),
    ("recovery.idempotent", True, "SENT_AGAIN", "It may be sent again unchanged."),
    ("recovery.safe_without_effect", True, "SAFE_WITHOUT_EFFECT", "Its compensation is said to do nothing"),
    ("claims", {"object": ["refund"]}, "CLAIMS_DROPPED", "A claim in these words is no longer recognised: refunded."),
    ("report", GONE, "REPORT_CHANGED", "A receipt no longer says: Refunded {target}."),
    ("report", {"de": "Erstattet."}, "REPORT_CHANGED", "A receipt no longer says: Refunded {target}."),
    ("answers", GONE, "ANSWER_DROPPED", "`amount` is no longer compared with the answer's `refund.total`."),
    ("answers", {"amount": "id"}, "ANSWER_DROPPED", "`amount` is no longer compared with the answer's `refund.total`."),
    ("answers.note", None, "ANSWER_DROPPED", "`note` is no longer compared with the answer's field."),
    ("preview", GONE, "PREVIEW_DROPPED", "People are no longer shown before they approve: Paid, The money."),
    ("preview.lost", [], "PREVIEW_DROPPED", "People are no longer shown before they approve: The money."),
    ("answer_origin", GONE, "ORIGIN_UNCHECKED", "An answer no longer has to name `o-7` as its tenant, at `org.id`."),
    ("answer_origin.tenant.is", "o-8", "ORIGIN_UNCHECKED", "An answer no longer has to name `o-7` as its tenant"),
    ("dry_run", GONE, "DRY_RUN_DROPPED", "Its lookup is no longer tried before it is registered."),
    ("coercion", "lossless", "COERCES", "It takes a value in another type that says the same."),
    ("based_on.required", False, "BASIS_DROPPED", "A call need not name the read that it rests on."),
    ("based_on.max_age_s", 61, "BASIS_OLDER", "A read may be 61 s old, was 60 s."),
    ("based_on.max_age_s", GONE, "BASIS_OLDER", "A read may be any time old, was 60 s."),
    ("result_schema", GONE, "RESULT_WIDER", "More passes as its answer"),
    ("arguments_schema.additionalProperties", True, "ARGUMENTS_WIDER", "It takes more than before: unknown arguments"),
]


def changed(path, value):
    document = deepcopy(STRONG)
    *above, last = path.split(".")
    part = document
    for step in above:
        part = part[step]
    if value is GONE:
        del part[last]
    else:
        part[last] = value
    return document


def compared(before, after):
    return weakenings(*(contracts._contract(each, contracts._text(each)) for each in (before, after)))


@every_row(("path", "value", "code", "text"), WEAKER)
def test_each_weakening_is_named_in_a_sentence(path, value, code, text):
    found = compared(STRONG, changed(path, value))
    assert [(each.code, each.text[: len(text)]) for each in found if each.code == code] == [(code, text)]


@every_row(("path", "value", "code", "text"), WEAKER)
def test_the_reverse_change_is_not_the_same_weakening(path, value, code, text):
    either_way = {"BOUNDARY_CHANGED", "SOURCE_CHANGED", "TARGET_CHANGED", "OPERATION_CHANGED", "LOOKUP_CHANGED"}
    if code in either_way | {"REMEDY_CHANGED"}:
        return
    found = {each.text for each in compared(changed(path, value), STRONG)}
    assert not any(each.startswith(text) for each in found)


def test_every_field_of_a_contract_is_judged_or_listed_as_harmless():
    judged = {path for path, *_ in WEAKER}
    nested = {"approval", "verification", "recovery", "based_on"}
    parts = {
        "approval": SCHEMA["properties"]["approval"]["properties"],
        "verification": SCHEMA["properties"]["verification"]["anyOf"][1]["properties"],
        "recovery": SCHEMA["properties"]["recovery"]["properties"],
        "based_on": SCHEMA["properties"]["based_on"]["properties"],
    }
    polling = parts["verification"]["polling"]["properties"]
    every = set(SCHEMA["properties"]) - nested
    every |= {f"{name}.{inner}" for name, inside in parts.items() for inner in inside} - {"verification.polling"}
    every |= {f"verification.polling.{inner}" for inner in polling}
    # A remedy is one thing however it is called.
    remedies = {each for each in every if each.startswith(("recovery.rollback", "recovery.forward"))}
    same = {"arguments_schema": "arguments_schema.additionalProperties"}
    assert {each for each in every - remedies if same.get(each, each) not in judged | HARMLESS.keys()} == set()


@pytest.mark.parametrize("path", sorted(set(HARMLESS) - {"name"}))
def test_a_harmless_change_is_not_a_weakening(path):
    values = {"next_tools": [], "formerly": [], "description": "Other words."}
    assert compared(STRONG, changed(path, values.get(path, 7 if "." in path else "2"))) == ()


def test_a_changed_saying_condition_is_weaker_and_an_additional_saying_is_not():
    charged = {"words": ["charged"], "when": "so.payment > 0"}
    said = changed("claims", STRONG["claims"] | {"sayings": [charged]})
    other = changed("claims", STRONG["claims"] | {"sayings": [charged | {"when": "true"}]})
    [weaker] = compared(said, other)
    assert (weaker.code, weaker.text) == (
        "CLAIMS_DROPPED",
        "The condition on these words has changed or gone: charged.",
    )
    assert compared(STRONG, said) == ()


def test_a_stricter_contract_is_not_a_weakening():
    weak = deepcopy(STRONG)
    for path in ("based_on", "result_schema", "recovery"):
        del weak[path]
    weak["approval"] = {"volatile": ["target.seen_at"]}
    weak |= {"side_effect_class": "HIGH_RISK_EXTERNAL", "approval_required": False, "pivot": False}
    assert compared(weak, STRONG) == ()


def test_an_unchanged_document_or_an_explicit_default_is_not_a_weakening():
    assert compared(STRONG, STRONG) == ()
    said = STRONG | {"reversibility": "IRREVERSIBLE"}
    left_out = {name: part for name, part in said.items() if name != "reversibility"}
    assert compared(said, left_out) == ()


# Schemas


@every_row(
    ("before", "after"),
    [
        ({"maximum": 5}, {"maximum": 6}),
        ({"maximum": 5}, {}),
        ({"exclusiveMaximum": 5}, {"exclusiveMaximum": 6}),
        ({"minimum": 5}, {"minimum": 4}),
        ({"exclusiveMinimum": 5}, {}),
        ({"maxLength": 5}, {"maxLength": 6}),
        ({"minLength": 5}, {"minLength": 4}),
        ({"maxItems": 1}, {"maxItems": 2}),
        ({"minItems": 1}, {"minItems": 0}),
        ({"maxProperties": 1}, {}),
        ({"minProperties": 1}, {}),
        ({"uniqueItems": True}, {"uniqueItems": False}),
        ({"multipleOf": 2}, {"multipleOf": 1}),
        ({"pattern": "^a"}, {"pattern": "a"}),
        ({"pattern": "^a"}, {}),
        ({"format": "date"}, {}),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a"]}, {}),
        ({"const": "a"}, {"const": "b"}),
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "integer"}, {"type": "number"}),
        ({"type": "string"}, {}),
        ({"required": ["a", "b"]}, {"required": ["a"]}),
        ({"properties": {}, "additionalProperties": False}, {"properties": {}, "additionalProperties": True}),
        ({"properties": {}, "additionalProperties": False}, {"properties": {}}),
        (
            {"properties": {}, "additionalProperties": False},
            {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
        ),
        ({"properties": {"a": {"maximum": 1}}}, {"properties": {"a": {"maximum": 2}}}),
        ({"properties": {"a": {"maximum": 1}}}, {"properties": {}}),
        ({"properties": {"a": {"properties": {"b": {"maxLength": 1}}}}}, {"properties": {"a": {"properties": {}}}}),
        ({"items": {"maximum": 1}}, {"items": {"maximum": 2}}),
        ({"items": {"maximum": 1}}, {}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{}]}, {"oneOf": [{"type": "null"}]}),
        ({"allOf": [{"maximum": 1}]}, {}),
        ({"not": {"const": 1}}, {"not": {"const": 2}}),
        ({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}),
        ({"$defs": {"a": {"maximum": 1}}}, {"$defs": {"a": {"maximum": 2}}}),
        ({"type": "object"}, {"type": "object", "patternProperties": {"^x": {}}}),
        ({"dependentRequired": {"a": ["b"]}}, {}),
        ({"unevaluatedProperties": False}, {}),
        (False, {}),
        (False, {"type": "string"}),
        ({"type": "string"}, True),
    ],
)
def test_a_schema_that_accepts_more_is_wider(before, after):
    assert list(widenings(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"maximum": 5}),
        ({"maximum": 5}, {"maximum": 4}),
        ({"minimum": 5}, {"minimum": 6}),
        ({"enum": ["a", "b"]}, {"enum": ["b"]}),
        ({"type": "number"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"required": ["a"]}, {"required": ["a", "b"]}),
        ({"additionalProperties": True}, {"additionalProperties": False}),
        ({"additionalProperties": True}, {}),
        ({}, {"pattern": "^a"}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"properties": {}, "additionalProperties": False}),
        ({"properties": {}}, {"properties": {"a": {"type": "string"}}}),
        ({"maxLength": 5, "description": "x"}, {"maxLength": 5, "title": "y", "default": "z"}),
        ({"maximum": 5}, {"maximum": 5.0}),
        ({"type": "string"}, False),
    ],
)
def test_a_schema_that_accepts_less_or_the_same_is_not_wider(before, after):
    assert list(widenings(before, after)) == []
