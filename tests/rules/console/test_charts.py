from __future__ import annotations

import re

import pytest

from console.contracts import contract_check
from console.web import charts


@pytest.mark.parametrize(
    ("value", "said"), [(None, "none"), (0.0, "0 %"), (0.02, "2 %"), (0.0213, "2.1 %"), (1.0, "100 %"), (0.1, "10 %")]
)
def test_a_share_is_shown_in_percent_and_a_missing_one_not_as_zero(value, said):
    assert charts.format_percent(value) == said


def test_a_period_without_calls_interrupts_the_line():
    drawn = charts.sparkline([0.5, 0.5, None, 1.0], label="Rate", top=1.0)

    assert re.findall(r'<polyline points="([^"]+)"', drawn) == ["0.0,15.0 40.0,15.0", "108.0,1.0 120.0,1.0"]
    assert 'aria-label="Rate: 100 % at the end, at most 100 %"' in drawn


def test_a_chart_without_calls_shows_only_its_limit():
    drawn = charts.sparkline([None, None], label="Share", line=0.02)

    assert 'class="limit"' in drawn
    assert "polyline" not in drawn
    assert 'aria-label="Share: no calls"' in drawn


def test_a_label_is_escaped_in_a_chart():
    assert "<b>" not in charts.sparkline([1.0], label='"><b>')


def test_each_difference_is_named_by_its_path():
    old = {"a": {"b/c": 1, "gone": [1]}, "same": "x"}
    new = {"a": {"b/c": True, "new": None}, "same": "x"}

    assert contract_check.diff_documents(old, new) == [
        {"path": "/a/b~1c", "before": "1", "after": "true"},
        {"path": "/a/gone", "before": "[1]", "after": ""},
        {"path": "/a/new", "before": "", "after": "null"},
    ]
    assert contract_check.diff_documents(old, old) == []
