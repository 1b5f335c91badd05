"""Which commands of psql are recognised, by their words alone; what they change, a real database says elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal


@pytest.mark.parametrize(
    "command",
    [
        'psql -c "SELECT count(*) FROM orders WHERE paid_at > now()"',
        "psql postgresql://ada@db.example.org/shop -Atc 'EXPLAIN SELECT 1'",
        "psql -h db -U ada shop -c 'SHOW search_path;'",
        r"psql -c '\d+ orders'",
        r"psql -c '\dt'",
        "psql --version",
        "psql -l",
        "echo psql",
        "grep -r 'DELETE FROM' migrations",
    ],
)
def test_a_statement_that_only_reads_is_not_held(command):
    assert read_command(command, Path()) is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("psql", "with one -c or one -f"),
        ("psql -c 'SELECT 1' -c 'DELETE FROM orders WHERE id = 1'", "with one -c or one -f"),
        ("psql < migration.sql", "Send `psql -c` as a command of its own"),
        ("cat migration.sql | psql", "Send `psql -c` as a command of its own"),
        ("psql <<EOF\nDELETE FROM orders\nEOF", "Send `psql -c` as a command of its own"),
        ('psql -c "DELETE FROM orders WHERE id = $ID"', "Send `psql -c` as a command of its own"),
        ('psql "$DATABASE_URL" -c "DROP TABLE orders"', "Send `psql -c` as a command of its own"),
        ("PGDATABASE=live psql -c 'DROP TABLE orders'", "Send `psql -c` as a command of its own"),
        ("docker exec db psql -c 'DROP TABLE orders'", "Send `psql -c` as a command of its own"),
        ("ssh db \"psql -c 'DROP TABLE orders'\"", "Send `psql -c` as a command of its own"),
        ("if true; then psql -c 'DROP TABLE orders'; fi", "Send `psql -c` as a command of its own"),
        ('echo "$(psql -c "DROP TABLE orders")"', "Send `psql -c` as a command of its own|cannot be read"),
        ("psql -v id=1 -c 'DELETE FROM orders WHERE id = 1'", "without -v"),
        ("psql -o out.txt -c 'SELECT 1'", "without -o"),
        ("psql -f nowhere.sql", "nowhere.sql cannot be read"),
        (r"psql -c '\! rm -rf /'", "Not recognised"),
        (r"psql -c '\i other.sql'", "Not recognised"),
        ("psql -c 'SELECT pg_terminate_backend(7)'", r"the function pg_terminate_backend\(\) may change something"),
        ("psql -c 'SELECT * INTO copied FROM orders'", "INTO in a query may change something"),
        ("psql -c 'EXPLAIN ANALYZE DELETE FROM orders'", "ANALYZE in a query may change something"),
        ("psql -c 'WITH gone AS (DELETE FROM orders RETURNING id) SELECT 1'", "its form is not known"),
        ("psql -c 'TRUNCATE orders'", "its form is not known"),
        ("psql -c 'DROP TABLE orders CASCADE'", "its form is not known"),
        ("psql -c 'VACUUM FULL'", "its form is not known"),
        ("psql -c 'GRANT ALL ON orders TO public'", "its form is not known"),
        ("psql -c 'CALL clean_up()'", "its form is not known"),
        ("psql -c 'DO $$ BEGIN END $$'", "Send `psql -c`|Not recognised"),
        ("psql -c 'DELETE FROM orders USING lines WHERE true'", "no DELETE of one table"),
        ("psql -c 'DELETE FROM orders WHERE id = 1; SELECT 1'", "several statements"),
        ("psql -c 'ALTER TABLE orders OWNER TO ada'", "no change of a column"),
        ("psql -c 'ALTER TABLE orders ALTER COLUMN id TYPE text'", "no change of a column"),
        ("psql -c \"DELETE FROM orders WHERE word = E'x'\"", "which is not read here"),
    ],
)
def test_a_statement_that_cannot_be_determined_is_refused(command, says):
    with pytest.raises(Refusal, match=says):
        read_command(command, Path())
