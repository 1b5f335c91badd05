"""Expressions: the conformance cases of CEL that we rely on, and the limits of one evaluation."""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.catalogue.rules import expression_tree, expressions
from ledger.catalogue.rules.expressions import VARIABLES, BadExpression, NoValue, Truth
from ledger.record.rules.lifecycle import State
from tests.support.tables import every_row

NOTHING: dict[str, dict[str, object]] = {name: {} for name in VARIABLES}


def truth(text, **bindings):
    return expressions.evaluate(expressions.compile(text), NOTHING | bindings).truth


def test_a_comparison_evaluates_to_true_or_false():
    assert truth("sa.amount == sr.amount", sa={"amount": 5}, sr={"amount": 5}) is Truth.TRUE
    assert truth("sa.amount == sr.amount", sa={"amount": 5}, sr={"amount": 6}) is Truth.FALSE


CASES = [
    ("sa.a == 'x'", {"a": "x"}, "TRUE"),
    ("sa.a == 'e\u0301'", {"a": "\u00e9"}, "FALSE"),
    ("sa.a in ['x', 'y']", {"a": "y"}, "TRUE"),
    ("sa.a in ['x', 'y']", {"a": "z"}, "FALSE"),
    ("sa.a > 1 && sa.a <= 3", {"a": 3}, "TRUE"),
    ("has(sa.a)", {}, "FALSE"),
    ("has(sa.a) && sa.a == 1", {}, "FALSE"),
    ("sa.a == null", {"a": None}, "TRUE"),
    ("sa.a.b.c == 1", {"a": {"b": {"c": 1}}}, "TRUE"),
    ("sa['a b'] == 1", {"a b": 1}, "TRUE"),
    ("sa.a.exists(x, x.id == 2)", {"a": [{"id": 1}, {"id": 2}]}, "TRUE"),
    ("sa.a.all(x, x > 0)", {"a": [1, 2, 0]}, "FALSE"),
    ("size(sa.a.filter(x, x > 1)) == 2", {"a": [1, 2, 3]}, "TRUE"),
    ("size(sa.a) == 3", {"a": "äöü"}, "TRUE"),
    ("sa.a.startsWith('ch_')", {"a": "ch_1"}, "TRUE"),
    ("sa.a.matches('^[a-z]+$')", {"a": "abc"}, "TRUE"),
    ("timestamp(sa.a) >= timestamp('2026-01-01T00:00:00Z')", {"a": "2026-01-01T01:00:00+01:00"}, "TRUE"),
    ("timestamp(sa.a) - timestamp('2026-01-01T00:00:00Z') < duration('1h')", {"a": "2026-01-01T00:59:59Z"}, "TRUE"),
    ("int(sa.a) == 12", {"a": "12"}, "TRUE"),
    ("double(sa.a) < 0.01", {"a": "0.001"}, "TRUE"),
    ("sa.a == 9007199254740993", {"a": 9007199254740993}, "TRUE"),
    ("sa.a ? true : false", {"a": False}, "FALSE"),
    # Types do not bend: text is not a number, true is not one.
    ("sa.a == 1", {"a": "1"}, "FALSE"),
    ("sa.a == 1", {"a": True}, "FALSE"),
    # What cannot be told is never true, nor its opposite.
    ("sa.a == 1", {}, "UNDECIDABLE"),
    ("sa.a != 1", {}, "UNDECIDABLE"),
    ("!(sa.a == 1)", {}, "UNDECIDABLE"),
    ("sa.a.b == 1", {"a": None}, "UNDECIDABLE"),
    ("sa.a < 1", {"a": "0"}, "UNDECIDABLE"),
    ("sa.a < 1", {"a": None}, "UNDECIDABLE"),
    ("sa.a == sr.a", {"a": 1}, "UNDECIDABLE"),
    ("sa.a", {"a": "true"}, "UNDECIDABLE"),
    ("sa.a", {"a": 1}, "UNDECIDABLE"),
    ("1 / sa.a == 1", {"a": 0}, "UNDECIDABLE"),
    ("sa.a + 1 > 0", {"a": 2**63 - 1}, "UNDECIDABLE"),
    ("timestamp(sa.a) > timestamp('2026-01-01T00:00:00Z')", {"a": "yesterday"}, "UNDECIDABLE"),
    ("size(sa.a.filter(x, x.b == 1)) == 0", {"a": [{}]}, "UNDECIDABLE"),
    # The rest of an expression may settle what a part cannot.
    ("sa.a == 1 || sa.b == 2", {"b": 2}, "TRUE"),
    ("sa.a == 1 && sa.b == 2", {"b": 3}, "FALSE"),
]


@pytest.mark.req("R-RC-03", "R-RC-04")
@every_row(("text", "sa", "expected"), CASES)
def test_expressions_evaluate_as_documented(text, sa, expected):
    assert truth(text, sa=sa) == expected


@pytest.mark.parametrize("literal", ["'a\\u0000b'", "'\\x00'", "'x\\000y'", "'a\0b'"])
def test_a_nul_character_in_an_expression_is_refused(literal):
    with pytest.raises(BadExpression, match="NUL"):
        expressions.compile(f"sa.a == {literal}")


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("a\0evil", "NUL"),
        ({"a\0b": 1}, "NUL"),
        ([["deep", "a\0"]], "NUL"),
        ("\ud800", "surrogate"),
        (2**64, "larger"),
        (0.5, "float"),
        (Decimal(1), "Decimal"),
        (b"bytes", "bytes"),
        ({1: 2}, "not text"),
    ],
)
def test_values_that_the_evaluator_would_convert_are_undecidable(value, word):
    """The library cuts text at NUL: without this, "a\\0evil" == "a" would be true."""
    answer = expressions.evaluate(expressions.compile("sr.a == 'a'"), NOTHING | {"sr": {"a": value}})
    assert answer.truth is Truth.UNDECIDABLE
    assert word in answer.reason


def test_values_nested_too_deeply_are_undecidable():
    value: list[object] = []
    for _ in range(100):
        value = [value]
    assert truth("sa.a == sa.a", sa={"a": value}) is Truth.UNDECIDABLE


def test_enums_mappings_and_tuples_are_accepted_as_json():
    assert truth("sa.a == 'FAILED'", sa={"a": State.FAILED}) is Truth.TRUE
    assert truth("sa.a.b == 1", sa={"a": MappingProxyType({"b": 1})}) is Truth.TRUE
    assert truth("sa.a == [1, 2]", sa={"a": (1, 2)}) is Truth.TRUE


@pytest.mark.parametrize(
    "text",
    [
        "sa.a ==",
        "sa.a == 1 extra",
        "other.a == 1",
        "getenv('HOME') == ''",
        "__import__('os') == 1",
        "sa.a + 1",
        "'text'",
        "1 == 'a'",
        "",
        "(" * 40 + "true" + ")" * 40,
        "true || " * 400 + "true",
        "\ud800",
    ],
)
def test_an_invalid_expression_is_refused_at_registration(text):
    with pytest.raises(BadExpression) as refusal:
        expressions.compile(text)
    assert refusal.value.code == "BAD_EXPRESSION"
    assert refusal.value.status == 422


@pytest.mark.req("R-RC-05")
def test_a_value_is_never_evaluated_as_code():
    assert truth("sa.a == sr.a", sa={"a": "x"}, sr={"a": "x' || true || '"}) is Truth.FALSE


def test_nested_loops_share_one_budget():
    ten = "[0,1,2,3,4,5,6,7,8,9]"
    text = f"{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, {ten}.all(e, true)))))"
    answer = expressions.evaluate(expressions.compile(text), NOTHING)
    assert answer.truth is Truth.UNDECIDABLE
    assert "budget" in answer.reason


def test_a_hostile_regular_expression_terminates():
    assert truth("sa.a.matches('(a+)+$')", sa={"a": "a" * 5000 + "b"}) is Truth.FALSE


SCHEMA = {
    "properties": {
        "amount": {"type": "integer"},
        "customer": {"type": "object", "properties": {"id": {"type": "string"}}},
        "open": {"type": "object"},
    }
}


@pytest.mark.parametrize(
    "text",
    [
        "sr.amount == 1",
        "has(sr.amount)",
        "sr.customer.id == 'x'",
        "sr.open.anything == 1",
        "sr['amount'] == 1",
        "sr.open['any thing'] == 1",
        "sa.whatever == 1",
        "sa.items.all(sr, sr.unknown == 1)",
    ],
)
def test_known_fields_compile(text):
    expressions.compile(text, {"sr": SCHEMA, "sa": None})


@pytest.mark.parametrize(
    "text",
    [
        "sr.amuont == 1",
        "has(sr.amuont)",
        "sr.customer.name == 'x'",
        "sa.items.all(x, x == sr.amuont)",
        "[sr.amuont] == [1]",
        "{'a': sr.amuont} == {'a': 1}",
        "sa.x == 1 ? sr.amuont == 1 : true",
        "size(sr.customer.nam) == 1",
        "sr['amuont'] == 1",
        "sr.customer['nam'] == 'x'",
        "sr['customer'].nam == 'x'",
    ],
)
def test_an_unknown_field_of_a_typed_source_is_refused(text):
    with pytest.raises(BadExpression, match="has no field"):
        expressions.compile(text, {"sr": SCHEMA, "sa": None})


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("sa.a == sr.b", ("sa.a", "==", "sr.b")),
        ("(sa.a >= sr.b)", ("sa.a", ">=", "sr.b")),
        ("((sa.a + 1) * 2 != (sr.b))", ("(sa.a + 1) * 2", "!=", "(sr.b)")),
        ("sa['é'] == 'ä=='", ("sa['é']", "==", "'ä=='")),
        ("sa.a in ['x', 'in']", ("sa.a", "in", "['x', 'in']")),
        ("sa.a.exists(x, x == sr.b)", None),
        ("sa.a == 1 && sa.b == 2", None),
        ("!(sa.a == 1)", None),
    ],
)
def test_the_two_sides_of_a_comparison_are_extracted(text, sides):
    found = expressions.compile(text).sides
    assert (found and (found[0].text, found[1], found[2].text)) == sides


def test_a_damaged_compiled_expression_raises_an_error():
    for damaged in (b"", b"\x01", b"\x12\xff", b"\x12\x04\x22\x02\x2a\x00"):
        with pytest.raises(ValueError, match="another form"):
            expression_tree.read(damaged)


def test_the_fields_that_a_predicate_reads_are_known():
    text = "row.a > 1 && row.b.c == sr.x && [1].all(row, row == 1)"
    assert expressions.fields_of(text, "row", ("row", "sr")) == ("a", "b")


class TestLookupParameters:
    def test_text_integers_and_booleans_are_valid_lookup_values(self):
        bindings = {"sr": {"id": "o-1", "n": 3, "yes": True}}
        assert expressions.evaluate_value("'shop:' + sr.id", bindings) == "shop:o-1"
        assert expressions.evaluate_value("sr.n + 1", bindings) == 4
        assert expressions.evaluate_value("sr.yes", bindings) is True

    @pytest.mark.parametrize("text", ["sr.absent", "sr.id + 1", "sr.nothing", "sr.many", "sr"])
    def test_a_missing_or_composite_value_cannot_widen_a_lookup(self, text):
        bindings = {"sr": {"id": "o-1", "nothing": None, "many": [1]}}
        with pytest.raises(NoValue):
            expressions.evaluate_value(text, bindings)

    def test_an_expression_that_can_never_be_a_lookup_value_is_refused(self):
        expressions.check_value("scope.idempotency_key", ("scope",))
        for text in ("sa.a", "[1]", "scope."):
            with pytest.raises(BadExpression):
                expressions.check_value(text, ("scope",))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, JSON)
def test_equality_follows_python_over_json_or_is_undecidable(left, right):
    """Whatever two values are, the evaluator never calls unequal ones equal."""
    found = truth("sa.a == sr.a", sa={"a": left}, sr={"a": right})
    if found is Truth.TRUE:
        assert _typed(left) == _typed(right)
    if found is Truth.FALSE:
        assert _typed(left) != _typed(right)


def _typed(value):
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return (type(value), value)


@given(JSON)
def test_a_value_equals_itself(value):
    found = truth("sa.a == sr.a", sa={"a": value}, sr={"a": value})
    assert found is not Truth.FALSE
