"""An index by which each survey leaves out the tenants that are being moved."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import Index, Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0014_imports")]
    operations = [
        AddIndexConcurrently("tenant", Index(fields=["id"], condition=~Q(moving=""), name="tenant_being_moved")),
    ]
