"""Time-boxed passes: standing approvals that one person gives, for an hour at most (`sql/standing.sql`)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.db import migrations, models
from django.db.models import F, Q

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("standing.sql",)
# The record's own file, once more: a time-boxed pass is in force from the start.
TRANSITIONS = Path(__file__).parents[2] / "ledger" / "sql" / "transitions.sql"


class Migration(migrations.Migration):
    dependencies = [("approvals", "0009_model_usage"), ("ledger", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="standingapproval",
            name="is_time_boxed",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RemoveConstraint(model_name="standingapproval", name="standing_takes_two_persons"),
        migrations.AddConstraint(
            model_name="standingapproval",
            constraint=models.CheckConstraint(
                condition=~Q(state="ACTIVE")
                | Q(is_time_boxed=True)
                | (
                    Q(answered_by__isnull=False, answered_person__isnull=False)
                    & ~Q(answered_by=F("proposed_by"))
                    & ~Q(answered_person=F("proposed_person"))
                ),
                name="standing_takes_two_persons",
            ),
        ),
        migrations.AddConstraint(
            model_name="standingapproval",
            constraint=models.CheckConstraint(
                condition=Q(is_time_boxed=False)
                | (
                    Q(state__in=["ACTIVE", "PAUSED", "ENDED"], max_count__gte=1, ends_at__gt=F("proposed_at"))
                    & Q(ends_at__lte=F("proposed_at") + timedelta(hours=1))
                    & Q(answered_by__isnull=True, answered_person__isnull=True, answered_at__isnull=True)
                ),
                name="standing_time_box_is_bounded",
            ),
        ),
        migrations.RunSQL(TRANSITIONS.read_text()),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
