from __future__ import annotations

from django.db import migrations, models

BLANK = r"""
ALTER TABLE ledger_blank DISABLE TRIGGER no_change;
UPDATE ledger_blank SET columns = columns || '{"salt": "\\x"}' WHERE relation = 'approvals_challenge';
ALTER TABLE ledger_blank ENABLE ALWAYS TRIGGER no_change;
"""


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_approvals_that_bind")]

    operations = [
        migrations.AddField("challenge", "salt", models.BinaryField(default=bytes)),
        migrations.RunSQL(BLANK, migrations.RunSQL.noop),
    ]
