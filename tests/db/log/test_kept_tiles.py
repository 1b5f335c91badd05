"""Tiles for proofs: a full one is read once, one that still grows each time, and nobody gets another tenant's."""

from __future__ import annotations

from uuid import uuid4

import pytest

from counterfoil_tlog.tiles import TileAddress
from ledger.db import execute, tenancy
from ledger.log.queries import log

FULL, GROWING = TileAddress(0, 0), TileAddress(0, 1)
ADD = "INSERT INTO ledger_tile (tenant_id, log, level, index, hashes) VALUES (%s, 1, %s, %s, %s)"
ALL = (FULL, GROWING)


@pytest.fixture
def stored(committed_db, superuser_connection, monkeypatch):
    """A tenant with a full tile and one of two hashes, and how often the database is asked for tiles."""
    superuser_connection.execute("SET session_replication_role = replica")
    tenant, asked = uuid4(), []
    for tile, hashes in ((FULL, b"f" * 8192), (GROWING, b"g" * 64)):
        superuser_connection.execute(ADD, [tenant, *tile, hashes])

    def counted(statement, *values):
        asked.append(values[-1])
        return execute(statement, *values)

    monkeypatch.setattr(log, "execute", counted)
    return tenant, asked, superuser_connection


def read(tenant):
    with tenancy(tenant):
        return log.tiles_to_prove(tenant, 1, ALL)


def test_a_full_tile_is_read_once_and_a_growing_one_every_time(stored):
    tenant, asked, superuser = stored
    assert read(tenant) == {FULL: b"f" * 8192, GROWING: b"g" * 64}
    superuser.execute("UPDATE ledger_tile SET hashes = hashes || %s WHERE index = 1", [b"h" * 32])
    assert read(tenant) == {FULL: b"f" * 8192, GROWING: b"g" * 64 + b"h" * 32}
    assert asked == [[0, 1], [1]]


def test_another_tenant_gets_no_cached_tile(stored):
    tenant, _, _ = stored
    read(tenant)
    assert read(uuid4()) == {}


def test_the_tile_cache_evicts_the_least_recently_used(stored, monkeypatch):
    tenant, asked, superuser = stored
    superuser.execute(ADD, [tenant, 1, 0, b"u" * 8192])
    monkeypatch.setattr(log, "MOST_KEPT_TILES", 1)
    with tenancy(tenant):
        for tile in (FULL, FULL, TileAddress(1, 0), FULL):
            assert log.tiles_to_prove(tenant, 1, [tile])
    assert asked == [[0], [0], [0]]
