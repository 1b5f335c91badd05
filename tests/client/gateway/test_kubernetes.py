"""The gateway before a small API server that was written for the tests, and the reading of requests by itself."""

from __future__ import annotations

import pytest

from tests.client.gateway.clusters import Journeys, gated
from tests.support.outside import api_server
from tests.support.outside.api_objects import Api


@pytest.fixture(scope="module")
def shop(house, tmp_path_factory):
    with api_server.served() as server, gated(house, Api(server.url, server.token), tmp_path_factory.mktemp("g")) as it:
        yield it


class TestSmallServer(Journeys):
    """The journeys at the small server."""
