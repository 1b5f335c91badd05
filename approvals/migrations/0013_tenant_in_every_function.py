"""The locks of a release take the tenant as their first argument (`ledger/sql/tenancy.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("steps.sql", "replaced.sql")


class Migration(migrations.Migration):
    dependencies = [("approvals", "0012_tenant_in_every_key"), ("ledger", "0021_tenant_in_every_function")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
