# ruff: noqa: RUF001
"""Characters that look like others are marked; ordinary text of any language is not."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest

from approvals.requests.rules import lookalikes
from approvals.requests.rules.lookalikes import imitations, overlays
from approvals.requests.rules.rendering import mark_hidden, marked_characters, render_payload


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("p\u0430ypal", "\u0430"),
        ("pa\u03b3ment", "\u03b3"),
        ("\u13e2\u13aaY", "\u13e2\u13aa"),
        ("\u0430\u0440\u0440\u04cf\u0435.com", "\u0430\u0440\u0440\u04cf\u0435"),
        ("Pay \u0441\u043e\u0441\u043e now", "\u0441\u043e\u0441\u043e"),
        ("\u0395\u03a5\u0391", "\u0395\u03a5\u0391"),
        ("adm\u0131n", "\u0131"),
        ("paypa\u217c.com", "\u217c"),
        ("https:\u2215\u2215evil.example", "\u2215\u2215"),
        ("http\u30ce\u30ceevil.example", "\u30ce\u30ce"),
        ("rm \u2013rf /srv", "\u2013"),
        ("EX\u2011100", "\u2011"),
        ("order/EX-1\u201d", "\u201d"),
        ("name=\u201croot\u201d/x", "\u201c\u201d"),
        ("ops\u2010team@corp.example", "\u2010"),
        ("\u09ea", "\u09ea"),
        ("\uff11\uff12", "\uff11\uff12"),
        ("10\u00b2", "\u00b2"),
    ],
)
def test_a_character_that_could_be_read_as_another_is_marked(text: str, marked: str):
    assert "".join(text[place] for place in sorted(imitations(text))) == marked


@pytest.mark.parametrize(
    "text",
    [
        "Größe, Straße und Ärger",
        "café Zürich naïve œuvre",
        "Ærø smørrebrød på øen",
        "źdźbło łódź Đặng Việt ơn",
        "İstanbul ışığı kapı",
        "Он был в роще, а рос у оврага с мая",
        "Київ м’ята",
        "Ελληνικά ο και η",
        "日本語のテスト、価格（税込）：100円！",
        "Tシャツを2枚、ノートも",
        "한국어 Kafka를",
        "हिन्दी में लिखा है।",
        "৪ টাকা",
        "שלום עולם",
        "مرحبا ٥ عالم",
        "It’s “quoted” – and — so… 10–12 × 3 m²",
        "Duplicate effect (“issue_refund on order/EX-1”), „order/EX-2“; «a_b».",
    ],
)
def test_ordinary_text_has_no_mark(text: str):
    for form in ("NFC", "NFD"):
        shown = unicodedata.normalize(form, text)
        assert {shown[place] for place in imitations(shown) | overlays(shown)} == set()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("l\u0338ist", "l⟦U+0338⟧ist"),
        ("5\u20dd", "5⟦U+20DD⟧"),
        ("i\u0307d", "i⟦U+0307⟧d"),
        ("e\u0301\u0301", "e\u0301⟦U+0301⟧"),
        ("\u0301x", "⟦U+0301⟧x"),
        ("Z\u0351\u036b\u0346\u0357\u035b", "Z\u0351\u036b\u0346\u0357⟦U+035B⟧"),
    ],
)
def test_marks_that_change_a_letter_are_shown_by_their_code_point(text: str, shown: str):
    assert mark_hidden(text)[0] == shown
    assert "OVERLAY" in mark_hidden(text)[1]


def test_the_bytes_stay_and_each_marked_character_is_named():
    payload = {"to": "p\u0430ypal\u202e", "not\u0335e": 1}

    name, address = render_payload(payload)

    assert payload["to"] == "p\u0430ypal\u202e"
    assert address.display == "p\u0430⟦U+0430⟧ypal⟦U+202E⟧"
    assert address.marked_characters == (
        "U+0430 Cyrillic small letter a, looks like a",
        "U+202E Right-to-left override",
    )
    assert name.marked_characters == ("U+0335 Combining short stroke overlay",)
    assert len(marked_characters("".join(f"⟦U+{0x430 + each:04X}⟧" for each in range(20)))) == 13


@pytest.mark.parametrize(
    "unit", ["\u0430\u0440\u0440\u04cf\u0435 ", "\u0430.", "日本語", "\u0430", "a\u0338", "x\u2013", "\u0261"]
)
def test_twice_the_text_takes_twice_the_work(unit: str, monkeypatch: pytest.MonkeyPatch):
    """Work is counted in characters that are looked at."""
    looked = 0

    def counted(look: Callable[[str], str]) -> Callable[[str], str]:
        def count(character: str) -> str:
            nonlocal looked
            looked += 1
            return look(character)

        return count

    for name in ("_script", "looks_like", "_compatible"):
        monkeypatch.setattr(lookalikes, name, counted(getattr(lookalikes, name)))

    def work(size: int) -> int:
        nonlocal looked
        looked = 0
        imitations((unit * size)[:size])
        return looked

    assert work(20_000) <= 2.1 * work(10_000)
