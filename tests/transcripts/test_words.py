"""The words by which recorded conversations are found, without any database."""

from __future__ import annotations

import time

import pytest

from console.recordings import search_words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", set()),
        ("... -- %", set()),
        ("I have CANCELLED it.", {"i", "have", "cancelled", "it"}),
        ("\u201cABC123\u201d, (re_9)!", {"abc123", "re_9", "re", "9"}),
        ("talk-1", {"talk-1", "talk", "1"}),
        ("a@b.c", {"a@b.c", "a", "b", "c"}),
        ("Stra\u00dfe", {"strasse"}),
        ("\uff21\uff22\uff23", {"abc"}),
        ("\u53d6\u6d88 it", {"\u53d6\u6d88", "\u53d6", "\u6d88", "it"}),
        ("x" * 100, {"x" * 64}),
    ],
)
def test_words_are_split_from_a_text(text, found):
    assert search_words.words_of(text) == found


def matches(asked, text):
    """Whether a search for this finds that."""
    wanted = [search_words.prefix_range(word) for word in search_words.query_words(asked)]
    return bool(wanted) and all(
        any(least <= word < below for word in search_words.words_of(text)) for least, below in wanted
    )


@pytest.mark.parametrize(
    ("asked", "text", "found"),
    [
        ("cancel", "I have cancelled it.", True),
        ("it cancelled", "I have cancelled it.", True),
        ("celled", "I have cancelled it.", False),
        ("ca", "I have cancelled it.", False),
        ("cancelled nothing", "I have cancelled it.", False),
        ("\u6d88\u53d6", "\u8bf7\u53d6\u6d88\u8ba2\u5355", True),
        ("%", "100%", False),
        ("100%", "100%", True),
        ("y" * 70, "y" * 64 + "z", True),
    ],
)
def test_a_search_matches_as_expected(asked, text, found):
    assert matches(asked, text) is found


def test_a_search_uses_a_limited_number_of_distinct_words():
    assert len(search_words.query_words(" ".join(map(str, range(50))))) == search_words.MOST_ASKED
    assert search_words.query_words("one One ONE") == ["one"]


@pytest.mark.parametrize("most", ["MOST_PLACES", "MOST_WORDS"])
def test_word_rows_list_the_conversations_of_each_word_in_portions(monkeypatch, most):
    talks = [{"number": number, "label": f"talk-{number}"} for number in (1, 2, 3)]
    said = [{"conversation": number, "text": "Yes.", "calls": [{"tool": "send_email"}]} for number in (1, 2, 2, 3)]
    whole = {row["word"]: row["conversations"] for row in search_words.word_rows(talks, said)}
    assert whole["yes"] == whole["email"] == whole["talk"] == [1, 2, 3]
    assert whole["talk-2"] == [2]

    monkeypatch.setattr(search_words, most, 5)
    parts = list(search_words.word_rows(talks, said))
    assert [row["number"] for row in parts] == list(range(1, len(parts) + 1))
    for word, places in whole.items():
        assert {place for row in parts if row["word"] == word for place in row["conversations"]} == set(places)


@pytest.mark.parametrize("text", ["." * 10_000, "a." * 5_000, "x" * 10_000, ("a" + "." * 99) * 100, "_-" * 5_000])
def test_any_text_is_split_quickly(text):
    begun = time.thread_time()
    search_words.words_of(text)
    assert time.thread_time() - begun < 0.5
