"""An index for the surveys, made while the table is written."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import Index, Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0008_signed_epoch")]
    operations = [
        AddIndexConcurrently(
            "action",
            Index(
                fields=["phase", "tenant_id", "id"],
                condition=Q(
                    phase__in=[
                        "COMPENSATING",
                        "COMPENSATION_FAILED",
                        "FORWARD_RECOVERY",
                        "PARTIALLY_COMMITTED",
                        "PENDING",
                        "RECONCILIATION_FAILED",
                        "REVIEW_REQUIRED",
                        "UNKNOWN",
                        "VALIDATED",
                        "VERIFICATION_TIMEOUT",
                    ]
                ),
                name="action_under_way",
            ),
        ),
    ]
