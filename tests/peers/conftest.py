"""Fixtures of the peers: each is a real system, started for the tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers.support.bao import bao, server
from tests.peers.support.desk import desk, prepared
from tests.peers.support.fleet import fleet, on_v1, on_v2
from tests.peers.support.library import library
from tests.peers.support.planner import planner
from tests.peers.support.post import post
from tests.peers.support.processor import careful, careless
from tests.peers.support.sumdb import sumdb
from tests.peers.support.tracker import issue, tracker
from tests.peers.support.tryton import shop, tryton

if TYPE_CHECKING:
    from tests.peers.support.path import Office


__all__ = [
    "bao",
    "careful",
    "careless",
    "desk",
    "fleet",
    "issue",
    "library",
    "office",
    "on_v1",
    "on_v2",
    "planner",
    "post",
    "prepared",
    "server",
    "shop",
    "sumdb",
    "tracker",
    "tryton",
]


@pytest.fixture
def office(db: None, secrets_dir: Path) -> Iterator[Office]:
    """A tenant in the test's own transaction; what its tools do to a peer is outside of it.

    However a path went, each of its runs can be judged again from what is stored, and comes out the same.
    """
    from tests.peers.support.path import Office
    from tests.support.replays import replays_alike

    office = Office(secrets_dir)
    yield office
    assert replays_alike(office.tenant) == []
