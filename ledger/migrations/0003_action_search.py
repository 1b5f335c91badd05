"""What actions are searched by, in a table of its own (`ledger/sql/search.sql`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.postgres.operations import BtreeGinExtension
from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("search.sql",)


def fill(apps: Any, schema_editor: Any) -> None:
    """Tenant by tenant: row-level security holds for the owner too."""
    tenants = apps.get_model("ledger", "Tenant").objects.using(schema_editor.connection.alias)
    with schema_editor.connection.cursor() as cursor:
        for tenant_id in tenants.values_list("id", flat=True):
            cursor.callproc("set_config", ["app.tenant", str(tenant_id), True])
            cursor.callproc("ledger_rebuild_search", [tenant_id])
        cursor.callproc("set_config", ["app.tenant", "", True])


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_fences")]
    operations = [
        BtreeGinExtension(),
        migrations.RemoveIndex(model_name="action", name="action_target_words"),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
