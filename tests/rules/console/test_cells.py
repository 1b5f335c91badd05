"""A directory and the answers of cells compared: what two have, none has, or another has than the directory says."""

from __future__ import annotations

from uuid import UUID

import pytest

from console.cells.comparison import compare
from console.cells.directory import Cell, Directory, Placement

ACME, BETA = UUID(int=1), UUID(int=2)
CELLS = tuple(Cell(name, f"https://{name}.example.org", [f"http://{name}"], "") for name in ("north", "south"))
PLACED = Directory(7, CELLS, (Placement(ACME, "acme", "north", 1, None), Placement(BETA, "beta", "south", 1, None)))
SILENT = "south did not answer: connection refused"


@pytest.mark.parametrize(
    ("north", "south", "said"),
    [
        ({ACME: "acme"}, {BETA: "beta"}, []),
        ({ACME: "acme", BETA: "beta"}, {BETA: "beta"}, ["beta: north and south have it."]),
        ({}, {BETA: "beta"}, ["acme: no cell has it, and the directory says north."]),
        ({ACME: "acme", BETA: "beta"}, {}, ["beta: north has it, and the directory says south."]),
        (
            {ACME: "acme", UUID(int=3): "gamma"},
            {BETA: "beta"},
            ["gamma: north has it, and the directory does not place it."],
        ),
        ({ACME: "acne"}, {BETA: "beta"}, ["acne: that is its name at north, and the directory says acme."]),
        # What stands at a cell that does not answer is unknown, and neither there nor missing.
        ({ACME: "acme"}, SILENT, [SILENT]),
        ({}, SILENT, [SILENT, "acme: north does not have it, and the directory says north."]),
    ],
)
def test_each_difference_is_one_sentence(north, south, said):
    assert [each.sentence for each in compare(PLACED, {"north": north, "south": south})] == said
