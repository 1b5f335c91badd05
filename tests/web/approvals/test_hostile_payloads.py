"""B34: whatever a payload holds is shown whole and visibly, or not taken at all; the page's own digest proves it."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.template.loader import render_to_string

from approvals.requests.rules import rendering
from ledger.record.rules import canonical
from ledger.record.rules.canonical import digest
from ledger.record.rules.refusals import Refused

HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": '" onmouseover="alert(1)',
    "entity": "&lt;b&gt; &amp; &#x202e;",
    "template": "{{ request }}{% include 'x' %}",
    "ansi": "\x1b[2K\x1b[1A\x1b[31mapproved\x07\x08",
    "bidi": "invoice_\u202egnp.exe \u2066hidden\u2069",
    "zero_width": "pay\u200bpal\u2060.example\ufeff\u00ad",
    "homoglyph": "\u0440\u0430ypal.com",
    "blank": "\u3164\u2800\u115f",
    "variation": "a\ufe0f\U000e0101",
    "tags": "\U000e0041\U000e0042",
    "marks": "⟦U+202E⟧",
    "lines": "one\ntwo\r\nthree\u2028four",
    "combining": "Z\u0351\u036b\u0343" * 40,
}


def read_back(page: str) -> list[list[Any]]:
    """The fields as a browser would read them from the page (what vote.js does)."""
    rows = []
    for row in re.findall(r"<tr>\s*<th scope=\"row\">.*?</tr>", page, flags=re.S):
        shown = re.sub(r'<span class="glyph"[^>]*>(U\+[0-9A-F]+)</span>', r"⟦\1⟧", row)
        parts = [
            re.search(pattern, shown, flags=re.S)
            for pattern in (
                r'<span class="sub mono">(.*?)</span></th>',
                r'<span class="label">(.*?)</span><span class="sub mono">',
                r'<td class="type">(.*?)</td>',
                r'<td class="shown">\s*<span class="value">(.*?)</span>\s*(?:<|$)',
            )
        ]
        texts = [html.unescape(part[1]) if part else None for part in parts]
        rows.append([*texts, re.findall(r'data-warning="([A-Z_]+)"', row)])
    return rows


def shown(payload: Any) -> tuple[tuple[rendering.Field, ...], str]:
    fields = rendering.render_payload(payload)
    return fields, render_to_string("_fields.html", {"fields": [{"shown": each} for each in fields]})


@pytest.mark.req("R-UI-04")
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_text_is_shown_completely_and_does_nothing(name):
    fields, page = shown({name: HOSTILE[name]})
    assert len(fields) == 1
    assert "<script" not in page
    assert "<img" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2060-\u2069\u200b\ufeff\u00ad]", page)
    told = [[each.path, each.label, each.kind, each.display, list(each.warnings)] for each in fields]
    assert read_back(page) == told
    assert digest(canonical.canonical([rendering.RENDERER, read_back(page)])) == rendering.rendering_digest(fields)


def test_ten_thousand_fields_are_all_shown():
    fields, page = shown({f"field_{number}": number for number in range(10_000)})
    assert len(fields) == 10_000
    assert page.count('<th scope="row">') == 10_000


def test_a_megabyte_field_is_folded_with_its_length_and_digest_and_can_be_opened():
    text = "A" * 999_999 + "!"
    fields, page = shown({"text": text})
    assert "1000000 characters" in fields[0].display
    assert digest(text.encode()) in page
    assert text in page
    assert fields[0].warnings == ("LONG",)


def test_two_long_texts_that_differ_beyond_the_fold_are_rendered_differently():
    one, other = (rendering.render_payload({"text": "A" * 5000 + end}) for end in "xy")
    assert rendering.rendering_digest(one) != rendering.rendering_digest(other)


def test_deep_nesting_is_shown_completely_or_refused():
    deep: Any = "bottom"
    for _ in range(40):
        deep = {"a": deep}
    fields, page = shown(deep)
    assert fields[0].path == "/a" * 40
    assert "bottom" in page
    with pytest.raises(Refused):
        canonical.read("[" * 1000 + "]" * 1000)
    with pytest.raises(Refused):
        canonical.read(json.dumps({"a": "\ud800"}))


def test_hostile_names_are_escaped_like_values():
    fields, page = shown({"<b>amount</b>\u202e": 1, "amount": 2})
    assert len(fields) == 2
    assert "<b>" not in page
    assert {warning for each in fields for warning in each.warnings} == {"BIDI"}
