"""An index for the surveys, made while the table is written."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import Index, Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("approvals", "0003_continued_sessions")]
    operations = [
        AddIndexConcurrently(
            "approval",
            Index(fields=["tenant_id", "id"], condition=Q(state__in=["REQUESTED", "APPROVED"]), name="approval_live"),
        ),
    ]
