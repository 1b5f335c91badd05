"""The tables of people, keys, notices, metrics and what else the console keeps, in their present form."""

from __future__ import annotations

import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="MetricCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("read_to", models.DateTimeField()),
                ("looked_at", models.DateTimeField()),
                ("counted_to", models.DateTimeField(null=True)),
                ("recent_calls", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="MetricDelay",
            fields=[
                ("tool", models.CharField(max_length=200)),
                ("agent", models.CharField(max_length=128)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("version", models.CharField(max_length=64)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "span",
                        "start",
                        "kind",
                        "tool",
                        "agent",
                        "side_effect_class",
                        "version",
                        "rounded_ms",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("span", models.SmallIntegerField()),
                ("start", models.DateTimeField()),
                ("kind", models.CharField(max_length=12)),
                ("rounded_ms", models.BigIntegerField()),
                ("count", models.IntegerField()),
                ("total_ms", models.BigIntegerField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="MetricRollUp",
            fields=[
                ("tool", models.CharField(max_length=200)),
                ("agent", models.CharField(max_length=128)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("version", models.CharField(max_length=64)),
                ("actions", models.IntegerField(default=0)),
                ("executed", models.IntegerField(default=0)),
                ("verified_success", models.IntegerField(default=0)),
                ("unchanged", models.IntegerField(default=0)),
                ("ended_failed", models.IntegerField(default=0)),
                ("ended_reversed", models.IntegerField(default=0)),
                ("ended_by_word", models.IntegerField(default=0)),
                ("unsettled", models.IntegerField(default=0)),
                ("verification_failed", models.IntegerField(default=0)),
                ("read_back", models.IntegerField(default=0)),
                ("mismatched", models.IntegerField(default=0)),
                ("stale_reads", models.IntegerField(default=0)),
                ("stale_state", models.IntegerField(default=0)),
                ("partial", models.IntegerField(default=0)),
                ("pending", models.IntegerField(default=0)),
                ("pending_over_sla", models.IntegerField(default=0)),
                ("unknown", models.IntegerField(default=0)),
                ("duplicated", models.IntegerField(default=0)),
                ("repeats", models.IntegerField(default=0)),
                ("repeats_absorbed", models.IntegerField(default=0)),
                ("compensations", models.IntegerField(default=0)),
                ("compensated", models.IntegerField(default=0)),
                ("compensations_failed", models.IntegerField(default=0)),
                ("false_success", models.IntegerField(default=0)),
                ("reviewed", models.IntegerField(default=0)),
                ("complete_records", models.IntegerField(default=0)),
                ("readings", models.IntegerField(default=0)),
                ("never_ran", models.IntegerField(default=0)),
                ("answered", models.IntegerField(default=0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "span",
                        "start",
                        "tool",
                        "agent",
                        "side_effect_class",
                        "version",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("span", models.SmallIntegerField()),
                ("start", models.DateTimeField()),
                ("calls", models.IntegerField(default=0)),
                ("calls_accepted", models.IntegerField(default=0)),
                ("calls_undisclosed", models.IntegerField(default=0)),
                ("calls_valid", models.IntegerField(default=0)),
                ("calls_failed", models.IntegerField(default=0)),
                ("calls_arguments", models.IntegerField(default=0)),
                ("calls_phantom", models.IntegerField(default=0)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="NoticeCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("read_to", models.DateTimeField()),
                ("recent", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="NoticeSettings",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("document", models.JSONField()),
                ("changed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="NoticeWish",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "actor_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("email", models.JSONField(default=dict)),
                ("digest_min", models.IntegerField(null=True)),
                ("quiet_from", models.TimeField(null=True)),
                ("quiet_until", models.TimeField(null=True)),
                ("zone", models.CharField(default="UTC", max_length=64)),
                ("urgent_passes", models.BooleanField(default=True)),
                ("changed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="RecordedMessage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "recording_id",
                        "conversation",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("recording_id", models.UUIDField()),
                ("conversation", models.IntegerField()),
                ("number", models.IntegerField()),
                ("role", models.CharField(max_length=16)),
                ("text", models.CharField(max_length=10000)),
                ("length", models.IntegerField()),
                ("calls", models.JSONField()),
                ("answers", models.JSONField()),
                ("claims", models.JSONField()),
                ("corrected", models.CharField(max_length=10000)),
            ],
        ),
        migrations.CreateModel(
            name="SearchCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("read_to", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="TraceCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("log", models.IntegerField()),
                ("index", models.BigIntegerField()),
                ("reports_to", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("single_keys", models.BooleanField(default=True)),
                ("theme", models.CharField(default="auto", max_length=8)),
                ("zone", models.CharField(db_default="", default="", max_length=64)),
                ("hides_guide", models.BooleanField(db_default=False, default=False)),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("rule_id", models.UUIDField(null=True)),
                ("about", models.CharField(max_length=160)),
                ("version", models.CharField(max_length=64)),
                ("previous", models.CharField(max_length=64)),
                ("said", models.CharField(max_length=1000)),
                ("raised_at", models.DateTimeField()),
                ("cleared_said", models.CharField(default="", max_length=1000)),
                ("cleared_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("about", ""), ("rule_id__isnull", False)),
                            models.Q(("rule_id__isnull", True), models.Q(("about", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="alert_is_of_a_rule_or_a_regression",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_at__isnull", True), ("rule_id__isnull", False)),
                        fields=("tenant_id", "rule_id"),
                        name="alert_one_open_per_rule",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_at__isnull", True), ("rule_id__isnull", True)),
                        fields=("tenant_id", "about"),
                        name="alert_one_open_per_regression",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("metric", models.CharField(max_length=4)),
                ("tool", models.CharField(max_length=200)),
                ("agent", models.CharField(max_length=128)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("window_h", models.IntegerField()),
                ("raise_at", models.IntegerField()),
                ("clear_at", models.IntegerField()),
                ("least_cases", models.IntegerField()),
                ("hold_min", models.IntegerField()),
                ("past_since", models.DateTimeField(null=True)),
                ("made_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("clear_at__gte", 0),
                            ("clear_at__lte", 10000),
                            ("raise_at__gte", 0),
                            ("raise_at__lte", 10000),
                            models.Q(("raise_at", models.F("clear_at")), _negated=True),
                        ),
                        name="alert_rule_has_two_thresholds",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("hold_min__gte", 0), ("least_cases__gte", 1), ("window_h__gte", 1)),
                        name="alert_rule_looks_at_something",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AnsweredWrite",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "caller", "key_hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("caller", models.UUIDField()),
                ("key_hash", models.CharField(max_length=64)),
                ("request_hash", models.CharField(max_length=64)),
                ("status", models.SmallIntegerField(default=0)),
                ("body", models.BinaryField(default=b"")),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="answered_write_by_age")],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=8)),
                ("name", models.CharField(max_length=100)),
                ("hash", models.CharField(max_length=64)),
                ("actor_id", models.UUIDField()),
                ("scopes", models.JSONField(default=list)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["hash"], name="api_key_by_hash")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["agent", "exec", "oper", "audit"])),
                        name="api_key_kind_is_known",
                    ),
                    models.UniqueConstraint(fields=("tenant_id", "hash"), name="api_key_one_per_hash"),
                    models.UniqueConstraint(fields=("tenant_id", "actor_id"), name="api_key_one_per_actor"),
                ],
            },
        ),
        migrations.CreateModel(
            name="CostBudget",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("amount", models.DecimalField(decimal_places=8, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("share", models.SmallIntegerField()),
                ("set_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("told_month", models.CharField(default="", max_length=7)),
                ("told", models.CharField(default="", max_length=6)),
                ("said", models.CharField(default="", max_length=300)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("tenant_id", "currency"),
                        name="cost_budget_one_a_currency",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gt", 0), ("share__gte", 1), ("share__lte", 100)),
                        name="cost_budget_is_an_amount",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EventDestination",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("name", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("log", models.IntegerField()),
                ("index", models.BigIntegerField()),
                ("sent", models.BigIntegerField(default=0)),
                ("refused", models.BigIntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("fault", models.CharField(default="", max_length=200)),
                ("retry_at", models.DateTimeField(null=True)),
                ("lease", models.UUIDField(null=True)),
                ("leased_until", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("tenant_id", "name"),
                        name="event_destination_once_by_name",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("kind", models.CharField(max_length=32)),
                ("risk", models.CharField(max_length=6)),
                ("about_kind", models.CharField(max_length=20)),
                ("about_id", models.UUIDField()),
                ("source_id", models.UUIDField()),
                ("raised_at", models.DateTimeField()),
                ("read_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "actor_id", "id"], name="message_by_person"),
                    models.Index(
                        condition=models.Q(("read_at__isnull", True)),
                        fields=["tenant_id", "actor_id", "id"],
                        name="message_unread",
                    ),
                    models.Index(fields=["tenant_id", "about_id", "actor_id"], name="message_by_subject"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "source_id", "actor_id"), name="message_once_to_each")
                ],
            },
        ),
        migrations.CreateModel(
            name="MetricAction",
            fields=[
                ("tool", models.CharField(max_length=200)),
                ("agent", models.CharField(max_length=128)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("version", models.CharField(max_length=64)),
                ("actions", models.IntegerField(default=0)),
                ("executed", models.IntegerField(default=0)),
                ("verified_success", models.IntegerField(default=0)),
                ("unchanged", models.IntegerField(default=0)),
                ("ended_failed", models.IntegerField(default=0)),
                ("ended_reversed", models.IntegerField(default=0)),
                ("ended_by_word", models.IntegerField(default=0)),
                ("unsettled", models.IntegerField(default=0)),
                ("verification_failed", models.IntegerField(default=0)),
                ("read_back", models.IntegerField(default=0)),
                ("mismatched", models.IntegerField(default=0)),
                ("stale_reads", models.IntegerField(default=0)),
                ("stale_state", models.IntegerField(default=0)),
                ("partial", models.IntegerField(default=0)),
                ("pending", models.IntegerField(default=0)),
                ("pending_over_sla", models.IntegerField(default=0)),
                ("unknown", models.IntegerField(default=0)),
                ("duplicated", models.IntegerField(default=0)),
                ("repeats", models.IntegerField(default=0)),
                ("repeats_absorbed", models.IntegerField(default=0)),
                ("compensations", models.IntegerField(default=0)),
                ("compensated", models.IntegerField(default=0)),
                ("compensations_failed", models.IntegerField(default=0)),
                ("false_success", models.IntegerField(default=0)),
                ("reviewed", models.IntegerField(default=0)),
                ("complete_records", models.IntegerField(default=0)),
                ("readings", models.IntegerField(default=0)),
                ("never_ran", models.IntegerField(default=0)),
                ("answered", models.IntegerField(default=0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "action_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("hour", models.DateTimeField()),
                ("verification_ms", models.BigIntegerField(null=True)),
                ("reconcile_ms", models.BigIntegerField(null=True)),
                ("call_failed", models.IntegerField(db_default=0, default=0)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "hour", "action_id"], name="metric_action_by_hour")],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("topic", models.CharField(default="alarm", max_length=8)),
                ("channel", models.CharField(max_length=8)),
                ("kind", models.CharField(max_length=32)),
                ("about_id", models.UUIDField()),
                ("actor_id", models.UUIDField(null=True)),
                ("risk", models.CharField(default="", max_length=6)),
                ("lines", models.JSONField(default=list)),
                ("raised_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("attempts", models.IntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("given_up_at", models.DateTimeField(null=True)),
                ("fault", models.CharField(default="", max_length=200)),
                ("posted", models.CharField(db_default="", default="", max_length=64)),
                ("waiting", models.IntegerField(db_default=0, default=0)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("given_up_at__isnull", True), ("sent_at__isnull", True)),
                        fields=["tenant_id", "due_at"],
                        name="notice_due",
                    ),
                    models.Index(
                        condition=models.Q(("given_up_at__isnull", False)),
                        fields=["tenant_id", "id"],
                        name="notice_undelivered",
                    ),
                    models.Index(fields=["tenant_id", "actor_id", "channel", "raised_at"], name="notice_lately"),
                    models.Index(
                        condition=models.Q(("posted", ""), _negated=True),
                        fields=["tenant_id", "id"],
                        name="notice_posted",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant_id", "about_id", "channel"), name="notice_once_by_each_channel"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PageView",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("kind", models.CharField(max_length=12)),
                ("thing_id", models.UUIDField()),
                ("about_id", models.UUIDField(null=True)),
                ("slot", models.DateTimeField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "console_sighting",
                "indexes": [
                    models.Index(fields=["tenant_id", "actor_id", "id"], name="sighting_by_person"),
                    models.Index(fields=["tenant_id", "thing_id", "id"], name="sighting_by_thing"),
                    models.Index(fields=["tenant_id", "about_id", "id"], name="sighting_by_about"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant_id", "actor_id", "thing_id", "slot"), name="sighting_once_in_a_while"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Price",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=16)),
                ("about", models.CharField(max_length=128)),
                ("agent", models.CharField(max_length=128)),
                ("amount", models.DecimalField(decimal_places=8, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("payer", models.CharField(max_length=100)),
                ("set_at", models.DateTimeField()),
                ("valid_from", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("valid_from__gte", models.F("set_at"))), name="price_is_not_of_the_past"
                    ),
                    models.CheckConstraint(condition=models.Q(("amount__gte", 0)), name="price_is_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="PushDevice",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("address", models.CharField(max_length=1000)),
                ("name", models.CharField(max_length=60)),
                ("added_at", models.DateTimeField()),
                ("reached_at", models.DateTimeField(null=True)),
                ("reached_by", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "actor_id"], name="push_device_by_person")],
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "address"), name="push_device_once")],
            },
        ),
        migrations.CreateModel(
            name="RecordedConversation",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "recording_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("recording_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("label", models.CharField(max_length=300)),
                ("path", models.CharField(max_length=300)),
                ("format", models.CharField(max_length=32)),
                ("messages", models.IntegerField()),
                ("calls", models.IntegerField()),
                ("false_claims", models.IntegerField()),
                ("severity", models.IntegerField()),
                ("tools_known", models.BooleanField()),
                ("kinds", models.JSONField()),
                ("codes", models.JSONField()),
                ("findings", models.JSONField()),
                ("unread", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "recording_id", "-severity", "number"], name="recorded_by_severity"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RecordedWord",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "recording_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("recording_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("word", models.TextField(db_collation="C")),
                (
                    "conversations",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "word", "recording_id"], name="recorded_words")],
            },
        ),
        migrations.CreateModel(
            name="Recording",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("file_name", models.CharField(max_length=300)),
                ("digest", models.CharField(max_length=64)),
                ("size", models.BigIntegerField()),
                ("trust", models.CharField(max_length=8)),
                ("version", models.IntegerField()),
                ("contracts", models.CharField(max_length=64)),
                ("conversations", models.IntegerField()),
                ("messages", models.IntegerField()),
                ("calls", models.IntegerField()),
                ("with_findings", models.IntegerField()),
                ("false_claims", models.IntegerField()),
                ("faults", models.IntegerField()),
                ("totals", models.JSONField()),
                ("unread", models.JSONField()),
                ("named", models.UUIDField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("digest", ""), _negated=True),
                        fields=("tenant_id", "digest"),
                        name="recording_once_by_its_digest",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("page", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(max_length=1000)),
                ("owner", models.UUIDField()),
                ("shared", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant_id", "page", "owner", "name"), name="saved_view_name_is_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchTerm",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "action_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("number", models.SmallIntegerField()),
                ("term", models.CharField(db_collation="C", max_length=72)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "term", "action_id"], name="search_term_by_word")],
            },
        ),
        migrations.CreateModel(
            name="SpentProof",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "jti", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("jti", models.CharField(max_length=128)),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="spent_proof_by_age")],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("is_reviewer", models.BooleanField(default=False)),
                ("is_operator", models.BooleanField(default=False)),
                ("is_compliance", models.BooleanField(default=False)),
                ("is_administrator", models.BooleanField(default=False)),
                ("groups", models.JSONField(default=list)),
                ("person_id", models.UUIDField()),
                ("given_by", models.UUIDField(null=True)),
                ("joined_at", models.DateTimeField(null=True)),
                ("invite_hash", models.CharField(default="", max_length=64)),
                ("invite_until", models.DateTimeField(null=True)),
                ("proposal", models.JSONField(null=True)),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "user"), name="membership_one_per_tenant"),
                    models.UniqueConstraint(fields=("tenant_id", "actor_id"), name="membership_one_per_actor"),
                ],
            },
        ),
    ]
