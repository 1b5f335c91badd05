"""What others rely on changes on purpose only, and its change is read in the diff."""

from __future__ import annotations

import json

import pytest

from tests.snapshots.surface import path_of, read_snapshots


@pytest.mark.parametrize("name", ["openapi", "pages", "operations", "csv_headings", "refusal_codes"])
def test_the_surface_equals_its_snapshot(name: str):
    assert read_snapshots()[name] == json.loads(path_of(name).read_text()), "changed: python -m tests.snapshots.surface"


def test_every_snapshot_is_compared():
    assert set(read_snapshots()) == {path.stem for path in path_of("openapi").parent.glob("*.json")}
