"""An index for the newest anchor, made while the table is written."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import Index


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0010_surveys")]
    operations = [
        AddIndexConcurrently("anchor", Index(fields=["kind", "at"], name="anchor_by_time")),
    ]
