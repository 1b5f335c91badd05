"""Faults of the network between us and the peers that are always here: PostgreSQL, pgvector and Valkey."""

from __future__ import annotations

import pytest
import redis

from tests.peers.paths.test_path_databases import refund, refunding
from tests.peers.paths.test_path_queues import Events, publishing
from tests.peers.support.faults import endured
from tests.peers.support.library import indexing
from tests.peers.support.orders import Shop

pytestmark = pytest.mark.parametrize("brief", [True, pytest.param(False, marks=pytest.mark.long)])


@pytest.mark.req("R-CP-01", "R-VD-11", "R-VD-16")
def test_a_database_is_read_correctly_over_a_failing_network(office, superuser_connection, brief):
    shop = Shop(superuser_connection)
    try:
        endured(office, refunding(shop), lambda work: refund(shop, work), timeout_s=1, brief=brief)
    finally:
        shop.drop()


@pytest.mark.req("R-CP-11", "R-VD-11", "R-VD-16")
def test_a_broker_is_read_correctly_over_a_failing_network(office, valkey_url, brief):
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        client.xgroup_create("shop:events", "mailer", id="0", mkstream=True)
        endured(office, publishing(valkey_url), Events(client).send, timeout_s=1, brief=brief)


@pytest.mark.req("R-CP-12", "R-VD-11", "R-VD-16")
def test_a_vector_index_is_read_correctly_over_a_failing_network(office, library, brief):
    library.guard()
    endured(office, indexing(library), lambda work: library.add(), timeout_s=1, brief=brief)
