from __future__ import annotations

from django.db import migrations, models

# Whoever could decide before stands in the roster of approvers from now on.
ROSTER = """
DO $$ DECLARE here uuid; BEGIN
    FOR here IN SELECT DISTINCT tenant_id FROM console_membership WHERE is_reviewer LOOP
        PERFORM set_config('app.tenant', here::text, true);
        INSERT INTO approvals_approver (tenant_id, actor_id, person_id, groups, active, since)
        SELECT tenant_id, actor_id, person_id, '[]', true, now() FROM console_membership
        WHERE tenant_id = here AND is_reviewer AND removed_at IS NULL
        ON CONFLICT DO NOTHING;
    END LOOP;
    PERFORM set_config('app.tenant', '', true);
END $$;
"""


class Migration(migrations.Migration):
    """Groups, invitations, and the human behind an account."""

    dependencies = [("console", "0005_who_is_told"), ("approvals", "0005_approvals_that_bind")]
    operations = [
        migrations.AddField("Membership", "groups", models.JSONField(default=list)),
        migrations.AddField("Membership", "person_id", models.UUIDField(null=True)),
        migrations.AddField("Membership", "given_by", models.UUIDField(null=True)),
        migrations.AddField("Membership", "joined_at", models.DateTimeField(null=True)),
        migrations.AddField("Membership", "invite_hash", models.CharField(default="", max_length=64)),
        migrations.AddField("Membership", "invite_until", models.DateTimeField(null=True)),
        migrations.AddField("Membership", "proposal", models.JSONField(null=True)),
        migrations.RunSQL(
            "UPDATE console_membership SET person_id = actor_id, joined_at = now();"
            " ALTER TABLE console_membership ALTER COLUMN person_id SET NOT NULL;",
            migrations.RunSQL.noop,
            state_operations=[migrations.AlterField("Membership", "person_id", models.UUIDField())],
        ),
        migrations.RunSQL(ROSTER, migrations.RunSQL.noop),
    ]
