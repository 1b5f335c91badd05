"""The gateway before a real API server with its etcd, where both programs are installed; nothing else of a cluster."""

from __future__ import annotations

import pytest

from tests.client.gateway.clusters import Journeys, gated
from tests.support.outside import kube_apiserver


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    # Before the console: without the programs there is nothing to start.
    with kube_apiserver.served(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def shop(api, house, tmp_path_factory):
    with gated(house, api, tmp_path_factory.mktemp("gateway")) as made:
        yield made


class TestRealServer(Journeys):
    """The same journeys as at the small server, and what only a real one answers."""
