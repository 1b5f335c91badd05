"""Functions take the tenant as their first argument (`ledger/sql/tenancy.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = (
    *("tenancy.sql", "lock.sql", "append.sql", "gate.sql", "people.sql", "retention.sql", "erasure.sql"),
    *("search.sql", "releases.sql", "replaced.sql"),
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0020_tenant_in_every_key")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
