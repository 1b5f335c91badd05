"""Two names of one source count once, and what is not known is not independent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reviews.reconciliation.rules.independence import source_independence
from tests.support.verification_runs import reading

SHOP = {"pattern": "databases", "server": "postgresql 1", "database": "5", "addresses": ["192.0.2.1:5432"], "part": "a"}
BANK = {"pattern": "payments", "addresses": ["198.51.100.7:443"], "part": "", "credential": "ab"}


def independent(*origins: dict[str, Any] | None) -> int | None:
    readings = [replace(reading(source=f"s{number}"), origin=each) for number, each in enumerate(origins)]
    found = source_independence(readings)
    return found.independent if found is not None else None


@pytest.mark.req("R-RC-13")
@pytest.mark.parametrize(
    ("other", "count"),
    [
        (BANK, 2),
        (SHOP, 1),
        # A replica: another address, the identity of its primary.
        (SHOP | {"addresses": ["192.0.2.2:5433"]}, 1),
        (SHOP | {"database": "6"}, 2),
        (SHOP | {"server": "postgresql 2"}, 2),
        # A tunnel: one address that leads to two servers, each of which says which it is.
        (SHOP | {"server": "postgresql 2", "database": "5"}, 2),
        # A server of a kind that names itself, and did not.
        ({name: SHOP[name] for name in ("pattern", "addresses", "part")} | {"addresses": ["192.0.2.9:5432"]}, 1),
        # Nobody knows where it is.
        (BANK | {"addresses": []}, 1),
        ({}, 1),
    ],
)
def test_two_sources_are_independent_unless_they_share_their_origin(other: dict[str, Any], count: int):
    assert independent(SHOP, other) == independent(other, SHOP) == count


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (BANK | {"credential": "cd"}, 1),
        (BANK | {"addresses": ["198.51.100.7:*"], "credential": "cd"}, 1),
        (BANK | {"addresses": ["198.51.100.7:8443"], "credential": "cd"}, 2),
        (BANK | {"addresses": ["198.51.100.8:443"]}, 1),
        (BANK | {"addresses": ["198.51.100.8:443"], "credential": "cd"}, 2),
        (BANK | {"addresses": ["203.0.113.1:443", "198.51.100.7:443"], "credential": "cd"}, 1),
        (BANK | {"part": "account=2", "credential": "cd"}, 1),
    ],
)
def test_two_addresses_are_independent_unless_they_are_the_same_host(other: dict[str, Any], count: int):
    assert independent(BANK, other) == count


def test_two_accounts_at_one_address_are_independent_where_both_are_named():
    assert independent(BANK | {"part": "account=1"}, BANK | {"part": "account=2"}) == 2


def test_a_folder_inside_another_is_the_same_source():
    here = {"pattern": "filesystems", "addresses": ["this machine:files"]}
    assert independent(here | {"part": "/srv/a"}, here | {"part": "/srv/a/b"}) == 1
    assert independent(here | {"part": "/srv/a"}, here | {"part": "/srv/ab"}) == 2


def test_several_names_of_one_source_count_once():
    assert independent(SHOP, SHOP, SHOP) == 1
    assert independent(SHOP, BANK, SHOP) == 2


def test_a_single_reading_has_no_independence():
    assert independent(SHOP) is None


def test_readings_stored_without_origins_are_judged_as_before():
    assert independent(SHOP, None) is None
