from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.requests.rules import rendering
from approvals.requests.rules.rendering import mark_hidden, render_payload, rendering_digest

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)
payloads = st.dictionaries(
    text,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def only(value):
    (field,) = render_payload({"note": value})
    return field


@pytest.mark.req("R-UI-02")
def test_every_value_becomes_a_field():
    fields = render_payload({"b": 1, "a": {"c": [True, None], "d": {}}, "e": [], "f": ""})

    assert [field.path for field in fields] == ["/a/c/0", "/a/c/1", "/a/d", "/b", "/e", "/f"]
    assert [field.kind for field in fields] == [
        "boolean",
        "null",
        "empty object",
        "integer",
        "empty list",
        "empty text",
    ]


def test_ten_thousand_values_become_ten_thousand_fields():
    assert len(render_payload({f"k{number}": number for number in range(10_000)})) == 10_000


@pytest.mark.parametrize(
    ("value", "display", "warning"),
    [
        ("a\u202eb", "a⟦U+202E⟧b", "BIDI"),
        ("a\u2066b", "a⟦U+2066⟧b", "BIDI"),
        ("a\u200bb", "a⟦U+200B⟧b", "HIDDEN"),
        ("a\u00adb", "a⟦U+00AD⟧b", "HIDDEN"),
        ("a\u3164b", "a⟦U+3164⟧b", "HIDDEN"),
        ("a\ufe0fb", "a⟦U+FE0F⟧b", "HIDDEN"),
        ("a\U000e0041b", "a⟦U+E0041⟧b", "HIDDEN"),
        ("a\u0000b", "a⟦U+0000⟧b", "CONTROL"),
        ("a\u001b[31mb", "a⟦U+001B⟧[31mb", "CONTROL"),
        ("a\rb", "a⟦U+000D⟧b", "CONTROL"),
        ("a\u00a0b", "a⟦U+00A0⟧b", "SPACE"),
        (" ab", "⟦U+0020⟧ab", "SPACE"),
        ("p\u0430ypal", "p\u0430⟦U+0430⟧ypal", "LOOKALIKE"),
        ("\uff41bc", "\uff41⟦U+FF41⟧bc", "LOOKALIKE"),
        ("e\u0301", "e\u0301", "NOT_NFC"),
        ("\u05e9\u05dc", "\u05e9\u05dc", "RIGHT_TO_LEFT"),
    ],
)
def test_hidden_and_misleading_characters_are_marked_and_warned_about(value, display, warning):
    field = only(value)

    assert field.display == display
    assert field.warnings == (warning,)


def test_a_word_made_of_lookalike_letters_is_warned_about():
    assert only("\u0430\u0440\u0440\u0435").warnings == ("LOOKALIKE",)


@pytest.mark.parametrize(
    "value", ["plain text", "café Zürich", "\u043f\u0440\u0438\u0432\u0435\u0442", "\u65e5\u672c\u8a9e", "a\nb"]
)
def test_honest_text_has_no_warning(value):
    assert only(value).warnings == ()


def test_a_line_break_is_marked():
    assert only("a\nb").display == "a⟦U+000A⟧\nb"


def test_a_payload_cannot_imitate_a_marker():
    assert only("⟦U+202E⟧").display != only("\u202e").display


def test_names_are_marked_like_values():
    (field,) = render_payload({"am\u200bount": 5})

    assert "⟦U+200B⟧" in field.path
    assert "⟦U+200B⟧" in field.label
    assert field.warnings == ("HIDDEN",)


def test_markup_is_shown_as_text():
    assert only("<script>alert(1)</script>").display == "<script>alert(1)</script>"


def test_a_long_value_is_folded_and_shows_its_length_and_digest():
    field = only("x" * 1_000_000)

    assert field.folded
    assert "1000000 characters, SHA-256" in field.display
    assert len(field.full) == 1_000_000
    assert "LONG" in field.warnings


def test_two_long_values_that_differ_beyond_the_fold_are_shown_differently():
    assert only("x" * 999 + "a").display != only("x" * 999 + "b").display


def test_characters_hidden_beyond_the_fold_are_warned_about():
    assert "BIDI" in only("x" * 999 + "\u202e").warnings


def test_large_numbers_are_shown_with_separators():
    assert only(1250000).display == "1,250,000"
    assert only(1234).display == "1234"


@given(payloads, payloads)
def test_two_payloads_never_share_a_rendering(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    shown = [rendering_digest(render_payload(payload)) for payload in (one, other)]

    assert (shown[0] == shown[1]) is same


@given(text)
def test_no_hidden_character_remains(value):
    shown, _ = mark_hidden(value)

    assert not set(shown) & set("\u202e\u200b\u0000\u001b\u2066\u00ad")


@pytest.mark.req("R-UI-04")
def test_a_changed_field_or_renderer_changes_the_digest(monkeypatch):
    fields = render_payload({"amount": 5})
    before = rendering_digest(fields)
    monkeypatch.setattr(rendering, "RENDERER", "fields-2")

    assert rendering_digest(fields) != before
    assert rendering_digest(render_payload({"amount": 6})) != before
