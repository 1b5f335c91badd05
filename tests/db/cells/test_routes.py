"""The program that writes a router's routes: it replaces them with the directory, and keeps them without it."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from console.cells import directory, router
from console.cells.directory import Cell
from console.cells.envoy import Listening
from tests.db.cells.conftest import Addresses


@pytest.fixture
def cells(addresses: Addresses) -> Addresses:
    """Two cells, and a tenant at the first."""
    for name in ("north", "south"):
        directory.put_cell(Cell(name, f"https://{name}.example.org", [f"http://{name}.internal:8000"], ""))
    directory.place(uuid4(), "acme", cell="north", after=None)
    return addresses


def test_routes_stay_while_the_directory_is_away_or_has_gone_back(cells: Addresses, tmp_path: Path):
    routes = router.Routes(tmp_path, Listening())
    assert routes.renew(cells.router)
    before = (tmp_path / "routes.json").read_bytes()
    assert json.loads(before)["version_info"] == "3"
    assert not routes.renew("postgresql://nobody:x@127.0.0.1:1/nothing")
    assert (routes.state()["directory"], routes.state()["in_order"]) == ("not known", True)
    with psycopg.connect(cells.owner) as owner:
        # As a restored backup would have it.
        owner.execute("ALTER TABLE change DISABLE TRIGGER no_change")
        owner.execute("DELETE FROM change WHERE number = 3")
    assert not routes.renew(cells.router)
    assert "has gone back from change 3 to 2" in routes.fault
    assert (tmp_path / "routes.json").read_bytes() == before
    again = router.Routes(tmp_path, Listening())
    assert (again.renew(cells.router), again.state()["in_order"]) == (False, False)
