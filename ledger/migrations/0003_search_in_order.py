"""The search for actions looks at the newest in the order of their ids, which its key serves tenant by tenant."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

_KEY = """
ALTER TABLE ledger_actionsearch DROP CONSTRAINT ledger_actionsearch_pkey,
    ADD CONSTRAINT ledger_actionsearch_pkey PRIMARY KEY (tenant_id, id);
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_functions_and_fences")]
    operations = [
        migrations.RunSQL(_KEY),
        migrations.RunSQL((Path(__file__).parents[1] / "sql" / "search.sql").read_text()),
    ]
