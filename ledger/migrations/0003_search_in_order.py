"""The search for actions looks at the newest in the order of their ids, which its key serves tenant by tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("search.sql",)


def put_tenant_first(apps: Any, schema_editor: Any) -> None:
    key = {"table": "ledger_actionsearch", "name": "ledger_actionsearch_pkey", "columns": "tenant_id, id"}
    schema_editor.execute(schema_editor.sql_delete_pk % key)
    schema_editor.execute(schema_editor.sql_create_pk % key)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_functions_and_fences")]
    operations = [
        migrations.RunPython(put_tenant_first),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
