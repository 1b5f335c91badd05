from __future__ import annotations

import copy
import json
import re
from datetime import timedelta

import pytest

from ledger.catalogue.rules import contract, targets
from ledger.catalogue.rules.contract import BadContract, ContractAltered
from ledger.catalogue.rules.effects import DEFAULT_REVERSIBILITY, Boundary, EffectDomain, Reversibility, SideEffectClass
from ledger.record.rules.canonical import NotCanonical

REFUND = {
    "name": "issue_refund",
    "version": "1.2.0",
    "schema_version": "1",
    "wrapper_version": "1",
    "description": "Refund a captured charge. Use when: money goes back. NOT for: chargebacks.",
    "arguments_schema": {
        "type": "object",
        "required": ["charge_id", "amount", "currency"],
        "additionalProperties": False,
        "properties": {
            "charge_id": {"type": "string", "minLength": 1, "maxLength": 64},
            "amount": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "currency": {"enum": ["EUR", "USD"]},
            "due": {"type": "string", "format": "date-time"},
        },
    },
    "side_effect_class": "HIGH_RISK_EXTERNAL",
    "target_resource": "charge/{charge_id}",
    "operation_kind": "refund",
    "required_effects": ["refund"],
    "verification": {
        "pattern": "payments",
        "system": "processor-test",
        "lookup": {
            "effects": {"refund": {"of": {"charge": "sr.charge_id"}, "match": {"key": "scope.idempotency_key"}}}
        },
        "predicates": ["sa.amount == sr.amount"],
        "polling": {"first_after_s": 1, "backoff": 2.0, "max_interval_s": 60, "sla_s": 3600},
        "settle_s": 30,
        "recheck_after": ["PT1H", "P1D"],
    },
    "claims": {"done": ["refunded"], "object": ["refund"]},
}


BOOKS = {
    "name": "books",
    "pattern": "databases",
    "system": "books",
    "lookup": {"effects": {"refund": {"table": "books.entries", "where": {"key": "scope.idempotency_key"}}}},
    "predicates": ["sa.amount == sr.amount"],
}


def document(**changes):
    made = copy.deepcopy(REFUND)
    if changes.get("side_effect_class") == "CRITICAL_MUTATION":
        made["verification"]["sources"] = ["processor", copy.deepcopy(BOOKS)]
    return made | changes


def with_sources(*sources, **changes):
    return document(verification=REFUND["verification"] | {"sources": list(sources)}, **changes)


def validate(changed, **options):
    return contract.validate(changed, compile_predicate=lambda text: None, **options)


def codes(changed, **options):
    with pytest.raises(BadContract) as caught:
        validate(changed, **options)
    return {error["code"] for error in caught.value.errors}


@pytest.mark.req("R-TC-03")
def test_a_valid_document_becomes_a_contract_with_its_defaults():
    refund = validate(document())

    assert (refund.name, refund.version) == ("issue_refund", "1.2.0")
    assert (refund.schema_version, refund.wrapper_version) == ("1", "1")
    assert refund.reversibility is Reversibility.IRREVERSIBLE
    assert refund.transaction_boundary is Boundary.EXTERNAL
    assert refund.externally_visible is True
    assert refund.effect_domain is EffectDomain.OTHER
    assert refund.recovery.idempotent is False
    assert refund.verification.recheck_after == (timedelta(hours=1), timedelta(days=1))
    assert refund.verification.polling.sla_s == 3600
    assert refund.findings == ()


@pytest.mark.req("R-TC-03")
@pytest.mark.parametrize("kind", list(SideEffectClass))
def test_an_omitted_reversibility_follows_the_class(kind):
    silent = validate(document(side_effect_class=kind.value))

    assert silent.reversibility is DEFAULT_REVERSIBILITY[kind]
    assert silent.mutating is (kind is not SideEffectClass.READ_ONLY)


@pytest.mark.parametrize(
    "field",
    [
        "name",
        "version",
        "schema_version",
        "wrapper_version",
        "description",
        "arguments_schema",
        "side_effect_class",
        "target_resource",
    ],
)
def test_a_document_without_a_required_field_is_refused(field):
    without = document()
    del without[field]

    assert codes(without) == {"SCHEMA"}


@pytest.mark.req("R-TC-02")
@pytest.mark.parametrize("value", ["DANGEROUS", "read_only", "", None, ["READ_ONLY"]])
def test_a_side_effect_class_outside_the_six_is_refused(value):
    assert codes(document(side_effect_class=value)) == {"SCHEMA"}


def test_an_unknown_field_is_refused_by_name():
    with pytest.raises(BadContract) as caught:
        validate(document(side_effects="none"))

    assert caught.value.errors == [{"path": "", "code": "UNKNOWN_FIELD", "detail": "Unknown field: side_effects."}]


def test_a_misspelt_field_of_the_verification_is_refused():
    changed = document()
    changed["verification"]["setle_s"] = 3

    assert codes(changed) == {"SCHEMA"}


@pytest.mark.req("R-TC-07")
@pytest.mark.req("R-RC-13", "R-VD-06")
def test_a_critical_mutation_requires_a_second_source_or_an_acknowledgement():
    assert codes(with_sources(side_effect_class="CRITICAL_MUTATION")) == {"TOO_FEW_SOURCES"}
    assert codes(with_sources("processor", side_effect_class="CRITICAL_MUTATION")) == {"TOO_FEW_SOURCES"}
    validate(document(side_effect_class="CRITICAL_MUTATION"))
    alone = validate(with_sources(side_effect_class="CRITICAL_MUTATION", unverifiable_acknowledged=True))
    assert [(one.code, one.fix) for one in alone.findings if one.code == "ONE_SOURCE"] == [
        ("ONE_SOURCE", "Name a second source with pattern, system, lookup and predicates.")
    ]


def test_the_sources_of_a_contract_are_listed_with_the_further_ones():
    found = validate(with_sources("processor", BOOKS)).verification
    assert found.sources == ("processor",)
    assert [(one.name, one.pattern, one.system) for one in found.further] == [("books", "databases", "books")]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "processor"}, "BAD_SOURCE"),
        ({"system": "processor-test"}, "BAD_SOURCE"),
        ({"lookup": {"effects": {"notice": {}}}}, "BAD_SOURCE"),
        ({"extra": 1}, "SCHEMA"),
        ({"predicates": []}, "SCHEMA"),
    ],
)
def test_an_unusable_further_source_is_refused(changes, code):
    assert codes(with_sources("processor", BOOKS | changes)) == {code}


def test_the_predicates_of_a_further_source_are_compiled_against_it():
    asked = []
    validate(with_sources(BOOKS), compile_for=lambda source, text: asked.append((source["name"], text)))
    assert asked == [("books", "sa.amount == sr.amount")]
    assert codes(with_sources(BOOKS), compile_for=lambda source, text: "No.") == {"BAD_PREDICATE"}
    assert codes(with_sources(BOOKS), check_verification=lambda part: ["No."]) == {"BAD_VERIFICATION"}


@pytest.mark.parametrize("kind", ["HIGH_RISK_EXTERNAL", "CRITICAL_MUTATION"])
def test_an_upper_class_without_a_verification_path_is_refused_unless_acknowledged(kind):
    blind = document(side_effect_class=kind, verification=None)

    assert codes(blind) == {"NO_VERIFICATION_PATH"}
    assert validate(blind | {"unverifiable_acknowledged": True}).verifiable is False


def test_a_lower_class_may_omit_the_verification_path():
    blind = document(side_effect_class="LOW_RISK_INTERNAL", verification=None)

    assert validate(blind).verifiable is False


@pytest.mark.parametrize(
    "reference",
    [
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"$dynamicRef": "https://example.org/x"},
        {"$id": "https://example.org/me"},
        {"$schema": "https://example.org/meta"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"allOf": [{"not": {"$ref": "//example.org/x"}}]},
    ],
)
def test_a_schema_that_refers_outside_itself_is_refused(reference):
    changed = document()
    changed["arguments_schema"]["properties"]["amount"] = reference

    assert codes(changed) == {"REMOTE_REFERENCE"}


def test_a_schema_may_refer_to_its_own_parts():
    changed = document()
    changed["arguments_schema"]["$defs"] = {"money": {"type": "integer", "minimum": 1}}
    changed["arguments_schema"]["properties"]["amount"] = {"$ref": "#/$defs/money"}
    checker = validate(changed).arguments_validator

    assert checker.is_valid({"charge_id": "c", "amount": 1, "currency": "EUR"})
    assert not checker.is_valid({"charge_id": "c", "amount": 0, "currency": "EUR"})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": "object", "properties": []},
        {"type": "object", "required": "charge_id"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}},
        {"type": "object", "properties": {"a": {"format": "no-such-format"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}},
        {"type": "array"},
        {},
        {"type": "object", "additionalProperties": False, "required": ["x"], "properties": {}},
    ],
)
def test_a_broken_arguments_schema_is_refused(schema):
    assert "BAD_SCHEMA" in codes(document(arguments_schema=schema))


def test_a_broken_result_schema_is_refused():
    assert codes(document(result_schema={"type": 3})) == {"BAD_SCHEMA"}


@pytest.mark.req("R-TC-04")
def test_formats_are_asserted():
    checker = validate(document()).arguments_validator
    call = {"charge_id": "c", "amount": 1, "currency": "EUR"}

    assert checker.is_valid(call | {"due": "2030-01-01T00:00:00Z"})
    assert not checker.is_valid(call | {"due": "tomorrow"})


@pytest.mark.parametrize(
    "template",
    ["charge/{nobody}", "charge/{due}", "charge/{", "charge/{a b}", "charge/\u202e{charge_id}"],
)
def test_a_target_template_that_some_calls_cannot_fill_is_refused(template):
    assert codes(document(target_resource=template)) == {"BAD_TARGET"}


def test_a_target_argument_that_is_neither_text_nor_integer_is_refused():
    changed = document()
    changed["arguments_schema"]["properties"]["charge_id"] = {"type": "boolean"}

    assert codes(changed) == {"BAD_TARGET"}


def test_every_predicate_is_compiled_and_the_invalid_ones_are_named():
    changed = document()
    changed["verification"]["predicates"] = ["fine", "nope"]
    with pytest.raises(BadContract) as caught:
        contract.validate(changed, compile_predicate=lambda text: "No such field." if text == "nope" else None)

    assert caught.value.errors == [
        {
            "path": "/verification/predicates/1",
            "code": "BAD_PREDICATE",
            "detail": "No such field.",
        }
    ]


def test_a_verification_without_predicates_is_refused():
    changed = document()
    changed["verification"]["predicates"] = []

    assert codes(changed) == {"SCHEMA"}


def test_a_lookup_refused_by_its_pattern_is_reported():
    assert codes(document(), check_verification=lambda part: ["No table."]) == {"BAD_VERIFICATION"}


def test_a_required_effect_missing_from_the_lookup_is_refused():
    changed = document()
    changed["verification"]["lookup"] = {"effects": {"payment": {}}}

    assert codes(changed) == {"BAD_EFFECTS"}
    assert validate(changed | {"required_effects": ["payment"]})


def test_omitted_required_effects_mean_all_effects_of_the_lookup():
    changed = document()
    del changed["required_effects"]
    changed["verification"]["lookup"] = {"effects": {"refund": {}, "notice": {}}}

    assert set(validate(changed).required_effects) == {"refund", "notice"}


def test_a_mutation_that_names_no_effect_is_refused():
    assert codes(document(required_effects=[])) == {"BAD_EFFECTS"}


@pytest.mark.req("R-AP-20")
@pytest.mark.parametrize(
    "missing",
    [
        {"recovery": {"idempotent": False}},
        {"reversibility": "COMPENSABLE"},
        {"verification": None, "unverifiable_acknowledged": True},
    ],
)
def test_a_pivot_without_verification_idempotency_or_approval_is_refused(missing):
    whole = document(pivot=True, recovery={"idempotent": True})

    assert validate(whole).pivot is True
    assert codes(whole | missing) == {"PIVOT_INCOMPLETE"}


@pytest.mark.parametrize(
    "change",
    [
        {"recovery": {"compensation_tool": "issue_refund"}},
        {"recovery": {"forward_tool": "issue_refund"}},
        {"next_tools": ["issue_refund"]},
    ],
)
def test_a_contract_that_could_loop_is_refused(change):
    assert codes(document(**change)) == {"LOOP"}


def test_the_digest_does_not_depend_on_the_order_of_members():
    shuffled = json.loads(json.dumps(document(), sort_keys=True))

    assert validate(shuffled).digest == validate(document()).digest
    assert validate(document(pivot=False)).digest != validate(document()).digest


@pytest.mark.req("R-TC-18")
def test_a_stored_contract_that_was_altered_is_refused():
    refund = validate(document())
    altered = refund.document.replace(b"HIGH_RISK_EXTERNAL", b"READ_ONLY")

    assert contract.load_stored(refund.document, expected_digest=refund.digest).name == "issue_refund"
    with pytest.raises(ContractAltered):
        contract.load_stored(altered, expected_digest=refund.digest)


def test_a_stored_contract_loads_as_it_was_validated():
    refund = validate(document())
    again = contract.load_stored(refund.document, expected_digest=refund.digest)

    assert vars(again) | {"arguments_validator": None} == vars(refund) | {"arguments_validator": None}


def test_a_document_with_a_duplicate_name_is_refused():
    with pytest.raises(NotCanonical):
        contract.read('{"name": "a", "name": "b"}')


@pytest.mark.parametrize("text", ["[1]", '"x"', "3"])
def test_a_document_that_is_not_an_object_is_refused(text):
    with pytest.raises(BadContract):
        contract.read(text)


@pytest.mark.parametrize("text", ["{", "NaN", '{"a": Infinity}', "[" * 100_000])
def test_a_document_that_is_not_json_is_refused(text):
    with pytest.raises(NotCanonical):
        contract.read(text)


def test_a_fraction_in_a_document_gives_a_stable_digest():
    written_twice = [validate(contract.read(json.dumps(document()))) for _ in range(2)]

    assert written_twice[0].digest == written_twice[1].digest
    assert written_twice[0].verification.polling.backoff == 2.0


def test_a_document_with_a_value_outside_json_is_refused():
    with pytest.raises(NotCanonical):
        validate(document(description="\ud800"))
    with pytest.raises(NotCanonical):
        validate(document(next_tools=[2**60]))


def test_a_deep_or_large_document_is_refused():
    deep = {}
    for _ in range(40):
        deep = {"properties": deep}

    with pytest.raises(BadContract, match="nested"):
        validate(document(arguments_schema=deep))
    with pytest.raises(BadContract, match="larger"):
        validate(document(description="x" * 300_000))


@pytest.mark.parametrize(
    ("boundary", "changes", "expected"),
    [
        ("LOCAL_TRANSACTION", {}, Boundary.LOCAL_TRANSACTION),
        ("EXTERNAL", {"reversibility": "IRREVERSIBLE"}, Boundary.PIVOT_COMMITTED),
        ("EXTERNAL", {"reversibility": "COMPENSABLE"}, Boundary.COMPENSABLE_PRE_PIVOT),
    ],
)
def test_an_external_boundary_is_mapped_to_one_of_the_recovery_table(boundary, changes, expected):
    mixed = validate(document(transaction_boundary=boundary, **changes))

    assert mixed.recovery_boundary is expected


@pytest.mark.req("R-MC-17")
@pytest.mark.parametrize("name", ["manage_x", "process_data", "refund", "runQuery"])
def test_a_vague_name_is_a_finding(name):
    assert [finding.code for finding in validate(document(name=name)).findings] == ["VAGUE_NAME"]


@pytest.mark.req("R-MC-18")
def test_a_description_without_its_markers_gives_two_findings():
    found = validate(document(description="Refunds.")).findings

    assert [finding.code for finding in found] == ["NO_USE_WHEN", "NO_NOT_FOR"]


@pytest.mark.req("R-MC-19")
def test_free_text_named_like_a_choice_is_a_finding_with_a_fix():
    changed = document()
    changed["arguments_schema"]["properties"]["refund_mode"] = {"type": "string"}
    (finding,) = validate(changed).findings

    assert finding.code == "OPEN_CHOICE"
    assert finding.path == "/arguments_schema/properties/refund_mode"
    assert "enum" in finding.fix


def test_open_arguments_and_fractions_are_findings():
    changed = document()
    changed["arguments_schema"]["additionalProperties"] = True
    changed["arguments_schema"]["properties"]["weight"] = {"type": "number"}

    assert [finding.code for finding in validate(changed).findings] == [
        "OPEN_ARGUMENTS",
        "FRACTIONAL_ARGUMENT",
    ]


def lint_of(**properties):
    """The findings of the refund with these parameters beside its own: (code, last steps of the path)."""
    changed = document()
    changed["arguments_schema"]["properties"] |= properties
    return [(each.code, each.path.removeprefix("/arguments_schema/properties/")) for each in validate(changed).findings]


TEXT, MANY = {"type": "string"}, {"type": "array", "items": {"type": "string", "maxLength": 9}}


@pytest.mark.req("R-MC-19")
@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"note": TEXT}, "UNBOUNDED_TEXT"),
        ({"note": {"type": ["string", "null"]}}, "UNBOUNDED_TEXT"),
        ({"pieces": {"type": "integer"}}, "UNBOUNDED_NUMBER"),
        ({"total_amount": {"type": "integer", "minimum": 1}}, "UNBOUNDED_NUMBER"),
        ({"price": {"type": "number", "maximum": 5}}, "FRACTIONAL_MONEY"),
        ({"share": {"type": "number"}}, "FRACTIONAL_ARGUMENT"),
        ({"names": MANY}, "UNBOUNDED_LIST"),
        ({"delivery_mode": TEXT}, "OPEN_CHOICE"),
    ],
)
def test_a_parameter_without_bounds_is_a_finding(part, code):
    [name] = part

    assert lint_of(**part) == [(code, name)]


def test_a_bounded_parameter_is_not_a_finding():
    assert (
        lint_of(
            note={"type": "string", "maxLength": 200},
            code={"type": "string", "pattern": "^[A-Z]{3}$"},
            pieces={"type": "integer", "minimum": 1},
            names=MANY | {"maxItems": 5},
            mode={"enum": ["fast", "slow"]},
        )
        == []
    )


def test_nested_parameters_are_linted_too():
    address = {"type": "object", "properties": {"street": TEXT, "a/b": TEXT}}
    lines = {"type": "array", "maxItems": 5, "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}

    assert lint_of(address=address, lines=lines) == [
        ("OPEN_ARGUMENTS", "address"),
        ("UNBOUNDED_TEXT", "address/properties/a~1b"),
        ("UNBOUNDED_TEXT", "address/properties/street"),
        ("UNBOUNDED_TEXT", "lines/items/anyOf/0"),
        ("UNBOUNDED_NUMBER", "lines/items/anyOf/1"),
    ]


def test_a_mutating_tool_without_claim_phrases_is_a_finding():
    silent = document()
    del silent["claims"]

    assert [(each.code, each.path) for each in validate(silent).findings] == [("NO_CLAIMS", "/claims/done")]
    assert [each.code for each in validate(silent | {"side_effect_class": "READ_ONLY"}).findings] == []


def test_claim_phrases_without_an_object_are_a_finding():
    bare = document(claims={"done": ["refunded"]})

    assert [(each.code, each.path) for each in validate(bare).findings] == [("NO_OBJECT", "/claims/object")]


def test_a_saying_with_an_unknown_field_is_refused():
    sayings = [
        {"words": ["charged"], "when": "so.payment > 0"},
        {"words": ["in full"], "when": "sr.amont == sa.amount"},
        {"words": ["as asked"], "when": "fields.amout.same"},
        {"words": ["well"], "when": "so.status =="},
    ]
    claims = document()["claims"] | {"sayings": sayings}
    with pytest.raises(BadContract) as refused:
        validate(document(claims=claims))
    told = {each["path"]: each["detail"] for each in refused.value.errors}
    known = "(known: amount, charge_id, currency, due)"
    assert told["/claims/sayings/1/when"] == f"`sr.amont == sa.amount`: sr has no field `amont` {known}."
    assert told["/claims/sayings/2/when"] == f"`fields.amout.same`: fields has no field `amout` {known}."
    assert "does not compile" in told["/claims/sayings/3/when"]
    assert len(told) == 3
    good = validate(document(claims=claims | {"sayings": sayings[:1]}))
    assert good.claims.sayings == (contract.Saying(("charged",), "so.payment > 0"),)


@pytest.mark.parametrize(
    ("report", "path", "detail"),
    [
        ("Refunded {sr.amout}.", "/report", "sr has no field `amout` (known: amount, charge_id, currency, due)."),
        ("Refunded {sa.amount | euros}.", "/report", "`euros` is no filter (known: money)."),
        ({"de": "Erstattet: {betrag}."}, "/report/de", "`{betrag}` is no place: "),
        ("Refunded {sa.amount.", "/report", "A brace stands alone; a place is written {target}, or "),
    ],
)
def test_a_report_template_with_an_unknown_field_is_refused(report, path, detail):
    with pytest.raises(BadContract) as refused:
        validate(document(report=report))
    [fault] = refused.value.errors
    assert (fault["path"], fault["code"]) == (path, "BAD_REPORT")
    assert fault["detail"].startswith(detail)


def test_a_report_template_is_one_sentence_or_one_for_each_language():
    assert validate(document(report="Refunded {sa.amount | money}.")).report == (
        ("en", "Refunded {sa.amount | money}."),
    )
    both = {"en": "Refunded {target}.", "de": "{target} erstattet."}
    assert dict(validate(document(report=both)).report) == both


def test_every_finding_names_its_fix():
    poor = document(name="manage", description="Manages.", claims={})
    poor["arguments_schema"]["properties"] |= {"mode": TEXT, "note": TEXT, "cost": {"type": "number"}, "list": MANY}
    found = validate(poor).findings

    assert len({each.code for each in found}) == 8
    assert all(each.fix.endswith(".") and each.told == f"{each.detail} {each.fix}" for each in found)


# Targets


def test_a_target_is_rendered_from_the_arguments():
    assert validate(document()).render_target({"charge_id": "ch_1"}) == "charge/ch_1"
    assert targets.render_target("order/{id}", {"id": 42}) == "order/42"


def test_only_a_path_at_the_end_of_a_target_keeps_its_slashes():
    assert targets.render_target("document/{path}", {"path": "a/b.txt"}) == "document/a/b.txt"
    assert targets.render_target("d/{path}/x", {"path": "a/b"}) == "d/a%2Fb/x"


def test_a_target_can_be_named_by_all_arguments_together():
    assert targets.template_arguments("mail/send/{*}") == ()
    one, other, again = (
        targets.render_target("mail/send/{*}", arguments)
        for arguments in ({"to": ["a"], "at": 1}, {"to": ["b"], "at": 1}, {"at": 1, "to": ["a"]})
    )
    assert one == again != other
    assert re.fullmatch("mail/send/[0-9a-f]{32}", one)
    with pytest.raises(targets.BadTarget, match="have no canonical form"):
        targets.render_target("mail/send/{*}", {"at": object()})


def test_two_different_calls_never_render_to_the_same_target():
    one = targets.render_target("{a}/{b}", {"a": "1/2", "b": "3"})
    other = targets.render_target("{a}/{b}", {"a": "1", "b": "2/3"})

    assert one != other


def test_a_value_cannot_imitate_an_escape_or_hide_a_character():
    assert targets.render_target("d/{p}", {"p": "a%2Fb"}) == "d/a%252Fb"
    assert targets.render_target("d/{p}", {"p": "a\u202eb"}) == "d/a%E2%80%AEb"


def test_two_encodings_of_one_letter_are_one_target():
    assert targets.render_target("d/{p}", {"p": "e\u0301"}) == targets.render_target("d/{p}", {"p": "\u00e9"})


@pytest.mark.parametrize("path", ["", " ", "..", "a/../b", "a//b", "/a", "a/", "./a", None, True])
def test_a_value_that_resolves_to_another_target_is_refused(path):
    with pytest.raises(targets.BadTarget):
        targets.render_target("document/{path}", {"path": path})


def test_a_target_has_a_length_limit():
    with pytest.raises(targets.BadTarget):
        targets.render_target("document/{path}", {"path": "x" * 600})
