"""The directory of cells: a place changes only from where it was, each change stays on record, routers read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from django.core.management import CommandError, call_command

from console.cells import directory
from console.cells.directory import Cell
from console.local import servers
from tests.conftest import Run, new_database
from tests.db.cells.conftest import Addresses
from tests.support.callers import found

ACME = uuid4()


@pytest.fixture
def cells(addresses: Addresses) -> Addresses:
    """Two cells, and a tenant at the first."""
    for name in ("north", "south"):
        directory.put_cell(Cell(name, f"https://{name}.example.org", [f"http://{name}.internal:8000"], ""))
    directory.place(ACME, "acme", cell="north", after=None)
    return addresses


def run_command(*words: str) -> str:
    out = StringIO()
    call_command("cells", *words, stdout=out)
    return out.getvalue()


def test_a_tenant_moves_only_from_where_it_stands(cells: Addresses):
    with pytest.raises(directory.PlacedElsewhere) as refusal:
        directory.place(ACME, "acme", cell="south", after="south")
    assert refusal.value.standing is not None
    assert refusal.value.standing.cell == "north"
    assert directory.place(ACME, "acme", cell="south", after="north", reason="The north is full.").version == 2
    assert directory.find("acme") == directory.find_tenant(ACME)
    for after in ("north", None):
        with pytest.raises(directory.PlacedElsewhere):
            directory.place(ACME, "acme", cell="south", after=after)
    newest = directory.history("acme")[0]
    assert (newest.reason, newest.before and newest.before["cell"], newest.after and newest.after["cell"]) == (
        "The north is full.",
        "north",
        "south",
    )
    assert directory.find("elsewhere") is None


def test_of_two_who_place_at_once_one_succeeds(cells: Addresses):
    directory.put_cell(Cell("west", "https://west.example.org", ["http://west.internal"], ""))

    def move(cell: str) -> bool:
        try:
            directory.place(ACME, "acme", cell=cell, after="north")
        except directory.PlacedElsewhere:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        moved = list(threads.map(move, ["south", "west"] * 8))
    assert moved.count(True) == 1
    assert [each.number for each in directory.history()] == [5, 4, 3, 2, 1]


def test_one_name_means_one_tenant_and_one_host_leads_to_one_place(cells: Addresses):
    with pytest.raises(directory.DirectoryConflict):
        directory.place(uuid4(), "acme", cell="south", after=None)
    with pytest.raises(directory.DirectoryConflict):
        directory.place(ACME, "acme-2", cell="south", after="north")
    with pytest.raises(directory.UnknownCell):
        directory.place(ACME, "acme", cell="nowhere", after="north")
    directory.name_host("acme", "acme.example.org")
    for claim in (
        lambda: directory.name_host("acme", "south.example.org"),
        lambda: directory.put_cell(Cell("west", "https://acme.example.org:8443", ["http://w"], "")),
        lambda: directory.put_cell(Cell("west", "https://w", ["http://w"], "postgresql://reader:secret@db/record")),
        lambda: directory.remove_cell("north"),
    ):
        with pytest.raises((directory.DirectoryConflict, directory.UnknownCell)):
            claim()
    assert directory.find("acme") == directory.Placement(ACME, "acme", "north", 2, "acme.example.org")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM change",
        "UPDATE change SET reason = ''",
        "TRUNCATE tenant",
        "TRUNCATE change",
        "INSERT INTO change VALUES (9, now(), 'somebody', '', 'tenant', '{}', '{}')",
        "UPDATE tenant SET slug = 'other'",
        "ALTER TABLE tenant DISABLE TRIGGER on_record",
        "SET session_replication_role = replica",
    ],
)
def test_nobody_who_places_can_change_the_history(cells: Addresses, statement: str):
    with psycopg.connect(cells.operator) as operator, pytest.raises(psycopg.Error):
        operator.execute(statement)


@pytest.mark.parametrize("statement", ["UPDATE tenant SET cell = 'south'", "DELETE FROM cell", "SELECT * FROM change"])
def test_a_router_reads_places_and_nothing_else(cells: Addresses, statement: str):
    with psycopg.connect(cells.router) as reader, pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute(statement)
    assert directory.read_directory(cells.router) == directory.read_directory()


def test_check_asks_each_cell_and_tells_what_differs(addresses: Addresses, committed_db, run: Run, tmp_path: Path):
    orchid = found("orchid")
    with new_database(run) as empty:
        for name, database in {"north": committed_db.name, "south": empty.name}.items():
            record = without_password(run.postgres.url(servers.AUDITOR, database), tmp_path / "pgpass")
            places = ["--url", f"https://{name}.example.org", "--address", f"http://{name}.internal:8000"]
            run_command("add", name, *places, "--record", record)
        assert check() == (1, "differs  orchid: north has it, and the directory does not place it.\n")
        directory.place(orchid, "orchid", cell="south", after=None)
        assert check() == (1, "differs  orchid: north has it, and the directory says south.\n")
        assert run_command("place", "orchid", "--cell", "north", "--after", "south") == "orchid stands at north.\n"
        assert check() == (0, "1 tenants at 2 cells, as the directory says.\n")
        assert run_command("place", "--all", "--cell", "north") == ""
        with psycopg.connect(committed_db.owner_url, autocommit=True) as owner:
            owner.execute("ALTER TABLE ledger_tenant ADD COLUMN IF NOT EXISTS moving text NOT NULL DEFAULT ''")
            owner.execute("UPDATE ledger_tenant SET moving = 'moved'")
            assert check() == (1, "differs  orchid: no cell has it, and the directory says north.\n")
            owner.execute("UPDATE ledger_tenant SET moving = ''")
        with pytest.raises(CommandError, match="orchid stands at north"):
            run_command("withdraw", "orchid", "--after", "south")
    code, said = check()
    assert (code, said.startswith("not known  south did not answer")) == (3, True)


def test_without_a_directory_an_installation_is_one_cell(settings: Any):
    settings.COUNTERFOIL_DIRECTORY_URL = ""
    with pytest.raises(directory.NoDirectory):
        directory.find("acme")
    with pytest.raises(CommandError, match="one cell by itself"):
        run_command("list")


def check() -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("cells", "check", stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def without_password(url: str, file: Path) -> str:
    """Return the same address with its password moved to a file."""
    parts = urlsplit(url)
    file.write_text(f"*:*:*:{parts.username}:{parts.password}")
    file.chmod(0o600)
    return f"postgresql://{parts.username}@{parts.hostname}:{parts.port}{parts.path}?passfile={file}"
