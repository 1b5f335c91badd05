"""Whether a record is older than what was seen of it."""

from __future__ import annotations

import pytest

from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.log.rules.recency import RecordBehind, check_not_behind, is_later, log_name

BASE = "console.example.org/counterfoil/0190a"
ONE, OTHER = b"\x01" * 32, b"\x02" * 32


def head(size: int, *, origin: str = BASE, root: bytes = ONE) -> CheckpointBody:
    return CheckpointBody(origin, size, root)


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        (BASE, (BASE, 1)),
        (f"{BASE}/2", (BASE, 2)),
        (f"{BASE}/12", (BASE, 12)),
        (f"{BASE}/02", (f"{BASE}/02", 1)),
        (f"{BASE}/1", (f"{BASE}/1", 1)),
        ("orchid", ("orchid", 1)),
    ],
)
def test_the_name_of_a_log_is_its_base_and_its_number(origin, name):
    assert log_name(origin) == name


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        (head(8), head(8)),
        (head(9), head(8)),
        (head(1, origin=f"{BASE}/2"), head(9)),
        (head(1), head(9, origin="console.example.org/counterfoil/another")),
        (None, head(9, origin="console.example.org/counterfoil/another")),
    ],
)
def test_a_record_that_continues_is_not_behind(stored, seen):
    check_not_behind(stored.origin if stored else BASE, stored, seen)


@pytest.mark.parametrize(
    ("stored", "seen", "why"),
    [
        (head(8), head(9), "with 9 signed entries before, and this record has 8"),
        (None, head(1), "this record has 0"),
        (head(8), head(8, root=OTHER), "are others than those that were seen"),
        (head(9), head(1, origin=f"{BASE}/2"), f"has only {BASE}"),
        (head(9, origin=f"{BASE}/2"), head(1, origin=f"{BASE}/3"), f"has only {BASE}/2"),
    ],
)
def test_a_record_that_has_gone_back_in_time_is_behind(stored, seen, why):
    with pytest.raises(RecordBehind, match=why):
        check_not_behind(stored.origin if stored else BASE, stored, seen)


def test_a_later_log_counts_as_later_regardless_of_its_size():
    assert is_later(head(1, origin=f"{BASE}/2"), head(9))
    assert is_later(head(9), head(8))
    assert not is_later(head(9), head(9))
