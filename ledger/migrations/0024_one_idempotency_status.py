"""The status of an idempotency record stands in the action's entry alone, where nobody can change it afterwards.

The column beside it could say something else, and did: after a person's settlement, a reversal or the record's expiry.
"""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ledger", "0023_how_a_state_was_reached")]
    operations = [
        migrations.RemoveConstraint("idempotency", "idempotency_status_is_known"),
        migrations.RemoveField("idempotency", "status"),
        migrations.RemoveField("idempotency", "updated_at"),
    ]
